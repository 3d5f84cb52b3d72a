"""Options that every command takes, and what they switch: how much is said on stderr."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

_level = 0


def _set_quiet(wanted: bool) -> bool:
    if wanted:
        _set_level(-1)
    return wanted


def _set_verbose(wanted: bool) -> bool:
    if wanted:
        _set_level(1)
    return wanted


def _set_level(level: int) -> None:
    global _level
    _level = level


Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", callback=_set_quiet, help="Say nothing but errors; files are still written.")
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", callback=_set_verbose, help="Say on stderr what is being done and why.")
]


def is_quiet() -> bool:
    """Whether ``-q`` was given, before or after the command's name."""
    return _level < 0


def note(sentence: str) -> None:
    """One line on stderr, unless ``-q``."""
    if _level >= 0:
        print(f"probe: {sentence}", file=sys.stderr)


def detail(sentence: str) -> None:
    """One line on stderr, only with ``-v``."""
    if _level > 0:
        print(f"probe: {sentence}", file=sys.stderr)
