"""Lines to steps and facts: the one path that saved files, pipes and live readers share.

``LogStream`` takes bytes in pieces of any size and returns the steps completed so far; ``parse`` reads whole sources
with it. The steps do not depend on how the bytes were cut.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from log_parsers.clock import Clock, Moment
from log_parsers.engines import Engine, Event, Line, Tracker, load_engines
from log_parsers.reading import Scanned, Source, name_of, scan_parts
from log_parsers.run import Run
from log_parsers.scan import Scanner
from log_parsers.sources import expand
from log_parsers.step import LogFacts, ScanReport, ServingStep
from log_parsers.unwrap import Unwrapper, plain
from log_parsers.wrappers import Bare

"""What ``parse`` reads: a path, a glob, a directory, ``-``, or an open binary file."""

WARNINGS = {
    "stats_disabled": "statistics are switched off (--disable-log-stats), so no throughput or MFU line is printed",
    "stats_disabled_api_servers": "more than one API server: vLLM switches statistics logging off",
    "aggregated_engines": "engines aggregated into one line (--aggregate-engine-logging): vLLM prints no MFU line then",
    "component_failed": "vLLM could not count a component of this model",
    "mfu_debug_type_error": "VLLM_DEBUG_MFU_METRICS raises a TypeError in this vLLM release (0.30 to 0.33)",
    "engine_crashed": "the engine crashed and dumped its input",
    "mfu_needs_enable_metrics": "SGLang's --enable-mfu-metrics has no effect without --enable-metrics",
    "log_level_hides_stats": "the log level hides the statistics lines",
}
"""Codes of ``LogFacts.warnings`` and what they mean."""

_LOOKALIKES = ("MFU: ", ": MFU", "Avg prompt t", "#running-req: ")
_ECHO = "looks like a statistics line, but no log record begins before it (an echoed prompt, a dump, or a torn line)"
_CUT = "the last line is cut"


class LogStream:
    """Incremental parser of one source; its steps are the same whatever the chunking.

    ``engine`` restricts the grammar to one engine by name (ValueError if there is none such); else every engine's
    lines are recognised. ``now`` is the reference for years that a log does not print (see ``clock.Clock``).
    """

    def __init__(
        self,
        source: str = "-",
        engine: str | None = None,
        *,
        now: datetime | None = None,
        report: ScanReport | None = None,
    ) -> None:
        self._engines = list(_choose(engine))
        self.source = source
        self._clock = Clock(now)
        needles = [needle for engine in self._engines for needle in engine.needles]
        local = [local for engine in self._engines for local in engine.local]
        self._unwrap = Unwrapper([*needles, *(needle for rule in local for needle in rule.needles)])
        self.scanner = Scanner(needles, local)
        self.report = report if report is not None else ScanReport()
        self._lines_before, self._bytes_before = self.report.lines, self.report.bytes_read
        self._runs: list[Run] = []
        self._current: dict[tuple[str, str], tuple[Run, Tracker]] = {}

    @property
    def facts(self) -> LogFacts:
        """What the latest run has stated so far."""
        return self._runs[-1].snapshot() if self._runs else LogFacts(source=self.source)

    @property
    def all_facts(self) -> list[LogFacts]:
        """Facts of every run seen so far, in order of appearance; a run over rotated parts bears the name of its
        first.
        """
        return [run.snapshot() for run in self._runs]

    def feed(self, data: bytes | bytearray | memoryview) -> list[ServingStep]:
        """Take the next piece of text (UTF-8 bytes); return the steps it completes."""
        return list(self.read(data))

    def read(self, data: bytes | bytearray | memoryview) -> Iterator[ServingStep]:
        """``feed``, step by step: while a step is looked at, ``facts`` holds what was stated before it and no more.

        To be iterated to its end before the next piece.
        """
        return self.take(Scanned.by(self.scanner, self.scanner.feed(data)))

    def take(self, scanned: Scanned) -> Iterator[ServingStep]:
        """``read`` for text that was searched elsewhere (``scan_parts``)."""
        self.report.lines = self._lines_before + scanned.lines
        self.report.bytes_read = self._bytes_before + scanned.bytes_read
        for number, line in scanned.found:
            if steps := self._line(number, line, whole=not scanned.ends):
                yield from self._count(steps)
        if scanned.ends:
            self._lines_before, self._bytes_before = self.report.lines, self.report.bytes_read
            self.report.problems += scanned.problems

    def close(self) -> list[ServingStep]:
        """End of the text: the steps of a last line without newline, and those that waited for a companion."""
        return [*self.take(Scanned.end(self.scanner, self.source)), *self.flush()]

    def flush(self) -> list[ServingStep]:
        """The steps that waited for a companion, once nothing more comes."""
        return self._count([step for _, tracker in self._current.values() for step in tracker.flush()])

    def next_part(self, source: str) -> list[ServingStep]:
        """Go on with the next rotated part of the same log: the runs continue, line numbers begin anew."""
        steps = list(self.take(Scanned.end(self.scanner, self.source)))
        self.source = source
        return steps

    def _count(self, steps: list[ServingStep]) -> list[ServingStep]:
        self.report.steps += len(steps)
        return steps

    def _line(self, number: int, line: bytes, whole: bool) -> list[ServingStep]:
        self.report.candidate_lines += 1
        bares = self._unwrap(line)
        if len(bares) == 1:
            return self._bare(number, bares[0], whole)
        return [step for bare in bares for step in self._bare(number, bare, whole)]

    def _bare(self, number: int, bare: Bare, whole: bool) -> list[ServingStep]:
        for engine in self._engines:
            event = engine.parse_line(bare)
            if event is not None:
                if engine is not self._engines[0]:  # no line is two engines' (a test holds them to it): last first
                    self._engines.remove(engine)
                    self._engines.insert(0, engine)
                return self._event(engine, event, number, bare, whole)
        if any(literal in bare.text for literal in _LOOKALIKES):
            self.report.drop(_ECHO)
        return []

    def _event(self, engine: Engine, event: Event, number: int, bare: Bare, whole: bool) -> list[ServingStep]:
        if event.kind == "broken":
            self.report.drop(event.values["reason"] if whole else _CUT)
            return []
        if not whole and _may_be_cut(bare.text):
            self.report.drop(_CUT)
            return []
        head = event.head
        at = self._clock.place(head.stamp, head.hint) if head and head.stamp else None
        key = (head.origin if head else "", engine.name)
        if event.kind in ("fact", "boundary", "warning"):
            return self._fact(engine, key, event.values, number, at)
        if event.kind == "hint":
            if key in self._current:
                self._current[key][0].learn(event.values)
            return []
        run, tracker = self._run(engine, key, number)
        if at is None and run.stamped and not bare.in_json:
            self.report.drop(_ECHO)  # where records carry a clock, one without is not a record
            return []
        run.stamped = run.stamped or at is not None
        return tracker.feed(event, Line(number, at, plain(bare.text)))

    def _run(self, engine: Engine, key: tuple[str, str], number: int) -> tuple[Run, Tracker]:
        current = self._current.get(key)
        if current is None:
            run = Run(self.source, len(self._runs), engine.name, number, self.report)
            self._runs.append(run)
            current = self._current[key] = (run, engine.tracker(run))
        current[0].part = self.source
        return current

    def _fact(
        self, engine: Engine, key: tuple[str, str], values: dict[str, Any], number: int, at: Moment | None
    ) -> list[ServingStep]:
        steps: list[ServingStep] = []
        boundary = values.get("boundary")
        if boundary is not None and key in self._current and _restarts(self._current[key][0], boundary, values):
            steps += self._current.pop(key)[1].flush()
        run, _ = self._run(engine, key, number)
        if boundary is not None:
            run.boundaries[boundary] = values
            values = {name: value for name, value in values.items() if name != "boundary"}
        run.learn(values)
        if not run.has_steps:
            run.started = at or run.started
        return steps


def _choose(engine: str | None) -> tuple[Engine, ...]:
    engines = load_engines()
    if engine is None:
        return tuple(engines.values())
    if engine not in engines:
        raise ValueError(f"no engine is called {engine!r}; known are {', '.join(engines)}")
    return (engines[engine],)


def _restarts(run: Run, boundary: str, values: dict[str, Any]) -> bool:
    """Whether a start-up banner begins a new run: after steps, or where the same banner already said something else."""
    return run.has_steps or run.boundaries.get(boundary, values) != values


def _may_be_cut(text: str) -> bool:
    """An unfinished last line that ends in a digit may have lost the rest of its number, where no unit or decimals
    follow.
    """
    tail = text.rstrip()
    return tail[-1:].isdigit() and not (len(tail) > 3 and tail[-3] == "." and tail[-2:].isdigit())


class ParsedLog:
    """Steps of one or several logs, read while iterating.

    ``facts`` holds what the logs have stated up to the step just yielded, and everything afterwards; ``report``
    likewise.
    """

    def __init__(self, sources: tuple[Source, ...], engine: str | None, now: datetime | None) -> None:
        _choose(engine)
        self._sources, self._engine, self._now = sources, engine, now
        self._streams: list[LogStream] = []
        self._stated: list[LogFacts] = []

    @property
    def facts(self) -> list[LogFacts]:
        """One entry per log and run, in the order read; an entry is the same object until its run states more."""
        return self._stated + (self._streams[-1].all_facts if self._streams else [])

    @property
    def report(self) -> ScanReport:
        """Counts and problems of all that has been read."""
        total = ScanReport()
        for stream in self._streams:
            _add(total, stream.report)
        return total

    def __iter__(self) -> Iterator[ServingStep]:
        self._streams, self._stated = [], []
        for parts in _logs(self._sources):
            yield from self._read(parts)

    def _read(self, parts: Sequence[Source]) -> Iterator[ServingStep]:
        if self._streams:
            self._stated += self._streams[-1].all_facts
        stream = LogStream(name_of(parts[0]), self._engine, now=self._now)
        self._streams.append(stream)
        names = iter([name_of(part) for part in parts[1:]])
        for scanned in scan_parts(parts, stream.scanner):
            yield from stream.take(scanned)
            if scanned.ends:
                stream.source = next(names, stream.source)
        yield from stream.flush()


def _logs(sources: Iterable[Source]) -> list[Sequence[Source]]:
    """The logs to read, each as its rotated parts; an open stream is one by itself."""
    paths = [os.fspath(source) for source in sources if isinstance(source, (str, os.PathLike))]
    streams = [source for source in sources if not isinstance(source, (str, os.PathLike))]
    return [*expand(paths), *([stream] for stream in streams)]


def _add(total: ScanReport, report: ScanReport) -> None:
    for name in ("bytes_read", "lines", "candidate_lines", "steps", "throughput_lines", "mfu_lines"):
        setattr(total, name, getattr(total, name) + getattr(report, name))
    for reason, count in report.dropped.items():
        total.dropped[reason] = total.dropped.get(reason, 0) + count
    total.problems += report.problems


def parse(*sources: Source, engine: str | None = None, now: datetime | None = None) -> ParsedLog:
    """Steps of log files: paths, globs, directories of rotated parts, archives, ``-`` or open binary files.

    Rotated parts of one log are one run that goes on, in time order; logs with start-ups of their own are separate.
    Nothing is read before iteration. Raises ValueError for an unknown ``engine``; while iterating, OSError for what
    cannot be found or opened; never on content.
    """
    return ParsedLog(sources, engine, now)
