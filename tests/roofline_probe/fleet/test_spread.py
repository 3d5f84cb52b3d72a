"""Distribution, slowest, odd ones out, stragglers."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_probe.fleet.spread import distribution, odd_ones, slowest, stragglers

FRACTIONS = st.lists(st.floats(0.01, 1.5), min_size=1, max_size=40)


def test_distribution_is_of_the_values_themselves() -> None:
    spread = distribution([i / 100 for i in range(101)])

    assert spread is not None
    assert (spread.count, spread.low, spread.high) == (101, 0.0, 1.0)
    assert (spread.p10, spread.median, spread.p90) == pytest.approx((0.1, 0.5, 0.9))


def test_no_values_have_no_distribution() -> None:
    assert distribution([]) is None


@pytest.mark.parametrize(
    ("count", "known"),
    [(1, {"low", "high"}), (2, {"low", "high"}), (3, {"low", "median", "high"}), (9, {"low", "median", "high"}),
     (10, {"low", "p10", "median", "p90", "high"})],
)  # fmt: skip
def test_no_figure_is_interpolated_from_a_few_values(count: int, known: set[str]) -> None:
    spread = distribution([i / 10 for i in range(count)])

    assert spread is not None
    assert {name for name in ("low", "p10", "median", "p90", "high") if getattr(spread, name) is not None} == known


@given(FRACTIONS)
def test_distribution_is_ordered_whatever_the_values(values: list[float]) -> None:
    spread = distribution(values)

    assert spread is not None
    known = [spread.low, spread.p10, spread.median, spread.p90, spread.high]
    quantiles = [value for value in known if value is not None]
    assert all(a <= b + 1e-12 for a, b in itertools.pairwise(quantiles))


def test_slowest_come_lowest_first() -> None:
    assert slowest({"a": 0.9, "b": 0.2, "c": 0.5}, 2) == ["b", "c"]


def test_odd_ones_lie_far_on_either_side() -> None:
    usual = {f"node{i}": 0.80 + i / 1000 for i in range(10)}

    assert odd_ones({**usual, "slow": 0.5, "wrong-card": 1.4}) == ["wrong-card", "slow"]


def test_a_hair_among_equals_is_not_odd() -> None:
    assert odd_ones({**{str(i): 0.8 for i in range(9)}, "hair": 0.805}) == []


def test_four_values_are_too_few_to_say_what_is_usual() -> None:
    assert odd_ones({"a": 0.8, "b": 0.8, "c": 0.8, "d": 0.1}) == []


def test_stragglers_are_below_97_percent_of_the_median() -> None:
    assert stragglers({"a": 100.0, "b": 100.0, "c": 100.0, "near": 97.1, "far": 96.9, "worst": 90.0}) == ["worst"]
    assert stragglers({"a": 100.0, "b": 100.0, "c": 100.0, "far": 96.9, "worst": 90.0}) == ["worst", "far"]


def test_one_card_is_no_straggler() -> None:
    assert stragglers({"a": 1.0}) == []
