"""The order of a measurement: who is there, small products, bandwidth, the sweep, bursts, soaks, the model ceiling.

``run`` never loses what it has: after every stage the profile so far goes to ``save``, and Ctrl-C returns it as
incomplete. Bandwidth comes before the sweep because the point at T* needs a ridge where no datasheet gives one.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

from roofline_probe import datasheet as published
from roofline_probe import profile as document
from roofline_probe import roofline
from roofline_probe.errors import UsageError
from roofline_probe.measure import advice, predict, shapes, verdict
from roofline_probe.measure.ceiling_run import measure_ceiling
from roofline_probe.measure.device import Buildable, Device, open_device
from roofline_probe.measure.gemm import Gemm
from roofline_probe.measure.options import Event, MeasureOptions
from roofline_probe.measure.peak_run import find_burst, find_sustained
from roofline_probe.measure.state import SWEEP_BUDGET_S, RunState
from roofline_probe.measure.stream import PATTERNS, Stream
from roofline_probe.measure.timing import Limits, failed, measure_medians_first, replays_for
from roofline_probe.profile import Profile

Kernel = TypeVar("Kernel", bound=Buildable)
OnEvent = Callable[[Event], None]
Save = Callable[[Profile], None]
WARM_UP_S = 1.0
"""From a cold start the first second runs at 692 instead of 794 TFLOP/s while the clocks ramp."""
QUICK_WARM_UP_S = 0.4
"""Before a quick run, and on a CPU, whose clocks follow at once."""
_STREAM_BUDGET_S = 1.0
_QUICK_STREAM_BUDGET_S = 0.3


def run(
    options: MeasureOptions,
    on_event: OnEvent = lambda event: None,
    save: Save = lambda profile: None,
    device: Device | None = None,
) -> Profile:
    """Measure and return the profile; ``complete`` is False if Ctrl-C ended it early.

    Raises:
        UsageError: no torch, no such device, a device in use without ``force``, a sparse ``--peak-tflops``.
    """
    if options.device == "all" and device is None:
        from roofline_probe.measure.machine import run_machine

        return run_machine(options, on_event, save)
    measurement = Measurement(options, on_event, save, device or open_device(options.device))
    try:
        measurement.go()
    except KeyboardInterrupt:
        measurement.complete = False
    finally:
        measurement.state.device.release()
    return measurement.profile()


class Measurement:
    """One run: the device, what was asked, and what has been found so far."""

    def __init__(self, options: MeasureOptions, on_event: OnEvent, save: Save, device: Device) -> None:
        """Looks who is there; raises before anything has run."""
        info = device.info()
        users = device.surroundings().users
        if users and not options.force:
            raise UsageError(
                f"The device is in use by {', '.join(users)}, and peaks measured beside it would be too "
                "low; stop that first, choose another --device, or measure anyway with --force."
            )
        self.dtypes, unsupported = _choose_dtypes(options, device)
        given = dict(options.peak_tflops)
        if "" in given:
            given[self.dtypes[0] if self.dtypes else "bf16"] = given.pop("")
        self.datasheet, _ = published.with_given(info.name, given, options.peak_gbps)
        limits = Limits(self.datasheet, info.last_level_cache_bytes or 0)
        self.state = RunState(device, info, options, limits, self._say, unsupported=unsupported)
        self.complete = True
        self.created = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
        self._on_event = on_event
        self._save = save

    def go(self) -> None:
        """Every stage in order."""
        mode = self.state.options.mode
        self._warm_up()
        if mode != "bandwidth":
            self._small_products()
        if mode != "gemm":
            self._bandwidth()
        if mode != "bandwidth":
            for dtype in self.dtypes:
                self._gemm(dtype)
            self._ceilings()

    def profile(self) -> Profile:
        """What has been found so far, as the document."""
        state = self.state
        betas = verdict.betas(state.trials)
        found = Profile(
            schema_version=document.SCHEMA_VERSION,
            method_version=document.METHOD_VERSION,
            created=self.created,
            device=state.info,
            environment=state.device.environment(state.options.command_line),
            quick=state.options.quick,
            complete=self.complete,
            peaks=list(state.peaks),
            betas=betas,
            ceilings=list(state.ceilings),
            datasheet=self.datasheet,
            trials=list(state.trials),
            telemetry=list(state.seen),
            warnings=[
                *advice.of_surroundings(state.info, state.device.surroundings()),
                *advice.of_results(state.info, state.trials, state.peaks, betas, state.seen, self.datasheet),
            ],
            unsupported=dict(state.unsupported),
            hidden_size=state.options.hidden_size,
            gqa_group=state.options.gqa_group,
        )
        if state.options.answers is None:
            return found
        return msgspec.structs.replace(found, predictions=predict.score(state.options.answers, found))

    def _say(self, text: str, done: int, total: int) -> None:
        self._on_event(Event("step" if total else "stage", text, done, total))

    def _finish_stage(self) -> None:
        self._save(msgspec.structs.replace(self.profile(), complete=False))

    def _warm_up(self) -> None:
        """Clocks up before the first figure, and what a launch costs with each timer that may come up."""
        state, device = self.state, self.state.device
        state.stage("warming up the clocks")
        dtype = self.dtypes[0] if self.dtypes else "fp32"
        empty = device.prepare(Stream("copy", "torch.mul", 4096))
        launch = {empty.timer: min(empty.run(replays=replays_for(empty, 2e-3), blocks=5))}
        empty.close()
        state.limits = Limits(self.datasheet, state.limits.cache_bytes, launch)
        load = device.prepare(Gemm(dtype, 2048, 2048, 2048))
        begin, replays = device.now(), replays_for(load, 0.1)
        warm_up = WARM_UP_S if device.traits.rest_s and not state.options.quick else QUICK_WARM_UP_S
        while device.now() - begin < warm_up:
            load.run(replays=replays, blocks=1)
        load.close()

    def _small_products(self) -> None:
        """The sweep's products of few rows before anything else: at full clock, and before any check."""
        state = self.state
        rows, _ = self._rows()
        if not rows:
            return
        state.stage("small products")
        groups = [shapes.projections(d, state.options.model, state.options.tp, rows, None) for d in self.dtypes]
        work = [gemm for group in groups for gemm in sorted(group, key=lambda g: g.m)]
        measure_medians_first(
            state.device,
            self._told(work),
            state.limits,
            state.trials,
            warmup=state.options.warmup,
            reps=state.options.reps,
            budget_s=SWEEP_BUDGET_S,
        )
        self._finish_stage()

    def _told(self, work: Sequence[Kernel]) -> Iterator[Kernel]:
        """The same kernels, each announced when its turn comes."""
        for done, kernel in enumerate(work):
            self.state.say(kernel.key, done, len(work))
            yield kernel

    def _rows(self) -> tuple[list[int], list[int]]:
        """Rows of the projection sweep: those measured among the small products, and those in the sweep itself."""
        _, rows = self.state.options.swept()
        few = self.state.device.traits.small_first_m
        return [m for m in rows if m <= few], [m for m in rows if m > few]

    def _bandwidth(self) -> None:
        device, options = self.state.device, self.state.options
        large = device.traits.quick_array_bytes if options.quick else device.traits.array_bytes
        sizes = [large]
        if options.buffer_mib is not None:
            asked = options.buffer_mib << 20
            # A buffer that a cache may hold is measured and shown, but beta still comes from one that none can hold.
            sizes = [asked, large] if asked < large else [asked]
        work = [
            Stream(pattern, name, size)
            for size in sizes
            for pattern in PATTERNS
            for name in device.stream_implementations(pattern, quick=options.quick)
        ]
        self.state.stage("bandwidth")
        for kernel in self._told(work):
            self.state.median(kernel, _QUICK_STREAM_BUDGET_S if options.quick else _STREAM_BUDGET_S)
        self._finish_stage()

    def _gemm(self, dtype: str) -> None:
        """Sweep, burst and sustained peak of one dtype."""
        self._sweep(dtype)
        find_burst(self.state, dtype)
        self._finish_stage()
        if (soak_s := self.state.options.soaked_s()) is not None:
            find_sustained(self.state, dtype, soak_s)
            self._finish_stage()

    def _sweep(self, dtype: str) -> None:
        state, options = self.state, self.state.options
        sizes, rows = options.swept()
        if not sizes and not rows:
            return
        state.stage(f"{dtype} sweep")
        rate, end = 0.0, state.end_of_stage()
        for gemm in self._told(shapes.squares(dtype, sizes)):
            rate = max(rate, self._swept(gemm, rate, end))
        if not rows:
            return
        # The squares leave a card power-capped, and with a clock still low the next product would read 13 % slow.
        state.device.sleep(state.device.traits.rest_s)
        _, rest = self._rows()
        work = shapes.projections(dtype, options.model, options.tp, rest, self._ridge(dtype))
        for gemm in self._told(sorted(work, key=lambda g: g.m)):
            rate = max(rate, self._swept(gemm, rate, end))

    def _swept(self, gemm: Gemm, rate: float, end: float) -> float:
        """Measure one shape unless it would take too long at the best rate so far (FLOP/s) or the stage's time is over
        (``end``); its own rate."""
        device = self.state.device
        reason = None
        if rate and gemm.flops / rate > device.traits.longest_call_s:
            reason = f"one execution would take more than {device.traits.longest_call_s:g} s here"
        elif device.now() >= end:
            reason = f"the sweep's {device.traits.stage_s:g} s were used up"
        if reason is not None:
            self.state.trials.append(failed(gemm, "median", "skipped", reason))
            return 0.0
        return (self.state.median(gemm, SWEEP_BUDGET_S).tflops or 0.0) * 1e12

    def _ridge(self, dtype: str) -> float | None:
        """The datasheet's ridge, or where there is none the one measured so far."""
        sheet, trials = self.datasheet, self.state.trials
        if sheet and sheet.gbps and dtype in sheet.tflops:
            return roofline.ridge(sheet.tflops[dtype] * 1e12, sheet.gbps * 1e9)
        beta = max((b.gbps for b in verdict.betas(trials) if b.pattern in ("copy", "triad")), default=None)
        rates = [t.tflops for t in trials if t.dtype == dtype and t.label == "square" and t.tflops]
        return roofline.ridge(max(rates) * 1e12, beta * 1e9) if beta and rates else None

    def _ceilings(self) -> None:
        options = self.state.options
        if not options.has_ceiling():
            return
        for dtype in self.dtypes:
            if dtype in self.state.unsupported:
                continue
            self.state.stage(f"{dtype} ceiling of {options.model.name}")
            measure_ceiling(self.state, dtype)
            self._finish_stage()


def _choose_dtypes(options: MeasureOptions, device: Device) -> tuple[list[str], dict[str, str]]:
    """Those to measure, and why the others of those asked for cannot be."""
    reasons = {dtype: device.why_unsupported(dtype) for dtype in options.dtypes or device.traits.default_dtypes}
    return [d for d, why in reasons.items() if why is None], {d: why for d, why in reasons.items() if why}
