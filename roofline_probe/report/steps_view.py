"""``--steps``: every step on one line, the ones that do not count greyed out with their reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.text import Text

from roofline_probe.point import Point
from roofline_probe.report.rate_unit import RateUnit
from roofline_probe.report.tables import heading
from roofline_probe.report.text import DASH, clean, gigabytes, number, significant, tight_percent

Cell = Callable[[Point], str]


def _time(point: Point) -> str:
    """The time of day; the line's number where the log has no clock."""
    time = point.step.time
    return f"line {point.step.line_no}" if time is None else clean(time.partition("T")[2] or time)[:8]


def _tokens(point: Point) -> str:
    rates = [rate for rate in (point.step.prompt_tok_s, point.step.gen_tok_s) if rate is not None]
    return significant(sum(rates)) if rates else DASH


def _tflops(point: Point) -> float | None:
    return point.recounted_tflops if point.recounted_tflops is not None else point.step.tflops


def _gbps(point: Point) -> float | None:
    return point.recounted_gbps if point.recounted_gbps is not None else point.step.gbps


def _columns(unit: RateUnit) -> list[tuple[str, int, Cell]]:
    """Header, width (negative: to the left), cell. They fill 80 columns; what a wider window adds is below."""
    return [
        ("time", 8, _time),
        ("rank", -7, lambda p: clean(p.step.rank or "", 12)),
        ("kind", -7, lambda p: p.step.kind),
        ("run", 4, lambda p: number(p.step.running)),
        ("tok/s", 6, _tokens),
        (unit.short, 5, lambda p: unit.significant(_tflops(p))),
        ("GB/s", 6, lambda p: gigabytes(_gbps(p))),
        ("FLOP/B", 6, lambda p: significant(p.intensity)),
        ("%pi", 4, lambda p: tight_percent(p.compute_fraction)),
        ("%beta", 5, lambda p: tight_percent(p.bandwidth_fraction)),
        ("%roof", 5, lambda p: tight_percent(p.roof_fraction)),
        ("bound", -7, lambda p: p.bound or DASH),
    ]


_WIDER: tuple[tuple[str, int, Cell], ...] = (
    ("attained", 8, lambda p: tight_percent(p.attained_fraction)),
    ("step ms", 8, lambda p: number(p.step_ms, 2)),
)
_FRACTIONS = ("%pi", "%beta", "%roof", "bound", "attained", "step ms")
"""A step that does not count shows its reason in place of these."""


def print_steps(points: Sequence[Point], unit: RateUnit, console: Console) -> None:
    """One line a step, each printed as it stands: a long log is not held back by column widths."""
    several = len({p.step.rank for p in points}) > 1
    columns = [c for c in _columns(unit) if c[0] != "rank" or several]
    columns += _WIDER if console.width >= 100 else ()
    heading(console, "Every step")
    console.print(Text("  " + " ".join(_pad(name, width) for name, width, _ in columns), style="dim"), no_wrap=True)
    for point in points:
        console.print(_line(point, columns), no_wrap=True, overflow="ellipsis")


def _line(point: Point, columns: Sequence[tuple[str, int, Cell]]) -> Text:
    if point.step.status == "steady":
        return Text("  " + " ".join(_pad(cell(point), width) for _, width, cell in columns))
    rates = " ".join(_pad(cell(point), width) for name, width, cell in columns if name not in _FRACTIONS)
    reason = clean(point.step.status_reason or "", 80)
    return Text(f"  {rates}  {point.step.status}{': ' + reason if reason else ''}", style="dim")


def _pad(text: str, width: int) -> str:
    return text.ljust(-width) if width < 0 else text.rjust(width)
