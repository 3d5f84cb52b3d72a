"""A profile on a terminal: environment and sweeps first, the ten-second answer LAST, where the eye is when it ends.

``probe measure`` and ``probe show`` draw the same view.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from roofline_probe import kpi
from roofline_probe.profile import Pattern, Profile, Regime
from roofline_probe.report import machine_view, sweep_view, words
from roofline_probe.report.console import ascii_only
from roofline_probe.report.rate_unit import RateUnit, rate_unit
from roofline_probe.report.tables import add_rows, bullets, facts, heading, indented, make_table
from roofline_probe.report.text import DASH, bar, clean, gigabytes, number, percent, significant


def print_profile(
    profile: Profile,
    console: Console,
    *,
    saved_to: str | None = None,
    shipped: str | None = None,
    next_commands: Sequence[str] = (),
    sweeps: bool = True,
) -> None:
    """Draw the whole view.

    ``saved_to`` (or the name of a ``shipped`` profile) and ``next_commands`` end it: where the document is, what to run
    next; ``sweeps`` false leaves the trials out.
    """
    print_environment(profile, console)
    if sweeps:
        sweep_view.print_sweeps(profile, console)
    machine_view.print_machine(profile, console)
    print_answer(profile, console)
    places = [("saved", saved_to), ("shipped profile", shipped)]
    _print_end(console, [(what, clean(where, 1000)) for what, where in places if where], next_commands)


def print_environment(profile: Profile, console: Console) -> None:
    """What was measured, by what, when."""
    heading(console, "Environment")
    console.print(indented(facts(_environment_rows(profile))))


def _environment_rows(profile: Profile) -> list[tuple[str, str]]:
    device, environment = profile.device, profile.environment
    card = [
        f"{device.kind} {device.index} of {device.count}" if device.count > 1 else "",
        f"{device.memory_bytes / 2**30:,.0f} GiB" if device.memory_bytes else "",
        f"{device.multiprocessors} multiprocessors" if device.multiprocessors else "",
        f"{device.threads} threads" if device.threads else "",
        f"last-level cache {device.last_level_cache_bytes / 2**20:,.0f} MiB" if device.last_level_cache_bytes else "",
        f"up to {device.sm_clock_max_mhz:,} MHz" if device.sm_clock_max_mhz else "",
        f"limit {device.power_limit_w:,.0f} W" if device.power_limit_w else "",
        "MIG slice" if device.mig else "",
        f"driver {device.driver}" if device.driver else "",
    ]
    software = [
        f"torch {environment.torch}" if environment.torch else "",
        environment.runtime or "",
        f"triton {environment.triton}" if environment.triton else "",
        environment.blas or "",
        f"Python {environment.python}",
        f"probe {environment.probe_version} (method {profile.method_version})",
    ]
    when = profile.created.replace("T", " ")[:16] + (" · quick" if profile.quick else "")
    return [
        ("device", clean(device.name)),
        ("", _joined(card)),
        ("software", _joined(software)),
        ("measured", when + ("" if profile.complete else " · interrupted: only what was measured by then")),
    ]


def _joined(parts: list[str]) -> str:
    return " · ".join(clean(part) for part in parts if part)


def print_answer(profile: Profile, console: Console) -> None:
    """The ten-second answer: one line with pi and beta, then the tables that say what it means, where they hold one
    figure at least: of one roof alone (``--mode gemm``, no datasheet) they would be dashes."""
    console.print()
    console.print(Rule(style="dim", characters="-" if ascii_only(console) else "─"))
    console.print(Text(words.profile_headline(profile), style="bold"))
    console.print()
    dtype = kpi.main_dtype(profile)
    console.print(indented(_peaks_table(profile, dtype, ascii_only(console))))
    measured, sheet = kpi.measured_roofs(profile, dtype), kpi.datasheet_roofs(profile, dtype)
    if dtype is not None and (measured.ridge or sheet.ridge):
        unit = rate_unit(profile)
        heading(console, "Where three workloads land", f"{dtype}, attainable {unit.name}")
        workloads = kpi.reference_workloads(measured, sheet, dtype, profile.hidden_size, profile.gqa_group)
        console.print(indented(_workload_table(workloads, unit)))
    if profile.beta_gbps or profile.read_beta_gbps or sheet.beta_gbps:
        heading(console, "What decode can reach at most", "batch 1: every weight byte read once a token")
        console.print(indented(_decode_table(profile, sheet.beta_gbps)))
    _print_predictions(profile, console)
    _print_warnings(profile, console)


def _peaks_table(profile: Profile, dtype: str | None, plain: bool) -> Table:
    table = make_table(["", "measured", "datasheet", "", "reached", ""])
    rows = [_pi_row(profile, d, regime, plain) for d in profile.dtypes for regime in ("burst", "sustained")]
    rows += [_beta_row(profile, pattern, plain) for pattern in ("copy", "triad", "read", "write")]
    measured, sheet = kpi.measured_roofs(profile, dtype), kpi.datasheet_roofs(profile, dtype)
    if dtype is not None:
        hidden_size, sustained = profile.hidden_size, kpi.sustained_roofs(profile, dtype)
        t_sheet = sheet.t_star(hidden_size, dtype)
        rows.append(_twin(f"ridge, {dtype}", measured.ridge, sheet.ridge, "FLOP/byte"))
        rows.append(_twin(f"T*, {dtype}, d = {hidden_size:,}", measured.t_star(hidden_size, dtype), t_sheet, "tokens"))
        if sustained.ridge is not None:
            rows.append(_twin("ridge, sustained", sustained.ridge, sheet.ridge, "FLOP/byte"))
            rows.append(_twin("T*, sustained", sustained.t_star(hidden_size, dtype), t_sheet, "tokens"))
    return add_rows(table, [row for row in rows if row])


def _pi_row(profile: Profile, dtype: str, regime: Regime, plain: bool) -> tuple[str | Text, ...]:
    peak = max(
        (p for p in profile.peaks if p.dtype == dtype and p.regime == regime), key=lambda p: p.tflops, default=None
    )
    sheet, unit = profile.datasheet.tflops.get(dtype) if profile.datasheet else None, rate_unit(profile)
    if peak is None:
        return (f"pi {dtype} {regime}", "not measured", unit.number(sheet, 1), unit.name, DASH, "")
    return (
        f"pi {dtype} {regime}",
        unit.significant(peak.tflops),
        unit.number(sheet, 1),
        unit.name,
        *_reached(peak.tflops, sheet, "cyan", plain),
    )


def _beta_row(profile: Profile, pattern: Pattern, plain: bool) -> tuple[str | Text, ...]:
    value = profile.beta_of(pattern)
    if value is None:
        return ()
    sheet = profile.datasheet.gbps if profile.datasheet else None
    name = f"beta ({pattern})" if value == profile.beta_gbps and pattern in ("copy", "triad") else pattern
    return (name, gigabytes(value), number(sheet), "GB/s", *_reached(value, sheet, "magenta", plain))


def _reached(value: float, sheet: float | None, style: str, plain: bool) -> tuple[str, str | Text]:
    if not sheet:
        return (DASH, "")
    return (percent(value / sheet), Text(bar(value / sheet, 12, plain), style=style))


def _twin(name: str, measured: float | None, sheet: float | None, unit: str) -> tuple[str, ...]:
    """A derived figure: which side is higher says more than a percentage of the datasheet's."""
    if measured is None or sheet is None:
        order = DASH
    else:
        order = "higher" if measured > sheet else "lower" if measured < sheet else "equal"
    return (name, number(measured, 1), number(sheet, 1), unit, order, "")


def _workload_table(workloads: Sequence[kpi.Workload], unit: RateUnit) -> Table:
    table = make_table(["", "FLOP/byte", "measured", "datasheet", "bound"])
    return add_rows(
        table,
        (
            (
                w.name,
                number(w.intensity, 1),
                unit.significant(w.measured_tflops),
                unit.significant(w.datasheet_tflops),
                w.bound or DASH,
            )
            for w in workloads
        ),
    )


def _decode_table(profile: Profile, sheet_gbps: float | None) -> Table:
    table = make_table(["", "", "beta", "read beta", "datasheet", ""])
    rows = []
    for limits in kpi.decode_limits(profile, [profile.beta_gbps, profile.read_beta_gbps, sheet_gbps]):
        first = limits[0]
        name = f"{clean(first.model, 30)} {first.dtype}" + (f" TP {first.tp}" if first.tp > 1 else "")
        rows.append((name, "decode floor", *(significant(limit.floor_ms, 4) for limit in limits), "ms"))
        rows.append(("", "batch-1 ceiling", *(significant(limit.ceiling_tok_s, 4) for limit in limits), "tok/s"))
    return add_rows(table, rows)


def _print_predictions(profile: Profile, console: Console) -> None:
    if not profile.predictions:
        return
    scored = [p for p in profile.predictions if p.correct is not None]
    heading(console, "Predicted before the run", f"{sum(1 for p in scored if p.correct)} of {len(scored)} right")
    console.print(indented(bullets(words.prediction_sentence(p) for p in profile.predictions)))


def _print_warnings(profile: Profile, console: Console) -> None:
    sentences = words.profile_warnings(profile)
    if sentences:
        heading(console, "Take care")
        console.print(indented(bullets(sentences, mark="!", style="yellow")))


def _print_end(console: Console, places: Sequence[tuple[str, str]], next_commands: Sequence[str]) -> None:
    if not places and not next_commands:
        return
    console.print()
    following = [("next" if not position else "", command) for position, command in enumerate(next_commands)]
    width = max(len(name) for name, _ in (*places, *following))
    for name, text in (*places, *following):
        # Whole on one line, however narrow the window: these are there to be copied.
        console.print(Text.assemble((f"{name:{width}}  ", "dim"), text), soft_wrap=True)
