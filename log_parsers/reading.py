"""Whole logs from files, archives, directories and streams: what ``log_parsers.parse`` returns.

A long log is searched in one process, parsed in a second, and its steps are used in this one, all at the same time; the
steps, the facts and the counts are the same (a test holds them to it).
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from log_parsers.apart import apart, can_fork
from log_parsers.engines import check_engine
from log_parsers.frozen import quick
from log_parsers.sources import displayed, expand, open_blocks
from log_parsers.stated import Stated
from log_parsers.step import LogFacts, ScanReport, ServingStep

if TYPE_CHECKING:
    from log_parsers.scan import Scanned, Scanner
    from log_parsers.stream import LogStream

Source = str | os.PathLike[str] | BinaryIO

_WORTH_A_PROCESS = 64 << 20
"""From this size on, a second process saves more than it costs."""
_PACKED_TIMES = 8
"""An archive holds about so many times its own size of text."""
_AT_ONCE = 256
"""Steps handed over at once."""
_make_step = quick(ServingStep)
_values = attrgetter(*(field.name for field in dataclasses.fields(ServingStep)))


class ParsedLog:
    """Steps of one or several logs, read while iterating.

    ``facts`` holds what the logs have stated up to the step just yielded, and everything afterwards; ``report``
    likewise (where a log is read in a process of its own, it may be a few hundred steps ahead).
    """

    def __init__(self, sources: tuple[Source, ...], engine: str | None, now: datetime | None) -> None:
        check_engine(engine)
        self._sources, self._engine, self._now = sources, engine, now
        self._found: list[Sequence[Source]] | None = None
        """The logs, once ``start`` or ``check`` has looked for them and until they are read."""
        self._begun: Iterator[_Batch] | None = None
        self._twins: list[str] = []
        self._read: list[LogStream | _Batch] = []
        self._stated = Stated()

    def start(self) -> ParsedLog:
        """Begin now to read a first log that is long enough for a process of its own, so that it is read while the
        caller does something else first. Whatever is wrong with the sources is said when they are iterated.
        """
        with contextlib.suppress(OSError):
            for parts in self._find()[:1]:
                if _are_long(parts) and can_fork():
                    self._begun = apart(_batches(self._stream, parts))
        return self

    def check(self) -> None:
        """Raises OSError, as iterating would, if a source cannot be found."""
        self._find()

    def _find(self) -> list[Sequence[Source]]:
        if self._found is None:
            self._found, self._twins = _logs(self._sources)
        return self._found

    @property
    def facts(self) -> list[LogFacts]:
        """One entry per log and run, in the order read; an entry is the same object until its run states more."""
        return list(self._stated.entries)

    def facts_of(self, step: ServingStep) -> LogFacts | None:
        """What the log had stated about the run of the step just yielded; the same object until it states more."""
        return self._stated.of(step)

    @property
    def report(self) -> ScanReport:
        """Counts and problems of all that has been read."""
        total = ScanReport(only_engine=self._engine, problems=list(self._twins))
        for log in self._read:
            _add(total, log.report)
        return total

    def __iter__(self) -> Iterator[ServingStep]:
        self._read, self._stated = [], Stated()
        logs, self._found = self._find(), None
        for parts in logs:
            begun, self._begun = self._begun, None  # of the first log
            if begun is not None:
                yield from self._received(begun)
            elif _are_long(parts) and can_fork():
                yield from self._received(apart(_batches(self._stream, parts)))
            else:
                stream = self._stream(parts, self._stated)
                self._read.append(stream)
                yield from _steps(stream, parts, _scanned(stream.scanner, parts))

    def _stream(self, parts: Sequence[Source], stated: Stated | None = None) -> LogStream:
        from log_parsers.stream import LogStream  # with all grammars: not where another process will need them

        return LogStream(_name(parts[0]), self._engine, now=self._now, stated=stated)

    def _received(self, batches: Iterable[_Batch]) -> Iterator[ServingStep]:
        self._stated.begin()
        self._read.append(_Batch([], {}, ScanReport()))
        for batch in batches:
            self._read[-1] = batch
            for run, facts in batch.changes.items():
                self._stated.put(run, facts)
            for values in batch.steps:
                yield _make_step(*values)


class _Batch(NamedTuple):
    """What is handed over from the process that reads."""

    steps: list[tuple[Any, ...]]
    changes: dict[int, LogFacts]
    """What was stated since the batch before and before these steps, by run."""
    report: ScanReport


def _scanned(scanner: Scanner, parts: Sequence[Source]) -> Iterator[Scanned]:
    for part in parts:
        report = ScanReport()
        for block in open_blocks(part, report):
            yield scanner.scan(block)
        yield scanner.end(report.problems)


def _steps(stream: LogStream, parts: Sequence[Source], scanned: Iterator[Scanned]) -> Iterator[ServingStep]:
    names = iter([_name(part) for part in parts[1:]])
    for piece in scanned:
        if piece.ends:
            yield from stream.take_end(piece)
            stream.source = next(names, stream.source)
        else:
            yield from stream.take(piece.found, piece.lines, piece.bytes_read)
    yield from stream.flush()


def _batches(open_stream: Callable[[Sequence[Source]], LogStream], parts: Sequence[Source]) -> Iterator[_Batch]:
    """Steps in batches, each with the facts that hold for all of it; the text is searched in yet another process."""
    stream = open_stream(parts)
    batch = _Batch([], {}, stream.report)
    for step in _steps(stream, parts, apart(_scanned(stream.scanner, parts))):
        changes = stream.stated.take_changes()
        if batch.steps and (changes or len(batch.steps) >= _AT_ONCE):
            yield batch
            batch = _Batch([], {}, stream.report)
        batch.changes.update(changes)
        batch.steps.append(_values(step))
    yield batch
    yield _Batch([], stream.stated.take_changes(), stream.report)


def _are_long(parts: Sequence[Source]) -> bool:
    """By the files' sizes; what is not a file may end any time."""
    size = 0
    for part in parts:
        if not isinstance(part, (str, os.PathLike)) or not os.path.isfile(part):
            return False
        packed = os.fspath(part).endswith((".gz", ".zst", ".xz", ".bz2"))
        size += os.path.getsize(part) * (_PACKED_TIMES if packed else 1)
    return size >= _WORTH_A_PROCESS


def _logs(sources: Iterable[Source]) -> tuple[list[Sequence[Source]], list[str]]:
    """The logs to read, each as its rotated parts, and what to say of them; an open stream is one by itself."""
    twins: list[str] = []
    paths = [os.fspath(source) for source in sources if isinstance(source, (str, os.PathLike))]
    streams = [source for source in sources if not isinstance(source, (str, os.PathLike))]
    return [*expand(paths, twins.append), *([stream] for stream in streams)], twins


def _name(source: Source) -> str:
    if isinstance(source, (str, os.PathLike)):
        return displayed(os.fspath(source))
    return str(getattr(source, "name", "-"))


def _add(total: ScanReport, report: ScanReport) -> None:
    for name in ("bytes_read", "lines", "candidate_lines", "steps", "throughput_lines", "mfu_lines"):
        setattr(total, name, getattr(total, name) + getattr(report, name))
    for reason, count in report.dropped.items():
        total.dropped[reason] = total.dropped.get(reason, 0) + count
    total.problems += report.problems


def parse(*sources: Source, engine: str | None = None, now: datetime | None = None) -> ParsedLog:
    """Steps of log files: paths, globs, directories of rotated parts, archives, ``-`` or open binary files.

    Rotated parts of one log are one run that goes on, in time order; logs with start-ups of their own are separate.
    Nothing is read before iteration (or ``start``). Raises ValueError for an unknown ``engine``; while iterating,
    OSError for what cannot be found, opened or read; never on content.
    """
    return ParsedLog(sources, engine, now)
