"""How sure a figure is: bootstrap intervals of work over time, deterministic and in bounded memory.

Neighbouring windows of a log resemble each other (one batch, one context growing), so resampling single windows would
call chance too small. Windows are kept as at most ``2 * BLOCKS`` blocks of neighbours, which are resampled whole: when
a log grows past that, two blocks become one, and a log of any length costs the same.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import repeat

BLOCKS = 64
REPLICATES = 600
LEVEL = 0.95


class Blocks:
    """Sums of (numerator, denominator) pairs, one pair a figure, over runs of neighbouring windows."""

    def __init__(self, figures: int) -> None:
        self._zeros = [0.0] * (2 * figures)
        self._sums: list[list[float]] = []
        self._per_block = 1
        self._filled = 0
        self.windows = 0

    def add(self, pairs: Sequence[tuple[float, float] | None]) -> None:
        """One window, in order of arrival; None for a figure that it does not have."""
        if not self._sums or self._filled == self._per_block:
            self._start_block()
        block = self._sums[-1]
        for at, pair in enumerate(pairs):
            if pair is not None:
                block[2 * at] += pair[0]
                block[2 * at + 1] += pair[1]
        self._filled += 1
        self.windows += 1

    def _start_block(self) -> None:
        if len(self._sums) == 2 * BLOCKS:
            pairs = zip(self._sums[::2], self._sums[1::2], strict=True)
            self._sums = [[a + b for a, b in zip(one, two, strict=True)] for one, two in pairs]
            self._per_block *= 2
        self._sums.append(self._zeros.copy())
        self._filled = 0

    def value(self, figure: int) -> float | None:
        """Sum of numerators over sum of denominators; None if no window had the figure."""
        weight = sum(block[2 * figure + 1] for block in self._sums)
        return sum(block[2 * figure] for block in self._sums) / weight if weight else None

    def replicates(self, figure: int, draws: Sequence[Sequence[int]]) -> list[float | None]:
        """The figure of every resample: ``draws`` as made by ``draw``."""
        top = [block[2 * figure] for block in self._sums]
        bottom = [block[2 * figure + 1] for block in self._sums]
        out: list[float | None] = []
        for chosen in draws:
            weight = sum(map(bottom.__getitem__, chosen))
            out.append(sum(map(top.__getitem__, chosen)) / weight if weight else None)
        return out

    def draw(self, seed: str) -> list[list[int]]:
        """Which blocks each resample takes; the same for the same seed and number of blocks, on every machine."""
        generator, blocks = random.Random(seed), range(len(self._sums))
        return [generator.choices(blocks, k=len(blocks)) for _ in repeat(None, REPLICATES)]


def interval(values: Sequence[float | None]) -> tuple[float, float] | None:
    """The middle ``LEVEL`` of the replicates; None if too many of them lack the figure."""
    known = sorted(v for v in values if v is not None)
    if len(known) < REPLICATES // 2:
        return None
    tail = (1 - LEVEL) / 2
    return known[round(tail * (len(known) - 1))], known[round((1 - tail) * (len(known) - 1))]
