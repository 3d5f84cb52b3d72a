"""How long a vLLM statistics window was, from stamps that resolve one second.

``VLLM_LOG_STATS_INTERVAL`` is printed nowhere, so the interval is learned from the log: a tick after a busy tick is
always printed, hence the spacing of the two is one interval. Single spacings are off by up to a second either way;
their mean is not.
"""

from __future__ import annotations

from itertools import accumulate

_LONGEST_S = 3600
_SNAP = 0.06
"""A mean this close to whole seconds, as a share, is taken for them: intervals are set in whole seconds."""
_SETTLED = 8
_WEIGHT = 0.25
_LATE = 1.5
"""A spacing this much longer than the interval is a tick that came late: it tells nothing of the interval."""


class Interval:
    """The tick interval as far as the log has shown it, from spacings of consecutive ticks."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._exact: float | None = None
        self.seconds: float | None = None
        """Best estimate so far; None before the first usable spacing."""

    def learn(self, spacing: float, exact: bool) -> None:
        """Take in one spacing; ``exact`` where both stamps resolve less than a second."""
        if not 0 <= spacing <= _LONGEST_S:
            return
        whole = round(spacing)
        self._counts[whole] = self._counts.get(whole, 0) + 1
        if not exact and self._exact is None and whole == self.seconds and self._counts[whole] > _SETTLED:
            return  # one more of the same changes nothing
        if exact and 0 < spacing < _LATE * (self._exact or spacing + 1):
            self._exact = spacing if self._exact is None else self._exact + _WEIGHT * (spacing - self._exact)
        self.seconds = round(self._exact, 6) if self._exact else self._mean_of_regular()

    def _mean_of_regular(self) -> float | None:
        middle = self._median()
        if middle >= 1 and sum(self._counts.values()) < _SETTLED:
            return float(middle)  # a mean of few would follow a single late stamp
        near = [(whole, count) for whole, count in self._counts.items() if abs(whole - middle) <= 1]
        mean = sum(whole * count for whole, count in near) / sum(count for _, count in near)
        nearest = round(mean)
        if nearest >= 1 and abs(mean - nearest) <= _SNAP * nearest:
            return float(nearest)
        return round(mean, 4) or None

    def _median(self) -> int:
        half = (sum(self._counts.values()) + 1) // 2
        up_to = accumulate(self._counts[whole] for whole in sorted(self._counts))
        return next(whole for whole, seen in zip(sorted(self._counts), up_to, strict=True) if seen >= half)

    def ticks_in(self, span: float) -> int:
        """How many ticks fit a span of time, at least one."""
        return max(1, round(span / self.seconds)) if self.seconds else 1
