"""One unit of arithmetic for a whole profile: TFLOP/s, or GFLOP/s where its pi is below one, as its headline has it."""

from __future__ import annotations

from dataclasses import dataclass

from roofline_probe import kpi
from roofline_probe.profile import Profile
from roofline_probe.report.text import number, significant


@dataclass(frozen=True, slots=True)
class RateUnit:
    """A unit and how many of it make one TFLOP/s."""

    name: str
    per_tflops: float

    @property
    def short(self) -> str:
        """``TF/s``, for a column."""
        return f"{self.name[0]}F/s"

    def significant(self, tflops: float | None) -> str:
        """The bare number with about three digits, or a dash."""
        return significant(None if tflops is None else tflops * self.per_tflops)

    def number(self, tflops: float | None, digits: int) -> str:
        """The bare number with fixed decimals, or a dash."""
        return number(None if tflops is None else tflops * self.per_tflops, digits)


TERA = RateUnit("TFLOP/s", 1.0)
GIGA = RateUnit("GFLOP/s", 1000.0)


def rate_unit(profile: Profile) -> RateUnit:
    """The unit of the headline's pi."""
    return unit_of(kpi.measured_roofs(profile, kpi.main_dtype(profile)).pi_tflops)


def unit_of(pi: float | None) -> RateUnit:
    """The unit of a pi in TFLOP/s."""
    return GIGA if pi is not None and pi < 1 else TERA
