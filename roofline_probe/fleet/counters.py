"""Two scrapes of one engine -> one serving step: what the counters gained over the time between them.

Counters make a missed scrape harmless: the next step then simply covers the longer window, exactly. Only a restart
loses the work between the last scrape before it and the first one after it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from log_parsers.step import Kind, LogFacts, ServingStep, Status
from roofline_probe.fleet.exposition import EngineSample, Role

FLAGS = {"vllm": "--enable-mfu-metrics", "sglang": "--enable-metrics --enable-mfu-metrics"}
FIRST_VERSION = {"vllm": "0.17", "sglang": "0.5.10"}
_NOISE_TOKENS_PER_S = 4.0
"""SGLang: a /health probe computes a 1-token prefill and logs about one decode token; several probers may ask."""


@dataclass(slots=True)
class EngineHistory:
    """What is remembered of one engine between two scrapes."""

    sample: EngineSample
    at: float
    """Monotonic seconds."""
    run: int = 0
    scrapes: int = 1
    silent: bool = False
    """Tokens were made and no FLOP was counted for them."""


def restarted(before: EngineSample, after: EngineSample) -> bool:
    """A counter that fell, or another birth date: a new process stands behind the address."""
    if before.born is not None and after.born is not None and after.born != before.born:
        return True
    return any(after.counters[role] < value for role, value in before.counters.items() if role in after.counters)


def advance(
    history: EngineHistory, sample: EngineSample, at: float, source: str, time: str
) -> tuple[EngineHistory, list[ServingStep]]:
    """The history with ``sample`` (taken at ``at``) added, and the steps between the two; none across a restart.

    vLLM gives one step. SGLang gives two where it both decoded and prefilled, as its log does: see ``_sglang_steps``.
    """
    if restarted(history.sample, sample):
        return EngineHistory(sample, at, history.run + 1, history.scrapes + 1), []
    window_s = at - history.at
    if window_s <= 0:
        return history, []
    gains = {role: value - history.sample.counters.get(role, 0.0) for role, value in sample.counters.items()}
    silent = _computed(gains) + gains.get("gen_tokens", 0.0) > 0 and not gains.get("flops")
    if silent:
        gains = {role: gain for role, gain in gains.items() if role not in ("flops", "read_bytes", "write_bytes")}
    new = EngineHistory(sample, at, history.run, history.scrapes + 1, silent)
    step = _step(history, new, gains, window_s, source, time)
    return new, _sglang_steps(step) if sample.engine == "sglang" else [step]


def _computed(gains: dict[Role, float]) -> float:
    """Prompt tokens that were computed, not taken from a cache, where the page tells them apart."""
    return gains.get("computed_prompt_tokens", gains.get("prompt_tokens", 0.0))


def _step(
    before: EngineHistory, now: EngineHistory, gains: dict[Role, float], window_s: float, source: str, time: str
) -> ServingStep:
    sample, gauges = now.sample, now.sample.gauges
    read, write = _rate(gains, "read_bytes", window_s, 1e9), _rate(gains, "write_bytes", window_s, 1e9)
    computed_role = "computed_prompt_tokens" if "computed_prompt_tokens" in gains else "prompt_tokens"
    status, reason = _status(before.sample, sample, gains, window_s)
    return ServingStep(
        source=source,
        run=now.run,
        line_no=now.scrapes,
        engine=sample.engine,
        engine_version=None,
        rank=sample.rank,
        kind=_kind(gains),
        status=status,
        status_reason=reason,
        time=time,
        window_s=window_s,
        tflops=_rate(gains, "flops", window_s, 1e12),
        gbps=None if read is None or write is None else read + write,
        read_gbps=read,
        write_gbps=write,
        running=_whole(gauges.get("running")),
        waiting=_whole(gauges.get("waiting")),
        queue=_whole(gauges.get("queue")),
        prompt_tok_s=_rate(gains, computed_role, window_s),
        gen_tok_s=_rate(gains, "gen_tokens", window_s),
        cached_tokens=_whole(gains.get("cached_tokens", gains.get("prefix_hits"))),
        context_tokens=_whole(gauges.get("context_tokens")),
        kv_usage=gauges.get("kv_usage"),
        prefix_hit_rate=_hit_rate(gains),
        accept_len=_accept_len(gains, gauges),
        iterations=_whole(gains.get("iterations")),
    )


def _sglang_steps(step: ServingStep) -> list[ServingStep]:
    """A window of SGLang as its log has it: decode and prefill apart, both over the whole window.

    The counters add both up. They are divided by tokens: every token is charged the same linear FLOPs and (SGLang's
    way) the same weight bytes, so only the small attention parts are misplaced, and the sum stays what it was. Prefill
    is given no bandwidth, as in the log: weights charged per prompt token are no rate of any memory.
    """
    decoded, prefilled = step.gen_tok_s or 0.0, step.prompt_tok_s or 0.0
    share = decoded / (decoded + prefilled) if decoded + prefilled else 1.0
    prefill = replace(
        step,
        kind="prefill",
        tflops=_part(step.tflops, 1 - share),
        gbps=None,
        read_gbps=None,
        write_gbps=None,
        context_tokens=None,
        gen_tok_s=None,
    )
    decode = replace(
        step,
        tflops=_part(step.tflops, share),
        gbps=_part(step.gbps, share),
        read_gbps=_part(step.read_gbps, share),
        write_gbps=_part(step.write_gbps, share),
        prompt_tok_s=None,
        cached_tokens=None,
        prefix_hit_rate=None,
        kind="decode",
    )
    if step.kind == "mixed":
        return [decode, prefill]
    return [prefill] if step.kind == "prefill" else [replace(decode, kind=step.kind)]


def _part(value: float | None, share: float) -> float | None:
    return None if value is None else value * share


def _rate(gains: dict[Role, float], role: Role, window_s: float, unit: float = 1.0) -> float | None:
    gain = gains.get(role)
    return None if gain is None else gain / window_s / unit


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _kind(gains: dict[Role, float]) -> Kind:
    """What ran. A prompt's last prefill step yields its first token: such tokens are no sign of decode (vLLM counts
    them apart; SGLang leaves them out of its decode tokens)."""
    prefill = _computed(gains) > 0
    decode = gains.get("gen_tokens", 0.0) - gains.get("first_tokens", 0.0) > 0
    if prefill and decode:
        return "mixed"
    if prefill:
        return "prefill"
    return "decode" if decode else "unknown"


def _status(
    before: EngineSample, now: EngineSample, gains: dict[Role, float], window_s: float
) -> tuple[Status, str | None]:
    tokens = _computed(gains) + gains.get("gen_tokens", 0.0)
    running = before.gauges.get("running"), now.gauges.get("running")
    if not tokens and not gains.get("flops"):
        return "idle", "nothing ran"
    if now.engine == "sglang" and not any(running) and tokens / window_s < _NOISE_TOKENS_PER_S:
        return "noise", "health probes only"
    if running[0] == 0 or running[1] == 0:
        return "partial", "work began or ended inside the window"
    return "steady", None


def _hit_rate(gains: dict[Role, float]) -> float | None:
    if "prefix_queries" in gains:
        hits, asked = gains.get("prefix_hits", 0.0), gains["prefix_queries"]
    else:
        hits = gains.get("cached_tokens", 0.0)
        asked = hits + gains.get("computed_prompt_tokens", 0.0)
    return hits / asked if asked else None


def _accept_len(gains: dict[Role, float], gauges: dict[Role, float]) -> float | None:
    if drafts := gains.get("drafts"):
        return 1 + gains.get("accepted_tokens", 0.0) / drafts
    return gauges.get("accept_len") or None


def facts_of(history: EngineHistory, source: str, engines: int = 1) -> LogFacts:
    """What ``/metrics`` states of a run: model, KV cache, engines at this address, whether the FLOP counters move."""
    sample = history.sample
    counted = sample.counters.get("flops", 0.0) > 0
    return LogFacts(
        source=source,
        run=history.run,
        engine=sample.engine,
        model=sample.model,
        kv_cache_dtype=None if sample.kv_cache_dtype == "auto" else sample.kv_cache_dtype,
        dp=engines if engines > 1 and sample.engine == "vllm" else None,
        kv_cache_tokens=_whole(sample.gauges.get("kv_cache_tokens")),
        flags={"enable_mfu_metrics": counted} if counted or history.silent else {},
    )


def silence_sentence(engine: str) -> str:
    """Why an engine that makes tokens shows no FLOPs and bytes, and what to do."""
    return (
        f"Its FLOP and byte counters are missing or do not move while tokens are made; start {engine} "
        f"{FIRST_VERSION.get(engine, '')} or later with {FLAGS.get(engine, '--enable-mfu-metrics')}."
    )
