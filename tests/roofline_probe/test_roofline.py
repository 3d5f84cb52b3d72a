"""The formulas against figures worked out by hand, and against each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_probe import roofline

H100_PI, H100_BETA = 989.4e12, 3.35e12
H100_FP8 = 1978.9e12
LLAMA_WEIGHTS = 7_504_924_672 * 2

dims = st.integers(1, 20_000)
sizes = st.sampled_from([0.5, 1.0, 2.0, 4.0])
rates = st.floats(1e9, 1e16)


def test_ridge_of_the_h100_datasheet() -> None:
    assert roofline.ridge(H100_PI, H100_BETA) == pytest.approx(295.3, abs=0.05)


def test_t_star_of_a_square_projection() -> None:
    ridge = roofline.ridge(H100_PI, H100_BETA)
    assert roofline.t_star(ridge, 4096, 4096, 2) == pytest.approx(345.1, abs=0.05)


def test_t_star_with_fp8_in_and_bf16_out() -> None:
    ridge = roofline.ridge(H100_FP8, H100_BETA)
    assert roofline.t_star(ridge, 4096, 4096, 1, 1, 2) == pytest.approx(376.9, abs=0.05)


def test_often_quoted_t_star_is_the_case_of_two_bytes() -> None:
    ridge, d = roofline.ridge(H100_PI, H100_BETA), 4096
    quoted = ridge * d / (d - 2 * ridge)
    assert roofline.t_star(ridge, d, d, 2) == pytest.approx(quoted)
    assert roofline.t_star(ridge, d, d, 1) != pytest.approx(ridge * d / (d - 1 * ridge), rel=0.1)


def test_decode_floor_and_batch_1_ceiling_of_llama_on_the_h100() -> None:
    assert roofline.decode_floor_s(LLAMA_WEIGHTS, H100_BETA) * 1e3 == pytest.approx(4.4806, abs=5e-5)
    assert roofline.batch1_ceiling_tok_s(LLAMA_WEIGHTS, H100_BETA) == pytest.approx(223.2, abs=0.05)


@pytest.mark.parametrize(
    ("intensity", "expected_intensity", "attainable_tflops", "bound"),
    [
        pytest.param(roofline.gemv_intensity(2), 1.0, 3.35, "memory", id="batch-1 weight GEMV"),
        pytest.param(roofline.gqa_attention_intensity(4, 2), 4.0, 13.4, "memory", id="decode attention, group of 4"),
        pytest.param(roofline.square_gemm_intensity(2048, 4096, 2), 1024.0, 989.4, "compute", id="prefill GEMM"),
    ],
)
def test_reference_workloads_on_the_h100(
    intensity: float, expected_intensity: float, attainable_tflops: float, bound: str
) -> None:
    assert intensity == pytest.approx(expected_intensity)
    assert roofline.attainable_flops(intensity, H100_PI, H100_BETA) / 1e12 == pytest.approx(attainable_tflops)
    assert roofline.bound_of(intensity, H100_PI, H100_BETA) == bound


def test_kv_bytes_of_llama() -> None:
    assert roofline.kv_bytes_per_token(32, 8, 128, 2) == 131_072


@pytest.mark.parametrize(("pattern", "arrays"), [("copy", 2), ("triad", 3), ("read", 1), ("write", 1)])
def test_streams_count_every_array_they_touch(pattern: str, arrays: int) -> None:
    assert roofline.stream_bytes(pattern, 1 << 30) == arrays << 30  # type: ignore[arg-type]


def test_all_reduce_over_two_cards_moves_the_message_once() -> None:
    assert roofline.ring_all_reduce_bytes(1 << 20, 2) == 1 << 20


@given(m=dims, n=dims, k=dims, b_a=sizes, b_w=sizes, b_o=sizes)
def test_gemm_work_and_traffic(m: int, n: int, k: int, b_a: float, b_w: float, b_o: float) -> None:
    assert roofline.gemm_flops(m, n, k) == roofline.gemm_flops(n, m, k)
    assert roofline.gemm_bytes(m, n, k, b_a, b_w, b_o) == b_a * m * k + b_w * k * n + b_o * m * n
    assert roofline.gemm_bytes(m, n, k, b_a) == pytest.approx(b_a * (m * k + k * n + m * n))


@given(n=dims, k=dims, b_a=sizes, b_w=sizes, b_o=sizes, ridge=st.floats(1, 2000))
def test_a_projection_reaches_the_ridge_at_t_star_or_never(
    n: int, k: int, b_a: float, b_w: float, b_o: float, ridge: float
) -> None:
    def intensity(tokens: float) -> float:
        return 2 * tokens * n * k / (b_a * tokens * k + b_w * k * n + b_o * tokens * n)

    tokens = roofline.t_star(ridge, n, k, b_a, b_w, b_o)
    if tokens is None:
        assert intensity(1e15) <= ridge * (1 + 1e-9)
    else:
        assert intensity(tokens) == pytest.approx(ridge, rel=1e-6)


@given(n=dims, k=dims, b=sizes, ridge=st.floats(1, 2000), copies=st.integers(1, 5))
def test_equal_projections_share_one_t_star(n: int, k: int, b: float, ridge: float, copies: int) -> None:
    alone, together = roofline.t_star(ridge, n, k, b), roofline.t_star_of_layer(ridge, [(k, n)] * copies, b)
    assert (alone is None) == (together is None)
    if alone is not None:
        assert together == pytest.approx(alone, rel=1e-6)


@given(pi=rates, beta=rates, intensity=st.floats(1e-3, 1e6))
def test_attainable_is_under_both_roofs_and_on_one(pi: float, beta: float, intensity: float) -> None:
    attainable = roofline.attainable_flops(intensity, pi, beta)
    assert attainable <= pi
    assert attainable <= beta * intensity
    assert attainable in (pi, beta * intensity)


@given(pi=rates, beta=rates, flops=rates, moved=rates)
def test_fraction_of_the_roof_is_achieved_over_attainable(pi: float, beta: float, flops: float, moved: float) -> None:
    found = roofline.fractions(flops, moved, pi, beta)
    assert found.roof == pytest.approx(flops / roofline.attainable_flops(flops / moved, pi, beta))
    assert found.roof == max(flops / pi, moved / beta)
    assert found.serial_upper == min(1.0, flops / pi + moved / beta)


@given(pi=rates, beta=rates, flops=rates, moved=rates, idle=st.floats(0.05, 1))
def test_idle_time_lowers_the_fraction_and_leaves_the_intensity(
    pi: float, beta: float, flops: float, moved: float, idle: float
) -> None:
    busy = roofline.fractions(flops, moved, pi, beta).roof
    diluted = roofline.fractions(flops * idle, moved * idle, pi, beta).roof
    assert busy is not None
    assert diluted == pytest.approx(busy * idle)


@pytest.mark.parametrize(
    ("flops", "moved", "expected"),
    [
        pytest.param(None, None, (None, None, None, None), id="nothing known"),
        pytest.param(5e14, None, (0.5, None, 0.5, None), id="FLOPs only"),
        pytest.param(None, 1e12, (None, 0.25, 0.25, None), id="bytes only"),
        pytest.param(2e15, 1e12, (2.0, 0.25, 2.0, 1.0), id="above the roof is not clamped"),
    ],
)
def test_unknown_parts_of_a_fraction_stay_unknown(
    flops: float | None, moved: float | None, expected: tuple[float | None, ...]
) -> None:
    found = roofline.fractions(flops, moved, 1e15, 4e12)
    assert (found.compute, found.bandwidth, found.roof, found.serial_upper) == expected


def test_a_missing_roof_gives_no_fraction() -> None:
    assert roofline.fractions(1e14, 1e12, None, None).roof is None
