"""Stamps to times: the missing year is found by order, a collector's stamp, or the calendar."""

from __future__ import annotations

from datetime import datetime

import pytest

from log_parsers.clock import Clock
from log_parsers.wrappers import Stamp

NOON = "12:00:00"


def iso(clock: Clock, md: str, hms: str = NOON, year: int | None = None, hint: Stamp | None = None) -> str | None:
    moment = clock.place(Stamp(year, md, hms), hint)
    return moment.iso if moment else None


@pytest.mark.parametrize(
    ("md", "now", "expected"),
    [
        ("11-29", datetime(2026, 12, 1), "2026-11-29"),
        ("11-29", datetime(2026, 11, 28), "2026-11-29"),
        ("11-29", datetime(2026, 11, 27), "2025-11-29"),
        ("01-01", datetime(2025, 12, 31), "2026-01-01"),
        ("01-02", datetime(2025, 12, 31), "2025-01-02"),
        ("02-29", datetime(2026, 12, 1), "2024-02-29"),
    ],
    ids=[
        "past",
        "tomorrow-is-a-time-zone",
        "two-days-ahead-was-last-year",
        "new-year-ahead",
        "last-new-year",
        "leap-day",
    ],
)
def test_the_first_stamp_gets_the_latest_year_that_is_not_the_future(md: str, now: datetime, expected: str) -> None:
    assert iso(Clock(now), md) == f"{expected}T{NOON}"


def test_new_year_is_found_by_order() -> None:
    clock = Clock(datetime(2026, 6, 1))
    assert [iso(clock, md) for md in ("12-30", "12-31", "01-01", "02-01")] == [
        f"2025-12-30T{NOON}",
        f"2025-12-31T{NOON}",
        f"2026-01-01T{NOON}",
        f"2026-02-01T{NOON}",
    ]


def test_lines_out_of_order_around_new_year_keep_their_years() -> None:
    clock = Clock(datetime(2026, 6, 1))
    assert [str(iso(clock, md))[:10] for md in ("12-31", "01-01", "12-31", "01-01")] == [
        "2025-12-31",
        "2026-01-01",
        "2025-12-31",
        "2026-01-01",
    ]


def test_seconds_run_through_new_year() -> None:
    clock = Clock(datetime(2026, 6, 1))
    before = clock.place(Stamp(None, "12-31", "23:59:59"))
    after = clock.place(Stamp(None, "01-01", "00:00:01"))
    assert before is not None
    assert after is not None
    assert after.seconds - before.seconds == 2.0


def test_a_collectors_stamp_tells_the_year() -> None:
    clock = Clock(datetime(2026, 6, 1))
    assert iso(clock, "12-31", hint=Stamp(2023, "01-01", "03:00:00")) == f"2022-12-31T{NOON}"
    assert iso(clock, "01-01", hint=Stamp(2023, "01-01", "05:00:00")) == f"2023-01-01T{NOON}"
    assert iso(Clock(datetime(2026, 6, 1)), "05-05", hint=Stamp(2019, "05-05", NOON)) == f"2019-05-05T{NOON}"
    assert iso(Clock(datetime(2026, 6, 1)), "05-05", hint=Stamp(None, "05-05", NOON)) == f"2026-05-05T{NOON}"


def test_a_stated_year_fraction_and_zone_are_kept_as_printed() -> None:
    moment = Clock().place(Stamp(2026, "03-01", NOON, "250", "+02:00"))
    assert moment is not None
    assert moment.iso == "2026-03-01T12:00:00.250+02:00"
    assert (moment.year_inferred, moment.fine) == (False, True)
    coarse = Clock(datetime(2026, 6, 1)).place(Stamp(None, "03-01", NOON))
    assert coarse is not None
    assert (coarse.year_inferred, coarse.fine) == (True, False)
    assert moment.seconds - coarse.seconds == 0.25


@pytest.mark.parametrize(
    "stamp",
    [
        Stamp(2026, "02-30", NOON),
        Stamp(2026, "13-01", NOON),
        Stamp(0, "01-01", NOON),
        Stamp(2026, "01-01", "24:00:00"),
        Stamp(2026, "01-01", "12:60:00"),
        Stamp(2026, "01-01", "12:00:61"),
        Stamp(None, "00-10", NOON),
    ],
)
def test_a_moment_that_does_not_exist_is_none(stamp: Stamp) -> None:
    assert Clock().place(stamp) is None
    assert Clock().place(stamp, Stamp(2026, "01-01", NOON)) is None


def test_an_impossible_date_after_a_good_one_is_none_too() -> None:
    clock = Clock(datetime(2026, 6, 1))
    assert iso(clock, "03-01") is not None
    assert iso(clock, "02-30") is None
    assert iso(clock, "03-02") == f"2026-03-02T{NOON}"


@pytest.mark.parametrize("frac", ["", "250"])
def test_a_leap_second_is_told_as_the_second_before_it_which_readers_of_iso_8601_know(frac: str) -> None:
    leap, before = (Clock().place(Stamp(2016, "12-31", f"23:59:{second}", frac, "+00:00")) for second in ("60", "59"))
    assert leap is not None
    assert before is not None
    assert leap.iso == before.iso
    assert datetime.fromisoformat(leap.iso).second == 59
    assert leap.seconds - before.seconds == 1.0


@pytest.mark.parametrize(
    ("zone", "told"),
    [
        ("", ""),
        ("Z", "Z"),
        ("+0530", "+0530"),
        ("-11:00", "-11:00"),
        ("+14:00", "+14:00"),
        ("+99:99", ""),
        ("-2400", ""),
        ("+01:60", ""),
    ],
)
def test_a_zone_that_does_not_exist_is_left_out(zone: str, told: str) -> None:
    moment = Clock().place(Stamp(2026, "03-01", NOON, "", zone))
    assert moment is not None
    assert moment.iso == f"2026-03-01T{NOON}{told}"


@pytest.mark.parametrize(
    ("epoch", "present"), [("1796083200", datetime(2026, 12, 1)), ("1764547200", datetime(2025, 12, 1))]
)
def test_the_present_can_be_set_from_outside(monkeypatch: pytest.MonkeyPatch, epoch: str, present: datetime) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    assert iso(Clock(), "11-30") == f"{present.year}-11-30T{NOON}"
    assert iso(Clock(), "12-03") == f"{present.year - 1}-12-03T{NOON}"


@pytest.mark.parametrize("epoch", [None, "", "soon", "9" * 30])
def test_otherwise_it_is_now(monkeypatch: pytest.MonkeyPatch, epoch: str | None) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    if epoch is not None:
        monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    assert iso(Clock(), "06-15") == iso(Clock(datetime.now()), "06-15")
