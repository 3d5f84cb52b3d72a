"""What stands around an engine's line: colours, carriage returns, JSON, container and collector prefixes.

An engine finds the *body* of its line (``Engine 000: MFU: …``) by a literal; this module says whether the text in front of
that body is a log record's head behind known wrappers. If it is not, the body is somebody's echoed prompt, an argument dump
or a torn line, and must not become a sample.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

import regex

_ESCAPES = regex.compile(
    r"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|\][^\x07\x1b]*+(?:\x07|\x1b\\)|[PX^_][^\x1b]*+\x1b\\|[ -/]*+[0-Z\\^-~])|\#033\[[0-9;]*m"
)
_CONTROLS = regex.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
RAW_LIMIT = 2000
"""Characters of a line kept in ``ServingStep.raw``."""

_TEXT_KEYS = ("message", "msg", "log", "MESSAGE", "textPayload", "@message", "jsonPayload", "event")
_TIME_KEYS = ("asctime", "time", "ts", "timestamp", "@timestamp", "timeMillis", "created")
_JSON_DEPTH = 3

_DATE = r"(?P<date>\d{4}-\d\d-\d\d)[ T](?P<hms>\d\d:\d\d:\d\d)(?:[.,](?P<frac>\d{1,9}))?(?P<zone>Z|[+-]\d\d:?\d\d)?"
_LEVEL = r"(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL|TRACE)"
_HEAD = regex.compile(
    # vLLM: LEVEL MM-DD HH:MM:SS [file:line]
    rf"(?:(?P<level>{_LEVEL}) +(?P<md>\d\d-\d\d) (?P<t>\d\d:\d\d:\d\d) \[(?P<file>[^\]\s]++)\] *+"
    # SGLang: [date time ranks]
    rf"|\[{_DATE}(?P<rank>(?: [A-Z_]++\d++)*+)\] (?:(?P<level2>{_LEVEL}):? +)?)\Z"
)
_SEP = r"[\s:|,\-]"
_OTHER_HEAD = regex.compile(
    # any other logging format: a full date, then names, levels and brackets, and nothing that reads like prose
    rf"\[?{_DATE}\]?{_SEP}*+(?:(?:[\w.\-/]++{_SEP}++){{0,3}}?\[?(?P<level>{_LEVEL})\]?{_SEP}++)?"
    rf"(?:\[ ?(?P<rank>(?:[A-Z_]++\d++ )*+)(?P<file>[\w./\-]++:\d++)?\]{_SEP}*+"
    rf"|\((?:[^()\"'`]{{0,80}}+)\){_SEP}*+|\[[^\[\]\"'`]{{0,80}}+\]{_SEP}*+"
    rf"|(?:[\w/\-]*+[._][\w./\-]*+|vllm|sglang|\d++|{_LEVEL})(?::\d++)?{_SEP}++){{0,8}}\Z"
)

_WRAPPERS = regex.compile(
    r"\s++"
    r"|(?P<compose>[\w./:@\-]++) *\| ?"  # docker compose
    r"|(?P<stamp>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)(?:\s|\Z)(?:std(?:out|err) [FP] )?"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.\-]++ [\w@./\-]++(?:\[\d++\])?: "  # journald, syslog
    r"|[\w.\-]++ [\w@./\-]++\[\d++\]: "  # journald behind an ISO stamp
    r"|\((?:[A-Za-z][\w.:\-]*+)(?:,? [\w.\-]++[=:][^()\s\"'`]*+)*+\)"  # vLLM's processes, Ray's actors
    r"|\[(?P<pod>[^\[\]\"'`{}]{1,120}+)\]:?"  # kubectl --prefix, torchrun ranks, a user's own
    r"|[\w.\-]*\d[\w.\-]*+: "  # srun --label, pdsh
    r"|[a-z0-9]++(?:-[a-z0-9]++)++ [a-z0-9]++(?:-[a-z0-9]++)*+ "  # stern: pod container
)
_USER_PREFIX = regex.compile(r"[^\s\"'`:={}\[\]()|]{1,64}\s++")
_BAR = regex.compile(r"[^\"'`]*?(?:\d%\|[^\"'`]*|[\d.?](?:it/s|s/it|[kMG]?B/s)[^\"'`]*\]\s*)\Z")
_PID = regex.compile(r"(?:_DP(?P<dp>\d+)[\w.]*)? *pid=(?P<pid>\d+)[^()]*\)[^()]*\Z")


class Stamp(NamedTuple):
    """A record's own clock. ``year`` is None where the format prints none (vLLM); ``frac`` and ``zone`` as printed."""

    year: int | None
    md: str
    hms: str
    frac: str = ""
    zone: str = ""


class Head(NamedTuple):
    """What a record says about itself before its message."""

    stamp: Stamp | None
    level: str | None
    rank: str | None
    file: str | None
    origin: str = ""
    """Which of several processes sharing one file wrote it: container or pod name."""
    pid: str = ""
    dp: str | None = None
    """Data-parallel rank in the process name (``EngineCore_DP1``)."""
    hint: Stamp | None = None
    """A collector's stamp around the record: it tells the year where the record's own clock does not."""


class Bare(NamedTuple):
    """One logical line without its outermost dressing; ``outer`` is a collector's own stamp, a hint for the year only."""

    text: str
    outer: Stamp | None = None
    in_json: bool = False
    name: str | None = None
    """Logger name, where the JSON gives one."""


def plain(text: str) -> str:
    """Text without escape sequences and control characters: what may be shown to a person, cut at ``RAW_LIMIT``."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text[: 4 * RAW_LIMIT])
    text = text[:RAW_LIMIT]
    return text if text.isprintable() else _CONTROLS.sub("", text)


def unwrap(line: bytes) -> Iterator[Bare]:
    """Logical lines of one physical line: behind carriage returns, inside JSON, without colours.

    Several come out where records are separated by lone ``\\r`` or by newlines inside a JSON string.
    """
    text = line.decode("utf-8", "replace")
    if "\x1b" in text or "#033[" in text:
        text = _ESCAPES.sub("", text)
    text = text.rstrip(" \t\r\n\0")
    if text.endswith(("}", "},")):
        inner = list(_from_json(text, _JSON_DEPTH))
        if inner:
            yield from inner
            return
    if "\r" not in text:
        yield Bare(text)
        return
    for part in text.split("\r"):
        if part.strip():
            yield Bare(part.rstrip())


def _from_json(text: str, depth: int) -> Iterator[Bare]:
    brace = text.find("{")
    if brace < 0 or (brace and not _is_wrapper(text[:brace])):
        return
    try:
        record = json.loads(text[brace:].rstrip(","))
    except (ValueError, RecursionError):
        return
    if isinstance(record, dict):
        yield from _from_record(record, depth)


def _from_record(record: dict[str, object], depth: int) -> Iterator[Bare]:
    outer = _json_time(record)
    name = record.get("name") or record.get("logger")
    for key in _TEXT_KEYS:
        value = record.get(key)
        if isinstance(value, dict) and depth:
            yield from (bare._replace(outer=bare.outer or outer) for bare in _from_record(value, depth - 1))
            return
        if isinstance(value, str):
            yield from _from_value(value, outer, name if isinstance(name, str) else None, depth)
            return


def _from_value(value: str, outer: Stamp | None, name: str | None, depth: int) -> Iterator[Bare]:
    if "\x1b" in value:
        value = _ESCAPES.sub("", value)
    stripped = value.strip()
    if depth and stripped.endswith("}"):
        inner = list(_from_json(stripped, depth - 1))
        if inner:
            yield from (bare._replace(outer=bare.outer or outer) for bare in inner)
            return
    for part in regex.split(r"[\r\n]+", value):
        if part.strip():
            yield Bare(part.rstrip(), outer, True, name)


def _json_time(record: dict[str, object]) -> Stamp | None:
    for key in _TIME_KEYS:
        value = record.get(key)
        if isinstance(value, str):
            match = regex.match(r"\s*" + _DATE, value)
            if match:
                return _stamp(match)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            return _epoch(float(value))
    return None


def _epoch(seconds: float) -> Stamp | None:
    from datetime import datetime, timezone

    if seconds > 1e11:  # milliseconds, or finer
        seconds /= 1e3 if seconds < 1e14 else 1e6 if seconds < 1e17 else 1e9
    try:
        moment = datetime.fromtimestamp(seconds, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return None
    return Stamp(moment.year, f"{moment:%m-%d}", f"{moment:%H:%M:%S}", f"{moment.microsecond:06d}", "Z")


def _stamp(match: regex.Match[str]) -> Stamp:
    date = match["date"]
    return Stamp(int(date[:4]), date[5:], match["hms"], match["frac"] or "", match["zone"] or "")


class _Outer(NamedTuple):
    origin: str
    stamp: Stamp | None
    pid: str
    dp: str | None


_outer_cache: dict[str, _Outer | None] = {}


def _outer(text: str) -> _Outer | None:
    """Read wrappers from the left; None where something else than a wrapper stands there."""
    if text in _outer_cache:
        return _outer_cache[text]
    found = _read_outer(text)
    if len(text) < 200:
        if len(_outer_cache) > 2000:  # stamps make every prefix new: the cache is for the prefixes that repeat
            _outer_cache.clear()
        _outer_cache[text] = found
    return found


def _read_outer(text: str) -> _Outer | None:
    origin, stamp, pos, user_prefix = "", None, 0, False
    process = _PID.search(text[-120:])
    pid, dp = (process["pid"], process["dp"]) if process else ("", None)
    while pos < len(text):
        match = _WRAPPERS.match(text, pos)
        if match is None and not user_prefix:
            match, user_prefix = _USER_PREFIX.match(text, pos), True
        if match is None:
            return _Outer(origin, stamp, pid, dp) if _is_bar(text, pos) else None
        groups = match.groupdict()
        origin = groups.get("compose") or (_pod(groups.get("pod")) or origin)
        stamp = _iso(groups["stamp"]) if groups.get("stamp") else stamp
        pos = match.end()
    return _Outer(origin, stamp, pid, dp)


def _pod(text: str | None) -> str | None:
    return text if text and "/" in text else None


def _iso(text: str) -> Stamp | None:
    match = regex.match(_DATE, text.replace(",", "."))
    return _stamp(match) if match else None


def _is_bar(text: str, pos: int) -> bool:
    return _BAR.match(text, pos) is not None


def _is_wrapper(text: str) -> bool:
    if not text.strip():
        return True
    head = _HEAD.search(text[-300:])
    return _outer(text if head is None else text[: -len(head[0])]) is not None


def head_of(bare: Bare, body: int) -> Head | None:
    """The record head in front of position ``body``; None where the text there is not one.

    A head may be missing (all fields None) only where nothing but wrappers, or a JSON record, surrounds the body.
    """
    text = bare.text
    left = text[:body] if body < 300 else text[body - 300 : body]
    match = _HEAD.search(left) or _OTHER_HEAD.search(left)
    if match is None:
        outer = _outer(text[:body])
        return (
            None
            if outer is None
            else Head(bare.outer or outer.stamp, None, None, None, outer.origin, outer.pid, outer.dp)
        )
    outer = _outer(text[: body - len(left) + match.start()])
    if outer is None:
        return None
    groups = match.groupdict()
    level = groups["level"] or groups.get("level2")
    rank = (groups["rank"] or "").strip() or None
    file = groups["file"]
    if groups.get("md"):
        stamp = Stamp(None, groups["md"], groups["t"])
        return Head(stamp, level, rank, file, outer.origin, outer.pid, outer.dp, bare.outer or outer.stamp)
    return Head(_stamp(match), level, rank, file, outer.origin, outer.pid, outer.dp)
