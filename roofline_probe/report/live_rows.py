"""The lower rows of the live view: history, kinds, ranks, the card, limits, counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich.text import Text

from roofline_probe.findings import KV_FULL
from roofline_probe.point import Bin, Point
from roofline_probe.report.text import (
    DASH,
    clean,
    count,
    listed,
    number,
    percent,
    significant,
)
from roofline_probe.tail.state import HISTORY_S, Snapshot, is_current

LABEL = 10
SPARKS = "▁▂▃▄▅▆▇█"
ASCII_SPARKS = "_.-=+*%#"
SILENT_S = 15.0
"""Shown as silence from here on: an engine that works prints its statistics every 10 s."""


@dataclass(frozen=True, slots=True)
class Canvas:
    """Room and means of the terminal."""

    width: int
    height: int
    ascii_only: bool = False

    @property
    def bar_width(self) -> int:
        """Cells of a bar: under a third of the window, so that its denominator stands beside it."""
        return max(8, min(60, int(self.width * 0.3)))


def label(text: str, style: str = "dim") -> Text:
    """The name in front of a row."""
    line = Text()
    return line.append(text.ljust(LABEL), style=style)


def duration(seconds: float) -> str:
    """``7 s``, ``3:07 min``, ``1:03:07 h``."""
    whole = int(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    if hours:
        return f"{hours}:{minutes:02d}:{whole % 60:02d} h"
    return f"{minutes}:{whole % 60:02d} min" if minutes else f"{whole} s"


def history_rows(snapshot: Snapshot, canvas: Canvas) -> list[Text]:
    """The last minute as a sparkline, with its extremes."""
    if not snapshot.history:
        return []
    known = [fraction for _, fraction in snapshot.history if fraction is not None]
    what = listed(list(snapshot.history_of), "or")
    behind = f"  {percent(min(known))} to {percent(max(known))} {what}" if known else ""
    cells = min(60, max(10, canvas.width - LABEL - len(behind)))
    line = label(f"last {HISTORY_S:.0f} s").append(sparkline(snapshot.history, cells, canvas.ascii_only), style="green")
    return [line.append(behind, style="dim")]


def sparkline(history: tuple[tuple[float, float | None], ...], cells: int, ascii_only: bool = False) -> str:
    """The last minute's fractions, oldest left, each cell the mean of its seconds; the scale is 0 to 100 %."""
    signs = ASCII_SPARKS if ascii_only else SPARKS
    held: list[list[float]] = [[] for _ in range(cells)]
    for age, fraction in history:
        cell = cells - 1 - int(age / HISTORY_S * cells)
        if fraction is not None and 0 <= cell < cells:
            held[cell].append(fraction)
    top = len(signs) - 1
    return "".join(signs[max(0, min(top, round(sum(v) / len(v) * top)))] if v else " " for v in held)


def _attained(row: Bin) -> str:
    return ("~" if row.estimated and row.attained_fraction is not None else "") + percent(row.attained_fraction)


KIND_COLUMNS: tuple[tuple[str, int, Callable[[Bin], str]], ...] = (
    ("so far", -9, lambda row: row.kind),
    ("windows", 8, lambda row: number(row.windows)),
    ("tok/s", 9, lambda row: number(row.tok_s)),
    ("step ms", 9, lambda row: significant(row.step_ms)),
    ("of pi", 9, lambda row: percent(row.compute_fraction)),
    ("of beta", 9, lambda row: percent(row.bandwidth_fraction)),
    ("of roof", 9, lambda row: percent(row.roof_fraction)),
    ("attained", 10, _attained),
)


def kind_rows(snapshot: Snapshot) -> list[Text]:
    """Running figures, one row a kind."""
    if snapshot.summary is None or not snapshot.summary.kinds:
        return []
    rows = [_cells([(name, width) for name, width, _ in KIND_COLUMNS], "dim")]
    rows += [_cells([(text(row), width) for _, width, text in KIND_COLUMNS]) for row in snapshot.summary.kinds]
    return rows


def _cells(cells: list[tuple[str, int]], style: str = "") -> Text:
    text = "".join(text.ljust(-width) if width < 0 else text.rjust(width) for text, width in cells)
    return Text(text, style=style)


RANK_COLUMNS = (("rank", -24), ("kind", -9), ("batch", 7), ("tok/s", 10), ("of roof", 9), ("attained", 10))


def rank_rows(snapshot: Snapshot, room: int) -> list[Text]:
    """The worst ranks first, in ``room`` rows where there is as much, and at least the two worst."""
    if len(snapshot.ranks) < 2:
        return []
    shown = len(snapshot.ranks) if len(snapshot.ranks) < room else max(2, room - 2)
    lines = [_cells(list(RANK_COLUMNS), "dim")]
    lines += [_rank_row(rank_name(seen.point, snapshot), seen.point) for seen in snapshot.ranks[:shown]]
    hidden = len(snapshot.ranks) - shown
    if hidden > 0:
        lines.append(Text(f"… {count(hidden, 'rank')} more, none worse", style="dim"))
    return lines


def rank_name(point: Point, snapshot: Snapshot) -> str:
    """As the engine prints it; behind its address where several are watched."""
    step = point.step
    if len({seen.point.step.source for seen in snapshot.ranks}) < 2:
        return clean(step.rank or DASH, 22)
    address = step.source.split("://")[-1].split("/")[0]
    return clean(f"{address} {step.rank or ''}".strip(), 22)


def _rank_row(name: str, point: Point) -> Text:
    step = point.step
    rate = step.prompt_tok_s if step.kind == "prefill" else step.gen_tok_s
    texts = (
        name,
        step.kind,
        number(point.batch),
        number(rate),
        percent(point.roof_fraction),
        percent(point.attained_fraction),
    )
    return _cells([(text, width) for text, (_, width) in zip(texts, RANK_COLUMNS, strict=True)])


def card_rows(snapshot: Snapshot) -> list[Text]:
    """Clocks, power, heat and joules per token of the cards here."""
    card = snapshot.card
    if card is None:
        return []
    line = label("card" if card.cards == 1 else f"{card.cards} cards")
    line.append(f"{number(card.sm_clock_mhz)}/{number(card.sm_clock_max_mhz)} MHz")
    line.append(f" · {number(card.power_w)}/{number(card.power_limit_w)} W")
    if card.temperature_c is not None:
        line.append(f" · {card.temperature_c} °C")
    if card.power_capped:
        line.append(" · power-capped", style="yellow")
    if card.hot:
        line.append(" · slowed by heat", style="red")
    joules = joules_per_token(snapshot)
    if joules is not None:
        line.append(f" · {significant(joules, 2)} J/token")
    return [line]


def joules_per_token(snapshot: Snapshot) -> float | None:
    """Power of the busy cards over the tokens that all ranks generate a second; None while nothing is generated."""
    power, rate = snapshot.card.power_w if snapshot.card else None, generated(snapshot)
    return power / rate if power is not None and rate else None


def generated(snapshot: Snapshot) -> float | None:
    """Tokens per second that all ranks generate together, as far as they said so lately."""
    rates = [seen.point.step.gen_tok_s for seen in snapshot.ranks if is_current(seen, snapshot.now)]
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def alert_rows(snapshot: Snapshot, canvas: Canvas) -> list[Text]:
    """Limits that hold requests back, and the hint while nothing usable arrives."""
    sentences = [limit for limit in (_limit(seen.point, snapshot) for seen in snapshot.ranks[:1]) if limit]
    if snapshot.hint:
        sentences.append(snapshot.hint)
    lines: list[Text] = []
    for sentence in sentences:
        words = Text(clean(sentence, 400), style="yellow")
        lines += _wrapped(words.plain, canvas.width)
    return lines


def _wrapped(sentence: str, width: int) -> list[Text]:
    import textwrap

    lines = textwrap.wrap(sentence, max(10, width - 2))
    return [Text(("! " if position == 0 else "  ") + line, style="yellow") for position, line in enumerate(lines)]


def _limit(point: Point, snapshot: Snapshot) -> str | None:
    """Why requests wait, where the log lets it be told."""
    step, facts = point.step, snapshot.facts
    waiting = step.waiting if step.waiting is not None else step.queue
    if not waiting or step.status in ("idle", "noise"):
        return None
    who = "1 request waits" if waiting == 1 else f"{number(waiting)} requests wait"
    if step.kv_usage is not None and step.kv_usage >= KV_FULL:
        return f"The KV cache is full ({percent(step.kv_usage)}): {who} for room in it."
    if facts is not None and facts.max_running and (step.running or 0) >= facts.max_running:
        return f"The batch is at its limit of {number(facts.max_running)} requests: {who}."
    room = " though the KV cache has room" if step.kv_usage is not None else ""
    limited = facts is not None and facts.max_running is not None
    why = "the token budget of a step" if limited else "the request limit, which is not stated, or the token budget"
    return f"{who} in the queue{room}: held back by {why}."


def log_row(snapshot: Snapshot) -> Text:
    """What came in, and for how long nothing has."""
    line = label("log").append(f"{count(snapshot.lines, 'line')} · {count(snapshot.steps, 'window')}")
    if snapshot.warnings is not None:
        line.append(f" · {count(snapshot.warnings, 'warning')}", style="yellow" if snapshot.warnings else "")
    if snapshot.errors is not None:
        line.append(f" · {count(snapshot.errors, 'error')}", style="red" if snapshot.errors else "")
    if snapshot.silent_s >= SILENT_S:
        line.append(f" · silent for {duration(snapshot.silent_s)}", style="yellow")
    return line
