"""Points to figures, in one pass and bounded memory: per kind, per batch and context bin, per rank.

Only steady steps whose window has a known length count. Every figure is work over time, sum of value x window / sum of
windows, because windows alias (a window that happens to hold one long step more reads higher) and medians of aliased
windows are not rates. Step times are means over engine steps: sum of time / sum of steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from log_parsers.step import ServingStep
from roofline_probe.correlate import WINDOW_CODES, waits_for_host
from roofline_probe.point import Bin, Bound, Point, Summary

UNTIMED = "untimed"
"""A steady step whose window has no known length: work over no time is no rate, and would leave a row of dashes."""
KIND_ORDER = ("decode", "mixed", "prefill", "unknown")
CONTEXT_EDGES = (1024, 4096, 16384, 65536)
"""Tokens: the edges between context bins; batch bins are powers of two."""


def batch_bin(batch: float | None) -> int:
    """Largest power of two not above ``batch`` (as an exponent), -1 where the batch is unknown."""
    return -1 if batch is None else max(0, int(batch + 0.5).bit_length() - 1)


def context_bin(context: float | None) -> int:
    """Index of the context bin, -1 where the context is unknown."""
    return -1 if context is None else sum(context >= edge for edge in CONTEXT_EDGES)


class _Mean:
    """A weighted mean that knows whether it has seen anything."""

    __slots__ = ("total", "weight")

    def __init__(self) -> None:
        self.total = self.weight = 0.0

    def add(self, value: float | None, weight: float) -> None:
        if value is not None:
            self.total += value * weight
            self.weight += weight

    @property
    def value(self) -> float | None:
        return self.total / self.weight if self.weight else None


PREFILL_BIN = 4
"""Prefill bins span 16x: SGLang's windows run from line to line, and two batches launched together share one long and
one short window, which only their sum gets right."""
SOLID_S = 1.0
"""A row shorter than this may owe its figures to how its windows were cut."""
_BY_WINDOW = (
    "tok_s",
    "engine_tflops",
    "engine_gbps",
    "recounted_tflops",
    "recounted_gbps",
    "compute_fraction",
    "bandwidth_fraction",
)
_BY_STEP = ("step_ms", "gemm_ms", "kv_ms", "link_ms", "rest_ms")
_OVER_STEPS = ("batch_mean", "context_mean")
_BESIDE_RECOUNT = {"engine_tflops": "engine_tflops_recounted", "engine_gbps": "engine_gbps_recounted"}
"""The engine's rates over the windows that were recounted too: two counts of different windows have no ratio."""
_JUDGED = ("attained_fraction", "compute_fraction_without", "attained_fraction_without")
_MEANS = (*_BY_WINDOW, *_BY_STEP, *_OVER_STEPS, *_BESIDE_RECOUNT.values(), *_JUDGED)


@dataclass
class _Accumulator:
    kind: str
    engine: str
    rank: str | None = None
    windows: int = 0
    seconds: float = 0.0
    means: dict[str, _Mean] = field(default_factory=lambda: {name: _Mean() for name in _MEANS})
    above_windows: int = 0
    above_seconds: float = 0.0
    above_highest: float | None = None
    flops_per_byte: list[float] = field(default_factory=lambda: [0.0, 0.0])
    caveats: dict[str, None] = field(default_factory=dict)
    batches: list[float] = field(default_factory=list)
    contexts: list[float] = field(default_factory=list)
    estimated: bool = False
    half_roof: bool = False
    """Whether a window has no fraction of the roof: the larger of the means is then none either."""

    def add(self, point: Point) -> None:
        window = point.step.window_s or 0.0
        self.windows += 1
        self.seconds += window
        highest = max(point.attained_fraction or 0.0, point.roof_fraction or 0.0)
        above = highest > 1
        if above:
            self.above_windows += 1
            self.above_seconds += window
            self.above_highest = _highest(self.above_highest, highest)
        self._add_rates(point, window, above)
        self._add_parts(point, above)
        if point.caveats:
            self.caveats.update((code, None) for code in point.caveats if code not in WINDOW_CODES)
        widen(self.batches, point.batch)
        widen(self.contexts, point.context)
        self.estimated = self.estimated or point.estimated
        fraction = point.compute_fraction if point.compute_fraction is not None else point.bandwidth_fraction
        self.half_roof = self.half_roof or (fraction is not None and point.roof_fraction is None)

    def _add_rates(self, point: Point, window: float, above: bool) -> None:
        step, means = point.step, self.means
        means["tok_s"].add(tokens_per_second(point), window)
        means["engine_tflops"].add(step.tflops, window)
        means["engine_gbps"].add(step.gbps, window)
        means["recounted_tflops"].add(point.recounted_tflops, window)
        means["recounted_gbps"].add(point.recounted_gbps, window)
        if point.recounted_tflops is not None:
            means["engine_tflops_recounted"].add(step.tflops, window)
        if point.recounted_gbps is not None:
            means["engine_gbps_recounted"].add(step.gbps, window)
        means["compute_fraction"].add(point.compute_fraction, window)
        if not above:
            means["compute_fraction_without"].add(point.compute_fraction, window)
        means["bandwidth_fraction"].add(point.bandwidth_fraction, window)
        tflops, gbps = _basis_rates(point)
        if tflops is not None and gbps is not None:
            self.flops_per_byte[0] += tflops * 1e3 * window
            self.flops_per_byte[1] += gbps * window

    def _add_parts(self, point: Point, above: bool) -> None:
        if point.step_ms is None or point.work is None or not point.work.steps:
            return
        steps, means = point.work.steps, self.means
        for name in _BY_STEP:
            means[name].add(getattr(point, name), steps)
        if point.work.batch:
            means["batch_mean"].add(point.work.batch, steps)
            means["context_mean"].add(point.context, point.work.batch * steps)
        if point.attained_fraction is None:
            return
        means["attained_fraction"].add(point.attained_fraction, point.step_ms * steps)
        if not above:
            means["attained_fraction_without"].add(point.attained_fraction, point.step_ms * steps)

    def merge(self, other: _Accumulator) -> None:
        """Take in what another one has counted."""
        self.windows += other.windows
        self.seconds += other.seconds
        for name, mean in self.means.items():
            mean.total += other.means[name].total
            mean.weight += other.means[name].weight
        self.above_windows += other.above_windows
        self.above_seconds += other.above_seconds
        self.above_highest = _highest(self.above_highest, other.above_highest)
        self.flops_per_byte = [a + b for a, b in zip(self.flops_per_byte, other.flops_per_byte, strict=True)]
        self.caveats.update(other.caveats)
        for mine, theirs in ((self.batches, other.batches), (self.contexts, other.contexts)):
            for value in theirs:
                widen(mine, value)
        self.estimated = self.estimated or other.estimated
        self.half_roof = self.half_roof or other.half_roof

    def bin(self) -> Bin:
        """The row."""
        value = {name: mean.value for name, mean in self.means.items()}
        for name, beside in _BESIDE_RECOUNT.items():
            paired = value.pop(beside)
            value[name] = value[name] if paired is None else paired
        fractions = [f for f in (value["compute_fraction"], value["bandwidth_fraction"]) if f is not None]
        roof_fraction = max(fractions) if fractions and not self.half_roof else None
        solid = self.seconds >= SOLID_S
        above = ("above_roof",) if solid and fractions and max(fractions) > 1 else ()
        negative = ("rest_negative",) if solid and (value["rest_ms"] or 0.0) < 0 else ()
        return Bin(
            kind=self.kind,
            batch_low=_rounded(self.batches, 0),
            batch_high=_rounded(self.batches, -1),
            context_low=_rounded(self.contexts, 0),
            context_high=_rounded(self.contexts, -1),
            engine=self.engine,
            rank=self.rank,
            windows=self.windows,
            seconds=self.seconds,
            intensity=self.flops_per_byte[0] / self.flops_per_byte[1] if self.flops_per_byte[1] else None,
            roof_fraction=roof_fraction,
            estimated=self.estimated,
            bound=_bound(roof_fraction, value),
            caveats=(*self.caveats, *above, *negative),
            above_windows=self.above_windows,
            above_seconds=self.above_seconds,
            above_highest=self.above_highest,
            **value,
        )


def _bound(roof_fraction: float | None, value: Mapping[str, float | None]) -> Bound | None:
    """What limits a row, from the figures that it shows: the most frequent of its windows' may be another."""
    if roof_fraction is None:
        return None
    compute, bandwidth = value["compute_fraction"], value["bandwidth_fraction"]
    unavoidable = (value["gemm_ms"] or 0.0) + (value["kv_ms"] or 0.0)
    if waits_for_host(roof_fraction, value["attained_fraction"]):
        return "host"
    if (value["link_ms"] or 0.0) > unavoidable:
        return "link"
    if compute is None or bandwidth is None:
        return None
    return "compute" if compute >= bandwidth else "memory"


def is_counted(step: ServingStep) -> bool:
    """Whether a step's window has rates that mean something: steady, and of known length."""
    return step.status == "steady" and bool(step.window_s)


def widen(bounds: list[float], value: float | None) -> None:
    """Keep the lowest and the highest value seen in ``bounds``, which is empty before the first."""
    if value is None:
        return
    if not bounds:
        bounds[:] = [value, value]
    elif value < bounds[0]:
        bounds[0] = value
    elif value > bounds[1]:
        bounds[1] = value


_N = TypeVar("_N", int, float)


def _highest(so_far: _N | None, value: _N | None) -> _N | None:
    return value if so_far is None or (value is not None and value > so_far) else so_far


def _rounded(bounds: list[float], at: int) -> int | None:
    return round(bounds[at]) if bounds else None


def tokens_per_second(point: Point) -> float | None:
    """Generated tokens in decode, computed prompt tokens in prefill, both in a mixed window."""
    work, step = point.work, point.step
    if work is not None:
        return work.tokens / work.window_s
    if step.kind == "prefill":
        return step.prompt_tok_s
    if step.kind == "decode":
        return step.gen_tok_s
    known = [rate for rate in (step.prompt_tok_s, step.gen_tok_s) if rate is not None]
    return sum(known) if known else None


def _basis_rates(point: Point) -> tuple[float | None, float | None]:
    if point.basis == "recounted":
        return point.recounted_tflops, point.recounted_gbps
    return (point.step.tflops, point.step.gbps) if point.basis == "engine" else (None, None)


_Key = tuple[str, str, "str | None", int, int, bool]
"""Kind, engine, rank, batch bin, context bin, taken apart or not: the finest rows kept; every table merges some."""


class SummaryBuilder:
    """Feed points in order; ask for the summary at any time."""

    def __init__(self) -> None:
        self._rows: dict[_Key, _Accumulator] = {}
        self._excluded: Counter[str] = Counter()
        self._steps = 0
        self._queued = 0
        self._queued_running: int | None = None
        self._queued_kv: float | None = None
        self._judged = 0
        self._running_max: int | None = None
        self._first: str | None = None
        self._last: str | None = None
        self._kv_max: float | None = None

    def add(self, point: Point) -> None:
        """Count one point."""
        step = point.step
        self._steps += 1
        if step.time is not None:
            self._first = min(step.time, self._first or step.time)  # logs joined in the wrong order go back in time
            self._last = max(step.time, self._last or step.time)
        self._kv_max = _highest(self._kv_max, step.kv_usage)
        self._running_max = _highest(self._running_max, step.running)
        if point.basis is not None:
            self._judged += 1
        if not is_counted(step):
            self._excluded[step.status if step.status != "steady" else UNTIMED] += 1
            return
        if step.waiting or step.queue:
            self._queued += 1
            self._queued_running = _highest(self._queued_running, step.running)
            self._queued_kv = _highest(self._queued_kv, step.kv_usage)
        rows = batch_bin(point.batch)
        if step.kind == "prefill":
            rows = rows // PREFILL_BIN * PREFILL_BIN
        key = (step.kind, step.engine, step.rank, rows, context_bin(point.context), point.attained_fraction is not None)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = _Accumulator(step.kind, step.engine, step.rank)
        row.add(point)

    def build(self, caveats: tuple[str, ...] = ()) -> Summary:
        """The figures so far; ``caveats`` of the run come before those of its points."""
        kinds = self._merged(lambda key: (key[0],))
        bins = self._merged(lambda key: (key[0], key[1], key[3], key[4], key[5]))
        found = (code for row in (*kinds, *bins) for code in row.caveats)
        return Summary(
            kinds=kinds,
            bins=bins,
            ranks=self._ranks(),
            excluded=dict(self._excluded),
            steps=self._steps,
            first_time=self._first,
            last_time=self._last,
            queued=self._queued,
            queued_running_max=self._queued_running,
            queued_kv_usage_max=self._queued_kv,
            kv_usage_max=self._kv_max,
            judged=self._judged,
            running_max=self._running_max,
            caveats=tuple(dict.fromkeys((*caveats, *found))),
        )

    def _ranks(self) -> tuple[Bin, ...]:
        """Rows of each rank of the engines that have several: one engine's rank is no peer of another's."""
        of_engine: dict[str, set[str | None]] = {}
        for _, engine, rank, *_ in self._rows:
            of_engine.setdefault(engine, set()).add(rank)
        rows = self._merged(lambda key: (key[0], key[1], key[2] or ""), by_rank=True)
        return tuple(row for row in rows if len(of_engine[row.engine]) > 1)

    def _merged(self, group: Callable[[_Key], tuple[Any, ...]], *, by_rank: bool = False) -> tuple[Bin, ...]:
        """Rows of one table: the finest ones merged by ``group``, kinds in their order.

        All figures of a row are of the same windows: where some can be taken apart, those that cannot stay out of it.
        """
        merged: dict[tuple[Any, ...], _Accumulator] = {}
        apart = {group(key) for key in self._rows if key[5]}
        for key, row in self._rows.items():
            if not key[5] and group(key) in apart:
                continue
            where = (KIND_ORDER.index(key[0]), *group(key)[1:])
            if where not in merged:
                merged[where] = _Accumulator(row.kind, row.engine, row.rank if by_rank else None)
            merged[where].merge(row)
        return tuple(merged[where].bin() for where in sorted(merged))
