"""Follow a log file by its name, as ``tail -F`` does: through rotation, truncation, deletion and late creation.

Polled, not notified: logs often lie on network or container file systems, which send no notifications.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from io import FileIO

from log_parsers.decode import Decoder
from log_parsers.sources import displayed
from log_parsers.step import ScanReport

BLOCK = 1 << 20
"""Bytes read by one poll at most."""
POLL_S = 0.2
_MARK = 64
"""Bytes before the position that are remembered: have they changed, the file was truncated, even if it has grown."""


class Follower:
    """What is appended to a file, whichever file bears the name at the time.

    ``poll`` never waits and never raises: where no file can be read under the name, one may come. A replaced file is
    read to its end before the new one begins, and a line that it left unfinished is ended, so that it is not glued to
    the next. Where text may have been lost, ``report.problems`` says so, each trouble once.
    """

    def __init__(self, path: str | os.PathLike[str], report: ScanReport | None = None) -> None:
        self.path = os.fspath(path)
        self._name = displayed(self.path)
        self.report = report if report is not None else ScanReport()
        self._file: FileIO | None = None
        self._identity: tuple[int, int] | None = None  # of the file being read, also while it cannot be
        self._position = 0
        self._mark = b""
        self._decoder = Decoder()
        self._in_line = False
        self._truncated = 0
        self._said: dict[str, int] = {}  # a trouble -> where it stands among the problems

    def poll(self) -> bytes:
        """The next text (UTF-8), at most about a block; empty if there is nothing new."""
        if self._file is None:
            if self._identity is not None and self._was_replaced():
                return self._restart()
            if not self._open():
                return b""
        try:
            if self._was_rewritten():
                return self._begin_anew()
            new = self._read()
        except OSError as error:  # a disk's fault, or a network file system lost the file: it may be there again
            self._say_unreadable(error)
            self._let_go()
            return b""
        if new or not self._was_replaced():
            return new
        return self._restart()

    def close(self) -> bytes:
        """Stop following; the text that was held back, if any."""
        if self._identity is None:
            return b""
        self._let_go()
        self._identity = None
        return self._text(self._decoder.close())

    def _let_go(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        self._file = None

    def _open(self) -> bool:
        """Open the file of the name; one that was being read goes on where that ended."""
        if self._found() is None:
            return False
        try:
            file = open(self.path, "rb", buffering=0, opener=_without_waiting)  # noqa: SIM115 - held until it is replaced
        except OSError as error:  # rotation often sets the new file's mode a moment after making it
            self._say_unreadable(error)
            return False
        self._file = file
        identity = _identity(os.fstat(file.fileno()))
        if identity != self._identity:
            self._identity, self._position, self._mark, self._decoder = identity, 0, b"", Decoder()
        return True

    def _found(self) -> os.stat_result | None:
        """The file that bears the name; None where there is none, or something else."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return None
        except OSError as error:  # a folder of the path became a file, or a link its own target
            self._say_unreadable(error)
            return None
        if stat.S_ISREG(found.st_mode):
            return found
        self._say("not a file", "is not a file at the moment; waiting for one")
        return None

    def _read(self) -> bytes:
        """What has been appended, and remember where that ended."""
        assert self._file is not None
        self._file.seek(self._position)
        new = self._file.read(BLOCK) or b""
        self._position += len(new)
        self._mark = (self._mark + new[-_MARK:])[-_MARK:]
        return self._text(self._decoder.feed(new)) if new else b""

    def _text(self, blocks: Iterator[bytes | bytearray | memoryview]) -> bytes:
        text = b"".join(blocks)
        if text:
            self._in_line = not text.endswith(b"\n")
        return text

    def _was_rewritten(self) -> bool:
        """Told by the text alone: the size of a file that the kernel makes up is 0."""
        assert self._file is not None
        self._file.seek(self._position - len(self._mark))
        return self._file.read(len(self._mark)) != self._mark

    def _was_replaced(self) -> bool:
        """Whether another file bears the name now. A file that is only gone may still be written to: it is kept."""
        found = self._found()
        return found is not None and _identity(found) != self._identity

    def _begin_anew(self) -> bytes:
        self._truncated += 1
        times, each = (f" {self._truncated:,} times", " each time") if self._truncated > 1 else ("", "")
        self._say("truncated", f"was truncated{times} while it was followed; reading began anew{each}")
        return self._restart()

    def _restart(self) -> bytes:
        """End the text of the file read so far; the next poll opens the one that bears the name."""
        rest = self.close()
        if self._in_line:
            rest += b"\n"
            self._in_line = False
        return rest

    def _say_unreadable(self, error: OSError) -> None:
        reason = error.strerror or str(error)
        self._say(reason, f"cannot be read at the moment ({reason}); waiting for it")

    def _say(self, trouble: str, sentence: str) -> None:
        """A trouble has one sentence, the latest about it: a file may be truncated, or missing, again and again."""
        problems = self.report.problems
        at = self._said.setdefault(trouble, len(problems))
        problems[at : at + 1] = [f"{self._name}: {sentence}"]


def _without_waiting(path: str, flags: int) -> int:
    """Should a FIFO have taken the name since it was looked at, opening it must not wait for a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def follow(
    follower: Follower, *, poll_s: float = POLL_S, sleep: Callable[[float], None] = time.sleep
) -> Iterator[bytes]:
    """Endless: blocks as they come, and an empty one after each wait for more, so that the caller can look around."""
    while True:
        block = follower.poll()
        yield block
        if not block:
            sleep(poll_s)
