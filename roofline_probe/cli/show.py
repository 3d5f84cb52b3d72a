"""``probe show``: a stored or shipped profile again, as ``probe measure`` printed it."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline_probe.cli._options import Quiet, Verbose, is_quiet

app = typer.Typer(add_completion=False)


@app.command(epilog="Example:  probe show h200")
def show(
    profile: Annotated[
        str | None, typer.Argument(help="Path, or name of a stored or shipped profile; the newest one if left out.")
    ] = None,
    sweeps: Annotated[bool, typer.Option("--sweeps/--no-sweeps", help="Show every trial, or the answer only.")] = True,
    json: Annotated[str | None, typer.Option("--json", metavar="PATH|-", help="Write the document itself.")] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Show a stored or shipped profile and what decode and prefill can reach under it."""
    from roofline_probe import profile as document
    from roofline_probe import store
    from roofline_probe.report import files

    found, origin = store.load(profile) if profile is not None else store.find_default()
    if json is not None:
        files.write(json, [document.encode(found)])
    if json != files.STDOUT and not is_quiet():
        from roofline_probe.report.console import make_console
        from roofline_probe.report.profile_view import print_profile

        print_profile(found, make_console(), saved_to=str(origin), sweeps=sweeps)
