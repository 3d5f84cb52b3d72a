"""The command line. One thin file a command: a module here that defines ``app`` is a command of its name.

``main`` is the entry point of both scripts, ``probe`` and ``roofline-probe``. It imports nothing heavier than typer; a
command's own module is imported when that command (or ``--help``) is asked for.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
import sys
from collections.abc import Sequence

from roofline_probe.errors import EXIT_BROKEN_PIPE, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, ProbeError, UsageError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (the README's table).

    A user's mistake is one sentence on stderr; a traceback means a bug of ours.
    """
    gc.set_threshold(50_000)  # parsing makes many small objects and hardly a cycle: the search took 5 % of the time
    atexit.register(gc.freeze)  # nor at the end: looking for cycles in what goes anyway takes 40 ms
    from roofline_probe.cli import _streams

    _streams.prepare()
    try:
        code, sentence = _outcome(sys.argv[1:] if arguments is None else list(arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        _streams.silence_stdout()
        return EXIT_BROKEN_PIPE
    except ProbeError as error:  # standard output could not take the rest of the result
        _streams.silence_stdout()
        code, sentence = error.exit_code, str(error)
    _say(sentence)
    return code


def _outcome(arguments: list[str]) -> tuple[int, str]:
    """The exit code and what to say about it; an empty sentence where nothing is to be said."""
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED, ""
    except BrokenPipeError:
        raise
    except ProbeError as error:
        return error.exit_code, str(error)
    except OSError as error:
        if error.filename is None:
            raise
        return EXIT_USAGE, f"{error.filename}: {error.strerror}."


def _run(arguments: list[str]) -> tuple[int, str]:
    from roofline_probe.cli._app import app, is_usage_error, usage_sentence

    _refuse_empty(arguments)
    name = os.path.basename(sys.argv[0])
    try:
        result = app()(
            arguments, prog_name=name if name in ("probe", "roofline-probe") else "probe", standalone_mode=False
        )
    except Exception as error:
        if not is_usage_error(error):
            raise
        return EXIT_USAGE, usage_sentence(error)
    return result if isinstance(result, int) else EXIT_OK, ""


def _refuse_empty(arguments: list[str]) -> None:
    """An empty word is most often an unset variable of a script, and as a path it would mean this folder."""
    for before, word in zip(["", *arguments], arguments, strict=False):
        if word == "--":  # a server's own command line
            return
        if not word or re.fullmatch("--[a-z-]+=", word):
            flag = word.rstrip("=") or before
            raise UsageError(
                f"{f'What stands behind {flag}' if flag[:1] == '-' else 'An argument'} is empty; "
                "give a value or leave it out."
            )


def _say(sentence: str) -> None:
    from roofline_probe.report.text import clean

    if sentence:
        print(f"probe: {clean(sentence, limit=2000)}", file=sys.stderr)
