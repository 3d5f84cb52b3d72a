"""Clocks and power of this machine's cards through NVML, sampled beside the log and never in its way.

The log does not say which card it ran on; the reading is of the cards *here*, which is what a server piped into this
process uses. NVML calls can take tens of milliseconds on a busy driver, hence a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

INTERVAL_S = 1.0


@dataclass(frozen=True, slots=True)
class CardReading:
    """The cards of this machine that run something (all, if none does): power is their sum, clocks the slowest's."""

    cards: int
    name: str
    sm_clock_mhz: int | None = None
    sm_clock_max_mhz: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: int | None = None
    power_capped: bool = False
    hot: bool = False
    """Slowed down for heat."""


def open_nvml() -> Any | None:
    """The initialised pynvml module, or None where there is no NVIDIA driver or no binding."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no package, no driver, no permission: all mean "nothing to read here"
        return None
    return pynvml


class CardWatch(threading.Thread):
    """Keeps ``reading`` fresh; it stays None where NVML has nothing to say."""

    def __init__(self, opener: Callable[[], Any | None] = open_nvml) -> None:
        super().__init__(name="probe-card", daemon=True)
        self.reading: CardReading | None = None
        self._opener = opener
        self._leaving = threading.Event()

    def run(self) -> None:
        """Sample until stopped; the first failure that is not a single query's ends it."""
        nvml = self._opener()
        while nvml is not None and not self._leaving.is_set():
            try:
                self.reading = read_cards(nvml)
            except Exception:  # driver gone, card fallen off the bus: the last figures must not stand as current
                self.reading = None
                return
            self._leaving.wait(INTERVAL_S)

    def stop(self) -> None:
        """End soon."""
        self._leaving.set()


def read_cards(nvml: Any) -> CardReading | None:
    """One reading over the busy cards of the machine."""
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    busy = [handle for handle in handles if _ask(nvml, "nvmlDeviceGetComputeRunningProcesses", handle)]
    readings = [_read(nvml, handle) for handle in busy or handles]
    return _together(readings) if readings else None


def _read(nvml: Any, handle: Any) -> CardReading:
    name = _ask(nvml, "nvmlDeviceGetName", handle) or "GPU"
    power, limit = (_ask(nvml, f"nvmlDeviceGet{what}", handle) for what in ("PowerUsage", "EnforcedPowerLimit"))
    reasons = _ask(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", handle) or 0
    return CardReading(
        cards=1,
        name=name.decode() if isinstance(name, bytes) else name,
        sm_clock_mhz=_ask(nvml, "nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM),
        sm_clock_max_mhz=_ask(nvml, "nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_SM),
        power_w=None if power is None else power / 1e3,
        power_limit_w=None if limit is None else limit / 1e3,
        temperature_c=_ask(nvml, "nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU),
        power_capped=bool(reasons & 0x84),  # software power cap, hardware power brake
        hot=bool(reasons & 0x60),  # software and hardware thermal slowdown
    )


def _ask(nvml: Any, function: str, *arguments: Any) -> Any:
    """One query; None where the card or driver does not support it."""
    try:
        return getattr(nvml, function)(*arguments)
    except (nvml.NVMLError, AttributeError):
        return None


def _together(readings: list[CardReading]) -> CardReading:
    slowest = min(readings, key=lambda reading: reading.sm_clock_mhz or 0)
    return CardReading(
        cards=len(readings),
        name=readings[0].name,
        sm_clock_mhz=slowest.sm_clock_mhz,
        sm_clock_max_mhz=slowest.sm_clock_max_mhz,
        power_w=_sum([reading.power_w for reading in readings]),
        power_limit_w=_sum([reading.power_limit_w for reading in readings]),
        temperature_c=max(
            (reading.temperature_c for reading in readings if reading.temperature_c is not None), default=None
        ),
        power_capped=any(reading.power_capped for reading in readings),
        hot=any(reading.hot for reading in readings),
    )


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
