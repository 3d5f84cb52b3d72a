"""The numbers of a finding, read by name: any may be missing, and a word comes from a log."""

from __future__ import annotations

from collections.abc import Mapping

from roofline_probe.diagnose import Number
from roofline_probe.report.text import clean, number, percent, significant

Numbers = Mapping[str, Number]


def figure_of(numbers: Numbers, name: str) -> float | None:
    """The figure ``name``; None where it is not known."""
    value = numbers.get(name)
    return float(value) if isinstance(value, (int, float)) else None


def whole_of(numbers: Numbers, name: str) -> int | None:
    """``figure_of``, rounded to a whole number."""
    value = figure_of(numbers, name)
    return None if value is None else round(value)


def text_of(numbers: Numbers, name: str) -> str:
    """The word ``name``, safe to show; empty where it is not known."""
    value = numbers.get(name)
    return "" if value is None else clean(value)


def ms_of(numbers: Numbers, name: str) -> str:
    """The figure ``name`` as ``4.27 ms``."""
    return f"{significant(figure_of(numbers, name))} ms"


def rows_of(numbers: Numbers, name: str) -> str:
    """The figure ``name`` as a batch: whole, but for one decimal where a mean of few is not."""
    value = figure_of(numbers, name)
    near = value is None or value >= 20 or abs(value - round(value)) < 0.05
    return number(value, 0 if near else 1)


def share_of(numbers: Numbers, name: str) -> str:
    """The share ``name`` in words: ``half``, ``a quarter``, else in percent."""
    share = figure_of(numbers, name)
    return {0.5: "half", 0.25: "a quarter"}.get(share or 0.0, percent(share))


def capital(text: str) -> str:
    """``text`` with its first letter raised, the others as they are."""
    return text[:1].upper() + text[1:]
