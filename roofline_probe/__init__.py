"""Measure a device's own roofline, then put vLLM's and SGLang's serving steps under it.

>>> result = roofline_probe.compare("vllm.log", "h200")     # doctest: +SKIP
>>> result.summary.kinds[0].attained_fraction               # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roofline_probe.comparison import Comparison, compare

__version__ = "0.1.0"
__all__ = ["Comparison", "__version__", "compare"]


def __getattr__(name: str) -> Any:
    """``compare`` and ``Comparison`` are imported when first used: ``--version`` needs none of what they need."""
    if name in ("Comparison", "compare"):
        from roofline_probe import comparison

        return getattr(comparison, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
