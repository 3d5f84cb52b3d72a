"""The fast path: which lines of a stream of blocks hold one of a few literal needles.

A server log is almost all request dumps and access lines; one line in hundreds says what the engine did. So whole
blocks are searched for literals with SIMD instructions (about 0.1 s per gigabyte and needle on one server core),
newlines are counted likewise, and only lines that hold a needle are ever made into Python objects.

Memory is bounded whatever the input: a line longer than ``LONG_LINE`` is never kept whole. And the result does not
depend on how the text is cut into blocks: every rule here is in terms of lines and their byte offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import stringzilla as sz

Found = list[tuple[int, bytes]]
"""Lines with a needle: 1-based number (counted by newline bytes), text without its newline."""

LONG_LINE = 1 << 20
"""A line of more bytes than this is delivered cut: engines' own lines stay far below, echoed prompts do not."""
HEAD = 4 << 10
"""Bytes kept of a long line's beginning: what wraps the line stands there."""
BEFORE = AFTER = 32 << 10
"""Bytes kept on either side of the beginning of a long line's last needle."""
FROM_START = 16 << 20
"""Local needles are looked for in the first so many bytes whatever precedes them: a server starts up there."""
GAP = b" [...] "
"""Stands for what was left out of a long line."""
_SEGMENT = 4 << 20
"""Blocks are searched in parts of at most about this size: each needle is one pass, and a part stays in the cache."""


class Scanned(NamedTuple):
    """What a scanner has found since the last time, and how far it has come."""

    found: Found
    lines: int
    bytes_read: int
    ends: bool = False
    """The text ends here: behind the last line there is no newline."""
    cut_lines: int = 0
    problems: tuple[str, ...] = ()
    """What was wrong with the text's source."""


@dataclass(frozen=True)
class Local:
    """Needles that occur only near certain other lines, so that the rest of the log need not be searched for them.

    They count in lines that begin less than ``within`` bytes after the beginning of an earlier line that holds one of
    ``after`` (each of which must hold one of the scanner's own needles), or less than ``FROM_START`` bytes from the
    beginning of the text. With ``stays``, a line found this way opens all the rest of the text.
    """

    needles: tuple[bytes, ...]
    after: tuple[bytes, ...]
    within: int
    stays: bool = False


class _LineSink(Protocol):
    """Takes one long line piece by piece."""

    cut_lines: int

    def feed(self, block: bytes | bytearray | memoryview, /) -> Found: ...
    def close(self) -> Found: ...


class _Reach:
    """How far one ``Local`` is open: lines that begin before ``until`` (an offset in the whole text) count."""

    def __init__(self, rule: Local, everywhere: Sequence[bytes]) -> None:
        self.rule = rule
        self.needles = tuple(needle for needle in rule.needles if needle not in everywhere)
        self.until: float = FROM_START

    def intervals(self, base: int, part: _Part) -> list[tuple[int, int]]:
        """The open stretches of ``part`` (positions in it; each counts the lines that begin inside it), merged."""
        merged = [(part.start, min(self.until - base, part.stop))]
        for begin in sorted(begin for needle in self.rule.after for begin in part.lines_with[needle]):
            low, high = part.spans[begin] + 1, min(begin + self.rule.within, part.stop)
            if low <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], high))
            else:
                merged.append((low, high))
        return [(low, int(high)) for low, high in merged if low < high]

    def advance(self, base: int, part: _Part) -> None:
        """Remember for the following parts what this one opened."""
        if self.rule.stays and any(part.lines_with[needle] for needle in self.needles):
            self.until = float("inf")
        begins = [part.lines_with[needle][-1] for needle in self.rule.after if part.lines_with[needle]]
        if begins:
            self.until = max(self.until, base + max(begins) + self.rule.within)


class _Part:
    """One searched stretch of a block that consists of whole lines, each ended by ``separator``."""

    def __init__(self, text: sz.Str, start: int, stop: int, separator: bytes) -> None:
        self.text, self.start, self.stop, self.separator = text, start, stop, separator
        self.spans: dict[int, int] = {}
        """Beginning -> end of every line that holds a needle."""
        self.lines_with: dict[bytes, list[int]] = {}

    def search(self, needles: Iterable[bytes], low: int, high: int) -> None:
        """Note the lines in ``low`` to ``high`` (which begin and end lines) that hold one of ``needles``."""
        find, rfind, separator = self.text.find, self.text.rfind, self.separator
        for needle in needles:
            begins = self.lines_with.setdefault(needle, [])
            at = find(needle, low, high)
            while at >= 0:
                begin = rfind(separator, low, at) + 1 or low
                end = find(separator, at, high)
                self.spans[begin] = end
                begins.append(begin)
                at = find(needle, end + 1, high)

    def search_found(self, needles: Iterable[bytes]) -> None:
        """Note which of the lines found so far hold one of ``needles``."""
        for needle in needles:
            if needle not in self.lines_with:
                held = (begin for begin, end in self.spans.items() if self.text.find(needle, begin, end) >= 0)
                self.lines_with[needle] = sorted(held)

    def search_local(self, reach: _Reach, base: int) -> None:
        """Note the lines that a ``Local`` finds in its open stretches."""
        needles = reach.needles
        for needle in needles:
            self.lines_with.setdefault(needle, [])
        for low, high in reach.intervals(base, self):
            self.search(needles, low, self.text.find(self.separator, high - 1, self.stop) + 1)
            if reach.rule.stays and (begins := [self.lines_with[n][0] for n in needles if self.lines_with[n]]):
                self.search(needles, min(begins), self.stop)
                return

    def first_long(self) -> tuple[int, int] | None:
        """The first noted line that is too long to be kept whole."""
        return min(((begin, end) for begin, end in self.spans.items() if end - begin > LONG_LINE), default=None)


class Scanner:
    """Find the lines that hold a needle in a text that arrives in blocks of any size.

    ``needles`` are searched everywhere, so they should be few and rare; ``local`` ones only where they can occur.
    A line longer than ``LONG_LINE`` is delivered as those of its stretches between carriage returns that hold a needle
    (an engine's line among the states of a progress bar), all under the number of the line; a stretch that is itself
    too long, as its head and what surrounds its last needle.
    """

    def __init__(self, needles: Sequence[bytes], local: Sequence[Local] = (), *, _separator: bytes = b"\n") -> None:
        every = [*needles, *(needle for rule in local for needle in rule.needles)]
        if not all(needle and b"\n" not in needle and b"\r" not in needle for needle in every):
            raise ValueError("a needle must not be empty nor reach over the end of a line")
        self._openers = tuple(dict.fromkeys(opener for rule in local for opener in rule.after))
        if not all(any(needle in opener for needle in needles) for opener in self._openers):
            raise ValueError("what opens local needles must itself hold a needle that is searched everywhere")
        self.lines = 0
        """Lines seen to their end; after ``close`` also a last one that no newline ended."""
        self.bytes_read = 0
        self.cut_lines = 0
        """Delivered lines with something left out of their middle."""
        self._needles = tuple(dict.fromkeys(needles))
        self._reaches = [_Reach(rule, needles) for rule in local]
        self._separator = _separator
        self._offset = 0  # where, in the whole text, the first line begins that is not yet searched
        self._pending = bytearray()  # its beginning, if its end has not arrived
        self._long: _LineSink | None = None  # or what takes it, once it is too long to be held

    def feed(self, block: bytes | bytearray | memoryview) -> Found:
        """Take the next block; return the lines with a needle that end in it. The block may be reused afterwards."""
        found: Found = []
        view = memoryview(block)
        self.bytes_read += len(view)
        for low in range(0, len(view), _SEGMENT):
            self._take(view[low : low + _SEGMENT], found)
        return found

    def close(self) -> Found:
        """End of the text: the last line, if no newline ended it and it holds a needle."""
        found: Found = []
        if self._pending or self._long:
            self._end_line(b"", found)
        return found

    def scan(self, block: bytes | bytearray | memoryview) -> Scanned:
        """``feed``, with how far it has come."""
        return Scanned(self.feed(block), self.lines, self.bytes_read)

    def end(self, problems: Sequence[str] = ()) -> Scanned:
        """``close``, and be ready for a text that continues this one: counts begin anew, what is open stays open."""
        found = self.close()
        scanned = Scanned(found, self.lines, self.bytes_read, True, self.cut_lines, tuple(problems))
        self.lines = self.bytes_read = self.cut_lines = 0
        return scanned

    def _take(self, view: memoryview, found: Found) -> None:
        text = sz.Str(view)
        start, stop = 0, text.rfind(self._separator) + 1
        if stop and (self._pending or self._long):
            start = text.find(self._separator) + 1
            self._end_line(view[: start - 1], found)
        if start < stop:
            self._search(view, text, start, stop, found)
        if stop < len(view):
            self._hold(view[stop:], found)

    def _search(self, view: memoryview, text: sz.Str, start: int, stop: int, found: Found) -> None:
        """Search whole lines, except that a long one is taken like one that arrives piece by piece."""
        while start < stop:
            part = _Part(text, start, stop, self._separator)
            part.search(self._needles, start, stop)
            part.search_found(self._openers)
            for reach in self._reaches:
                part.search_local(reach, self._offset - start)
            long = part.first_long()
            if long is None:
                self._deliver(part, view, found)
                return
            self._search(view, text, start, long[0], found)
            self._hold(view[long[0] : long[1]], found)
            self._end_line(b"", found)
            start = long[1] + 1

    def _deliver(self, part: _Part, view: memoryview, found: Found) -> None:
        count, separator, at = part.text.count, self._separator, part.start
        for begin in sorted(part.spans):
            self.lines += count(separator, at, begin)
            found.append((self.lines + 1, view[begin : part.spans[begin]].tobytes()))
            at = begin
        self.lines += count(separator, at, part.stop)
        for reach in self._reaches:
            reach.advance(self._offset - part.start, part)
        self._offset += part.stop - part.start

    def _hold(self, piece: memoryview | bytes, found: Found) -> None:
        """Keep a piece of a line whose end has not arrived, or what is needed of it once the line gets long."""
        if self._long is None:
            self._pending += piece
            if len(self._pending) <= LONG_LINE:
                return
            piece = bytes(self._pending)
            self._pending.clear()
            self._long = self._long_line()
        self._offset += len(piece)
        found += [(self.lines + 1, line) for _, line in self._long.feed(piece)]

    def _long_line(self) -> _LineSink:
        needles = list(self._needles)
        for reach in self._reaches:
            needles += reach.needles if self._offset < reach.until else ()
        return Scanner(needles, _separator=b"\r") if self._separator == b"\n" else _Window(needles)

    def _end_line(self, piece: memoryview | bytes, found: Found) -> None:
        """``piece`` is the rest of the line held back so far."""
        self._hold(piece, found)
        if self._long is None:
            line = bytes(self._pending) + self._separator
            self._pending.clear()
            self._search(memoryview(line), sz.Str(line), 0, len(line), found)
            return
        found += [(self.lines + 1, line) for _, line in self._long.close()]
        self.cut_lines += self._long.cut_lines
        self._long = None
        self._offset += 1
        self.lines += 1


class _Window:
    """Takes a stretch of any length without a line end; delivers its head and what surrounds its last needle."""

    _STEP = 256 << 10  # small pieces are gathered up to this before they are searched: linear time for any chunking

    def __init__(self, needles: Sequence[bytes]) -> None:
        self.cut_lines = 0
        self._needles = needles
        self._overlap = max(map(len, needles), default=0)
        self._head = b""
        self._new = bytearray()
        self._tail = b""  # of what was searched: a needle may begin in it, and it precedes the next one
        self._searched = 0
        self._hit = -1  # where, in the stretch, the last needle begins
        self._window = b""
        self._missing = 0  # bytes of the window that have not arrived

    def feed(self, block: bytes | bytearray | memoryview) -> Found:
        self._new += block
        if len(self._new) >= self._STEP:
            self._drain()
        return []

    def close(self) -> Found:
        self._drain()
        if self._hit < 0:
            return []
        begin = max(0, self._hit - BEFORE)
        if begin <= len(self._head):
            cut = self._head[:begin] + self._window
        else:
            cut = self._head + GAP + self._window
        self.cut_lines = int(len(cut) != self._searched)
        return [(1, cut)]

    def _drain(self) -> None:
        new = bytes(self._new)
        self._new.clear()
        self._head += new[: HEAD - len(self._head)]
        self._window += new[: self._missing]
        self._missing -= min(self._missing, len(new))
        text = self._tail + new
        base = self._searched - len(self._tail)
        hit = max((text.rfind(needle) for needle in self._needles), default=-1)
        if hit >= 0 and base + hit > self._hit:
            self._hit = base + hit
            self._window = text[max(0, hit - BEFORE) : hit + AFTER]
            self._missing = max(0, hit + AFTER - len(text))
        self._searched += len(new)
        self._tail = text[-(BEFORE + self._overlap) :]
