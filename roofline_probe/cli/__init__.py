"""The command line. One thin file a command: a module here that defines ``app`` is a command of its name.

``main`` is the entry point of both scripts, ``probe`` and ``roofline-probe``. It imports nothing heavier than typer; a
command's own module is imported when that command (or ``--help``) is asked for.
"""

from __future__ import annotations

import codecs
import gc
import io
import os
import sys
from collections.abc import Sequence

from roofline_probe.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, ProbeError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (the README's table).

    A user's mistake is one sentence on stderr; a traceback means a bug of ours.
    """
    gc.set_threshold(50_000)  # parsing makes many small objects and hardly a cycle: the search took 5 % of the time
    _show_what_the_terminal_can()
    try:
        from roofline_probe.cli._app import quiet_broken_pipe

        code = _run(sys.argv[1:] if arguments is None else list(arguments))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return quiet_broken_pipe()
    except ProbeError as error:
        return _fail(str(error), error.exit_code)
    except OSError as error:
        if error.filename is None:
            raise
        return _fail(f"{error.filename}: {error.strerror}.", EXIT_USAGE)
    return code


_STAND_INS = {"·": "-", "•": "*", "–": "-", "×": "x", "─": "-", "…": "~", "≥": ">=", "−": "-"}
"""For an output whose encoding lacks these signs (``LANG=C``)."""


def _show_what_the_terminal_can() -> None:
    """A sign that the output's encoding lacks gets a stand-in, not a traceback."""
    codecs.register_error("probe-stand-in", _stand_in)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="probe-stand-in")


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(_STAND_INS.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


def _run(arguments: list[str]) -> int:
    from roofline_probe.cli._app import app, is_usage_error, usage_sentence

    name = os.path.basename(sys.argv[0])
    try:
        result = app()(
            arguments, prog_name=name if name in ("probe", "roofline-probe") else "probe", standalone_mode=False
        )
    except Exception as error:
        if not is_usage_error(error):
            raise
        return _fail(usage_sentence(error), EXIT_USAGE)
    return result if isinstance(result, int) else EXIT_OK


def _fail(sentence: str, code: int) -> int:
    from roofline_probe.report.text import clean

    sys.stdout.flush()
    if sentence:
        print(f"probe: {clean(sentence, limit=2000)}", file=sys.stderr)
    return code
