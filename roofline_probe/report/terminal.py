"""The report of ``probe compare`` on a terminal: which roof, the ten-second answer, the tables, what was left out, what
to be careful about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from log_parsers.step import LogFacts
from roofline_probe.point import Bin, Roof
from roofline_probe.report import answer, caveats, finding_words, words
from roofline_probe.report.bins import attained, print_bins, tflops_of
from roofline_probe.report.console import ascii_only, grade
from roofline_probe.report.rate_unit import RateUnit, unit_of
from roofline_probe.report.steps_view import print_steps
from roofline_probe.report.tables import INDENT, add_rows, bullets, facts, heading, indented, make_table
from roofline_probe.report.text import DASH, bar, clean, number, significant, tight_percent

if TYPE_CHECKING:
    from roofline_probe.comparison import Comparison

ATTAINED_MEANS = "attained: the part of a step that no engine can avoid"


def print_report(result: Comparison, console: Console, *, all_steps: bool = False) -> None:
    """Draw the whole report; ``all_steps`` adds every step before the end."""
    unit = unit_of(result.roof.pi_tflops)
    print_roof(result.roof, console)
    _print_log(result, console)
    _print_answer(result, console)
    if result.summary.bins:
        print_bins(result.summary.bins, result.summary.kinds, result.roof, console)
    if result.summary.ranks:
        _print_ranks(result.summary.ranks, unit, console)
    if all_steps:
        print_steps(result.points, unit, console)
    _print_list("Notes", answer.notes(result.findings), console)
    _print_list("Left out of every figure above", words.left_out(result), console)
    above = caveats.SENTENCES[caveats.WRONG_ROOF]
    care = [sentence for sentence in words.warning_sentences(result) if sentence != above]
    _print_list("Take care", care, console, "!", "yellow")


def print_roof(roof: Roof, console: Console) -> None:
    """The denominators: what every percentage below divides by; first of all, whether they are the wrong ones."""
    rows: list[tuple[str, str | Text]] = [("roof", Text(words.roof_origin(roof), style="bold"))]
    if caveats.WRONG_ROOF in roof.caveats:
        rows.append(("", Text(caveats.SENTENCES[caveats.WRONG_ROOF], style="bold red")))
    console.print(facts([*rows, ("", words.roof_figures(roof))]))


def _print_log(result: Comparison, console: Console) -> None:
    rows = [("log" if not position else "", words.log_line(fact)) for position, fact in enumerate(_runs(result.facts))]
    rows.append(("", words.span_line(result.summary)))
    console.print(facts([(f"{name:4}", text) for name, text in rows]))


def _runs(found: Sequence[LogFacts], limit: int = 4) -> Sequence[LogFacts]:
    """The first few that say something; a directory of rotated logs has dozens."""
    telling = [fact for fact in found if fact.engine or fact.model]
    distinct = {(f.engine, f.engine_version, f.model, f.dtype, f.quantization, f.tp): f for f in telling}
    return list(distinct.values())[:limit]


def _print_answer(result: Comparison, console: Console) -> None:
    kinds = result.summary.kinds
    if kinds:
        console.print()
        for line in _headlines(kinds, result.roof, console.width - INDENT, ascii_only(console)):
            console.print(indented(line))
        if any(row.attained_fraction is not None for row in kinds):
            given = any(row.estimated for row in kinds)
            means = f"{ATTAINED_MEANS} {'at these rates' if given else 'with these kernels'}"
            console.print(indented(Text(means, style="dim")))
    sentences = answer.answer(result.findings)
    if sentences:
        console.print()
        console.print(indented(bullets(sentences)))
    _print_list("What would help", finding_words.advice(result.findings), console)


def _headlines(rows: Sequence[Bin], roof: Roof, room: int, plain: bool) -> list[Text]:
    """``decode   86 % attained  ██████▌ 7,804 tok/s, bound by memory``, one a kind, their bars in line."""
    judged = [words.headline_words(row, roof) for row in rows]
    names = max(len(row.kind) for row in rows)
    values = max(len(value) for _, value in judged)
    tails = [words.rate_words(row, roof, short=room < 100) for row in rows]
    cells = min(50, room - names - values - max(len(tail) for tail in tails) - 6)
    lines = []
    for row, (fraction, value), tail in zip(rows, judged, tails, strict=True):
        style = grade(fraction)
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append(f"{clean(row.kind, 12):{names}}  ", style="bold")
        line.append(f"{value:{values}}  ", style=f"bold {style}")
        if cells >= 8:
            line.append(bar(fraction, cells, plain), style=style).append("  ")
        lines.append(line.append(tail))
    return lines


def _print_ranks(rows: Sequence[Bin], unit: RateUnit, console: Console) -> None:
    slowest_first = sorted(
        rows, key=lambda row: (row.kind, row.engine, row.attained_fraction or row.roof_fraction or 0)
    )
    several = len({row.engine for row in rows}) > 1
    heading(console, "Rank by rank", "the slowest of each kind first")
    table = make_table(
        ["", "rank", "windows", "tok/s", unit.short, "of\nroof", "attained", "step ms", "rest ms"], left=2
    )
    add_rows(table, (_rank_row(row, several, unit) for row in slowest_first))
    console.print(indented(table))


def _rank_row(row: Bin, several_engines: bool, unit: RateUnit) -> list[str]:
    rank = row.rank if row.rank is not None else DASH
    return [
        clean(row.kind, 10),
        clean(f"{row.engine} {rank}" if several_engines else rank, 24),
        number(row.windows),
        significant(row.tok_s),
        unit.significant(tflops_of(row)),
        tight_percent(row.roof_fraction),
        attained(row),
        number(row.step_ms, 2),
        number(row.rest_ms, 2),
    ]


def _print_list(title: str, sentences: Sequence[str], console: Console, mark: str = "•", style: str = "") -> None:
    if sentences:
        heading(console, title)
        console.print(indented(bullets(sentences, mark, style)))
