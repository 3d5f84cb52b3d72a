"""Measures the model ceiling at M = 1, 2, 4 … 16384: unsoaked upwards, then soaked downwards while power bites."""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofline_probe.measure import telemetry
from roofline_probe.measure.ceiling import Projections, layers_that_fit
from roofline_probe.measure.options import CEILING_M
from roofline_probe.measure.soak import Soak
from roofline_probe.measure.state import RunState
from roofline_probe.measure.timing import measure_burst, measure_soaked
from roofline_probe.profile import CeilingPoint, ModelCeiling

_SOAK_S = 0.7
_FIRST_SOAK_S = 1.4
"""The first heats the card up; each later one starts hot and only follows the change of M."""
_LEAD_IN = 0.3
_POWER_BITES_M = 64
"""Below it a step is memory-bound: an H200 runs it at full clock without a rest before it, and under any load."""


@dataclass
class _Point:
    m: int
    burst_s: float | None = None
    """Seconds of what was measured: everything, or a few layers without the LM head."""
    head_s: float | None = None
    soaked_s: float | None = None


def measure_ceiling(state: RunState, dtype: str) -> None:
    """The ceiling of one dtype; none where its first point cannot run (the trial says why)."""
    device, options = state.device, state.options
    kernel = Projections(options.model, dtype, options.tp, 1, 1)
    most = device.traits.ceiling_layers or options.model.layers
    layers = min(most, layers_that_fit(kernel, state.info.memory_bytes))
    # Few layers are timed without the LM head: their difference from a time with it, scaled, would be mostly noise.
    kernel = replace(kernel, layers=layers, part="all" if layers == options.model.layers else "layers")
    points: list[_Point] = []
    end = state.end_of_stage()
    for index, m in enumerate(CEILING_M):
        at_m = replace(kernel, m=m)
        state.say(at_m.key, index, len(CEILING_M))
        point = _unsoaked(state, at_m)
        if point is None:
            break
        points.append(point)
        if device.now() >= end or (point.burst_s and 2 * point.burst_s > device.traits.longest_call_s):
            break
    if options.soaked_s() and device.traits.rest_s:
        _soak_downwards(state, kernel, [p for p in reversed(points) if p.m >= _POWER_BITES_M])
    if points:
        state.ceilings.append(_assemble(kernel, points))


def _unsoaked(state: RunState, kernel: Projections) -> _Point | None:
    """All projections, and the LM head alone; None where the whole does not run."""
    rest = state.device.traits.rest_s if kernel.m >= _POWER_BITES_M else 0.0
    whole = measure_burst(state.device, kernel, state.limits, rest_s=rest)
    state.trials.append(whole)
    if whole.seconds_used is None:
        return None
    head = measure_burst(state.device, replace(kernel, part="head"), state.limits, rest_s=0.0)
    return _Point(kernel.m, whole.seconds_used, head.seconds_used)


def _soak_downwards(state: RunState, kernel: Projections, points: list[_Point]) -> None:
    """From the largest M down, until the clocks are no longer held: below that, soaked and unsoaked are the same."""
    for index, point in enumerate(points):
        at_m = replace(kernel, m=point.m)
        state.say(f"soak {at_m.key}", index, len(points))
        seconds = _SOAK_S if index else _FIRST_SOAK_S
        soak = Soak(at_m.key, seconds, _LEAD_IN * seconds, extend=False)
        trial = measure_soaked(state.device, at_m, state.limits, soak)
        state.trials.append(trial)
        if trial.seconds_used is None or soak.telemetry is None:
            return
        state.seen.append(soak.telemetry)
        if soak.telemetry.samples and not telemetry.is_throttled(soak.telemetry):
            return
        point.soaked_s = trial.seconds_used


def _assemble(kernel: Projections, points: list[_Point]) -> ModelCeiling:
    whole = replace(kernel, layers=kernel.model.layers, part="all")
    large = replace(whole, m=1 << 20)
    return ModelCeiling(
        model=kernel.model.name,
        dtype=kernel.dtype,
        tp=kernel.tp,
        weight_bytes=large.bytes_moved,
        flops_per_token=replace(whole, m=1).flops,
        points=[_point(whole, kernel.layers, p) for p in points],
        layers=kernel.model.layers,
        hidden_size=kernel.model.hidden_size,
        layers_measured=kernel.layers,
        lm_head_flops_per_token=replace(whole, m=1, part="head").flops,
    )


def _point(whole: Projections, measured_layers: int, point: _Point) -> CeilingPoint:
    burst = _scaled(point.burst_s, point.head_s, whole.layers, measured_layers)
    soaked = _scaled(point.soaked_s, point.head_s, whole.layers, measured_layers)
    at_m = replace(whole, m=point.m)
    best = soaked if soaked is not None else burst
    return CeilingPoint(
        m=point.m,
        ms_burst=_ms(burst),
        ms_sustained=_ms(soaked),
        weight_gbps=at_m.bytes_moved / best / 1e9 if best else None,
        tflops=at_m.flops / best / 1e12 if best else None,
        lm_head_ms=_ms(point.head_s),
    )


def _scaled(seconds: float | None, head_s: float | None, layers: int, measured: int) -> float | None:
    """Layers are alike: those measured stand for all, and the LM head comes to them once."""
    if seconds is None or layers == measured:
        return seconds
    return None if head_s is None else seconds * layers / measured + head_s


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3
