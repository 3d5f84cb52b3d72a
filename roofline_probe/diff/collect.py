"""Points gathered for ``diff``: per bin, what its figures are made of, in memory that does not grow with the log."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from roofline_probe.diff.bootstrap import Blocks, Pair
from roofline_probe.point import Point
from roofline_probe.summary import batch_bin, context_bin, is_counted, tokens_per_second, widen

CELLS_PER_DOUBLING = 7
"""Cells of batch and context are 10 % wide (the seventh root of 2); a power of two is the middle of its cell. Wider
ones let a context that grew inside them pass for a slower engine: at 22 %, halves of one run differed by 1.4 %."""

Basis = Literal["equal work", "recounted rate", "step time", "tokens/s"]
Cell = tuple[Basis, int, int]
"""Windows of about one batch and context that have the basis."""
Key = tuple[str, int, int]
"""Kind, batch bin, context bin."""


def _by_steps(name: str) -> Callable[[Point], Pair | None]:
    def pair(point: Point) -> Pair | None:
        value = getattr(point, name)
        steps = point.work.steps if point.work is not None else None
        return None if value is None or not steps else (value * steps, steps)

    return pair


def _by_time(read: Callable[[Point], float | None]) -> Callable[[Point], Pair | None]:
    def pair(point: Point) -> Pair | None:
        value, window = read(point), point.step.window_s
        return None if value is None or not window else (value * window, window)

    return pair


def _attained(point: Point) -> Pair | None:
    steps = point.work.steps if point.work is not None else None
    if point.attained_fraction is None or point.step_ms is None or not steps:
        return None
    return point.attained_fraction * point.step_ms * steps, point.step_ms * steps


FIGURES: Mapping[str, Callable[[Point], Pair | None]] = {
    "attained_fraction": _attained,
    "tok_s": _by_time(tokens_per_second),
    "step_ms": _by_steps("step_ms"),
    "gemm_ms": _by_steps("gemm_ms"),
    "kv_ms": _by_steps("kv_ms"),
    "link_ms": _by_steps("link_ms"),
    "rest_ms": _by_steps("rest_ms"),
    "recounted_tflops": _by_time(lambda p: p.recounted_tflops),
    "recounted_gbps": _by_time(lambda p: p.recounted_gbps),
    "engine_tflops": _by_time(lambda p: p.step.tflops),
    "engine_gbps": _by_time(lambda p: p.step.gbps),
    "batch": _by_time(lambda p: p.batch),
    "context": _by_time(lambda p: p.context),
}
"""Name -> (value x weight, weight) of one window: figures of a step weigh by its steps, rates by its seconds."""
NAMES = tuple(FIGURES)


def _steps_and_ms(point: Point) -> Pair | None:
    pair = FIGURES["step_ms"](point)
    return None if pair is None else (pair[1], pair[0])


_WORK_AND_TIME: Mapping[Basis, Callable[[Point], Pair | None]] = {
    "equal work": _attained,
    "recounted rate": FIGURES["recounted_tflops"],
    "step time": _steps_and_ms,
    "tokens/s": FIGURES["tok_s"],
}
"""(work, time) of one window. Equal work is the time that the parts as measured on this card take."""


@dataclass
class CellWindows:
    """How much of a bin lies in one cell."""

    windows: int = 0
    seconds: float = 0.0


@dataclass
class BinWindows:
    """The windows of one bin. ``blocks`` holds its figures by name, and by cell the work and time of that cell."""

    blocks: Blocks = field(default_factory=Blocks)
    cells: dict[Cell, CellWindows] = field(default_factory=dict)
    seconds: float = 0.0
    batches: list[float] = field(default_factory=list)
    contexts: list[float] = field(default_factory=list)
    estimated: bool = False


class Collector:
    """The steady points of one log, by bin. Its ``add`` is a sink for ``compare``."""

    def __init__(self) -> None:
        self.bins: dict[Key, BinWindows] = {}
        self.windows = 0

    def add(self, point: Point) -> None:
        """Count one point, if it is steady and of known length."""
        if not is_counted(point.step):
            return
        key = (point.step.kind, batch_bin(point.batch), context_bin(point.context))
        found = self.bins.get(key)
        if found is None:
            found = self.bins[key] = BinWindows()
        seconds = point.step.window_s or 0.0
        pairs: dict[Hashable, Pair] = {}
        for name, read in FIGURES.items():
            if (pair := read(point)) is not None:
                pairs[name] = pair
        for cell, pair in _cells(point):
            pairs[cell] = pair
            held = found.cells.setdefault(cell, CellWindows())
            held.windows += 1
            held.seconds += seconds
        found.blocks.add(pairs)
        found.seconds += seconds
        found.estimated = found.estimated or point.estimated
        widen(found.batches, point.batch)
        widen(found.contexts, point.context)
        self.windows += 1


def _cells(point: Point) -> Iterable[tuple[Cell, Pair]]:
    """The point's cell under each basis that it has, with its work and time there."""
    batch, context = _rung(point.batch), _rung(point.context)
    for basis, read in _WORK_AND_TIME.items():
        pair = read(point)
        if pair is not None and min(pair) > 0:
            yield (basis, batch, context), pair


def _rung(value: float | None) -> int:
    """Which cell of batch or of context; -1 where it is unknown or below one."""
    return -1 if value is None or value < 1 else round(CELLS_PER_DOUBLING * math.log2(value))


def collect(points: Iterable[Point]) -> Collector:
    """Points already at hand."""
    collector = Collector()
    for point in points:
        collector.add(point)
    return collector
