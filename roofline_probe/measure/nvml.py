"""NVIDIA's management library: clocks, power, heat, who else is there. Absent or partly forbidden: fewer figures.

Every call is optional by itself: containers, MIG and WSL each forbid some of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from roofline_probe.measure.device import Reading

T = TypeVar("T")

_REASONS = {
    0x2: "application clock setting",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x100: "display clock setting",
}
_BUSY_BYTES = 1 << 30
"""Memory in use before we begin that cannot be an idle driver's: somebody is there, even if pids are hidden."""


def reason_words(mask: int) -> tuple[str, ...]:
    """The driver's bit mask of clock event reasons in words; idle (0x1) is not a reason for anything."""
    return tuple(text for bit, text in _REASONS.items() if mask & bit)


class Nvml:
    """One card's sensors, found by the id that torch knows it by."""

    def __init__(self, library: Any, handle: Any) -> None:
        """``library`` is pynvml, initialised."""
        self._lib = library
        self._handle = handle

    def _get(self, call: Callable[[Any], T]) -> T | None:
        try:
            return call(self._handle)
        except self._lib.NVMLError:
            return None
        except (AttributeError, UnicodeDecodeError):
            return None

    def read(self) -> Reading:
        """Clocks, power and temperature now."""
        lib = self._lib
        mask = self._get(lib.nvmlDeviceGetCurrentClocksThrottleReasons)
        milliwatt = self._get(lib.nvmlDeviceGetPowerUsage)
        return Reading(
            sm_clock_mhz=self._get(lambda h: lib.nvmlDeviceGetClockInfo(h, lib.NVML_CLOCK_SM)),
            power_w=None if milliwatt is None else milliwatt / 1000,
            temperature_c=self._get(lambda h: lib.nvmlDeviceGetTemperature(h, lib.NVML_TEMPERATURE_GPU)),
            throttle_reasons=reason_words(mask or 0),
        )

    def identity(self) -> dict[str, Any]:
        """Fields of ``DeviceInfo`` that only the driver knows."""
        lib = self._lib
        ecc = self._get(lib.nvmlDeviceGetEccMode)
        mig = self._get(lib.nvmlDeviceGetMigMode)
        driver = self._get(lambda _: lib.nvmlSystemGetDriverVersion())
        pci = self._get(lib.nvmlDeviceGetPciInfo)
        return {
            "sm_clock_max_mhz": self._get(lambda h: lib.nvmlDeviceGetMaxClockInfo(h, lib.NVML_CLOCK_SM)),
            "memory_clock_max_mhz": self._get(lambda h: lib.nvmlDeviceGetMaxClockInfo(h, lib.NVML_CLOCK_MEM)),
            "power_limit_w": _watt(self._get(lib.nvmlDeviceGetEnforcedPowerLimit)),
            "power_limit_default_w": _watt(self._get(lib.nvmlDeviceGetPowerManagementDefaultLimit)),
            "driver": _text(driver),
            "ecc": None if ecc is None else bool(ecc[0]),
            "mig": None if mig is None else bool(mig[0]),
            "pci_bus_id": None if pci is None else _text(pci.busId),
        }

    def users(self) -> tuple[str, ...]:
        """Other compute processes on the card; where their pids are hidden, the memory they hold."""
        processes = self._get(self._lib.nvmlDeviceGetComputeRunningProcesses) or []
        others = [p for p in processes if p.pid != os.getpid()]
        if others or processes:
            return tuple(self._user(p) for p in others)
        memory = self._get(self._lib.nvmlDeviceGetMemoryInfo)
        used = 0 if memory is None else memory.used - getattr(memory, "reserved", 0)
        return (f"a process that cannot be seen from here ({used / 2**30:.1f} GiB)",) if used > _BUSY_BYTES else ()

    def uncorrected_ecc_errors(self) -> int | None:
        """Uncorrected memory errors since the driver was loaded."""
        lib = self._lib
        return self._get(
            lambda h: int(
                lib.nvmlDeviceGetTotalEccErrors(h, lib.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, lib.NVML_VOLATILE_ECC)
            )
        )

    def _user(self, process: Any) -> str:
        name = _text(self._get(lambda _: self._lib.nvmlSystemGetProcessName(process.pid)))
        held = process.usedGpuMemory
        size = f", {held / 2**30:.1f} GiB" if held else ""
        return f"{os.path.basename(name or 'process')} (pid {process.pid}{size})"


def open_nvml(uuid: str | None) -> Nvml | None:
    """The sensors of the card with torch's ``uuid`` (with or without ``GPU-``), or None where they cannot be had."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        return Nvml(pynvml, _handle(pynvml, uuid))
    except pynvml.NVMLError:
        return None


def _handle(library: Any, uuid: str | None) -> Any:
    if uuid is None:
        return library.nvmlDeviceGetHandleByIndex(0)
    return library.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}")


def _watt(milliwatt: Any) -> float | None:
    return None if milliwatt is None else milliwatt / 1000


def _text(value: Any) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
