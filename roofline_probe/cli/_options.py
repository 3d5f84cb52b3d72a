"""Options that several commands take, worded once: what is named alike means the same everywhere."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline_probe import notes
from roofline_probe.notes import detail, is_quiet, note

__all__ = [
    "BetaOption",
    "DtypeOption",
    "EngineOption",
    "ModelOption",
    "PiOption",
    "ProfileOption",
    "Quiet",
    "RoofOption",
    "Verbose",
    "WhereOption",
    "detail",
    "is_quiet",
    "note",
]


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

ProfileOption = Annotated[
    str | None,
    typer.Option("--profile", metavar="NAME|PATH", help="The measured device; the one measured here if left out."),
]
RoofOption = Annotated[
    str,
    typer.Option("--roof", metavar="ROOF", help="What percentages divide by: auto, burst, sustained or datasheet."),
]
PiOption = Annotated[float | None, typer.Option("--pi", metavar="TFLOPS", help="Judge by this pi instead.")]
BetaOption = Annotated[float | None, typer.Option("--beta", metavar="GBPS", help="Judge by this beta instead.")]
ModelOption = Annotated[
    str | None,
    typer.Option("--model", metavar="NAME|CONFIG", help="Model name or config.json, where the log does not tell."),
]
DtypeOption = Annotated[
    str | None, typer.Option("--dtype", help="Compute dtype (bf16, fp8 ...), where the log does not tell.")
]
EngineOption = Annotated[
    str | None, typer.Option("--engine", metavar="vllm|sglang", help="Read the log as this engine's only.")
]
WhereOption = Annotated[
    str | None, typer.Option("--where", metavar="EXPR", help="Only steps like 'batch>=32 and kind==decode'.")
]
