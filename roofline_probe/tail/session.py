"""The main thread of ``probe tail``: watches the reader, the view, the server and the signals, and decides the end."""

from __future__ import annotations

import threading
from enum import Enum
from typing import Any, Protocol

from roofline_probe.tail.pump import Pump, Sink
from roofline_probe.tail.reader import Reader, Source
from roofline_probe.tail.runner import Child
from roofline_probe.tail.signals import Interrupts

TICK_S = 0.1
"""Within it a signal is noticed; the end of the input is at once."""
ORPHANS_S = 5.0
"""After the server's first process has ended: how long its pipe may be silent, held by children, before we leave."""
REMIND_S = 10.0


class View(Sink, Protocol):
    """A sink with a beginning and an end."""

    @property
    def failure(self) -> Exception | None:
        """A fault of ours in showing, or an output that could not be written."""

    @property
    def closed(self) -> bool:
        """Whether nobody can see it any more."""

    def start(self, session: Session) -> None:
        """Begin to show."""

    def stop(self) -> None:
        """Stop displaying; sentences still reach the user, on stderr."""

    def flush(self, timeout_s: float | None) -> None:
        """Let what is queued go out."""


class End(Enum):
    """How it ended."""

    INPUT = "the input ended"
    NOBODY_READS = "our output was closed"
    LEFT = "the user left"


class Session:
    """One run beside one engine."""

    def __init__(
        self, source: Source[Any], pump: Pump[Any], view: View, *, keeps: bool = False, child: Child | None = None
    ) -> None:
        """Prepare. ``keeps`` says that the log is written to a file, which is a reason to read on unseen."""
        self.pump = pump
        self.view = view
        self.child = child
        self._keeps = keeps
        self.draining = False
        self._source = source
        self._wake = threading.Event()
        self.interrupts = Interrupts(child.pass_on if child else None)
        self.reader: Reader[Any] = Reader(source, pump.consume, self._wake.set)
        self._reminded_s = 0.0
        self._admitted = False

    def watch(self) -> End:
        """Read until it is over. Must be called on the main thread, which is where signals arrive."""
        self.interrupts.install()
        self.view.start(self)
        self.reader.start()
        end = self._wait()
        self._source.stop()
        if end is End.LEFT and self.child is not None:
            self.child.kill()
        if end is not End.LEFT and self.reader.ended and self.reader.failure is None:
            self.pump.finish()
        self.view.stop()
        patience_s = 1.0 if end is End.LEFT else None
        self.view.flush(patience_s)
        self._source.close(patience_s)
        return end

    def _wait(self) -> End:
        while True:
            self._wake.wait(TICK_S)
            self._wake.clear()
            if self.interrupts.count > 1:
                return End.LEFT
            if self.reader.ended and (self.child is None or self.child.poll() is not None):
                return End.INPUT
            if self.interrupts.count and not self.draining:
                self._begin_draining()
            if self._unseen() and not self._keeps and self.child is None:
                return End.NOBODY_READS
            if self._only_orphans():
                return End.INPUT
            if self.draining:
                self._remind()
            self._admit_fault()

    def _unseen(self) -> bool:
        if self.interrupts.hung_up:
            self.view.stop()
        return self.interrupts.hung_up or self.view.closed

    def _begin_draining(self) -> None:
        """The first request to end: the display goes, the stopping server is read to its last line."""
        self.draining = True
        self.view.stop()
        if self._source.endless:
            self._source.stop()
            return
        self.view.say("Stopping: reading what the server still prints. Once more leaves at once.")

    def _remind(self) -> None:
        """An engine killed with SIGKILL leaves children that hold the pipe: the end of input may never come."""
        silent = self.reader.silent_s
        if silent - self._reminded_s >= REMIND_S:
            self.view.say(f"The input is still open but has been silent for {silent:.0f} s. Ctrl-C leaves at once.")
            self._reminded_s = silent
        elif silent < self._reminded_s:
            self._reminded_s = 0.0

    def _admit_fault(self) -> None:
        if self.reader.failure is not None and not self._admitted:
            self._admitted = True
            self.view.say("A fault in probe stopped the figures; the server's output is still read. More at the end.")

    def _only_orphans(self) -> bool:
        if self.child is None or self.child.poll() is None or self.reader.silent_s < ORPHANS_S:
            return False
        self.view.say("The server has ended; processes that it started still hold its output and are not waited for.")
        return True
