"""What all runs have stated, kept so that neither a change nor a look goes through all of them.

A cluster's log holds tens of thousands of runs (one per pod), and every step is judged with the facts of its own.
"""

from __future__ import annotations

from log_parsers.step import LogFacts, ServingStep


class Stated:
    """One entry per run, in order of appearance; an entry is the same object until its run states more."""

    def __init__(self) -> None:
        self.entries: list[LogFacts] = []
        """Grows and has its entries replaced, and is otherwise always the same list."""
        self._positions: dict[tuple[str, int], int] = {}
        self._telling: dict[str | None, int] = {}  # each engine's last entry that says something
        self._changes: dict[int, LogFacts] = {}

    def put(self, position: int, facts: LogFacts) -> None:
        """Add the next entry, or put what a run states now in the place of what it stated before."""
        if position == len(self.entries):
            self.entries.append(facts)
            self._positions[facts.source, facts.run] = position
        elif self.entries[position] == facts:
            return
        else:
            self.entries[position] = facts
        self._changes[position] = facts
        if _says_something(facts):
            self._telling[facts.engine] = max(position, self._telling.get(facts.engine, -1))

    def take_changes(self) -> dict[int, LogFacts]:
        """Position -> entry of all that is new since the last call."""
        changes, self._changes = self._changes, {}
        return changes

    def of(self, step: ServingStep) -> LogFacts | None:
        """The facts of the step's run; a rotated part without a start-up banner inherits those of the part before it.

        None where nothing has been stated.
        """
        position = self._positions.get((step.source, step.run))
        own = self.entries[position] if position is not None else None
        if own is not None and _says_something(own):
            return own
        told = max(self._telling.get(engine, -1) for engine in (None, step.engine))
        return self.entries[told] if told >= 0 else own


def _says_something(facts: LogFacts) -> bool:
    return facts.model is not None or bool(facts.components)
