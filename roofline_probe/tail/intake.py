"""What happens to the bytes as they are read: kept, scanned for the lines that matter, looked through for warnings.

The result is a ``Parcel``, a hundredth of the log's size, and the parsing of it is somebody else's work: another
thread's, or, where a second core is there, the parent process's (``forked``).
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from log_parsers.decode import Decoder
from log_parsers.scan import Scanned, Scanner
from roofline_probe.tail.notices import LineWatch
from roofline_probe.tail.tee import Tee


@dataclass(frozen=True, slots=True)
class Parcel:
    """What one block of the log holds for us."""

    scanned: tuple[Scanned, ...] = ()
    """The last part of the last parcel ``ends``."""
    lines: tuple[bytes, ...] = ()
    """Raw lines of the engine that a person should see."""
    not_shown: int = 0
    """Lines between them that were left out."""
    warnings: int = 0
    errors: int = 0
    """Counts since the beginning."""
    said: tuple[str, ...] = ()
    """Sentences of ours."""
    caught_up: bool = False
    """All that a file held has been read: from here on it is live."""
    fault: str | None = None
    """The traceback of a bug of ours: from here on the log is only kept."""

    def __len__(self) -> int:
        """Bytes of the lines it carries, and a little: what waits to be parsed is bounded by it."""
        return 100 + sum(len(line) for part in self.scanned for _, line in part.found)


class Intake:
    """Bytes in, parcels out. Never raises on content, and never waits for a disk."""

    def __init__(self, scanner: Scanner, name: str, watch: LineWatch | None = None, tee: Tee | None = None) -> None:
        """``name`` is what to call the input. ``tee`` is started and closed here: its thread must live in the process
        that reads."""
        self._name = name
        self._scanner = scanner
        self._watch = watch
        self._tee = tee
        self._decoder = Decoder()
        self._said: list[str] = []
        self._failed = False

    def parcels(self, blocks: Iterable[bytes]) -> Iterator[Parcel]:
        """One parcel a block, and one for the end. An empty block says that all that a file held has been read."""
        if self._tee is not None:
            self._tee.start()
        for block in blocks:
            yield self._take(block) if block else Parcel(caught_up=True)
        yield self._end()

    def say(self, sentence: str) -> None:
        """Send a sentence along with the next parcel (the tee's thread calls this)."""
        self._said.append(sentence)

    def close(self, timeout_s: float | None = None) -> None:
        """Let the tee write what waits; for an end before the input's."""
        if self._tee is not None:
            self._tee.close(timeout_s)

    def _take(self, block: bytes) -> Parcel:
        if self._tee is not None:
            self._tee.offer(block)
        if self._failed:
            return Parcel()
        try:
            return self._parcel(tuple(self._scan(text) for text in self._decoder.feed(block)))
        except Exception:
            self._failed = True
            return Parcel(fault=traceback.format_exc())

    def _end(self) -> Parcel:
        scanned = []
        if not self._failed:
            scanned = [self._scan(text) for text in self._decoder.close()]
            problems = tuple(f"{self._name}: {sentence}" for sentence in self._decoder.problems)
            scanned.append(self._scanner.end()._replace(problems=problems))
        if self._watch is not None:
            self._watch.close()
        self.close()
        return self._parcel(tuple(scanned))

    def _scan(self, text: bytes | bytearray | memoryview) -> Scanned:
        if self._watch is not None:
            self._watch.feed(text if isinstance(text, bytes) else bytes(text))
        return Scanned(self._scanner.feed(text), self._scanner.lines, self._scanner.bytes_read)

    def _parcel(self, scanned: tuple[Scanned, ...]) -> Parcel:
        said = tuple(self._said)
        del self._said[: len(said)]  # the tee's thread may have added one since
        if self._watch is None:
            return Parcel(scanned, said=said)
        lines, not_shown = self._watch.take()
        return Parcel(scanned, lines, not_shown, self._watch.warnings, self._watch.errors, said)
