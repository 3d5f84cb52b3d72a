"""``probe tail URL...``: the engines' own counters in place of their log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from log_parsers.step import LogFacts, ScanReport
from roofline_probe.analysis import LiveAnalysis
from roofline_probe.fleet.metrics import MetricsSource, Reading
from roofline_probe.tail.pump import Pump, Sink


class CounterSource:
    """Ticks of a ``MetricsSource``, until stopped."""

    endless = True

    def __init__(self, metrics: MetricsSource) -> None:
        self._metrics = metrics

    def chunks(self) -> Iterator[list[Reading]]:
        """All targets' readings, once an interval."""
        return self._metrics.ticks()

    def stop(self) -> None:
        """End at once, also in the middle of a tick."""
        self._metrics.close()

    def close(self, timeout_s: float | None) -> None:
        """Nothing is held."""


class CounterPump(Pump[Sequence[Reading]]):
    """Readings to points. A target's trouble is said when it begins and when it is over, not at every tick."""

    def __init__(self, judge: LiveAnalysis, sink: Sink) -> None:
        super().__init__(judge, sink)
        self.problems: dict[str, str] = {}
        """Address -> what is the matter with it now."""
        self._facts: dict[tuple[str, int], LogFacts] = {}
        self._report = ScanReport()

    @property
    def facts(self) -> list[LogFacts]:
        """One per address and run."""
        return list(self._facts.values())

    @property
    def report(self) -> ScanReport:
        """Scrapes count as lines."""
        return self._report

    def hint(self, elapsed_s: float) -> str | None:
        """What is the matter with the targets, as long as it is."""
        troubles = [f"{label}: {problem}" for label, problem in self.problems.copy().items()]
        return " ".join(troubles[:2]) + (f" {len(troubles) - 2} more." if len(troubles) > 2 else "") or None

    def consume(self, chunk: Sequence[Reading]) -> None:
        """One tick."""
        for reading in chunk:
            self._report.lines += 1
            self._note(reading)
            for facts in reading.facts:
                self._facts[facts.source, facts.run] = facts
            for step in reading.steps:
                self._report.steps += 1
                self.add(step, self._facts.get((step.source, step.run)))
        self._sink.settle()

    def _note(self, reading: Reading) -> None:
        known = self.problems.get(reading.label)
        if reading.problem is None:
            if known is not None:
                del self.problems[reading.label]
                self._sink.say(f"{reading.label} answers again.")
        elif reading.problem != known:
            self.problems[reading.label] = reading.problem
            self._sink.say(f"{reading.label}: {reading.problem}")
