"""A scripted device with its own clock: every statistic, ordering and warning is tested without a GPU or a wait.

It behaves like a power-capped card: full clock for a short while after a rest, then slower, which is what bursts, soaks
and the order of a sweep have to cope with. Faults (no memory, no support, a wrong result, timer glitches, Ctrl-C) are
scripted by a kernel's key.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from roofline_probe.measure import stream
from roofline_probe.measure.device import (
    Buildable,
    NotEnoughMemory,
    NotSupportedHere,
    Reading,
    Surroundings,
    Timed,
    Traits,
)
from roofline_probe.profile import DeviceInfo, Environment

FAKE_TRAITS = Traits(
    default_dtypes=("bf16", "fp8"),
    rest_s=0.3,
    block_s=5e-3,
    longest_call_s=2.0,
    longest_burst_call_s=0.1,
    array_bytes=4 << 30,
    quick_array_bytes=1 << 30,
    small_first_m=128,
)
FAKE_INFO = DeviceInfo(
    kind="fake",
    name="NVIDIA H200",
    uuid="GPU-00000000-fake",
    memory_bytes=150_000_000_000,
    last_level_cache_bytes=60 << 20,
    multiprocessors=132,
    sm_clock_max_mhz=1980,
    power_limit_w=700.0,
    power_limit_default_w=700.0,
)


@dataclass
class FakeDevice:
    """All fields may be scripted; the defaults are roughly an H200's."""

    pi: Mapping[str, float] = field(default_factory=lambda: {"bf16": 800e12, "fp8": 1550e12})
    """FLOP/s at full clock by dtype; a dtype that is not here is not supported."""
    beta: float = 4.3e12
    launch_s: float = 2e-6
    """Added to every call."""
    capped: float = 0.85
    """Share of the rate that is left once the power cap bites."""
    boost_s: float = 0.05
    """Seconds of work after a rest before it does."""
    rest_needed_s: float = 0.3
    faults: Mapping[str, Exception | float] = field(default_factory=dict)
    """Key -> an exception from ``prepare``, or the relative error that ``verify`` reports."""
    glitches: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Key -> blocks (counted over the kernel's whole life) that the timer reports a thousand times too short."""
    rates: Mapping[str, float] = field(default_factory=dict)
    """Key -> factor on the kernel's rate."""
    traits: Traits = FAKE_TRAITS
    identity: DeviceInfo = FAKE_INFO
    around: Surroundings = field(default_factory=Surroundings)
    sensors: bool = True
    reasons: tuple[str, ...] = ("software power cap",)
    implementations: Mapping[str, list[str]] = field(default_factory=lambda: dict(_IMPLEMENTATIONS))
    clock: float = 0.0
    log: list[tuple[str, str, float]] = field(default_factory=list)
    """(what, key, when): ``prepare``, ``verify``, ``run``, ``sleep``, ``close``, ``release``."""
    busy_s: float = 0.0
    watchers: list[list[Reading]] = field(default_factory=list)

    def info(self) -> DeviceInfo:
        """The scripted identity."""
        return self.identity

    def environment(self, command_line: str) -> Environment:
        """A fixed one."""
        return Environment(probe_version="0", command_line=command_line, python="3", platform="fake", torch="fake")

    def surroundings(self) -> Surroundings:
        """The scripted ones."""
        return self.around

    def why_unsupported(self, dtype: str) -> str | None:
        """A dtype without a rate."""
        return None if dtype in self.pi else "this fake has no such units"

    def stream_implementations(self, pattern: str, *, quick: bool) -> list[str]:
        """The scripted names."""
        return list(self.implementations[pattern])[: 1 if quick else None]

    def prepare(self, kernel: Buildable) -> Timed:
        """Fail as scripted, else be ready."""
        self.log.append(("prepare", kernel.key, self.clock))
        fault = self.faults.get(kernel.key)
        if isinstance(fault, KeyboardInterrupt | NotEnoughMemory | NotSupportedHere):
            raise fault
        return FakeTimed(self, kernel)

    @contextmanager
    def watch(self) -> Iterator[list[Reading]]:
        """One reading for every block that runs meanwhile."""
        readings: list[Reading] = []
        self.watchers.append(readings)
        try:
            yield readings
        finally:
            self.watchers = [w for w in self.watchers if w is not readings]

    def sleep(self, seconds: float) -> None:
        """Advance the clock; a long enough rest restores the power budget."""
        self.log.append(("sleep", f"{seconds:g}", self.clock))
        self.clock += seconds
        if seconds >= self.rest_needed_s:
            self.busy_s = 0.0

    def now(self) -> float:
        """The fake's own clock."""
        return self.clock

    def release(self) -> None:
        """Note it."""
        self.log.append(("release", "", self.clock))

    def spend(self, seconds: float, capped: bool) -> None:
        """Let a block pass and the sensors see it."""
        self.clock += seconds
        self.busy_s += seconds
        reading = Reading(
            1470.0 if capped else 1980.0, 692.0 if capped else 500.0, 60.0, self.reasons if capped else ()
        )
        for watcher in self.watchers if self.sensors else ():
            watcher.append(reading)


class FakeTimed:
    """A kernel of the fake."""

    timer = "cuda-graph"

    def __init__(self, device: FakeDevice, kernel: Buildable) -> None:
        """Its time follows from its declared work."""
        self.implementation = getattr(kernel, "implementation", "fake.mm")
        self._device = device
        self._kernel = kernel
        self._blocks = 0
        self.calls_per_replay = max(1, math.ceil(2e-3 / self._seconds(capped=False)))

    def _seconds(self, *, capped: bool) -> float:
        kernel, device = self._kernel, self._device
        compute = kernel.flops / device.pi.get(kernel.dtype, 1e15) / (device.capped if capped else 1.0)
        memory = kernel.bytes_moved / device.beta
        return max(compute, memory) / device.rates.get(kernel.key, 1.0) + device.launch_s

    def _is_compute_bound(self) -> bool:
        return self._kernel.flops / self._device.pi.get(self._kernel.dtype, 1e15) > (
            self._kernel.bytes_moved / self._device.beta
        )

    def run(self, *, replays: int, blocks: int) -> list[float]:
        """Scripted times."""
        device = self._device
        device.log.append(("run", self._kernel.key, device.clock))
        seconds = []
        for _ in range(blocks):
            capped = device.busy_s >= device.boost_s and self._is_compute_bound()
            once = self._seconds(capped=capped)
            device.spend(once * replays * self.calls_per_replay, capped)
            glitched = self._blocks in device.glitches.get(self._kernel.key, frozenset())
            seconds.append(once / 1000 if glitched else once)
            self._blocks += 1
        return seconds

    def verify(self) -> float:
        """The scripted error, else a plausible one."""
        self._device.log.append(("verify", self._kernel.key, self._device.clock))
        fault = self._device.faults.get(self._kernel.key)
        return fault if isinstance(fault, float) else self._kernel.tolerance / 10

    def close(self) -> None:
        """Note it."""
        self._device.log.append(("close", self._kernel.key, self._device.clock))


_IMPLEMENTATIONS: dict[str, list[str]] = {
    pattern: list(names) for pattern, names in stream.TORCH_IMPLEMENTATIONS.items()
}
