"""Reading in a process of its own: while this one parses and draws, the engine's pipe is drained by that one.

Python's threads share one lock, so a thread that drains waits for one that draws. A forked child shares nothing: it
starts in a millisecond, needs no second import, and sends parcels a hundredth of the log's size.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
from collections.abc import Iterator

from log_parsers.apart import can_fork, widen_pipe
from roofline_probe.errors import ProbeError
from roofline_probe.tail.intake import Intake, Parcel
from roofline_probe.tail.reader import CHUNK_BYTES, FdSource, Source, read_some

LEAVE_S = 1.0
"""How long the child lets ``--tee`` write once its parent has gone."""
_FOR_THE_PARENT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Whether and when to end is the parent's decision; the child ends with its input, or when the parent has gone."""


class InlineSource:
    """Parcels made by the thread that reads: for one core, and for a file that is followed."""

    def __init__(self, source: Source[bytes], intake: Intake) -> None:
        self.endless = source.endless
        self._source = source
        self._intake = intake

    def chunks(self) -> Iterator[Parcel]:
        """Until the input ends."""
        return self._intake.parcels(self._source.chunks())

    def stop(self) -> None:
        """End the source."""
        self._source.stop()

    def close(self, timeout_s: float | None) -> None:
        """Let ``--tee`` write what waits."""
        self._intake.close(timeout_s)


class ForkedSource:
    """Parcels made by a child that has the input to itself."""

    endless = False

    def __init__(self, fd: int, intake: Intake) -> None:
        """Fork. No thread may have been started yet."""
        self._pipe, writing = os.pipe()
        widen_pipe(self._pipe)
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, _FOR_THE_PARENT)  # until the child ignores them
        self._child = os.fork()
        if self._child == 0:
            os.close(self._pipe)
            _serve(fd, intake, writing, unblocked)
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        os.close(writing)
        # Should the child be killed, the engine must see a closed pipe and not one that nobody reads.
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, fd)
        os.close(nothing)

    def chunks(self) -> Iterator[Parcel]:
        """Until the input ends.

        Raises:
            ProbeError: the child was killed.
        """
        with open(self._pipe, "rb") as pipe:
            try:
                while (parcel := pickle.load(pipe)) is not None:
                    yield parcel
            except (EOFError, pickle.UnpicklingError):
                raise ProbeError("The process that reads the log was killed; is memory short? Start again.") from None
        os.waitpid(self._child, 0)

    def stop(self) -> None:
        """The child ends with its input, or when this process has gone."""

    def close(self, timeout_s: float | None) -> None:
        """The child has closed its ``--tee``, or will when this process has gone."""


def reading(source: FdSource, intake: Intake) -> ForkedSource | InlineSource:
    """In a process of its own where that is possible."""
    return ForkedSource(source.fd, intake) if can_fork() else InlineSource(source, intake)


def _serve(fd: int, intake: Intake, writing: int, unblocked: set[int | signal.Signals]) -> None:
    """The child's whole life. It ends without clean-up: everything it inherited belongs to its parent."""
    try:
        for signum in _FOR_THE_PARENT:
            signal.signal(signum, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        nothing = os.open(os.devnull, os.O_WRONLY)
        for inherited in (1, 2):  # whoever reads the parent's output must see its end, not ours
            os.dup2(nothing, inherited)
        for parcel in intake.parcels(_blocks(fd, writing)):
            _send(writing, parcel)
        _send(writing, None)
    except BaseException:  # the parent has gone
        with contextlib.suppress(BaseException):
            intake.close(LEAVE_S)
        os._exit(1)
    os._exit(0)


def _blocks(fd: int, writing: int) -> Iterator[bytes]:
    """The input, as long as the parent reads what is sent: it may leave while the engine is silent."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.register(writing, 0)
    while True:
        ready = dict(poll.poll())
        if writing in ready:
            raise BrokenPipeError
        block = read_some(fd, CHUNK_BYTES)
        if block:
            yield block
        elif block is not None:
            return


def _send(writing: int, parcel: Parcel | None) -> None:
    data = memoryview(pickle.dumps(parcel, pickle.HIGHEST_PROTOCOL))
    while data:
        data = data[os.write(writing, data) :]
