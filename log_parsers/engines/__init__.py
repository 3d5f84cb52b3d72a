"""Engines: one file each, found by listing this folder (names with a leading underscore are helpers).

An engine file exports ``ENGINE``, an ``Engine``: literals that its lines hold, a pure function from one bare line to an
``Event``, a tracker that makes steps of events, and sample lines with the steps they must yield. ``vllm.py`` pairs lines of
one statistics call; ``sglang.py`` is the shorter template: each of its lines is a step.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from log_parsers.clock import Moment
from log_parsers.scan import Local
from log_parsers.step import LogFacts, ScanReport, ServingStep
from log_parsers.wrappers import Bare, Head

EventKind = Literal[
    "step", "throughput", "mfu", "details", "iteration", "spec", "fact", "boundary", "warning", "broken"
]


class Event(NamedTuple):
    """What one line says. ``values`` holds plain fields, named by the engine; ``broken`` events carry a ``reason``."""

    kind: EventKind
    head: Head | None
    values: dict[str, Any]


class Sample(NamedTuple):
    """Evidence that a format file carries: a piece of log and fields of the last step (or of the facts) it must yield."""

    text: str
    step: Mapping[str, object] | None = None
    facts: Mapping[str, object] | None = None


class Line(NamedTuple):
    """Where an event stood."""

    number: int
    at: Moment | None
    raw: str


@dataclass
class Run:
    """One server run inside one source, as far as it has been read."""

    source: str
    index: int
    engine: str
    first_line_no: int
    report: ScanReport
    facts: dict[str, Any] = field(default_factory=dict)
    boundaries: dict[str, dict[str, Any]] = field(default_factory=dict)
    has_steps: bool = False
    started: Moment | None = None
    """Stamp of the last start-up line: the first statistics window begins about there."""

    _snapshot: LogFacts | None = None

    def learn(self, values: Mapping[str, Any]) -> None:
        """Merge what a line states; mappings and warnings accumulate, other fields keep the latest statement."""
        self._snapshot = None
        for key, value in values.items():
            if isinstance(value, dict):
                self.facts.setdefault(key, {}).update(value)
            elif key in ("warnings", "device_hints"):
                known = self.facts.setdefault(key, ())
                self.facts[key] = known + tuple(item for item in value if item not in known)
            elif value is not None:
                self.facts[key] = value

    def snapshot(self) -> LogFacts:
        """The facts as the public, frozen type; the same object until the run learns more."""
        if self._snapshot is None or self._snapshot.source != self.source:
            self._snapshot = self._take()
        return self._snapshot

    def _take(self) -> LogFacts:
        facts: dict[str, Any] = {
            key: dict(value) if isinstance(value, dict) else value for key, value in self.facts.items()
        }
        pool_dtype = facts.pop("kv_pool_dtype", None)
        if facts.get("kv_cache_dtype") in ("auto", None):
            facts["kv_cache_dtype"] = pool_dtype or facts.get("dtype") or facts.get("kv_cache_dtype")
        if facts.get("dtype") is None and pool_dtype in ("bf16", "fp16", "fp32"):
            facts["dtype"] = pool_dtype  # an automatic cache dtype is the model's
        if facts.get("flags", {}).get("enable_expert_parallel"):
            facts["ep"] = (facts.get("tp") or 1) * (facts.get("dp") or 1)
        return LogFacts(
            source=self.source, run=self.index, first_line_no=self.first_line_no, engine=self.engine, **facts
        )


class Tracker(Protocol):
    """Turns the events of one run into steps, in order of arrival, using only what came before."""

    def feed(self, event: Event, line: Line) -> list[ServingStep]:
        """Steps completed by this event."""

    def flush(self) -> list[ServingStep]:
        """Steps still waiting for a companion line, at the end of the run."""


@dataclass(frozen=True)
class Engine:
    """Everything the stream needs to know about one engine's text."""

    name: str
    needles: tuple[bytes, ...]
    """Literals searched everywhere: those of the statistics lines, and those that a (re)start prints first."""
    local: tuple[Local, ...]
    """Literals searched only where they can occur: start-up lines, companions of a statistics line."""
    parse_line: Callable[[Bare], Event | None]
    """None: not a line of this engine."""
    tracker: Callable[[Run], Tracker]
    samples: tuple[Sample, ...]


def load_engines() -> dict[str, Engine]:
    """Every engine in this folder by name, in alphabetical order."""
    names = sorted(info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_"))
    engines = [importlib.import_module(f"{__name__}.{name}").ENGINE for name in names]
    return {engine.name: engine for engine in engines}
