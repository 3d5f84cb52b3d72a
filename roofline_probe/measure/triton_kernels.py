"""Launches the streaming kernels in Triton, for GPUs: one block of contiguous elements a program.

Block sizes and warps are those that came out best on an H200 (``benchmarks/measure_gpu.py`` prints the field); each is
one candidate among torch's own kernels, and the best median counts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

CONFIGS: dict[str, tuple[tuple[int, int], ...]] = {
    "copy": ((1024, 8),),
    "triad": ((1024, 8), (16384, 8)),
    "read": ((4096, 8), (8192, 8)),
    "write": ((1024, 8),),
}
"""(elements a program, warps) per pattern, best first."""


@cache
def kernels() -> dict[str, Any] | None:
    """The kernels by pattern (compiled at first use), or None where Triton is not installed."""
    try:
        from roofline_probe.measure import triton_jit
    except ImportError:
        return None
    return {pattern: getattr(triton_jit, pattern) for pattern in CONFIGS}


def launcher(pattern: str, block: int, warps: int, arrays: list[Any], scale: float) -> Callable[[], object]:
    """One execution of a pattern over float32 arrays (inputs first, output last)."""
    found = kernels()
    if found is None:
        raise ModuleNotFoundError("triton")
    kernel, n = found[pattern], arrays[0].numel()
    grid = (-(-n // block),)
    scalars = {"triad": (scale,), "write": (scale,)}.get(pattern, ())

    def launch() -> None:
        kernel[grid](*arrays, *scalars, n, block=block, num_warps=warps)

    return launch
