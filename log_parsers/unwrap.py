"""Physical lines to logical ones: out of JSON, from behind carriage returns, without colours."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from typing import AnyStr

import regex

from log_parsers.wrappers import DATE, Bare, Stamp, is_bar, is_wrapper, stamp_of

_ESCAPES = regex.compile(
    r"\x1b(?:\[[0-?]*+[ -/]*+[@-~]"  # colours, cursor
    r"|\][^\x07\x1b]*+(?:\x07|\x1b\\)"  # titles, hyperlinks
    r"|[PX^_][^\x1b]*+\x1b\\|[ -/]*+[0-Z\\^-~])|\#033\[[0-9;]*m"
)
_CONTROLS = regex.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
RAW_LIMIT = 2000
"""Characters of a line kept in ``ServingStep.raw``."""

_NOT_PLAIN = (" ", "}", ",")
"""How a line may end that is printable and yet not bare text: with blanks to strip, or as JSON."""
_OPENING = 200
"""Characters of a message's first line that tell what its further lines are; an engine's own are shorter."""

_TEXT_KEYS = ("message", "msg", "log", "MESSAGE", "textPayload", "@message", "jsonPayload", "event")
_TIME_KEYS = ("asctime", "time", "ts", "timestamp", "@timestamp", "timeMillis", "created")
_JSON_DEPTH = 3


def plain(text: str) -> str:
    """Text without escape sequences and control characters: what may be shown to a person, cut at ``RAW_LIMIT``."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text[: 4 * RAW_LIMIT])
    text = text[:RAW_LIMIT]
    return text if text.isprintable() else _CONTROLS.sub("", text)


class Unwrapper:
    """Takes logical lines out of physical ones: behind carriage returns, inside JSON, without colours.

    Several come out where records are separated by lone ``\\r``, or by newlines inside a JSON string; only those that
    hold a needle are of interest. A JSON string is one record: what stands behind its first line may be an echoed
    prompt, so it is told apart (``Bare.opening``).
    """

    def __init__(self, needles: Sequence[bytes]) -> None:
        self._needles = tuple(dict.fromkeys(needles))
        self._texts = tuple(needle.decode() for needle in self._needles)

    def __call__(self, line: bytes) -> list[Bare]:
        """Logical lines, in order."""
        text = line.decode("utf-8", "replace")
        if text.isprintable() and not text.endswith(_NOT_PLAIN) and "#033[" not in text:
            return [Bare(text)]  # nothing of what follows is in it
        # Concatenated files have a byte order mark at any line.
        line = line.rstrip(b" \t\r\n\0").lstrip(b"\0").removeprefix(codecs.BOM_UTF8)
        if b"\r" in line:
            return [bare for part in _holding(line, b"\r", self._needles) for bare in self._one(part)]
        if line.endswith((b"}", b"},")) or b"\x1b" in line or b"#033[" in line:
            return list(self._one(line))
        return [Bare(line.decode("utf-8", "replace"))]

    def _one(self, line: bytes) -> Iterator[Bare]:
        text = line.decode("utf-8", "replace")
        if "\x1b" in text or "#033[" in text:
            text = _ESCAPES.sub("", text)
        text = text.rstrip(" \t\0")
        if text.endswith(("}", "},")):
            record = _json_record(text)
            found = list(self._from_record(record, None, _JSON_DEPTH)) if record is not None else []
            if found:
                yield from found
                return
        yield Bare(text)

    def _from_record(self, record: dict[str, object], outer: Stamp | None, depth: int) -> Iterator[Bare]:
        outer = _json_time(record) or outer
        for key in _TEXT_KEYS:
            value = record.get(key)
            found: list[Bare] = []
            if isinstance(value, str):
                found = list(self._from_text(value, outer, depth))
            elif isinstance(value, dict) and depth:
                found = list(self._from_record(value, outer, depth - 1))
            if found:
                yield from found
                return

    def _from_text(self, text: str, outer: Stamp | None, depth: int) -> Iterator[Bare]:
        text = _ESCAPES.sub("", text).strip(" \t\r\n\0") if "\x1b" in text else text.strip(" \t\r\n\0")
        inner = _json_record(text) if depth and text.endswith("}") else None
        if inner is not None:
            yield from self._from_record(inner, outer, depth - 1)
        elif text:
            opening, rest = self._first_line(text)
            yield Bare(opening, outer, True)
            for part in _holding(rest.replace("\r", "\n"), "\n", self._texts):
                yield Bare(part.rstrip(), outer, True, opening if len(opening) < _OPENING else opening[:_OPENING] + "…")

    def _first_line(self, text: str) -> tuple[str, str]:
        """The first line, without the states of a progress bar that were overwritten by it; and the rest."""
        line, _, rest = text.partition("\n")
        begin = 0
        while (end := line.find("\r", begin)) >= 0:
            part = line[begin:end].rstrip()
            if (part and not is_bar(part)) or any(needle in part for needle in self._texts):
                return part, f"{line[end + 1 :]}\n{rest}"
            begin = end + 1
        return line[begin:].rstrip(), rest


def _holding(text: AnyStr, separator: AnyStr, needles: Sequence[AnyStr]) -> list[AnyStr]:
    """The parts between separators that hold a needle, in order; linear however many separators there are."""
    spans: dict[int, int] = {}
    for needle in needles:
        at = text.find(needle)
        while at >= 0:
            begin = text.rfind(separator, 0, at) + 1
            end = text.find(separator, at)
            spans[begin] = end = len(text) if end < 0 else end
            at = text.find(needle, end)
    return [text[begin : spans[begin]] for begin in sorted(spans)]


def _json_record(text: str) -> dict[str, object] | None:
    """The JSON object that ends the line, if only wrappers stand before it."""
    brace = text.find("{")
    if brace < 0 or (brace and not is_wrapper(text[:brace])):
        return None
    try:
        record = json.loads(text[brace:].rstrip(","))
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _json_time(record: dict[str, object]) -> Stamp | None:
    for key in _TIME_KEYS:
        value = record.get(key)
        if isinstance(value, str):
            match = DATE.match(value)
            if match:
                return stamp_of(match)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            return _epoch(value)
    return None


def _epoch(value: float) -> Stamp | None:
    try:
        seconds = float(value)
        if seconds > 1e11:  # milliseconds, or finer
            seconds /= 1e3 if seconds < 1e14 else 1e6 if seconds < 1e17 else 1e9
        moment = datetime.fromtimestamp(seconds, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None
    return Stamp(moment.year, f"{moment:%m-%d}", f"{moment:%H:%M:%S}", f"{moment.microsecond:06d}", "Z")
