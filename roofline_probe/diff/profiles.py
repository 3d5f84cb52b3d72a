"""Two profiles, before and after: what changed on the card. Pure.

A profile holds one settled figure per peak, so there is no interval; a change counts where it is larger than what two
full runs on one H200 differed by.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from log_parsers.sources import displayed
from roofline_probe.diff.logs import check_threshold
from roofline_probe.profile import CeilingPoint, LinkPoint, ModelCeiling, Profile, Telemetry
from roofline_probe.report.text import count

Better = Literal["higher", "lower"]
Group = Literal["pi", "beta", "ceiling", "link", "clock"]
REPEATS_WITHIN: dict[Group, float] = {"pi": 0.01, "beta": 0.01, "ceiling": 0.03, "link": 0.03, "clock": 0.03}
"""Runs on one H200 differed by up to 0.6 % in pi, 0.1 % in beta, 2.0 % in soaked ceilings (a card just started is
cooler), 2.4 % in clocks; two forms of a run on a pair of them by 2.6 % in collectives."""
_LINK_BOUND_BYTES = 16 << 20
"""Below it a message timed by the host costs its launch: between two runs it moved by up to 44 %."""


@dataclass(frozen=True, slots=True)
class FigureChange:
    """One measured figure of both profiles; a figure that one of them lacks has None there."""

    group: Group
    name: str
    unit: str
    before: float | None
    after: float | None
    better: Better
    series: str = ""
    """What it is one point of: one model's ceiling, one collective."""
    gated: bool = True
    """Whether it is judged, also by ``--fail-over``: clocks explain a change, the time of a launch is not the link's,
    and two timers do not time the same."""
    timers: tuple[str, str] | None = None
    """How each side was timed, where they differ: then the figures stand side by side and have no change."""

    @property
    def unjudged(self) -> Literal["timers", "one side", "clock", "launch"] | None:
        """Why it is shown and not judged; None where it is."""
        if self.timers is not None:
            return "timers"
        if self.relative is None:
            return "one side"
        return None if self.gated else "clock" if self.group == "clock" else "launch"

    @property
    def relative(self) -> float | None:
        """after / before − 1; None where a side lacks the figure or the timers differ."""
        if self.timers is not None:
            return None
        return self.after / self.before - 1 if self.before and self.after is not None else None

    @property
    def worse_by(self) -> float | None:
        """The loss as a fraction: of rate, or of time added. Below zero is better."""
        if self.relative is None:
            return None
        return -self.relative if self.better == "higher" else self.relative

    @property
    def verdict(self) -> Literal["better", "worse", "unchanged", "only before", "only after", "timed differently"]:
        """What to say of it."""
        if self.timers is not None:
            return "timed differently"
        if self.worse_by is None:
            return "only after" if self.before is None else "only before"
        if abs(self.worse_by) < REPEATS_WITHIN[self.group]:
            return "unchanged"
        return "worse" if self.worse_by > 0 else "better"


@dataclass(frozen=True, slots=True)
class FactChange:
    """Something named, not measured: driver, power limit, versions."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class ProfileDiff:
    """The answer of ``probe diff`` for two profiles."""

    before: str
    after: str
    facts: tuple[FactChange, ...]
    """Only those that differ."""
    figures: tuple[FigureChange, ...]
    only_before: tuple[str, ...] = ()
    """What AFTER lacks whole: a model's ceiling, a collective."""
    only_after: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    """``different_card``, ``different_method``, ``quick``, ``incomplete``, ``different_timers`` …"""


def diff_profiles(before: Profile, after: Profile, names: tuple[str, str]) -> ProfileDiff:
    """Every figure that either has, and every fact in which they differ."""
    figures = tuple(_figures(before, after))
    timers = ("different_timers",) if any(figure.timers for figure in figures) else ()
    return ProfileDiff(
        before=displayed(names[0]),
        after=displayed(names[1]),
        facts=tuple(f for f in _facts(before, after) if f.before != f.after),
        figures=figures,
        only_before=_wholes(before, after),
        only_after=_wholes(after, before),
        caveats=(*_caveats(before, after), *timers),
    )


def _wholes(here: Profile, there: Profile) -> tuple[str, ...]:
    """Ceilings and collectives that ``there`` lacks."""
    known = set(_names(there))
    return tuple(name for name in _names(here) if name not in known)


def _names(profile: Profile) -> list[str]:
    collectives = [point.collective.replace("_", " ") for point in profile.link.points] if profile.link else []
    named = [*(f"ceiling {_series(c)}" for c in profile.ceilings), *(f"link {name}" for name in collectives)]
    return list(dict.fromkeys(named))


def _series(ceiling: ModelCeiling) -> str:
    return f"{ceiling.model} {ceiling.dtype} tp{ceiling.tp}"


def over(diff: ProfileDiff, percent: float) -> list[FigureChange]:
    """Figures that became worse by more than ``percent``, and by more than one card's own repeats differ.

    Raises:
        UsageError: ``percent`` is no percentage.
    """
    check_threshold(percent)
    return [f for f in diff.figures if f.gated and f.verdict == "worse" and (f.worse_by or 0.0) * 100 > percent]


def _caveats(before: Profile, after: Profile) -> tuple[str, ...]:
    one, two = before.device, after.device
    found = {
        "different_card": one.name != two.name,
        "other_card_of_this_kind": one.name == two.name and None not in (one.uuid, two.uuid) and one.uuid != two.uuid,
        "different_method": before.method_version != after.method_version,
        "quick": before.quick or after.quick,
        "incomplete": not (before.complete and after.complete),
    }
    return tuple(code for code, holds in found.items() if holds)


def _facts(before: Profile, after: Profile) -> Iterator[FactChange]:
    for name in ("name", "uuid", "driver", "power_limit_w", "sm_clock_max_mhz", "memory_clock_max_mhz", "ecc", "mig",
                 "memory_bytes", "threads"):  # fmt: skip
        yield FactChange(name, _text(getattr(before.device, name)), _text(getattr(after.device, name)))
    for name in ("torch", "runtime", "triton", "blas", "probe_version", "platform"):
        yield FactChange(name, _text(getattr(before.environment, name)), _text(getattr(after.environment, name)))
    yield FactChange("measured", before.created[:10], after.created[:10])
    yield FactChange("throttle reasons", _throttles(before.telemetry), _throttles(after.telemetry))


def _text(value: object) -> str | None:
    return None if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _throttles(telemetry: list[Telemetry]) -> str | None:
    return ", ".join(dict.fromkeys(reason for t in telemetry for reason in t.throttle_reasons)) or None


def _figures(before: Profile, after: Profile) -> Iterator[FigureChange]:
    yield from _peaks(before, after)
    for pattern in ("copy", "triad", "read", "write"):
        one, two = before.beta_of(pattern), after.beta_of(pattern)
        if one is not None or two is not None:
            yield FigureChange("beta", pattern, "GB/s", one, two, "higher")
    yield from _ceilings(before, after)
    yield from _links(before, after)
    yield from _clocks(before, after)


def _peaks(before: Profile, after: Profile) -> Iterator[FigureChange]:
    for dtype, regime in dict.fromkeys((p.dtype, p.regime) for p in [*before.peaks, *after.peaks]):
        one, two = before.pi_tflops(dtype, regime), after.pi_tflops(dtype, regime)
        yield FigureChange("pi", f"{dtype} {regime}", "TFLOP/s", one, two, "higher")


def _ceilings(before: Profile, after: Profile) -> Iterator[FigureChange]:
    def by_series(profile: Profile) -> dict[str, ModelCeiling]:
        return {_series(ceiling): ceiling for ceiling in profile.ceilings}

    one, two = by_series(before), by_series(after)
    for series in [name for name in one if name in two]:
        points = [{p.m: p for p in side[series].points} for side in (one, two)]
        for m in sorted(points[0].keys() & points[1].keys()):
            name = f"{series}, {count(m, 'token')}"
            yield FigureChange("ceiling", name, "ms", *_alike_ms(points[0][m], points[1][m]), "lower", series)


def _alike_ms(one: CeilingPoint, two: CeilingPoint) -> tuple[float | None, float | None]:
    """Soaked beside soaked where both were: a card that was not soaked is no faster for it."""
    if one.ms_sustained is not None and two.ms_sustained is not None:
        return one.ms_sustained, two.ms_sustained
    return one.ms_burst, two.ms_burst


def _links(before: Profile, after: Profile) -> Iterator[FigureChange]:
    if before.link is None or after.link is None:
        return
    two = {(p.collective, p.message_bytes): p for p in after.link.points}
    for one in before.link.points:
        other = two.get((one.collective, one.message_bytes))
        if other is not None:
            series = one.collective.replace("_", " ")
            name, us = f"{series} {one.message_bytes:,} B", (one.seconds * 1e6, other.seconds * 1e6)
            timers = (one.timer or "not said", other.timer or "not said") if one.timer != other.timer else None
            gated = timers is None and not (_is_a_launch(one) or _is_a_launch(other))
            yield FigureChange("link", name, "µs", *us, "lower", series, gated, timers)


def _is_a_launch(point: LinkPoint) -> bool:
    return point.timer == "host" and point.message_bytes < _LINK_BOUND_BYTES


def _clocks(before: Profile, after: Profile) -> Iterator[FigureChange]:
    two = {t.during: t for t in after.telemetry}
    for one in before.telemetry:
        other = two.get(one.during)
        if other is not None and one.sm_clock_mhz_median is not None and other.sm_clock_mhz_median is not None:
            clocks = (one.sm_clock_mhz_median, other.sm_clock_mhz_median)
            during = one.during.replace("projections ", "")
            yield FigureChange("clock", during, "MHz", *clocks, "higher", gated=False)
