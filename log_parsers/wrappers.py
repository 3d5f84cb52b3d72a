"""What stands in front of an engine's line: collectors' prefixes, process groups, progress bars, record heads.

An engine finds the *body* of its line (``Engine 000: MFU: …``) by a literal; this module says whether the text in
front of that body is a log record's head behind known wrappers. If it is not, the body is somebody's echoed prompt, an
argument dump or a torn line, and must not become a sample.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import regex

_DATE = (
    r"(?P<date>\d{4}[\-/]\d\d[\-/]\d\d)[ T](?P<hms>\d\d:\d\d:\d\d)(?:[.,](?P<frac>\d{1,9}))?(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
DATE = regex.compile(rf"\s*{_DATE}", regex.ASCII)
"""A full date and time, with the fraction and zone that it may have."""
_LEVEL = r"(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL|TRACE)"
_HEAD = regex.compile(
    # vLLM: LEVEL MM-DD HH:MM:SS [file:line]
    rf"(?:(?P<level>{_LEVEL}) +(?P<md>\d\d-\d\d) (?P<t>\d\d:\d\d:\d\d) \[(?P<file>[^\]\s]++)\] *+"
    # SGLang: [date time ranks]
    rf"|\[{_DATE}(?P<rank>(?: [A-Z_]++\d++)*+)\] (?:(?P<level2>{_LEVEL}):? +)?)\Z",
    regex.ASCII,
)
_SEP = r"[\s:|,\-]"
_OTHER_HEAD = regex.compile(
    # any other logging format: a full date, then names, levels and brackets, and nothing that reads like prose
    rf"\[?{_DATE}\]?{_SEP}*+(?:(?:[\w.\-/]++{_SEP}++){{0,3}}?\[?(?P<level>{_LEVEL})\]?{_SEP}++)?"
    rf"(?:\[ ?(?P<rank>(?:[A-Z_]++\d++ )*+)(?P<file>[\w./\-]++:\d++)?\]{_SEP}*+"
    rf"|\((?:[^()\"'`]{{0,80}}+)\){_SEP}*+|\[[^\[\]\"'`]{{0,80}}+\]{_SEP}*+"
    rf"|(?:[\w/\-]*+[._][\w./\-]*+|vllm|sglang|\d++|{_LEVEL})(?::[\w<>]++)*+{_SEP}++){{0,8}}\Z",
    regex.ASCII,
)

# Every quantifier is bounded: a line of megabytes must cost linear time.
_WRAPPERS = regex.compile(
    r"\s++"
    r"|(?P<compose>[\w./:@\-]{1,120}+) {0,80}+\| ?"  # docker compose
    r"|(?:[A-Z][a-z]{2} )?(?P<stamp>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)"
    r"(?: UTC)?(?:\s|\Z)"
    r"(?:std(?:out|err) [FP] |[\w.\-]{1,80}+ [\w@./\-]{1,80}+(?:\[\d{1,9}+\])?: )?"  # docker -t, kubectl, CRI, syslog
    r"|(?:<\d{1,3}>)?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,6})?(?:\s|\Z)"  # journald, syslog, ts
    r"(?:[\w.\-]{1,80}+ [\w@./\-]{1,80}+(?:\[\d{1,9}+\])?: )?"
    r"|\([A-Za-z][\w.:\-]{0,80}+(?:=[^()\s\"'`]{0,80}+)?(?:,? [\w.\-]{1,40}+[=:][^()\s\"'`]{0,99}+){0,16}+\)"  # (A b=1)
    r"|\[(?P<pod>[^\[\]\"'`{}]{1,120}+)\]:?"  # kubectl --prefix, torchrun ranks, a user's own
    r"|[a-z0-9]{1,40}+(?:-[a-z0-9]{1,40}+){1,12}+ [a-z0-9]{1,40}+(?:-[a-z0-9]{1,40}+){0,8}+ "  # stern: pod container
    r"|(?=[\w.\-]{0,60}\d)[\w.\-]{1,61}+: "  # srun --label, pdsh
    rf"|{_LEVEL}:(?:[A-Za-z_][\w.]{{0,120}}+:)?"  # logging's basicConfig
    r"|\[?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\]?(?=\s)",  # a clock without a date
    regex.ASCII,
)
_USER_PREFIX = regex.compile(r"[^\s\"'`:={}\[\]()|]{1,64}\s++")
_BAR_END = regex.compile(r"[\d.?](?:it/s|s/it|[kMG]?B/s)[^\]]{0,200}\]\s*+\Z", regex.ASCII)
_PID = regex.compile(r"(?:_DP(?P<dp>\d+)[\w.]*)? *pid=(?P<pid>\d+)[^()]*\)[^()]*\Z", regex.ASCII)


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
    """One logical line without its outermost dressing; ``outer`` is a collector's own stamp, a hint for the year
    only.
    """

    text: str
    outer: Stamp | None = None
    in_json: bool = False
    opening: str | None = None
    """The first line of the record's message, where this is a further one: that may be anybody's text."""


def stamp_of(match: regex.Match[str]) -> Stamp:
    """The stamp that a match of ``DATE`` states."""
    date = match["date"]
    return Stamp(int(date[:4]), f"{date[5:7]}-{date[8:]}", match["hms"], match["frac"] or "", match["zone"] or "")


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
            return _Outer(origin, stamp, pid, dp) if is_bar(text[pos:]) else None
        groups = match.groupdict()
        origin = groups.get("compose") or (_pod(groups.get("pod")) or origin)
        stamp = _iso(groups["stamp"]) if groups.get("stamp") else stamp
        pos = match.end()
    return _Outer(origin, stamp, pid, dp)


def _pod(text: str | None) -> str | None:
    return text if text and "/" in text else None


def _iso(text: str) -> Stamp | None:
    match = DATE.match(text)
    return stamp_of(match) if match else None


def is_bar(bar: str) -> bool:
    """Whether a text is a progress bar, to which a record's head may be glued."""
    if '"' in bar or "'" in bar or "`" in bar:
        return False
    return "%|" in bar or _BAR_END.search(bar[-240:]) is not None


def is_wrapper(text: str) -> bool:
    """Whether nothing but wrappers, or wrappers and a record's head, stand in a text."""
    if not text.strip():
        return True
    head = _HEAD.search(text[-300:])
    return _outer(text if head is None else text[: -len(head[0])]) is not None


_CLOCK = re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d \[", re.ASCII)
_DATED = re.compile(r"\[(\d{4})-(\d\d-\d\d) (\d\d:\d\d:\d\d)((?: [A-Z_]{1,12}\d{1,6}){0,9})\] \Z", re.ASCII)
_heads: dict[str, Head | None] = {}


def head_of(bare: Bare, body: int) -> Head | None:
    """The record head in front of position ``body``; None where the text there is not one.

    A head may be missing (all fields None) only where nothing but wrappers, or a JSON record, surrounds the body.
    """
    text = bare.text
    # SGLang's records, with nothing in front
    if text.startswith("[") and (dated := _DATED.match(text, 0, body)) is not None:
        year, md, hms, rank = dated.groups()
        return Head(Stamp(int(year), md, hms), None, rank.strip() or None, None)
    at = text.rfind("[", 0, body) - 15
    if at < 0 or body >= 300 or bare.outer is not None or not _CLOCK.match(text, at):
        return _read_head(bare, body)
    # vLLM's records differ from one another in nothing but the clock, which is what stands at ``at``
    around = text[:at] + text[at + 15 : body]
    stamp = Stamp(None, text[at : at + 5], text[at + 6 : at + 14])
    if around in _heads:
        head = _heads[around]
        return head and Head(stamp, *head[1:])
    head = _read_head(bare, body)
    if head is None or head.stamp == stamp:
        if len(_heads) > 2000:  # collectors' stamps make every prefix new: the cache is for those that repeat
            _heads.clear()
        _heads[around] = head
    return head


def _read_head(bare: Bare, body: int) -> Head | None:
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
    if match.re is _HEAD and match["md"]:
        stamp = Stamp(None, match["md"], match["t"])
        return Head(
            stamp, match["level"], None, match["file"], outer.origin, outer.pid, outer.dp, bare.outer or outer.stamp
        )
    level = match["level2"] if match.re is _HEAD else match["level"]
    rank = (match["rank"] or "").strip() or None
    return Head(stamp_of(match), level, rank, match["file"], outer.origin, outer.pid, outer.dp)


_RECORD = regex.compile(
    rf"{_LEVEL} +\d\d-\d\d \d\d:\d\d:\d\d \[[^\]\s]{{1,200}}+\] ?"
    rf"|\[\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{{1,6}})?(?: [A-Z_]{{1,12}}+\d{{1,6}}+){{0,9}}+\] (?:{_LEVEL}:? +)?"
    rf"|\d{{4}}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[^\"'{{]{{0,160}}?\b{_LEVEL}\b[\s:|,\-\]]{{0,8}}+"
    r"(?:\d{1,9}+ |[\w.]{1,120}+:[\w<>]{1,80}+:\d{1,6}+ - )?(?:\[[^\[\]\"']{0,120}\][\s:\-]{0,4}+)?",
    regex.ASCII,
)


def message_start(bare: Bare) -> int | None:
    """Where the message of the line's first record begins; None where no record begins."""
    match = _RECORD.search(bare.text, 0, 4000)
    if match is not None:
        return int(match.end())
    return 0 if bare.in_json else None


def without_repeats(text: str) -> str:
    """Text without Ray's ``[repeated 32x across cluster]`` note: such a line counts once."""
    at = text.rfind("[repeated ")
    return text[:at].rstrip() if at >= 0 and " across cluster]" in text[at : at + 60] else text
