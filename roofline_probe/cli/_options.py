"""Options that every command takes."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline_probe import notes
from roofline_probe.notes import detail, is_quiet, note

__all__ = ["Quiet", "Verbose", "detail", "is_quiet", "note"]


def _set_quiet(wanted: bool) -> bool:
    if wanted:
        notes.set_level(notes.QUIET)
    return wanted


def _set_verbose(wanted: bool) -> bool:
    if wanted:
        notes.set_level(notes.VERBOSE)
    return wanted


Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", callback=_set_quiet, help="Say nothing but errors; files are still written.")
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", callback=_set_verbose, help="Say on stderr what is being done and why.")
]
