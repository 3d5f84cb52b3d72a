"""Follow a log file by its name, as ``tail -F`` does: through rotation, truncation, deletion and late creation.

Polled, not notified: logs often lie on network or container file systems, which send no notifications.
"""

from __future__ import annotations

import os
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
"""Bytes before the position that are remembered: have they changed, the file was truncated and has grown again."""


class Follower:
    """What is appended to a file, whichever file bears the name at the time.

    ``poll`` never waits; a missing file is simply not there yet. A replaced file is read to its end before the new one
    begins, and a line that it left unfinished is ended, so that it is not glued to the next. Where text may have been
    lost, ``report.problems`` says so.
    """

    def __init__(self, path: str | os.PathLike[str], report: ScanReport | None = None) -> None:
        self.path = os.fspath(path)
        self._name = displayed(self.path)
        self.report = report if report is not None else ScanReport()
        self._file: FileIO | None = None
        self._opened = False
        self._position = 0
        self._mark = b""
        self._decoder = Decoder()
        self._in_line = False

    def poll(self) -> bytes:
        """The next text (UTF-8), at most about a block; empty if there is nothing new.

        Raises OSError if the path is a directory, or may not be read in the first place.
        """
        if self._file is None and not self._open():
            return b""
        if self._was_rewritten():
            self.report.problems.append(f"{self._name}: was truncated while it was followed; reading began anew")
            return self._restart()
        new = self._read()
        if new or not self._was_replaced():
            return new
        return self._restart()

    def close(self) -> bytes:
        """Stop following; the text that was held back, if any."""
        if self._file is None:
            return b""
        self._file.close()
        self._file = None
        return self._text(self._decoder.close())

    def _open(self) -> bool:
        try:
            self._file = open(self.path, "rb", buffering=0)  # noqa: SIM115 - held until replaced or closed
        except FileNotFoundError:
            return False
        except PermissionError:
            if not self._opened:
                raise
            return False  # rotation often sets the new file's mode a moment after making it
        self._opened = True
        self._position, self._mark = 0, b""
        self._decoder = Decoder()
        return True

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
        assert self._file is not None
        if os.fstat(self._file.fileno()).st_size < self._position:
            return True
        self._file.seek(self._position - len(self._mark))
        return self._file.read(len(self._mark)) != self._mark

    def _was_replaced(self) -> bool:
        """Whether another file bears the name now. A file that is only gone may still be written to: it is kept."""
        assert self._file is not None
        try:
            return not os.path.samestat(os.stat(self.path), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            return False

    def _restart(self) -> bytes:
        """End the text of the file read so far; the next poll opens the one that bears the name."""
        rest = self.close()
        if self._in_line:
            rest += b"\n"
            self._in_line = False
        return rest


def follow(
    follower: Follower, *, poll_s: float = POLL_S, sleep: Callable[[float], None] = time.sleep
) -> Iterator[bytes]:
    """Endless: blocks as they come, and an empty one after each wait for more, so that the caller can look around."""
    while True:
        block = follower.poll()
        yield block
        if not block:
            sleep(poll_s)
