"""``probe tail -f FILE``: a file followed by its name, beginning with the last steps it holds; a pipe to its end."""

from __future__ import annotations

import os
import select
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from log_parsers.apart import widen_pipe
from log_parsers.follow import Follower, follow
from log_parsers.step import ScanReport
from roofline_probe.errors import UsageError
from roofline_probe.tail.reader import CHUNK_BYTES, read_some

_LOOK_MS = 100
"""A silent pipe is waited for so long before a look at whether the user has left."""


class FollowSource:
    """What the file holds and what is appended to it, until stopped.

    All of it is read, since the start-up lines tell the model and the summary covers the whole log; only the showing
    begins with the last steps.
    """

    endless = True

    def __init__(self, path: Path, report: ScanReport, say: Callable[[str], None]) -> None:
        """``say`` gets sentences for the user: the file is not there yet, was truncated, cannot be read any more."""
        self._path = path
        self._follower = Follower(path, report)
        self._report = report
        self._say = say
        self._stop = threading.Event()

    def chunks(self) -> Iterator[bytes]:
        """UTF-8 text, whatever the file's encoding; one empty block when all that the file held has been read."""
        if not self._path.exists():
            self._say(f"{self._path} does not exist yet; waiting for it.")
        behind, told = True, len(self._report.problems)
        for block in follow(self._follower, sleep=self._wait):
            if block or behind:
                behind = behind and bool(block)
                yield block
            for problem in self._report.problems[told:]:
                self._say(problem)
            told = len(self._report.problems)
            if self._stop.is_set():
                break
        rest = self._follower.close()
        if rest:
            yield rest

    def stop(self) -> None:
        """End at the next look."""
        self._stop.set()

    def close(self, timeout_s: float | None) -> None:
        """Nothing is held."""

    def _wait(self, seconds: float) -> None:
        self._stop.wait(seconds)


class PipeSource:
    """A pipe by its name, as of ``<(kubectl logs -f POD)`` or ``mkfifo``: read like standard input, but left at once
    when the user leaves, for no server of ours is behind it."""

    endless = True

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._stop = threading.Event()
        widen_pipe(fd)

    def chunks(self) -> Iterator[bytes]:
        """Raw bytes until the last writer has gone; the first one is waited for."""
        ready = select.poll()
        ready.register(self._fd, select.POLLIN)
        while not self._stop.is_set():
            chunk = read_some(self._fd, CHUNK_BYTES) if ready.poll(_LOOK_MS) else None
            if chunk:
                yield chunk
            elif chunk is not None:
                return

    def stop(self) -> None:
        """End at the next look."""
        self._stop.set()

    def close(self, timeout_s: float | None) -> None:
        """Its writer learns of our end by the process's."""


def open_pipe(path: Path) -> PipeSource | None:
    """What ``path`` names, where it is nothing that could be followed by its name; None for a file, or none yet.

    Raises:
        OSError: it is a directory or may not be read.
        UsageError: it is a terminal.
    """
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return None
    # A FIFO is opened once and kept: its writer's log would be lost with a reader that leaves.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        os.close(fd)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(21, "Is a directory", str(path))
        return None
    if os.isatty(fd):
        os.close(fd)
        raise UsageError(f"{path} is a terminal, which holds no log; give a file or a pipe.")
    return PipeSource(fd)
