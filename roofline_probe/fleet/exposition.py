"""A scraped page -> one sample per engine: counters, gauges and the few facts that ``/metrics`` states.

The page is parsed by prometheus-client. Only lines whose metric is listed here are handed to it: a page has about 600
lines, mostly histogram buckets, and the parser looks at every character.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from roofline_probe.errors import UsageError
from roofline_probe.fleet.scrape import ScrapeFailed

Role = str
"""What a series means to us, the same word for both engines: ``flops``, ``gen_tokens``, ``running`` …"""

EngineKey = tuple[str, str | None]
"""Engine and rank: what tells two engines behind one address apart."""

COUNTERS: Mapping[str, tuple[Role, Mapping[str, str]]] = {
    "vllm:estimated_flops_per_gpu_total": ("flops", {}),
    "vllm:estimated_read_bytes_per_gpu_total": ("read_bytes", {}),
    "vllm:estimated_write_bytes_per_gpu_total": ("write_bytes", {}),
    "vllm:prompt_tokens_total": ("prompt_tokens", {}),
    "vllm:prompt_tokens_by_source_total": ("computed_prompt_tokens", {"source": "local_compute"}),
    "vllm:generation_tokens_total": ("gen_tokens", {}),
    "vllm:time_to_first_token_seconds_count": ("first_tokens", {}),
    "vllm:iteration_tokens_total_count": ("iterations", {}),
    "vllm:prefix_cache_queries_total": ("prefix_queries", {}),
    "vllm:prefix_cache_hits_total": ("prefix_hits", {}),
    "vllm:spec_decode_num_drafts_total": ("drafts", {}),
    "vllm:spec_decode_num_accepted_tokens_total": ("accepted_tokens", {}),
    "sglang:estimated_flops_per_gpu_total": ("flops", {}),
    "sglang:estimated_read_bytes_per_gpu_total": ("read_bytes", {}),
    "sglang:estimated_write_bytes_per_gpu_total": ("write_bytes", {}),
    "sglang:realtime_tokens_total": ("realtime", {}),
}
"""Metric -> (role, labels it must have). Names by version: vLLM 0.17 and later, SGLang 0.5.10 and later."""

_REALTIME_MODES = {
    "prefill_compute": "computed_prompt_tokens",
    "prefill_cache": "cached_tokens",
    "decode": "gen_tokens",
}

GAUGES: Mapping[str, Role] = {
    "vllm:num_requests_running": "running",
    "vllm:num_requests_waiting": "waiting",
    "vllm:kv_cache_usage_perc": "kv_usage",
    "sglang:num_running_reqs": "running",
    "sglang:num_queue_reqs": "queue",
    "sglang:token_usage": "kv_usage",
    "sglang:num_used_tokens": "context_tokens",
    "sglang:spec_accept_length": "accept_len",
    "sglang:max_total_num_tokens": "kv_cache_tokens",
}
_INFO = "vllm:cache_config_info"
_BORN = ("process_start_time_seconds", "vllm:estimated_flops_per_gpu_created")
_WANTED = frozenset((*COUNTERS, *GAUGES, _INFO, *_BORN))
_PREFIXES = ("vllm:", "sglang:", "process_start_time_seconds")


@dataclass(slots=True)
class EngineSample:
    """One engine (vLLM) or scheduler rank (SGLang) at one moment. Roles that the page lacks are absent, never 0."""

    engine: str
    rank: str | None
    model: str | None = None
    counters: dict[Role, float] = field(default_factory=dict)
    gauges: dict[Role, float] = field(default_factory=dict)
    kv_cache_dtype: str | None = None
    born: float | None = None
    """Unix second at which the process or its counters began, where the page tells: a change of it is a restart."""


def require_parser() -> Any:
    """prometheus-client's text parser.

    Raises:
        UsageError: the package is not installed.
    """
    try:
        from prometheus_client.parser import text_string_to_metric_families
    except ImportError:
        raise UsageError(
            "Reading /metrics needs the package prometheus-client; "
            "install it with `pip install 'roofline-probe[fleet]'`."
        ) from None
    return text_string_to_metric_families


def parse(page: bytes) -> dict[EngineKey, EngineSample]:
    """Samples by (engine, rank), in the order of the page.

    Raises:
        ScrapeFailed: the page is not in Prometheus' text format, or holds no vLLM or SGLang series.
        UsageError: prometheus-client is missing.
    """
    families = require_parser()
    wanted = "\n".join(_wanted_lines(page.decode("utf-8", "replace").splitlines()))
    try:
        series = [sample for family in families(wanted + "\n") for sample in family.samples]
    except (ValueError, IndexError, KeyError):
        raise ScrapeFailed("Its answer is not in Prometheus' text format; is this address a /metrics page?") from None
    samples = _collect(series)
    if not samples:
        raise ScrapeFailed("It shows no vllm: or sglang: series; is this an engine's own /metrics page?")
    return samples


def _wanted_lines(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if line.startswith(_PREFIXES):
            name = line.split("{", 1)[0].split(" ", 1)[0]
            if name in _WANTED:
                yield line


def _collect(series: Iterable[Any]) -> dict[EngineKey, EngineSample]:
    ranked = [s for s in series if ":" in s.name]
    rank_of = _sglang_rank_namer(s.labels for s in ranked if s.name.startswith("sglang:"))
    samples: dict[EngineKey, EngineSample] = {}
    by_priority: set[tuple[int, Role]] = set()
    born = next((s.value for s in series if s.name == _BORN[0]), None)
    for s in ranked:
        engine = s.name.split(":", 1)[0]
        rank = _plain(s.labels.get("engine")) if engine == "vllm" else rank_of(s.labels)
        sample = samples.setdefault((engine, rank), EngineSample(engine, rank, born=born))
        sample.model = sample.model or _plain(s.labels.get("model_name"))
        if 0 <= s.value < math.inf:  # -1 is how an exporter says "not known"
            _file(sample, s, by_priority)
    return samples


def _file(sample: EngineSample, series: Any, totals: set[tuple[int, Role]]) -> None:
    """Put one series where its role belongs; several series of one role (several models, API servers) are added up."""
    name, labels, value = series.name, series.labels, float(series.value)
    if name in COUNTERS:
        role, needed = COUNTERS[name]
        if role == "realtime":
            role = _REALTIME_MODES.get(labels.get("mode", ""), "")
        if role and all(labels.get(k) == v for k, v in needed.items()):
            sample.counters[role] = sample.counters.get(role, 0.0) + value
    elif name in GAUGES:
        _file_gauge(sample, GAUGES[name], labels, value, totals)
    elif name == _INFO:
        _file_info(sample, labels)
    elif name == _BORN[1]:
        sample.born = value


def _file_gauge(
    sample: EngineSample, role: Role, labels: Mapping[str, str], value: float, totals: set[tuple[int, Role]]
) -> None:
    # With priority scheduling SGLang shows a total under priority="" and each priority again beside it.
    if labels.get("priority"):
        if (id(sample), role) not in totals:
            sample.gauges[role] = sample.gauges.get(role, 0.0) + value
        return
    if "priority" in labels:
        totals.add((id(sample), role))
        sample.gauges[role] = value
        return
    shared = role in ("kv_usage", "accept_len")  # a fraction or a mean is not added up
    sample.gauges[role] = max(sample.gauges.get(role, 0.0), value) if shared else sample.gauges.get(role, 0.0) + value


def _file_info(sample: EngineSample, labels: Mapping[str, str]) -> None:
    """vLLM states its KV cache as labels: in tokens since 0.24, before that as blocks of a size."""
    tokens = _int(labels.get("kv_cache_size_tokens"))
    blocks, size = _int(labels.get("num_gpu_blocks")), _int(labels.get("block_size"))
    if tokens is None and blocks is not None and size is not None:
        tokens = blocks * size
    if tokens:
        sample.gauges["kv_cache_tokens"] = tokens
    sample.kv_cache_dtype = _plain(labels.get("cache_dtype"))


def _sglang_rank_namer(
    label_sets: Iterable[Mapping[str, str]],
) -> Callable[[Mapping[str, str]], str | None]:
    """A function labels -> rank as SGLang prints it (``DP0 PP1 TP0``), None where one rank is all there is.

    The log names a dimension only if there is more than one of it; the labels always carry tp, pp and moe_ep. So a
    dimension is named here if its values differ within the page, and the DP rank wherever it is a label.
    """
    dimensions = (("DP", "dp_rank"), ("PP", "pp_rank"), ("TP", "tp_rank"), ("EP", "moe_ep_rank"))
    seen: dict[str, set[str]] = {label: set() for _, label in dimensions}
    for labels in label_sets:
        for label, values in seen.items():
            if label in labels:
                values.add(labels[label])
    named = [(short, label) for short, label in dimensions if len(seen[label]) > (0 if label == "dp_rank" else 1)]

    def rank_of(labels: Mapping[str, str]) -> str | None:
        parts = [f"{short}{labels[label]}" for short, label in named if labels.get(label)]
        return _plain(" ".join(parts)) or None

    return rank_of


def _plain(text: str | None) -> str | None:
    """Label values are the server's text: control characters never get further than here."""
    return None if text is None else "".join(c if c.isprintable() else "?" for c in text)[:200]


def _int(text: str | None) -> int | None:
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None
