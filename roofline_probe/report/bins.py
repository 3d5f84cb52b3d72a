"""The tables of ``probe compare``: one row per kind, batch and context, with as many columns as the width carries.

Where everything fits, rates, percentages, the step taken apart and the engine's own count stand in one table; in a
narrower window the step is a second table, and below that the least needed columns go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from roofline_probe.findings import mostly_rounding
from roofline_probe.point import Bin, Roof
from roofline_probe.report.console import ascii_only
from roofline_probe.report.rate_unit import RateUnit, unit_of
from roofline_probe.report.tables import INDENT, add_rows, heading, indented, make_table
from roofline_probe.report.text import DASH, clean, gigabytes, number, row_name, significant, tight_percent, tokens_span
from roofline_probe.report.words import denominators

SPACINGS = (2, 1)
"""Blanks between columns: one where two would cost a column."""
BAR_LEAST, BAR_MOST = 8, 50
KIND_STYLES = {"decode": "cyan", "prefill": "magenta", "mixed": "blue"}


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its header, the cell of a bin, its style, and how easily it is given up in a narrow window."""

    header: str
    cell: Callable[[Bin], str]
    style: str = ""
    spare: int = 0
    """The highest goes first; 0 stays."""

    def width(self, rows: Sequence[Bin]) -> int:
        """Cells it needs."""
        header = max(len(line) for line in self.header.split("\n"))
        return max(header, *(len(self.cell(row)) for row in rows))


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a step's time, with the sign and colour of its piece of the bar."""

    name: str
    field: str
    style: str
    sign: str
    ascii_sign: str

    def milliseconds(self, row: Bin) -> str:
        """The cell of this part."""
        return number(getattr(row, self.field), 2)


PARTS = (
    Part("GEMMs", "gemm_ms", "cyan", "█", "G"),
    Part("KV", "kv_ms", "magenta", "▓", "K"),
    Part("link", "link_ms", "blue", "▒", "L"),
)
"""What no engine could avoid with these kernels; the rest of the step is what the engine adds."""


def print_bins(rows: Sequence[Bin], kinds: Sequence[Bin], roof: Roof, console: Console) -> None:
    """``rows`` with every figure the width carries; ``kinds`` for the two counts where the rows have no room."""
    divided_by = indented(Text(denominators(roof), style="dim"))
    room = console.width - INDENT
    unit = unit_of(roof.pi_tflops)
    rates = _rate_columns(rows, unit)
    step = _step_columns(rows)
    extra = _extra_columns(rows, unit)
    heading(console, "By kind, batch and context", _note(rows))
    if step and _width(rates + step, rows) + BAR_LEAST <= room:
        extra = _fitting(extra, rows, room - _width(rates + step, rows) - BAR_LEAST)
        _print_table(rows, rates + step + extra, room, console)
        console.print(divided_by)
        _print_legend(rows, console)
    else:
        extra = []
        _print_table(rows, _narrowed(rates, rows, room), room, console, bars=False)
        console.print(divided_by)
        if step:
            heading(console, "A step taken apart", "milliseconds")
            _print_table(rows, [*_name_columns(rows), *step], room, console)
            _print_legend(rows, console)
    if not any(column.header.startswith("engine's") for column in extra):
        _print_counts(kinds, unit, console)


def _note(rows: Sequence[Bin]) -> str:
    recounted = [row.recounted_tflops is not None or row.recounted_gbps is not None for row in rows]
    count = "recounted" if all(recounted) else "as the engine counts it" if not any(recounted) else "recounted if known"
    return f"steady windows only, {count}"


def tflops_of(row: Bin) -> float | None:
    """The recount where there is one, else the engine's own figure: what the percentages divide."""
    return row.recounted_tflops if row.recounted_tflops is not None else row.engine_tflops


def gbps_of(row: Bin) -> float | None:
    """As ``tflops_of``; an engine's own bandwidth stands in only where the fractions used it."""
    if row.recounted_gbps is not None or row.bandwidth_fraction is None:
        return row.recounted_gbps
    return row.engine_gbps


def attained(row: Bin) -> str:
    """The headline fraction; ``~`` where the parts are estimated from the roofs."""
    mark = "~" if row.estimated and row.attained_fraction is not None else ""
    return mark + tight_percent(row.attained_fraction)


def _name(row: Bin) -> str:
    return row_name(row.kind, row.batch_low, row.batch_high)


def _name_columns(rows: Sequence[Bin]) -> list[Column]:
    tokens = any(row.kind == "prefill" and row.batch_high is not None for row in rows)
    columns = [Column("batch, or\ntokens" if tokens else "batch", _name)]
    if any(row.context_high is not None for row in rows):
        columns.append(Column("context", lambda row: tokens_span(row.context_low, row.context_high), spare=2))
    return columns


def _rate_columns(rows: Sequence[Bin], unit: RateUnit) -> list[Column]:
    columns = [
        *_name_columns(rows),
        Column("win-\ndows", lambda row: number(row.windows), "dim", spare=5),
        Column("tok/s", lambda row: significant(row.tok_s), spare=1),
        Column("GB/s", lambda row: gigabytes(gbps_of(row)), spare=4),
        Column("of\nbeta", lambda row: tight_percent(row.bandwidth_fraction)),
        Column(unit.short, lambda row: unit.significant(tflops_of(row)), spare=3),
        Column("of\npi", lambda row: tight_percent(row.compute_fraction)),
        Column("of\nroof", lambda row: tight_percent(row.roof_fraction)),
    ]
    if any(row.attained_fraction is not None for row in rows):
        columns.append(Column("attained", attained, "bold"))
    return columns


def _step_columns(rows: Sequence[Bin]) -> list[Column]:
    if not any(row.step_ms is not None for row in rows):
        return []
    parts = [Column(part.name, part.milliseconds, part.style) for part in _parts(rows)]
    step = Column("step ms", lambda row: number(row.step_ms, 2))
    return [step, *parts, Column("rest", lambda row: number(row.rest_ms, 2))]


def _parts(rows: Sequence[Bin]) -> list[Part]:
    """The parts that take any time: no column of zeros for a link that one card does not have."""
    return [part for part in PARTS if any((getattr(row, part.field) or 0) >= 0.005 for row in rows)]


def _extra_columns(rows: Sequence[Bin], unit: RateUnit) -> list[Column]:
    """In the order in which room is given to them."""
    return [
        Column("bound by", lambda row: row.bound or DASH),
        Column(f"engine's\n{unit.short}", lambda row: unit.significant(row.engine_tflops), "dim"),
        Column("engine's\nGB/s", lambda row: gigabytes(row.engine_gbps), "dim"),
        Column("FLOP/\nbyte", lambda row: significant(row.intensity), "dim"),
        Column("seconds", lambda row: number(row.seconds), "dim"),
    ]


def _width(columns: Sequence[Column], rows: Sequence[Bin], spacing: int = SPACINGS[0]) -> int:
    return sum(column.width(rows) + spacing for column in columns)


def _spacing(columns: Sequence[Column], rows: Sequence[Bin], room: int) -> int:
    return next((s for s in SPACINGS if _width(columns, rows, s) - s <= room), SPACINGS[-1])


def _fitting(columns: Sequence[Column], rows: Sequence[Bin], room: int) -> list[Column]:
    """As many as fit, from the front; the two counts of the engine only together."""
    chosen: list[Column] = []
    for column in columns:
        if _width([*chosen, column], rows) > room:
            break
        chosen.append(column)
    engines = [column for column in chosen if column.header.startswith("engine's")]
    return chosen if len(engines) != 1 else [column for column in chosen if column not in engines]


def _narrowed(columns: Sequence[Column], rows: Sequence[Bin], room: int) -> list[Column]:
    """Without the columns that are most easily spared, until the rest fits."""
    kept = list(columns)
    while _width(kept, rows, SPACINGS[-1]) - SPACINGS[-1] > room and any(column.spare for column in kept):
        kept.remove(max(kept, key=lambda column: column.spare))
    return kept


def _print_table(
    rows: Sequence[Bin], columns: Sequence[Column], room: int, console: Console, *, bars: bool = True
) -> None:
    spacing = _spacing(columns, rows, room)
    cells = min(BAR_MOST, room - _width(columns, rows, spacing)) if bars else 0
    drawn = cells >= BAR_LEAST and any(row.rest_ms is not None for row in rows)
    table = make_table([column.header for column in columns] + ([""] if drawn else []), spacing=spacing)
    for row in rows:
        line = [Text(column.cell(row), style=column.style) for column in columns]
        line[0].stylize(KIND_STYLES.get(row.kind, ""))
        table.add_row(*line, *([stacked_bar(row, cells, ascii_only(console))] if drawn else []))
    console.print(indented(table))


def stacked_bar(row: Bin, cells: int, plain: bool = False) -> Text:
    """The step's time as one bar: each part in its own sign and colour, so that it reads without colour too."""
    bar = Text()
    if not row.step_ms or row.gemm_ms is None or row.rest_ms is None:  # what is unknown is no rest
        return bar
    used, total = 0, 0.0
    for part in PARTS:
        total += getattr(row, part.field) or 0.0
        end = min(cells, round(total / row.step_ms * cells))
        bar.append((part.ascii_sign if plain else part.sign) * max(0, end - used), style=part.style)
        used = max(used, end)
    return bar.append(("." if plain else "·") * (cells - used), style="dim")


def _print_legend(rows: Sequence[Bin], console: Console) -> None:
    if all(row.rest_ms is None for row in rows):
        return
    plain = ascii_only(console)
    legend = Text("step = ", style="dim")
    for part in _parts(rows):
        legend.append(f"{part.ascii_sign if plain else part.sign} {part.name}", style=part.style).append(" + ")
    legend.append(f"{'.' if plain else '·'} engine's rest; attained = 1 − rest/step")
    console.print(indented(legend))


def _print_counts(rows: Sequence[Bin], unit: RateUnit, console: Console) -> None:
    """Two counts of the same work, beside each other and never mixed."""
    if not any(row.engine_tflops is not None and row.recounted_tflops is not None for row in rows):
        return
    heading(console, "As the engine counts it, and recounted", "the percentages above divide the recount")
    table = make_table(
        ["", f"engine\n{unit.short}", f"recount\n{unit.short}", "ratio", "engine\nGB/s", "recount\nGB/s", "ratio"]
    )
    console.print(indented(add_rows(table, (_count_row(row, unit) for row in rows))))


def _count_row(row: Bin, unit: RateUnit) -> list[str]:
    return [
        clean(row.kind, 10),
        unit.significant(row.engine_tflops),
        unit.significant(row.recounted_tflops),
        _ratio(row.engine, row.engine_tflops, row.recounted_tflops),
        gigabytes(row.engine_gbps),
        gigabytes(row.recounted_gbps),
        _ratio(row.engine, row.engine_gbps, row.recounted_gbps),
    ]


def _ratio(name: str, engine: float | None, recount: float | None) -> str:
    """A dash too where the engine's figure is a digit or so of what it prints: the ratio would be that rounding's."""
    known = engine and recount and not mostly_rounding(name, engine)
    return f"{engine / recount:.2f}×" if known and engine and recount else DASH
