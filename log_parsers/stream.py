"""Lines to steps and facts: the one path that saved files, pipes and live readers share.

``LogStream`` takes bytes in pieces of any size and returns the steps completed so far; ``parse`` reads whole sources
with it. The steps do not depend on how the bytes were cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from log_parsers.clock import Clock, Moment
from log_parsers.engines import Engine, Event, Line, Tracker, load_engines
from log_parsers.run import Run
from log_parsers.scan import Found, Scanned, Scanner
from log_parsers.sources import displayed
from log_parsers.stated import Stated
from log_parsers.step import LogFacts, ScanReport, ServingStep
from log_parsers.unwrap import Unwrapper, plain
from log_parsers.wrappers import Bare

_LOOKALIKES = ("MFU: ", ": MFU", "Avg prompt t", "#running-req: ")
_ECHO = "looks like a statistics line, but no log record begins before it (an echoed prompt, a dump, or a torn line)"
_HOLE = "NUL bytes inside the line: what stood there is lost"
_CUT = "the last line is cut"


class LogStream:
    """Incremental parser of one source; its steps are the same whatever the chunking.

    ``engine`` restricts the grammar to one engine by name (ValueError if there is none such); else every engine's
    lines are recognised. ``now`` is the reference for years that a log does not print (see ``clock.Clock``). ``report``
    and ``stated`` may be those of the logs before this one: counts and runs then go on from there.
    """

    def __init__(
        self,
        source: str = "-",
        engine: str | None = None,
        *,
        now: datetime | None = None,
        report: ScanReport | None = None,
        stated: Stated | None = None,
    ) -> None:
        self._engines = list(load_engines(engine).values())
        self.source = displayed(source)
        self._clock = Clock(now)
        needles = [needle for engine in self._engines for needle in engine.needles]
        local = [local for engine in self._engines for local in engine.local]
        self._unwrap = Unwrapper([*needles, *(needle for rule in local for needle in rule.needles)])
        self.scanner = Scanner(needles, local)
        self.report = report if report is not None else ScanReport()
        self.report.only_engine = engine
        self._lines_before, self._bytes_before = self.report.lines, self.report.bytes_read
        self.stated = stated if stated is not None else Stated()
        """The facts of every run, as they stood at the step just yielded."""
        self.stated.begin()
        self._runs: list[Run] = []
        self._changed: dict[int, Run] = {}
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
        return list(self.stated.entries)

    def feed(self, data: bytes | bytearray | memoryview) -> list[ServingStep]:
        """Take the next piece of text (UTF-8 bytes); return the steps it completes."""
        return list(self.read(data))

    def read(self, data: bytes | bytearray | memoryview) -> Iterator[ServingStep]:
        """``feed``, step by step: while a step is looked at, ``facts`` holds what was stated before it and no more.

        To be iterated to its end before the next piece.
        """
        found = self.scanner.feed(data)
        return self.take(found, self.scanner.lines, self.scanner.bytes_read)

    def take(self, found: Found, lines: int, bytes_read: int, *, whole: bool = True) -> Iterator[ServingStep]:
        """``read`` for text that ``scanner``, or one like it elsewhere, has searched, with its counts so far.

        ``whole`` is false for a last line behind which there is no newline.
        """
        self.report.lines = self._lines_before + lines
        self.report.bytes_read = self._bytes_before + bytes_read
        for number, line in found:
            if steps := self._line(number, line, whole):
                self._state()
                yield from self._count(steps)
        self._state()

    def take_end(self, scanned: Scanned) -> Iterator[ServingStep]:
        """``take`` what was found at the end of a part: counts go on from here."""
        yield from self.take(scanned.found, scanned.lines, scanned.bytes_read, whole=False)
        self._lines_before, self._bytes_before = self.report.lines, self.report.bytes_read
        self.report.problems += scanned.problems
        if cut := scanned.cut_lines:
            lines = "1 line of more than a megabyte was" if cut == 1 else f"{cut:,} lines of more than a megabyte were"
            name = "standard input" if self.source == "-" else self.source
            self.report.problems.append(f"{name}: {lines} read in part")

    def close(self) -> list[ServingStep]:
        """End of the text: the steps of a last line without newline, and those that waited for a companion."""
        return [*self.take_end(self.scanner.end()), *self.flush()]

    def flush(self) -> list[ServingStep]:
        """The steps that waited for a companion, once nothing more comes."""
        steps = self._count([step for _, tracker in self._current.values() for step in tracker.flush()])
        self._state()
        return steps

    def _state(self) -> None:
        """Put into ``stated`` what has been learned since the last time: once for many lines of a start-up."""
        if self._changed:
            for index, run in self._changed.items():  # new runs stand in it in order
                self.stated.put(index, run.snapshot())
            self._changed.clear()

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
        if "\0" in bare.text:
            self.report.drop(_HOLE)
            return []
        for engine in self._engines:
            event = engine.parse_line(bare) if bare.opening is None else engine.parse_further(bare)
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
            run = Run(self.source, len(self._runs), engine.name, number, self.report, changed=self._changed)
            self._runs.append(run)
            self._changed[run.index] = run
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


def _restarts(run: Run, boundary: str, values: dict[str, Any]) -> bool:
    """Whether a start-up banner begins a new run: after steps, or where the same banner already said something else."""
    return run.has_steps or run.boundaries.get(boundary, values) != values


def _may_be_cut(text: str) -> bool:
    """An unfinished last line that ends in a digit may have lost the rest of its number, where no unit or decimals
    follow.
    """
    tail = text.rstrip()
    return tail[-1:].isdigit() and not (len(tail) > 3 and tail[-3] == "." and tail[-2:].isdigit())
