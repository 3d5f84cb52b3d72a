"""Measures the model ceiling at M = 1, 2, 4 … 16384: unsoaked upwards, then soaked downwards while power bites."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from roofline_probe.measure import telemetry
from roofline_probe.measure.ceiling import Projections, layers_that_fit
from roofline_probe.measure.device import Device
from roofline_probe.measure.options import CEILING_M, MeasureOptions
from roofline_probe.measure.soak import Soak
from roofline_probe.measure.timing import Limits, measure_burst, measure_soaked
from roofline_probe.profile import CeilingPoint, DeviceInfo, ModelCeiling, Telemetry, Trial

Say = Callable[[str, int, int], None]
_SOAK_S = 0.7
_FIRST_SOAK_S = 1.4
"""The first heats the card up; each later one starts hot and only follows the change of M."""
_LEAD_IN = 0.3
_POWER_BITES_M = 64
"""Below it a step is memory-bound and needs no rest to run at full clock."""
_FEWEST_SOAKED_M = 64
"""At 32 tokens an H200 keeps its full clock under any load."""


@dataclass
class _Point:
    m: int
    burst_s: float | None = None
    head_s: float | None = None
    soaked_s: float | None = None


def measure_ceiling(
    device: Device,
    info: DeviceInfo,
    limits: Limits,
    options: MeasureOptions,
    dtype: str,
    trials: list[Trial],
    seen: list[Telemetry],
    say: Say,
) -> ModelCeiling | None:
    """The ceiling of one dtype, or None where its first point cannot run (the trial says why).

    Appends its trials and telemetry to the lists given.
    """
    kernel = Projections(options.model, dtype, options.tp, 1, 1)
    most = device.traits.ceiling_layers or options.model.layers
    kernel = replace(kernel, layers=min(most, layers_that_fit(kernel, info.memory_bytes)))
    points: list[_Point] = []
    end = device.now() + device.traits.stage_s
    for index, m in enumerate(CEILING_M):
        at_m = replace(kernel, m=m)
        say(at_m.key, index, len(CEILING_M))
        point = _unsoaked(device, limits, at_m, trials)
        if point is None:
            break
        points.append(point)
        if device.now() >= end or (point.burst_s and 2 * point.burst_s > device.traits.longest_call_s):
            break
    if options.soaked_s() and device.traits.rest_s:
        _soak_downwards(device, limits, kernel, points, trials, seen, say)
    return _assemble(kernel, points) if points else None


def _unsoaked(device: Device, limits: Limits, kernel: Projections, trials: list[Trial]) -> _Point | None:
    """All projections, and the LM head alone; None where the whole does not run."""
    rest = device.traits.rest_s if kernel.m >= _POWER_BITES_M else 0.0
    whole = measure_burst(device, kernel, limits, rest_s=rest)
    trials.append(whole)
    if whole.seconds_used is None:
        return None
    head = measure_burst(device, replace(kernel, head_only=True), limits, rest_s=0.0)
    return _Point(kernel.m, whole.seconds_used, head.seconds_used)


def _soak_downwards(
    device: Device,
    limits: Limits,
    kernel: Projections,
    points: list[_Point],
    trials: list[Trial],
    seen: list[Telemetry],
    say: Say,
) -> None:
    """From the largest M down, until the clocks are no longer held: below that, soaked and unsoaked are the same."""
    for index, point in enumerate(p for p in reversed(points) if p.m >= _FEWEST_SOAKED_M):
        at_m = replace(kernel, m=point.m)
        say(f"soak {at_m.key}", index, len(points))
        seconds = _SOAK_S if index else _FIRST_SOAK_S
        soak = Soak(at_m.key, seconds, _LEAD_IN * seconds, extend=False)
        trial = measure_soaked(device, at_m, limits, soak)
        trials.append(trial)
        if trial.seconds_used is None or soak.telemetry is None:
            return
        seen.append(soak.telemetry)
        if soak.telemetry.samples and not telemetry.is_throttled(soak.telemetry):
            return
        point.soaked_s = trial.seconds_used


def _assemble(kernel: Projections, points: list[_Point]) -> ModelCeiling:
    whole = replace(kernel, layers=kernel.model.layers)
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
        lm_head_flops_per_token=replace(whole, m=1, head_only=True).flops,
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
    """Layers are alike: those measured stand for all, the LM head is there once."""
    if seconds is None or layers == measured:
        return seconds
    head = min(head_s or 0.0, seconds)
    return (seconds - head) * layers / measured + head


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3
