"""Where results go: standard output, a file that is replaced whole, or whatever else the path names, in place."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from roofline_probe.errors import UsageError

STDOUT = "-"


def write(target: str, pieces: Iterable[bytes]) -> None:
    """Write ``pieces`` to ``-`` (stdout), a regular file, or a pipe or device.

    A regular file is replaced atomically: a reader sees the old content or the new one. Anything else (a FIFO,
    ``/dev/fd/63``, ``/dev/null``) is opened and written in place, as is the target of a symbolic link.

    Raises:
        UsageError: the folder does not exist, cannot be written, or the disk is full.
    """
    if target == STDOUT:
        sys.stdout.flush()
        sys.stdout.buffer.writelines(pieces)
        sys.stdout.buffer.flush()
        return
    path = Path(target)
    try:
        if path.exists() and not path.is_file():  # by its own name: where /dev/fd/63 leads, no path does
            with open(path, "wb") as stream:
                stream.writelines(pieces)
        else:
            _replace(Path(os.path.realpath(path)) if path.is_symlink() else path, pieces)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"{target} could not be written ({error.strerror or error}).") from None


def unwritable_stdout(error: OSError) -> UsageError:
    """Why standard output did not take the result, as a sentence."""
    why = "it is closed" if error.errno == errno.EBADF else error.strerror or error
    return UsageError(f"Standard output could not be written ({why}); redirect it to where there is room.")


def _replace(path: Path, pieces: Iterable[bytes]) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(pieces)
        os.chmod(temporary, _mode_of(path))
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _mode_of(path: Path) -> int:
    """The mode the file has, or the one that ``open`` would give a new one."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
