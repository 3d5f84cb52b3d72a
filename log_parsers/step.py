"""What a log says: serving steps and the facts of a run. Plain data, no GPU, no roof.

Everywhere below ``None`` means *the log does not say*; it is never written as 0. Rates are per GPU (or device) and
decimal: 1 TFLOP/s = 1e12 FLOP/s, 1 GB/s = 1e9 B/s. Fractions run from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Engine = Literal["vllm", "sglang"] | str
Kind = Literal["decode", "prefill", "mixed", "unknown"]
Status = Literal["steady", "idle", "diluted", "partial", "noise", "unsupported"]


@dataclass(frozen=True, slots=True)
class ServingStep:
    """One reported window of an engine: a vLLM statistics tick, or one SGLang decode or prefill line.

    ``kind`` says what ran, ``status`` whether the window counts in a headline:

    * ``steady``: the whole window did what ``kind`` says;
    * ``idle``: nothing ran;
    * ``diluted``: the window also holds idle time (``dilution`` says how much, where the log lets it be computed);
    * ``partial``: work began or ended inside the window, so it is neither idle nor a full one;
    * ``noise``: health probes and the like;
    * ``unsupported``: the engine left components out of its own count, so its rates are not usable.
    """

    source: str
    """Path as the user gave it, ``-`` for standard input."""
    run: int
    """0 for the first server start seen in this source; a restart begins the next."""
    line_no: int
    """1-based, counted by newline bytes of the decoded text, of the line that completes the step."""
    engine: Engine
    engine_version: str | None
    rank: str | None
    """As printed: ``"0"`` for vLLM's ``Engine 000``, ``"DP0 TP0 PP1"`` for SGLang; None if the line names none.
    vLLM's line for all engines together (``2 Engines Aggregated``) has the rank ``"2 engines aggregated"``."""
    kind: Kind
    status: Status
    status_reason: str | None = None
    """Why the status is not ``steady``, in a few words; None when it is."""
    time: str | None = None
    """ISO-8601, local to the server, with an offset only if the log states one."""
    year_inferred: bool = False
    window_s: float | None = None
    """Seconds that ``tflops`` and ``gbps`` are averaged over; where the line has neither, that the token rates are.

    vLLM's token rates are always those of the last tick, which is the whole window unless ``status`` is diluted."""
    tflops: float | None = None
    gbps: float | None = None
    """Read plus write."""
    read_gbps: float | None = None
    write_gbps: float | None = None
    dilution: float | None = None
    """window / busy time, at least 1; multiply a rate by it to undo the dilution. None when it cannot be told."""
    running: int | None = None
    waiting: int | None = None
    """vLLM's ``Waiting``: requests not yet scheduled."""
    queue: int | None = None
    """SGLang's ``#queue-req``."""
    prompt_tok_s: float | None = None
    gen_tok_s: float | None = None
    new_tokens: int | None = None
    """SGLang prefill: ``#new-token``; vLLM where ``MFU details`` or ``Iteration`` lines tell."""
    new_seqs: int | None = None
    """SGLang prefill: ``#new-seq``; a prompt cut at the chunk size counts in each of its batches."""
    cached_tokens: int | None = None
    context_tokens: int | None = None
    """Tokens held in the KV cache by the running requests, where the line prints a count (SGLang ``#token``)."""
    kv_usage: float | None = None
    prefix_hit_rate: float | None = None
    accept_len: float | None = None
    """Speculative decoding: mean accepted length, the bonus token included."""
    iterations: int | None = None
    """Engine steps inside the window, where the log tells (``MFU details``, ``Iteration`` lines, SGLang's interval)."""
    iteration_ms: float | None = None
    """Mean time of one engine step as the engine measured it (``Iteration`` lines)."""
    graph: bool | None = None
    """Whether the step ran as a captured graph (SGLang)."""
    raw: str = ""
    """The line as logged (bare, control characters removed), cut at 2,000 characters."""


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What a run's start-up lines state. One per (source, run)."""

    source: str = "-"
    run: int = 0
    first_line_no: int = 1
    engine: Engine | None = None
    engine_version: str | None = None
    model: str | None = None
    """As the log names it: a hub name or a path."""
    dtype: str | None = None
    """Short form: ``bf16``, ``fp16``, ``fp32``."""
    quantization: str | None = None
    """As printed (``fp8``, ``awq_marlin``, ``modelopt`` …)."""
    kv_cache_dtype: str | None = None
    """``auto`` is resolved to the model's dtype where that is known."""
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    ep: int | None = None
    kv_cache_tokens: int | None = None
    max_model_len: int | None = None
    max_running: int | None = None
    """vLLM ``max_num_seqs``, SGLang ``max_running_requests``."""
    token_budget: int | None = None
    """vLLM ``max_num_batched_tokens``, SGLang ``chunked_prefill_size``."""
    decode_log_interval: int | None = None
    """SGLang: decode iterations per decode line."""
    components: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    """vLLM ``Instantiated ComponentMetrics [name] with (key=value …)``: dimensions and byte sizes it uses."""
    weight_bytes: int | None = None
    """Bytes of weights on one GPU as the loader reports them."""
    flags: Mapping[str, bool] = field(default_factory=dict)
    """Switches seen in argument dumps: ``enable_mfu_metrics``, ``enable_metrics``, ``disable_log_stats`` …"""
    api_server_count: int | None = None
    speculative: bool | None = None
    device_platform: str | None = None
    """``cpu``, ``tpu`` … where a line gives the platform away; None otherwise."""
    device_hints: tuple[str, ...] = ()
    """Device names that appear in kernel-config file names: hints, not statements."""
    warnings: tuple[str, ...] = ()
    """Known warnings that explain missing or wrong figures, as stable codes (see ``WARNINGS``)."""


WARNINGS = {
    "stats_disabled": "Statistics are switched off (--disable-log-stats): no throughput or MFU line is printed.",
    "stats_disabled_api_servers": (
        "vLLM has more than one API server and so switches statistics off: --api-server-count 1 brings them back."
    ),
    "aggregated_engines": (
        "The engines are aggregated into one line (--aggregate-engine-logging), for which vLLM prints no MFU."
    ),
    "component_failed": (
        "vLLM could not set up its count of one part of this model: the MFU it prints lacks that part, a recount "
        "does not."
    ),
    "mfu_debug_type_error": (
        "VLLM_DEBUG_MFU_METRICS raises a TypeError in this vLLM (0.30 to 0.33), which breaks its statistics: "
        "serve without that variable."
    ),
    "engine_crashed": (
        "The engine crashed (it dumped its input into the log): the window it broke off was never printed, and the "
        "figures end with the one before."
    ),
    "mfu_needs_enable_metrics": (
        "SGLang's --enable-mfu-metrics has no effect without --enable-metrics, so its lines hold no FLOPs or bytes: "
        "serve with both."
    ),
    "log_level_hides_stats": "The log level hides the statistics lines: serve at level INFO.",
}
"""Codes of ``LogFacts.warnings`` and what they mean, as sentences."""


@dataclass(slots=True)
class ScanReport:
    """What reading did: counts that the report must be able to state, so that nothing is dropped silently."""

    bytes_read: int = 0
    lines: int = 0
    candidate_lines: int = 0
    steps: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    """Reason in words -> how many candidate lines were not turned into steps for it."""
    problems: list[str] = field(default_factory=list)
    """Sentences about the input itself: cut archive, mixed encodings, unreadable file."""
    throughput_lines: int = 0
    mfu_lines: int = 0
    only_engine: str | None = None
    """The engine that reading was restricted to; None: every engine's lines were looked for."""

    def drop(self, reason: str) -> None:
        """Count one candidate line that yields no step."""
        self.dropped[reason] = self.dropped.get(reason, 0) + 1
