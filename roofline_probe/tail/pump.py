"""From bytes to points on the reading thread: keep, parse, judge, hand on. Nothing here waits for disk or screen."""

from __future__ import annotations

import threading
from typing import Protocol

from log_parsers.step import LogFacts, ScanReport, ServingStep
from roofline_probe.point import Point, Summary
from roofline_probe.tail.notices import LineWatch
from roofline_probe.tail.state import LiveState
from roofline_probe.tail.tee import Tee


class Stream(Protocol):
    """``log_parsers.stream.LogStream``: bytes in, steps out as soon as their line is complete."""

    @property
    def facts(self) -> list[LogFacts]:
        """One per run so far."""

    @property
    def report(self) -> ScanReport:
        """Counts so far."""

    def feed(self, data: bytes) -> list[ServingStep]:
        """Take a block cut anywhere."""

    def close(self) -> list[ServingStep]:
        """End of input."""


class Judge(Protocol):
    """``roofline_probe.analysis.LiveAnalysis``."""

    def feed(self, step: ServingStep) -> Point:
        """Put one step under the roofs and add it up."""

    def summary(self) -> Summary:
        """Everything fed so far."""


class Sink(Protocol):
    """Where points go: a screen, lines of text, JSON. No method waits for whoever reads it."""

    def point(self, point: Point) -> None:
        """One step, in order."""

    def say(self, sentence: str) -> None:
        """Something of our own that the user should know."""


class Pump:
    """What the reading thread calls."""

    def __init__(
        self, stream: Stream, judge: Judge, sink: Sink, tee: Tee | None = None, watch: LineWatch | None = None
    ) -> None:
        self.stream = stream
        self.judge = judge
        self.state = LiveState()
        self.watch = watch
        self.lock = threading.Lock()
        """Held while points are added up; the drawing thread takes it for its snapshot."""
        self._sink = sink
        self._tee = tee

    def consume(self, chunk: bytes) -> None:
        """One block of the log."""
        self.keep(chunk)
        self._judge(self.stream.feed(chunk))
        if self.watch is not None:
            self.watch.feed(chunk)

    def keep(self, chunk: bytes) -> None:
        """Only ``--tee``: what goes on when something of ours has failed."""
        if self._tee is not None:
            self._tee.offer(chunk)

    def finish(self) -> None:
        """End of input: an unfinished last line counts as it stands."""
        self._judge(self.stream.close())
        if self.watch is not None:
            self.watch.close()

    def _judge(self, steps: list[ServingStep]) -> None:
        for step in steps:
            with self.lock:
                point = self.judge.feed(step)
                self.state.add(point)
            self._sink.point(point)
