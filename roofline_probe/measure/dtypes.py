"""Compute types by their short and their torch names, with the sizes and the error that each may show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from roofline_probe.errors import UsageError


@dataclass(frozen=True, slots=True)
class DtypeTraits:
    """What a GEMM of this type reads, writes and may deviate by."""

    name: str
    input_bytes: float
    output_bytes: float
    tolerance: float
    """Relative error ‖out − ref‖ / ‖ref‖ against float64: a few units of the output's last place (bf16 2**-9 each,
    tf32's 10-bit mantissa), plus fp8's reduced accumulation. int8 accumulates exactly."""
    aliases: tuple[str, ...]


DTYPES: dict[str, DtypeTraits] = {
    traits.name: traits
    for traits in (
        DtypeTraits("bf16", 2, 2, 1e-2, ("bfloat16",)),
        DtypeTraits("fp8", 1, 2, 2e-2, ("float8", "float8_e4m3fn", "float8_e4m3", "fp8_e4m3", "e4m3")),
        DtypeTraits("fp16", 2, 2, 2e-3, ("float16", "half")),
        DtypeTraits("tf32", 4, 4, 2e-3, ("tensorfloat32",)),
        DtypeTraits("fp32", 4, 4, 1e-4, ("float32", "float", "single")),
        DtypeTraits("int8", 1, 4, 0.0, ("i8",)),
        DtypeTraits("fp4", 0.5, 2, 2e-2, ("nvfp4", "float4", "float4_e2m1fn_x2", "e2m1")),
    )
}
_BY_ALIAS = {alias: traits.name for traits in DTYPES.values() for alias in (traits.name, *traits.aliases)}


def dtype_name(text: str) -> str:
    """The short name of a dtype given in any usual spelling (``torch.bfloat16``, ``bfloat16``, ``BF16``).

    Raises:
        UsageError: not a dtype this tool measures.
    """
    name = _BY_ALIAS.get(text.strip().lower().removeprefix("torch."))
    if name is None:
        raise UsageError(f"{text} is not a dtype that can be measured; choose from {', '.join(DTYPES)} or all.")
    return name


def parse_dtypes(texts: Iterable[str]) -> tuple[str, ...]:
    """Short names of a list of dtypes, each of which may itself be a comma list; ``all`` means every one.

    Raises:
        UsageError: one of them is not a dtype this tool measures.
    """
    words = [word for text in texts for word in text.split(",")]
    if not all(word.strip() for word in words):
        raise UsageError(f"A dtype is missing beside a comma; choose from {', '.join(DTYPES)} or all.")
    named = [word for word in words if word.strip().lower() != "all"]
    names = tuple(dict.fromkeys(dtype_name(word) for word in named))
    return names if len(named) == len(words) else tuple(DTYPES)
