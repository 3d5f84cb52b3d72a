"""SGLang's lines recounted: against the client, against hand-worked read rates, and fitted from the log alone."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import log_parsers
from roofline_probe.analysis import LiveAnalysis
from roofline_probe.point import Point
from roofline_probe.profile import Profile

LOG = "sglang/0.5.16-h200"
TRUE_READ_GBPS = {1: 3012, 8: 3069, 32: 2931, 128: 2577, 256: 2350}
PRINTED_READ_GBPS = {1: 2803, 8: 21671, 32: 72858, 128: 179070, 256: 268769}


def decode_lines(points: list[Point], batch: int) -> list[Point]:
    return [
        p
        for p in points
        if p.step.kind == "decode"
        and p.step.running == batch
        and (p.step.gen_tok_s or 0) > 50
        and p.step.context_tokens
    ]


@pytest.mark.parametrize(
    "name",
    [
        "01_dec_1_128_1500",
        "02_dec_8_128_1500",
        "03_dec_32_128_1200",
        "04_dec_128_128_1000",
        "05_dec_256_128_700",
        "06_pre_16_10",
        "09_mix_64_10",
    ],
)
def test_decode_and_prefill_lines_of_a_phase_add_up_to_the_truth(capture: Callable, total: Callable, name: str) -> None:
    run = capture(LOG)
    phase = run.phase(name)
    points = run.points_in(phase, slack_s=0)
    assert total(points, lambda p: p.recounted_tflops) * 1e12 == pytest.approx(phase.flops, rel=0.05)


def test_the_whole_run_adds_up(capture: Callable, total: Callable) -> None:
    run = capture(LOG)
    assert total(run.analysis.points, lambda p: p.recounted_tflops) * 1e12 == pytest.approx(run.true_flops(), rel=0.05)


@pytest.mark.parametrize("batch", TRUE_READ_GBPS)
def test_read_rate_from_the_dimensions(capture: Callable, batch: int) -> None:
    lines = decode_lines(capture(LOG).analysis.points, batch)
    assert statistics.median(p.recounted_gbps for p in lines) == pytest.approx(TRUE_READ_GBPS[batch], rel=0.03)


@pytest.mark.parametrize("batch", PRINTED_READ_GBPS)
def test_printed_read_rate_is_never_what_a_fraction_divides(capture: Callable, batch: int) -> None:
    lines = decode_lines(capture(LOG).analysis.points, batch)
    assert statistics.median(p.step.read_gbps for p in lines) == pytest.approx(PRINTED_READ_GBPS[batch], rel=0.02)
    assert all(p.basis == "recounted" and p.bandwidth_fraction < 0.8 for p in lines)


@pytest.fixture(scope="module")
def from_the_log_alone(reference: Profile, logs: Path) -> LiveAnalysis:
    live = LiveAnalysis(reference)
    live.points = []  # type: ignore[attr-defined]
    parsed = log_parsers.parse(str(logs / f"{LOG}.log"))
    for step in parsed:
        facts = next(f for f in parsed.facts if f.run == step.run)
        live.points.append(live.feed(step, replace(facts, model="/models/unheard-of")))  # type: ignore[attr-defined]
    return live


def test_weights_and_kv_fitted_from_the_lines(from_the_log_alone: LiveAnalysis) -> None:
    shard = from_the_log_alone.shard
    assert shard is not None
    assert shard.source == "fit"
    assert shard.dense_weight_bytes == pytest.approx(13.9586e9, rel=0.002)
    assert shard.kv_bytes_per_token == pytest.approx(131_072, rel=0.1)
    assert shard.lm_head_bytes == pytest.approx(1.0507e9, rel=0.03)


@pytest.mark.parametrize("batch", TRUE_READ_GBPS)
def test_read_rate_from_the_log_alone(from_the_log_alone: LiveAnalysis, batch: int) -> None:
    points = from_the_log_alone.points  # type: ignore[attr-defined]
    lines = [p for p in decode_lines(points, batch) if p.recounted_gbps is not None]
    assert len(lines) >= 50
    assert statistics.median(p.recounted_gbps for p in lines) == pytest.approx(TRUE_READ_GBPS[batch], rel=0.03)


def test_more_than_one_gpu_cannot_be_fitted_and_says_so(reference: Profile, logs: Path) -> None:
    live = LiveAnalysis(reference)
    parsed = log_parsers.parse(str(logs / f"{LOG}.log"))
    points = []
    for step in parsed:
        facts = next(f for f in parsed.facts if f.run == step.run)
        points.append(live.feed(step, replace(facts, model="/models/unheard-of", tp=4)))
    assert live.shard is None
    assert all(p.basis is None for p in points)
    assert "engine_only" in {f.code for f in live.findings()}
    assert "sglang_tp_mlp" in live.summary().caveats


def test_tensor_parallelism_halves_the_work_where_the_engine_does_not(reference: Profile, logs: Path) -> None:
    """The same lines at TP 1 and TP 4: SGLang divides the heads only, the recount everything."""
    parsed = log_parsers.parse(str(logs / "sglang/0.5.23-tp1-tp4.log"))
    steps = list(parsed)
    decode = [s for s in steps if s.kind == "decode"]
    assert len(decode) == 2
    one, four = decode
    from log_parsers.step import LogFacts
    from roofline_probe.recount import Recounter
    from roofline_probe.shard import shard_of
    from roofline_probe.workloads import MODELS

    counts = []
    for step, tp in ((one, 1), (four, 4)):
        facts = LogFacts(engine="sglang", tp=tp, decode_log_interval=40)
        counted = Recounter(shard_of(MODELS["llama-3.1-8b"], "flag", facts), facts).count(
            replace(step, window_s=one.window_s or 40 * (one.running or 1) / (one.gen_tok_s or 1), status="steady")
        )
        assert counted is not None
        counts.append(counted)
    assert counts[0].flops / counts[1].flops == pytest.approx(4 * one.gen_tok_s / four.gen_tok_s, rel=0.02)
    assert one.tflops / four.tflops < 2 * one.gen_tok_s / four.gen_tok_s
