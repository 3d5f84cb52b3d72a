"""Sustained load: run one kernel without a pause until its rate has settled, with the sensors watched meanwhile.

A GPU's power control swings the clock for a few seconds around where it ends up, so that single windows differ by 5 %
while their mean is already right: settled is judged on means of halves, and the rate is work over time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from roofline_probe.measure import telemetry
from roofline_probe.measure.device import Device, Reading, Timed
from roofline_probe.measure.timing import good_samples, replay_seconds
from roofline_probe.profile import Telemetry

_WINDOW_S = 0.25
_SETTLED = 0.015
"""Halves of the kept samples that agree within 1.5 % have settled."""
_PATIENCE = 2
"""Up to this many times the asked length, while it has not."""


@dataclass
class Soak:
    """One soak: how long, what to leave out at the start, and afterwards what was seen."""

    label: str
    seconds_asked: float
    lead_in_s: float
    """The start, at full clock and cold, that is not part of the settled rate."""
    extend: bool = True
    seconds: list[float] = field(default_factory=list)
    """Seconds of one execution in each window, in order, the lead-in included."""
    skipped: int = 0
    """How many of them the lead-in is."""
    settled_s: float | None = None
    settled: bool = False
    length_s: float = 0.0
    telemetry: Telemetry | None = None

    def run(self, device: Device, timed: Timed, fastest_s: float) -> None:
        """Load the device for ``seconds_asked`` (longer while it has not settled) and judge."""
        # A timer that reports too little must not make a window of minutes.
        replay_s = max(replay_seconds(timed), fastest_s * timed.calls_per_replay)
        replays = max(1, round(_WINDOW_S / replay_s))
        readings: list[Reading] = []
        begin = device.now()
        with device.watch() as seen:
            first = 0
            while self._wants_more(device.now() - begin, fastest_s):
                self.seconds += timed.run(replays=replays, blocks=1)
                self.length_s = device.now() - begin
                if self.length_s <= self.lead_in_s:
                    first = len(seen)
            readings = list(seen)[first:]
        self.telemetry = telemetry.summarize(f"soak {self.label}", readings)

    def _wants_more(self, elapsed: float, fastest_s: float) -> bool:
        self._judge(elapsed, fastest_s)
        if elapsed < self.seconds_asked:
            return True
        lacking = self.settled_s is None or (self.extend and not self.settled)
        return lacking and elapsed < _PATIENCE * self.seconds_asked

    def _judge(self, elapsed: float, fastest_s: float) -> None:
        """Mean time of one execution after the lead-in: windows hold equal work, so this is work over time."""
        if not self.seconds:
            return
        self.skipped = min(len(self.seconds) - 1, round(len(self.seconds) * self.lead_in_s / max(elapsed, 1e-9)))
        kept = good_samples(self.seconds[self.skipped :], fastest_s)
        if not kept:
            return
        self.settled_s = sum(kept) / len(kept)
        half = len(kept) // 2
        if half:
            earlier, later = sum(kept[:half]) / half, sum(kept[-half:]) / half
            self.settled = abs(later / earlier - 1) <= _SETTLED
