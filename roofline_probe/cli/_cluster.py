"""``probe compare --cluster [ADDRESS]``: the same question asked of many logs at once."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from typer.core import TyperCommand

from roofline_probe.cli._options import detail, is_quiet
from roofline_probe.errors import UsageError
from roofline_probe.report import files
from roofline_probe.report.text import clean

FLAG = "--cluster"


class ClusterCommand(TyperCommand):
    """A command whose ``--cluster`` may stand without a value: typer has no such option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give a bare ``--cluster`` its value, so that a log's name behind it stays a log's name."""
        return super().parse_args(ctx, with_value(args))


def with_value(arguments: Sequence[str]) -> list[str]:
    """``--cluster`` followed by anything but a scheduler's address becomes ``--cluster=local``."""
    if FLAG not in arguments:
        return list(arguments)
    from roofline_probe.fleet.cluster import LOCAL, is_address

    given = list(arguments)
    for at in (i for i, argument in enumerate(given) if argument == FLAG):
        if at + 1 == len(given) or not is_address(given[at + 1]):
            given[at] = f"{FLAG}={LOCAL}"
    return given


def compare_fleet(
    logs: Sequence[str], cluster: str, choice: tuple[Any, Any, str | None], *, engine: str | None,
    json: str | None, csv: str | None, every_file: bool, refused: Mapping[str, str | None],
) -> None:  # fmt: skip
    """Run it and show it; ``choice`` is what ``comparison.choose`` made of the flags."""
    from roofline_probe.fleet import document
    from roofline_probe.fleet.cluster import compare_many

    for flag, value in refused.items():
        if value is not None:
            raise UsageError(f"{flag} is about one run: leave it or --cluster out; --json has every log's fractions.")
    if json == csv == files.STDOUT:
        raise UsageError("--json - and --csv - cannot share standard output; give one of them a file.")
    options, profile, name = choice
    fleet = compare_many(logs, profile, options, engine=engine, cluster=cluster, progress=_progress())
    detail(f"{sum(file.lines for file in fleet.files):,} lines read in {fleet.read_s:.1f} s")
    if not is_quiet() and files.STDOUT not in (json, csv):
        from roofline_probe.report.console import make_console
        from roofline_probe.report.fleet_view import print_fleet

        print_fleet(fleet, make_console(), profile_name=name, every_file=every_file)
    else:
        for file in fleet.failures:
            print(f"probe: {clean(file.path)}: {clean(file.failure, 400)}", file=sys.stderr)
    if json is not None:
        files.write(json, [document.to_json(fleet, name)])
    if csv is not None:
        files.write(csv, document.csv_pieces(fleet))


def _progress() -> Any:
    """A counter on a terminal's stderr; nothing anywhere else."""
    if is_quiet() or not sys.stderr.isatty():
        return None

    def show(done: int, total: int) -> None:
        end = "\n" if done == total else ""
        print(f"\r{done:,} of {total:,} logs", end=end, file=sys.stderr, flush=True)

    return show
