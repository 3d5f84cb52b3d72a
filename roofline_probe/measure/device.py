"""The seam between measuring and devices: what stands above it is plain arithmetic, tested with a scripted fake.

A device prepares a kernel (allocates its inputs, builds what can be replayed) and runs it in timed blocks. Which
kernels run on which shapes, in which order, with what rest, and what the times mean is decided above, in ``timing`` and
``sweep``.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import ModuleType
from typing import Protocol

from roofline_probe.errors import UsageError
from roofline_probe.profile import DeviceInfo, Environment


class NotEnoughMemory(Exception):
    """The kernel's operands do not fit: that trial is skipped with this reason, the sweep goes on."""


class NotSupportedHere(Exception):
    """The device or its library cannot run this kernel: reported as not supported, never emulated."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at the device's sensors; None where it has none."""

    sm_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    throttle_reasons: tuple[str, ...] = ()
    """Plain words, ``software power cap``."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Who and what else bears on the measurement."""

    users: tuple[str, ...] = ()
    """Other processes on the device, as a person would name them (``python (pid 17, 65.0 GiB)``)."""
    wsl: bool = False
    laptop: bool = False
    load: float | None = None
    """CPU: share of the cores that others kept busy meanwhile, 0 to 1."""
    uncorrected_ecc_errors: int | None = None


@dataclass(frozen=True, slots=True)
class Traits:
    """How long and how large work on this kind of device should be."""

    default_dtypes: tuple[str, ...]
    rest_s: float
    """Rest before a burst, so that every shape starts from the same power and heat budget."""
    block_s: float
    """Length of one timed block: long enough that the timer's own tick and overhead vanish in it."""
    longest_call_s: float
    """A shape whose single execution would take longer is left out, so that a run ends in a sensible time."""
    longest_burst_call_s: float
    """The same for bursts, which repeat it more often."""
    array_bytes: int
    """Of a streaming array: max(1 GiB, 4 x last-level cache), or as much as fits."""
    quick_array_bytes: int
    ceiling_layers: int | None = None
    """Layers of a model that its ceiling is measured on (and scaled from); None: all of them."""
    small_first_m: int = 0
    """The sweep's products of up to so many rows are timed before anything else: they are memory-bound, take
    microseconds, and what a GPU has done before shows in them. The operands of all of them are held at once."""
    stage_s: float = math.inf
    """After so long a sweep, a search of bursts or a ceiling leaves out the shapes that remain, the largest ones."""


class Timed(Protocol):
    """A kernel with its operands, ready to be run."""

    implementation: str
    timer: str
    """``cuda-graph``, ``events`` or ``host``."""
    calls_per_replay: int

    def run(self, *, replays: int, blocks: int) -> list[float]:
        """Run ``blocks`` blocks of ``replays`` replays each, back to back; seconds of ONE execution in each block.

        Device time from the device's own clock where it has one; returns after the device has finished.
        """

    def verify(self) -> float:
        """Relative error against float64 on a sample, infinite if an element was not written."""

    def close(self) -> None:
        """Free the operands."""


class Buildable(Protocol):
    """What a kernel declares: its work, its traffic, and how it is named in a trial."""

    @property
    def kernel(self) -> str: ...  # noqa: D102
    @property
    def dtype(self) -> str: ...  # noqa: D102
    @property
    def label(self) -> str | None: ...  # noqa: D102
    @property
    def flops(self) -> int: ...  # noqa: D102
    @property
    def bytes_moved(self) -> int: ...  # noqa: D102
    @property
    def tolerance(self) -> float: ...  # noqa: D102
    @property
    def key(self) -> str:
        """Names this kernel and shape in progress texts and scripts, ``gemm bf16 8192x8192x8192``."""


class Device(Protocol):
    """One device to measure."""

    traits: Traits

    def info(self) -> DeviceInfo:
        """Identity."""

    def environment(self, command_line: str) -> Environment:
        """Software that measures it."""

    def surroundings(self) -> Surroundings:
        """Who else is there: processes as before our first kernel, the load of others since the device was opened."""

    def why_unsupported(self, dtype: str) -> str | None:
        """Why a dtype cannot be measured here, or None if it can."""

    def stream_implementations(self, pattern: str, *, quick: bool) -> list[str]:
        """Names of the implementations of a streaming pattern that exist here."""

    def prepare(self, kernel: Buildable) -> Timed:
        """Allocate and build.

        Raises:
            NotEnoughMemory, NotSupportedHere: this kernel cannot run; others may.
        """

    def watch(self) -> AbstractContextManager[list[Reading]]:
        """Sample the sensors while the context is open; the list fills meanwhile."""

    def sleep(self, seconds: float) -> None:
        """Leave the device idle."""

    def now(self) -> float:
        """Host clock, seconds."""

    def release(self) -> None:
        """Give all memory back: other processes may come next."""


def open_device(name: str) -> Device:
    """The device of that name; ``auto`` takes the first accelerator there is, else the CPU.

    Raises:
        UsageError: torch is missing, or there is no such device.
    """
    kind, _, index = name.partition(":")
    if index and not index.isdigit():
        raise UsageError(f"--device {name} is not a device; write it as cpu, cuda, cuda:1, xpu or mps.")
    modules = _adapters()
    if kind == "auto":
        kind = next((key for key, module in modules.items() if module.count() > 0), "cpu")
    if kind not in modules:
        raise UsageError(f"--device {name} is not a device; choose from auto, {', '.join(modules)}, all.")
    available = modules[kind].count()
    if int(index or 0) >= available:
        raise UsageError(
            f"There is no device {name} here ({available} of that kind found); choose another with --device, or cpu."
        )
    device: Device = modules[kind].open(int(index or 0))
    return device


def _adapters() -> dict[str, ModuleType]:
    """Adapter modules by device kind, accelerators before the CPU; a new file in ``adapters`` is a new kind."""
    from roofline_probe.measure import adapters

    names = [m.name for m in pkgutil.iter_modules(adapters.__path__) if not m.name.startswith("_")]
    loaded = [importlib.import_module(f"{adapters.__name__}.{name}") for name in names]
    return {m.KIND: m for m in sorted(loaded, key=lambda module: module.ORDER)}


def require_torch() -> ModuleType:
    """torch, or one sentence how to get it.

    Raises:
        UsageError: it is not installed.
    """
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise UsageError(
            f"Measuring needs PyTorch, which is not usable here ({error}); "
            "install it with: pip install 'roofline-probe[measure]'"
        ) from None
