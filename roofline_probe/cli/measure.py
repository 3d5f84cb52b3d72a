"""``probe measure``: this device's own roofs, measured and saved."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roofline_probe.cli._interrupt import interrupted_once
from roofline_probe.cli._options import Quiet, Verbose, is_quiet, note
from roofline_probe.cli._targets import check_targets
from roofline_probe.errors import EXIT_INTERRUPTED, ProbeError, UsageError

if TYPE_CHECKING:
    from roofline_probe.measure import MeasureOptions
    from roofline_probe.measure.predict import Answers
    from roofline_probe.profile import Profile

app = typer.Typer(add_completion=False)
_STDOUT = "-"
_LARGEST_SIZE = 1 << 20
_MODES = ("gemm", "bandwidth", "all")
_IDLE_IN = {
    "bandwidth": ("--dtype", "--square", "--m-sweep", "--model", "--tp", "--soak", "--no-soak"),
    "gemm": ("--buffer-mib",),
}
"""Options that a mode never looks at."""


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
    _check_mode(
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
        squares=_sizes("--square", square),
        m_sweep=_sizes("--m-sweep", m_sweep),
        buffer_mib=buffer_mib,
        warmup=warmup,
        reps=reps,
        peak_tflops=_peaks(peak_tflops),
        peak_gbps=peak_gbps,
        hidden_size=hidden_size,
        gqa_group=gqa_group,
        quick=quick,
        soak=False if no_soak else _asked(soak),
        soak_s=USUAL_SOAK_S if soak is None else soak,
        # The ceiling is what these two say something about: who gives one wants it, however short the run.
        ceiling=_asked(model, tp),
        model=load_model(model or DEFAULT_MODEL),
        tp=tp or 1,
        force=force,
        answers=_answers(predict, predictions),
        command_line=shlex.join(["probe", *sys.argv[1:]]),
    )
    with interrupted_once() as check:
        require_torch()
        check()
        found = _measure(options, profile)
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
    from roofline_probe import profile as document
    from roofline_probe import store
    from roofline_probe.cli._progress import ProgressBar

    complaints: list[str] = []

    def checkpoint(so_far: Profile) -> None:
        if not _has_any(so_far):
            return
        try:
            document.save(so_far, store.partial_path(_target(so_far, profile)))
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
    from roofline_probe import profile as document
    from roofline_probe import store

    partial = store.partial_path(target)
    try:
        document.save(found, place)
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
    from roofline_probe import profile as document
    from roofline_probe.measure.export import csv_lines
    from roofline_probe.report import files

    if csv is not None:
        files.write(csv, csv_lines(found.trials))
    if json is not None:
        files.write(json, [document.encode(found)])
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
    from roofline_probe.profile import check_place

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


def _asked(*flags: object) -> bool | None:
    """True if one of the flags was given; None leaves it to the kind of run."""
    return True if any(flag is not None for flag in flags) else None


def _check_mode(mode: str, given: Mapping[str, object]) -> None:
    """One of the modes, and no option that it leaves without effect: the figure would not be the one asked for."""
    from roofline_probe.report.text import listed

    if mode not in _MODES:
        raise UsageError(f"--mode {mode} is not a mode; choose gemm, bandwidth or all.")
    idle = [flag for flag in _IDLE_IN.get(mode, ()) if given[flag] is not None]
    if idle:
        left_out = "arithmetic" if mode == "bandwidth" else "bandwidth"
        raise UsageError(
            f"--mode {mode} measures no {left_out}, so {listed(idle)} would have no effect; "
            f"leave {'it' if len(idle) == 1 else 'them'} out or choose --mode all."
        )


def _sizes(flag: str, text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        sizes = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        sizes = ()
    if not sizes or sizes[0] < 1:
        raise UsageError(f"{flag} {text} is not a list of sizes; write it as 4096,8192.")
    if sizes[-1] > _LARGEST_SIZE:
        raise UsageError(f"{flag} {sizes[-1]} is above {_LARGEST_SIZE:,}, the largest size that is measured.")
    return sizes


def _peaks(text: str | None) -> dict[str, float]:
    """By dtype; the empty name means the first dtype that is measured."""
    from roofline_probe.measure.dtypes import dtype_name

    found = {}
    for part in text.split(",") if text else ():
        name, equals, number = part.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            value = 0.0
        if not 0 < value < math.inf or (equals and not name.strip()):
            raise UsageError(f"--peak-tflops {text} is not a rate; write it as 989.4 or bf16=989.4,fp8=1978.9.")
        key = dtype_name(name) if equals else ""
        if key in found:
            raise UsageError(f"--peak-tflops {text} gives two rates for {key or 'one dtype'}; give one for each.")
        found[key] = value
    return found


def _answers(predict: bool, predictions: str | None) -> Answers | None:
    from roofline_probe.measure import predict as questions

    if predictions is not None:
        return questions.parse_answers(predictions)
    if not predict:
        return None
    if not sys.stdin.isatty():
        raise UsageError("--predict asks on a terminal; unattended, give --predictions 80,90,higher,lower.")
    try:
        return questions.ask(lambda question: str(typer.prompt(question, err=True)))
    except typer.Abort:  # Ctrl-C or Ctrl-D at a question: nothing has run yet
        raise KeyboardInterrupt from None
