from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from roofline_probe.tail.state import LiveState, age_s, badness, fraction_of, is_current


@pytest.fixture
def clock():
    return [1000.0]


@pytest.fixture
def state(clock):
    return LiveState(clock=lambda: clock[0])


@pytest.fixture
def feed(state, clock, step, point):
    def add(seconds, fraction=0.5, **fields):
        clock[0] += seconds
        state.add(point(step(**fields), attained_fraction=fraction))

    return add


def shown(state):
    return [(seen.point.step.rank, seen.point.step.kind) for seen in state.ranks()]


def test_the_latest_tick_of_a_rank_is_now(state, feed):
    feed(0, kind="decode")
    feed(1, kind="prefill")
    assert shown(state) == [("0", "prefill")]


def test_the_worst_rank_comes_first_and_what_is_not_judged_last(state, feed):
    feed(0, 0.9, rank="0")
    feed(0, 0.3, rank="1")
    feed(0, None, rank="2")
    feed(0, 0.6, rank="3")
    assert [rank for rank, _ in shown(state)] == ["1", "3", "0", "2"]


def test_a_rank_that_fell_silent_stands_behind_those_that_work(state, feed):
    feed(0, 0.1, rank="0")
    feed(60, 0.9, rank="1")
    assert [rank for rank, _ in shown(state)] == ["1", "0"]


def test_equal_ranks_of_different_addresses_are_told_apart(state, feed):
    feed(0, 0.5, source="http://a")
    feed(0, 0.4, source="http://b")
    assert [seen.point.step.source for seen in state.ranks()] == ["http://b", "http://a"]


def test_health_probes_and_idle_ticks_do_not_displace_what_was_worked_on(state, feed):
    feed(0, kind="decode")
    feed(5, None, kind="prefill", status="noise")
    feed(5, None, kind="decode", status="idle")
    assert shown(state) == [("0", "decode")]
    assert state.ranks()[0].point.step.status == "steady"


def test_a_rank_of_which_nothing_else_is_known_shows_even_its_idle_tick(state, feed):
    feed(0, None, kind="unknown", status="idle")
    assert shown(state) == [("0", "unknown")]


def test_sglang_s_decode_stands_while_prefill_lines_come_in_between(state, feed):
    feed(0, engine="sglang", kind="decode", window_s=0.2)
    feed(0.5, engine="sglang", kind="prefill")
    assert shown(state) == [("0", "decode")]
    assert [seen.point.step.kind for seen in state.others(state.ranks()[0])] == ["prefill"]
    feed(4, engine="sglang", kind="prefill")
    assert shown(state) == [("0", "prefill")]


def test_the_history_is_a_minute_of_steady_steps(state, feed, clock):
    feed(0, 0.1)
    feed(30, 0.2)
    feed(20, 0.3, status="noise")
    feed(0, 0.4, status="partial")
    clock[0] += 20
    assert state.history() == ((40.0, 0.2),)


def test_the_history_of_one_kind_leaves_the_others_out(state, feed):
    feed(0, 0.1, kind="decode")
    feed(0, 0.2, kind="prefill")
    assert state.history("prefill") == ((0.0, 0.2),)


def test_the_number_of_ranks_is_bounded(state, feed, monkeypatch):
    monkeypatch.setattr("roofline_probe.tail.state.MAX_RANKS", 3)
    for rank in range(10):
        feed(0, rank=str(rank))
    assert len(state.ranks()) == 3
    assert state.steps == 10


@pytest.mark.parametrize(
    ("kind", "fields", "fraction"),
    [
        ("prefill", {"compute_fraction": 0.9, "attained_fraction": 0.5}, 0.9),
        ("prefill", {"attained_fraction": 0.5}, 0.5),
        ("decode", {"compute_fraction": 0.1, "attained_fraction": 0.5, "roof_fraction": 0.4}, 0.5),
        ("decode", {"roof_fraction": 0.4}, 0.4),
        ("decode", {}, None),
    ],
    ids=["prefill-by-pi", "prefill-without-work", "decode-attained", "roof-only", "nothing"],
)
def test_the_one_number_of_a_step(step, point, kind, fields, fraction):
    assert fraction_of(point(step(kind=kind), **fields)) == fraction


def test_an_idle_step_is_never_the_worst(step, point):
    idle = point(step(status="idle"), attained_fraction=0.0)
    assert badness(idle) > badness(point(step(), attained_fraction=1.2))


def test_what_was_logged_long_ago_is_not_taken_for_now(state, clock, step, point):
    old = (datetime.now() - timedelta(days=2)).isoformat()
    state.add(point(step(time=old)), live=False)
    assert not is_current(state.ranks()[0], clock[0])


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        (None, 0.0),
        ("", 0.0),
        ("no time", 0.0),
        ((datetime.now() + timedelta(days=1)).isoformat(), 0.0),
        ((datetime.now() - timedelta(hours=2)).isoformat(), 7200.0),
        ((datetime.now(timezone.utc) - timedelta(hours=2)).isoformat(), 7200.0),
    ],
    ids=["none", "empty", "nonsense", "future", "two-hours", "with-offset"],
)
def test_the_age_of_a_step(time, seconds):
    assert age_s(time) == pytest.approx(seconds, abs=600)
