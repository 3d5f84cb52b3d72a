"""``probe measure``: this device's own roofs, measured and saved."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roofline_probe.cli import _measure_words as words
from roofline_probe.cli._interrupt import interrupted_once
from roofline_probe.cli._options import Quiet, Verbose, is_quiet, note
from roofline_probe.cli._targets import check_targets
from roofline_probe.errors import EXIT_INTERRUPTED, ProbeError, UsageError

if TYPE_CHECKING:
    from roofline_probe.measure import MeasureOptions
    from roofline_probe.profile import Profile

app = typer.Typer(add_completion=False)
_STDOUT = "-"


@app.command(
    epilog="Examples:  probe measure · probe measure --quick · probe measure --dtype fp8 --model llama-3.1-70b --tp 8"
)
def measure(
    device: Annotated[
        str, typer.Option(help="auto, cpu, cuda, cuda:1, xpu, mps, or all: peaks of every GPU, alone and together.")
    ] = "auto",
    mode: Annotated[str, typer.Option(help="What to measure: gemm, bandwidth or all.")] = "all",
    dtype: Annotated[
        list[str] | None,
        typer.Option(help="bf16, fp8, fp16, fp32, tf32, int8, fp4 (or torch's names), or all; may be repeated."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Burst peaks and bandwidth only, and what --soak, --model, --square … ask for: seconds."
        ),
    ] = False,
    soak: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Length of the soak behind sustained pi: 5 unless given; up to twice that until the rate has settled.",
        ),
    ] = None,
    no_soak: Annotated[bool, typer.Option("--no-soak", help="Leave sustained pi unmeasured.")] = False,
    model: Annotated[
        str | None,
        typer.Option(
            help="Model whose projections make the ceiling: a name (llama-3.1-8b unless given) or a config.json's path."
        ),
    ] = None,
    tp: Annotated[
        int | None,
        typer.Option(min=1, max=1024, help="Tensor-parallel degree that splits its projections: 1 unless given."),
    ] = None,
    square: Annotated[str | None, typer.Option(metavar="N,N…", help="Sizes of the square GEMMs.")] = None,
    m_sweep: Annotated[str | None, typer.Option(metavar="M,M…", help="Rows of the projection sweep.")] = None,
    buffer_mib: Annotated[int | None, typer.Option(min=1, max=1 << 20, help="MiB of one streaming array.")] = None,
    warmup: Annotated[int, typer.Option(min=0, max=100_000, help="Executions before the first timed one.")] = 10,
    reps: Annotated[int, typer.Option(min=3, max=100_000, help="Timed blocks behind a median.")] = 25,
    peak_tflops: Annotated[
        str | None, typer.Option(metavar="T|DTYPE=T,…", help="The datasheet's dense TFLOP/s, where it is not known.")
    ] = None,
    peak_gbps: Annotated[float | None, typer.Option(help="The datasheet's memory bandwidth.")] = None,
    hidden_size: Annotated[int, typer.Option(min=1, max=1 << 20, help="Hidden size whose T* is placed.")] = 4096,
    gqa_group: Annotated[
        int, typer.Option(min=1, max=1024, help="Query heads per KV head of the decode attention placed.")
    ] = 4,
    predict: Annotated[bool, typer.Option("--predict", help="Ask what you expect first, and score it after.")] = False,
    predictions: Annotated[
        str | None, typer.Option(metavar="80,90,higher,lower", help="The same answers, unattended.")
    ] = None,
    profile: Annotated[Path | None, typer.Option(metavar="PATH", help="Save the profile here instead.")] = None,
    csv: Annotated[str | None, typer.Option(metavar="PATH|-", help="Write every trial as CSV.")] = None,
    json: Annotated[str | None, typer.Option(metavar="PATH|-", help="Write the profile document.")] = None,
    plot: Annotated[
        str | None, typer.Option(metavar="FILE.(png|svg|html)", help="Draw the roofline and the sweep.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Measure although the device is in use.")] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Measure what this device reaches: arithmetic (pi), memory bandwidth (beta) and a model's ceiling.

    Takes about a minute and a half on a GPU and up to three minutes on a small CPU.

    The profile is kept for the other commands; a run of less than is kept (one --mode or --dtype) goes beside it.
    """
    from roofline_probe.measure.device import require_torch
    from roofline_probe.measure.dtypes import parse_dtypes
    from roofline_probe.measure.options import USUAL_SOAK_S, MeasureOptions
    from roofline_probe.workloads import DEFAULT_MODEL, load_model

    if no_soak and soak is not None:
        raise UsageError("--soak and --no-soak exclude each other; give one of them.")
    words.check_mode(
        mode,
        {
            "--dtype": dtype, "--square": square, "--m-sweep": m_sweep, "--model": model, "--tp": tp, "--soak": soak,
            "--no-soak": no_soak or None, "--buffer-mib": buffer_mib,
        },
    )  # fmt: skip
    _check_folders(profile, csv, json)
    check_targets({"--profile": profile, "--csv": csv, "--json": json, "--plot": plot}, [model])
    if plot is not None:
        from roofline_probe.report import chart

        chart.check_plot_path(plot)
    options = MeasureOptions(
        device=device,
        mode=mode,  # type: ignore[arg-type]
        dtypes=parse_dtypes(dtype) if dtype else None,
        squares=words.sizes("--square", square),
        m_sweep=words.sizes("--m-sweep", m_sweep),
        buffer_mib=buffer_mib,
        warmup=warmup,
        reps=reps,
        peak_tflops=words.peaks(peak_tflops),
        peak_gbps=peak_gbps,
        hidden_size=hidden_size,
        gqa_group=gqa_group,
        quick=quick,
        soak=False if no_soak else words.asked(soak),
        soak_s=USUAL_SOAK_S if soak is None else soak,
        # The ceiling is what these two say something about: who gives one wants it, however short the run.
        ceiling=words.asked(model, tp),
        model=load_model(model or DEFAULT_MODEL),
        tp=tp or 1,
        force=force,
        answers=words.answers(predict, predictions),
        command_line=shlex.join(["probe", *sys.argv[1:]]),
    )
    with interrupted_once() as check:
        require_torch()
        check()
        found = _measure(options, profile)
        check(last=True)
        _require_figures(found)
        place = _place(found, profile)
        failure = _save(found, place, _target(found, profile))
    if _STDOUT not in (csv, json) and not is_quiet():
        _print(found, place if failure is None else None)
    try:
        _write_files(found, csv, json, plot)
    except UsageError as error:
        raise error if failure is None else UsageError(f"{failure} {error}") from None
    if failure is not None:
        raise failure
    if not found.complete:
        note("interrupted: what had been measured by then is saved and shown; the rest is missing.")
        raise typer.Exit(EXIT_INTERRUPTED)


def _measure(options: MeasureOptions, profile: Path | None) -> Profile:
    from roofline_probe import measure as measuring
    from roofline_probe import profile_file, store
    from roofline_probe.cli._progress import ProgressBar

    complaints: list[str] = []

    def checkpoint(so_far: Profile) -> None:
        if not _has_any(so_far):
            return
        try:
            profile_file.save(so_far, store.partial_path(_target(so_far, profile)))
        except ProbeError as error:  # said once; the measurement goes on, because its report needs no disk
            if not complaints:
                note(str(error))
            complaints.append(str(error))

    with ProgressBar() as bar:
        return measuring.run(options, bar, checkpoint)


def _target(found: Profile, profile: Path | None) -> Path:
    from roofline_probe import store

    if profile is not None:
        return profile
    return store.path_for(found.device, quick=found.quick, machine=bool(found.parts))


def _has_any(found: Profile) -> bool:
    return any(t.seconds_used is not None for part in (found, *found.parts) for t in part.trials)


def _require_figures(found: Profile) -> None:
    """A run without any figure must neither replace a profile nor look like one."""
    if _has_any(found):
        return
    if not found.complete:
        note("interrupted before anything was measured; nothing is saved.")
        raise typer.Exit(EXIT_INTERRUPTED)
    reasons = [f"{dtype}: {why}" for dtype, why in found.unsupported.items()]
    reasons += [f"{trial.kernel}: {trial.reason}" for trial in found.trials if trial.reason]
    why = "; ".join(dict.fromkeys(reasons)) or "every kernel failed"
    raise UsageError(f"Nothing was measured ({why}), so nothing is saved; ask for what this device can do.")


def _place(found: Profile, profile: Path | None) -> Path:
    """Where to save: neither an interrupted run nor one of fewer figures replaces a profile that nobody named."""
    from roofline_probe import store

    target = _target(found, profile)
    if not found.complete:
        return store.path_for_result(target, complete=False)
    return target if profile is not None else store.path_beside_fuller(target, found)


def _save(found: Profile, place: Path, target: Path) -> UsageError | None:
    """Save, and take away the partial file that a finished one replaces; the reason if that was not possible."""
    from roofline_probe import profile_file, store

    partial = store.partial_path(target)
    try:
        profile_file.save(found, place)
    except UsageError as error:
        return error
    if place != partial:
        partial.unlink(missing_ok=True)
    if place not in (target, partial):
        note(
            f"{target.stem} holds figures that this run did not measure, so it stays, and this run is saved beside it: "
            f"use it with --profile {place.stem}."
        )
    return None


def _write_files(found: Profile, csv: str | None, json: str | None, plot: str | None) -> None:
    from roofline_probe import profile_file
    from roofline_probe.measure.export import csv_lines
    from roofline_probe.report import files

    if csv is not None:
        files.write(csv, csv_lines(found.trials))
    if json is not None:
        files.write(json, [profile_file.encode(found)])
    if plot is not None:
        from roofline_probe.report import chart

        chart.save(chart.profile_figure(found), plot)


def _print(found: Profile, place: Path | None) -> None:
    from roofline_probe.report.console import make_console
    from roofline_probe.report.profile_view import print_profile

    print_profile(
        found,
        make_console(),
        saved_to=str(place) if place else None,
        next_commands=["probe compare vllm.log", "vllm serve … 2>&1 | probe tail"],
    )


def _check_folders(profile: Path | None, csv: str | None, json: str | None) -> None:
    """Complaints that should not come after a minute of measuring."""
    from roofline_probe.profile_file import check_place

    if profile is not None:
        check_place(profile)
    if csv == _STDOUT and json == _STDOUT:
        raise UsageError("Only one of --csv and --json can go to standard output; give the other one a path.")
    for flag, target in (("--csv", csv), ("--json", json)):
        if target is None or str(target) == _STDOUT:
            continue
        path = Path(target)
        if path.is_dir():
            raise UsageError(f"{flag} {target} is a folder; give the path of a file.")
        if not path.parent.is_dir():
            raise UsageError(f"{flag} {target} cannot be written: there is no folder {path.parent}.")
