"""vLLM 0.14 to 0.33, Python and Rust front ends: the lines of its statistics call, and the start-up lines that state
facts.

One statistics call prints, per engine, a throughput line, optional companions, and (with ``--enable-mfu-metrics``) an
MFU line last. ``_vllm_ticks.py`` pairs them; here one line becomes one event.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import regex

from log_parsers.engines import Engine, Event, Sample
from log_parsers.engines._vllm_startup import BOUNDARY_NEEDLES, STARTUP_NEEDLES, startup_event
from log_parsers.engines._vllm_ticks import Ticks
from log_parsers.scan import Local
from log_parsers.wrappers import Bare, Head, head_of, without_repeats

START_BYTES = 16 << 20
"""A start-up, request logs of other servers in the same file included, is over after so many bytes."""
CALL_BYTES = 64 << 10
"""The lines of one statistics call stand within so many bytes, a block of details included."""
NEXT_BYTES = 8 << 10
"""The speculative decoding line is printed right behind the throughput line."""

_N = r"[0-9]{1,15}+"
_X = r"[0-9]{1,15}+\.[0-9]{1,9}+"
_TAIL = rf"[\s,.]*+(?:\[repeated {_N}x across cluster\][^\"']*+)?\Z"
_MORE = r"(?:, [A-Za-z][^,:\"']{0,40}: [^,:\"']{1,40})*+"  # fields that a later release may append

_MFU = regex.compile(
    rf"(?:Engine (?P<rank>{_N}): )?MFU: (?P<tflops>{_X}) TF/s/(?:GPU|device) "
    rf"(?P<gbps>{_X}) GB/s/(?:GPU|device)(?![\w/.])" + _MORE + _TAIL
)
# The two lines nearly always look like this; ``re`` reads them twice as fast as ``regex`` the general forms.
_USUAL_MFU = re.compile(
    r"Engine (\d{1,7}): MFU: (\d{1,9}\.\d{1,9}) TF/s/(?:GPU|device) (\d{1,9}\.\d{1,9}) GB/s/(?:GPU|device)\Z",
    re.ASCII,
)
_USUAL_THROUGHPUT = re.compile(
    r"Engine (\d{1,7}): Avg prompt throughput: (\d{1,9}\.\d{1,9}) tokens/s, "
    r"Avg generation throughput: (\d{1,9}\.\d{1,9}) tokens/s, Running: (\d{1,9}) reqs, Waiting: (\d{1,9}) reqs, "
    r"([A-Z]{1,9}) KV cache usage: (\d{1,3})\.(\d)%(?:, Prefix cache hit rate: (\d{1,3})\.(\d)%)?\Z",
    re.ASCII,
)
_DETAILS = regex.compile(rf"Engine (?P<rank>{_N}): MFU details: \{{\Z")
_DETAIL = regex.compile(
    rf"\"(?:(?P<key>num_batches|prefill_num_tokens)\": (?P<count>{_N})|duration\": \"(?P<seconds>{_X})s\"),?\Z"
)
_THROUGHPUT = regex.compile(
    rf"(?:Engine (?P<rank>{_N}): |(?P<engines>{_N}) Engines Aggregated: )"
    rf"Avg prompt throughput: (?P<prompt>{_X}) tokens/s, Avg generation throughput: (?P<gen>{_X}) tokens/s, "
    rf"Running: (?P<running>{_N}) reqs, Waiting: (?P<waiting>{_N}) reqs(?P<rest>.*+)\Z",
    regex.DOTALL,
)
_RUST = regex.compile(
    rf"Avg prompt tput: (?P<prompt>{_X}) toks/s, Avg generation tput: (?P<gen>{_X}) toks/s, "
    rf"Reqs Running: (?P<running>{_N}), Waiting: (?P<waiting>{_N})(?P<rest>, .*+)\Z",
    regex.DOTALL,
)
_ITERATION = regex.compile(
    rf"(?:Engine (?P<rank>{_N}): )?Iteration\({_N}\): {_N} context requests, (?P<context>{_N}) context tokens, "
    rf"{_N} generation requests, {_N} generation tokens, iteration elapsed time: (?P<ms>{_X}) ms"
    r"(?P<dummy> \(dummy\))?(?:, [^\"']*+)?\Z"
)
_SPEC = regex.compile(rf"SpecDecoding metrics: Mean acceptance length: (?P<length>{_X}|nan), [^\"']*+\Z")
_AGGREGATED = regex.compile(rf"{_N} Engines Aggregated: \Z")
_PERCENT_KEYS = ("KV cache usage", "KV cache used", "Prefix cache hit rate", "MM cache hit rate")
_PERCENT = regex.compile(rf"(?:{_X}|nan)%\Z")
_FETCH_PART = regex.compile(rf"{_N} (?:in progress|completed waiting)\Z")
_LOGO = re.compile(r"[ ▀-▟]+\Z")
_FILES = ("loggers.py", "perf.py", "metrics.py", "core.py")


def parse_line(bare: Bare) -> Event | None:
    """The event of one bare line; None if the line is not vLLM's."""
    text = bare.text
    if "MFU" in text:
        return _mfu(bare)
    if "Avg prompt t" in text:
        return _throughput(bare)
    if "Iteration(" in text:
        return _simple(bare, "Iteration(", _ITERATION, _iteration)
    if "SpecDecoding metrics: " in text:
        return _simple(bare, "SpecDecoding metrics: ", _SPEC, _spec)
    if '"duration": "' in text or '"num_batches": ' in text or '"prefill_num_tokens": ' in text:
        return _detail(bare)
    return startup_event(bare)


def parse_further(bare: Bare) -> Event | None:
    """The JSON formatter leaves the details block and the banner with the version in one piece."""
    opening = bare.opening or ""
    if _LOGO.match(opening):
        return startup_event(bare)
    opened = _mfu(Bare(opening, bare.outer, True)) if "MFU details: {" in opening else None
    return _detail(bare) if opened is not None and opened.kind == "details" else None


def _usual(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    start = text.rfind("Engine ")
    return pattern.match(text, start) if start >= 0 else None


def _start(text: str, literal: str) -> tuple[int, bool]:
    """Where the body begins, and whether it begins with ``Engine NNN: `` or ``N Engines Aggregated: ``."""
    pos = text.rfind(literal)
    engine = text.rfind("Engine ", max(0, pos - 16), pos)
    if engine >= 0 and text[engine + 7 : pos - 2].isdecimal() and text[pos - 2 : pos] == ": ":
        return engine, True
    if text.endswith(" Engines Aggregated: ", 0, max(0, pos)):
        match = _AGGREGATED.search(text, max(0, pos - 40), pos)
        return (match.start(), True) if match else (pos, False)
    return pos, False


def _head(bare: Bare, body: int, named: bool) -> Head | None:
    """The head, if this body may stand behind it. ``named``: the body names its engine, or is one that never does.

    Where a record names its source file, that must be one that prints statistics, or of the Rust front end, whose
    bodies name no engine. Where it does not, only a body that names its engine is believed.
    """
    head = head_of(bare, body)
    if head is None:
        return None
    if head.file is None:
        return head if named else None
    return head if _may_print(head.file, named) else None


@functools.lru_cache(maxsize=256)
def _may_print(file: str, named: bool) -> bool:
    name = file.rpartition("/")[2].partition(":")[0]
    return name.endswith(".rs") or (named and name in _FILES)


def _broken(head: Head, reason: str) -> Event:
    return Event("broken", head, {"reason": reason})


def _mfu(bare: Bare) -> Event | None:
    text = bare.text
    if (usual := _usual(_USUAL_MFU, text)) is not None:
        head = _head(bare, usual.start(), True)
        return head and _mfu_event(head, *usual.groups())
    details = "MFU details: " in text
    start, prefix = _start(text, "MFU details: " if details else "MFU: ")
    if start < 0 or (head := _head(bare, start, prefix)) is None:
        return None
    if details:
        match = _DETAILS.match(text, start)
        return Event("details", head, {"rank": str(int(match["rank"]))}) if match else None
    match = _MFU.match(text, start)
    return _broken(head, "MFU line torn or cut") if match is None else _mfu_event(head, *match.groups())


def _mfu_event(head: Head, rank: str | None, tflops: str, gbps: str) -> Event:
    return Event(
        "mfu",
        head,
        {
            "rank": None if rank is None else str(int(rank)),
            "tflops": float(tflops),
            "gbps": float(gbps),
            "rust": rank is None,
        },
    )


def _detail(bare: Bare) -> Event | None:
    start = bare.text.find('"')
    match = _DETAIL.match(bare.text, start)
    if match is None:
        return None
    head = head_of(bare, start)
    if head is None or not (bare.opening is not None or (head.file is not None and "perf.py" in head.file)):
        return None
    if match["key"]:
        return Event("details", head, {match["key"]: int(match["count"])})
    return Event("details", head, {"duration": float(match["seconds"])})


def _throughput(bare: Bare) -> Event | None:
    text = bare.text
    if (usual := _usual(_USUAL_THROUGHPUT, text)) is not None:
        head = _head(bare, usual.start(), True)
        return head and _usual_throughput(head, *usual.groups())
    rust = "Avg prompt tput" in text
    start, prefix = _start(text, "Avg prompt t")
    if (head := _head(bare, start, prefix)) is None:
        return None
    match = (_RUST if rust else _THROUGHPUT).match(text, start)
    if match is None:
        return _broken(head, "throughput line torn or cut")
    rank, engines, prompt, gen, running, waiting, rest = match.groups() if not rust else (None, None, *match.groups())
    values: dict[str, Any] = {
        "rank": str(int(rank)) if rank is not None else f"{engines} engines aggregated" if engines else None,
        "aggregated": engines is not None,
        "prompt_tok_s": float(prompt),
        "gen_tok_s": float(gen),
        "running": int(running),
        "waiting": int(waiting),
    }
    if not _rest(rest, values):
        return _broken(head, "throughput line torn or cut")
    return Event("throughput", head, values)


def _usual_throughput(
    head: Head, rank: str, prompt: str, gen: str, running: str, waiting: str, device: str, *percents: str | None
) -> Event:
    kv, kv_tenths, hits, hit_tenths = percents
    values: dict[str, Any] = {
        "rank": str(int(rank)),
        "aggregated": False,
        "rust": False,
        "prompt_tok_s": float(prompt),
        "gen_tok_s": float(gen),
        "running": int(running),
        "waiting": int(waiting),
        "device": device,
        "kv_usage": int(f"{kv}{kv_tenths}") / 1000,
    }
    if hits is not None:
        values["prefix_hit_rate"] = int(f"{hits}{hit_tenths}") / 1000
    return Event("throughput", head, values)


def _rest(rest: str, values: dict[str, Any]) -> bool:
    """Read the optional fields; False if one of the known ones is incomplete or the line ends inside a field."""
    for part in without_repeats(rest).strip(" ,.\t").split(", "):
        key, sep, value = part.partition(": ")
        if not sep:
            if part and not _FETCH_PART.match(part):
                return False
        elif key.endswith(_PERCENT_KEYS):
            if not _PERCENT.match(value):
                return False
            _percent(key, value, values)
        elif any(char in part for char in "\"'[]{}"):
            return False
    return True


def _percent(key: str, value: str, values: dict[str, Any]) -> None:
    if value == "nan%":
        return
    fraction = round(float(value[:-1]) / 100, 6)
    device, _, name = key.partition(" KV cache us")
    if name:
        values["kv_usage"] = fraction
        values["device"] = device
    elif key == "Prefix cache hit rate":
        values["prefix_hit_rate"] = fraction


def _simple(bare: Bare, literal: str, pattern: regex.Pattern[str], build: Any) -> Event | None:
    start, prefix = _start(bare.text, literal)
    head = _head(bare, start, named=True)
    if head is None or (head.file is None and not prefix and head.stamp is None):
        return None
    match = pattern.match(bare.text, start)
    return build(head, match) if match else _broken(head, literal.strip(" (:") + " line torn or cut")


def _iteration(head: Head, match: regex.Match[str]) -> Event:
    rank = match["rank"]
    return Event(
        "iteration",
        head,
        {
            "rank": None if rank is None else str(int(rank)),
            "new_tokens": int(match["context"]),
            "ms": float(match["ms"]),
            "dummy": match["dummy"] is not None,
        },
    )


def _spec(head: Head, match: regex.Match[str]) -> Event:
    length = match["length"]
    return Event("spec", head, {"accept_len": None if length == "nan" else float(length)})


_AT = "(APIServer pid=4242) INFO 03-01 12:00:"
_PLAIN = (
    "Engine 000: Avg prompt throughput: 4608.0 tokens/s, Avg generation throughput: 2880.0 tokens/s, "
    "Running: 32 reqs, Waiting: 7 reqs, Deferred: 5 reqs, GPU KV cache usage: 12.3%, Prefix cache hit rate: 25.0%"
)
SAMPLES = (
    Sample(
        f"{_AT}10 [loggers.py:273] {_PLAIN}\n{_AT}10 [perf.py:1532] Engine 000: MFU: 110.3 TF/s/GPU 1796.1 GB/s/GPU\n",
        {
            "rank": "0",
            "tflops": 110.3,
            "gbps": 1796.1,
            "prompt_tok_s": 4608.0,
            "gen_tok_s": 2880.0,
            "running": 32,
            "waiting": 7,
            "kv_usage": 0.123,
            "prefix_hit_rate": 0.25,
            "kind": "mixed",
        },
    ),
    Sample(
        f"{_AT}10 [perf.py:1725] Engine 012: MFU: 110.3 TF/s/device 1796.1 GB/s/device\n",
        {"rank": "12", "tflops": 110.3, "gbps": 1796.1, "kind": "unknown"},
    ),
    Sample(
        "(RustFrontend pid=4242) INFO 03-01 12:00:20 [log_stats.rs:273] Avg prompt tput: 4608.0 toks/s, "
        "Avg generation tput: 2880.0 toks/s, Reqs Running: 32, Waiting: 7, Deferred: 5 reqs, Preemptions: 3, "
        "GPU KV cache used: 12.3%, Prefix cache hit rate: 25.0%, External prefix cache hit rate: 40.0%\n"
        "(RustFrontend pid=4242) INFO 03-01 12:00:20 [log_stats.rs:308] MFU: 110.3 TF/s/GPU 1796.1 GB/s/GPU\n",
        {"rank": None, "tflops": 110.3, "running": 32, "waiting": 7, "kv_usage": 0.123, "prefix_hit_rate": 0.25},
    ),
    Sample(
        f"{_AT}10 [loggers.py:335] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 2880.0 "
        "tokens/s, Running: 32 reqs, Waiting: 2 reqs, KV fetch: 3 waiting to start, 1 in progress, "
        "0 completed waiting, XPU KV cache usage: 12.3%, Prefix cache hit rate: 0.0%\n",
        {"rank": "0", "tflops": None, "gbps": None, "gen_tok_s": 2880.0, "kv_usage": 0.123, "kind": "decode"},
        {"device_platform": "xpu"},
    ),
    Sample(
        f"{_AT}10 [kv_cache_utils.py:1305] GPU KV cache size: 1,024,768 tokens\n",
        facts={"kv_cache_tokens": 1_024_768},
    ),
)

ENGINE = Engine(
    name="vllm",
    needles=(b"MFU", b"Avg prompt t", *BOUNDARY_NEEDLES),
    local=(
        Local(STARTUP_NEEDLES, BOUNDARY_NEEDLES, START_BYTES),
        Local((b"Iteration(",), BOUNDARY_NEEDLES, START_BYTES, stays=True),
        Local((b"SpecDecoding metrics: ",), (b"Avg prompt t",), NEXT_BYTES),
        Local((b'"duration": "', b'"num_batches": ', b'"prefill_num_tokens": '), (b"MFU details: {",), CALL_BYTES),
    ),
    parse_line=parse_line,
    parse_further=parse_further,
    tracker=Ticks,
    samples=SAMPLES,
)
