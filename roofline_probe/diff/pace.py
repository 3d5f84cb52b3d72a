"""How much slower the same work became, comparing like with like. Pure.

A bin is wide, and work in it differs: inside one, contexts may have doubled. So its windows are sorted into cells 10 %
wide in batch and in context, and only cells that both logs have count: there AFTER's pace is applied to BEFORE's work,
and the pace of the bin is the time that this takes over the time that BEFORE took. Where the common cells hold too
little on either side, there is no pace.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from roofline_probe.diff.bootstrap import REPLICATES, Draws, Pair, interval
from roofline_probe.diff.collect import Basis, BinWindows

MIN_WINDOWS = 10
"""Fewer windows on either side and a bin is too thin to be judged; in a long log, fewer blocks of neighbours."""
UNCHANGED = 0.01
"""Changes under 1 % are not spoken of: an MFU line rounds more than that at small batches."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Time for the same work, after / before − 1: above zero is slower. The interval is of 95 %."""

    basis: Basis
    slower: float
    low: float
    high: float

    @property
    def verdict(self) -> Literal["slower", "faster", "unchanged"]:
        """A change is one whose interval leaves zero out and that is not under 1 %."""
        if abs(self.slower) < UNCHANGED or self.low <= 0 <= self.high:
            return "unchanged"
        return "slower" if self.slower > 0 else "faster"


@dataclass(frozen=True, slots=True)
class Alike:
    """What two bins have in common, and its pace."""

    before_windows: int
    after_windows: int
    seconds: float
    """Those that BEFORE spent in the common cells."""
    pace: Pace | None = None
    """None where too little is common."""
    replicates: Sequence[float | None] = ()
    """The logarithm of 1 + slower in every resample; None in one that drew no common cell."""


def compare_alike(
    before: BinWindows, after: BinWindows, bases: Sequence[Basis], draws: tuple[Draws, Draws]
) -> Alike | None:
    """The pace of one bin by the first of ``bases`` that both sides have; None if they share none."""
    for basis in bases:
        one, two = ({cell for cell in side.cells if cell[0] == basis} for side in (before, after))
        if one and two:
            break
    else:
        return None
    common = sorted(one & two)
    found = Alike(
        before_windows=sum(before.cells[cell].windows for cell in common),
        after_windows=sum(after.cells[cell].windows for cell in common),
        seconds=sum(before.cells[cell].seconds for cell in common),
    )
    if min(side.blocks.holding(common) for side in (before, after)) < MIN_WINDOWS:
        return found
    logarithm = _log_slower((before.blocks.total(cell), after.blocks.total(cell)) for cell in common)
    by_cell = [
        zip(before.blocks.resampled(cell, draws[0]), after.blocks.resampled(cell, draws[1]), strict=True)
        for cell in common
    ]
    replicates = [_log_slower(pairs) for pairs in zip(*by_cell, strict=True)]
    return replace(found, pace=_pace(basis, logarithm, replicates), replicates=replicates)


def _log_slower(cells: Iterable[tuple[Pair, Pair]]) -> float | None:
    """Of (work, time) before and after, cell by cell: the logarithm of AFTER's time for BEFORE's work over BEFORE's."""
    took = would_take = 0.0
    for (work, time), (other_work, other_time) in cells:
        if work and other_work:  # a resample may have drawn nothing of this cell on one side
            took += time
            would_take += work * other_time / other_work
    return math.log(would_take / took) if took else None


def combined(bins: Sequence[Alike]) -> Pace | None:
    """The pace of several bins, weighted by the seconds that BEFORE spent in their common cells."""
    judged = [(alike, alike.pace) for alike in bins if alike.pace is not None]
    if not judged:
        return None
    weights = [alike.seconds for alike, _ in judged]
    exact = _weighted([math.log1p(pace.slower) for _, pace in judged], weights)
    replicates = [_weighted([alike.replicates[at] for alike, _ in judged], weights) for at in range(REPLICATES)]
    return _pace(judged[0][1].basis, exact, replicates)


def _weighted(values: Sequence[float | None], weights: Sequence[float]) -> float | None:
    known = [(value, weight) for value, weight in zip(values, weights, strict=True) if value is not None]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None


def _pace(basis: Basis, logarithm: float | None, replicates: Sequence[float | None]) -> Pace | None:
    """A pace from its logarithm; None if too few replicates know it."""
    bounds = interval(replicates)
    if bounds is None or logarithm is None:
        return None
    return Pace(basis, math.expm1(logarithm), math.expm1(bounds[0]), math.expm1(bounds[1]))
