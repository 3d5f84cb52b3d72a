"""Doubles for both ends of the machinery: a pump that makes a step of each line, a judge that judges all alike."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from log_parsers.step import LogFacts, ScanReport, ServingStep
from roofline_probe.point import Point, Summary
from roofline_probe.tail.pump import Pump


def make_step(**fields: object) -> ServingStep:
    known: dict[str, object] = {
        "source": "-",
        "run": 0,
        "line_no": 1,
        "engine": "vllm",
        "engine_version": "0.24.0",
        "rank": "0",
        "kind": "decode",
        "status": "steady",
    }
    return ServingStep(**{**known, **fields})  # type: ignore[arg-type]


def make_point(step: ServingStep | None = None, **fields: object) -> Point:
    nothing: dict[str, object] = dict.fromkeys(Point.__dataclass_fields__)
    nothing.update(step=step or make_step(), estimated=False, caveats=())
    return Point(**{**nothing, **fields})  # type: ignore[arg-type]


class LinePump(Pump[bytes]):
    """One step a complete line."""

    def __init__(self, judge: PlainJudge, view: Recorder) -> None:
        super().__init__(judge, view)  # type: ignore[arg-type]
        self._report = ScanReport()
        self._rest = b""

    @property
    def facts(self) -> list[LogFacts]:
        return []

    @property
    def report(self) -> ScanReport:
        return self._report

    def consume(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._report.lines += 1
            self.add(make_step(line_no=self._report.lines, raw=line.decode()), None)

    def finish(self) -> None:
        if self._rest:
            self.consume(b"\n")
        super().finish()


class PlainJudge:
    """Every step attains half."""

    roof = None
    doubt = None
    profile = None

    def feed(self, step: ServingStep, facts: LogFacts | None) -> Point:
        return make_point(step, attained_fraction=0.5)

    def summary(self) -> Summary:
        return Summary((), (), ())


class Recorder:
    """A view that remembers."""

    failure = None

    def __init__(self) -> None:
        self.points: list[Point] = []
        self.sentences: list[str] = []
        self.events: list[str] = []
        self.closed = False

    def start(self, session: object) -> None:
        self.events.append("start")

    def point(self, point: Point) -> None:
        self.points.append(point)

    def settle(self) -> None:
        pass

    def say(self, sentence: str) -> None:
        self.sentences.append(sentence)

    def stop(self) -> None:
        self.events.append("stop")

    def flush(self, timeout_s: float | None) -> None:
        self.events.append("flush")


@pytest.fixture
def step():
    return make_step


@pytest.fixture
def point():
    return make_point


@pytest.fixture
def judge() -> PlainJudge:
    return PlainJudge()


@pytest.fixture
def view() -> Recorder:
    return Recorder()


@pytest.fixture
def line_pump(judge: PlainJudge, view: Recorder) -> LinePump:
    return LinePump(judge, view)


@pytest.fixture
def pipe() -> Iterator[list[int]]:
    """[reading end, writing end]; put -1 in place of an end that the test closed."""
    ends = list(os.pipe())
    yield ends
    for fd in ends:
        if fd >= 0:
            os.close(fd)
