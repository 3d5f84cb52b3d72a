"""What stands out among many: a distribution, the slowest, the odd ones out. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)

STRAGGLER_BELOW = 0.97
"""Of the median: cards of one model measured alike differ by a percent or two; three is a card to look at."""
_ODD = 3.5
"""Modified z-score (Iglewicz and Hoaglin, 1993) from which a value counts as an outlier."""
_MAD_TO_SIGMA = 1.4826
_FEWEST = 5
"""Of fewer values nobody can say what is usual."""
_FEWEST_MEDIAN = 3
_FEWEST_TENTHS = 10
_SMALLEST_ODD_GAP = 0.02
"""Relative to the median: when nearly all agree to the last digit, a hair's breadth would be odd."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """Of one figure over a fleet; None where there are too few values to speak of it."""

    count: int
    low: float
    p10: float | None
    median: float | None
    p90: float | None
    high: float


def distribution(values: Sequence[float]) -> Distribution | None:
    """None for no values. A median needs three, the outer tenths ten: of fewer they would be made of the extremes."""
    if not values:
        return None
    p10 = p90 = None
    if len(values) >= _FEWEST_TENTHS:
        tenths = quantiles(values, n=10, method="inclusive")
        p10, p90 = tenths[0], tenths[8]
    middle = median(values) if len(values) >= _FEWEST_MEDIAN else None
    return Distribution(len(values), min(values), p10, middle, p90, max(values))


def slowest(values: Mapping[Key, float], count: int = 5) -> list[Key]:
    """The lowest, lowest first."""
    return sorted(values, key=values.__getitem__)[:count]


def odd_ones(values: Mapping[Key, float]) -> list[Key]:
    """Outliers on either side, farthest first: by distance from the median in units of the usual distance (MAD)."""
    if len(values) < _FEWEST:
        return []
    middle = median(values.values())
    distance = {key: abs(value - middle) for key, value in values.items()}
    usual = median(distance.values()) * _MAD_TO_SIGMA
    least = max(_ODD * usual, _SMALLEST_ODD_GAP * abs(middle))
    return sorted((key for key in values if distance[key] > least), key=lambda key: -distance[key])


def stragglers(values: Mapping[Key, float]) -> list[Key]:
    """Those below 97 % of the median, lowest first; a fleet of one has none."""
    if len(values) < 2:
        return []
    limit = STRAGGLER_BELOW * median(values.values())
    return [key for key in slowest(values, len(values)) if values[key] < limit]
