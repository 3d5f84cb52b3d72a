"""NVIDIA through CUDA and AMD through ROCm: torch calls both ``cuda``."""

from __future__ import annotations

from typing import Any

from roofline_probe.measure import stream
from roofline_probe.measure.adapters._torch import EventTimed, GraphTimed, TorchDevice, has_battery, is_wsl
from roofline_probe.measure.bench import Work
from roofline_probe.measure.device import Reading, Surroundings, Timed, Traits, require_torch
from roofline_probe.measure.nvml import Nvml, open_nvml
from roofline_probe.profile import DeviceInfo

KIND = "cuda"
ORDER = 10
_GIB = 1 << 30
_INFINITY_CACHE_BYTES = {"gfx942": 256 << 20, "gfx950": 256 << 20, "gfx90a": 8 << 20}
"""AMD: torch reports the L2 alone; behind it stands a memory-side cache that a small buffer would measure."""


def count() -> int:
    """CUDA or ROCm devices that torch can use."""
    torch = require_torch()
    return int(torch.cuda.device_count()) if torch.cuda.is_available() else 0


def open(index: int) -> CudaDevice:
    """The device of that index in torch's order."""
    return CudaDevice(require_torch(), index)


class CudaDevice(TorchDevice):
    """One GPU."""

    def __init__(self, torch: Any, index: int) -> None:
        """Looks at who is on the card before anything of ours is."""
        properties = torch.cuda.get_device_properties(index)
        self.kind = "rocm" if torch.version.hip else "cuda"
        uuid = getattr(properties, "uuid", None)
        self._uuid = None if uuid is None else str(uuid)
        self._nvml: Nvml | None = open_nvml(self._uuid) if self.kind == "cuda" else None
        self._users = self._nvml.users() if self._nvml else ()
        self._index = index
        self._properties = properties
        self._cache = _last_level_cache(properties)
        torch.cuda.set_device(index)
        super().__init__(torch, f"cuda:{index}", self._cache)
        self.traits = _traits(self.kind, properties, self._cache)

    def info(self) -> DeviceInfo:
        """Identity from torch, completed by the driver's library."""
        p = self._properties
        known: dict[str, Any] = self._nvml.identity() if self._nvml else {}
        capability = p.gcnArchName if self.kind == "rocm" else f"{p.major}.{p.minor}"
        return DeviceInfo(
            kind="rocm" if self.kind == "rocm" else "cuda",
            name=p.name,
            index=self._index,
            count=self.torch.cuda.device_count(),
            uuid=None if self._uuid is None else f"GPU-{self._uuid.removeprefix('GPU-')}",
            memory_bytes=p.total_memory,
            last_level_cache_bytes=self._cache,
            multiprocessors=p.multi_processor_count,
            compute_capability=capability,
            **known,
        )

    def surroundings(self) -> Surroundings:
        """Other processes as they were before we began."""
        errors = self._nvml.uncorrected_ecc_errors() if self._nvml else None
        return Surroundings(users=self._users, wsl=is_wsl(), laptop=has_battery(), uncorrected_ecc_errors=errors)

    def runtime(self) -> str | None:
        """``CUDA 13.0`` or ``ROCm 7.0``."""
        version = self.torch.version
        return f"ROCm {version.hip}" if version.hip else f"CUDA {version.cuda}"

    def why_unsupported(self, dtype: str) -> str | None:
        """By the card's generation; what torch itself lacks shows when the first kernel is built."""
        if self.kind == "rocm":
            return _why_not_on_rocm(dtype, self._properties.gcnArchName)
        return _why_not_on_cuda(dtype, self._properties.major * 10 + self._properties.minor)

    def stream_implementations(self, pattern: str, *, quick: bool) -> list[str]:
        """Torch's kernels and the tuned Triton ones; when in a hurry, the one expected to win of each."""
        triton = stream.triton_implementations(pattern)
        ours = list(stream.TORCH_IMPLEMENTATIONS[pattern])
        if not quick:
            return ours + triton
        return triton[:1] if pattern == "read" and triton else ours

    def timed(self, work: Work) -> Timed:
        """Graph replay; event pairs where a graph would take another path, cannot be captured, or is ROCm's."""
        if self.kind == "cuda" and work.capturable:
            try:
                return GraphTimed(self, work, self._event)
            except RuntimeError as error:
                if "captur" not in str(error).lower():
                    raise
                self.synchronize()
        return EventTimed(self, work, self._event)

    def _event(self) -> Any:
        return self.torch.cuda.Event(enable_timing=True)

    def synchronize(self) -> None:
        """Wait for the card."""
        self.torch.cuda.synchronize(self._index)

    def empty_cache(self) -> None:
        """Give cached memory back."""
        self.torch.cuda.empty_cache()

    def read(self) -> Reading | None:
        """NVML on NVIDIA; on AMD what torch reads through amdsmi, where that is installed."""
        return self._nvml.read() if self._nvml else _read_through_torch(self.torch, self._index, self.kind)


def _read_through_torch(torch: Any, index: int, kind: str) -> Reading | None:
    if kind != "rocm":
        return None
    try:
        return Reading(
            sm_clock_mhz=float(torch.cuda.clock_rate(index)),
            power_w=torch.cuda.power_draw(index) / 1000,
            temperature_c=float(torch.cuda.temperature(index)),
        )
    except Exception:  # amdsmi raises its own types; without sensors there is simply no reading
        return None


def _last_level_cache(properties: Any) -> int | None:
    architecture = getattr(properties, "gcnArchName", "").split(":")[0]
    return _INFINITY_CACHE_BYTES.get(architecture, getattr(properties, "L2_cache_size", None) or None)


def _traits(kind: str, properties: Any, cache: int | None) -> Traits:
    memory = properties.total_memory
    floor = max(_GIB, 4 * (cache or 0))
    # Larger arrays hide a kernel's tail better (4 GiB gives 0.7 to 1.3 % more than 1 GiB); three of them must fit.
    large = max(floor, min(4 * _GIB, memory // 16))
    fits = memory // 4 >> 20 << 20
    eight_bit = properties.major * 10 + properties.minor >= 89 if kind == "cuda" else True
    sixteen = "bf16" if kind == "rocm" or properties.major >= 8 else "fp16"
    return Traits(
        default_dtypes=(sixteen, "fp8") if eight_bit else (sixteen,),
        rest_s=0.3,
        block_s=5e-3,
        longest_call_s=2.0,
        longest_burst_call_s=0.1,
        array_bytes=min(large, fits),
        quick_array_bytes=min(floor, fits),
        small_first_m=128,
    )


def _why_not_on_cuda(dtype: str, capability: int) -> str | None:
    needed = {"bf16": 80, "tf32": 80, "fp8": 89, "int8": 75, "fp16": 70, "fp4": 100}.get(dtype, 0)
    if capability >= needed:
        return None
    return f"needs compute capability {needed / 10:g}; this card has {capability / 10:g}"


def _why_not_on_rocm(dtype: str, architecture: str) -> str | None:
    name = architecture.split(":")[0]
    if dtype == "fp8" and name not in ("gfx950", "gfx1200", "gfx1201"):
        # CDNA3's fp8 is the fnuz variant, which checkpoints and this tool's e4m3fn operands are not.
        return f"torch's float8_e4m3fn product is not available on {name}"
    if dtype == "tf32":
        return "not a type of this architecture in torch"
    if dtype == "fp4" and name != "gfx950":
        return f"{name} has no fp4"
    return None
