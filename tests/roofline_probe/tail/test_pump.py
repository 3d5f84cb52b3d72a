from __future__ import annotations

import pytest

from roofline_probe.tail.notices import LineWatch
from roofline_probe.tail.pump import LogPump


@pytest.fixture
def pump(stream, judge, view):
    return LogPump(stream, judge, view, watch=LineWatch())


def test_points_reach_the_view_in_order_as_their_lines_complete(pump, view):
    pump.consume(b"one\ntw")
    assert [point.step.raw for point in view.points] == ["one"]
    pump.consume(b"o\nthree\n")
    assert [point.step.raw for point in view.points] == ["one", "two", "three"]


def test_an_unfinished_last_line_is_taken_at_the_end(pump, view, stream):
    pump.consume(b"one\ntwo")
    pump.finish()
    assert [point.step.raw for point in view.points] == ["one", "two"]
    assert stream.closed


def test_of_what_was_logged_before_only_the_last_steps_are_shown_but_all_are_added_up(pump, view):
    pump.hold(2)
    pump.consume(b"1\n2\n3\n4\n")
    assert view.points == []
    assert pump.state.history() == ()
    pump.release()
    pump.consume(b"5\n")
    assert [point.step.raw for point in view.points] == ["3", "4", "5"]
    assert pump.state.steps == 5


def test_the_end_of_the_input_releases_what_was_held(pump, view):
    pump.hold(5)
    pump.consume(b"1\n2\n")
    pump.finish()
    assert [point.step.raw for point in view.points] == ["1", "2"]


def test_a_point_that_is_left_out_is_not_shown(pump, view, judge, monkeypatch):
    monkeypatch.setattr(judge, "feed", lambda step, facts: None)
    pump.consume(b"1\n")
    assert view.points == []


def test_tee_gets_the_bytes_before_anything_is_parsed(stream, judge, view):
    class Kept:
        def __init__(self):
            self.blocks = []

        def offer(self, chunk):
            self.blocks.append(chunk)

    kept = Kept()
    pump = LogPump(stream, judge, view, tee=kept)
    stream.read = fail
    with pytest.raises(RuntimeError):
        pump.consume(b"raw")
    assert kept.blocks == [b"raw"]


def fail(chunk):
    raise RuntimeError("a bug")
