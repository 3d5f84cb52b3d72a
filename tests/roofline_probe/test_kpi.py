"""What peaks mean: the check figures of the published H100 datasheet, and the measured twin of each."""

from __future__ import annotations

import pytest

from roofline_probe import kpi
from roofline_probe.kpi import Roofs
from roofline_probe.profile import Beta, Datasheet, DeviceInfo, Environment, ModelCeiling, Peak, Profile

H100 = Roofs(989.4, 3350)


def profile(**given: object) -> Profile:
    return Profile(
        schema_version=1,
        method_version=1,
        created="2026-11-29T14:00:00+00:00",
        device=DeviceInfo(kind="cuda", name="card"),
        environment=Environment(probe_version="0", command_line="", python="3", platform="Linux"),
        **given,  # type: ignore[arg-type]
    )


def peak(dtype: str, regime: str, tflops: float) -> Peak:
    return Peak(dtype=dtype, regime=regime, tflops=tflops, implementation="mm", m=1, n=1, k=1)  # type: ignore[arg-type]


def test_ridge_of_the_h100_datasheet() -> None:
    assert H100.ridge == pytest.approx(295.3, abs=0.05)


@pytest.mark.parametrize(("dtype", "pi", "tokens"), [("bf16", 989.4, 345.1), ("fp8", 1978.9, 376.9)])
def test_t_star_of_a_square_projection_on_the_h100(dtype: str, pi: float, tokens: float) -> None:
    assert Roofs(pi, 3350).t_star(4096, dtype) == pytest.approx(tokens, abs=0.1)


def test_three_reference_workloads_on_the_h100_datasheet() -> None:
    rows = kpi.reference_workloads(H100, H100, "bf16")
    assert [row.intensity for row in rows] == [1.0, 4.0, 1024.0]
    assert [row.datasheet_tflops for row in rows] == pytest.approx([3.35, 13.4, 989.4])
    assert [row.bound for row in rows] == ["memory", "memory", "compute"]


def test_decode_limits_of_the_default_model_on_the_h100_datasheet() -> None:
    ((limit,),) = kpi.decode_limits(profile(peaks=[peak("bf16", "burst", 800)]), [3350])
    assert limit.floor_ms == pytest.approx(4.4806, abs=1e-4)
    assert limit.ceiling_tok_s == pytest.approx(223.2, abs=0.05)


def test_measured_ceilings_replace_the_default_model() -> None:
    ceiling = ModelCeiling(model="m", dtype="fp8", tp=2, weight_bytes=4_000_000_000, flops_per_token=1, points=[])
    ((limit,),) = kpi.decode_limits(profile(ceilings=[ceiling]), [4000])
    assert (limit.model, limit.dtype, limit.tp, limit.floor_ms) == ("m", "fp8", 2, pytest.approx(1.0))


def test_unknown_beta_leaves_the_limit_unknown() -> None:
    ((limit,),) = kpi.decode_limits(profile(), [None])
    assert (limit.floor_ms, limit.ceiling_tok_s) == (None, None)


def test_sixteen_bit_speaks_for_the_card_and_burst_comes_before_sustained() -> None:
    peaks = [peak("fp8", "burst", 1500), peak("bf16", "sustained", 680), peak("bf16", "burst", 800)]
    measured = profile(peaks=peaks, betas=[Beta(pattern="copy", gbps=4000, implementation="x", array_bytes=1)])
    assert kpi.main_dtype(measured) == "bf16"
    assert kpi.measured_roofs(measured, "bf16") == Roofs(800, 4000)
    assert kpi.measured_roofs(profile(peaks=peaks[:2]), "bf16").pi_tflops == 680


def test_roofs_with_a_missing_part_say_nothing_that_needs_it() -> None:
    for roofs in (Roofs(None, 3350), Roofs(989.4, None)):
        assert (roofs.ridge, roofs.t_star(4096, "bf16"), roofs.attainable_tflops(1.0), roofs.bound(1.0)) == (None,) * 4


def test_a_workload_is_bound_by_nothing_where_a_measured_roof_is_missing() -> None:
    rows = kpi.reference_workloads(Roofs(800, None), H100, "bf16")
    assert {(row.measured_tflops, row.bound) for row in rows} == {(None, None)}
    assert rows[0].datasheet_tflops == pytest.approx(3.35)


def test_no_number_of_tokens_reaches_a_ridge_above_the_shape() -> None:
    assert Roofs(989.4, 100).t_star(4096, "bf16") is None


def test_datasheet_of_an_unlisted_card_or_dtype_is_empty() -> None:
    sheet = Datasheet(card="c", tflops={"bf16": 989.4}, gbps=3350)
    assert kpi.datasheet_roofs(profile(), "bf16") == Roofs(None, None)
    assert kpi.datasheet_roofs(profile(datasheet=sheet), "fp8") == Roofs(None, 3350)
