"""SGLang 0.5.10 to 0.5.23: decode and prefill lines, and the start-up lines that state facts.

Every line is one step. Its fields are read as ``key: value`` in any order, so that fields of other releases, drafts,
disaggregation or occupancy cost nothing.
"""

from __future__ import annotations

import re
from typing import Any

import regex

from log_parsers.engines import Engine, Event, Sample
from log_parsers.engines._sglang_lines import Batches
from log_parsers.scan import Local
from log_parsers.startup_args import integer, pairs, short_dtype, truth, unquote
from log_parsers.wrappers import Bare, Head, head_of, message_start, without_repeats

START_BYTES = 16 << 20
"""A start-up is over after so many bytes."""

_BODY = regex.compile(r"(?P<phase>Decode|Prefill) batch(?: \[[0-9]{1,15}+\])?[.,] ")
_DIGITS = 15
_DECIMAL = re.compile(r"\d{1,15}\.\d\d\Z", re.ASCII)

_COUNTS = {
    "#running-req": "running",
    "#queue-req": "queue",
    "#token": "context_tokens",
    "#full token": "context_tokens",
    "#gpu token": "context_tokens",
    "#new-seq": "new_seqs",
    "#new-token": "new_tokens",
    "#cached-token": "cached_tokens",
    "#pending-token": "pending_tokens",
}
_RATES = {
    "token usage": "kv_usage",
    "full token usage": "kv_usage",
    "gpu token usage": "kv_usage",
    "accept len": "accept_len",
    "gen throughput (token/s)": "gen_tok_s",
    "input throughput (token/s)": "prompt_tok_s",
    "est. decode TFLOPS/s (per GPU)": "tflops",
    "est. prefill TFLOPS/s (per GPU)": "tflops",
    "est. read BW (GB/s per GPU)": "read_gbps",
    "est. write BW (GB/s per GPU)": "write_gbps",
}
# The two lines as they nearly always look: one pattern is faster than ten fields.
_N, _X = r"(\d{1,9})", r"(\d{1,9}\.\d\d)"
_USUAL_DECODE = re.compile(
    rf"#running-req: {_N}, #token: {_N}, token usage: {_X}, cuda graph: (True|False), "
    rf"gen throughput \(token/s\): {_X}, #queue-req: {_N}, est\. decode TFLOPS/s \(per GPU\): {_X}, "
    rf"est\. read BW \(GB/s per GPU\): {_X}, est\. write BW \(GB/s per GPU\): {_X}\Z",
    re.ASCII,
)
_USUAL_PREFILL = re.compile(
    rf"#new-seq: {_N}, #new-token: {_N}, #cached-token: {_N}, token usage: {_X}, #running-req: {_N}, #queue-req: {_N}, "
    rf"#pending-token: {_N}, cuda graph: (True|False), input throughput \(token/s\): {_X}, "
    rf"est\. prefill TFLOPS/s \(per GPU\): {_X}\Z",
    re.ASCII,
)
_GRAPHS = ("cuda graph", "cpu graph", "npu graph", "musa graph")


def parse_line(bare: Bare) -> Event | None:
    """The event of one bare line; None if the line is not SGLang's."""
    text = bare.text
    if "#running-req: " in text:
        return _batch(bare)
    for literal, pattern, read in _STARTUP:
        if literal in text and (event := _startup(bare, literal, pattern, read)) is not None:
            return event
    return None


def _batch(bare: Bare) -> Event | None:
    text = bare.text
    start = max(text.rfind("Decode batch"), text.rfind("Prefill batch"))
    match = _BODY.match(text, start) if start >= 0 else None
    if match is None:
        return None
    head = head_of(bare, start)
    if head is None or (head.stamp is None and not bare.in_json):
        return None
    phase = match["phase"].lower()
    values = _usual_fields(phase, text, match.end())
    if values is None:
        values = _fields(without_repeats(text[match.end() :]))
        if values is None or not _complete(phase, values):
            return Event("broken", head, {"reason": f"{phase} line torn or cut"})
    values["phase"] = phase
    return Event("step", head, values)


def _usual_fields(phase: str, text: str, body: int) -> dict[str, Any] | None:
    if phase == "decode":
        if (match := _USUAL_DECODE.match(text, body)) is None:
            return None
        running, tokens, usage, graph, rate, queue, tflops, read, write = match.groups()
        return {
            "running": int(running),
            "context_tokens": int(tokens),
            "kv_usage": float(usage),
            "graph": graph == "True",
            "gen_tok_s": float(rate),
            "queue": int(queue),
            "tflops": float(tflops),
            "read_gbps": float(read),
            "write_gbps": float(write),
        }
    if (match := _USUAL_PREFILL.match(text, body)) is None:
        return None
    seqs, new, cached, usage, running, queue, pending, graph, rate, tflops = match.groups()
    return {
        "new_seqs": int(seqs),
        "new_tokens": int(new),
        "cached_tokens": int(cached),
        "kv_usage": float(usage),
        "running": int(running),
        "queue": int(queue),
        "pending_tokens": int(pending),
        "graph": graph == "True",
        "prompt_tok_s": float(rate),
        "tflops": float(tflops),
    }


def _fields(body: str) -> dict[str, Any] | None:
    """Known fields by our names; None if one of them, or the last field, is incomplete."""
    values: dict[str, Any] = {}
    for part in body.strip(" ,\t").split(", "):
        key, sep, text = part.partition(": ")
        if (name := _COUNTS.get(key)) is not None:
            if not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS:
                return None
            values.setdefault(name, int(text))
        elif (name := _RATES.get(key)) is not None:
            if not _DECIMAL.match(text):
                return None
            values.setdefault(name, float(text))
        elif key in _GRAPHS:
            if text not in ("True", "False"):
                return None
            values["graph"] = text == "True"
        elif "#running-req" in text:
            return None
    return values if sep or not part else None


def _complete(phase: str, values: dict[str, Any]) -> bool:
    if phase == "decode":
        rates = ("tflops", "read_gbps", "write_gbps")
        return {"running", "gen_tok_s", "queue"} <= values.keys() and len(values.keys() & set(rates)) in (0, 3)
    return {"new_tokens", "running", "prompt_tok_s"} <= values.keys()


def _startup(bare: Bare, literal: str, pattern: regex.Pattern[str], read: Any) -> Event | None:
    start = message_start(bare)
    match = pattern.match(bare.text, start) if start is not None else None
    head = head_of(bare, start or 0) if match else None
    if match is None or head is None or (head.stamp is None and not bare.in_json) or _vllm_like(head):
        return None
    values = read(match)
    if "boundary" in values:
        return Event("boundary", head, values)
    return Event("hint" if literal == "device_name=" else "fact", head, values)


def _vllm_like(head: Head) -> bool:
    return head.stamp is not None and head.stamp.year is None


def _server_args(match: regex.Match[str]) -> dict[str, Any]:
    args = pairs(match["args"])
    flags = {name: value for name, text in args.items() if (value := truth(text)) is not None}
    values: dict[str, Any] = {
        "boundary": "server_args",
        "model": unquote(args.get("model_path")),
        "dtype": short_dtype(args.get("dtype")),
        "quantization": unquote(args.get("quantization")),
        "kv_cache_dtype": unquote(args.get("kv_cache_dtype")),
        "tp": integer(args.get("tp_size")),
        "pp": integer(args.get("pp_size")),
        "dp": integer(args.get("dp_size")),
        "ep": integer(args.get("ep_size")),
        "max_model_len": integer(args.get("context_length")),
        "max_running": integer(args.get("max_running_requests")),
        "token_budget": integer(args.get("chunked_prefill_size")),
        "decode_log_interval": integer(args.get("decode_log_interval")),
        "speculative": None if "speculative_algorithm" not in args else args["speculative_algorithm"] != "None",
        "device_platform": unquote(args.get("device")),
        "flags": flags,
    }
    warnings = []
    if flags.get("enable_mfu_metrics") and flags.get("enable_metrics") is False:
        warnings.append("mfu_needs_enable_metrics")
    if unquote(args.get("log_level")) in ("warning", "error", "critical"):
        warnings.append("log_level_hides_stats")
    if warnings:
        values["warnings"] = tuple(warnings)
    return values


def _weights(match: regex.Match[str]) -> dict[str, Any]:
    # printed as GB, but divided by 2**30
    return {
        "weight_bytes": round(float(match["gib"]) * 2**30),
        "quantization": match["quant"],
        "dtype": short_dtype(match["dtype"]) if match["dtype"] else None,
    }


def _kv_pool(match: regex.Match[str]) -> dict[str, Any]:
    return {"kv_pool_dtype": short_dtype(match["dtype"]), "kv_cache_tokens": int(match["tokens"])}


def _limits(match: regex.Match[str]) -> dict[str, Any]:
    args = pairs(match["args"])
    return {
        "kv_cache_tokens": integer(args.get("max_total_num_tokens")),
        "token_budget": integer(args.get("chunked_prefill_size")),
        "max_running": integer(args.get("max_running_requests")),
        "max_model_len": integer(args.get("context_len")),
    }


def _device_hint(match: regex.Match[str]) -> dict[str, Any]:
    return {"device_hints": (match["device"],)}


def _nothing(match: regex.Match[str]) -> dict[str, Any]:
    return {}


_STARTUP = (
    ("server_args=", regex.compile(r"server_args=(?:ServerArgs\(|\{)(?P<args>.*)"), _server_args),
    (
        "Load weight end. ",
        regex.compile(
            r"Load weight end\. (?=.*\bmem usage=(?P<gib>[0-9]{1,15}+\.[0-9]{1,15}+) GB)"
            r"(?=(?:.*\bquant=(?P<quant>[\w.\-]++))?+)"
            r"(?=(?:.*\bdtype=(?P<dtype>[\w.]++))?+)"
        ),
        _weights,
    ),
    (
        "KV Cache is allocated. ",
        regex.compile(r"KV Cache is allocated\. dtype: (?P<dtype>[\w.]++), #tokens: (?P<tokens>[0-9]{1,15}+)"),
        _kv_pool,
    ),
    ("max_total_num_tokens=", regex.compile(r"(?P<args>max_total_num_tokens=[0-9]+.*)"), _limits),
    ("device_name=", regex.compile(r".*?\bdevice_name=(?P<device>[\w.\-]+?)(?:\.json|,|\s|\Z)"), _device_hint),
    ("The server is fired up", regex.compile("The server is fired up"), _nothing),
)

_DECODE = (
    "Decode batch, #running-req: 32, #token: 41234, token usage: 0.31, cuda graph: True, "
    "gen throughput (token/s): 2666.67, #queue-req: 3, est. decode TFLOPS/s (per GPU): 39.32, "
    "est. read BW (GB/s per GPU): 37751.18, est. write BW (GB/s per GPU): 10.84"
)
SAMPLES = (
    Sample(
        f"[2026-03-01 12:00:01] {_DECODE}\n",
        {
            "rank": None,
            "kind": "decode",
            "tflops": 39.32,
            "read_gbps": 37751.18,
            "write_gbps": 10.84,
            "gbps": 37762.02,
            "running": 32,
            "context_tokens": 41234,
            "kv_usage": 0.31,
            "gen_tok_s": 2666.67,
            "queue": 3,
            "graph": True,
            "time": "2026-03-01T12:00:01",
            "year_inferred": False,
        },
    ),
    Sample(
        "[2026-03-01 12:00:24 DP1 TP2 EP2] Prefill batch, #new-seq: 4, #new-token: 4096, #cached-token: 128, "
        "full token usage: 0.31, swa token usage: 0.12, #running-req: 12, #queue-req: 3, #pending-token: 2048, "
        "cuda graph: False, input throughput (token/s): 11702.86, est. prefill TFLOPS/s (per GPU): 175.92\n",
        {
            "rank": "DP1 TP2 EP2",
            "kind": "prefill",
            "tflops": 175.92,
            "gbps": None,
            "new_tokens": 4096,
            "cached_tokens": 128,
            "running": 12,
            "prompt_tok_s": 11702.86,
            "kv_usage": 0.31,
            "window_s": 0.35,
        },
    ),
    Sample(
        "2025-10-29 02:27:35 INFO 8900 [ DP15 TP15 EP15 metrics.py:222] Decode batch. #running-req: 2, #token: 300, "
        "token usage: 0.01, npu graph: False, gen throughput (token/s): 12.50, #queue-req: 0,\n",
        {"rank": "DP15 TP15 EP15", "kind": "decode", "tflops": None, "running": 2, "graph": False, "gen_tok_s": 12.5},
    ),
    Sample(
        "[2026-11-29 14:54:26] max_total_num_tokens=788971, chunked_prefill_size=8192, max_prefill_tokens=16384, "
        "max_running_requests=256, context_len=8192, available_gpu_mem=27.30 GB\n",
        facts={"kv_cache_tokens": 788_971, "token_budget": 8192, "max_running": 256, "max_model_len": 8192},
    ),
)

ENGINE = Engine(
    name="sglang",
    needles=(b"#running-req: ", b"server_args="),
    local=(Local(tuple(literal.encode() for literal, _, _ in _STARTUP[1:]), (b"server_args=",), START_BYTES),),
    parse_line=parse_line,
    tracker=Batches,
    samples=SAMPLES,
)
