"""Intervals: right on average, the same every time, and no dearer for a long log."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_probe.diff.bootstrap import BLOCKS, REPLICATES, Blocks, interval


def blocks_of(values: list[float], weight: float = 1.0) -> Blocks:
    blocks = Blocks()
    for value in values:
        blocks.add({"rate": (value * weight, weight)})
    return blocks


def test_value_is_work_over_time() -> None:
    blocks = Blocks()
    blocks.add({"rate": (10.0 * 1, 1.0)})
    blocks.add({"rate": (20.0 * 3, 3.0)})
    assert blocks.value("rate") == pytest.approx(17.5)


def test_a_window_without_the_figure_does_not_count() -> None:
    blocks = Blocks()
    blocks.add({"rate": (5.0, 1.0)})
    blocks.add({"rate": (7.0, 1.0), "rest": (3.0, 1.0)})
    assert blocks.value("rate") == 6.0
    assert blocks.value("rest") == 3.0
    assert (blocks.holding(["rate"]), blocks.holding(["rest"]), blocks.holding(["other"])) == (2, 1, 0)


def test_figure_that_no_window_has_is_unknown() -> None:
    blocks = Blocks()
    blocks.add({})
    assert blocks.value("rate") is None
    assert interval(blocks.replicates("rate", blocks.draw("x"))) is None


@given(st.lists(st.floats(1, 100), min_size=1, max_size=2000))
def test_merging_blocks_changes_no_value(values: list[float]) -> None:
    assert blocks_of(values).value("rate") == pytest.approx(sum(values) / len(values))


def test_memory_does_not_grow_with_the_log() -> None:
    blocks = blocks_of([float(i % 7) for i in range(20_000)])
    assert blocks.windows == 20_000
    assert BLOCKS < len(blocks.draw("x")[0]) <= 2 * BLOCKS


def test_same_seed_same_interval() -> None:
    blocks = blocks_of([random.Random(3).gauss(10, 1) for _ in range(50)])
    assert blocks.draw("decode/5/1") == blocks.draw("decode/5/1")
    assert blocks.draw("decode/5/1") != blocks.draw("decode/6/1")


def test_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    generator, covered, rounds = random.Random(11), 0, 60
    for at in range(rounds):
        blocks = blocks_of([generator.gauss(10, 1) for _ in range(40)])
        found = interval(blocks.replicates("rate", blocks.draw(f"{at}")))
        assert found is not None
        covered += found[0] <= 10 <= found[1]
    assert 0.85 * rounds <= covered <= rounds - 1


def test_neighbours_that_resemble_each_other_widen_the_interval() -> None:
    generator = random.Random(5)
    drifting, level = [], 0.0
    for _ in range(1000):
        level = 0.98 * level + generator.gauss(0, 1)
        drifting.append(100 + level)
    shuffled = drifting.copy()
    generator.shuffle(shuffled)
    widths = []
    for values in (drifting, shuffled):
        blocks = blocks_of(values)
        found = interval(blocks.replicates("rate", blocks.draw("w")))
        assert found is not None
        widths.append(found[1] - found[0])
    assert widths[0] > 1.5 * widths[1]


def test_interval_needs_most_replicates() -> None:
    assert interval([1.0] * (REPLICATES // 2 - 1) + [None] * REPLICATES) is None
    assert interval([1.0] * REPLICATES) == (1.0, 1.0)
