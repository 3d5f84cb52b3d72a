"""What is known at this moment: filled by the reading thread, looked at by the drawing one. Plain data."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from log_parsers.step import LogFacts
from roofline_probe.point import Point, Roof, Summary
from roofline_probe.tail.card import CardReading

HISTORY_S = 60.0
CURRENT_S = 30.0
"""A rank or kind that printed nothing for longer than this (and than three of its windows) is no longer "now"."""
STEADIES_S = 3.0
"""For so long (or three of its windows) a decode line of SGLang stands against prefill lines."""
SUMMARY_EVERY_S = 1.0
MAX_RANKS = 4096
UNSEEN = (float("inf"),)
ATTAINED, OF_PI, OF_ROOF = "attained", "of pi", "of roof"
"""As ``compare`` heads its columns."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A point and the clock of its arrival."""

    at: float
    point: Point


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One frame's worth of knowledge."""

    source: str
    elapsed_s: float
    silent_s: float
    lines: int
    steps: int
    warnings: int | None = None
    """None where there is no log to look for them in."""
    errors: int | None = None
    ranks: tuple[Seen, ...] = ()
    """The latest step of each rank, the worst first."""
    others: tuple[Seen, ...] = ()
    """The latest step of the other kinds of the worst rank, where engines print prefill and decode apart."""
    history: tuple[tuple[float, float | None], ...] = ()
    """(age in seconds, fraction) of the last minute's steady steps, oldest first."""
    history_of: tuple[str, ...] = ()
    """What those are fractions of."""
    summary: Summary | None = None
    roof: Roof | None = None
    facts: LogFacts | None = None
    card: CardReading | None = None
    hint: str | None = None
    now: float = 0.0


def fraction_of(point: Point) -> float | None:
    """The one number of a step: for prefill its share of pi, else attained, else the roof fraction."""
    return {OF_PI: point.compute_fraction, ATTAINED: point.attained_fraction}.get(headed_by(point), point.roof_fraction)


def headed_by(point: Point) -> str:
    """What ``fraction_of`` is a fraction of."""
    if point.step.kind == "prefill" and point.compute_fraction is not None:
        return OF_PI
    return ATTAINED if point.attained_fraction is not None else OF_ROOF


def badness(point: Point) -> tuple[float, ...]:
    """Sort key: the lowest fraction first; steps that are not judged behind."""
    fraction = fraction_of(point)
    if fraction is None or point.step.status in ("idle", "noise"):
        return UNSEEN
    return (fraction,)


@dataclass
class LiveState:
    """Latest step per rank and kind, and a minute of history."""

    clock: Callable[[], float] = time.monotonic
    steps: int = 0
    _latest: dict[tuple[str, str | None, str], Seen] = field(default_factory=dict)
    _history: deque[Seen] = field(default_factory=lambda: deque(maxlen=4096))

    def add(self, point: Point, *, live: bool = True) -> None:
        """Take one step. Health probes and idle ticks are counted but do not displace what the engine last worked on
        (unless nothing else has been seen). What was logged before we came has no place in the last minute."""
        self.steps += 1
        seen = Seen(self.clock() - (0.0 if live else age_s(point.step.time)), point)
        key = (point.step.source, point.step.rank, point.step.kind)
        quiet = point.step.status in ("noise", "idle")
        if (not quiet or key not in self._latest) and (key in self._latest or len(self._latest) < MAX_RANKS):
            self._latest[key] = seen
        if live and point.step.status == "steady":
            self._history.append(seen)

    def ranks(self) -> tuple[Seen, ...]:
        """Each rank's most telling current step, the worst rank first; one that fell silent stands behind.

        SGLang prints every prefill batch and every fortieth decode step, in turns: while both come, the decode step
        stands, else the view would flicker between the two.
        """
        now = self.clock()
        best: dict[tuple[str, str | None], Seen] = {}
        for (source, rank, _), seen in self._latest.items():
            held = best.get((source, rank))
            if held is None or _precedence(seen, now) > _precedence(held, now):
                best[source, rank] = seen
        return tuple(sorted(best.values(), key=lambda seen: (not is_current(seen, now), *badness(seen.point))))

    def others(self, shown: Seen) -> tuple[Seen, ...]:
        """Current steps of other kinds of the same rank."""
        now, step = self.clock(), shown.point.step
        same = (seen for (*where, _), seen in self._latest.items() if where == [step.source, step.rank])
        return tuple(seen for seen in same if seen is not shown and is_current(seen, now))

    def history(self, kind: str | None = None) -> tuple[tuple[float, float | None], ...]:
        """The last minute's steady steps, of one kind where given."""
        now = self.clock()
        return tuple((now - seen.at, fraction_of(seen.point)) for seen in self._lately(kind))

    def history_of(self, kind: str | None = None) -> tuple[str, ...]:
        """What the fractions of ``history`` are of, each once."""
        known = (seen.point for seen in self._lately(kind) if fraction_of(seen.point) is not None)
        return tuple(sorted({headed_by(point) for point in known}))

    def _lately(self, kind: str | None) -> list[Seen]:
        now = self.clock()
        while self._history and now - self._history[0].at > HISTORY_S:
            self._history.popleft()
        return [seen for seen in self._history if kind in (None, seen.point.step.kind)]


def age_s(time: str | None) -> float:
    """How long ago a step was logged, if the server's clock and zone are those here; 0 where that cannot be."""
    try:
        logged = datetime.fromisoformat(time or "")
    except ValueError:
        return 0.0
    return max(0.0, (datetime.now(logged.tzinfo) - logged).total_seconds())


def is_current(seen: Seen, now: float) -> bool:
    """Whether it still describes what happens."""
    return now - seen.at <= max(CURRENT_S, 3 * (seen.point.step.window_s or 0.0))


def _precedence(seen: Seen, now: float) -> tuple[bool, bool, bool, float]:
    step = seen.point.step
    steadies = step.engine == "sglang" and step.kind == "decode"
    fresh = now - seen.at <= max(STEADIES_S, 3 * (step.window_s or 0.0))
    return (is_current(seen, now), step.status not in ("noise", "idle"), steadies and fresh, seen.at)
