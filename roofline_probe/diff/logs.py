"""Two logs of serving, before and after: what changed at the same batch and context, and how sure that is. Pure.

Only bins that both logs have are compared, each with itself: a log that ran larger batches is not faster for it. The
headline is ``pace``, the time that the same work takes (``pace`` says how like is compared with like inside a bin);
the other figures are those of the whole bin. Kinds add up their bins with the seconds that BEFORE
spent in what was compared. Intervals are 95 % block bootstraps (``bootstrap``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from log_parsers.sources import displayed
from log_parsers.step import LogFacts
from roofline_probe.diff.bootstrap import interval
from roofline_probe.diff.collect import NAMES, Basis, BinWindows, Collector, Key
from roofline_probe.diff.pace import MIN_WINDOWS, Alike, Pace, combined, compare_alike
from roofline_probe.errors import UsageError
from roofline_probe.point import Roof
from roofline_probe.report.text import count, model_name, span
from roofline_probe.summary import KIND_ORDER

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
    """Too few windows on a side."""
    unlike: bool
    """Enough windows, but too few of them at the batch and context of the other side's."""
    before_alike: int
    """Windows in cells of batch and context that both sides have: those that ``pace`` compares."""
    after_alike: int
    pace: Pace | None
    """None where the bin is not compared."""
    changes: Mapping[str, Change]
    estimated: bool

    @property
    def verdict(self) -> Literal["slower", "faster", "unchanged", "too thin", "not alike"] | None:
        """What to say of it; None where neither side has a rate."""
        if self.pace is not None:
            return self.pace.verdict
        return "too thin" if self.thin else "not alike" if self.unlike else None


@dataclass(frozen=True, slots=True)
class KindChange:
    """All bins of a kind that were compared, weighted by the seconds that BEFORE spent in what was compared."""

    kind: str
    only: Literal["before", "after"] | None
    """The one log that has it."""
    common_bins: int
    bins: int
    """How many of the common ones were compared."""
    thin_bins: int
    unlike_bins: int
    compared_fraction: float | None
    """Of BEFORE's seconds of this kind, in all its bins."""
    known: tuple[Literal["batch", "context"], ...]
    """Which of them every compared bin tells: only these are alike."""
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
    """All that either log has."""
    bins: tuple[BinChange, ...]
    only_before: tuple[str, ...] = ()
    """Bins that the other log lacks, as ``decode at batch 33–63, context 1,043–2,368 (12 windows)``, those with most
    windows first."""
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
        kinds=_kinds(compared, before, after),
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
    return model_name(name).lower() if name else None


def _only(here: Collector, there: Collector) -> tuple[str, ...]:
    alone = sorted(here.bins.keys() - there.bins.keys(), key=_order)
    missing = sorted(alone, key=lambda key: -here.bins[key].blocks.windows)
    return tuple(_describe(key, here.bins[key]) for key in missing)


def _describe(key: Key, found: BinWindows) -> str:
    size, context = _bounds(found.batches), _bounds(found.contexts)
    if key[0] == "prefill":
        where = f" of {size} {'token' if size == '1' else 'tokens'} a step" if size else ""
    else:
        where = ", ".join(f"{name} {bounds}" for name, bounds in (("batch", size), ("context", context)) if bounds)
        where = f" at {where}" if where else ""
    return f"{key[0]}{where} ({count(found.blocks.windows, 'window')})"


def _bounds(seen: list[float]) -> str:
    return span(*_span(seen)) if seen else ""


def _span(bounds: list[float]) -> tuple[int | None, int | None]:
    return (round(bounds[0]), round(bounds[-1])) if bounds else (None, None)


def _compare(
    key: Key, one: BinWindows, two: BinWindows, same_roof: bool, engine_too: bool
) -> tuple[BinChange, Alike | None]:
    thin = min(one.blocks.windows, two.blocks.windows) < MIN_WINDOWS
    seed = "/".join(map(str, key))
    draws = ([], []) if thin else (one.blocks.draw(f"before {seed}"), two.blocks.draw(f"after {seed}"))
    changes = {}
    for name in NAMES:
        if engine_too or name not in _ENGINE_FIGURES:
            replicates = (one.blocks.replicates(name, draws[0]), two.blocks.replicates(name, draws[1]))
            changes[name] = _change(one.blocks.value(name), two.blocks.value(name), replicates)
    alike = None if thin else compare_alike(one, two, _bases(key[0], same_roof), draws)
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
        unlike=alike is not None and alike.pace is None,
        before_alike=alike.before_windows if alike else 0,
        after_alike=alike.after_windows if alike else 0,
        pace=alike.pace if alike else None,
        changes=changes,
        estimated=one.estimated or two.estimated,
    )
    return change, alike


def _bases(kind: str, same_roof: bool) -> list[Basis]:
    """What the pace may be taken from, the best first: attained, under one roof, minds batch and context least."""
    equal_work: list[Basis] = ["equal work"] if same_roof else []
    by_work: list[Basis] = ["recounted rate"] if kind != "decode" else []
    return [*equal_work, *by_work, "step time", "tokens/s"]


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


def _kinds(
    compared: Sequence[tuple[BinChange, Alike | None]], before: Collector, after: Collector
) -> tuple[KindChange, ...]:
    had, has = ({key[0] for key in side.bins} for side in (before, after))
    found = []
    for kind in (kind for kind in KIND_ORDER if kind in had | has):
        own = [(change, alike) for change, alike in compared if change.kind == kind]
        judged = [alike for _, alike in own if alike is not None and alike.pace is not None]
        bounds: dict[Literal["batch", "context"], list[int | None]] = {
            "batch": [change.batch_low for change, _ in own if change.pace],
            "context": [change.context_low for change, _ in own if change.pace],
        }
        spent = sum(windows.seconds for key, windows in before.bins.items() if key[0] == kind)
        found.append(
            KindChange(
                kind=kind,
                only="before" if kind not in has else "after" if kind not in had else None,
                common_bins=len(own),
                bins=len(judged),
                thin_bins=sum(change.thin for change, _ in own),
                unlike_bins=sum(change.unlike for change, _ in own),
                compared_fraction=sum(alike.seconds for alike in judged) / spent if spent else None,
                known=tuple(name for name, lows in bounds.items() if None not in lows),
                pace=combined(judged),
            )
        )
    return tuple(found)


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
