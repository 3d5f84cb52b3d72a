"""Counters in place of a log: readings by hand, no network."""

from __future__ import annotations

import pytest

from log_parsers.step import LogFacts
from roofline_probe.fleet.metrics import Reading
from roofline_probe.tail.counters import CounterPump, CounterSource

A, B = "http://a:8000", "http://b:8000"


@pytest.fixture
def pump(judge, view):
    return CounterPump(judge, view)


def test_steps_of_every_target_reach_the_view(pump, view, step):
    pump.consume([Reading(A, [step(source=A)], [], None), Reading(B, [step(source=B, rank="1")], [], None)])
    assert [(point.step.source, point.step.rank) for point in view.points] == [(A, "0"), (B, "1")]
    assert (pump.report.lines, pump.report.steps) == (2, 2)


def test_steps_are_judged_with_the_facts_of_their_own_target_and_run(pump, judge, step, monkeypatch):
    given = []
    monkeypatch.setattr(judge, "feed", lambda step, facts: given.append((step.source, facts.model)))
    facts = [LogFacts(source=A, run=0, model="a"), LogFacts(source=A, run=1, model="newer")]
    pump.consume([Reading(B, [step(source=B)], [LogFacts(source=B, model="b")], None)])
    pump.consume([Reading(A, [step(source=A), step(source=A, run=1)], facts, None)])
    assert given == [(B, "b"), (A, "a"), (A, "newer")]


def test_trouble_is_said_when_it_begins_and_when_it_is_over(pump, view):
    for problem in (None, "It does not answer.", "It does not answer.", None, None):
        pump.consume([Reading(A, [], [], problem)])
    assert view.sentences == [f"{A}: It does not answer.", f"{A} answers again."]


def test_stopping_closes_the_targets():
    class Metrics:
        closed = False

        def ticks(self):
            return iter([[]])

        def close(self):
            self.closed = True

    metrics = Metrics()
    source = CounterSource(metrics)
    assert list(source.chunks()) == [[]]
    source.stop()
    assert metrics.closed
    assert source.endless


def test_as_long_as_there_is_trouble_the_hint_names_it(pump):
    assert pump.hint(60) is None
    readings = [Reading(f"http://{name}", [], [], "It is dead.") for name in "abcd"]
    pump.consume(readings)
    assert pump.hint(1) == "http://a: It is dead. http://b: It is dead. 2 more."
    pump.consume([reading._replace(problem=None) for reading in readings])
    assert pump.hint(60) is None
