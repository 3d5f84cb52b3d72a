"""From the parts of a log to the lines worth parsing, in this process or in one beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

from log_parsers.apart import apart, can_fork
from log_parsers.scan import Found, Scanner
from log_parsers.sources import open_blocks
from log_parsers.step import ScanReport

Source = str | os.PathLike[str] | BinaryIO

_WORTH_A_PROCESS = 64 << 20
"""From this size on, searching a log in a second process saves more than the process costs."""
_PACKED_TIMES = 8
"""An archive holds at least about so many times its own size."""


class Scanned(NamedTuple):
    """What a scanner has found since the last time."""

    found: Found
    lines: int
    """Of this part, so far."""
    bytes_read: int
    ends: bool = False
    """The part ends here: the last line found has no newline behind it."""
    problems: tuple[str, ...] = ()
    """What was wrong with the part."""

    @classmethod
    def by(cls, scanner: Scanner, found: Found) -> Scanned:
        """In the middle of a part."""
        return cls(found, scanner.lines, scanner.bytes_read)

    @classmethod
    def end(cls, scanner: Scanner, source: str, problems: Sequence[str] = ()) -> Scanned:
        """At the end of the part ``source``; the scanner is made ready for the next one."""
        found = scanner.close()
        cut = scanner.cut_lines
        cut_problem = [f"{source}: {cut:,} lines of more than a megabyte were read in part"] if cut else []
        scanned = cls(found, scanner.lines, scanner.bytes_read, True, (*problems, *cut_problem))
        scanner.next_text()
        return scanned


def scan_parts(parts: Sequence[Source], scanner: Scanner) -> Iterator[Scanned]:
    """Search the rotated parts of one log, in a second process where they are long and that is possible.

    Raises OSError for a part that cannot be opened or read.
    """
    scanned = _scan_parts(parts, scanner)
    return apart(scanned) if _are_long(parts) and can_fork() else scanned


def _scan_parts(parts: Sequence[Source], scanner: Scanner) -> Iterator[Scanned]:
    for part in parts:
        report = ScanReport()
        for block in open_blocks(part, report):
            yield Scanned.by(scanner, scanner.feed(block))
        yield Scanned.end(scanner, name_of(part), report.problems)


def _are_long(parts: Sequence[Source]) -> bool:
    """By the files' sizes; what is not a file may end any time."""
    size = 0
    for part in parts:
        if not isinstance(part, (str, os.PathLike)) or not os.path.isfile(part):
            return False
        packed = os.fspath(part).endswith((".gz", ".zst", ".xz", ".bz2"))
        size += os.path.getsize(part) * (_PACKED_TIMES if packed else 1)
    return size >= _WORTH_A_PROCESS


def name_of(source: Source) -> str:
    """What to call a source."""
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    return str(getattr(source, "name", "-"))
