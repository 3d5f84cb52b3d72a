"""One step under the roof: fractions and their denominators, bounds, parts, unknowns."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_parsers.step import LogFacts, ServingStep
from roofline_probe.ceiling import build_ceiling
from roofline_probe.correlate import correlate
from roofline_probe.point import Point, Roof
from roofline_probe.profile import Profile
from roofline_probe.recount import Recounter
from roofline_probe.roof import choose_roof
from roofline_probe.shard import shard_of
from roofline_probe.workloads import MODELS

ROOF = Roof(
    origin="given", device="x", choice="auto", dtype="bf16", dtype_source="log",
    pi_burst_tflops=1000.0, beta_gbps=4000.0, read_beta_gbps=5000.0,
)  # fmt: skip
STEP = ServingStep(
    source="-", run=0, line_no=1, engine="vllm", engine_version="0.24.0", rank="0", kind="decode", status="steady",
    window_s=1.0,
)  # fmt: skip
FACTS = LogFacts(engine="vllm", dtype="bf16", kv_cache_tokens=1_000_000, token_budget=8192)


def on_engine_count(**fields: object) -> Point:
    return correlate(replace(STEP, **fields), None, ROOF)  # type: ignore[arg-type]


def test_decode_divides_by_the_read_bandwidth_and_prefill_by_beta() -> None:
    decode = on_engine_count(tflops=50.0, gbps=2500.0)
    assert (decode.bandwidth_fraction, decode.beta_name) == (0.5, "read")
    prefill = on_engine_count(kind="prefill", tflops=500.0, gbps=400.0)
    assert (prefill.bandwidth_fraction, prefill.beta_name) == (0.1, "beta")
    assert prefill.compute_fraction == 0.5


@given(tflops=st.floats(0.1, 3000), gbps=st.floats(1, 20_000))
def test_roof_fraction_is_the_larger_and_is_never_clamped(tflops: float, gbps: float) -> None:
    point = on_engine_count(tflops=tflops, gbps=gbps)
    assert point.roof_fraction == max(tflops / 1000, gbps / 5000)
    assert point.intensity == pytest.approx(tflops * 1e3 / gbps)
    assert ("above_roof" in point.caveats) == (point.roof_fraction > 1)


@pytest.mark.parametrize(
    ("tflops", "gbps", "bound"),
    [
        pytest.param(50.0, 4000.0, "memory", id="under the slope"),
        pytest.param(800.0, 500.0, "compute", id="under the flat"),
        pytest.param(5.0, 50.0, "host", id="under neither: waiting"),
    ],
)
def test_bound(tflops: float, gbps: float, bound: str) -> None:
    assert on_engine_count(tflops=tflops, gbps=gbps).bound == bound


@pytest.mark.parametrize("status", ["idle", "noise", "unsupported"])
def test_what_did_not_run_is_bound_by_nothing(status: str) -> None:
    assert on_engine_count(status=status, tflops=50.0, gbps=4000.0).bound is None


def test_an_unsupported_steps_rates_are_not_divided() -> None:
    point = on_engine_count(status="unsupported", tflops=3.0, gbps=1000.0)
    assert (point.basis, point.roof_fraction) == (None, None)


def test_a_miscounting_engine_is_not_believed() -> None:
    point = correlate(replace(STEP, tflops=50.0, gbps=2500.0), None, ROOF, engine_usable=False)
    assert point.basis is None


@pytest.mark.parametrize(("running", "bandwidth"), [(1, 0.5), (2, None), (256, None)])
def test_sglang_bytes_are_a_rate_at_batch_1_only(running: int, bandwidth: float | None) -> None:
    point = on_engine_count(engine="sglang", running=running, tflops=3.0, gbps=2500.0)
    assert point.bandwidth_fraction == bandwidth
    assert point.compute_fraction == 0.003
    assert (point.roof_fraction, point.bound) == ((0.5, "memory") if running == 1 else (None, None))


@pytest.mark.parametrize(("dilution", "undiluted"), [(9.0, 0.45), (None, None)])
def test_dilution_is_undone_where_the_log_tells_it(dilution: float | None, undiluted: float | None) -> None:
    point = on_engine_count(status="diluted", dilution=dilution, tflops=50.0, gbps=100.0)
    assert point.roof_fraction == 0.05
    assert point.undiluted_roof_fraction == (undiluted if undiluted is None else pytest.approx(undiluted))


def test_unknown_stays_unknown() -> None:
    point = on_engine_count()
    assert (point.basis, point.intensity, point.roof_fraction, point.step_ms, point.bound) == (None,) * 5


def recounted(profile: Profile, roof: Roof | None = None, **fields: object) -> Point:
    step = replace(STEP, prompt_tok_s=0.0, **fields)  # type: ignore[arg-type]
    shard = shard_of(MODELS["llama-3.1-8b"], "name", FACTS)
    roof = roof or choose_roof(profile, FACTS)
    return correlate(step, Recounter(shard, FACTS).count(step), roof, build_ceiling(profile, roof, shard))


def test_recounted_rates_are_what_fractions_divide(reference: Profile) -> None:
    point = recounted(reference, gen_tok_s=5000.0, running=32, kv_usage=0.05, tflops=999.0, gbps=9999.0)
    assert point.basis == "recounted"
    assert point.bandwidth_fraction == pytest.approx(point.recounted_gbps / 4580.0)
    assert point.compute_fraction == pytest.approx(point.recounted_tflops / 683.0)


@given(batch=st.integers(1, 256), steps_s=st.floats(20, 240), usage=st.floats(0.0, 0.9))
def test_parts_add_up_to_the_step(reference: Profile, batch: int, steps_s: float, usage: float) -> None:
    point = recounted(reference, gen_tok_s=batch * steps_s, running=batch, kv_usage=usage)
    parts = point.gemm_ms + point.kv_ms + point.link_ms + point.rest_ms
    assert point.step_ms == pytest.approx(1e3 / steps_s)
    assert parts == pytest.approx(point.step_ms)
    assert point.attained_fraction == pytest.approx((point.gemm_ms + point.kv_ms + point.link_ms) / point.step_ms)
    assert ("rest_negative" in point.caveats) == (point.rest_ms < 0)


def test_an_unknown_context_leaves_the_rest_unknown(reference: Profile) -> None:
    point = recounted(reference, gen_tok_s=5000.0, running=32, kv_usage=None)
    assert point.step_ms == pytest.approx(6.4)
    assert point.gemm_ms is not None
    assert (point.kv_ms, point.rest_ms, point.attained_fraction) == (None, None, None)
    assert "context_unknown" in point.caveats


def test_with_an_unknown_context_the_engines_own_count_is_the_better_one(reference: Profile) -> None:
    point = recounted(reference, gen_tok_s=5000.0, running=32, kv_usage=None, tflops=80.0, gbps=3000.0)
    assert point.basis == "engine"
    assert point.compute_fraction == pytest.approx(80.0 / 683.0)


def test_a_measured_iteration_time_is_the_step(reference: Profile) -> None:
    point = recounted(reference, gen_tok_s=5000.0, running=32, kv_usage=0.05, iterations=150, iteration_ms=6.1)
    assert point.step_ms == 6.1


def test_mixed_steps_take_full_prefills_and_decodes_apart(reference: Profile) -> None:
    """4 full steps of 8,192 prompt tokens among 30: their GEMMs are 4 long ones and 26 short ones, not 30 mean ones."""
    fields = {"kind": "mixed", "gen_tok_s": 30 * 60.0, "running": 60, "kv_usage": 0.08}
    step = replace(STEP, prompt_tok_s=4 * 8192.0, **fields)  # type: ignore[arg-type]
    shard = shard_of(MODELS["llama-3.1-8b"], "name", FACTS)
    roof = choose_roof(reference, FACTS)
    ceiling = build_ceiling(reference, roof, shard)
    work = Recounter(shard, FACTS).count(step)
    assert work is not None
    point = correlate(step, work, roof, ceiling)
    expected = (4 * ceiling.gemm_ms(8192 + 60, 60) + 26 * ceiling.gemm_ms(60)) / 30
    assert point.gemm_ms == pytest.approx(expected + ceiling.attention_ms(work.attention_flops) / 30)


def test_a_slow_link_is_what_binds(reference: Profile) -> None:
    facts = replace(FACTS, tp=2)
    step = replace(STEP, prompt_tok_s=0.0, gen_tok_s=100.0, running=1, kv_usage=0.0)
    shard = shard_of(MODELS["llama-3.1-8b"], "name", facts)
    roof = choose_roof(reference, facts)
    slow = replace(build_ceiling(reference, roof, shard), link_rows=(8192.0,), link_s=(100e-6,))
    point = correlate(step, Recounter(shard, facts).count(step), roof, slow)
    assert point.link_ms == pytest.approx(6.4)
    assert point.bound == "link"
