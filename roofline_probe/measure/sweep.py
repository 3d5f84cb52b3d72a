"""The order of a measurement: who is there, bandwidth, the sweep, bursts, soaks, the model ceiling.

``run`` never loses what it has: after every stage the profile so far goes to ``save``, and Ctrl-C returns it as
incomplete. Bandwidth comes first because the sweep's point at T* needs a ridge where no datasheet gives one.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence

import msgspec

from roofline_probe import datasheet as published
from roofline_probe import profile as document
from roofline_probe import roofline
from roofline_probe.errors import UsageError
from roofline_probe.measure import advice, predict, shapes, telemetry, verdict
from roofline_probe.measure.ceiling_run import measure_ceiling
from roofline_probe.measure.device import Buildable, Device, open_device
from roofline_probe.measure.gemm import Gemm
from roofline_probe.measure.options import Event, MeasureOptions
from roofline_probe.measure.soak import Soak
from roofline_probe.measure.stream import PATTERNS, Stream
from roofline_probe.measure.timing import (
    Limits,
    failed,
    measure_burst,
    measure_median,
    measure_medians_first,
    measure_soaked,
    replays_for,
)
from roofline_probe.profile import ModelCeiling, Peak, Profile, Telemetry, Trial

OnEvent = Callable[[Event], None]
Save = Callable[[Profile], None]
WARM_UP_S = 1.0
"""From a cold start the first second runs at 692 instead of 794 TFLOP/s while the clocks ramp."""
QUICK_WARM_UP_S = 0.4
"""Before a quick run, and on a CPU, whose clocks follow at once."""
SOAK_CANDIDATES = 3
_SCREEN_S = 0.7
_LEAD_IN_S = 1.0
_SWEEP_BUDGET_S = 0.04
_SMALL_M = 128
"""Products of so few rows are memory-bound and take microseconds: what a GPU has done before shows in them."""
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
        measurement.device.release()
    return measurement.profile()


class Measurement:
    """One run: the device, what was asked, and what has been found so far."""

    def __init__(self, options: MeasureOptions, on_event: OnEvent, save: Save, device: Device) -> None:
        """Looks who is there; raises before anything has run."""
        self.options = options
        self.device = device
        self.info = device.info()
        self.around = device.surroundings()
        self._refuse_busy()
        given = dict(options.peak_tflops)
        self.dtypes, self.unsupported = self._choose_dtypes()
        if "" in given:
            given[self.dtypes[0] if self.dtypes else "bf16"] = given.pop("")
        self.datasheet, _ = published.with_given(self.info.name, given, options.peak_gbps)
        self.limits = Limits(self.datasheet, self.info.last_level_cache_bytes or 0)
        self.trials: list[Trial] = []
        self.peaks: list[Peak] = []
        self.seen: list[Telemetry] = []
        self.ceilings: list[ModelCeiling] = []
        self.complete = True
        self.created = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
        self._on_event = on_event
        self._save = save

    def go(self) -> None:
        """Every stage in order."""
        self._warm_up()
        if self.options.mode != "bandwidth":
            self._small_products()
        if self.options.mode != "gemm":
            self._bandwidth()
        if self.options.mode != "bandwidth":
            for dtype in self.dtypes:
                self._gemm(dtype)
            self._ceilings()

    def profile(self) -> Profile:
        """What has been found so far, as the document."""
        betas = verdict.betas(self.trials)
        found = Profile(
            schema_version=document.SCHEMA_VERSION,
            method_version=document.METHOD_VERSION,
            created=self.created,
            device=self.info,
            environment=self.device.environment(self.options.command_line),
            quick=self.options.quick,
            complete=self.complete,
            peaks=list(self.peaks),
            betas=betas,
            ceilings=list(self.ceilings),
            datasheet=self.datasheet,
            trials=list(self.trials),
            telemetry=list(self.seen),
            warnings=[
                *advice.of_surroundings(self.info, self.around),
                *advice.of_results(self.info, self.trials, self.peaks, betas, self.seen, self.datasheet),
            ],
            unsupported=dict(self.unsupported),
            hidden_size=self.options.hidden_size,
            gqa_group=self.options.gqa_group,
        )
        if self.options.answers is None:
            return found
        return msgspec.structs.replace(found, predictions=predict.score(self.options.answers, found))

    def _refuse_busy(self) -> None:
        if self.around.users and not self.options.force:
            raise UsageError(
                f"The device is in use by {', '.join(self.around.users)}, and peaks measured beside it would be too "
                "low; stop that first, choose another --device, or measure anyway with --force."
            )

    def _choose_dtypes(self) -> tuple[list[str], dict[str, str]]:
        wanted = self.options.dtypes or self.device.traits.default_dtypes
        reasons = {dtype: self.device.why_unsupported(dtype) for dtype in wanted}
        return [d for d, why in reasons.items() if why is None], {d: why for d, why in reasons.items() if why}

    def _say(self, text: str, done: int = 0, total: int = 0) -> None:
        self._on_event(Event("step" if total else "stage", text, done, total))

    def _finish_stage(self) -> None:
        self._save(msgspec.structs.replace(self.profile(), complete=False))

    def _warm_up(self) -> None:
        """Clocks up before the first figure, and what a launch costs with each timer that may come up."""
        self._say("warming up the clocks")
        dtype = self.dtypes[0] if self.dtypes else "fp32"
        empty = self.device.prepare(Stream("copy", "torch.mul", 4096))
        launch = {empty.timer: min(empty.run(replays=replays_for(empty, 2e-3), blocks=5))}
        empty.close()
        self.limits = Limits(self.datasheet, self.limits.cache_bytes, launch)
        load = self.device.prepare(Gemm(dtype, 2048, 2048, 2048))
        begin, replays = self.device.now(), replays_for(load, 0.1)
        warm_up = WARM_UP_S if self.device.traits.rest_s and not self.options.quick else QUICK_WARM_UP_S
        while self.device.now() - begin < warm_up:
            load.run(replays=replays, blocks=1)
        load.close()

    def _small_products(self) -> None:
        """On a GPU, the sweep's products of few rows before anything else: at full clock, and before any check."""
        rows = self._rows(small=True)
        if not rows:
            return
        self._say("small products")
        groups = [shapes.projections(d, self.options.model, self.options.tp, rows, None) for d in self.dtypes]
        work = [gemm for group in groups for gemm in sorted(group, key=lambda g: g.m)]

        def told() -> Iterator[Gemm]:
            for done, gemm in enumerate(work):
                self._say(gemm.key, done, len(work))
                yield gemm

        options = self.options
        measure_medians_first(
            self.device,
            told(),
            self.limits,
            self.trials,
            warmup=options.warmup,
            reps=options.reps,
            budget_s=_SWEEP_BUDGET_S,
        )
        self._finish_stage()

    def _rows(self, *, small: bool) -> list[int]:
        """Rows of the projection sweep that are measured among the small products, or in the sweep itself."""
        _, rows = self.options.swept()
        is_gpu = bool(self.device.traits.rest_s)
        return [m for m in rows if (is_gpu and m <= _SMALL_M) == small]

    def _bandwidth(self) -> None:
        traits = self.device.traits
        large = traits.quick_array_bytes if self.options.quick else traits.array_bytes
        sizes = [large]
        if self.options.buffer_mib is not None:
            asked = self.options.buffer_mib << 20
            # A buffer that a cache may hold is measured and shown, but beta still comes from one that none can hold.
            sizes = [asked, large] if asked < large else [asked]
        work = [
            Stream(pattern, name, size)
            for size in sizes
            for pattern in PATTERNS
            for name in self.device.stream_implementations(pattern, quick=self.options.quick)
        ]
        self._say("bandwidth")
        for done, kernel in enumerate(work):
            self._say(kernel.key, done, len(work))
            self._median(kernel, _QUICK_STREAM_BUDGET_S if self.options.quick else _STREAM_BUDGET_S)
        self._finish_stage()

    def _median(self, kernel: Buildable, budget_s: float) -> Trial:
        trial = measure_median(
            self.device,
            kernel,
            self.limits,
            warmup=self.options.warmup,
            reps=self.options.reps,
            budget_s=budget_s,
        )
        self.trials.append(trial)
        return trial

    def _gemm(self, dtype: str) -> None:
        """Sweep, bursts and soak of one dtype; one that torch cannot run at all is unsupported, for torch's reason."""
        self._sweep(dtype)
        if self._nothing_ran(dtype):
            return
        self._bursts(dtype)
        self._finish_stage()
        if (soak_s := self.options.soaked_s()) is not None:
            self._soak(dtype, soak_s)
            self._finish_stage()

    def _sweep(self, dtype: str) -> None:
        sizes, rows = self.options.swept()
        if not sizes and not rows:
            return
        sweep = shapes.squares(dtype, sizes)
        self._say(f"{dtype} sweep")
        rate, end = 0.0, self._end_of_stage()
        for done, gemm in enumerate(sweep):
            self._say(gemm.key, done, len(sweep))
            rate = max(rate, self._swept(gemm, rate, end))
        if not rows:
            return
        rest = shapes.projections(
            dtype, self.options.model, self.options.tp, self._rows(small=False), self._ridge(dtype)
        )
        for done, gemm in enumerate(sorted(rest, key=lambda g: g.m)):
            self._say(gemm.key, done, len(rest))
            rate = max(rate, self._swept(gemm, rate, end))

    def _end_of_stage(self) -> float:
        return self.device.now() + self.device.traits.stage_s

    def _swept(self, gemm: Gemm, rate: float, end: float) -> float:
        """Measure one shape unless it would take too long at the best rate so far (FLOP/s) or the stage's time is over
        (``end``); its own rate."""
        traits = self.device.traits
        reason = None
        if rate and gemm.flops / rate > traits.longest_call_s:
            reason = f"one execution would take more than {traits.longest_call_s:g} s here"
        elif self.device.now() >= end:
            reason = f"the sweep's {traits.stage_s:g} s were used up"
        if reason is not None:
            self.trials.append(failed(gemm, "median", "skipped", reason))
            return 0.0
        return (self._median(gemm, _SWEEP_BUDGET_S).tflops or 0.0) * 1e12

    def _ridge(self, dtype: str) -> float | None:
        """The datasheet's ridge, or where there is none the one measured so far."""
        sheet = self.datasheet
        if sheet and sheet.gbps and dtype in sheet.tflops:
            return roofline.ridge(sheet.tflops[dtype] * 1e12, sheet.gbps * 1e9)
        beta = max((b.gbps for b in verdict.betas(self.trials) if b.pattern in ("copy", "triad")), default=None)
        rates = [t.tflops for t in self.trials if t.dtype == dtype and t.label == "square" and t.tflops]
        return roofline.ridge(max(rates) * 1e12, beta * 1e9) if beta and rates else None

    def _nothing_ran(self, dtype: str) -> bool:
        tried = [t for t in self.trials if t.dtype == dtype and t.kernel == "gemm"]
        refused = [t for t in tried if t.status == "unsupported"]
        if not tried or len(refused) < len(tried):
            return False
        self.unsupported[dtype] = refused[0].reason or "torch refused every shape"
        return True

    def _bursts(self, dtype: str) -> None:
        """Every candidate after the same rest, then a short search around the best."""
        self._say(f"{dtype} burst peak")
        end = self._end_of_stage()
        with self.device.watch() as readings:
            tried = self._burst_all(self._burst_candidates(dtype), end)
            best = verdict.best_gemm(dtype, self.trials)
            if best and not self.options.quick:
                around = shapes.neighbours(Gemm(dtype, best.m or 0, best.n or 0, best.k or 0), tried)
                self._burst_all(self._affordable(around), end)
        seen = telemetry.summarize(f"burst {dtype}", readings)
        if seen.samples:
            self.seen.append(seen)
        peak = verdict.burst_peak(dtype, self.trials, seen, self.info)
        if peak:
            self.peaks.append(peak)
        else:
            self._nothing_ran(dtype)

    def _burst_candidates(self, dtype: str) -> list[Gemm]:
        """The listed shapes that are short enough and the sweep's best two, each once."""
        quick = self.options.quick
        swept = [t for t in self.trials if t.kernel == "gemm" and t.dtype == dtype and t.status == "ok"]
        best = sorted(swept, key=lambda t: -(t.tflops or 0.0))[:2]
        found = self._affordable(shapes.candidates(dtype, self.info.multiprocessors, quick=quick))
        found = found or self._affordable(shapes.small_candidates(dtype, quick=quick))
        found += self._affordable([Gemm(dtype, t.m or 0, t.n or 0, t.k or 0, t.label) for t in best])
        return list({(g.m, g.n, g.k): g for g in found}.values())

    def _affordable(self, gemms: Sequence[Gemm]) -> list[Gemm]:
        """Shapes that are short enough to be repeated; on a GPU, all of them."""
        rates = [t.tflops for t in self.trials if t.kernel == "gemm" and t.tflops] or [self._guess_tflops()]
        longest = self.device.traits.longest_burst_call_s
        return [g for g in gemms if g.flops / (max(rates) * 1e12) <= longest]

    def _guess_tflops(self) -> float:
        """Before anything was measured: the rate of one small product."""
        dtype = self.dtypes[0]
        trial = self._median(Gemm(dtype, 1024, 1024, 1024, "square"), _SWEEP_BUDGET_S)
        return trial.tflops or 1.0

    def _burst_all(self, gemms: Sequence[Gemm], end: float) -> list[Gemm]:
        """Each in turn until the stage's time is over; at least one, for without it there is no pi."""
        for done, gemm in enumerate(gemms):
            if self.device.now() >= end and verdict.best_gemm(gemm.dtype, self.trials):
                break
            self._say(gemm.key, done, len(gemms))
            self.trials.append(measure_burst(self.device, gemm, self.limits))
        return list(gemms)

    def _soak(self, dtype: str, seconds: float) -> None:
        """Under load the ranking differs from the burst's: heat the card, screen a few shapes hot, soak the best."""
        self._say(f"{dtype} sustained peak")
        ranked = verdict.ranked_gemms(dtype, self.trials)[:SOAK_CANDIDATES]
        gemms = [Gemm(dtype, t.m or 0, t.n or 0, t.k or 0, "soak") for t in ranked]
        if not gemms:
            return
        screened = [(self._soaked(g, _SCREEN_S, _SCREEN_S / 3, extend=False)[0], g) for g in gemms if len(gemms) > 1]
        best = max(screened, key=lambda item: item[0].tflops or 0.0)[1] if screened else gemms[0]
        trial, soak = self._soaked(best, seconds, min(_LEAD_IN_S, seconds / 3), extend=True)
        peak = verdict.sustained_peak(dtype, trial, soak, self.info)
        if soak.telemetry and soak.telemetry.samples:
            self.seen.append(soak.telemetry)
        if peak:
            self.peaks.append(peak)

    def _soaked(self, gemm: Gemm, seconds: float, lead_in_s: float, *, extend: bool) -> tuple[Trial, Soak]:
        soak = Soak(gemm.key, seconds, lead_in_s, extend)
        self._say(f"soak {gemm.key} for {seconds:g} s", 0, 1)
        trial = measure_soaked(self.device, gemm, self.limits, soak)
        if extend:
            self.trials.append(trial)
        return trial, soak

    def _ceilings(self) -> None:
        if not self.options.has_ceiling():
            return
        for dtype in self.dtypes:
            if dtype in self.unsupported:
                continue
            self._say(f"{dtype} ceiling of {self.options.model.name}")
            ceiling = measure_ceiling(
                self.device, self.info, self.limits, self.options, dtype, self.trials, self.seen, self._say
            )
            if ceiling:
                self.ceilings.append(ceiling)
            self._finish_stage()
