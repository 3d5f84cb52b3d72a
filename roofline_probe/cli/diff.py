"""``probe diff``: two logs, or two profiles, before and after."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roofline_probe.cli._options import (
    DtypeOption,
    ModelOption,
    ProfileOption,
    Quiet,
    RoofOption,
    Verbose,
    WhereOption,
    is_quiet,
)
from roofline_probe.cli._targets import check_targets
from roofline_probe.errors import UsageError

if TYPE_CHECKING:
    from roofline_probe.diff.logs import LogDiff
    from roofline_probe.diff.profiles import ProfileDiff

app = typer.Typer(add_completion=False)

_EPILOG = """Examples:  probe diff monday.log tuesday.log  ·  probe diff old.log new.log --fail-over 5  ·
probe diff h200-driver580.json h200-driver590.json --markdown"""
_PROFILE_HEAD = re.compile(rb"\s*\{\s*\"schema_version\"")


@app.command(epilog=_EPILOG)
def diff(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help="A log, or a profile (path or name).")],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The other one, of the same sort.")],
    profile: ProfileOption = None,
    after_profile: Annotated[
        str | None, typer.Option("--after-profile", metavar="NAME|PATH", help="AFTER's device, where it is another.")
    ] = None,
    roof: RoofOption = "auto",
    model: ModelOption = None,
    dtype: DtypeOption = None,
    where: WhereOption = None,
    fail_over: Annotated[
        float | None,
        typer.Option("--fail-over", metavar="PERCENT", min=0.0, help="Leave with 1 if anything became worse by more."),
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, for a pull request.")] = False,
    json: Annotated[
        str | None, typer.Option("--json", metavar="PATH|-", help="Write the JSON document; - prints it alone.")
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Compare two logs at the same batch and context, or two profiles of a card: what changed, and how sure that is."""
    from roofline_probe.diff.logs import check_threshold
    from roofline_probe.report import diff_view, files

    if markdown and json == files.STDOUT:
        raise UsageError("--markdown and --json - cannot share standard output; give --json a file.")
    if fail_over is not None:
        check_threshold(fail_over)
    check_targets({"--json": json}, [before, after, profile, after_profile, model])
    profiles = [_is_profile(side) for side in (before, after)]
    result: LogDiff | ProfileDiff
    if all(profiles):
        _refuse_for_profiles(
            {"--profile": profile, "--after-profile": after_profile, "--model": model, "--dtype": dtype,
             "--where": where, "--roof": None if roof == "auto" else roof}
        )  # fmt: skip
        result = _profiles(before, after)
    elif any(profiles):
        one, other = (before, after) if profiles[0] else (after, before)
        raise UsageError(f"{one} is a profile and {other} is a log; diff compares two of one sort.")
    else:
        options = {"roof": roof, "model": model, "dtype": dtype, "where": where}
        result = _logs(before, after, profile, after_profile, options)
    if json is not None:
        files.write(json, [diff_view.json_document(result)])
    if markdown:
        files.write(files.STDOUT, [diff_view.markdown(result).encode()])
    elif json != files.STDOUT and not is_quiet():
        _print(result)
    if fail_over is not None:
        _gate(result, fail_over)


def _refuse_for_profiles(options: Mapping[str, str | None]) -> None:
    given = [flag for flag, value in options.items() if value is not None]
    if given:
        raise UsageError(f"{given[0]} says how to judge a log, and both sides are profiles; leave it out.")


def _is_profile(name: str) -> bool:
    """A profile's document begins with its schema version; a name that is no file may be a stored or shipped one."""
    from roofline_probe import store

    path = Path(name)
    if path.is_file():
        with path.open("rb") as file:
            return _PROFILE_HEAD.match(file.read(200)) is not None
    if name.lower() in (*store.shipped(), *(p.stem for p in store.stored())):
        return True
    if name != "-" and not path.exists() and not set(name) & set("*?["):
        raise UsageError(f"{name} is neither a file nor the name of a profile; check the path.")
    return False


def _profiles(before: str, after: str) -> ProfileDiff:
    from roofline_probe import store
    from roofline_probe.diff.profiles import diff_profiles

    one, two = store.load(before)[0], store.load(after)[0]
    return diff_profiles(one, two, (before, after))


def _logs(
    before: str, after: str, profile: str | None, after_profile: str | None, options: dict[str, str | None]
) -> LogDiff:
    from roofline_probe.comparison import compare
    from roofline_probe.diff.collect import Collector
    from roofline_probe.diff.logs import diff_logs, side_of

    collectors, sides, roofs = [], [], []
    for log, device in ((before, profile), (after, after_profile or profile)):
        collector = Collector()
        found = compare(log, device, keep_points=False, sink=collector.add, **options)  # type: ignore[arg-type]
        collectors.append(collector)
        sides.append(side_of(log, found.facts, found.roof, collector))
        roofs.append((found.roof.device, found.roof.date, found.roof.dtype, found.roof.pi_tflops))
    return diff_logs(collectors[0], collectors[1], (sides[0], sides[1]), same_roof=roofs[0] == roofs[1])


def _print(result: LogDiff | ProfileDiff) -> None:
    from roofline_probe.diff.logs import LogDiff
    from roofline_probe.report import diff_view
    from roofline_probe.report.console import make_console

    if isinstance(result, LogDiff):
        diff_view.print_log_diff(result, make_console())
    else:
        diff_view.print_profile_diff(result, make_console())


def _gate(result: LogDiff | ProfileDiff, percent: float) -> None:
    """A regression is exit 1; logs with nothing in common must not pass a gate in silence (exit 3)."""
    from roofline_probe.diff import logs, profiles
    from roofline_probe.diff.pace import MIN_WINDOWS
    from roofline_probe.errors import GateNotMet, NothingUsable
    from roofline_probe.report import diff_profile_words as profile_words
    from roofline_probe.report import diff_words as words

    if isinstance(result, logs.LogDiff):
        if not any(kind.pace for kind in result.kinds):
            raise NothingUsable(
                f"--fail-over has nothing to judge: no bin holds {MIN_WINDOWS} windows of the same batch and context "
                "in both logs; log for longer, or serve the same load twice."
            )
        worse = words.gate_words(result, percent)
    else:
        if not any(figure.gated and figure.relative is not None for figure in result.figures):
            raise NothingUsable(
                "--fail-over has nothing to judge: the two profiles have no figure in common; measure the same twice."
            )
        worse = [profile_words.figure_words(figure, percent) for figure in profiles.over(result, percent)]
    if worse:
        raise GateNotMet(f"Over the {percent:g} % that --fail-over allows: {'; '.join(worse)}.")
