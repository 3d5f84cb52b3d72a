"""Engines: one file each, found by listing this folder (names with a leading underscore are helpers).

An engine file exports ``ENGINE``, an ``Engine``: literals that its lines hold, a pure function from one bare line to an
``Event``, a tracker that makes steps of events, and sample lines with the steps they must yield. ``_template.py``
shows how to add one.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from log_parsers.clock import Moment
    from log_parsers.run import Run
    from log_parsers.scan import Local
    from log_parsers.step import ServingStep
    from log_parsers.wrappers import Bare, Head

EventKind = Literal[
    "step", "throughput", "mfu", "details", "iteration", "spec", "fact", "hint", "boundary", "warning", "broken"
]


class Event(NamedTuple):
    """What one line says. ``values`` holds plain fields, named by the engine.

    ``broken`` events carry a ``reason``; a ``hint`` is a fact that other programs' lines may state too, so it never
    begins a run; a ``boundary`` names the banner.
    """

    kind: EventKind
    head: Head | None
    values: dict[str, Any]


class Sample(NamedTuple):
    """Evidence that a format file carries: a piece of log and fields of the last step (or of the facts) it must
    yield.
    """

    text: str
    step: Mapping[str, object] | None = None
    facts: Mapping[str, object] | None = None


class Line(NamedTuple):
    """Where an event stood."""

    number: int
    at: Moment | None
    raw: str


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
    parse_further: Callable[[Bare], Event | None] = lambda bare: None
    """For the further lines of a record's message (``Bare.opening``): what the engine itself prints on several."""


def known_engines() -> list[str]:
    """Names of the engines in this folder, in alphabetical order."""
    return sorted(info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_"))


def check_engine(engine: str | None) -> None:
    """Raises ValueError if no engine has that name; None stands for all of them."""
    if engine is not None and engine not in known_engines():
        raise ValueError(f"no engine is called {engine!r}; known are {', '.join(known_engines())}")


def load_engines(engine: str | None = None) -> dict[str, Engine]:
    """By name the engine of that name, or all in alphabetical order. Raises ValueError if there is none such."""
    check_engine(engine)
    names = known_engines() if engine is None else [engine]
    return {name: importlib.import_module(f"{__name__}.{name}").ENGINE for name in names}
