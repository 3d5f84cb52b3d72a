"""The simplest tracker: every line is a step, and says of itself all that is known."""

from __future__ import annotations

from log_parsers.engines import Event, Line
from log_parsers.run import Run
from log_parsers.step import ServingStep


class EachLine:
    """Turns ``step`` events into steps; their values are fields of ``ServingStep`` (``kind`` at least)."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def feed(self, event: Event, line: Line) -> list[ServingStep]:
        """The step that the line is, if it is one."""
        if event.kind != "step":
            return []
        self._run.has_steps = True
        at = line.at
        fields = {"status": "steady", "rank": event.head.rank if event.head else None, **event.values}
        return [
            ServingStep(
                source=self._run.part,
                run=self._run.index,
                line_no=line.number,
                engine=self._run.engine,
                engine_version=self._run.facts.get("engine_version"),
                time=at.iso if at else None,
                year_inferred=at.year_inferred if at else False,
                raw=line.raw,
                **fields,
            )
        ]

    def flush(self) -> list[ServingStep]:
        """Nothing ever waits."""
        return []
