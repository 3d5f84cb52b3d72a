"""What all runs have stated, kept so that neither a change nor a look goes through all of them.

A cluster's log holds tens of thousands of runs (one per pod), and every step is judged with the facts of its own.
"""

from __future__ import annotations

from log_parsers.step import LogFacts, ServingStep


class Stated:
    """One entry per log and run, in order of appearance; an entry is the same object until its run states more."""

    def __init__(self) -> None:
        self.entries: list[LogFacts] = []
        """Grows and has its entries replaced, and is otherwise always the same list."""
        self._first = 0  # the entry of the first run of the log being read
        self._telling: dict[str | None, int] = {}  # each engine's last entry that says something
        self._changes: dict[int, LogFacts] = {}

    def begin(self) -> None:
        """Another log is read from here on: its runs count from 0."""
        self._first = len(self.entries)

    def put(self, run: int, facts: LogFacts) -> None:
        """Add the log's next run, or put what a run states now in the place of what it stated before."""
        at = self._first + run
        if at == len(self.entries):
            self.entries.append(facts)
        elif self.entries[at] == facts:
            return
        else:
            self.entries[at] = facts
        self._changes[run] = facts
        if _says_something(facts):
            self._telling[facts.engine] = max(at, self._telling.get(facts.engine, -1))

    def take_changes(self) -> dict[int, LogFacts]:
        """The log's run -> its facts, for all that is new since the last call."""
        changes, self._changes = self._changes, {}
        return changes

    def of(self, step: ServingStep) -> LogFacts | None:
        """The facts of the step's run, in the log being read; where that states nothing of its server, those of the
        last run of the engine that did (a part of a rotated log, given by itself after the one before it).

        None where nothing has been stated.
        """
        at = self._first + step.run
        own = self.entries[at] if at < len(self.entries) else None
        if own is not None and _says_something(own):
            return own
        told = max(self._telling.get(engine, -1) for engine in (None, step.engine))
        return self.entries[told] if told >= 0 else own


def _says_something(facts: LogFacts) -> bool:
    return facts.model is not None or bool(facts.components)
