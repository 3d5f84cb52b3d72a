"""The one place that makes a rich console: no markup, no emoji, no highlighting, so that text stays text."""

from __future__ import annotations

import os
import re
import sys
from typing import IO, Any, cast

from rich.console import Console

STYLES = {
    "good": "green",
    "middling": "yellow",
    "poor": "red",
    "quiet": "dim",
    "decode": "bold cyan",
    "prefill": "bold magenta",
    "mixed": "bold blue",
    "warning": "yellow",
}
"""Meaning -> rich style: the eight terminal colours only, so that both light and dark backgrounds keep contrast."""


def grade(fraction: float | None) -> str:
    """The style of a headline's share: green from what the reference captures reach, yellow from half of a roof."""
    if fraction is None:
        return STYLES["quiet"]
    return STYLES["good"] if fraction >= 0.8 else STYLES["middling"] if fraction >= 0.5 else STYLES["poor"]


class _Trimmed:
    """A stream that gets each line without the blanks that fill a table up to the width."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """A line comes in one piece: a console renders a whole ``print`` before it writes."""
        self._stream.write(re.sub(r" +(?=\n)", "", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class PlainTextConsole(Console):
    """A rich console that leaves a broken pipe to ``cli.main`` (rich itself would exit with 1: "gate not met")."""

    def on_broken_pipe(self) -> None:
        """Let the exception go on."""
        raise BrokenPipeError


def make_console(file: IO[str] | None = None, width: int | None = None, *, color: bool | None = None) -> Console:
    """A console on ``file`` (stdout by default): plain text when it is no terminal or ``NO_COLOR`` is set.

    ``width`` and ``color`` are for tests and exports; left out, the terminal (or ``COLUMNS``) decides.
    """
    stream = file or sys.stdout
    terminal = stream.isatty() and os.environ.get("TERM") != "dumb" if color is None else color
    return PlainTextConsole(
        file=stream if terminal else cast("IO[str]", _Trimmed(stream)),
        width=width,
        force_terminal=terminal,
        no_color=None if color is None else not color,
        markup=False,
        emoji=False,
        highlight=False,
        soft_wrap=False,
        legacy_windows=False,
    )


def ascii_only(console: Console) -> bool:
    """Whether the console's encoding cannot carry block characters (``LANG=C``)."""
    return not console.encoding.lower().startswith("utf")
