"""The view where there is no terminal: one line a step, as it comes."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from roofline_probe.errors import UsageError
from roofline_probe.point import Point
from roofline_probe.report.files import unwritable_stdout
from roofline_probe.report.text import clean
from roofline_probe.tail.outlet import Outlet

if TYPE_CHECKING:
    from roofline_probe.tail.session import Session

HINT_EVERY_S = 1.0
STDERR_PATIENCE_S = 10.0
"""At the end: long enough for a loaded machine to take the last lines, short enough where nobody ever will."""


class LineView:
    """Encoded points to stdout; our own sentences, and the engine's lines under ``--pass``, to stderr."""

    def __init__(
        self,
        encode: Callable[[Point], bytes],
        *,
        mute: bool = False,
        quiet: bool = False,
        pass_lines: bool = False,
        hint: Callable[[Session], str | None] = lambda session: None,
    ) -> None:
        """``mute`` leaves the steps out; ``pass_lines`` shows the engine's own; ``hint`` says what is amiss
        while nothing usable arrives."""
        self._mute = mute
        self._encode = encode
        self._quiet = quiet
        self._pass_all = pass_lines
        self._hint = hint
        self._out = Outlet(1)
        self._taken: list[bytes] = []
        self._err = Outlet(2, memory_bytes=1 << 20)
        self._stopped = threading.Event()
        self._side = threading.Thread(target=self._beside, name="probe-side", daemon=True)
        self._session: Session | None = None

    @property
    def failure(self) -> UsageError | None:
        """Steps could not be written; a reader that left, or a terminal that hung up, is no failure."""
        error = self._out.error
        return None if error is None or error.errno in (errno.EPIPE, errno.EIO) else unwritable_stdout(error)

    @property
    def closed(self) -> bool:
        """Whether stdout has no reader any more."""
        return self._out.closed or reader_gone(1)

    def start(self, session: Session) -> None:
        """Begin to write."""
        self._session = session
        self._out.start()
        self._err.start()
        self._side.start()

    def point(self, point: Point) -> None:
        """One line."""
        if not self._mute:
            self._taken.append(self._encode(point))

    def settle(self) -> None:
        """Lines of one block go out together: a thread is woken once and not for each."""
        if self._taken:
            self._out.put(b"".join(self._taken))
            self._taken.clear()

    def say(self, sentence: str) -> None:
        """On stderr, unless ``-q``."""
        if not self._quiet:
            self._err.put(f"probe: {clean(sentence, 2000)}\n".encode())

    def stop(self) -> None:
        """Steps go on being written: a stopping server's last ones belong to the record."""

    def flush(self, timeout_s: float | None) -> None:
        """Wait for the reader of our output to take what is queued."""
        self._stopped.set()
        self._side.join(timeout_s)
        self._pass_lines()
        self._out.close(timeout_s)
        if self._out.lost_bytes:
            self.say(
                f"{self._out.lost_bytes:,} bytes of step lines could not be kept for the slow reader of this output."
            )
        self._err.close(STDERR_PATIENCE_S if timeout_s is None else timeout_s)

    def _beside(self) -> None:
        said: str | None = None
        while not self._stopped.wait(0.1 if self._pass_all else HINT_EVERY_S):
            self._pass_lines()
            hint = self._hint(self._session) if self._session is not None else None
            if hint is not None and said is None:
                self.say(hint)
                said = hint

    def _pass_lines(self) -> None:
        board = self._session.pump.board if self._session is not None else None
        if board is None or not self._pass_all:
            return
        lines, dropped = board.take()
        if dropped:
            self._err.put(f"… {dropped:,} lines not shown\n".encode())
        self._err.put("".join(f"{clean(line, 2000)}\n" for line in lines).encode())


def reader_gone(fd: int) -> bool:
    """Whether the reading end behind ``fd`` is closed, told without writing."""
    import select

    try:
        poll = select.poll()
        poll.register(fd, 0)
        return any(event & (select.POLLERR | select.POLLNVAL) for _, event in poll.poll(0))
    except OSError:
        return False


def is_drawable(fd: int) -> bool:
    """Whether a live view can be drawn there: a terminal that moves its cursor."""
    return os.isatty(fd) and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")
