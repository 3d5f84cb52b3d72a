"""The CPU: torch's threads, the real last-level cache, the host clock."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Any

from roofline_probe.measure import stream
from roofline_probe.measure.adapters._load import OthersLoad
from roofline_probe.measure.adapters._torch import TorchDevice, has_battery, is_wsl
from roofline_probe.measure.device import Surroundings, Traits, require_torch
from roofline_probe.profile import DeviceInfo

KIND = "cpu"
ORDER = 100
_GIB = 1 << 30
_MIB = 1 << 20
_STAGE_S = 20.0
"""Three stages for each of two dtypes, their soaks and the bandwidth then end within some three minutes."""


def count() -> int:
    """There is always one."""
    require_torch()
    return 1


def open(index: int) -> CpuDevice:
    """The CPU."""
    return CpuDevice(require_torch())


class CpuDevice(TorchDevice):
    """All cores that torch uses, as one device."""

    kind = "cpu"

    def __init__(self, torch: Any) -> None:
        """Sizes the work by the cache and by the memory that is free."""
        self._others = OthersLoad()
        self._cache = last_level_cache_bytes()
        super().__init__(torch, "cpu", self._cache)
        free = _free_memory_bytes()
        small = max(256 * _MIB, 4 * (self._cache or 0))
        large = max(_GIB, 4 * (self._cache or 0))
        fits = max(64 * _MIB, (free or 4 * _GIB) // 6 // _MIB * _MIB)
        native = ("bf16",) if _computes_bf16() else ()
        self.traits = Traits(
            default_dtypes=("fp32", *native),
            rest_s=0.0,
            block_s=20e-3,
            longest_call_s=0.3,
            longest_burst_call_s=0.3,
            array_bytes=min(large, fits),
            quick_array_bytes=min(small, fits),
            ceiling_layers=1,
            stage_s=_STAGE_S,
        )

    def info(self) -> DeviceInfo:
        """Model name, threads and cache."""
        return DeviceInfo(
            kind="cpu",
            name=cpu_name(),
            memory_bytes=_memory_bytes(),
            last_level_cache_bytes=self._cache,
            threads=self.torch.get_num_threads(),
        )

    def surroundings(self) -> Surroundings:
        """With the load of other programs since this device was opened."""
        return Surroundings(wsl=is_wsl(), laptop=has_battery(), load=self._others.share())

    def blas(self) -> str | None:
        """``mkl``, ``open`` … as torch was built, with oneDNN beside it: another build gives another peak."""
        config = str(self.torch.__config__.show())
        found = re.search(r"BLAS_INFO=(\w+)", config)
        blas = found.group(1) if found else "unknown BLAS"
        isa = re.search(r"CPU capability usage: (\w+)", config)
        return (
            f"torch's {blas}"
            + (" and oneDNN" if "USE_MKLDNN=ON" in config else "")
            + (f", {isa.group(1)}" if isa else "")
        )

    def why_unsupported(self, dtype: str) -> str | None:
        """fp32 everywhere; bf16 only where instructions for it exist: an emulated figure is not a peak."""
        if dtype == "fp32":
            return None
        if dtype == "bf16":
            return None if _computes_bf16() else "this CPU has no bf16 instructions; torch would convert to fp32"
        return "not a type that this CPU's library multiplies natively"

    def stream_implementations(self, pattern: str, *, quick: bool) -> list[str]:
        """Torch's own kernels."""
        return list(stream.TORCH_IMPLEMENTATIONS[pattern])


def cpu_name() -> str:
    """Model name as the system reports it."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def last_level_cache_bytes(root: Path = Path("/sys/devices/system/cpu")) -> int | None:
    """Sum over the distinct last-level caches (one per core complex or socket), from sysfs; None elsewhere."""
    found: dict[tuple[int, str], int] = {}
    for index in root.glob("cpu[0-9]*/cache/index*"):
        try:
            level = int((index / "level").read_text())
            size = _size((index / "size").read_text())
            shared = (index / "shared_cpu_list").read_text().strip()
        except (OSError, ValueError):
            continue
        found[level, shared] = size
    last = max((level for level, _ in found), default=None)
    return None if last is None else sum(size for (level, _), size in found.items() if level == last)


def _size(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([KMG]?)", text.strip()).groups()  # type: ignore[union-attr]
    return int(number) * {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[unit]


def _computes_bf16() -> bool:
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine() == "arm64"
    return bool(re.search(r"\b(avx512_bf16|amx_bf16|bf16|avx_ne_convert)\b", flags))


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def _free_memory_bytes() -> int | None:
    """What can be taken without swapping, inside a container's own limit where there is one."""
    try:
        available = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        return _memory_bytes()
    free = int(available.group(1)) * 1024 if available else _memory_bytes()
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text()) - int(
            Path("/sys/fs/cgroup/memory.current").read_text()
        )
    except (OSError, ValueError):
        return free
    return limit if free is None else min(free, limit)
