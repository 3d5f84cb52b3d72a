"""Lines out, to a reader that may be slow, stopped or gone, without the one who puts them ever waiting."""

from __future__ import annotations

import os
import tempfile
import threading
from collections import deque
from typing import BinaryIO

MEMORY_BYTES = 8 << 20
"""Kept in memory for a slow reader: hours of steps. What exceeds it goes to a temporary file, so that a reader that
stopped for a night loses no step and memory stays flat."""
SPILL_READ_BYTES = 1 << 20


class Outlet(threading.Thread):
    """Writes to a descriptor from its own thread, in order.

    The descriptor is never set non-blocking: that flag belongs to the open file, which the engine on the same terminal
    may share, and would make *its* writes fail.
    """

    def __init__(self, fd: int, memory_bytes: int = MEMORY_BYTES) -> None:
        super().__init__(name=f"probe-out-{fd}", daemon=True)
        self.closed = False
        """True once nobody reads behind the descriptor."""
        self.error: OSError | None = None
        """Why, once it is true."""
        self.lost_bytes = 0
        """Bytes that neither memory nor the temporary file could hold."""
        self._fd = fd
        self._memory_bytes = memory_bytes
        self._memory: deque[bytes] = deque()
        self._held = 0
        self._spill: BinaryIO | None = None
        self._spill_read = self._spill_end = 0
        self._change = threading.Condition()
        self._closing = False

    def put(self, data: bytes) -> None:
        """Queue ``data``; never waits for the reader."""
        with self._change:
            if self.closed:
                return
            if self._spill_end or self._held + len(data) > self._memory_bytes:
                self._put_aside(data)
            else:
                self._memory.append(data)
                self._held += len(data)
            self._change.notify()

    def _put_aside(self, data: bytes) -> None:
        try:
            if self._spill is None:
                self._spill = tempfile.TemporaryFile(prefix="probe-", buffering=0)  # noqa: SIM115 (lives as long as the thread)
            written = os.pwrite(self._spill.fileno(), data, self._spill_end)
            if written < len(data):  # half a line would be read as a broken one
                self.lost_bytes += len(data)
                return
            self._spill_end += len(data)
        except OSError:
            self.lost_bytes += len(data)

    def run(self) -> None:
        """Write until closed and empty, or until nobody reads any more."""
        while data := self._take():
            view = memoryview(data)
            try:
                while view:
                    view = view[os.write(self._fd, view) :]
            except OSError as error:
                with self._change:
                    self.error = error
                    self.closed = True
                    self._memory.clear()
                return

    def _take(self) -> bytes:
        with self._change:
            self._change.wait_for(lambda: self._memory or self._spill_end or self._closing)
            if self._memory:
                data = b"".join(self._memory)
                self._memory.clear()
                self._held = 0
                return data
            return self._take_aside() if self._spill_end else b""

    def _take_aside(self) -> bytes:
        assert self._spill is not None
        size = min(SPILL_READ_BYTES, self._spill_end - self._spill_read)
        data = os.pread(self._spill.fileno(), size, self._spill_read)
        self._spill_read += len(data)
        if self._spill_read >= self._spill_end or not data:
            os.ftruncate(self._spill.fileno(), 0)
            self._spill_read = self._spill_end = 0
        return data

    def close(self, timeout_s: float | None = None) -> bool:
        """Write what is queued, for ``timeout_s`` seconds at most; whether all of it went out."""
        with self._change:
            self._closing = True
            self._change.notify()
        self.join(timeout_s)
        return not self.is_alive() and not self.closed and not self.lost_bytes
