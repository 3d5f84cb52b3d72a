"""Learning the tick interval, and the rules for what counts."""

from __future__ import annotations

import pytest

from log_parsers.status import Tick, Verdict, kind_of_rates, tick_verdict
from log_parsers.windows import Interval


def learned(*spacings: float, exact: bool = False) -> float | None:
    interval = Interval()
    for spacing in spacings:
        interval.learn(spacing, exact)
    return interval.seconds


@pytest.mark.parametrize(
    ("spacings", "seconds"),
    [
        ((), None),
        ((10,), 10.0),
        ((10, 10, 11), 10.0),
        ((1, 1, 1, 2, 1, 1), 1.0),
        ((0,), None),
        ((0, 1) * 10, 0.5),
        ((1, 2) * 10, 1.5),
        ((2, 3, 2, 3, 2, 3, 2, 3, 2, 3), 2.5),
        ((10,) * 20 + (600,), 10.0),
        ((-3, 99999), None),
        ((3600,), 3600.0),
        ((3601,), None),
        ((60, 61, 60, 60, 61, 60, 60, 60, 60), 60.0),
    ],
)
def test_the_interval_from_whole_seconds(spacings: tuple[float, ...], seconds: float | None) -> None:
    assert learned(*spacings) == seconds


def test_the_interval_from_exact_stamps_follows_them() -> None:
    assert learned(2.004, exact=True) == 2.004
    assert learned(2.0, 2.4, exact=True) == pytest.approx(2.1)
    assert learned(0.0, exact=True) is None
    assert learned(2.0, 3.0, exact=True) == 2.0
    assert learned(2.0, 2.96, exact=True) == pytest.approx(2.24)
    assert learned(9.0, *(2.0,) * 40, exact=True) == pytest.approx(2.0, abs=0.01)


def test_a_settled_interval_stays_through_more_of_the_same() -> None:
    assert learned(*(1,) * 30) == 1.0
    assert learned(*(1,) * 30, *(5,) * 40) == 5.0


@pytest.mark.parametrize(("span", "ticks"), [(10.0, 1), (14.0, 1), (16.0, 2), (40.0, 4), (0.0, 1)])
def test_ticks_in_a_span(span: float, ticks: int) -> None:
    interval = Interval()
    assert interval.ticks_in(span) == 1
    interval.learn(10, exact=False)
    assert interval.ticks_in(span) == ticks


@pytest.mark.parametrize(
    ("prompt", "gen", "tflops", "kind"),
    [
        (None, None, 100.0, "unknown"),
        (0.0, 0.0, None, "unknown"),
        (0.0, 0.0, 5.0, "prefill"),
        (0.0, 100.0, None, "decode"),
        (5.0, 100.0, None, "decode"),
        (5.1, 100.0, None, "mixed"),
        (100.0, 2.0, None, "prefill"),
        (100.0, 2.1, None, "mixed"),
        (100.0, 0.0, None, "prefill"),
    ],
)
def test_kind_by_the_two_rates(prompt: float | None, gen: float | None, tflops: float | None, kind: str) -> None:
    assert kind_of_rates(prompt, gen, tflops) == kind


def tick(running: int | None = 32, tok_s: float = 3200.0, kind: str = "decode", busy: bool = True) -> Tick:
    return Tick(busy, running, tok_s, kind)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("now", "before", "status", "reason"),
    [
        (tick(), None, "steady", None),
        (tick(), tick(), "steady", None),
        (tick(tok_s=0.0, kind="prefill"), tick(), "partial", "a prefill still running"),
        (tick(0), tick(), "partial", "work ended"),
        (tick(0), None, "partial", "work ended"),
        (tick(0, 100.0, "mixed"), tick(0, 120.0, "mixed"), "steady", None),
        (tick(0, 100.0, "mixed"), tick(0, 200.0, "mixed"), "partial", "work ended"),
        (tick(0, 100.0), tick(0, 100.0, busy=False), "partial", "work ended"),
        (tick(), tick(0), "partial", "work began"),
        (tick(), tick(0, 0.0, "unknown", busy=False), "partial", "work began"),
        (tick(2, 100.0, "prefill"), tick(), "partial", "from decode to prefill"),
        (tick(), tick(2, 100.0, "prefill"), "partial", "from prefill to decode"),
        (tick(2, 100.0, "prefill"), tick(64, 100.0, "mixed"), "steady", None),
        (tick(64), tick(32), "partial", "batch went from 32 to 64"),
        (tick(63), tick(32), "steady", None),
        (tick(16), tick(32), "partial", "batch went from 32 to 16"),
        (tick(3, 300.0), tick(1, 100.0), "steady", None),
        (tick(4, 400.0), tick(2, 200.0), "partial", "batch went from 2 to 4"),
        (tick(9, 100.0, "mixed"), tick(47, 100.0, "mixed"), "partial", "batch went from 47 to 9"),
        (tick(8, 100.0, "prefill"), tick(2, 100.0, "prefill"), "steady", None),
        (tick(32, 1500.0), tick(32, 3200.0), "partial", "far fewer tokens"),
        (tick(32, 1600.0), tick(32, 3200.0), "steady", None),
        (tick(None), tick(None), "steady", None),
    ],
)
def test_the_status_of_a_busy_tick(now: Tick, before: Tick | None, status: str, reason: str | None) -> None:
    verdict = tick_verdict(now, before)
    assert verdict.status == status
    assert (verdict.reason is None) == (reason is None)
    assert reason is None or reason in (verdict.reason or "")
    assert verdict.dilution is None


def test_a_verdict_is_steady_unless_said_otherwise() -> None:
    assert Verdict() == ("steady", None, None)
