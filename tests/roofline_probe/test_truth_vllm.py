"""Recounted work against what the client really sent, on the captured vLLM runs, and the parts of a step."""

from __future__ import annotations

from collections.abc import Callable

import pytest

GRAPH = "vllm/0.24.0-h200-graph-1s"
DECODE = [
    "01_dec_1_128_2600",
    "02_dec_8_128_2600",
    "03_dec_32_128_2400",
    "04_dec_128_128_1700",
    "05_dec_256_128_1200",
    "10_dec_32_4000_800",
]
BATCH = {"01": 1, "02": 8, "03": 32, "04": 128, "05": 256, "10": 32}


@pytest.mark.parametrize("name", [*DECODE, "06_pre_16_15"])
def test_flops_of_a_phase_are_within_5_percent(capture: Callable, total: Callable, name: str) -> None:
    run = capture(GRAPH)
    phase = run.phase(name)
    points = run.points_in(phase, slack_s=1.0)
    assert total(points, lambda p: p.recounted_tflops) * 1e12 == pytest.approx(phase.flops, rel=0.05)


@pytest.mark.parametrize("name", DECODE)
def test_bytes_of_a_decode_phase_are_within_5_percent(capture: Callable, total: Callable, name: str) -> None:
    run = capture(GRAPH)
    phase = run.phase(name)
    points = run.points_in(phase, slack_s=1.0)
    assert total(points, lambda p: p.recounted_gbps) * 1e9 == pytest.approx(phase.bytes, rel=0.05)


@pytest.mark.parametrize(
    "name",
    [
        GRAPH,
        "vllm/0.24.0-h200-steady-10s",
        "vllm/0.24.0-h200-eager-debug-10s",
        "vllm/0.24.0-h200-tp2-2s",
    ],
)
def test_flops_of_a_whole_run_are_within_5_percent(capture: Callable, total: Callable, name: str) -> None:
    run = capture(name)
    assert total(run.analysis.points, lambda p: p.recounted_tflops) * 1e12 == pytest.approx(run.true_flops(), rel=0.05)


def test_lines_wholly_inside_the_decode_phase_of_ten_second_windows(capture: Callable, total: Callable) -> None:
    """64 sequences step together, so the tokens of a window give its context, and the truth follows without the log."""
    run = capture("vllm/0.24.0-h200-steady-10s")
    points = run.points_wholly_in(run.phase("01_dec_64_512_3600"))
    assert len(points) >= 3
    generated = 44957 / 64  # per sequence, in the window that the phase began in
    for point in points:
        tokens = point.step.gen_tok_s * point.step.window_s
        steps = tokens / 64
        context = 512 + generated + steps / 2
        generated += steps
        flops = tokens * (2 * 6_979_321_856 + 2 * 525_336_576 + 4 * 32 * 128 * 32 * context)
        moved = steps * (15.009e9 + 64 * context * 131_072)
        assert point.recounted_tflops * 1e13 == pytest.approx(flops, rel=0.05)
        assert point.recounted_gbps * 1e10 == pytest.approx(moved, rel=0.05)


def test_lines_wholly_inside_the_prefill_phase_of_ten_second_windows(capture: Callable, total: Callable) -> None:
    run = capture("vllm/0.24.0-h200-steady-10s")
    phase = run.phase("02_pre_16_34")
    points = run.points_wholly_in(phase)
    assert len(points) >= 2
    seconds = (phase.end - phase.start).total_seconds()
    for point in points:
        assert point.recounted_tflops == pytest.approx(phase.flops / seconds / 1e12, rel=0.05)


@pytest.mark.parametrize("name", [GRAPH, "vllm/0.24.0-h200-steady-10s", "vllm/0.24.0-h200-tp2-2s"])
def test_no_steady_window_of_a_second_is_above_its_roof(capture: Callable, name: str) -> None:
    judged = [p for p in capture(name).analysis.points if p.step.status == "steady" and p.step.window_s >= 1]
    assert judged
    assert max(p.roof_fraction for p in judged if p.roof_fraction is not None) <= 1.03


@pytest.mark.parametrize("card", ["reference", "shipped"])
@pytest.mark.parametrize("name", DECODE)
def test_attained_stays_between_75_and_95_percent_in_every_decode_regime(
    capture: Callable, name: str, card: str
) -> None:
    run = capture(GRAPH, card)
    steady = [p for p in run.points_in(run.phase(name), 1.0) if p.step.status == "steady" and p.step.kind == "decode"]
    assert len(steady) >= 5
    for point in steady:
        assert point.batch == BATCH[name[:2]]
        assert 0.75 <= point.attained_fraction <= 0.95
        assert not point.estimated
        assert point.rest_ms > 0
        parts = point.gemm_ms + point.kv_ms + point.link_ms + point.rest_ms
        assert parts == pytest.approx(point.step_ms)
        assert point.attained_fraction == pytest.approx(1 - point.rest_ms / point.step_ms)


def test_roof_fraction_swings_where_attained_does_not(capture: Callable) -> None:
    """Why attained is the headline: GEMMs and KV reads run one after the other."""
    rows = [row for row in capture(GRAPH).analysis.summary.bins if row.kind == "decode"]
    fractions, attained = [r.roof_fraction for r in rows], [r.attained_fraction for r in rows]
    assert max(fractions) - min(fractions) > 0.2
    assert max(attained) - min(attained) < 0.08


def test_step_of_batch_256_comes_apart_as_measured_kernels_say(capture: Callable) -> None:
    """7.20 ms of GEMMs in a step of about 15.7 ms, and the KV cache's snapshots before and after it at 4.58 TB/s."""
    steady = [p for p in capture(GRAPH).analysis.points if p.batch == 256 and p.step.status == "steady"]
    middle = min(steady, key=lambda p: abs(p.step_ms - 15.65))
    assert middle.gemm_ms == pytest.approx(7.20, abs=0.01)
    held = (0.239 + 0.258) / 2 * 840_016
    assert middle.kv_ms == pytest.approx(held * 131_072 / 4.58e9, rel=0.02)


@pytest.mark.parametrize(
    ("batch", "most_rest_ms"),
    [
        # One card's remainder at that batch plus 64 all-reduces of 11 us: the latency of the engine's own all-reduce,
        # which a host-timed NCCL figure does not tell, so that the link term here is its bandwidth alone.
        pytest.param(1, 0.83 + 0.70, id="batch 1"),
        pytest.param(32, 1.03 + 0.70, id="batch 32"),
        pytest.param(256, 2.67 + 0.70, id="batch 256"),
    ],
)
def test_two_cards_leave_a_positive_remainder_explained_by_latency(
    capture: Callable, batch: int, most_rest_ms: float
) -> None:
    points = capture("vllm/0.24.0-h200-tp2-2s").analysis.points
    steady = [p for p in points if p.step.status == "steady" and p.step.kind == "decode" and p.batch == batch]
    assert steady
    for point in steady:
        assert point.link_ms > 0
        assert 0 < point.rest_ms < most_rest_ms
        assert point.estimated
        assert {"ceiling_of_other_tp", "link_lower_bound"} <= set(point.caveats)


def test_cache_hits_are_bound_by_the_host(capture: Callable) -> None:
    run = capture(GRAPH)
    steady = [p for p in run.points_in(run.phase("07_hit_16_5"), 0) if p.step.status == "steady"]
    assert steady
    assert {p.bound for p in steady if p.step.kind == "mixed"} == {"host"}


def test_prefill_is_bound_by_compute_and_decode_by_memory(capture: Callable) -> None:
    kinds = {row.kind: row for row in capture(GRAPH).analysis.summary.kinds}
    assert kinds["prefill"].bound == "compute"
    assert kinds["decode"].bound == "memory"
    assert 0.85 < kinds["prefill"].roof_fraction < 0.95


def test_the_engine_counts_prefill_attention_as_a_full_square(capture: Callable) -> None:
    run = capture(GRAPH)
    found = [f for f in run.analysis.findings if f.code == "engine_counts_more" and f.numbers["kind"] == "prefill"]
    flops = next(f for f in found if f.numbers["quantity"] == "FLOPs")
    assert flops.numbers["ratio"] == pytest.approx(1.08, abs=0.02)
    assert flops.numbers["why"] == "vllm_full_square"
