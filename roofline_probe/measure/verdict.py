"""Trials and telemetry in, peaks out. Pure. Launch-bound, unverified and skipped trials never become a peak."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from roofline_probe.measure import telemetry
from roofline_probe.measure.soak import Soak
from roofline_probe.measure.stream import PATTERNS
from roofline_probe.profile import Beta, DeviceInfo, Peak, Telemetry, Trial


def burst_peak(dtype: str, trials: Iterable[Trial], seen: Telemetry | None, info: DeviceInfo) -> Peak | None:
    """The best verified burst of a dtype, or None if there is none."""
    best = best_gemm(dtype, trials)
    if best is None:
        return None
    return Peak(
        dtype=dtype,
        regime="burst",
        tflops=best.tflops or 0.0,
        implementation=best.implementation,
        m=best.m or 0,
        n=best.n or 0,
        k=best.k or 0,
        explanation=_burst_clock(seen, info),
    )


def sustained_peak(dtype: str, trial: Trial, soak: Soak, info: DeviceInfo) -> Peak | None:
    """What a soak settled at, with why in words; None if it gave no figure."""
    if trial.status != "ok" or trial.tflops is None:
        return None
    return Peak(
        dtype=dtype,
        regime="sustained",
        tflops=trial.tflops,
        implementation=trial.implementation,
        m=trial.m or 0,
        n=trial.n or 0,
        k=trial.k or 0,
        settled=soak.settled,
        seconds=round(soak.length_s, 2),
        explanation=telemetry.explain(soak.telemetry, info) if soak.telemetry else None,
    )


def best_gemm(dtype: str, trials: Iterable[Trial]) -> Trial | None:
    """The fastest burst of a dtype that may count."""
    return max(ranked_gemms(dtype, trials), key=lambda t: t.tflops or 0.0, default=None)


def ranked_gemms(dtype: str, trials: Iterable[Trial]) -> list[Trial]:
    """Bursts of a dtype that may count, fastest first, one per shape."""
    bursts = [t for t in trials if t.kernel == "gemm" and t.dtype == dtype and t.regime == "burst" and t.status == "ok"]
    best: dict[tuple[int | None, ...], Trial] = {}
    for trial in sorted(bursts, key=lambda t: -(t.tflops or 0.0)):
        best.setdefault((trial.m, trial.n, trial.k), trial)
    return list(best.values())


def betas(trials: Sequence[Trial]) -> list[Beta]:
    """Per pattern the best median over arrays that no cache can hold (the largest that were measured)."""
    found = []
    streams = [t for t in trials if t.kernel in PATTERNS and t.status == "ok" and t.gbps is not None]
    largest = max((t.array_bytes or 0 for t in streams), default=0)
    for pattern in PATTERNS:
        of_pattern = [t for t in streams if t.kernel == pattern and t.array_bytes == largest]
        best = max(of_pattern, key=lambda t: t.gbps or 0.0, default=None)
        if best is not None:
            found.append(
                Beta(
                    pattern=pattern,
                    gbps=best.gbps or 0.0,
                    implementation=best.implementation,
                    array_bytes=best.array_bytes or 0,
                )
            )
    return found


def _burst_clock(seen: Telemetry | None, info: DeviceInfo) -> str | None:
    """The clock that the fast blocks ran at: the highest that was seen."""
    if seen is None or seen.sm_clock_mhz_max is None:
        return None
    full = f" of {info.sm_clock_max_mhz}" if info.sm_clock_max_mhz else ""
    return f"best short block after a rest: {seen.sm_clock_mhz_max:.0f}{full} MHz"
