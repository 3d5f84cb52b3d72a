"""Standard input, output and error as a process may really get them: closed, full, or lacking signs that we print."""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import Any

from roofline_probe.errors import EXIT_BROKEN_PIPE, ProbeError, UsageError

_STAND_INS = {"·": "-", "•": "*", "–": "-", "×": "x", "─": "-", "…": "~", "≥": ">=", "−": "-"}
"""For an output whose encoding lacks these signs (``LANG=C``)."""
_WIDEST = 9999
"""Columns or lines of a terminal; rich pads lines to the width, so what ``COLUMNS`` says is memory."""


class ReaderGone(ProbeError):
    """Whoever read standard output (``| head``) has left; there is nothing to say about it."""

    exit_code = EXIT_BROKEN_PIPE


def prepare() -> None:
    """Make the three streams safe to use, whatever the shell made of them. Before anything else is opened."""
    _occupy_missing()
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(_ClosedInput()))
    sys.stdout = _guarded(sys.stdout, sys.__stdout__, 1, _Output)
    sys.stderr = _guarded(sys.stderr, sys.__stderr__, 2, _Remarks)
    codecs.register_error("probe-stand-in", _stand_in)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="probe-stand-in")
    for name in ("COLUMNS", "LINES"):
        _bound(name)


def silence_stdout() -> None:
    """Whoever read us has gone, or the disk is full: no second complaint when the interpreter flushes at exit."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
    os.close(nothing)


def _occupy_missing() -> None:
    """A log or profile opened later must not become descriptor 0, 1 or 2. Each is opened the wrong way round, so that
    using it fails as it does on a closed one; stderr alone is dropped in silence."""
    for fd, flags in enumerate((os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, flags)  # takes the lowest free number


def _guarded(stream: Any, original: Any, fd: int, kind: type[io.FileIO]) -> Any:
    """The interpreter's own stream on a raw file of ``kind``; one that a caller has put in its place stays."""
    if stream is not original:
        return stream
    at_once = fd == 2 or (stream is not None and (stream.line_buffering or stream.write_through))
    return io.TextIOWrapper(
        io.BufferedWriter(kind(fd, "wb", closefd=False)),
        encoding=stream.encoding if stream is not None else "utf-8",
        line_buffering=at_once,
    )


class _Output(io.FileIO):
    """Standard output: what it cannot take is a sentence, except that a reader may always leave."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:  # typer would make it exit code 1, which here means "gate not met"
            raise ReaderGone from None
        except OSError as error:
            from roofline_probe.report.files import unwritable_stdout

            raise unwritable_stdout(error) from None


class _Remarks(io.FileIO):
    """Standard error: what it cannot take is dropped, because the exit code must still say what happened."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


class _ClosedInput(io.RawIOBase):
    """Standard input that the caller closed."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        raise UsageError("Standard input is closed; pipe a log in or name a file.")


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    """A sign that the output's encoding lacks gets a stand-in, not a traceback."""
    assert isinstance(error, UnicodeEncodeError)
    return "".join(_STAND_INS.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


def _bound(name: str) -> None:
    """rich takes any digits for a size."""
    text = os.environ.get(name)
    if text is None:
        return
    if not (text.isascii() and text.isdigit()):
        del os.environ[name]
    elif len(text.lstrip("0")) > len(str(_WIDEST)):
        os.environ[name] = str(_WIDEST)
