"""Many at once on a terminal: many logs under one roof, and many measured cards side by side."""

from __future__ import annotations

import os
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from roofline_probe.fleet.cluster import Fleet, Row
from roofline_probe.fleet.folder import FIGURES, Card, CardFolder, CardKey, medians
from roofline_probe.fleet.spread import STRAGGLER_BELOW, distribution, odd_ones, slowest
from roofline_probe.headline import KINDS
from roofline_probe.report.tables import add_rows, bullets, heading, indented, make_table
from roofline_probe.report.text import DASH, clean, count, model_name, number, percent, significant

_ALL_ROWS = 40
"""So many rows are shown whole; of more, the slowest and the odd ones."""
_SHOWN = 5
_WIDE = 110
"""Columns of a terminal from which engine and model are shown too."""


def print_fleet(fleet: Fleet, console: Console, *, profile_name: str | None, every_file: bool = False) -> None:
    """Distribution, slowest, odd ones out, failures; all rows where they fit or are asked for."""
    rows = fleet.rows
    names = _short_names(rows, max(24, console.width - 56))
    if every_file or len(rows) <= _ALL_ROWS:
        heading(console, "Files", count(len(rows), "row"))
        console.print(indented(_rows_table(rows, names, wide=console.width >= _WIDE)))
    for kind in KINDS:
        _print_kind(kind, rows, names, console)
    _print_failures(fleet, console)
    console.print()
    console.print(Text(_closing(fleet, profile_name), style="dim"))


def _print_kind(kind: str, rows: Sequence[Row], names: Sequence[str], console: Console) -> None:
    values = {i: h.fraction for i, row in enumerate(rows) if (h := row.headlines.get(kind)) and h.fraction is not None}
    spread = distribution(list(values.values()))
    if spread is None:
        return
    denominators = sorted({rows[i].headlines[kind].of for i in values})
    heading(console, kind.capitalize(), f"{' / '.join(denominators)}, {count(spread.count, 'row')}")
    figures = {"lowest": spread.low, "10 %": spread.p10, "median": spread.median, "90 %": spread.p90}
    known = {name: value for name, value in {**figures, "highest": spread.high}.items() if value is not None}
    console.print(indented(add_rows(make_table(["", *known]), [["fleet", *(percent(v, 1) for v in known.values())]])))
    if spread.count > _SHOWN:
        _print_picked("slowest", slowest(values, _SHOWN), kind, rows, names, console)
    _print_picked("odd", odd_ones(values)[:_SHOWN], kind, rows, names, console)


def _print_picked(
    word: str, picked: Sequence[int], kind: str, rows: Sequence[Row], names: Sequence[str], console: Console
) -> None:
    if not picked:
        return
    table = make_table(["", "", "", "tok/s", "step ms"], left=2)
    for i in picked:
        bin_ = next(b for b in rows[i].kinds if b.kind == kind)
        fraction = percent(rows[i].headlines[kind].fraction, 1)
        add_rows(table, [[word, names[i], fraction, number(bin_.tok_s), significant(bin_.step_ms)]])
    console.print(indented(table))


def _rows_table(rows: Sequence[Row], names: Sequence[str], *, wide: bool) -> Table:
    words = ["file", "engine", "model"] if wide else ["file"]
    table = make_table([*words, "decode", "tok/s", "prefill", "tok/s", "KV max"], left=len(words))
    for row, name in zip(rows, names, strict=True):
        bins = {b.kind: b for b in row.kinds}
        cells = [clean(row.engine or DASH), clean(model_name(row.model) or DASH, 30)] if wide else []
        for kind in ("decode", "prefill"):
            headline, bin_ = row.headlines.get(kind), bins.get(kind)
            cells += [percent(headline.fraction, 1) if headline else DASH, number(bin_.tok_s if bin_ else None)]
        add_rows(table, [[name, *cells, percent(row.kv_usage_max)]])
    return table


def _short_names(rows: Sequence[Row], width: int) -> list[str]:
    """Paths without the folders they all share, with the rank behind; of a long one the end is kept."""
    shared = _shared_folder([row.path for row in rows])
    cut = len(shared) + 1 if shared else 0
    names = [clean(row.path[cut:], 400) + (f" · {clean(row.rank, 30)}" if row.rank is not None else "") for row in rows]
    return [name if len(name) <= width else "…" + name[-width + 1 :] for name in names]


def _shared_folder(paths: Sequence[str]) -> str:
    """The folder all paths share, as written; none where some are absolute and some are not."""
    if len({os.path.isabs(path) for path in paths}) != 1:
        return ""
    return os.path.commonpath([os.path.dirname(path) for path in paths])


def _print_failures(fleet: Fleet, console: Console) -> None:
    problems = [(file.path, file.failure) for file in fleet.failures]
    problems += [(file.path, problem) for file in fleet.files if file.failure is None for problem in file.problems]
    if problems:
        heading(console, "Not judged or not whole", count(len(problems), "file"))
        console.print(indented(bullets(f"{clean(path)}: {clean(text, 400)}" for path, text in problems)))


def _closing(fleet: Fleet, profile_name: str | None) -> str:
    read = _size(sum(file.bytes_read for file in fleet.files))
    return (
        f"{count(len(fleet.files), 'file')}, {read} of text, in {significant(fleet.read_s)} s on "
        f"{count(fleet.workers, 'worker')} (the cluster took {significant(fleet.start_s)} s to start before that); "
        f"profile: {clean(profile_name) if profile_name else 'none'}."
    )


def _size(size: int) -> str:
    """``547 kB``, ``3.02 GB``."""
    for unit, bytes_each in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= bytes_each:
            return f"{significant(size / bytes_each)} {unit}"
    return f"{size} B"


def print_cards(found: CardFolder, console: Console) -> None:
    """The measured cards of a folder side by side, by card model; those that lag behind their peers are named."""
    lagging = found.lagging()
    for (name, dtype, quick), cards in found.by_model().items():
        note = f"{count(len(cards), 'measured card')}, {dtype or 'no dtype'}{', quick runs' if quick else ''}"
        heading(console, clean(name), note)
        headers = [figure.replace(" ", "\n") for figure in FIGURES]
        table = make_table(["profile", *headers, "measured", ""])
        add_rows(table, (_card_row(card, lagging.get(card.key)) for card in cards))
        if len(cards) > 1:
            add_rows(table, [["median", *(number(value) for value in medians(cards).values()), "", ""]])
        console.print(indented(table))
    console.print()
    console.print(indented(bullets(_remarks(found, lagging))))


def _card_row(card: Card, lags: list[str] | None) -> list[str | Text]:
    figures: list[str | Text] = [
        Text(number(figure(card)), style="yellow" if lags and label in lags else "")
        for label, figure in FIGURES.items()
    ]
    cut = "" if card.profile.complete else " (cut)"
    mark = Text("straggler", style="yellow") if lags else ""
    return [_card_name(card, 28), *figures, card.profile.created[:10] + cut, mark]


def _card_name(card: Card, limit: int) -> str:
    """``h200-3``; of a machine's profile ``8xh200 card 3``."""
    number_in_file = "" if card.index is None else f" card {card.index}"
    return clean(card.path.stem, limit - len(number_in_file)) + number_in_file


def _remarks(found: CardFolder, lagging: dict[CardKey, list[str]]) -> list[str]:
    remarks = ["pi in TFLOP/s, beta in GB/s; straggler: below 97 % of the median of this table."]
    if any(card.index is not None for card in found.cards):
        remarks.append(
            "Where a profile holds several cards, each was measured alone; `probe show` of that file has the figures "
            "with all running."
        )
    remarks += [
        f"{_card_name(left_out, 60)} is a second measurement of the card in {_card_name(card, 60)}, and left out."
        for left_out, card in found.repeats
    ]
    remarks += [
        f"{_card_name(card, 60)} lags in {', '.join(lagging[card.key])}: under {STRAGGLER_BELOW:.0%} of the median. "
        "Look at its power limit, temperature and other processes, then measure it again."
        for card in found.cards
        if card.key in lagging
    ]
    return remarks + [clean(problem, 400) for problem in found.problems]
