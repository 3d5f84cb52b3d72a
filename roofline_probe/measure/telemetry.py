"""What the sensors saw, in figures and in plain words. Pure: readings in, text and a ``Telemetry`` out."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from roofline_probe.measure.device import Reading
from roofline_probe.profile import DeviceInfo, Telemetry

POWER_REASONS = ("software power cap", "hardware power brake")
THERMAL_REASONS = ("software thermal slowdown", "hardware thermal slowdown")


def summarize(during: str, readings: Sequence[Reading]) -> Telemetry:
    """Median and extremes of the readings, and every reason for lower clocks that was seen."""
    clocks = [r.sm_clock_mhz for r in readings if r.sm_clock_mhz is not None]
    power = [r.power_w for r in readings if r.power_w is not None]
    temperatures = [r.temperature_c for r in readings if r.temperature_c is not None]
    return Telemetry(
        during=during,
        samples=len(readings),
        sm_clock_mhz_median=statistics.median(clocks) if clocks else None,
        sm_clock_mhz_min=min(clocks, default=None),
        sm_clock_mhz_max=max(clocks, default=None),
        power_w_median=statistics.median(power) if power else None,
        power_w_max=max(power, default=None),
        temperature_c_max=max(temperatures, default=None),
        throttle_reasons=list(dict.fromkeys(reason for r in readings for reason in r.throttle_reasons)),
    )


def is_throttled(seen: Telemetry) -> bool:
    """Whether the clocks were held down by anything."""
    return bool(seen.throttle_reasons)


def explain(seen: Telemetry, info: DeviceInfo) -> str | None:
    """Why the rate was what it was: ``power-capped: 1470 of 1980 MHz at 692 of 700 W``; None without sensors."""
    if seen.sm_clock_mhz_median is None:
        return None
    clock = f"{seen.sm_clock_mhz_median:.0f} MHz"
    if info.sm_clock_max_mhz:
        clock = f"{seen.sm_clock_mhz_median:.0f} of {info.sm_clock_max_mhz} MHz"
    power = ""
    if seen.power_w_median is not None:
        limit = f" of {info.power_limit_w:.0f}" if info.power_limit_w else ""
        power = f" at {seen.power_w_median:.0f}{limit} W"
    heat = f", {seen.temperature_c_max:.0f} °C" if seen.temperature_c_max is not None else ""
    return f"{_cause(seen, info)}: {clock}{power}{heat}"


def _cause(seen: Telemetry, info: DeviceInfo) -> str:
    reasons = set(seen.throttle_reasons)
    if reasons & set(THERMAL_REASONS):
        return "held back by heat"
    if reasons & set(POWER_REASONS):
        return "power-capped"
    if reasons:
        return f"held back by {', '.join(seen.throttle_reasons)}"
    full = info.sm_clock_max_mhz
    if full and seen.sm_clock_mhz_median is not None and seen.sm_clock_mhz_median < 0.95 * full:
        return "below full clock for a reason the driver does not name"
    return "at full clock"
