"""Finds the two peaks of a dtype: burst pi by a search over shapes after equal rests, sustained pi by a soak."""

from __future__ import annotations

from collections.abc import Sequence

from roofline_probe.measure import shapes, telemetry, verdict
from roofline_probe.measure.gemm import Gemm
from roofline_probe.measure.soak import Soak
from roofline_probe.measure.state import SWEEP_BUDGET_S, RunState
from roofline_probe.measure.timing import measure_burst, measure_soaked
from roofline_probe.profile import Trial

SOAK_CANDIDATES = 3
_SCREEN_S = 0.7
_LEAD_IN_S = 1.0
_FEWEST_ROWS = 256
"""A product with a side below it is memory-bound: its rate does not tell how long a large one takes."""


def find_burst(state: RunState, dtype: str) -> None:
    """Every candidate after the same rest, then a short search around the best; a dtype that torch refuses on every
    shape is unsupported, for torch's reason.
    """
    state.stage(f"{dtype} burst peak")
    end = state.end_of_stage()
    with state.device.watch() as readings:
        tried = _burst_all(state, _candidates(state, dtype), end)
        best = verdict.best_gemm(dtype, state.trials)
        if best and not state.options.quick:
            around = shapes.neighbours(Gemm(dtype, best.m or 0, best.n or 0, best.k or 0), tried)
            _burst_all(state, _affordable(state, around), end)
    seen = telemetry.summarize(f"burst {dtype}", readings)
    if seen.samples:
        state.seen.append(seen)
    peak = verdict.burst_peak(dtype, state.trials, seen, state.info)
    if peak:
        state.peaks.append(peak)
        return
    products = [t for t in state.trials if t.kernel == "gemm" and t.dtype == dtype]
    if products and all(t.status == "unsupported" for t in products):
        reasons = (t.reason for t in products)
        state.unsupported[dtype] = next(filter(None, reasons), "torch refused every shape")


def find_sustained(state: RunState, dtype: str, seconds: float) -> None:
    """Under load the ranking differs from the burst's: heat the card, screen a few shapes hot, soak the best."""
    state.stage(f"{dtype} sustained peak")
    ranked = verdict.ranked_gemms(dtype, state.trials)[:SOAK_CANDIDATES]
    gemms = [Gemm(dtype, t.m or 0, t.n or 0, t.k or 0, "soak") for t in ranked]
    if not gemms:
        return
    best = gemms[0] if len(gemms) == 1 else max(gemms, key=lambda gemm: _screened_tflops(state, gemm))
    soak = Soak(best.key, seconds, min(_LEAD_IN_S, seconds / 3))
    trial = _soaked(state, best, soak)
    state.trials.append(trial)
    peak = verdict.sustained_peak(dtype, trial, soak, state.info)
    if soak.telemetry and soak.telemetry.samples:
        state.seen.append(soak.telemetry)
    if peak:
        state.peaks.append(peak)


def _screened_tflops(state: RunState, gemm: Gemm) -> float:
    return _soaked(state, gemm, Soak(gemm.key, _SCREEN_S, _SCREEN_S / 3, extend=False)).tflops or 0.0


def _soaked(state: RunState, gemm: Gemm, soak: Soak) -> Trial:
    state.say(f"soak {gemm.key} for {soak.seconds_asked:g} s", 0, 1)
    return measure_soaked(state.device, gemm, state.limits, soak)


def _candidates(state: RunState, dtype: str) -> list[Gemm]:
    """The listed shapes that are short enough and the sweep's best two, each once."""
    quick = state.options.quick
    swept = [t for t in state.trials if t.kernel == "gemm" and t.dtype == dtype and t.status == "ok"]
    best = sorted(swept, key=lambda t: -(t.tflops or 0.0))[:2]
    found = _affordable(state, shapes.candidates(dtype, state.info.multiprocessors, quick=quick))
    found = found or _affordable(state, shapes.small_candidates(dtype, quick=quick))
    found += _affordable(state, [Gemm(dtype, t.m or 0, t.n or 0, t.k or 0, t.label) for t in best])
    return list({(g.m, g.n, g.k): g for g in found}.values())


def _affordable(state: RunState, gemms: Sequence[Gemm]) -> list[Gemm]:
    """Shapes that are short enough to be repeated; on a GPU, all of them."""
    large = [
        t.tflops
        for t in state.trials
        if t.kernel == "gemm" and t.tflops and min(t.m or 0, t.n or 0, t.k or 0) >= _FEWEST_ROWS
    ]
    if not large and gemms:
        large = [state.median(Gemm(gemms[0].dtype, 1024, 1024, 1024, "guess"), SWEEP_BUDGET_S).tflops or 1.0]
    longest = state.device.traits.longest_burst_call_s
    return [g for g in gemms if g.flops / (max(large) * 1e12) <= longest]


def _burst_all(state: RunState, gemms: Sequence[Gemm], end: float) -> list[Gemm]:
    """Each in turn until the stage's time is over; at least one, for without it there is no pi."""
    for done, gemm in enumerate(gemms):
        if state.device.now() >= end and verdict.best_gemm(gemm.dtype, state.trials):
            break
        state.say(gemm.key, done, len(gemms))
        state.trials.append(measure_burst(state.device, gemm, state.limits))
    return list(gemms)
