"""Two logs of serving, before and after: what changed at the same batch and context, and how sure that is. Pure.

Only bins that both logs have are compared, each with itself: a log that ran larger batches is not faster for it. The
headline is ``pace``, the time that the same work takes: where both sides stand under one roof it is the change of
1/attained, which does not mind that the mean batch moved inside its bin. Kinds add up their bins with the seconds that
BEFORE spent in them. Intervals are 95 % block bootstraps (``bootstrap``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from log_parsers.sources import displayed
from log_parsers.step import LogFacts
from roofline_probe.diff.bootstrap import REPLICATES, interval
from roofline_probe.diff.collect import NAMES, BinWindows, Collector, Key
from roofline_probe.errors import UsageError
from roofline_probe.point import Roof
from roofline_probe.summary import KIND_ORDER

MIN_WINDOWS = 10
"""Fewer windows on either side and a bin is too thin to be judged."""
UNCHANGED = 0.01
"""Changes under 1 % are not spoken of: an MFU line rounds more than that at small batches."""

Basis = Literal["equal work", "recounted rate", "step time", "tokens/s"]

_ENGINE_FIGURES = ("engine_tflops", "engine_gbps")


@dataclass(frozen=True, slots=True)
class Change:
    """One figure before and after. Intervals are None in a thin bin, relative ones also where ``before`` is not > 0."""

    before: float | None
    after: float | None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    relative: float | None = None
    relative_low: float | None = None
    relative_high: float | None = None

    @property
    def certain(self) -> bool:
        """Whether the interval of the difference leaves zero out."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


@dataclass(frozen=True, slots=True)
class Pace:
    """Time for the same work, after / before − 1: above zero is slower."""

    basis: Basis
    slower: float
    low: float | None = None
    high: float | None = None

    @property
    def verdict(self) -> Literal["slower", "faster", "unchanged", "too thin"]:
        """A change is one whose interval leaves zero out and that is not under 1 %."""
        if self.low is None or self.high is None:
            return "too thin"
        if abs(self.slower) < UNCHANGED or self.low <= 0 <= self.high:
            return "unchanged"
        return "slower" if self.slower > 0 else "faster"


@dataclass(frozen=True, slots=True)
class BinChange:
    """One kind, batch bin and context bin that both logs have."""

    kind: str
    batch_low: int | None
    batch_high: int | None
    context_low: int | None
    context_high: int | None
    before_windows: int
    after_windows: int
    before_seconds: float
    thin: bool
    pace: Pace | None
    changes: Mapping[str, Change]
    estimated: bool


@dataclass(frozen=True, slots=True)
class KindChange:
    """All bins of a kind that are not thin, weighted by the seconds that BEFORE spent in them."""

    kind: str
    bins: int
    thin_bins: int
    pace: Pace | None


@dataclass(frozen=True, slots=True)
class Side:
    """What one log is."""

    name: str
    engine: str | None = None
    engine_version: str | None = None
    model: str | None = None
    dtype: str | None = None
    quantization: str | None = None
    tp: int | None = None
    device: str | None = None
    """Always assumed: the profile's."""
    steady_windows: int = 0


@dataclass(frozen=True, slots=True)
class LogDiff:
    """The answer of ``probe diff`` for two logs."""

    before: Side
    after: Side
    kinds: tuple[KindChange, ...]
    bins: tuple[BinChange, ...]
    only_before: tuple[str, ...] = ()
    """Bins that the other log lacks, as ``decode at batch 33-63 (12 windows)``, the largest first."""
    only_after: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    """``different_engine``, ``different_card``, ``different_model`` …: what is compared in recounted figures only."""


def side_of(name: str, facts: Sequence[LogFacts], roof: Roof | None, collector: Collector) -> Side:
    """Name a log by the last run that says something of itself."""
    known = next((f for f in reversed(facts) if f.engine is not None), LogFacts())
    return Side(
        name=displayed(name),
        engine=known.engine,
        engine_version=known.engine_version,
        model=known.model,
        dtype=roof.dtype if roof else known.dtype,
        quantization=known.quantization,
        tp=known.tp,
        device=roof.device if roof else None,
        steady_windows=collector.windows,
    )


def diff_logs(before: Collector, after: Collector, sides: tuple[Side, Side], *, same_roof: bool = True) -> LogDiff:
    """Compare bin by bin.

    ``same_roof`` says that both were judged by one profile, dtype and choice of roof; without it, parts and attained
    stand side by side, and the pace is taken from rates that mean the same under any roof.
    """
    one, two = sides
    caveats = _caveats(one, two, same_roof)
    shared = sorted(before.bins.keys() & after.bins.keys(), key=_order)
    engine_too = not ({"different_engine", "different_card"} & set(caveats))
    compared = [_compare(key, before.bins[key], after.bins[key], same_roof, engine_too) for key in shared]
    return LogDiff(
        before=one,
        after=two,
        kinds=_kinds(compared),
        bins=tuple(change for change, _ in compared),
        only_before=_only(before, after),
        only_after=_only(after, before),
        caveats=caveats,
    )


def _order(key: Key) -> tuple[int, int, int]:
    return KIND_ORDER.index(key[0]), key[1], key[2]


def _caveats(one: Side, two: Side, same_roof: bool) -> tuple[str, ...]:
    differing = {
        "different_engine": one.engine != two.engine,
        "different_card": one.device != two.device,
        "different_model": _model(one.model) != _model(two.model),
        "different_dtype": (one.dtype, one.quantization) != (two.dtype, two.quantization),
        "different_tp": one.tp != two.tp and None not in (one.tp, two.tp),
        "different_roof": not same_roof and one.device == two.device,
    }
    return tuple(code for code, differs in differing.items() if differs)


def _model(name: str | None) -> str | None:
    """The last part of a path or hub name: where the weights lie says nothing of what they are."""
    return name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1].lower() if name else None


def _only(here: Collector, there: Collector) -> tuple[str, ...]:
    missing = sorted(here.bins.keys() - there.bins.keys(), key=lambda key: -here.bins[key].blocks.windows)
    return tuple(_describe(key, here.bins[key]) for key in missing)


def _describe(key: Key, found: BinWindows) -> str:
    low, high = _span(found.batches)
    size = "" if low is None else f"{low}" if low == high else f"{low}-{high}"
    where = "" if not size else f" of {size} tokens a step" if key[0] == "prefill" else f" at batch {size}"
    return f"{key[0]}{where} ({found.blocks.windows} windows)"


def _span(bounds: list[float]) -> tuple[int | None, int | None]:
    return (round(bounds[0]), round(bounds[-1])) if bounds else (None, None)


def _compare(
    key: Key, one: BinWindows, two: BinWindows, same_roof: bool, engine_too: bool
) -> tuple[BinChange, list[float] | None]:
    """The bin's changes, and the replicates of its pace's logarithm."""
    thin = min(one.blocks.windows, two.blocks.windows) < MIN_WINDOWS
    seed = "/".join(map(str, key))
    draws = ([], []) if thin else (one.blocks.draw(f"before {seed}"), two.blocks.draw(f"after {seed}"))
    replicates: dict[str, tuple[list[float | None], list[float | None]]] = {}
    changes = {}
    for at, name in enumerate(NAMES):
        if name in _ENGINE_FIGURES and not engine_too:
            continue
        replicates[name] = (one.blocks.replicates(at, draws[0]), two.blocks.replicates(at, draws[1]))
        changes[name] = _change(one.blocks.value(at), two.blocks.value(at), replicates[name])
    pace, logs = _pace(key[0], changes, replicates, same_roof)
    batches, contexts = _span(sorted(one.batches + two.batches)), _span(sorted(one.contexts + two.contexts))
    change = BinChange(
        kind=key[0],
        batch_low=batches[0],
        batch_high=batches[1],
        context_low=contexts[0],
        context_high=contexts[1],
        before_windows=one.blocks.windows,
        after_windows=two.blocks.windows,
        before_seconds=one.seconds,
        thin=thin,
        pace=pace,
        changes=changes,
        estimated=one.estimated or two.estimated,
    )
    return change, logs


def _change(
    before: float | None, after: float | None, replicates: tuple[list[float | None], list[float | None]]
) -> Change:
    if before is None or after is None:
        return Change(before, after)
    known = [(b, a) for b, a in zip(*replicates, strict=True) if b is not None and a is not None]
    low, high = interval([a - b for b, a in known]) or (None, None)
    if before <= 0:
        return Change(before, after, after - before, low, high)
    relative = interval([a / b - 1 for b, a in known if b > 0]) or (None, None)
    return Change(before, after, after - before, low, high, after / before - 1, *relative)


def _pace(
    kind: str,
    changes: Mapping[str, Change],
    replicates: Mapping[str, tuple[list[float | None], list[float | None]]],
    same_roof: bool,
) -> tuple[Pace | None, list[float] | None]:
    candidates: list[tuple[Basis, str, int]] = [("equal work", "attained_fraction", -1)] if same_roof else []
    if kind != "decode":
        candidates.append(("recounted rate", "recounted_tflops", -1))
    candidates += [("step time", "step_ms", 1), ("tokens/s", "tok_s", -1)]
    for basis, name, sign in candidates:
        change = changes[name]
        if (change.before or 0) > 0 and (change.after or 0) > 0:
            logs = [
                sign * math.log(a / b)
                for b, a in zip(*replicates[name], strict=True)
                if b is not None and a is not None and a > 0 and b > 0
            ]
            exact = sign * math.log((change.after or 1) / (change.before or 1))
            return _pace_of(basis, exact, logs), logs if len(logs) == REPLICATES else None
    return None, None


def _pace_of(basis: Basis, exact: float, logs: Sequence[float]) -> Pace:
    bounds = interval(logs)
    if bounds is None:
        return Pace(basis, math.expm1(exact))
    return Pace(basis, math.expm1(exact), math.expm1(bounds[0]), math.expm1(bounds[1]))


def _kinds(compared: Sequence[tuple[BinChange, list[float] | None]]) -> tuple[KindChange, ...]:
    found = []
    for kind in KIND_ORDER:
        own = [(change, logs) for change, logs in compared if change.kind == kind]
        if own:
            usable = [(change, logs) for change, logs in own if logs is not None and change.pace is not None]
            found.append(KindChange(kind, len(usable), sum(c.thin for c, _ in own), _combined(usable)))
    return tuple(found)


def _combined(usable: Sequence[tuple[BinChange, list[float]]]) -> Pace | None:
    """Bins weighted by BEFORE's seconds, replicate by replicate; their bases must agree to be called by one name."""
    total = sum(change.before_seconds for change, _ in usable)
    paces = [(change.pace, change.before_seconds / total, logs) for change, logs in usable if total and change.pace]
    if not paces:
        return None
    exact = sum(weight * math.log1p(pace.slower) for pace, weight, _ in paces)
    logs = [sum(weight * own[at] for _, weight, own in paces) for at in range(REPLICATES)]
    return _pace_of(paces[0][0].basis, exact, logs)


def check_threshold(percent: float) -> None:
    """A gate that NaN or infinity can never fail is no gate.

    Raises:
        UsageError: not a finite percentage of 0 or more.
    """
    if not 0 <= percent < math.inf:
        raise UsageError(f"--fail-over {percent:g} is not a percentage; give one like 5.")


def over(diff: LogDiff, percent: float) -> tuple[list[KindChange], list[BinChange]]:
    """Kinds and bins that became slower by more than ``percent``, surely (their interval leaves zero out).

    Raises:
        UsageError: ``percent`` is no percentage.
    """
    check_threshold(percent)

    def worse(pace: Pace | None) -> bool:
        return pace is not None and pace.verdict == "slower" and pace.slower * 100 > percent

    return [k for k in diff.kinds if worse(k.pace)], [b for b in diff.bins if worse(b.pace)]
