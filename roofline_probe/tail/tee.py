"""``--tee FILE``: the raw bytes, kept. A slow or full disk costs bytes of the file, never the engine's time."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from roofline_probe.errors import UsageError

BACKLOG_BYTES = 16 << 20
"""What waits for the disk: at a server's 10 to 100 kB/s that is minutes of a hanging file system."""
PATIENCE_S = 0.04
"""How long a chunk waits for room once the backlog is full. A fast replay is held to the disk's pace by it and loses
nothing; a disk that hangs costs the engine this once and then bytes of the file, which are counted and said."""


class Tee(threading.Thread):
    """Appends to a file from its own thread."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        """Open ``path`` for appending; ``say`` gets sentences for the user and must not block.

        Raises:
            UsageError: the file cannot be opened.
        """
        super().__init__(name="probe-tee", daemon=True)
        self.path = path
        self.missing_bytes = 0
        """Bytes that the file lacks."""
        self._say = say
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._change = threading.Condition()
        self._closing = False
        self._overrun = False
        self._failing = False
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise UsageError(
                f"--tee {path} cannot be written ({error.strerror}); choose a file in a folder that is yours."
            ) from None

    def offer(self, chunk: bytes) -> None:
        """Keep ``chunk``; returns at once unless the backlog is full, then after ``PATIENCE_S`` at most."""
        with self._change:
            if self._waiting_bytes + len(chunk) > BACKLOG_BYTES and not self._make_room(len(chunk)):
                self.missing_bytes += len(chunk)
                return
            self._overrun = False
            self._waiting.append(chunk)
            self._waiting_bytes += len(chunk)
            self._change.notify_all()

    def _make_room(self, size: int) -> bool:
        """Wait for room, once a stall: while the disk hangs every later chunk is given up at once."""
        room = BACKLOG_BYTES - size
        if not self._overrun and self._change.wait_for(lambda: self._waiting_bytes <= room, PATIENCE_S):
            return True
        if not self._overrun:
            self._overrun = True
            self._say(f"{self.path} cannot be written as fast as the log comes; some of it will be missing there.")
        return False

    def run(self) -> None:
        """Write what is offered, in order."""
        while True:
            with self._change:
                self._change.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    return
                chunk = self._waiting[0]
            self._write(chunk)
            with self._change:
                self._waiting.popleft()
                self._waiting_bytes -= len(chunk)
                self._change.notify_all()

    def _write(self, chunk: bytes) -> None:
        view = memoryview(chunk)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            self.missing_bytes += len(view)
            if not self._failing:
                self._say(
                    f"{self.path} cannot be written ({error.strerror}); reading goes on, the file lacks what follows."
                )
            self._failing = True
        else:
            if self._failing:
                self._say(f"{self.path} is written again; {self.missing_bytes:,} bytes are missing in it.")
            self._failing = False

    def close(self, timeout_s: float | None = None) -> None:
        """Write what waits, for ``timeout_s`` seconds at most."""
        with self._change:
            self._closing = True
            self._change.notify_all()
        self.join(timeout_s)
