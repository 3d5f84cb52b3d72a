"""``probe compare --html``: the whole report as one page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from roofline_probe.point import Bin, Point, Roof
from roofline_probe.profile import Profile
from roofline_probe.report import answer, chart, finding_words, html, words
from roofline_probe.report.html import Cell, Column, Page, Table, count_cell, number_cell, percent_cell, words_cell
from roofline_probe.report.text import clean, count, model_name, number, span, tera

if TYPE_CHECKING:
    from roofline_probe.comparison import Comparison
    from roofline_probe.report.charts.panel import Figure

SLOWEST = 200
"""Windows in the table of the page; all of them are in ``--csv`` and ``--json``."""


def report_page(result: Comparison) -> str:
    """The page of a comparison that kept its points.

    Raises:
        UsageError: the ``plot`` extra is not installed.
    """
    roof = result.roof
    found = result.findings
    left_out = tuple(f"Left out of every figure: {sentence}." for sentence in words.left_out(result))
    page = Page(
        title=title_of(result),
        subtitle=f"{words.roof_origin(roof)}: {words.roof_figures(roof)}",
        cards=tuple(_card(row, roof) for row in result.summary.kinds),
        words=(
            ("", tuple(answer.answer(found))),
            ("What would help", tuple(finding_words.advice(found))),
        ),
        warnings=tuple(words.warning_sentences(result)),
        notes=(*answer.notes(found), *left_out),
        tables=tuple(_tables(result)),
        facts=tuple(_facts(result)),
    )
    return html.render(page, figure_of(result))


def figure_of(result: Comparison) -> Figure:
    """The picture of a comparison that kept its points; ``--plot`` writes it alone."""
    shard = result.analysis.shard
    return chart.compare_figure(
        result.roof, result.profile, result.points, result.summary, title=title_of(result),
        model=shard.name if shard is not None else "", tp=shard.tp if shard is not None else 1,
    )  # fmt: skip


def title_of(result: Comparison) -> str:
    """``Meta-Llama-3-8B-Instruct on vllm 0.24.0: server.log``."""
    named = [fact for fact in result.facts if fact.model]
    sources = list(dict.fromkeys(fact.source for fact in result.facts))
    source = clean(sources[0].replace("\\", "/").rsplit("/", 1)[-1], 60) if sources else "-"
    more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
    if not named:
        return f"{source}{more}"
    model = clean(model_name(named[-1].model), 60)
    engine = " ".join(part for part in (named[-1].engine, named[-1].engine_version) if part)
    return f"{model} on {clean(engine, 40)}: {source}{more}"


def _card(row: Bin, roof: Roof) -> tuple[str, str, str]:
    return row.kind, words.headline_words(row, roof)[1], words.rate_words(row, roof)


# ---- tables ----------------------------------------------------------------------------------------------------------


def _tables(result: Comparison) -> list[Table]:
    tables = [
        _bin_table("By kind", result.summary.kinds),
        _bin_table("By kind, batch and context", result.summary.bins),
        _bin_table("By rank", result.summary.ranks),
        _slowest(result.points),
        _roofs(result.roof, result.profile),
    ]
    return [table for table in tables if table.rows]


_BIN_COLUMNS = (
    Column("kind", text=True), Column("rank", text=True), Column("batch"), Column("context"), Column("windows"),
    Column("seconds"), Column("tok/s"), Column("attained %"), Column("roof fraction %"), Column("of pi %"),
    Column("of beta %"), Column("step ms"), Column("GEMMs"), Column("KV"), Column("link"), Column("rest"),
    Column("TFLOP/s recounted"), Column("GB/s recounted"), Column("TFLOP/s engine"), Column("GB/s engine"),
    Column("bound", text=True),
)  # fmt: skip


def _bin_table(title: str, bins: Sequence[Bin]) -> Table:
    note = "work over time, steady windows only; recounted: weights and KV, one accounting for both engines"
    if any(b.estimated for b in bins):
        note += "; GEMMs estimated from the roofs"
    return Table(title, _BIN_COLUMNS, html.rows_of([_bin_row(b) for b in bins]), note)


def _bin_row(b: Bin) -> tuple[Cell, ...]:
    return (
        words_cell(b.kind),
        words_cell(b.rank if b.rank is not None else ""),
        _span_cell(b.batch_low, b.batch_high),
        _span_cell(b.context_low, b.context_high),
        count_cell(b.windows),
        number_cell(b.seconds, 3),
        number_cell(b.tok_s, 3),
        percent_cell(b.attained_fraction),
        percent_cell(b.roof_fraction),
        percent_cell(b.compute_fraction),
        percent_cell(b.bandwidth_fraction),
        *(_ms_cell(ms) for ms in (b.step_ms, b.gemm_ms, b.kv_ms, b.link_ms, b.rest_ms)),
        *(number_cell(v) for v in (b.recounted_tflops, b.recounted_gbps, b.engine_tflops, b.engine_gbps)),
        words_cell(b.bound or ""),
    )


def _ms_cell(ms: float | None) -> Cell:
    return number_cell(None) if ms is None else Cell(number(ms, 2), repr(float(ms)))


def _span_cell(low: int | None, high: int | None) -> Cell:
    return Cell(span(low, high), "" if low is None else str(low))


_STEP_COLUMNS = (
    Column("line"), Column("time", text=True), Column("kind", text=True), Column("rank", text=True), Column("batch"),
    Column("context"), Column("attained %"), Column("roof fraction %"), Column("step ms"), Column("rest ms"),
    Column("tok/s generated"), Column("tok/s prompt"), Column("waiting"), Column("window s"),
)  # fmt: skip


def _slowest(points: Sequence[Point]) -> Table:
    judged = [(p.attained_fraction, p) for p in points if p.step.status == "steady" and p.attained_fraction is not None]
    lowest = sorted(judged, key=lambda pair: pair[0])[:SLOWEST]
    note = (
        f"the lowest {len(lowest):,} of {count(len(judged), 'steady window')} that could be taken apart; --csv has all"
    )
    return Table("Slowest windows", _STEP_COLUMNS, html.rows_of([_step_row(p) for _, p in lowest]), note)


def _step_row(p: Point) -> tuple[Cell, ...]:
    step = p.step
    return (
        count_cell(step.line_no),
        words_cell((step.time or "").replace("T", " ")),
        words_cell(step.kind),
        words_cell(step.rank if step.rank is not None else ""),
        number_cell(p.batch, 3),
        number_cell(p.context, 3),
        percent_cell(p.attained_fraction),
        percent_cell(p.roof_fraction),
        _ms_cell(p.step_ms),
        _ms_cell(p.rest_ms),
        number_cell(step.gen_tok_s),
        number_cell(step.prompt_tok_s),
        count_cell(step.waiting if step.waiting is not None else step.queue),
        number_cell(step.window_s),
    )


def _roofs(roof: Roof, profile: Profile | None) -> Table:
    sheet = profile.datasheet if profile else None
    rows = [
        ("pi burst", roof.pi_burst_tflops, sheet.tflops.get(roof.dtype) if sheet else None, "TFLOP/s"),
        ("pi sustained", roof.pi_sustained_tflops, sheet.tflops.get(roof.dtype) if sheet else None, "TFLOP/s"),
        ("read beta", roof.read_beta_gbps, sheet.gbps if sheet else None, "GB/s"),
        ("beta", roof.beta_gbps, sheet.gbps if sheet else None, "GB/s"),
    ]
    columns = (Column("roof", text=True), Column(roof.origin), Column("datasheet"), Column("of datasheet %"),
               Column("unit", text=True))  # fmt: skip
    cells = [
        (words_cell(name), number_cell(value), number_cell(published),
         percent_cell(value / published if published else None), words_cell(unit))
        for name, value, published, unit in rows
        if value is not None
    ]  # fmt: skip
    return Table(f"Roof, {clean(roof.dtype, 10)}", columns, html.rows_of(cells))


# ---- environment -----------------------------------------------------------------------------------------------------

Pairs = tuple[tuple[str, str], ...]


def _facts(result: Comparison) -> list[tuple[str, Pairs]]:
    found: list[tuple[str, Pairs]] = [("The log", tuple(_log_facts(result)))]
    if result.profile is not None:
        found.append(("The card and what measured it", tuple(_profile_facts(result.profile))))
    return found


def _log_facts(result: Comparison) -> list[tuple[str, str]]:
    pairs = [(clean(f.source, 100), words.log_line(f)) for f in result.facts[:20] if f.engine or f.model]
    report = result.report
    read = f"{report.lines:,} lines, {report.candidate_lines:,} looked at, {report.steps:,} steps"
    return [*pairs, ("windows", words.span_line(result.summary)), ("read", read)]


def _profile_facts(profile: Profile) -> list[tuple[str, str]]:
    device, environment = profile.device, profile.environment
    values = (
        ("device", device.name), ("measured", profile.created), ("driver", device.driver),
        ("power limit", f"{device.power_limit_w:g} W" if device.power_limit_w else None),
        ("memory", f"{device.memory_bytes / 2**30:.0f} GiB" if device.memory_bytes else None),
        ("read beta", tera(profile.read_beta_gbps) if profile.read_beta_gbps else None),
        ("torch", environment.torch), ("runtime", environment.runtime), ("platform", environment.platform),
        ("command", environment.command_line), ("probe", environment.probe_version),
    )  # fmt: skip
    return [(name, clean(value, 200)) for name, value in values if value]
