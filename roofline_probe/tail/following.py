"""``probe tail -f FILE``: a file followed by its name, beginning with the last steps it holds."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from log_parsers.follow import Follower, follow
from log_parsers.step import ScanReport


class FollowSource:
    """What the file holds and what is appended to it, until stopped.

    All of it is read, since the start-up lines tell the model and the summary covers the whole log; only the showing
    begins with the last steps.
    """

    endless = True

    def __init__(self, path: Path, report: ScanReport, say: Callable[[str], None]) -> None:
        """``say`` gets sentences for the user: the file is not there yet, was truncated, was replaced.

        Raises:
            OSError: the path is a directory or may not be read.
        """
        if path.exists():
            os.close(os.open(path, os.O_RDONLY))
        if path.is_dir():
            raise IsADirectoryError(21, "Is a directory", str(path))
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
