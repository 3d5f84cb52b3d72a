"""How sure a figure is: bootstrap intervals of work over time, deterministic and in bounded memory.

Neighbouring windows of a log resemble each other (one batch, one context growing), so resampling single windows would
call chance too small. Windows are kept as at most ``2 * BLOCKS`` blocks of neighbours, which are resampled whole: when
a log grows past that, two blocks become one, and a log of any length costs the same.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Hashable, Mapping, Sequence
from itertools import repeat

BLOCKS = 64
REPLICATES = 600
LEVEL = 0.95

Pair = tuple[float, float]
"""A numerator and its denominator."""
Draws = Sequence[Sequence[int]]
"""Which blocks each resample takes, as made by ``Blocks.draw``."""


class Blocks:
    """Sums of numerators and denominators by key, over runs of neighbouring windows."""

    def __init__(self) -> None:
        self._sums: list[dict[Hashable, list[float]]] = []
        self._per_block = 1
        self._filled = 0
        self.windows = 0

    def add(self, pairs: Mapping[Hashable, Pair]) -> None:
        """One window, in order of arrival, with the figures that it has."""
        if not self._sums or self._filled == self._per_block:
            self._start_block()
        _add(self._sums[-1], pairs)
        self._filled += 1
        self.windows += 1

    def _start_block(self) -> None:
        if len(self._sums) == 2 * BLOCKS:
            for one, two in zip(self._sums[::2], self._sums[1::2], strict=True):
                _add(one, two)
            del self._sums[1::2]
            self._per_block *= 2
        self._sums.append({})
        self._filled = 0

    def total(self, key: Hashable) -> Pair:
        """The sums over all windows."""
        found = [block[key] for block in self._sums if key in block]
        return sum(top for top, _ in found), sum(bottom for _, bottom in found)

    def value(self, key: Hashable) -> float | None:
        """Sum of numerators over sum of denominators; None if no window had the figure."""
        return _ratio(self.total(key))

    def holding(self, keys: Collection[Hashable]) -> int:
        """How many blocks hold any of ``keys``: as many independent looks at them there are."""
        return sum(not block.keys().isdisjoint(keys) for block in self._sums)

    def resampled(self, key: Hashable, draws: Draws) -> list[Pair]:
        """The sums in every resample."""
        pairs = [block.get(key, (0.0, 0.0)) for block in self._sums]
        top, bottom = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        return [(sum(map(top.__getitem__, chosen)), sum(map(bottom.__getitem__, chosen))) for chosen in draws]

    def replicates(self, key: Hashable, draws: Draws) -> list[float | None]:
        """The figure of every resample."""
        return [_ratio(pair) for pair in self.resampled(key, draws)]

    def draw(self, seed: str) -> list[list[int]]:
        """Which blocks each resample takes; the same for the same seed and number of blocks, on every machine."""
        generator, blocks = random.Random(seed), range(len(self._sums))
        return [generator.choices(blocks, k=len(blocks)) for _ in repeat(None, REPLICATES)]


def _add(block: dict[Hashable, list[float]], pairs: Mapping[Hashable, Sequence[float]]) -> None:
    for key, (top, bottom) in pairs.items():
        sums = block.setdefault(key, [0.0, 0.0])
        sums[0] += top
        sums[1] += bottom


def _ratio(pair: Pair) -> float | None:
    return pair[0] / pair[1] if pair[1] else None


def interval(values: Sequence[float | None]) -> tuple[float, float] | None:
    """The middle ``LEVEL`` of the replicates; None if too many of them lack the figure."""
    known = sorted(v for v in values if v is not None)
    if len(known) < REPLICATES // 2:
        return None
    tail = (1 - LEVEL) / 2
    return known[round(tail * (len(known) - 1))], known[round((1 - tail) * (len(known) - 1))]
