from __future__ import annotations

import pytest

from log_parsers.scan import Scanned
from log_parsers.stated import Stated
from log_parsers.step import LogFacts, ScanReport
from roofline_probe.tail.intake import Parcel
from roofline_probe.tail.pump import LogPump


class FoundStream:
    """One step a line found; the facts grow with every line."""

    def __init__(self, step):
        self._step = step
        self.report = ScanReport()
        self.stated = Stated()
        self.flushed = []

    def take(self, found, lines, bytes_read):
        for number, line in found:
            self.report.candidate_lines += 1
            step = self._step(line_no=number, raw=line.decode())
            self.stated.put(0, LogFacts(source=step.source, run=step.run, model=f"known at {number}"))
            yield step

    def flush(self):
        return self.flushed


@pytest.fixture
def stream(step):
    return FoundStream(step)


@pytest.fixture
def pump(stream, judge, view):
    return LogPump(stream, judge, view)


def parcel(*lines, **fields):
    return Parcel((Scanned([(int(line), line) for line in lines], 0, 0),), **fields)


def shown(view):
    return [point.step.raw for point in view.points]


def test_points_reach_the_view_in_order(pump, view):
    pump.consume(parcel(b"1"))
    pump.consume(parcel(b"2", b"3"))
    assert shown(view) == ["1", "2", "3"]


def test_each_step_is_judged_with_the_facts_stated_before_it_and_no_later_ones(pump, judge, monkeypatch):
    given = []
    monkeypatch.setattr(judge, "feed", lambda step, facts: given.append((step.line_no, facts.model)))
    pump.consume(parcel(b"1", b"2"))
    assert given == [(1, "known at 1"), (2, "known at 2")]
    assert pump.facts[0].model == "known at 2"


def test_steps_that_waited_for_a_companion_come_at_the_end(pump, stream, step, view):
    stream.flushed = [step(raw="late")]
    pump.consume(parcel(b"1"))
    pump.finish()
    assert shown(view) == ["1", "late"]


def test_of_what_was_logged_before_only_the_last_steps_are_shown_but_all_are_added_up(pump, view):
    pump.hold(2)
    pump.consume(parcel(b"1", b"2", b"3", b"4"))
    assert view.points == []
    assert pump.state.history() == ()
    pump.consume(Parcel(caught_up=True))
    pump.consume(parcel(b"5"))
    assert shown(view) == ["3", "4", "5"]
    assert pump.state.steps == 5
    assert view.sentences == ["Not shown: 2 earlier windows of this file; the summary is of all of it."]


def test_the_end_of_the_input_releases_what_was_held(pump, view):
    pump.hold(5)
    pump.consume(parcel(b"1", b"2"))
    pump.finish()
    assert shown(view) == ["1", "2"]
    assert view.sentences == [], "all that the file held is shown"


def test_a_point_that_is_left_out_is_not_shown(pump, view, judge, monkeypatch):
    monkeypatch.setattr(judge, "feed", lambda step, facts: None)
    pump.consume(parcel(b"1"))
    assert view.points == []


def test_what_the_reading_side_says_and_shows_is_handed_on(pump, view):
    pump.consume(parcel(lines=(b"WARNING w",), not_shown=3, warnings=4, errors=5, said=("the disk is full",)))
    assert view.sentences == ["the disk is full"]
    assert pump.board.take() == (["WARNING w"], 3)
    assert (pump.board.warnings, pump.board.errors) == (4, 5)


def test_a_fault_of_the_reading_side_is_raised_here(pump):
    with pytest.raises(RuntimeError, match="a bug"):
        pump.consume(Parcel(fault="Traceback: a bug"))
