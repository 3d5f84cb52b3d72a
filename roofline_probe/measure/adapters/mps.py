"""Apple GPUs through torch's own device API. Written to that interface; never run on one."""

from __future__ import annotations

import platform
from typing import Any

from roofline_probe.measure import stream
from roofline_probe.measure.adapters._torch import EventTimed, TorchDevice, has_battery
from roofline_probe.measure.bench import Work
from roofline_probe.measure.device import Surroundings, Timed, Traits, require_torch
from roofline_probe.profile import DeviceInfo

KIND = "mps"
ORDER = 30
_GIB = 1 << 30
_SYSTEM_CACHE_BYTES = 96 << 20
"""The largest system-level cache of an Apple chip (Ultra); torch does not report it."""


def count() -> int:
    """1 on a Mac whose torch can use its GPU."""
    torch = require_torch()
    return int(hasattr(torch.backends, "mps") and torch.backends.mps.is_available())


def open(index: int) -> MpsDevice:
    """The GPU."""
    return MpsDevice(require_torch())


class MpsDevice(TorchDevice):
    """The GPU of an Apple chip: event pairs, no sensors, memory shared with the CPU."""

    kind = "mps"

    def __init__(self, torch: Any) -> None:
        """Sized by what Metal recommends to use."""
        super().__init__(torch, "mps", _SYSTEM_CACHE_BYTES)
        self._memory = int(torch.mps.recommended_max_memory())
        array = min(_GIB, self._memory // 4)
        self.traits = Traits(
            default_dtypes=("bf16", "fp16"),
            rest_s=0.3,
            block_s=20e-3,
            longest_call_s=2.0,
            longest_burst_call_s=0.1,
            array_bytes=array,
            quick_array_bytes=array,
            ceiling_layers=4,
        )

    def info(self) -> DeviceInfo:
        """The chip's name is the CPU's."""
        return DeviceInfo(
            kind="mps",
            name=platform.processor() or "Apple GPU",
            memory_bytes=self._memory,
            last_level_cache_bytes=_SYSTEM_CACHE_BYTES,
        )

    def surroundings(self) -> Surroundings:
        """Torch does not tell who else is there."""
        return Surroundings(laptop=has_battery())

    def why_unsupported(self, dtype: str) -> str | None:
        """16 and 32 bit floats."""
        return None if dtype in ("bf16", "fp16", "fp32") else "not a type that Metal multiplies"

    def stream_implementations(self, pattern: str, *, quick: bool) -> list[str]:
        """Torch's own kernels."""
        return list(stream.TORCH_IMPLEMENTATIONS[pattern])

    def timed(self, work: Work) -> Timed:
        """Event pairs around blocks."""
        return EventTimed(self, work, lambda: self.torch.mps.Event(enable_timing=True))

    def synchronize(self) -> None:
        """Wait for the GPU."""
        self.torch.mps.synchronize()

    def empty_cache(self) -> None:
        """Give cached memory back."""
        self.torch.mps.empty_cache()
