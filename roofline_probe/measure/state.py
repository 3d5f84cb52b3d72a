"""What every stage of a run works on: the device, what was asked, and what has been found so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from roofline_probe.measure.device import Buildable, Device
from roofline_probe.measure.options import MeasureOptions
from roofline_probe.measure.timing import Limits, measure_median
from roofline_probe.profile import DeviceInfo, ModelCeiling, Peak, Telemetry, Trial

SWEEP_BUDGET_S = 0.04
"""Of one product of the sweep, and of one like it."""
Say = Callable[[str, int, int], None]
"""(text, done, total): a step of a stage; a total of 0 begins a stage."""


@dataclass
class RunState:
    """One run as far as it has come."""

    device: Device
    info: DeviceInfo
    options: MeasureOptions
    limits: Limits
    say: Say
    trials: list[Trial] = field(default_factory=list)
    peaks: list[Peak] = field(default_factory=list)
    ceilings: list[ModelCeiling] = field(default_factory=list)
    seen: list[Telemetry] = field(default_factory=list)
    unsupported: dict[str, str] = field(default_factory=dict)
    """dtype -> why it cannot be measured here."""

    def stage(self, text: str) -> None:
        """Tell that a stage begins."""
        self.say(text, 0, 0)

    def end_of_stage(self) -> float:
        """When, on the device's clock, a stage that begins now should leave out what remains of it."""
        return self.device.now() + self.device.traits.stage_s

    def median(self, kernel: Buildable, budget_s: float) -> Trial:
        """Measure one kernel back to back and keep the trial."""
        options = self.options
        trial = measure_median(
            self.device, kernel, self.limits, warmup=options.warmup, reps=options.reps, budget_s=budget_s
        )
        self.trials.append(trial)
        return trial
