"""The terminal of ``probe tail``, drawn by a thread of its own.

A terminal can stop (Ctrl-S, a hung ssh) and then a write to it never returns. Only this thread writes there; it takes a
snapshot when it is able to draw, so a stopped terminal costs frames and nothing else.
"""

from __future__ import annotations

import io
import itertools
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.live import Live
from rich.text import Text

from roofline_probe.point import Point
from roofline_probe.report.console import ascii_only, make_console
from roofline_probe.report.live import frame
from roofline_probe.report.live_rows import Canvas
from roofline_probe.report.text import clean, count
from roofline_probe.tail.outlet import Outlet
from roofline_probe.tail.state import Snapshot

if TYPE_CHECKING:
    from roofline_probe.tail.session import Session

FRAME_S = 0.5
_DIGITS = re.compile(r"\d+")
STOP_S = 1.0
"""How long the end waits for the drawing thread: it may be stuck in a stopped terminal for ever."""


class Terminal(io.TextIOBase):
    """Text to a descriptor without Python's buffer, whose lock a stuck writer would hold when the process ends."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._parts: list[str] = []
        self.gone = False

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """That of the locale, as for stdout."""
        import sys

        return sys.stdout.encoding or "utf-8"

    def fileno(self) -> int:
        """The descriptor."""
        return self._fd

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return os.isatty(self._fd)

    def writable(self) -> bool:
        """Yes."""
        return True

    def write(self, text: str) -> int:
        """Keep until flushed: one frame is one write."""
        self._parts.append(text)
        return len(text)

    def flush(self) -> None:
        """Write what was kept; a terminal that hung up is marked gone."""
        data = memoryview("".join(self._parts).encode(self.encoding, "replace"))
        self._parts.clear()
        try:
            while data and not self.gone:
                data = data[os.write(self._fd, data) :]
        except OSError:
            self.gone = True


class Screen:
    """A live view on stdout; sentences and the engine's notable lines scroll by above it."""

    def __init__(
        self,
        snapshot: Callable[[Session], Snapshot],
        *,
        quiet: bool = False,
        frame_s: float = FRAME_S,
    ) -> None:
        """``snapshot`` is called on the drawing thread."""
        self._snapshot = snapshot
        self._quiet = quiet
        self._frame_s = frame_s
        self._terminal = Terminal(1)
        self._console = make_console(self._terminal)  # type: ignore[arg-type]
        self._sentences: deque[str] = deque(maxlen=50)
        self._err = Outlet(2, memory_bytes=1 << 20)
        self._drawing = threading.Event()
        self._thread = threading.Thread(target=self._draw, name="probe-screen", daemon=True)
        self._session: Session | None = None
        self.failure: Exception | None = None
        """A fault of ours that ended the drawing; the log is read on."""

    @property
    def closed(self) -> bool:
        """Whether the terminal went away."""
        return self._terminal.gone

    def start(self, session: Session) -> None:
        """Begin to draw."""
        self._session = session
        self._drawing.set()
        self._err.start()
        self._thread.start()

    def point(self, point: Point) -> None:
        """Nothing: the next frame's snapshot has it."""

    def settle(self) -> None:
        """Nothing."""

    def say(self, sentence: str) -> None:
        """Above the view while it is drawn, on stderr afterwards."""
        if self._drawing.is_set():
            self._sentences.append(sentence)
        elif not self._quiet:
            self._err.put(f"probe: {clean(sentence, 2000)}\n".encode())

    def stop(self) -> None:
        """Draw a last frame and leave it standing; sentences go to stderr from now on."""
        if self._drawing.is_set():
            self._drawing.clear()
            self._thread.join(STOP_S)

    def flush(self, timeout_s: float | None) -> None:
        """Let the last sentences out."""
        self._err.close(STOP_S)

    def _draw(self) -> None:
        try:
            self._draw_frames()
        except Exception as error:
            self.failure = error
            self._drawing.clear()

    def _draw_frames(self) -> None:
        while self._seen():
            size = self._console.size
            with Live(console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
                live.vertical_overflow = "crop"
                while self._seen() and self._console.size == size:
                    self._draw_frame(live)
                    self._pause(time.monotonic() + self._frame_s)
                if not self._seen():
                    self._draw_frame(live)
            if self._seen():  # resized: the terminal has wrapped the old frame, and its rows are not where they were
                self._console.clear()

    def _seen(self) -> bool:
        return self._drawing.is_set() and not self._terminal.gone

    def _draw_frame(self, live: Live) -> None:
        self._print_above()
        live.update(self._frame(), refresh=True)

    def _pause(self, until: float) -> None:
        """Until the next frame is due, looking up often enough that the end does not wait for it."""
        while self._drawing.is_set() and (left := until - time.monotonic()) > 0:
            time.sleep(min(0.05, left))

    def _frame(self) -> Text:
        assert self._session is not None
        size = self._console.size
        return frame(self._snapshot(self._session), Canvas(size.width, size.height, ascii_only(self._console)))

    def _print_above(self) -> None:
        board = self._session.pump.board if self._session is not None else None
        lines, dropped = board.take() if board is not None else ([], 0)
        shown = [Text(line, style="yellow" if " WARNING " in line else "") for line in folded(lines)]
        if dropped:
            shown.append(Text(f"… {dropped:,} lines not shown", style="dim"))
        while self._sentences:
            shown.append(Text(f"probe: {clean(self._sentences.popleft(), 2000)}", style="bold"))
        if shown:
            self._console.print(Text("\n").join(shown))


def folded(lines: list[str]) -> list[str]:
    """Lines made safe to show; neighbours that differ in their digits only (stamps, ports, pids) become one."""
    out = []
    for _, group in itertools.groupby(lines, key=lambda line: _DIGITS.sub("0", line)):
        first, *more = group
        out.append(clean(first, 2000) + (f" … and {count(len(more), 'line')} like it" if more else ""))
    return out
