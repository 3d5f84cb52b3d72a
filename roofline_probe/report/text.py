"""Text that is safe to show, and numbers as people read them.

A log is untrusted: a model's name may hold escape sequences, rich markup or a right-to-left override. Everything that
comes from one passes through ``clean`` before it reaches a terminal or a page.
"""

from __future__ import annotations

import math
import unicodedata

DASH = "–"
"""Stands for a number that is not known; the reason is printed near it. Never a zero."""


def clean(text: object, limit: int = 200) -> str:
    """``text`` on one line with everything invisible written out as ``\\x1b`` and the like, cut at ``limit``."""
    shown = "".join(_visible(character) for character in str(text)[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def _visible(character: str) -> str:
    """Itself if it can be seen; controls, bidi overrides, zero-width characters and the like written out as escapes."""
    if character.isprintable():
        return character
    if unicodedata.category(character) == "Zs":
        return " "
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def number(value: float | None, digits: int = 0) -> str:
    """``1234.5`` as ``1,234`` (or with ``digits`` decimals), no ``-0.00``; a dash if not known."""
    return DASH if value is None else _unsigned_zero(f"{value:,.{digits}f}")


def _unsigned_zero(text: str) -> str:
    return text.removeprefix("-") if text.strip("-0.") in ("", " %", "%") else text


def significant(value: float | None, figures: int = 3) -> str:
    """About ``figures`` significant digits without an exponent: 0.00713, 4.48, 44.8, 448, 4,481."""
    if value is None:
        return DASH
    decimals = figures - 1 - math.floor(math.log10(abs(value))) if value else 0
    return _unsigned_zero(f"{value:,.{max(0, decimals)}f}")


def percent(fraction: float | None, digits: int = 0) -> str:
    """A fraction as a percentage. Not clamped: 1.13 is ``113 %``."""
    return DASH if fraction is None else _unsigned_zero(f"{fraction * 100:.{digits}f} %")


def tight_percent(fraction: float | None) -> str:
    """As ``percent``, for a column: ``84%``."""
    return percent(fraction).replace(" ", "")


def tera(gbps: float | None) -> str:
    """GB/s as TB/s with two decimals where it is that large, else GB/s."""
    if gbps is None:
        return DASH
    return f"{gbps / 1000:.2f} TB/s" if gbps >= 1000 else f"{significant(gbps)} GB/s"


def flops(tflops: float | None) -> str:
    """TFLOP/s, or GFLOP/s below one."""
    if tflops is None:
        return DASH
    return f"{significant(tflops)} TFLOP/s" if tflops >= 1 else f"{significant(tflops * 1000)} GFLOP/s"


def gigabytes(gbps: float | None) -> str:
    """GB/s for a column: whole where it is large, three digits where a CPU's memory is meant."""
    return number(gbps) if gbps is None or gbps >= 1000 else significant(gbps)


def count(n: int, one: str, many: str | None = None) -> str:
    """``1 window``, ``2 windows``."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def span(low: int | None, high: int | None) -> str:
    """A bin's bounds: ``32``, ``17–32``, ``> 256``, or a dash where the log gave none."""
    if low is None and high is None:
        return DASH
    if high is None:
        return f"≥ {low:,}"
    if low is None:
        return f"≤ {high:,}"
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def tokens_span(low: int | None, high: int | None) -> str:
    """A range of context lengths in few characters: ``288–967``, ``1.3–2.5k``, ``12–31k``."""
    if low is None or high is None or high < 1000:
        return span(low, high)
    digits = 1 if high < 10_000 else 0
    ends = [f"{n / 1000:.{digits}f}" for n in (low, high)]
    return f"{ends[0]}k" if ends[0] == ends[1] else f"{ends[0]}–{ends[1]}k"


def model_name(model: str | None) -> str:
    """The last part of a path or hub name, where the weights lie being no part of it; empty if not known."""
    return (model or "").replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]


def row_name(kind: str, low: int | None, high: int | None) -> str:
    """``decode 32``, ``prefill 3.0–3.8k`` (tokens a step), or the kind alone where the log tells neither."""
    batch = (tokens_span if kind == "prefill" else span)(low, high)
    return clean(kind, 10) if batch == DASH else f"{clean(kind, 10)} {batch}"


def listed(items: list[str], last: str = "and") -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {last} {items[-1]}"


def bar(fraction: float | None, width: int, ascii_only: bool = False) -> str:
    """A bar ``width`` cells wide, full at 1; what lies above 1 is in the number beside it, which is not clamped.

    ``ascii_only`` is for a terminal whose encoding has no block characters (``LANG=C``).
    """
    cells = max(0.0, min(1.0, fraction or 0.0)) * width
    if ascii_only:
        return ("#" * round(cells)).ljust(width, ".")
    whole = int(cells)
    eighths = int((cells - whole) * 8)
    return ("█" * whole + (" ▏▎▍▌▋▊▉"[eighths] if eighths else "")).ljust(width)
