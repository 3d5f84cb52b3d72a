"""What every torch device has in common: preparing kernels, three timers, memory errors in words."""

from __future__ import annotations

import gc
import itertools
import math
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from roofline_probe import __version__
from roofline_probe.measure.bench import Bench, Work
from roofline_probe.measure.device import Buildable, NotEnoughMemory, NotSupportedHere, Reading, Timed
from roofline_probe.profile import Environment

_GRAPH_S = 2e-3
"""Length of one graph: the gap between two replays (a few microseconds) is then lost in it."""
_GRAPH_CALLS = 2048
_WATCH_S = 0.05


class TorchDevice:
    """A device that torch can drive. Subclasses say what it is and which timer it has."""

    kind = "cpu"

    def __init__(self, torch: Any, where: str, last_level_cache_bytes: int | None) -> None:
        """``where`` as torch names it, ``cuda:0``."""
        self.torch = torch
        self.where = where
        self.bench = Bench(torch, where, last_level_cache_bytes)

    def environment(self, command_line: str) -> Environment:
        """Versions of everything whose kernels are measured."""
        return Environment(
            probe_version=__version__,
            command_line=command_line,
            python=platform.python_version(),
            platform=f"{platform.system()} {platform.machine()}",
            torch=str(self.torch.__version__),
            runtime=self.runtime(),
            triton=_version_of("triton") if self.kind in ("cuda", "rocm", "xpu") else None,
            blas=self.blas(),
        )

    def runtime(self) -> str | None:
        """``CUDA 13.0``."""
        return None

    def blas(self) -> str | None:
        """Whose GEMM it is, where torch may be built with several."""
        return None

    def prepare(self, kernel: Buildable) -> Timed:
        """Build, warm up once and wrap in the device's timer.

        Raises:
            NotEnoughMemory, NotSupportedHere: with torch's own first line as the reason.
        """
        try:
            return self._prepare(kernel)
        except NotEnoughMemory:
            # Once more with everything given back that earlier kernels left cached or in pieces.
            gc.collect()
            self.empty_cache()
            return self._prepare(kernel)

    def _prepare(self, kernel: Buildable) -> Timed:
        try:
            work: Work = kernel.build(self.bench)  # type: ignore[attr-defined]
            for call in work.calls:
                call()
            self.synchronize()
            return self.timed(work)
        except (RuntimeError, NotImplementedError, AttributeError, TypeError, MemoryError) as error:
            raise _reason(error) from None

    def timed(self, work: Work) -> Timed:
        """The work in this device's timer; host clocks where there is nothing better."""
        return HostTimed(self, work)

    def synchronize(self) -> None:
        """Wait until the device is idle."""

    def empty_cache(self) -> None:
        """Give cached memory back."""

    def read(self) -> Reading | None:
        """The sensors now, or None."""
        return None

    @contextmanager
    def watch(self) -> Iterator[list[Reading]]:
        """Sample the sensors from a thread: the measuring thread must not stop for them."""
        readings: list[Reading] = []
        done = threading.Event()

        def sample() -> None:
            while not done.wait(_WATCH_S):
                reading = self.read()
                if reading is None:
                    return
                readings.append(reading)

        thread = threading.Thread(target=sample, daemon=True)
        thread.start()
        try:
            yield readings
        finally:
            done.set()
            thread.join()

    def sleep(self, seconds: float) -> None:
        """Leave the device idle."""
        time.sleep(seconds)

    def now(self) -> float:
        """Host clock."""
        return time.perf_counter()

    def release(self) -> None:
        """Give all memory back."""
        self.bench.forget()
        gc.collect()
        self.empty_cache()


class HostTimed:
    """Host clock around calls that return when they are done; every replay takes the next copy of the operands."""

    timer = "host"
    calls_per_replay = 1

    def __init__(self, device: TorchDevice, work: Work) -> None:
        """``work`` was run once already."""
        self._device = device
        self._work = work
        self._next = itertools.cycle(work.calls)
        self.implementation = work.implementation

    def run(self, *, replays: int, blocks: int) -> list[float]:
        """Seconds of one execution in each block."""
        synchronize = self._device.synchronize
        seconds = []
        for _ in range(blocks):
            calls = list(itertools.islice(self._next, replays))
            begin = time.perf_counter()
            for call in calls:
                call()
            synchronize()
            seconds.append((time.perf_counter() - begin) / replays)
        return seconds

    def verify(self) -> float:
        """See ``Work.verify``."""
        return self._work.verify()

    def close(self) -> None:
        """Free the operands."""
        del self._work, self._next


class EventTimed:
    """The device's own clock between two events around a block of calls, never around one short call."""

    timer = "events"

    def __init__(self, device: TorchDevice, work: Work, event: Callable[[], Any]) -> None:
        """``event`` makes a timing event of the device."""
        self._device = device
        self._event = event
        self._work = work
        self._replay: Callable[[], object] = self._eager
        self.implementation = work.implementation
        self.calls_per_replay = len(work.calls)

    def _eager(self) -> None:
        """Enqueue every call once."""
        for call in self._work.calls:
            call()

    def run(self, *, replays: int, blocks: int) -> list[float]:
        """Seconds of one execution in each block; the blocks are enqueued back to back, so that nothing idles."""
        events = [self._event() for _ in range(blocks + 1)]
        events[0].record()
        for mark in events[1:]:
            for _ in range(replays):
                self._replay()
            mark.record()
        self._device.synchronize()
        each = 1e3 * replays * self.calls_per_replay
        return [begin.elapsed_time(end) / each for begin, end in itertools.pairwise(events)]

    def verify(self) -> float:
        """See ``Work.verify``."""
        return self._work.verify()

    def close(self) -> None:
        """Free the operands."""
        del self._work, self._replay


class GraphTimed(EventTimed):
    """A CUDA graph of many calls: launching costs the host 15 µs a kernel and the device nothing."""

    timer = "cuda-graph"

    def __init__(self, device: TorchDevice, work: Work, event: Callable[[], Any]) -> None:
        """Capture as many calls as fill 2 ms, in whole rounds of the operand copies."""
        super().__init__(device, work, event)
        once = self.run(replays=1, blocks=1)[0]
        if once * len(work.calls) < _GRAPH_S:  # so short that launching was part of it: more of them weigh that less
            once = min(once, self.run(replays=4, blocks=1)[0])
        rounds = math.ceil(_GRAPH_S / (once * len(work.calls)))
        rounds = max(1, min(rounds, _GRAPH_CALLS // len(work.calls)))
        self._graph = device.torch.cuda.CUDAGraph()
        # A stream of this card: torch's own capture stream is made once, on the card that captured first.
        stream = device.torch.cuda.Stream(device.where)
        with device.torch.cuda.graph(self._graph, stream=stream):
            for _ in range(rounds):
                self._eager()
        self.calls_per_replay = rounds * len(work.calls)
        self._replay = self._graph.replay

    def close(self) -> None:
        """Free the graph and the operands."""
        self._graph.reset()
        super().close()


def _reason(error: Exception) -> Exception:
    text = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
    if "memory" in text.lower() and ("alloc" in text.lower() or "out of memory" in text.lower()):
        return NotEnoughMemory("its operands do not fit into memory")
    return NotSupportedHere(text)


def _version_of(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def is_wsl() -> bool:
    """Windows' subsystem shares the card with the desktop and hides most sensors."""
    return "microsoft" in platform.release().lower()


def has_battery() -> bool:
    """A laptop: its power limit is a fraction of the desktop card's of the same name."""
    try:
        return any(name.startswith("BAT") for name in os.listdir("/sys/class/power_supply"))
    except OSError:
        return sys.platform == "darwin" and "book" in platform.node().lower()
