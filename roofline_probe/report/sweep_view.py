"""The trials of a profile as tables: GEMM shapes, streaming kernels, the model ceilings, the soaks."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from roofline_probe.profile import ModelCeiling, Profile, Trial
from roofline_probe.report.rate_unit import RateUnit, rate_unit
from roofline_probe.report.tables import add_rows, bullets, heading, indented, make_table
from roofline_probe.report.text import DASH, clean, count, gigabytes, listed, percent, significant

_STREAMS = ("copy", "triad", "read", "write")
_COLUMNS = 6
"""Projections side by side."""
_SHOWN = 5
"""Shapes of a search."""


def print_sweeps(profile: Profile, console: Console) -> None:
    """Everything that was timed, best figure per shape; kernels that were skipped are named with the reason."""
    unit = rate_unit(profile)
    for dtype in dict.fromkeys(t.dtype for t in profile.trials if t.kernel == "gemm"):
        _print_gemms(profile, dtype, unit, console)
    _print_streams(profile, console)
    for ceiling in profile.ceilings:
        _print_ceiling(ceiling, unit, console)
    _print_soaks(profile, unit, console)
    _print_left_out(profile, console)


def _usable(trial: Trial) -> bool:
    return trial.status in ("ok", "launch_bound")


def _print_gemms(profile: Profile, dtype: str, unit: RateUnit, console: Console) -> None:
    trials = [t for t in profile.trials if t.kernel == "gemm" and t.dtype == dtype and t.tflops and _usable(t)]
    sweep = [t for t in trials if t.regime == "median"]
    squares = [t for t in sweep if t.label == "square"]
    others = [t for t in sweep if t.label != "square"]
    if sweep:
        note = f"{unit.name}, medians; large products leave the next a capped clock; ~ marks launch-bound points"
        heading(console, f"GEMM sweep, {dtype}", note)
    if squares:
        console.print(indented(_square_table(squares, unit)))
    if squares and others:
        console.print()
    if others:
        console.print(indented(_tokens_table(others, unit)))
    _print_search([t for t in trials if t.regime == "burst"], dtype, unit, console)


def _square_table(trials: Sequence[Trial], unit: RateUnit) -> Table:
    best = max(t.tflops or 0 for t in trials)
    table = make_table(["square", unit.name, "of the best", "timer"])
    rows = []
    for size in sorted({t.m or 0 for t in trials}):
        trial = max((t for t in trials if t.m == size), key=lambda t: t.tflops or 0)
        timer = clean(trial.timer or DASH, 20)
        rows.append((f"{size:,}", _rate(trial, unit), percent((trial.tflops or 0) / best), timer))
    return add_rows(table, rows)


def _tokens_table(trials: Sequence[Trial], unit: RateUnit) -> Table:
    """Rows: tokens M; columns: one projection each."""
    names = list(dict.fromkeys(_shape_name(t) for t in trials))[:_COLUMNS]
    table = make_table(["tokens", *names])
    rows = []
    for m in sorted({t.m or 0 for t in trials}):
        best = {name: [t for t in trials if t.m == m and _shape_name(t) == name] for name in names}
        cells = [_rate(max(found, key=lambda t: t.tflops or 0), unit) if found else DASH for found in best.values()]
        if any(cell != DASH for cell in cells):
            rows.append((f"{m:,}", *cells))
    return add_rows(table, rows)


def _print_search(trials: Sequence[Trial], dtype: str, unit: RateUnit, console: Console) -> None:
    """The shapes among which burst pi was looked for, best first."""
    if not trials:
        return
    by_shape: dict[tuple[int | None, ...], Trial] = {}
    for trial in sorted(trials, key=lambda t: t.tflops or 0):
        by_shape[(trial.m, trial.k, trial.n)] = trial
    best = sorted(by_shape.values(), key=lambda t: -(t.tflops or 0))[:_SHOWN]
    shown = f"{_SHOWN} best of " if len(by_shape) > _SHOWN else ""
    heading(console, f"Burst search, {dtype}", f"best 5 ms after a rest; {shown}{count(len(by_shape), 'shape')}")
    table = make_table(["tokens × K × N", unit.name])
    console.print(indented(add_rows(table, ((f"{t.m}×{t.k}×{t.n}", _rate(t, unit)) for t in best))))


def _shape_name(trial: Trial) -> str:
    return f"{clean(trial.label or 'shape', 16)}\n{trial.k}×{trial.n}"


def _rate(trial: Trial, unit: RateUnit) -> str:
    return ("~" if trial.status == "launch_bound" else "") + unit.significant(trial.tflops)


def _print_streams(profile: Profile, console: Console) -> None:
    trials = [t for t in profile.trials if t.kernel in _STREAMS and t.gbps and _usable(t)]
    if not trials:
        return
    heading(console, "Streaming", "GB/s; a median of each, the best implementation of each pattern is the figure")
    table = make_table(["pattern", "implementation", "array", "GB/s", "of the best"], left=2)
    rows = []
    for pattern in _STREAMS:
        best = max((t.gbps or 0 for t in trials if t.kernel == pattern), default=0)
        for t in (t for t in trials if t.kernel == pattern):
            size = f"{(t.array_bytes or 0) / 2**20:,.0f} MiB"
            rows.append((pattern, clean(t.implementation, 28), size, gigabytes(t.gbps), percent((t.gbps or 0) / best)))
    console.print(indented(add_rows(table, rows)))


def _print_ceiling(ceiling: ModelCeiling, unit: RateUnit, console: Console) -> None:
    tp = f", TP {ceiling.tp}" if ceiling.tp > 1 else ""
    few = ceiling.layers_measured is not None and ceiling.layers_measured != ceiling.layers
    scaled = f"; scaled from {ceiling.layers_measured} of {ceiling.layers} layers" if few else ""
    heading(
        console,
        f"Model ceiling: {clean(ceiling.model, 40)}, {ceiling.dtype}{tp}",
        f"all projections of one step, before attention{scaled}",
    )
    table = make_table(["tokens", "ms", "ms soaked", "weights GB/s", unit.name])
    rows = [
        (
            f"{p.m:,}",
            significant(p.ms_burst, 4),
            significant(p.ms_sustained, 4),
            gigabytes(p.weight_gbps),
            unit.significant(p.tflops),
        )
        for p in ceiling.points
    ]
    console.print(indented(add_rows(table, rows)))
    if notes := _ceiling_notes(ceiling):
        console.print(indented(bullets(notes)))


def _ceiling_notes(ceiling: ModelCeiling) -> list[str]:
    if not any(p.ms_sustained for p in ceiling.points):
        return []
    notes = ["both rates are at the soaked time where there is one"]
    faster = [f"{p.m:,}" for p in ceiling.points if p.ms_burst and p.ms_sustained and p.ms_sustained < p.ms_burst]
    if faster:
        where = f"soaked is the shorter at {listed(faster)} tokens"
        notes.append(f"{where}: memory bounds it there, a capped clock costs it nothing, and the two differ by chance")
    return notes


def _print_soaks(profile: Profile, unit: RateUnit, console: Console) -> None:
    soaks = [p for p in profile.peaks if p.regime == "sustained"]
    if not soaks:
        return
    heading(console, "Soak", "tokens × K × N; what is left when power and heat have had their say")
    sentences = []
    for p in soaks:
        length = f" for {p.seconds:.0f} s" if p.seconds else ""
        settled = "" if p.settled is None else ", settled" if p.settled else ", NOT settled"
        why = f": {clean(p.explanation)}" if p.explanation else ""
        sentences.append(f"{p.dtype} {p.m}×{p.k}×{p.n}{length}: {unit.significant(p.tflops)} {unit.name}{settled}{why}")
    console.print(indented(bullets(sentences)))


def _print_left_out(profile: Profile, console: Console) -> None:
    sentences = [f"{dtype}: not supported ({clean(reason)})" for dtype, reason in profile.unsupported.items()]
    for status, words in (("unverified", "gave a wrong result and counts nowhere"), ("skipped", "skipped")):
        trials = [t for t in profile.trials if t.status == status]
        reasons = list(dict.fromkeys(clean(t.reason) for t in trials if t.reason))[:3]
        if trials:
            sentences.append(f"{count(len(trials), 'kernel')} {words}" + (f": {'; '.join(reasons)}" if reasons else ""))
    glitches = sum(t.glitches for t in profile.trials)
    if glitches:
        sentences.append(f"{count(glitches, 'sample')} faster than physically possible, kept raw and left out")
    if sentences:
        heading(console, "Left out")
        console.print(indented(bullets(sentences)))
