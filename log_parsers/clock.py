"""Stamps to ISO-8601 times and seconds, with the year that vLLM does not print."""

from __future__ import annotations

import os
from datetime import date, datetime, timezone
from typing import NamedTuple

from log_parsers.wrappers import Stamp

_DAY_S = 86_400
_ORIGIN = date(2026, 1, 1).toordinal()  # near, so that a float still resolves microseconds


class Moment(NamedTuple):
    """A stamp placed in time. ``seconds`` serves differences only; its origin is arbitrary."""

    iso: str
    seconds: float
    year_inferred: bool
    fine: bool
    """Whether the stamp resolves less than a second."""


class Clock:
    """Turns stamps into moments in order of arrival.

    The year of the first stamp without one is that of a collector's stamp around it, else the latest year that does
    not put it in the future (a day of grace, for time zones). From then on a jump back by more than half a year is
    New Year passing: order decides, not the date. So a log that crosses New Year and is read exactly a year later is
    dated a year late.
    """

    def __init__(self, now: datetime | None = None) -> None:
        self._today = (now or _now()).date()
        self._year: int | None = None
        self._latest = ("", 0)  # the latest month and day without a year, and where it was placed
        self._last: tuple[Stamp, Stamp | None] | None = None
        self._moment: Moment | None = None

    def place(self, stamp: Stamp, hint: Stamp | None = None) -> Moment | None:
        """The moment of a stamp; None if its date or time does not exist (``02-30``, ``25:61:00``)."""
        if (stamp, hint) != self._last:  # the lines of one call share a stamp
            self._last, self._moment = (stamp, hint), self._place(stamp, hint)
        return self._moment

    def _place(self, stamp: Stamp, hint: Stamp | None) -> Moment | None:
        seconds = _seconds_of_day(stamp.hms)
        day = self._ordinal(stamp, hint)
        if seconds is None or day is None:
            return None
        fraction = f".{stamp.frac}" if stamp.frac else ""
        if fraction:
            seconds += float(fraction)
        year = stamp.year if stamp.year is not None else self._year
        hms = stamp.hms.replace(":60", ":59")  # a leap second, which no reader of ISO-8601 takes
        iso = f"{year:04d}-{stamp.md}T{hms}{fraction}{_zone(stamp.zone)}"
        return Moment(iso, (day - _ORIGIN) * _DAY_S + seconds, stamp.year is None, bool(fraction))

    def _ordinal(self, stamp: Stamp, hint: Stamp | None) -> int | None:
        if stamp.year is not None:
            return _day(stamp.year, stamp.md)
        if stamp.md != self._latest[0]:
            self._infer(stamp.md, hint)
        return self._latest[1] if stamp.md == self._latest[0] else None

    def _infer(self, md: str, hint: Stamp | None) -> None:
        if hint is not None and hint.year is not None:
            year = _nearest_year(md, hint)
        elif self._year is None:
            year = self._latest_past_year(md)
        else:
            year = self._following_year(md)
        day = _day(year, md) if year is not None else None
        if day is not None:
            self._year, self._latest = year, (md, day)

    def _latest_past_year(self, md: str) -> int | None:
        for year in range(self._today.year + 1, self._today.year - 9, -1):
            day = _day(year, md)
            if day is not None and day <= self._today.toordinal() + 1:
                return year
        return None

    def _following_year(self, md: str) -> int | None:
        assert self._year is not None
        candidates = [
            (abs(day - self._latest[1]), year) for year in _around(self._year) if (day := _day(year, md)) is not None
        ]
        return min(candidates)[1] if candidates else self._latest_past_year(md)


def _now() -> datetime:
    """The current time, or what ``SOURCE_DATE_EPOCH`` puts in its place so that output can be reproduced later."""
    try:
        return datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), timezone.utc)
    except (KeyError, ValueError, OverflowError, OSError):
        return datetime.now()


def _around(year: int) -> tuple[int, int, int]:
    return (year - 1, year, year + 1)


def _nearest_year(md: str, hint: Stamp) -> int | None:
    assert hint.year is not None
    near = _day(hint.year, hint.md)
    days = [(abs(day - (near or day)), year) for year in _around(hint.year) if (day := _day(year, md)) is not None]
    return min(days)[1] if days else None


def _day(year: int, md: str) -> int | None:
    try:
        return date(year, int(md[:2]), int(md[3:])).toordinal()
    except ValueError:
        return None


def _zone(zone: str) -> str:
    """The zone as printed; none where there is no such offset (``+99:99``)."""
    hours, minutes = zone[1:3], zone[-2:]
    return zone if zone in ("", "Z") or (int(hours) < 24 and int(minutes) < 60) else ""


def _seconds_of_day(hms: str) -> float | None:
    hours, minutes, seconds = int(hms[:2]), int(hms[3:5]), int(hms[6:])
    if hours > 23 or minutes > 59 or seconds > 60:
        return None
    return float(hours * 3600 + minutes * 60 + seconds)
