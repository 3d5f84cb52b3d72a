"""Which of the engine's own lines a person should see while the log streams by: warnings and errors, or all of them."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Sequence

import stringzilla as sz

from log_parsers.unwrap import plain

LEVELS = (b"WARNING", b"ERROR", b"CRITICAL", b"Traceback (most recent call last)")
KEPT_LINES = 200
"""Lines held for a display that is slower than the log; older ones are counted as not shown."""
PARCEL_LINES = 50
"""Lines kept of one block: a screen's height. At 50 MB/s nobody reads more."""
LINE_BYTES = 4096
TRACEBACK_LINES = 40
_HEAD = re.compile(
    rb"[^'\"`{]{0,200}?\b(WARNING|ERROR|CRITICAL)\b(?=[\s:\]|-])|[^'\"`{]{0,200}?(Traceback) \(most recent call last\)"
)
_CALM = re.compile(rb"\b(INFO|DEBUG)\b")


class LineWatch:
    """Finds warnings and errors in a stream of blocks, or passes every line; memory is bounded.

    A line counts by its record's head: an echoed prompt that contains ``ERROR`` is not one. SGLang prints no level, so
    of its errors the tracebacks are seen.
    """

    def __init__(self, pass_all: bool = False) -> None:
        self.warnings = 0
        self.errors = 0
        self.not_shown = 0
        self._pass_all = pass_all
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self._in_traceback = 0

    def feed(self, chunk: bytes) -> None:
        """Look at the complete lines of ``chunk``; an unfinished last one waits for its rest (up to ``LINE_BYTES``)."""
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._rest = (self._rest + chunk)[:LINE_BYTES]
            return
        block = self._rest + chunk[:end] if self._rest else chunk[:end] if end < len(chunk) else chunk
        self._rest = chunk[end : end + LINE_BYTES]
        self._scan(block)
        if self._pass_all:
            self._keep_all(block)

    def close(self) -> None:
        """Take the unfinished last line for a whole one."""
        if self._rest:
            self.feed(b"\n")

    def take(self) -> tuple[tuple[bytes, ...], int]:
        """Lines to show since the last call, as logged, and how many were dropped between them."""
        lines, dropped = tuple(self._lines), self.not_shown
        self._lines.clear()
        self.not_shown = 0
        return lines, dropped

    def _scan(self, block: bytes) -> None:
        position = self._follow_traceback(block, 0)
        found = sorted({start for level in LEVELS for start in _line_starts(block, level)})
        for start in found:
            if start < position:
                continue
            end = block.index(b"\n", start)
            level = _level(block[start : min(end, start + LINE_BYTES)])
            if level is not None:
                self._count(level)
                self._keep(block[start:end])
            if level == b"Traceback":
                self._in_traceback = TRACEBACK_LINES
                position = self._follow_traceback(block, end + 1)

    def _follow_traceback(self, block: bytes, position: int) -> int:
        """Keep a traceback's indented lines and the exception's own line behind them."""
        while self._in_traceback and position < len(block):
            end = block.index(b"\n", position)
            line = block[position:end]
            self._keep(line)
            self._in_traceback = self._in_traceback - 1 if line[:1] in (b" ", b"\t") else 0
            position = end + 1
        return position

    def _count(self, level: bytes) -> None:
        if level == b"WARNING":
            self.warnings += 1
        else:
            self.errors += 1

    def _keep(self, line: bytes) -> None:
        if not self._pass_all:
            self._append(line)

    def _keep_all(self, block: bytes) -> None:
        lines = block.rsplit(b"\n", PARCEL_LINES + 1)  # only what can still be shown is taken apart
        self.not_shown += lines[0].count(b"\n") + 1 if len(lines) > PARCEL_LINES + 1 else 0
        for line in lines[-(PARCEL_LINES + 1) : -1]:
            self._append(line)

    def _append(self, line: bytes) -> None:
        self._lines.append(line[:LINE_BYTES])
        if len(self._lines) > PARCEL_LINES:
            self._lines.popleft()
            self.not_shown += 1


class NoticeBoard:
    """Lines on their way from the reading thread to the one that shows them: the last ``KEPT_LINES``, safe to show."""

    def __init__(self) -> None:
        self.warnings = 0
        self.errors = 0
        self._lines: deque[bytes] = deque()
        self._not_shown = 0
        self._swap = threading.Lock()

    def put(self, lines: Sequence[bytes], not_shown: int = 0) -> None:
        """Add lines, and how many were left out before them."""
        with self._swap:
            self._not_shown += not_shown
            self._lines.extend(lines)
            while len(self._lines) > KEPT_LINES:
                self._lines.popleft()
                self._not_shown += 1

    def take(self) -> tuple[list[str], int]:
        """The lines since the last call without escapes and controls, and how many were dropped among them."""
        with self._swap:
            lines, self._lines = self._lines, deque()
            not_shown, self._not_shown = self._not_shown, 0
        return [plain(line.decode("utf-8", "replace")) for line in lines], not_shown


def _line_starts(block: bytes, needle: bytes) -> list[int]:
    text, starts = sz.Str(block), []
    position = text.find(needle)
    while position >= 0:
        starts.append(block.rfind(b"\n", 0, position) + 1)
        end = block.find(b"\n", position)
        position = text.find(needle, end) if end >= 0 else -1
    return starts


def _level(line: bytes) -> bytes | None:
    if b"\x1b" in line:
        line = plain(line.decode("utf-8", "replace")).encode()
    match = _HEAD.match(line)
    if match is None or _CALM.search(line, 0, match.start(match.lastindex or 0)):
        return None
    return match[match.lastindex or 0]
