"""``probe diff`` on a terminal, as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from roofline_probe.diff.logs import BinChange, LogDiff
from roofline_probe.diff.profiles import FigureChange, ProfileDiff
from roofline_probe.report import diff_words as words
from roofline_probe.report.tables import INDENT, add_rows, bullets, heading, indented, make_table
from roofline_probe.report.text import DASH, clean, number, significant, span

JSON_SCHEMA = 1
KERNELS_NOTE = "GEMMs and KV reads as this card was measured: a kernel that became slower shows in rest"
LIKE_NOTE = (
    f"slower % compares windows {words.LIKE}; the other figures are of the whole bin "
    "and move with its mean batch and context (shown as before -> after where they differ)"
)
_VERDICT_STYLES = {"slower": "red", "worse": "red", "faster": "green", "better": "green"}
_SIDE_INDENT = 8


@dataclass(frozen=True, slots=True)
class _Column:
    """One column of the bins' table; the one with the highest ``spare`` goes first where the width is short."""

    header: str
    cells: tuple[str, ...]
    spare: int = 0

    @property
    def width(self) -> int:
        return max(map(len, (self.header, *self.cells)), default=0) + 2


def print_log_diff(diff: LogDiff, console: Console) -> None:
    """The answer, the table, what changed in each bin, what to be careful about."""
    for when, side in (("before", diff.before), ("after", diff.after)):
        _print_path(console, when, side.name)
        console.print(indented(Text(words.side_words(side)), _SIDE_INDENT))
    heading(console, "Answer")
    for kind in diff.kinds:
        style = _VERDICT_STYLES.get(kind.pace.verdict, "") if kind.pace else "dim"
        console.print(indented(Text(words.kind_sentence(kind), style=style)))
    if not diff.kinds:
        console.print(indented(Text(no_common_bin())))
    if diff.bins:
        heading(console, "By kind, batch and context", "before -> after")
        _print_bins(diff.bins, console)
        heading(console, "What changed", KERNELS_NOTE)
        console.print(indented(bullets(words.bin_sentences(diff))))
    notes = [*words.log_caveats(diff), *words.only_words(diff)]
    if notes:
        heading(console, "To keep in mind")
        console.print(indented(bullets(notes, mark="!", style="yellow")))


def _print_path(console: Console, when: str, name: str) -> None:
    """A path is not wrapped but left to the terminal, which copies it in one piece."""
    label = f"{when:{_SIDE_INDENT}}"
    console.print(Text.assemble((label, "dim"), words.path_words(name)), soft_wrap=True)


def no_common_bin() -> str:
    """Why nothing can be said."""
    return "The two logs have no kind, batch and context in common: nothing can be compared."


def _print_bins(bins: Sequence[BinChange], console: Console) -> None:
    columns = _columns(bins)
    while sum(c.width for c in columns) > console.width - INDENT and any(c.spare for c in columns):
        columns.remove(max(columns, key=lambda c: c.spare))
    table = make_table([c.header for c in columns], left=1)
    console.print(indented(add_rows(table, zip(*(c.cells for c in columns), strict=True))))
    if any(b.pace for b in bins):
        console.print(indented(Text(LIKE_NOTE, style="dim")))


def _columns(bins: Sequence[BinChange]) -> list[_Column]:
    """All columns that any bin has a figure for."""
    found = [
        _Column("kind", tuple(b.kind for b in bins)),
        _Column("batch", tuple(words.mean_move(b, "batch") or span(b.batch_low, b.batch_high) for b in bins)),
        _Column("context", tuple(words.mean_move(b, "context") or span(b.context_low, b.context_high) for b in bins)),
        _Column("slower %", tuple(_pace_cell(b) for b in bins)),
        _Column("windows", tuple(f"{b.before_windows} -> {b.after_windows}" for b in bins), spare=6),
        _Column("tok/s", tuple(_cell(b, "tok_s", 0) for b in bins), spare=2),
        _Column("attained %", tuple(_cell(b, "attained_fraction", 1, 100) for b in bins), spare=3),
        _Column("step ms", tuple(_cell(b, "step_ms", 2) for b in bins), spare=1),
        _Column("GEMMs", tuple(_cell(b, "gemm_ms", 2) for b in bins), spare=5),
        _Column("KV", tuple(_cell(b, "kv_ms", 2) for b in bins), spare=5),
        _Column("link", tuple(_cell(b, "link_ms", 2) for b in bins), spare=7),
        _Column("rest", tuple(_cell(b, "rest_ms", 2) for b in bins), spare=4),
        _Column("TFLOP/s recounted", tuple(_cell(b, "recounted_tflops", 0) for b in bins), spare=8),
        _Column("TFLOP/s engine", tuple(_cell(b, "engine_tflops", 0) for b in bins), spare=9),
    ]
    empty = {DASH, f"{number(0, 2)} -> {number(0, 2)}"}
    return [c for c in found if not empty.issuperset(c.cells)]


def _cell(change: BinChange, name: str, digits: int, scale: float = 1.0) -> str:
    figure = change.changes.get(name)
    if figure is None or (figure.before is None and figure.after is None):
        return DASH
    ends = [None if v is None else v * scale for v in (figure.before, figure.after)]
    return f"{number(ends[0], digits)} -> {number(ends[1], digits)}"


def _pace_cell(change: BinChange) -> str:
    pace = change.pace
    if pace is None:
        return change.verdict or DASH
    slower, low, high = (words.change_cell(figure) for figure in (pace.slower, pace.low, pace.high))
    return f"{slower} ({low} to {high})"


def print_profile_diff(diff: ProfileDiff, console: Console) -> None:
    """What changed on the card: named facts first, then every figure."""
    _print_path(console, "before", diff.before)
    _print_path(console, "after", diff.after)
    heading(console, "Answer", words.profile_headline(diff))
    if sentences := words.profile_sentences(diff):
        console.print(indented(bullets(sentences)))
    if diff.facts:
        heading(console, "What is different")
        table = make_table(("", "before", "after"), left=3)
        rows = [(f.name, clean(f.before or DASH, 60), clean(f.after or DASH, 60)) for f in diff.facts]
        console.print(indented(add_rows(table, rows)))
    heading(console, "Figures", words.repeats_note())
    table = make_table(("", "", "before", "after", "", "change %"), left=2)
    console.print(indented(add_rows(table, (_figure_row(f) for f in diff.figures))))
    caveats = words.profile_caveats(diff)
    if caveats:
        heading(console, "To keep in mind")
        console.print(indented(bullets(caveats, mark="!", style="yellow")))


def _figure_row(f: FigureChange) -> tuple[str | Text, ...]:
    change = DASH if f.relative is None else words.change_cell(f.relative)
    style = _VERDICT_STYLES.get(f.verdict, "") if f.gated else "dim"
    name = f.name if f.timers is None else f"{f.name}, {'/'.join(f.timers).replace('cuda-graph', 'graph')}"
    return (
        f.group, clean(name, 60), significant(f.before, 4), significant(f.after, 4), f.unit,
        Text(change, style=style),
    )  # fmt: skip


# ---- Markdown --------------------------------------------------------------------------------------------------------


def markdown(diff: LogDiff | ProfileDiff) -> str:
    """GitHub's Markdown: for a pull request's comment or a job's summary."""
    lines = _log_markdown(diff) if isinstance(diff, LogDiff) else _profile_markdown(diff)
    return "\n".join(lines) + "\n"


def _log_markdown(diff: LogDiff) -> list[str]:
    lines = [f"### {_md(words.path_words(diff.before.name))} -> {_md(words.path_words(diff.after.name))}", ""]
    lines += [f"- **{_md(words.kind_sentence(kind))}**" for kind in diff.kinds] or [no_common_bin()]
    if diff.bins:
        columns = [c for c in _columns(diff.bins) if c.spare < 7]
        lines += ["", *_md_table([c.header for c in columns], list(zip(*(c.cells for c in columns), strict=True)), 3)]
        lines += ["", f"{LIKE_NOTE}."] if any(b.pace for b in diff.bins) else []
        lines += ["", f"{KERNELS_NOTE}.", "", *(f"- {_md(sentence)}" for sentence in words.bin_sentences(diff))]
    lines += ["", f"Before: {_md(words.side_words(diff.before))}  ", f"After: {_md(words.side_words(diff.after))}"]
    notes = [*words.log_caveats(diff), *words.only_words(diff)]
    return lines + (["", *(f"> {_md(note)}" for note in notes)] if notes else [])


def _profile_markdown(diff: ProfileDiff) -> list[str]:
    lines = [f"### {_md(diff.before)} -> {_md(diff.after)}", "", f"**{_md(words.profile_headline(diff))}**", ""]
    rows = [[str(cell) for cell in _figure_row(f)] for f in diff.figures]
    lines += _md_table(("", "", "before", "after", "unit", "change %"), rows, 2)
    if diff.facts:
        lines += ["", *(f"- {f.name}: {_md(f.before or DASH)} -> {_md(f.after or DASH)}" for f in diff.facts)]
    return lines + [f"\n> {_md(sentence)}" for sentence in words.profile_caveats(diff)]


def _md_table(headers: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> list[str]:
    rule = [":---" if at < left else "---:" for at in range(len(headers))]
    return [f"| {' | '.join(map(_md, row))} |" for row in (headers, rule, *rows)]


def _md(text: str) -> str:
    """Text that stays text: no link, no HTML, no mention, no cell border comes from a log's name."""
    escaped = "".join(f"\\{c}" if c in "\\`*_[]<|#@!" else c for c in clean(text, 1000))
    return escaped.replace("&", "&amp;")


# ---- JSON ------------------------------------------------------------------------------------------------------------


def json_document(diff: LogDiff | ProfileDiff) -> bytes:
    """The whole comparison; fractions 0 to 1, rates and times with their unit in the field's name."""
    body: dict[str, Any] = msgspec.to_builtins(diff)
    if isinstance(diff, LogDiff):
        for row, change in zip(body["bins"], diff.bins, strict=True):
            row["verdict"] = change.verdict
            row["words"] = words.bin_sentence(change)
        for row, kind in zip(body["kinds"], diff.kinds, strict=True):
            row["verdict"] = kind.pace.verdict if kind.pace else None
            row["words"] = words.kind_sentence(kind)
    else:
        for row, figure in zip(body["figures"], diff.figures, strict=True):
            row |= {"relative": figure.relative, "verdict": figure.verdict}
    document = {"schema_version": JSON_SCHEMA, "type": "logs" if isinstance(diff, LogDiff) else "profiles", **body}
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"
