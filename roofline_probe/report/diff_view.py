"""``probe diff`` on a terminal, as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from roofline_probe import plain_json
from roofline_probe.diff.logs import BinChange, LogDiff
from roofline_probe.diff.profiles import FigureChange, ProfileDiff
from roofline_probe.report import diff_profile_words as profile_words
from roofline_probe.report import diff_words as words
from roofline_probe.report.tables import INDENT, add_rows, bullets, heading, indented, make_table
from roofline_probe.report.text import DASH, clean, number, significant, span

JSON_SCHEMA = 1
KERNELS_NOTE = "GEMMs and KV reads as this card was measured: a kernel that became slower shows in rest"
_VERDICT_STYLES = {"slower": "red", "worse": "red", "faster": "green", "better": "green"}
_SIDE_INDENT = 8
_GAP = 2
_DECISIVE = 2
"""The highest ``spare`` of a column that no width may go without: pace, tok/s, step time."""


@dataclass(frozen=True, slots=True)
class _Column:
    """One column of the bins' table; the one with the highest ``spare`` goes first where the width is short."""

    header: str
    cells: tuple[str, ...]
    spare: int = 0
    name: bool = False
    """Whether it says which bin it is."""

    @property
    def width(self) -> int:
        return max(map(len, (self.header, *self.cells)), default=0) + _GAP


def print_log_diff(diff: LogDiff, console: Console) -> None:
    """The answer, the table, what changed in each bin, what to be careful about."""
    for when, side in (("before", diff.before), ("after", diff.after)):
        _print_path(console, when, side.name)
        console.print(indented(Text(words.side_words(side)), _SIDE_INDENT))
    heading(console, "Answer")
    for sentence, verdict in words.answers(diff):
        console.print(indented(Text(sentence, style=_VERDICT_STYLES.get(verdict, "") if verdict else "dim")))
    if diff.bins:
        heading(console, "By kind, batch and context", "before -> after")
        _print_bins(diff.bins, console)
    if sentences := words.bin_sentences(diff):
        heading(console, "What changed", KERNELS_NOTE if _tells_parts(diff) else "")
        console.print(indented(bullets(sentences)))
    notes = [*words.log_caveats(diff), *words.only_words(diff)]
    if notes:
        heading(console, "To keep in mind")
        console.print(indented(bullets(notes, mark="!", style="yellow")))


def _print_path(console: Console, when: str, name: str) -> None:
    """A path is not wrapped but left to the terminal, which copies it in one piece."""
    label = f"{when:{_SIDE_INDENT}}"
    console.print(Text.assemble((label, "dim"), words.path_words(name)), soft_wrap=True)


def _tells_parts(diff: LogDiff) -> bool:
    return any(change.changes["rest_ms"].difference is not None for change in words.changed_bins(diff))


def _print_bins(bins: Sequence[BinChange], console: Console) -> None:
    """One table if the width carries what decides, else two: the pace, then rates and times."""
    columns, room = _columns(bins), console.width - INDENT
    shown = _fitting(columns, room)
    names = [c for c in columns if c.name]
    if all(c in shown for c in columns if c.spare <= _DECISIVE):
        _print_columns(shown, console)
    else:
        _print_columns(_fitting([c for c in columns if c.name or c.header in ("slower %", "windows")], room), console)
        console.print()
        rest = [c for c in columns if not c.name and c.header not in ("slower %", "windows")]
        _print_columns(_fitting([*names, *rest], room), console)
    for note in _table_notes(bins, others=len(columns) > len(names) + 1):
        console.print(indented(Text(note, style="dim")))


def _fitting(columns: Sequence[_Column], room: int) -> list[_Column]:
    kept = list(columns)
    while sum(c.width for c in kept) - _GAP > room and any(c.spare for c in kept):
        kept.remove(max(kept, key=lambda c: c.spare))
    return kept


def _print_columns(columns: Sequence[_Column], console: Console) -> None:
    table = make_table([c.header for c in columns], left=1)
    console.print(indented(add_rows(table, zip(*(c.cells for c in columns), strict=True))))


def _table_notes(bins: Sequence[BinChange], *, others: bool = True) -> list[str]:
    """What the columns mean, where a bin was compared; where none was, the answer says why."""
    if not any(b.pace for b in bins):
        return []
    note = f"slower % compares windows {words.LIKE}"
    if others:
        note += "; the other figures are of the whole bin and move with its mean batch and context"
    return [note, *words.verdict_notes(bins)]


def _columns(bins: Sequence[BinChange]) -> list[_Column]:
    """All columns that any bin has a figure for."""
    batches = tuple(words.mean_move(b, "batch") or span(b.batch_low, b.batch_high) for b in bins)
    contexts = tuple(words.mean_move(b, "context") or span(b.context_low, b.context_high) for b in bins)
    unjudged = any(b.thin or b.unlike for b in bins)
    found = [
        _Column("kind", tuple(b.kind for b in bins), name=True),
        _Column("batch", batches, name=True),
        _Column("context", contexts, name=True),
        _Column("slower %", tuple(_pace_cell(b) for b in bins)),
        _Column(
            "windows", tuple(f"{b.before_windows:,} -> {b.after_windows:,}" for b in bins), spare=3 if unjudged else 7
        ),
        _Column("tok/s", tuple(_cell(b, "tok_s", 0) for b in bins), spare=2),
        _Column("attained %", tuple(_cell(b, "attained_fraction", 1, 100) for b in bins), spare=4),
        _Column("step ms", tuple(_cell(b, "step_ms", 2) for b in bins), spare=1),
        _Column("GEMMs", tuple(_cell(b, "gemm_ms", 2) for b in bins), spare=6),
        _Column("KV", tuple(_cell(b, "kv_ms", 2) for b in bins), spare=6),
        _Column("link", tuple(_cell(b, "link_ms", 2) for b in bins), spare=8),
        _Column("rest", tuple(_cell(b, "rest_ms", 2) for b in bins), spare=5),
        _Column("TFLOP/s recounted", tuple(_cell(b, "recounted_tflops", 0) for b in bins), spare=9),
        _Column("TFLOP/s engine", tuple(_cell(b, "engine_tflops", 0) for b in bins), spare=10),
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
    heading(console, "Answer", profile_words.profile_headline(diff))
    if sentences := profile_words.profile_sentences(diff):
        console.print(indented(bullets(sentences)))
    if diff.facts:
        heading(console, "What is different")
        table = make_table(("", "before", "after"), left=3)
        console.print(indented(add_rows(table, (profile_words.fact_words(f) for f in diff.facts))))
    heading(console, "Figures", profile_words.repeats_note())
    table = make_table(("", "", "before", "after", "", "change %"), left=2)
    console.print(indented(add_rows(table, (_figure_row(f) for f in diff.figures))))
    if note := profile_words.unjudged_note(diff):
        console.print(indented(Text(note, style="dim")))
    caveats = profile_words.profile_caveats(diff)
    if caveats:
        heading(console, "To keep in mind")
        console.print(indented(bullets(caveats, mark="!", style="yellow")))


def _figure_row(f: FigureChange) -> tuple[str | Text, ...]:
    style = "dim" if f.unjudged else _VERDICT_STYLES.get(f.verdict, "")
    name = f.name if f.timers is None else f"{f.name}, {'/'.join(f.timers).replace('cuda-graph', 'graph')}"
    return (
        f.group, clean(name, 60), significant(f.before, 4), significant(f.after, 4), f.unit,
        Text(profile_words.figure_cell(f), style=style),
    )  # fmt: skip


# ---- Markdown --------------------------------------------------------------------------------------------------------


def markdown(diff: LogDiff | ProfileDiff) -> str:
    """GitHub's Markdown: for a pull request's comment or a job's summary."""
    lines = _log_markdown(diff) if isinstance(diff, LogDiff) else _profile_markdown(diff)
    return "\n".join(lines) + "\n"


def _log_markdown(diff: LogDiff) -> list[str]:
    lines = [f"### {_md(words.path_words(diff.before.name))} -> {_md(words.path_words(diff.after.name))}", ""]
    lines += [f"- **{_md(sentence)}**" for sentence, _ in words.answers(diff)]
    if diff.bins:
        columns = [c for c in _columns(diff.bins) if c.spare < 8]
        lines += ["", *_md_table([c.header for c in columns], list(zip(*(c.cells for c in columns), strict=True)), 3)]
        lines += ["", *(f"{note}.  " for note in _table_notes(diff.bins))]
        lines += [f"{KERNELS_NOTE}."] if _tells_parts(diff) else []
        lines += ["", *(f"- {_md(sentence)}" for sentence in words.bin_sentences(diff))]
    lines += ["", f"Before: {_md(words.side_words(diff.before))}  ", f"After: {_md(words.side_words(diff.after))}"]
    notes = [*words.log_caveats(diff), *words.only_words(diff)]
    return lines + (["", *(f"> {_md(note)}" for note in notes)] if notes else [])


def _profile_markdown(diff: ProfileDiff) -> list[str]:
    lines = [f"### {_md(diff.before)} -> {_md(diff.after)}", "", f"**{_md(profile_words.profile_headline(diff))}**", ""]
    rows = [[str(cell) for cell in _figure_row(f)] for f in diff.figures]
    lines += _md_table(("", "", "before", "after", "unit", "change %"), rows, 2)
    if note := profile_words.unjudged_note(diff):
        lines += ["", _md(note)]
    if diff.facts:
        facts = (map(_md, profile_words.fact_words(f)) for f in diff.facts)
        lines += ["", *(f"- {name}: {before} -> {after}" for name, before, after in facts)]
    return lines + [f"\n> {_md(sentence)}" for sentence in profile_words.profile_caveats(diff)]


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
    return plain_json.document(document)
