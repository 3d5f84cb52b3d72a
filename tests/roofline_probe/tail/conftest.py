"""Doubles for both ends of the machinery: a stream that makes a step of each line, a judge that judges alike."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from log_parsers.step import LogFacts, ScanReport, ServingStep
from roofline_probe.point import Point, Summary


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


class LineStream:
    """One step a complete line."""

    def __init__(self) -> None:
        self.all_facts: list[LogFacts] = []
        self.report = ScanReport()
        self.rest = b""
        self.closed = False

    def read(self, data: bytes) -> list[ServingStep]:
        *lines, self.rest = (self.rest + data).split(b"\n")
        self.report.lines += len(lines)
        self.report.candidate_lines += len(lines)
        return [make_step(line_no=self.report.lines, raw=line.decode()) for line in lines]

    def close(self) -> list[ServingStep]:
        self.closed = True
        return self.read(b"\n") if self.rest else []


class PlainJudge:
    """Every step attains half."""

    roof = None

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
def stream() -> LineStream:
    return LineStream()


@pytest.fixture
def judge() -> PlainJudge:
    return PlainJudge()


@pytest.fixture
def view() -> Recorder:
    return Recorder()


@pytest.fixture
def pipe() -> Iterator[list[int]]:
    """[reading end, writing end]; put -1 in place of an end that the test closed."""
    ends = list(os.pipe())
    yield ends
    for fd in ends:
        if fd >= 0:
            os.close(fd)
