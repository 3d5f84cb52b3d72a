"""Ctrl-C, SIGTERM and a hung-up terminal: the first asks to finish, the second to leave."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Counts the requests to end, and passes signals on to a server of ours.

    A handler takes no lock, not even an event's: it runs in the middle of whatever the main thread does, which may
    hold that lock. The main thread looks at the counts at its next tick.
    """

    def __init__(self, pass_on: Callable[[int], None] | None = None) -> None:
        """``pass_on`` gets every signal when a server was started by us."""
        self.count = 0
        self.hung_up = False
        """The terminal went away."""
        self._pass_on = pass_on

    def install(self) -> None:
        """Take over the handlers; only the main thread may. SIGHUP stays ignored under ``nohup``."""
        for signum in ENDING:
            signal.signal(signum, self._end)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._hang_up)
        if self._pass_on is not None:
            signal.signal(signal.SIGTSTP, self._pause)
            for signum in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT):
                signal.signal(signum, self._forward)

    def _end(self, signum: int, frame: FrameType | None) -> None:
        self.count += 1
        if self._pass_on is not None and self.count == 1:
            self._pass_on(signum)

    def _hang_up(self, signum: int, frame: FrameType | None) -> None:
        self.hung_up = True
        self._forward(signum, frame)

    def _forward(self, signum: int, frame: FrameType | None) -> None:
        if self._pass_on is not None:
            self._pass_on(signum)

    def _pause(self, signum: int, frame: FrameType | None) -> None:
        """Ctrl-Z: the server runs in another session and would fill a pipe that nobody reads, so it stops with us."""
        self._forward(signal.SIGSTOP, frame)
        with contextlib.suppress(OSError):
            os.kill(os.getpid(), signal.SIGSTOP)
        self._forward(signal.SIGCONT, frame)
