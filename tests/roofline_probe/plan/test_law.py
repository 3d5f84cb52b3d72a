"""The step law: recovered where it is true, bounded where it is not, judged on regimes it has not seen."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline_probe.plan import law

REGIMES = [(1, 500), (8, 900), (32, 1500), (64, 400), (128, 1100), (256, 700)]
GEMM_MS = {1: 4.07, 8: 4.10, 32: 4.25, 64: 4.48, 128: 4.94, 256: 7.20}
positive = st.floats(min_value=0.01, max_value=1e3)


def observed(truth: law.StepLaw, regimes: list[tuple[int, int]], windows: int = 3) -> list[law.Observation]:
    """Exact observations of a given law; the context grows from window to window as it does while decoding."""
    rows = []
    for batch, start in regimes:
        for window in range(windows):
            context = start + 50 * window
            kv_ms = batch * context * 131_072 / 4.58e9
            step = truth.step_ms(GEMM_MS[batch], kv_ms, batch)
            rows.append(law.Observation(batch, context, GEMM_MS[batch], kv_ms, step, (batch, start)))
    return rows


def test_fit_recovers_the_law_that_made_the_windows() -> None:
    truth = law.StepLaw(kv_factor=1.04, base_ms=0.81, per_sequence_ms=0.005)
    fitted = law.fit(observed(truth, REGIMES))
    assert fitted.kv_factor == pytest.approx(1.04, rel=1e-6)
    assert fitted.base_ms == pytest.approx(0.81, rel=1e-6)
    assert fitted.per_sequence_ms == pytest.approx(0.005, rel=1e-6)


def test_leaving_a_regime_out_predicts_it_when_the_law_holds() -> None:
    truth = law.StepLaw(1.1, 0.5, 0.002)
    errors = law.leave_one_regime_out(observed(truth, REGIMES))
    assert [e.regime for e in errors] == REGIMES
    assert all(abs(e.worst_error) < 1e-9 for e in errors)
    assert all(e.windows == 3 for e in errors)


def test_leaving_a_regime_out_sees_the_regime_that_breaks_the_law() -> None:
    rows = observed(law.StepLaw(1.0, 0.8, 0.0), REGIMES)
    broken = [
        law.Observation(o.batch, o.context, o.gemm_ms, o.kv_ms, o.step_ms * (1.2 if o.batch == 32 else 1), o.regime)
        for o in rows
    ]
    worst = max(law.leave_one_regime_out(broken), key=lambda e: abs(e.worst_error))
    assert worst.regime == (32, 1500)
    assert worst.worst_error == pytest.approx(-1 / 6, abs=0.02)


def test_two_regimes_cannot_judge_three_coefficients() -> None:
    assert law.leave_one_regime_out(observed(law.BOUND_ONLY, REGIMES[:2])) == []


def test_a_long_regime_does_not_drown_a_short_one() -> None:
    few, many = (
        observed(law.StepLaw(1.0, 0.5, 0.0), [(1, 500)], 2),
        observed(law.StepLaw(1.0, 3.0, 0.0), [(8, 900)], 300),
    )
    errors = law.errors_of(law.fit(few + many), few)
    assert all(abs(e) < 0.05 for e in errors), "the two windows at batch 1 must still be predicted"


def test_no_observations_is_refused() -> None:
    with pytest.raises(ValueError, match="no observations"):
        law.fit([])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(positive, positive, positive, positive, st.integers(0, 4)), min_size=1, max_size=12))
def test_any_windows_give_a_law_within_its_bounds(rows: list[tuple[float, float, float, float, int]]) -> None:
    fitted = law.fit([law.Observation(b, 100.0, g, k, s, r) for b, g, k, s, r in rows])
    assert fitted.kv_factor >= 1
    assert fitted.base_ms >= 0
    assert fitted.per_sequence_ms >= 0


@settings(max_examples=60, deadline=None)
@given(st.floats(1, 5), st.floats(0, 10), st.floats(0, 1), positive, positive, positive, positive)
def test_a_step_is_never_under_its_floor_and_never_falls_with_batch_or_context(
    a: float, c0: float, c1: float, gemm: float, kv: float, batch: float, more: float
) -> None:
    step = law.StepLaw(a, c0, c1)
    here = step.step_ms(gemm, kv, batch)
    assert here >= gemm + kv
    assert step.step_ms(gemm, kv + more, batch) >= here
    assert step.step_ms(gemm, kv, batch + more) >= here
