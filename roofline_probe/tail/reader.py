"""Where live bytes come from, read by a thread that does nothing but drain.

A pipe holds 64 KiB. Once it is full the engine's next log call blocks, and with it the event loop that schedules
requests: whoever reads the pipe decides the server's latency. So the thread here reads, hands on to code that never
waits for a terminal, a disk or a reader of ours, and reads again.
"""

from __future__ import annotations

import fcntl
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sized
from typing import Generic, Protocol, TypeVar

from log_parsers.apart import widen_pipe
from roofline_probe.errors import UsageError

CHUNK_BYTES = 1 << 19
BACKLOG = 4 << 20
"""Bytes between the reading and the parsing thread."""

Block = TypeVar("Block", bound=Sized)
Given = TypeVar("Given", covariant=True)


class Source(Protocol[Given]):
    """Live input: blocks of bytes, or readings of counters, until the input ends or ``stop`` was called."""

    endless: bool
    """Whether it ends only by ``stop``: a file or an address, behind which no server is waited for."""

    def chunks(self) -> Iterator[Given]:
        """Blocks as they come, any size, never empty."""

    def stop(self) -> None:
        """Make ``chunks`` end soon, from any thread."""

    def close(self, timeout_s: float | None) -> None:
        """After the end: let go, and let what is still written be written for ``timeout_s`` seconds at most."""


class FdSource:
    """A pipe, a socket, a file or a terminal behind a descriptor."""

    endless = False

    def __init__(self, fd: int, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.fd = fd
        self._chunk_bytes = chunk_bytes
        self._stopped = False
        widen_pipe(fd)

    def chunks(self) -> Iterator[bytes]:
        """Read until end of input. A descriptor that somebody set non-blocking is waited for."""
        while not self._stopped:
            chunk = read_some(self.fd, self._chunk_bytes)
            if chunk is None:
                select.select([self.fd], [], [], 1.0)
            elif not chunk:
                return
            else:
                yield chunk

    def stop(self) -> None:
        """The read in progress is not broken off: its thread is a daemon and dies with the process."""
        self._stopped = True

    def close(self, timeout_s: float | None) -> None:
        """Nothing is held."""


def read_some(fd: int, most_bytes: int) -> bytes | None:
    """What has arrived; None if somebody made the descriptor non-blocking and nothing has, empty at the end."""
    try:
        return os.read(fd, most_bytes)
    except BlockingIOError:
        return None
    except OSError:  # a terminal that hung up reads as EIO: the input has ended
        return b""


def standard_input() -> FdSource:
    """Descriptor 0.

    Raises:
        UsageError: it is closed or a terminal, so no engine can be behind it.
    """
    if not _can_be_read(0):
        raise UsageError("Standard input is closed; pipe a server's output in, or give -f FILE or -- COMMAND.")
    if os.isatty(0):
        raise UsageError(
            "Nothing is piped in; use `vllm serve ... 2>&1 | probe tail`, `probe tail -f server.log` "
            "or `probe tail -- vllm serve ...`."
        )
    return FdSource(0)


def _can_be_read(fd: int) -> bool:
    """A standard input that was closed is held open by us for writing only."""
    try:
        return fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE != os.O_WRONLY
    except OSError:
        return False


class Reader(threading.Thread, Generic[Block]):
    """Drains a source; a second thread hands the blocks to ``consume``, in order.

    Two threads, so that a pause of the parser is not one of the engine. Between them lie at most ``BACKLOG`` bytes:
    parsing is faster than any engine logs, so only a replay at full speed ever meets that bound, and waits.

    An exception of ``consume`` (a bug of ours) is kept in ``failure`` and reading goes on: the engine must not be
    stopped by our fault.
    """

    def __init__(
        self,
        source: Source[Block],
        consume: Callable[[Block], None],
        on_end: Callable[[], None],
    ) -> None:
        super().__init__(name="probe-reader", daemon=True)
        self._source = source
        self._consume = consume
        self._on_end = on_end
        self._blocks: deque[Block] = deque()
        self._backlog = 0
        self._change = threading.Condition()
        self._read_all = False
        self._worker = threading.Thread(target=self._work, name="probe-worker", daemon=True)
        self.failure: BaseException | None = None
        self.last_read = time.monotonic()
        """Clock of the last byte: an engine killed with SIGKILL leaves children that hold the pipe, so silence is
        all there is to see of its end."""
        self.ended = False
        """Everything was read and consumed."""

    def run(self) -> None:
        """Read to the end, whatever happens."""
        self._worker.start()
        try:
            for chunk in self._source.chunks():
                self.last_read = time.monotonic()
                with self._change:
                    self._blocks.append(chunk)
                    self._backlog += len(chunk)
                    self._change.notify_all()
                    self._change.wait_for(lambda: self._backlog <= BACKLOG)
        except BaseException as error:
            self.failure = self.failure or error
        finally:
            with self._change:
                self._read_all = True
                self._change.notify_all()

    def _work(self) -> None:
        while (chunk := self._next()) is not None:
            self._take(chunk)
            with self._change:
                self._backlog -= len(chunk)
                self._change.notify_all()
        self.ended = True
        self._on_end()

    def _next(self) -> Block | None:
        with self._change:
            self._change.wait_for(lambda: self._blocks or self._read_all)
            return self._blocks.popleft() if self._blocks else None

    def _take(self, chunk: Block) -> None:
        if self.failure is not None:
            return
        try:
            self._consume(chunk)
        except Exception as error:
            self.failure = error

    @property
    def silent_s(self) -> float:
        """Seconds since the last byte (or since the start)."""
        return time.monotonic() - self.last_read
