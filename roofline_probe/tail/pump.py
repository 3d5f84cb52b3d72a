"""From blocks to points on the reading thread: keep, parse, judge, hand on. Nothing here waits for disk or screen."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from typing import Generic, Protocol

from log_parsers.step import LogFacts, ScanReport, ServingStep
from log_parsers.stream import LogStream
from roofline_probe.analysis import LiveAnalysis
from roofline_probe.comparison import other_kind_sentence
from roofline_probe.point import Point
from roofline_probe.report.text import count
from roofline_probe.tail.hints import hint
from roofline_probe.tail.intake import Parcel
from roofline_probe.tail.notices import NoticeBoard
from roofline_probe.tail.reader import Block
from roofline_probe.tail.state import LiveState


class Sink(Protocol):
    """Where points go: a screen, lines of text, JSON. No method waits for whoever reads it."""

    def point(self, point: Point) -> None:
        """One step, in order."""

    def settle(self) -> None:
        """No more steps for the moment: what was taken may go out."""

    def say(self, sentence: str) -> None:
        """Something of our own that the user should know."""


class Pump(ABC, Generic[Block]):
    """What the reading thread calls, and what the others may look at."""

    board: NoticeBoard | None = None
    """The engine's own lines, where there is a log."""

    def __init__(self, judge: LiveAnalysis, sink: Sink) -> None:
        self.judge = judge
        self.state = LiveState()
        self.lock = threading.Lock()
        """Held while points are added up; the drawing thread takes it for its snapshot."""
        self._sink = sink
        self._held: deque[Point] | None = None
        self._doubted = False

    @property
    @abstractmethod
    def facts(self) -> list[LogFacts]:
        """What has been stated so far, one per run."""

    @property
    @abstractmethod
    def report(self) -> ScanReport:
        """Counts so far."""

    @abstractmethod
    def consume(self, chunk: Block) -> None:
        """One block of input."""

    def hint(self, elapsed_s: float) -> str | None:
        """What to look at while nothing usable arrives."""
        return hint(elapsed_s, self.report, self.facts[-1] if self.facts else None)

    def finish(self) -> None:
        """End of input."""
        self.release()

    def hold(self, steps: int) -> None:
        """Until ``release``, hand on nothing but the last so many steps: what was logged before we came."""
        self._held = deque(maxlen=steps)

    def release(self) -> None:
        """Caught up: say what is not shown, hand on what is held, and from now on each step as it comes."""
        held, self._held = self._held, None
        earlier = self.state.steps - len(held) if held is not None else 0
        if earlier:
            windows = count(earlier, "earlier window")
            self._sink.say(f"Not shown: {windows} of this file; the summary is of all of it.")
        for point in held or ():
            self._sink.point(point)
        self._sink.settle()

    def add(self, step: ServingStep, facts: LogFacts | None) -> None:
        """Judge one step and hand it on."""
        with self.lock:
            point = self.judge.feed(step, facts)
            if point is None:
                return
            self.state.add(point, live=self._held is None)
        doubt, profile = self.judge.doubt, self.judge.profile
        if doubt is not None and profile is not None and not self._doubted:
            self._doubted = True
            self._sink.say(other_kind_sentence(doubt, profile))
        if self._held is not None:
            self._held.append(point)
        else:
            self._sink.point(point)


class LogPump(Pump[Parcel]):
    """A log, already searched."""

    def __init__(self, stream: LogStream, judge: LiveAnalysis, sink: Sink) -> None:
        super().__init__(judge, sink)
        self.board = NoticeBoard()
        self._stream = stream
        self._candidates = 0

    @property
    def facts(self) -> list[LogFacts]:
        """One per server start seen in the log; it only grows, so it is safe to look at from another thread."""
        return self._stream.stated.entries

    @property
    def report(self) -> ScanReport:
        """Of the parser."""
        return self._stream.report

    def consume(self, chunk: Parcel) -> None:
        """Say, show, parse."""
        for sentence in chunk.said:
            self._sink.say(sentence)
        assert self.board is not None
        self.board.warnings = max(self.board.warnings, chunk.warnings)
        self.board.errors = max(self.board.errors, chunk.errors)
        if chunk.lines or chunk.not_shown:
            self.board.put(chunk.lines, chunk.not_shown)
        if chunk.fault is not None:
            raise RuntimeError(f"Searching the log failed:\n{chunk.fault}")
        for part in chunk.scanned:
            take = self._stream.take
            self._add_all(self._stream.take_end(part) if part.ends else take(part.found, part.lines, part.bytes_read))
        if chunk.caught_up:
            self.release()

    def finish(self) -> None:
        """Steps that waited for a companion line come as they are."""
        self._add_all(self._stream.flush())
        super().finish()

    def _add_all(self, steps: Iterable[ServingStep]) -> None:
        """While a step is looked at, the stream's facts are those stated before it: as ``compare`` sees them."""
        for step in steps:
            self.add(step, self._stream.stated.of(step))
        if self._stream.report.candidate_lines != self._candidates:
            self._candidates = self._stream.report.candidate_lines
            self._sink.settle()
