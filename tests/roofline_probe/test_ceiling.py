"""Times of a step's parts: interpolation, which measured ceiling applies, roofs where none does, the link."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_parsers.step import LogFacts
from roofline_probe.ceiling import Ceiling, build_ceiling, interpolate
from roofline_probe.profile import CeilingPoint, Link, LinkPoint, ModelCeiling, Profile
from roofline_probe.roof import choose_roof
from roofline_probe.shard import shard_of
from roofline_probe.workloads import MODELS


def ceiling(profile: Profile, model: str = "llama-3.1-8b", **facts: object) -> Ceiling:
    said = LogFacts(**{"engine": "vllm", "dtype": "bf16", **facts})  # type: ignore[arg-type]
    return build_ceiling(profile, choose_roof(profile, said), shard_of(MODELS[model], "name", said))


@pytest.mark.parametrize(
    ("x", "y"),
    [
        pytest.param(1, 4.0, id="first point"),
        pytest.param(0.5, 4.0, id="below it"),
        pytest.param(64.5, 6.0, id="half way"),
        pytest.param(128, 8.0, id="last point"),
        pytest.param(256, 16.0, id="in proportion above it"),
    ],
)
def test_interpolation(x: float, y: float) -> None:
    assert interpolate((1.0, 128.0), (4.0, 8.0), x) == pytest.approx(y)


@given(rows=st.floats(1, 20_000), more=st.floats(0, 20_000))
def test_more_rows_never_take_less_time(reference_ceiling: Ceiling, rows: float, more: float) -> None:
    assert reference_ceiling.gemm_ms(rows + more) >= reference_ceiling.gemm_ms(rows)


@pytest.fixture(scope="module")
def reference_ceiling(reference: Profile) -> Ceiling:
    return ceiling(reference)


@pytest.mark.parametrize(("batch", "ms"), [(1, 4.0719), (32, 4.2492), (256, 7.1977), (8192, 170.1795)])
def test_measured_points_are_taken_as_measured(reference_ceiling: Ceiling, batch: int, ms: float) -> None:
    assert reference_ceiling.gemm_ms(batch) == pytest.approx(ms)
    assert not reference_ceiling.estimated


def test_an_fp8_model_has_its_own_ceiling(reference: Profile) -> None:
    fp8 = ceiling(reference, quantization="fp8")
    assert fp8.gemm_ms(256) == pytest.approx(4.1865, abs=1e-3)
    assert not fp8.estimated


def test_a_weight_only_quantization_is_not_judged_by_16_bit_weights(reference: Profile) -> None:
    awq = ceiling(reference, quantization="awq_marlin")
    assert awq.estimated
    assert awq.gemm_ms(1) < 2.0


def test_another_tensor_parallel_degree_is_scaled_and_marked(reference: Profile, reference_ceiling: Ceiling) -> None:
    two = ceiling(reference, tp=2)
    assert two.gemm_ms(32) == pytest.approx(reference_ceiling.gemm_ms(32) / 2)
    assert two.estimated
    assert "ceiling_of_other_tp" in two.caveats


def test_an_unmeasured_model_is_estimated_from_the_roofs_and_marked(reference: Profile) -> None:
    qwen = ceiling(reference, model="qwen3-32b")
    assert qwen.estimated
    assert "ceiling_from_roofs" in qwen.caveats
    weights, flops = qwen.shard.weight_bytes(1), qwen.shard.linear_flops_per_token
    assert qwen.gemm_ms(1) == pytest.approx(weights / 4.580e12 * 1e3)
    assert qwen.gemm_ms(8192) == pytest.approx(8192 * flops / 683e12 * 1e3)


def test_a_prefill_runs_the_lm_head_for_few_rows(reference: Profile) -> None:
    points = [CeilingPoint(m=1, ms_burst=4.0, lm_head_ms=0.3), CeilingPoint(m=8192, ms_burst=180.0, lm_head_ms=12.3)]
    measured = msgspec.structs.replace(reference.ceilings[0], points=points)
    own = ceiling(msgspec.structs.replace(reference, ceilings=[measured]))
    assert own.gemm_ms(8192) == 180.0
    assert own.gemm_ms(8192, 1.0) == pytest.approx(168.0)


def test_decode_floor_is_its_parts(reference_ceiling: Ceiling) -> None:
    expected = 7.1977 + 256 * 1000 * 131_072 / 4.580e12 * 1e3
    assert reference_ceiling.floor_ms(256, 1000) == pytest.approx(expected)


def test_one_gpu_has_no_link(reference_ceiling: Ceiling) -> None:
    assert reference_ceiling.link_ms(256) == 0.0


def with_link(reference: Profile, timer: str | None) -> Profile:
    points = [
        LinkPoint(collective="all_reduce", message_bytes=8192, seconds=10e-6, timer=timer),
        LinkPoint(collective="all_reduce", message_bytes=1 << 30, seconds=3.3e-3, timer="host"),
    ]
    link = Link(backend="nccl", ranks=2, points=points)
    return msgspec.structs.replace(reference, link=link)


def test_under_named_peaks_the_sentence_speaks_of_no_profile() -> None:
    said = LogFacts(engine="vllm", dtype="bf16")
    roof = choose_roof(None, said, pi_tflops=683.0, beta_gbps=4400.0)
    bare = build_ceiling(None, roof, shard_of(MODELS["llama-3.1-8b"], "name", said))
    assert bare.caveats == ("ceiling_from_given",)


def test_graph_timed_all_reduces_are_taken_with_their_latency(reference: Profile) -> None:
    two = ceiling(with_link(reference, "cuda-graph"), tp=2)
    assert two.link_ms(1) == pytest.approx(64 * 10e-3)
    assert "link_lower_bound" not in two.caveats


def test_host_timed_all_reduces_give_their_bandwidth_only(reference: Profile) -> None:
    """A launch from the host costs more than a small message; a captured step does not pay it."""
    two = ceiling(with_link(reference, "host"), tp=2)
    message = 256 * 4096 * 2
    assert two.link_ms(256) == pytest.approx(64 * message / ((1 << 30) / 3.3e-3) * 1e3)
    assert "link_lower_bound" in two.caveats


def test_an_unmeasured_link_is_unknown_not_zero(reference: Profile) -> None:
    two = ceiling(msgspec.structs.replace(reference, link=None), tp=2)
    assert two.link_ms(32) is None
    assert "link_unmeasured" in two.caveats


@pytest.mark.parametrize("change", [{"layers": 40}, {"hidden_size": 5120}, {"flops_per_token": 10**10}])
def test_a_ceiling_of_another_model_is_not_used(reference: Profile, change: dict[str, int]) -> None:
    other: ModelCeiling = msgspec.structs.replace(reference.ceilings[0], **change)
    assert ceiling(msgspec.structs.replace(reference, ceilings=[other])).estimated
