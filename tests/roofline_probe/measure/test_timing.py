"""From raw block times to a figure: medians, bursts after a rest, glitches, launch-bound and failed kernels."""

from __future__ import annotations

import math

import pytest

from roofline_probe.measure.device import NotEnoughMemory, NotSupportedHere
from roofline_probe.measure.dtypes import DTYPES
from roofline_probe.measure.fake import FakeDevice
from roofline_probe.measure.gemm import Gemm
from roofline_probe.measure.stream import Stream
from roofline_probe.measure.timing import (
    Limits,
    good_samples,
    measure_burst,
    measure_median,
    measure_medians_first,
)
from roofline_probe.profile import Datasheet, Trial

LARGE = Gemm("bf16", 8192, 8192, 8192)
H200 = Datasheet(card="H200", tflops={"bf16": 989.4}, gbps=4800.0)


def test_a_burst_is_the_best_block_and_a_median_the_middle_one() -> None:
    """Half of a burst's blocks run after the power cap bites; the burst must not be dragged down by them."""
    device = FakeDevice(boost_s=0.03)
    burst = measure_burst(device, LARGE, Limits(), blocks=12)
    median = measure_median(device, LARGE, Limits(), warmup=10, reps=25)
    assert burst.tflops == pytest.approx(800, rel=0.01)
    assert median.tflops == pytest.approx(680, rel=0.01)
    assert burst.seconds_used == min(burst.seconds)


def test_every_burst_starts_after_the_same_rest_whatever_ran_before() -> None:
    """Back to back the second shape would be measured hot: order must not be mistaken for shape."""
    device = FakeDevice()
    first = measure_burst(device, LARGE, Limits())
    second = measure_burst(device, LARGE, Limits())
    assert second.tflops == pytest.approx(first.tflops, rel=1e-6)
    assert [seconds for what, seconds, _ in device.log if what == "sleep"] == ["0.3", "0.3"]


def test_the_rest_comes_after_the_kernel_was_prepared_and_sized() -> None:
    """Sizing runs load the card too; only a rest after them restores the power budget."""
    device = FakeDevice()
    measure_burst(device, LARGE, Limits())
    order = [what for what, _, _ in device.log]
    assert order.index("sleep") == len(order) - 3
    assert order[-2:] == ["run", "close"]


def test_a_block_of_a_burst_is_at_least_five_milliseconds_long() -> None:
    device = FakeDevice()
    before = device.clock
    trial = measure_burst(device, Gemm("bf16", 512, 512, 512), Limits(), blocks=10)
    assert trial.status == "ok"
    busy = device.clock - before - 0.3
    assert busy >= 10 * 5e-3


SMALL = [Gemm("bf16", m, 4096, 4096) for m in (1, 2, 4)]


def medians_first(device: FakeDevice) -> list[Trial]:
    trials: list[Trial] = []
    measure_medians_first(device, SMALL, Limits(), trials, warmup=1, reps=3)
    return trials


def closed(device: FakeDevice) -> bool:
    """Whether every kernel that was prepared was closed, and once."""
    prepared = [key for what, key, _ in device.log if what == "prepare"]
    return sorted(prepared) == sorted(key for what, key, _ in device.log if what == "close")


def test_small_kernels_are_all_timed_before_the_first_is_verified_and_then_closed() -> None:
    device = FakeDevice()
    trials = medians_first(device)
    order = [what for what, _, _ in device.log if what in ("run", "verify")]
    assert "run" not in order[order.index("verify") :]
    assert [t.m for t in trials] == [1, 2, 4]
    alone = measure_median(FakeDevice(), SMALL[0], Limits(), warmup=1, reps=3)
    assert (trials[0].seconds_used, trials[0].status) == (alone.seconds_used, alone.status)
    assert closed(device)


@pytest.mark.parametrize(
    ("error", "status"),
    [(NotEnoughMemory("no room"), "skipped"), (NotSupportedHere("no such kernel"), "unsupported")],
)
def test_one_of_them_that_cannot_run_costs_the_others_nothing(error: Exception, status: str) -> None:
    device = FakeDevice(faults={SMALL[1].key: error})
    assert sorted((t.m or 0, t.status) for t in medians_first(device)) == [(1, "ok"), (2, status), (4, "ok")]


class FailsIn(FakeDevice):
    """A device on which one method of one kernel raises."""

    def __init__(self, method: str, error: BaseException) -> None:
        super().__init__()
        self.method, self.error = method, error

    def prepare(self, kernel):  # type: ignore[no-untyped-def]
        timed = super().prepare(kernel)
        if kernel.key == SMALL[1].key:

            def fail(**_: object) -> None:
                raise self.error

            setattr(timed, self.method, fail)
        return timed


def test_a_sampling_that_runs_out_of_memory_is_tried_again_alone_then_skipped_and_closed() -> None:
    device = FailsIn("run", NotEnoughMemory("no room for the result"))
    assert sorted((t.m or 0, t.status) for t in medians_first(device)) == [(1, "ok"), (2, "skipped"), (4, "ok")]
    assert closed(device)


@pytest.mark.parametrize("method", ["run", "verify"])
def test_a_real_error_is_the_one_that_is_raised_and_its_kernel_is_closed(method: str) -> None:
    device = FailsIn(method, RuntimeError("the driver is gone"))
    with pytest.raises(RuntimeError, match="the driver is gone"):
        medians_first(device)
    assert ("close", SMALL[1].key) in [(what, key) for what, key, _ in device.log]


def test_ctrl_c_among_them_keeps_and_verifies_what_was_timed() -> None:
    device = FakeDevice(faults={SMALL[2].key: KeyboardInterrupt()})
    trials: list[Trial] = []
    with pytest.raises(KeyboardInterrupt):
        measure_medians_first(device, SMALL, Limits(), trials, warmup=1, reps=3)
    assert [(t.m, t.verified) for t in trials] == [(1, True), (2, True)]


def test_a_glitch_is_kept_raw_left_out_and_counted() -> None:
    """A sample a thousand times too fast would otherwise be the best block."""
    device = FakeDevice(glitches={LARGE.key: frozenset({4, 5})})
    trial = measure_burst(device, LARGE, Limits(H200))
    assert trial.glitches == 2
    assert min(trial.seconds) < 1e-5
    assert trial.tflops == pytest.approx(800, rel=0.01)


def test_a_glitch_is_found_without_a_datasheet_too() -> None:
    device = FakeDevice(glitches={LARGE.key: frozenset({5})})
    trial = measure_median(device, LARGE, Limits(), warmup=1, reps=9)
    assert trial.glitches == 1
    assert trial.tflops is not None
    assert trial.tflops < 810


def test_only_glitches_give_no_figure() -> None:
    device = FakeDevice(glitches={LARGE.key: frozenset(range(3, 100))})
    trial = measure_median(device, LARGE, Limits(H200), warmup=1, reps=9)
    assert (trial.status, trial.tflops, trial.seconds_used) == ("skipped", None, None)
    assert trial.reason is not None
    assert "timer" in trial.reason


@pytest.mark.parametrize(
    ("seconds", "fastest", "kept"),
    [
        ([1.0, 1.1, 0.9], 0.0, [1.0, 1.1, 0.9]),
        ([1.0, math.nan, math.inf, 0.0, -1.0], 0.0, [1.0]),
        ([1.0, 0.4], 0.5, [1.0]),
        ([1.0, 1.0, 0.2], 0.0, [1.0, 1.0]),
        ([], 0.0, []),
        ([0.1], 0.5, []),
    ],
    ids=["all-good", "not-numbers", "faster-than-possible", "far-below-the-median", "none", "none-possible"],
)
def test_samples_that_can_be_true(seconds: list[float], fastest: float, kept: list[float]) -> None:
    assert good_samples(seconds, fastest) == kept


def test_a_boost_above_the_datasheet_is_not_a_glitch() -> None:
    """GeForce cards reach 115 % of their rated peak; only what no clock can explain is left out."""
    device = FakeDevice(pi={"bf16": 1.15 * 989.4e12})
    assert measure_burst(device, LARGE, Limits(H200)).glitches == 0


def test_a_cache_sized_buffer_may_be_faster_than_the_memory() -> None:
    device = FakeDevice(beta=9e12)
    trial = measure_median(device, Stream("copy", "torch.mul", 16 << 20), Limits(H200, 60 << 20), warmup=1, reps=5)
    assert trial.glitches == 0
    assert trial.gbps is not None
    assert trial.gbps > 4800


def test_a_large_buffer_faster_than_the_memory_is_a_glitch() -> None:
    device = FakeDevice(beta=9e12)
    trial = measure_median(device, Stream("copy", "torch.mul", 4 << 30), Limits(H200, 60 << 20), warmup=1, reps=5)
    assert trial.status == "skipped"


def test_a_kernel_no_longer_than_its_launch_is_launch_bound() -> None:
    limits = Limits(launch_s={"cuda-graph": 2e-6})
    small = measure_median(FakeDevice(), Gemm("bf16", 64, 64, 64), limits, warmup=1, reps=5)
    large = measure_median(FakeDevice(), LARGE, limits, warmup=1, reps=5)
    assert (small.status, large.status) == ("launch_bound", "ok")


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        (NotEnoughMemory("its operands do not fit into memory"), "skipped"),
        (NotSupportedHere("takes more than 16 rows"), "unsupported"),
        (0.5, "unverified"),
        (math.inf, "unverified"),
        (math.nan, "unverified"),
    ],
    ids=["no-memory", "no-support", "wrong-result", "not-written", "nan"],
)
def test_a_kernel_that_cannot_be_trusted_gives_a_reason_and_no_figure(fault: Exception | float, status: str) -> None:
    trial = measure_burst(FakeDevice(faults={LARGE.key: fault}), LARGE, Limits())
    assert trial.status == status
    assert trial.reason
    assert (trial.tflops, trial.gbps, trial.seconds_used) == (None, None, None)


def test_operands_are_freed_also_after_a_wrong_result() -> None:
    device = FakeDevice(faults={LARGE.key: 0.5})
    measure_burst(device, LARGE, Limits())
    assert device.log[-1][0] == "close"


def test_a_trial_carries_its_work_its_traffic_and_its_inputs() -> None:
    trial = measure_median(FakeDevice(), Gemm("fp8", 128, 4096, 2048, "qkv"), Limits(), warmup=1, reps=3)
    assert trial.flops == 2 * 128 * 4096 * 2048
    assert trial.bytes_moved == 128 * 2048 + 4096 * 2048 + 2 * 128 * 4096
    assert (trial.label, trial.inputs, trial.verified) == ("qkv", "normal", True)
    assert trial.tflops == pytest.approx(trial.flops / (trial.seconds_used or 0) / 1e12)


def test_the_same_kernel_is_verified_once_in_a_run() -> None:
    device, limits = FakeDevice(), Limits()
    measure_median(device, LARGE, limits, warmup=1, reps=3)
    assert limits.verified == {LARGE.key: pytest.approx(DTYPES["bf16"].tolerance / 10)}


def test_long_executions_get_fewer_blocks_than_asked() -> None:
    """On a CPU one call may take a second: a budget bounds the trial, and three blocks still make a median."""
    device = FakeDevice(pi={"bf16": 1e12})
    assert len(measure_median(device, LARGE, Limits(), warmup=10, reps=25, budget_s=0.04).seconds) == 3
