"""Points to rows: work over time, bins, ranks, what is left out; and that the order of arrival does not matter."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_parsers.step import ServingStep
from roofline_probe.correlate import correlate
from roofline_probe.point import Bin, Point, Roof, Summary
from roofline_probe.summary import SummaryBuilder, batch_bin, context_bin

ROOF = Roof("given", "x", "auto", "bf16", "log", pi_burst_tflops=1000.0, beta_gbps=4000.0, read_beta_gbps=4000.0)
STEP = ServingStep(
    source="-", run=0, line_no=1, engine="vllm", engine_version="0.24.0", rank="0", kind="decode", status="steady",
    window_s=1.0, running=32, tflops=50.0, gbps=3000.0, gen_tok_s=5000.0,
)  # fmt: skip


def point(**fields: object) -> Point:
    return correlate(replace(STEP, **fields), None, ROOF)  # type: ignore[arg-type]


def summary(points: list[Point]) -> Summary:
    builder = SummaryBuilder()
    for each in points:
        builder.add(each)
    return builder.build()


def test_rates_are_work_over_time_not_means_of_windows() -> None:
    (row,) = summary([point(tflops=100.0, window_s=9.0), point(tflops=0.0, window_s=1.0)]).kinds
    assert row.engine_tflops == pytest.approx(90.0)
    assert row.compute_fraction == pytest.approx(0.09)
    assert row.seconds == 10.0
    assert row.windows == 2


@pytest.mark.parametrize("status", ["idle", "diluted", "partial", "noise", "unsupported"])
def test_only_steady_steps_make_rows_and_the_others_are_counted(status: str) -> None:
    found = summary([point(), point(status=status, tflops=1e6)])
    assert [row.engine_tflops for row in found.kinds] == [50.0]
    assert found.excluded == {status: 1}
    assert found.steps == 2


def test_a_missing_rate_is_left_out_of_its_own_mean_only() -> None:
    (row,) = summary([point(gbps=None), point()]).kinds
    assert row.engine_gbps == 3000.0
    assert row.engine_tflops == 50.0


def test_the_engines_count_stands_beside_the_recount_of_the_same_windows() -> None:
    """A window whose steps are not known has no recounted bytes: its engine bytes have nothing to stand beside."""
    known = replace(point(gbps=3000.0, tflops=60.0), recounted_gbps=1500.0, recounted_tflops=50.0)
    unknown = replace(point(gbps=10.0, tflops=20.0), recounted_tflops=10.0)
    (row,) = summary([known, unknown]).kinds
    assert (row.engine_gbps, row.recounted_gbps) == (3000.0, 1500.0)
    assert (row.engine_tflops, row.recounted_tflops) == (40.0, 30.0)


def test_nothing_seen_is_nothing_said() -> None:
    found = SummaryBuilder().build()
    assert (found.kinds, found.bins, found.ranks, found.excluded, found.steps) == ((), (), (), {}, 0)


@pytest.mark.parametrize(
    ("batch", "exponent"), [(None, -1), (1, 0), (2, 1), (3, 1), (31.6, 5), (32, 5), (63, 5), (256, 8)]
)
def test_batch_bins_are_powers_of_two(batch: float | None, exponent: int) -> None:
    assert batch_bin(batch) == exponent


@pytest.mark.parametrize(("context", "index"), [(None, -1), (0, 0), (1023, 0), (1024, 1), (4096, 2), (1e6, 4)])
def test_context_bins(context: float | None, index: int) -> None:
    assert context_bin(context) == index


def test_rows_keep_batches_apart_and_show_what_they_hold() -> None:
    found = summary([point(running=n) for n in (1, 40, 33, 256)])
    assert [(row.batch_low, row.batch_high, row.windows) for row in found.bins] == [
        (1, 1, 1),
        (33, 40, 2),
        (256, 256, 1),
    ]
    assert [(row.batch_low, row.batch_high, row.windows) for row in found.kinds] == [(1, 256, 4)]


def test_kinds_come_in_their_order() -> None:
    found = summary([point(kind=kind) for kind in ("unknown", "prefill", "mixed", "decode")])
    assert [row.kind for row in found.kinds] == ["decode", "mixed", "prefill", "unknown"]


def test_one_rank_needs_no_table_and_several_have_one() -> None:
    assert summary([point()]).ranks == ()
    rows = summary([point(rank="0"), point(rank="1", tflops=70.0)]).ranks
    assert [(row.rank, row.engine_tflops) for row in rows] == [("0", 50.0), ("1", 70.0)]


def test_a_rank_is_compared_with_the_ranks_of_its_own_engine_only() -> None:
    other = point(engine="sglang", rank=None)
    assert summary([point(), other]).ranks == (), "one engine each: no peers"
    rows = summary([point(rank="0"), point(rank="1"), other]).ranks
    assert [(row.engine, row.rank) for row in rows] == [("vllm", "0"), ("vllm", "1")]


def test_the_span_is_from_the_earliest_to_the_latest_window_in_whatever_order() -> None:
    times = ["2026-03-01T12:01:10", "2026-03-01T12:01:30", None, "2026-03-01T12:00:10"]
    found = summary([point(time=time) for time in times])
    assert (found.first_time, found.last_time) == ("2026-03-01T12:00:10", "2026-03-01T12:01:30")


def test_waiting_requests_are_counted_with_the_limits_in_sight() -> None:
    found = summary([point(waiting=3, running=8, kv_usage=0.97), point(queue=1, running=9), point(running=200)])
    assert (found.queued, found.queued_running_max, found.queued_kv_usage_max) == (2, 9, 0.97)
    assert (found.running_max, found.kv_usage_max) == (200, 0.97)


def test_one_windows_aliasing_is_no_caveat_of_its_row() -> None:
    found = summary([point(tflops=1100.0), point(tflops=100.0)])
    assert found.caveats == ()
    assert summary([point(tflops=1100.0)]).caveats == ("above_roof",)


@given(seed=st.integers(0, 10_000))
def test_rows_do_not_depend_on_the_order_of_arrival(capture: Callable, seed: int) -> None:
    points = [p for p in capture("vllm/0.24.0-h200-graph-1s").analysis.points if p.step.status == "steady"]
    shuffled = random.Random(seed).sample(points, len(points))
    for mine, theirs in zip(summary(points).bins, summary(shuffled).bins, strict=True):
        _equal(mine, theirs)


def _equal(a: Bin, b: Bin) -> None:
    for name, value in asdict(a).items():
        other = getattr(b, name)
        if isinstance(value, float):
            assert other == pytest.approx(value), name
        elif name != "caveats":
            assert other == value, name


def test_the_bins_of_a_capture_add_up_to_its_kinds(capture: Callable) -> None:
    found = capture("sglang/0.5.16-h200").analysis.summary
    for kind in found.kinds:
        parts = [row for row in found.bins if row.kind == kind.kind]
        assert sum(row.windows for row in parts) == kind.windows
        assert sum(row.seconds for row in parts) == pytest.approx(kind.seconds)
        work = sum((row.recounted_tflops or 0.0) * row.seconds for row in parts)
        assert work == pytest.approx((kind.recounted_tflops or 0.0) * kind.seconds, rel=0.02)
