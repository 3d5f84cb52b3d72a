"""Points gathered for ``diff``: per bin, what its figures are made of, in memory that does not grow with the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from roofline_probe.diff.bootstrap import Blocks
from roofline_probe.point import Point
from roofline_probe.summary import batch_bin, context_bin, tokens_per_second

Pair = tuple[float, float]
Key = tuple[str, int, int]
"""Kind, batch bin, context bin: those of ``summary``."""


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
"""Name -> (value x weight, weight) of one window: the same weights as in ``summary``, so that figures agree with it."""
NAMES = tuple(FIGURES)


@dataclass
class BinWindows:
    """The windows of one bin."""

    blocks: Blocks = field(default_factory=lambda: Blocks(len(FIGURES)))
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
        """Count one point, if it is steady."""
        if point.step.status != "steady":
            return
        key = (point.step.kind, batch_bin(point.batch), context_bin(point.context))
        found = self.bins.get(key)
        if found is None:
            found = self.bins[key] = BinWindows()
        found.blocks.add([pair(point) for pair in FIGURES.values()])
        found.seconds += point.step.window_s or 0.0
        found.estimated = found.estimated or point.estimated
        _widen(found.batches, point.batch)
        _widen(found.contexts, point.context)
        self.windows += 1


def _widen(bounds: list[float], value: float | None) -> None:
    if value is not None:
        bounds[:] = [min([value, *bounds]), max([value, *bounds])]


def collect(points: Iterable[Point]) -> Collector:
    """Points already at hand."""
    collector = Collector()
    for point in points:
        collector.add(point)
    return collector
