"""What the figures mean, as data: findings for the words at the top, and why a log holds nothing that can be judged.

A ``Finding`` is a stable code with its numbers; ``report.words`` makes the sentence. Here no text is made but the one
sentence of exit code 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from log_parsers.step import LogFacts, ScanReport
from roofline_probe.point import Summary
from roofline_probe.shard import ShapeSource
from roofline_probe.workloads import ModelShape

if TYPE_CHECKING:
    from roofline_probe.analysis import RunContext

Number = float | int | str | None


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing the log says. ``numbers`` are rates in TFLOP/s, GB/s, ms, tokens, and fractions 0 to 1."""

    code: str
    weight: Literal["headline", "advice", "note", "warning"]
    numbers: Mapping[str, Number] = field(default_factory=dict)


def engine_usable(facts: LogFacts) -> bool:
    """False where the engine's own rates are not those of this model, whatever the lines say."""
    return True


def engine_caveats(facts: LogFacts, found: tuple[ModelShape, ShapeSource] | None) -> tuple[str, ...]:
    """Codes for how this engine counts."""
    return ()


def nothing_usable(facts: Sequence[LogFacts], report: ScanReport, summary: Summary) -> str | None:
    """One sentence, or None."""
    return None


def findings(summary: Summary, runs: Sequence[RunContext]) -> tuple[Finding, ...]:
    """What the figures mean, most important first."""
    return ()
