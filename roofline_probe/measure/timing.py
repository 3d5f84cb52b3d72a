"""From raw block times to one figure: medians, bursts, glitches, launch-bound points.

Two regimes of one kernel. *Burst*: the best block of at least 5 ms at full clock, after the same rest for every shape;
it repeats within half a percent where a median of the same blocks wanders by 15 %, because the power cap bites within
tens of milliseconds. *Median*: everything else, back to back.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from roofline_probe.measure.device import Buildable, Device, NotEnoughMemory, NotSupportedHere, Timed
from roofline_probe.profile import Datasheet, Regime, Trial, TrialStatus

if TYPE_CHECKING:
    from roofline_probe.measure.soak import Soak

Samples = tuple[list[float], float | None]
"""Seconds of one execution in each block, and the figure taken from them; None if none of them can be true."""

BURST_BLOCKS = 6
"""On an H200 the second block is the fastest and the power cap bites after three to ten."""
_BURST_BUDGET_S = 0.5
_FEWEST_BLOCKS = 2
_LONG_S = 0.05
PHYSICAL_MARGIN = 1.3
"""A sample faster than this many times the published peak is the timer's fault: real boost clocks stay within 15 %."""
_STATISTICAL_MARGIN = 4.0
"""Where no datasheet tells what is possible: a sample four times as fast as the median is not the kernel's own.
Twice can be: beside other programs on a CPU it is the median that is wrong."""
_REFUSALS = (NotEnoughMemory, NotSupportedHere)
_LAUNCH_FLOORS = 2.0
"""A kernel not longer than two empty ones measures the launch, not the device."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What is physically possible and what a launch costs on one device."""

    datasheet: Datasheet | None = None
    cache_bytes: int = 0
    launch_s: dict[str, float] | None = None
    """Seconds of an (almost) empty kernel by timer."""
    verified: dict[str, float] = field(default_factory=dict)
    """Relative error by key of what was verified in this run: the same kernel on the same shape needs it once."""

    def fastest_s(self, kernel: Buildable) -> float:
        """Seconds below which no sample can be true; 0 where nothing is known."""
        if self.datasheet is None:
            return 0.0
        bounds = [0.0]
        if kernel.flops and kernel.dtype in self.datasheet.tflops:
            bounds.append(kernel.flops / (self.datasheet.tflops[kernel.dtype] * 1e12))
        # A buffer that fits the cache is not bound by the memory's peak.
        if not kernel.flops and self.datasheet.gbps and kernel.bytes_moved > 8 * self.cache_bytes:
            bounds.append(kernel.bytes_moved / (self.datasheet.gbps * 1e9))
        return max(bounds) / PHYSICAL_MARGIN

    def is_launch_bound(self, timer: str, seconds: float) -> bool:
        """Whether a call is so short that its launch is what was measured."""
        return seconds < _LAUNCH_FLOORS * (self.launch_s or {}).get(timer, 0.0)


def good_samples(seconds: Sequence[float], fastest_s: float) -> list[float]:
    """The samples that can be true, in order: positive, finite, and not faster than possible."""
    usable = [s for s in seconds if math.isfinite(s) and s > 0 and s >= fastest_s]
    if not usable:
        return []
    floor = fastest_s or statistics.median(usable) / _STATISTICAL_MARGIN
    return [s for s in usable if s >= floor]


def replay_seconds(timed: Timed) -> float:
    """Seconds of one replay, never 0. A short one is run twice: the first may still be warming up."""
    once = timed.run(replays=1, blocks=1)[0] * timed.calls_per_replay
    if once < _LONG_S:
        once = min(once, timed.run(replays=1, blocks=1)[0] * timed.calls_per_replay)
    return max(once, 1e-9)


def replays_for(timed: Timed, block_s: float) -> int:
    """Replays that fill a block."""
    return max(1, math.ceil(block_s / replay_seconds(timed)))


def measure_median(
    device: Device, kernel: Buildable, limits: Limits, *, warmup: int, reps: int, budget_s: float = math.inf
) -> Trial:
    """Median of ``reps`` blocks after ``warmup`` executions; fewer where they would take longer than the budget."""
    return _attempt(device, kernel, limits, "median", _median_of(device, kernel, limits, warmup, reps, budget_s))


def measure_medians_first(
    device: Device,
    kernels: Iterable[Buildable],
    limits: Limits,
    trials: list[Trial],
    *,
    warmup: int,
    reps: int,
    budget_s: float = math.inf,
) -> None:
    """``measure_median`` of many small kernels, all of them timed before any is verified; appends to ``trials``.

    On an H200 (CUDA 13.0, torch 2.11) something in the third verification of a process lengthens every gap between
    two kernels, for good: 400 empty ones in a graph go from 0.84 to 1.02 µs each, and a product that is two kernels
    from 12.5 to 13.4 µs. The operands of all of them are held meanwhile; where they do not fit, those held are
    verified and freed first. On Ctrl-C what was timed by then is verified and kept.
    """
    held: list[tuple[Buildable, Timed, Samples]] = []

    def settle() -> None:
        while held:
            kernel, timed, samples = held.pop(0)
            trials.append(_verified(kernel, limits, "median", timed, partial(_same, samples)))

    def hold(kernel: Buildable) -> None:
        timed = device.prepare(kernel)
        try:
            held.append((kernel, timed, _median_of(device, kernel, limits, warmup, reps, budget_s)(timed)))
        except BaseException:
            timed.close()
            raise

    try:
        for kernel in kernels:
            try:
                hold(kernel)
            except NotEnoughMemory:
                settle()
                try:
                    hold(kernel)
                except _REFUSALS as error:
                    trials.append(_refused(kernel, "median", error))
            except NotSupportedHere as error:
                trials.append(_refused(kernel, "median", error))
    except KeyboardInterrupt:
        settle()
        raise
    settle()


def _median_of(
    device: Device, kernel: Buildable, limits: Limits, warmup: int, reps: int, budget_s: float
) -> Callable[[Timed], Samples]:
    def sample(timed: Timed) -> Samples:
        once = replay_seconds(timed)
        replays = max(1, math.ceil(device.traits.block_s / once))
        timed.run(replays=math.ceil(min(warmup / timed.calls_per_replay, budget_s / once)) or 1, blocks=1)
        blocks = max(3, min(reps, int(min(budget_s, 1e6) / (once * replays))))
        seconds = timed.run(replays=replays, blocks=blocks)
        good = good_samples(seconds, limits.fastest_s(kernel))
        return seconds, statistics.median(good) if good else None

    return sample


def measure_burst(
    device: Device, kernel: Buildable, limits: Limits, *, blocks: int = BURST_BLOCKS, rest_s: float | None = None
) -> Trial:
    """Best block after a rest (the device's usual one, unless ``rest_s`` is given)."""

    def sample(timed: Timed) -> Samples:
        once = replay_seconds(timed)
        replays = max(1, math.ceil(device.traits.block_s / once))
        affordable = max(_FEWEST_BLOCKS, min(blocks, int(_BURST_BUDGET_S / (once * replays))))
        device.sleep(device.traits.rest_s if rest_s is None else rest_s)
        seconds = timed.run(replays=replays, blocks=affordable)
        return seconds, min(good_samples(seconds, limits.fastest_s(kernel)), default=None)

    return _attempt(device, kernel, limits, "burst", sample)


def measure_soaked(device: Device, kernel: Buildable, limits: Limits, soak: Soak) -> Trial:
    """The rate that a soak settles at; ``soak`` keeps what it saw."""

    def sample(timed: Timed) -> Samples:
        soak.run(device, timed, limits.fastest_s(kernel))
        return soak.seconds, soak.settled_s

    trial = _attempt(device, kernel, limits, "sustained", sample)
    return msgspec.structs.replace(trial, lead_in_samples=soak.skipped if trial.seconds else None)


def _attempt(
    device: Device, kernel: Buildable, limits: Limits, regime: Regime, sample: Callable[[Timed], Samples]
) -> Trial:
    """Prepare, verify, sample: a kernel that cannot run or whose result is wrong gives a reason and no figure."""
    try:
        timed = device.prepare(kernel)
    except _REFUSALS as error:
        return _refused(kernel, regime, error)
    return _verified(kernel, limits, regime, timed, partial(sample, timed))


def _verified(kernel: Buildable, limits: Limits, regime: Regime, timed: Timed, samples: Callable[[], Samples]) -> Trial:
    """The trial of those samples if the kernel's result is right; they are not asked for if it is wrong. Closes it."""
    try:
        error_found = limits.verified[kernel.key] if kernel.key in limits.verified else timed.verify()
        if not error_found <= kernel.tolerance:
            return failed(kernel, regime, "unverified", _wrong(error_found, kernel), timed, error_found)
        limits.verified[kernel.key] = error_found
        return _trial(kernel, limits, regime, timed, *samples(), error_found)
    except NotEnoughMemory as error:
        return failed(kernel, regime, "skipped", str(error), timed)
    finally:
        timed.close()


def _same(samples: Samples) -> Samples:
    return samples


def _refused(kernel: Buildable, regime: Regime, error: Exception) -> Trial:
    return failed(kernel, regime, "skipped" if isinstance(error, NotEnoughMemory) else "unsupported", str(error))


def _wrong(error_found: float, kernel: Buildable) -> str:
    if math.isinf(error_found):
        return "part of its output was not written"
    return f"its result is off by {error_found:.2g} (allowed {kernel.tolerance:g})"


def _trial(
    kernel: Buildable,
    limits: Limits,
    regime: Regime,
    timed: Timed,
    seconds: list[float],
    used: float | None,
    error_found: float,
) -> Trial:
    if used is None:
        return failed(kernel, regime, "skipped", "every sample was faster than possible: the timer is at fault", timed)
    bound = limits.is_launch_bound(timed.timer, used)
    return Trial(
        **describe(kernel),
        regime=regime,
        implementation=timed.implementation,
        seconds=seconds,
        calls_per_sample=timed.calls_per_replay,
        seconds_used=used,
        glitches=len(seconds) - len(good_samples(seconds, limits.fastest_s(kernel))),
        tflops=kernel.flops / used / 1e12 if kernel.flops else None,
        gbps=kernel.bytes_moved / used / 1e9,
        timer=timed.timer,
        verified=True,
        relative_error=error_found,
        status="launch_bound" if bound else "ok",
        reason="so short that its launch is what was measured" if bound else None,
    )


def failed(
    kernel: Buildable,
    regime: Regime,
    status: TrialStatus,
    reason: str,
    timed: Timed | None = None,
    error_found: float | None = None,
) -> Trial:
    """A trial without a figure, and why."""
    return Trial(
        **describe(kernel),
        regime=regime,
        implementation=timed.implementation if timed else getattr(kernel, "implementation", ""),
        timer=timed.timer if timed else None,
        status=status,
        reason=reason,
        verified=False if status == "unverified" else None,
        relative_error=error_found if error_found is not None and math.isfinite(error_found) else None,
    )


def describe(kernel: Buildable) -> dict[str, Any]:
    """The fields of a trial that the kernel itself declares."""
    return {
        "kernel": kernel.kernel,
        "dtype": kernel.dtype,
        "label": kernel.label,
        "m": getattr(kernel, "m", None),
        "n": getattr(kernel, "n", None),
        "k": getattr(kernel, "k", None),
        "array_bytes": getattr(kernel, "array_bytes", None),
        "flops": kernel.flops,
        "bytes_moved": kernel.bytes_moved,
        "inputs": getattr(kernel, "inputs", None),
    }
