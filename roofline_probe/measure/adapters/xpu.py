"""Intel GPUs through torch's own device API. Written to that interface; never run on a card."""

from __future__ import annotations

from typing import Any

from roofline_probe.measure import stream
from roofline_probe.measure.adapters._torch import EventTimed, TorchDevice, has_battery, is_wsl
from roofline_probe.measure.bench import Work
from roofline_probe.measure.device import Surroundings, Timed, Traits, require_torch
from roofline_probe.profile import DeviceInfo

KIND = "xpu"
ORDER = 20
_GIB = 1 << 30


def count() -> int:
    """Intel GPUs that torch can use."""
    torch = require_torch()
    return int(torch.xpu.device_count()) if hasattr(torch, "xpu") and torch.xpu.is_available() else 0


def open(index: int) -> XpuDevice:
    """The device of that index."""
    return XpuDevice(require_torch(), index)


class XpuDevice(TorchDevice):
    """One Intel GPU: event pairs, no sensors."""

    kind = "xpu"

    def __init__(self, torch: Any, index: int) -> None:
        """Torch reports no last-level cache here; 256 MiB is more than any such card has."""
        self._index = index
        self._properties = torch.xpu.get_device_properties(index)
        torch.xpu.set_device(index)
        super().__init__(torch, f"xpu:{index}", 256 << 20)
        array = min(_GIB, self._properties.total_memory // 4)
        self.traits = Traits(
            default_dtypes=("bf16",),
            rest_s=0.3,
            block_s=5e-3,
            longest_call_s=2.0,
            longest_burst_call_s=0.1,
            array_bytes=array,
            quick_array_bytes=array,
        )

    def info(self) -> DeviceInfo:
        """Identity from torch."""
        return DeviceInfo(
            kind="xpu",
            name=self._properties.name,
            index=self._index,
            count=count(),
            memory_bytes=self._properties.total_memory,
            driver=getattr(self._properties, "driver_version", None),
        )

    def surroundings(self) -> Surroundings:
        """Torch does not tell who else is there."""
        return Surroundings(wsl=is_wsl(), laptop=has_battery())

    def why_unsupported(self, dtype: str) -> str | None:
        """16 and 32 bit floats."""
        return None if dtype in ("bf16", "fp16", "fp32") else "not measured on Intel GPUs by this version"

    def stream_implementations(self, pattern: str, *, quick: bool) -> list[str]:
        """Torch's own kernels."""
        return list(stream.TORCH_IMPLEMENTATIONS[pattern])

    def timed(self, work: Work) -> Timed:
        """Event pairs around blocks."""
        return EventTimed(self, work, lambda: self.torch.xpu.Event(enable_timing=True))

    def synchronize(self) -> None:
        """Wait for the card."""
        self.torch.xpu.synchronize(self._index)

    def empty_cache(self) -> None:
        """Give cached memory back."""
        self.torch.xpu.empty_cache()
