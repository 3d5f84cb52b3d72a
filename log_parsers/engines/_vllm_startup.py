"""vLLM's start-up lines: what they state about the run, and the warnings that explain missing figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import regex

from log_parsers.engines import Event, EventKind
from log_parsers.startup_args import integer, pairs, short_dtype, truth, unquote
from log_parsers.wrappers import Bare, head_of, message_start

Values = dict[str, Any]


class _Rule(NamedTuple):
    literal: str
    pattern: regex.Pattern[str]
    read: Callable[[regex.Match[str]], Values]
    kind: EventKind = "fact"


def _version(match: regex.Match[str]) -> Values:
    return {"engine_version": match["version"], "model": match.groupdict().get("model")}


def _config(match: regex.Match[str]) -> Values:
    args = pairs(match["config"])
    flags = {name: value for name in _CONFIG_FLAGS if (value := truth(_inside(args, name))) is not None}
    device = args.get("device_config")
    return {
        "engine_version": match["version"],
        "model": unquote(args.get("model")),
        "dtype": short_dtype(args.get("dtype")),
        "quantization": unquote(args.get("quantization")),
        "kv_cache_dtype": unquote(args.get("kv_cache_dtype")),
        "tp": integer(args.get("tensor_parallel_size")),
        "pp": integer(args.get("pipeline_parallel_size")),
        "dp": integer(args.get("data_parallel_size")),
        "max_model_len": integer(args.get("max_seq_len")),
        "speculative": None if "speculative_config" not in args else args["speculative_config"] != "None",
        "device_platform": unquote(device) if device and regex.fullmatch(r"[a-z]+", device) else None,
        "flags": flags,
    }


_CONFIG_FLAGS = ("enable_mfu_metrics", "enable_logging_iteration_details", "enforce_eager", "enable_prefix_caching")


def _inside(args: dict[str, str], name: str) -> str | None:
    """A flag at the top level of the dump or inside its ``observability_config``."""
    if name in args:
        return args[name]
    match = regex.search(rf"\b{name}=(True|False)", args.get("observability_config", ""))
    return match[1] if match else None


def _non_default(match: regex.Match[str]) -> Values:
    args = pairs(match["args"])
    flags = {name: value for name, text in args.items() if (value := truth(text)) is not None}
    dtype = args.get("dtype")
    values: Values = {
        "model": unquote(args.get("model")) or unquote(args.get("model_tag")),
        "dtype": short_dtype(dtype) if dtype else None,
        "quantization": unquote(args.get("quantization")),
        "kv_cache_dtype": unquote(args.get("kv_cache_dtype")),
        "tp": integer(args.get("tensor_parallel_size")),
        "pp": integer(args.get("pipeline_parallel_size")),
        "dp": integer(args.get("data_parallel_size")),
        "max_model_len": integer(args.get("max_model_len")),
        "max_running": integer(args.get("max_num_seqs")),
        "token_budget": integer(args.get("max_num_batched_tokens")),
        "api_server_count": integer(args.get("api_server_count")),
        "flags": flags,
    }
    if flags.get("disable_log_stats"):
        values["warnings"] = ("stats_disabled",)
    return values


def _component(match: regex.Match[str]) -> Values:
    fields = {key: integer(value) for key, value in (item.partition("=")[::2] for item in match["fields"].split())}
    return {"components": {match["name"]: fields}}


def _kv_cache(match: regex.Match[str]) -> Values:
    device = match["device"].lower()
    # "GPU" is what older releases print on every device, so only another name gives the platform away
    return {
        "kv_cache_tokens": int(match["tokens"].replace(",", "")),
        "device_platform": None if device == "gpu" else device,
    }


def _weights(match: regex.Match[str]) -> Values:
    return {"weight_bytes": round(float(match["gib"]) * 2**30)}


def _warning(code: str) -> Callable[[regex.Match[str]], Values]:
    return lambda match: {"warnings": (code,)}


def _count(key: str) -> Callable[[regex.Match[str]], Values]:
    return lambda match: {key: int(match["count"])}


def _device_hint(match: regex.Match[str]) -> Values:
    return {"device_hints": (match["device"],)}


def _nothing(match: regex.Match[str]) -> Values:
    return {}


_RULES = (
    _Rule("version ", regex.compile(r"[^\w\"'`(]*\bversion (?P<version>[0-9][\w.+\-]*+)\Z"), _version, "boundary"),
    _Rule(
        "vLLM API server version ",
        regex.compile(r"vLLM API server version (?P<version>[0-9][\w.+\-]*+)\Z"),
        _version,
        "boundary",
    ),
    _Rule(
        "vLLM server version ",
        regex.compile(r"vLLM server version (?P<version>[0-9][\w.+\-]*+)(?:, serving model (?P<model>\S++))?\Z"),
        _version,
        "boundary",
    ),
    _Rule("non-default args: ", regex.compile(r"non-default args: \{(?P<args>.*)"), _non_default, "boundary"),
    _Rule(
        "Initializing a V1 LLM engine (v",
        regex.compile(r"Initializing a V1 LLM engine \(v(?P<version>[^()\s]++)\) with config: (?P<config>.*)"),
        _config,
        "boundary",
    ),
    _Rule(
        "Instantiated ComponentMetrics [",
        regex.compile(r"Instantiated ComponentMetrics \[(?P<name>\w++)\] with \((?P<fields>[\w=. \-]*+)\)\Z"),
        _component,
    ),
    _Rule(
        " KV cache size: ",
        regex.compile(r"(?P<device>[A-Z]{2,8}) KV cache size: (?P<tokens>[0-9][0-9,]{0,18}+) tokens"),
        _kv_cache,
    ),
    _Rule(
        "Model loading took ", regex.compile(r"Model loading took (?P<gib>[0-9]{1,15}+\.[0-9]{1,15}+) GiB\b"), _weights
    ),
    _Rule(
        "max_num_batched_tokens=",
        regex.compile(r".*?max_num_batched_tokens=(?P<count>[0-9]{1,15}+)"),
        _count("token_budget"),
    ),
    _Rule(
        "Defaulting api_server_count to ",
        regex.compile(r"Defaulting api_server_count to data_parallel_size \((?P<count>[0-9]{1,15}+)\)"),
        _count("api_server_count"),
    ),
    _Rule(
        "AsyncLLM created with api_server_count more than 1",
        regex.compile("AsyncLLM created with api_server_count"),
        _warning("stats_disabled_api_servers"),
        "warning",
    ),
    _Rule(
        "Failed to instantiate ",
        # vLLM tries latent and plain attention on every model and one of them does not fit: that is no failure.
        regex.compile(r"Failed to instantiate \w+ from (?!Model (?:does not use|uses) MLA attention)"),
        _warning("component_failed"),
        "warning",
    ),
    _Rule(
        "unsupported operand type(s) for +: 'int' and 'list'",
        regex.compile(r".*TypeError: unsupported operand type\(s\) for \+: 'int' and 'list'"),
        _warning("mfu_debug_type_error"),
        "warning",
    ),
    _Rule(
        "Dumping input data for V1 LLM engine",
        regex.compile("Dumping input data for V1 LLM engine"),
        _warning("engine_crashed"),
        "warning",
    ),
    _Rule(
        "device_name=", regex.compile(r".*?\bdevice_name=(?P<device>[\w.\-]+?)(?:\.json|,|\s|\Z)"), _device_hint, "hint"
    ),
    _Rule("Supported tasks: ", regex.compile(r"Supported [\w ]*tasks: "), _nothing),
)
STARTUP_NEEDLES = tuple(("  version " if rule.literal == "version " else rule.literal).encode() for rule in _RULES)
BOUNDARY_NEEDLES = (b"non-default args: ", b"Initializing a V1 LLM engine (v")


def startup_event(bare: Bare) -> Event | None:
    """What a start-up line states; None if the line is none."""
    text = bare.text
    for rule in _RULES:
        if rule.literal in text and (event := _apply(rule, bare)) is not None:
            return event
    return None


def _apply(rule: _Rule, bare: Bare) -> Event | None:
    start = message_start(bare)
    match = rule.pattern.match(bare.text, start) if start is not None else None
    if match is None:
        return None
    head = head_of(bare, start or 0)
    if head is None or not (head.file or head.level or bare.in_json):
        return None
    values = rule.read(match)
    if rule.kind == "boundary":
        values = {"boundary": rule.literal if rule.literal[0] != "v" else "version", **values}
    return Event(rule.kind, head, values)
