"""``probe show``: a stored or shipped profile again, as ``probe measure`` printed it."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from roofline_probe.cli._options import Quiet, Verbose, is_quiet
from roofline_probe.cli._targets import check_targets
from roofline_probe.errors import UsageError

app = typer.Typer(add_completion=False)


@app.command(epilog="Example:  probe show h200")
def show(
    profile: Annotated[
        str | None,
        typer.Argument(
            metavar="[PROFILE|FOLDER]",
            help="Path, or name of a stored or shipped profile (the newest one if left out), or a folder of profiles.",
        ),
    ] = None,
    sweeps: Annotated[bool, typer.Option("--sweeps/--no-sweeps", help="Show every trial, or the answer only.")] = True,
    json: Annotated[str | None, typer.Option("--json", metavar="PATH|-", help="Write the document itself.")] = None,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE.(png|svg|html)", help="Draw the roofline and the sweep.")
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Show a stored or shipped profile and what decode and prefill can reach under it."""
    from roofline_probe import profile_file, store
    from roofline_probe.report import files

    check_targets({"--json": json, "--plot": plot}, [profile])
    if plot is not None:
        from roofline_probe.report import chart

        chart.check_plot_path(plot)
    if profile is not None and os.path.isdir(profile):
        if plot is not None:
            raise UsageError(f"--plot draws one profile and {profile} is a folder of them; give one of its files.")
        _show_folder(profile, json)
        return
    found, origin = store.load(profile) if profile is not None else store.find_default()
    if json is not None:
        files.write(json, [profile_file.encode(found)])
    if plot is not None:
        chart.save(chart.profile_figure(found), plot)
    if json != files.STDOUT and not is_quiet():
        from roofline_probe.report.console import make_console
        from roofline_probe.report.profile_view import print_profile

        shipped = profile is not None and not os.path.isfile(profile) and origin in store.shipped()
        place = {"shipped" if shipped else "saved_to": str(origin)}
        print_profile(found, make_console(), sweeps=sweeps, **place)


def _show_folder(folder: str, json: str | None) -> None:
    """The cards of a folder side by side, stragglers named."""
    from pathlib import Path

    from roofline_probe.fleet.folder import read_folder, to_json
    from roofline_probe.report import files

    cards = read_folder(Path(folder))
    if json is not None:
        files.write(json, [to_json(cards)])
    if json != files.STDOUT and not is_quiet():
        from roofline_probe.report.console import make_console
        from roofline_probe.report.fleet_view import print_cards

        print_cards(cards, make_console())
