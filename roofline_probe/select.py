"""Which steps to look at: ``--since``, ``--until`` and ``--where 'batch>=32 and kind==decode'``.

The predicate language is comparisons of one field with one number or word, joined by ``and`` and ``or`` (``and`` binds
tighter) and grouped by parentheses. A field that a step does not have makes its comparison false.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime
from itertools import accumulate
from typing import Any

from log_parsers.step import ServingStep
from roofline_probe.errors import UsageError
from roofline_probe.point import Point

Predicate = Callable[[Point], bool]
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
    ">": operator.gt, "<": operator.lt, "=": operator.eq,
}  # fmt: skip
_TOKEN = re.compile(
    r"\s*(?:(>=|<=|==|!=|=|>|<|\(|\))|([A-Za-z_]\w*)|(-?[0-9]+(?:[.][0-9]+)?)|'([^']*)'|\"([^\"]*)\")", re.ASCII
)
_POINT_FIELDS = frozenset(f.name for f in fields(Point)) - {"step", "work", "caveats"}
_STEP_FIELDS = frozenset(f.name for f in fields(ServingStep)) - {"raw"}
FIELDS = tuple(sorted(_POINT_FIELDS | _STEP_FIELDS))
"""Names that ``--where`` knows: those of a point (``batch``, ``context``, ``attained_fraction`` …) and of a step."""
_MAX_DEPTH = 50
"""Of parentheses: far above what a person writes, far below what the parser's recursion bears."""
_EXAMPLE = "write it like --where 'batch>=32 and kind==decode'"


def parse_where(text: str) -> Predicate:
    """Compile a predicate.

    Raises:
        UsageError: what is wrong and where, with an example.
    """
    tokens = _tokenize(text)
    depths = accumulate({"(": 1, ")": -1}.get(sign, 0) for kind, sign in tokens if kind == "symbol")
    if max(depths, default=0) > _MAX_DEPTH:
        raise UsageError(f"--where nests parentheses more than {_MAX_DEPTH} deep; {_EXAMPLE}.")
    predicate, rest = _either(tokens, 0, text)
    if rest != len(tokens):
        raise UsageError(f"--where {text!r} was not understood from {tokens[rest][1]!r} on; {_EXAMPLE}.")
    return predicate


def _tokenize(text: str) -> list[tuple[str, str]]:
    tokens, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise UsageError(f"--where {text!r} was not understood at {text[at:].strip()!r}; {_EXAMPLE}.")
        kinds = ("symbol", "name", "number", "word", "word")
        index = next(i for i, group in enumerate(match.groups()) if group is not None)
        tokens.append((kinds[index], match.groups()[index]))
        at = match.end()
    return tokens


def _either(tokens: list[tuple[str, str]], at: int, text: str) -> tuple[Predicate, int]:
    parts, at = _joined(tokens, at, text, "or", _all)
    return (parts[0] if len(parts) == 1 else lambda point: any(part(point) for part in parts)), at


def _all(tokens: list[tuple[str, str]], at: int, text: str) -> tuple[Predicate, int]:
    parts, at = _joined(tokens, at, text, "and", _one)
    return (parts[0] if len(parts) == 1 else lambda point: all(part(point) for part in parts)), at


def _joined(
    tokens: list[tuple[str, str]], at: int, text: str, word: str,
    inner: Callable[[list[tuple[str, str]], int, str], tuple[Predicate, int]],
) -> tuple[list[Predicate], int]:  # fmt: skip
    first, at = inner(tokens, at, text)
    parts = [first]
    while at < len(tokens) and tokens[at] == ("name", word):
        part, at = inner(tokens, at + 1, text)
        parts.append(part)
    return parts, at


def _one(tokens: list[tuple[str, str]], at: int, text: str) -> tuple[Predicate, int]:
    if at < len(tokens) and tokens[at] == ("symbol", "("):
        inside, at = _either(tokens, at + 1, text)
        if at >= len(tokens) or tokens[at] != ("symbol", ")"):
            raise UsageError(f"--where {text!r} lacks a closing parenthesis; {_EXAMPLE}.")
        return inside, at + 1
    if len(tokens) < at + 3:
        raise UsageError(f"--where {text!r} ends in the middle of a comparison; {_EXAMPLE}.")
    return _comparison(tokens[at : at + 3], text), at + 3


def _comparison(tokens: list[tuple[str, str]], text: str) -> Predicate:
    (kind, name), (_, symbol), (value_kind, value) = tokens
    if kind != "name" or symbol not in _OPERATORS or value_kind == "symbol":
        raise UsageError(f"--where {text!r}: {' '.join(t for _, t in tokens)!r} is not a comparison; {_EXAMPLE}.")
    if name not in FIELDS:
        raise UsageError(f"--where {text!r}: there is no field {name!r}; known are {', '.join(FIELDS)}.")
    wanted: object = float(value) if value_kind == "number" else {"true": True, "false": False}.get(value, value)
    compare = _OPERATORS[symbol]
    numeric = isinstance(wanted, float)

    def holds(point: Point) -> bool:
        found = getattr(point, name) if name in _POINT_FIELDS else getattr(point.step, name)
        if found is None:
            return False
        if isinstance(found, str) and numeric:
            return symbol in ("==", "=", "!=") and compare(found, value)
        return isinstance(found, (int, float)) == isinstance(wanted, (int, float)) and compare(found, wanted)

    return holds


@dataclass(frozen=True)
class Selection:
    """Steps between two times (inclusive; ``HH:MM[:SS]`` or ISO-8601) that satisfy a predicate."""

    since: str | None = None
    until: str | None = None
    where: Predicate | None = None

    def in_time(self, step: ServingStep) -> bool:
        """Whether the step's stamp lies between both ends; a step without a stamp does only if none is set."""
        if self.since is None and self.until is None:
            return True
        if step.time is None:
            return False
        return not (
            (self.since is not None and _stamp(step.time, self.since) < self.since)
            or (self.until is not None and _stamp(step.time, self.until)[: len(self.until)] > self.until)
        )

    def accepts(self, point: Point) -> bool:
        """Whether the predicate, if any, holds."""
        return self.where is None or self.where(point)


_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?")
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?", re.ASCII)


def _stamp(time: str, like: str) -> str:
    """The step's time in the form of the bound it is compared with: time of day alone, or date and time."""
    return time[11:] if like[2:3] == ":" else time


def parse_time(text: str | None, flag: str) -> str | None:
    """A bound as the comparison wants it.

    Raises:
        UsageError: neither a time of day nor an ISO-8601 time.
    """
    if text is None:
        return None
    if _CLOCK.fullmatch(text):
        clock = text if text[2] == ":" else f"0{text}"
        if _exists(f"2000-01-01T{clock}"):
            return clock
    if _ISO.fullmatch(text) and _exists(text):
        return text.replace(" ", "T")
    raise UsageError(f"{flag} {text!r} is not a time: write 14:05, 14:05:30 or 2026-11-29T14:05:30.")


def _exists(stamp: str) -> bool:
    """Whether calendar and clock have it: 25:00 would otherwise select nothing, or everything, without a word."""
    try:
        datetime.fromisoformat(stamp.partition(".")[0])
    except ValueError:
        return False
    return True


def selection(since: str | None = None, until: str | None = None, where: str | None = None) -> Selection:
    """From the three flags.

    Raises:
        UsageError: one of them was not understood.
    """
    return Selection(
        parse_time(since, "--since"), parse_time(until, "--until"), parse_where(where) if where is not None else None
    )
