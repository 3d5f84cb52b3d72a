"""The third roof on a captured two-card run: kernels, KV and link predicted, the remainder left over.

Every part comes from the shipped profile (ceilings at TP 1 and 2, all-reduces timed in CUDA graphs between two cards);
nothing is fitted to the log.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from roofline_probe.comparison import compare
from roofline_probe.point import Bin

LOGS = Path(__file__).parents[2] / "fixtures/logs/vllm"
BATCHES = (1, 32, 256)


def decode_bins(log: str) -> dict[int, list[Bin]]:
    """Steady decode rows by batch, short contexts first."""
    found: dict[int, list[Bin]] = {}
    for row in compare(LOGS / log, "h200", keep_points=False).summary.bins:
        if row.kind == "decode" and row.batch_low is not None:
            found.setdefault(row.batch_low, []).append(row)
    return found


@pytest.fixture(scope="module")
def one_card() -> dict[int, list[Bin]]:
    return decode_bins("0.24.0-h200-graph-1s.log")


@pytest.fixture(scope="module")
def two_cards() -> dict[int, list[Bin]]:
    return decode_bins("0.24.0-h200-tp2-2s.log")


@pytest.mark.parametrize("batch", BATCHES)
def test_parts_are_measured_and_the_remainder_is_positive(two_cards: dict[int, list[Bin]], batch: int) -> None:
    for row in two_cards[batch]:
        assert not row.estimated, "the profile holds this model's ceiling at TP 2"
        assert row.step_ms is not None
        assert row.link_ms is not None
        assert row.rest_ms is not None
        assert row.step_ms == pytest.approx((row.gemm_ms or 0) + (row.kv_ms or 0) + row.link_ms + row.rest_ms, rel=1e-6)
        assert row.rest_ms > 0


@pytest.mark.parametrize("batch", BATCHES)
def test_the_remainder_is_no_larger_than_with_one_card(
    one_card: dict[int, list[Bin]], two_cards: dict[int, list[Bin]], batch: int
) -> None:
    # What the engine adds besides kernels is host work and small kernels on a halved hidden state: none of it grows
    # with the number of cards once the all-reduces are counted as link.
    rest = max(row.rest_ms or 0 for row in two_cards[batch])
    assert rest <= min(row.rest_ms or 0 for row in one_card[batch])


def test_at_batch_1_the_link_is_latency_and_costs_a_fifth_of_the_step(two_cards: dict[int, list[Bin]]) -> None:
    # 64 all-reduces (two a layer, 32 layers) of 8 KiB at some 12 us each.
    for row in two_cards[1]:
        assert row.link_ms == pytest.approx(64 * 12.2e-3, rel=0.01)
        assert row.step_ms is not None
        assert row.link_ms / row.step_ms == pytest.approx(0.22, abs=0.01)
