"""What the figures mean, as data: one ``Finding`` per statement, most important first; ``report.words`` words them.

Times are in ms, rates in TFLOP/s, GB/s and tokens/s per GPU group (one engine), fractions 0 to 1. "ceiling" figures are
what kernels alone would take, with no engine time at all: bounds, not predictions.

Headlines: ``bound`` (kind, bound, roof_fraction, of = which roof, attained, batch_low, batch_high, tok_s, share of the
steady time), ``parts`` (kind, step_ms, gemm_ms, kv_ms, link_ms, rest_ms, estimated 0 or 1), ``waiting_for_host`` (kind,
roof_fraction, batch_low, batch_high, windows, share).

Advice: ``no_overhead`` (kind, rest_ms, speedup: what removing all engine time would buy), ``to_ridge`` (rows now per
step, t_star, missing, ridge, dtype, tp), ``never_compute_bound`` (ridge, dtype, tp: no number of rows reaches it),
``batch_helps`` (batch, to_batch, context, tok_s, tok_s_ceiling_now, tok_s_ceiling, gain, limit = ``kv cache``, ``max
running`` or None), ``batch_exhausted`` (batch, context, gain), ``prefill_rides_free`` (rows, free_rows, step_ms: prompt
tokens that fit into a decode step while its weights are streamed anyway), ``weights_8bit_help`` (step_ms_ceiling_now,
step_ms_ceiling, gain, measured 0 or 1), ``kv_8bit_helps`` (kv_ms, step_ms_ceiling_now, step_ms_ceiling, gain),
``prefill_at_limit`` (fraction, pi_name, fp8_gain), ``prefill_below_limit`` (fraction, rest_share).

Notes: ``queueing`` (share of steady windows, running_max, max_running, kv_usage_max, limit = ``kv cache``, ``max
running`` or ``token budget``), ``kv_cache_full`` (kv_usage_max, kv_cache_tokens), ``engine_counts_more`` and ``_less``
(kind, quantity = ``FLOPs`` or ``bytes``, ratio, why = codes joined by commas), ``aliased_windows`` (kind, window_s,
step_ms), ``recounted_only`` (engine), ``cannot_say`` (what).

Warnings: ``engine_only`` (engine: no dimensions, so no recount), ``no_steady_window`` (steps), ``above_roof`` (kind,
roof_fraction, why).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from roofline_probe import roofline
from roofline_probe.ceiling import Ceiling, build_ceiling
from roofline_probe.diagnose import Finding, Number
from roofline_probe.point import Bin, Roof, Summary
from roofline_probe.profile import Profile

if TYPE_CHECKING:
    from roofline_probe.analysis import RunContext

_WORTH = 0.1
"""A gain below a tenth is not advice."""
_AT_LIMIT = 0.85
_FULL = 0.95
"""Share of the KV cache from which on admission waits for room."""
_EIGHT_BIT = ("fp8", "int8", "fp4")


def find(summary: Summary, runs: Sequence[RunContext], profile: Profile | None) -> tuple[Finding, ...]:
    """Every finding of a log; empty before the first step."""
    if not runs:
        return ()
    run = runs[-1]
    found: list[Finding] = []
    total = sum(row.seconds for row in summary.kinds)
    for row in summary.kinds:
        found += _headline(row, total, run.roof)
    found += _waiting(summary, total)
    decode = _main_decode(summary)
    if decode is not None and run.ceiling is not None:
        found += _decode_advice(decode, run, run.ceiling, profile)
    prefill = _main_prefill(summary)
    if prefill is not None:
        found += _prefill_advice(prefill, run, profile)
    found += _limits(summary, run)
    found += [finding for row in summary.kinds for finding in _counting(row, run)]
    found += _warnings(summary, run)
    return tuple(found)


def _main_decode(summary: Summary) -> Bin | None:
    """The decode row in which the most time was spent: advice for "batch 1 to 256" would be advice for none."""
    rows = [row for row in summary.bins if row.kind == "decode" and row.step_ms and row.batch_high]
    return max(rows, key=lambda row: row.seconds, default=None)


def _main_prefill(summary: Summary) -> Bin | None:
    """The prefill row that computed the most tokens: prefix hits take long for a handful."""
    rows = [row for row in summary.bins if row.kind == "prefill" and row.bound != "host"]
    return max(rows, key=lambda row: (row.tok_s or 0.0) * row.seconds, default=None)


def _headline(row: Bin, total: float, roof: Roof) -> list[Finding]:
    if row.roof_fraction is None:
        return []
    found = [
        Finding(
            "bound",
            "headline",
            {
                "kind": row.kind,
                "bound": row.bound,
                "roof_fraction": row.roof_fraction,
                "of": _denominator(row, roof),
                "attained": row.attained_fraction,
                "batch_low": row.batch_low,
                "batch_high": row.batch_high,
                "tok_s": row.tok_s,
                "share": row.seconds / total if total else None,
            },
        )
    ]
    if row.step_ms is not None and row.gemm_ms is not None and row.kind == "decode":
        names = ("step_ms", "gemm_ms", "kv_ms", "link_ms", "rest_ms")
        parts: dict[str, Number] = {name: getattr(row, name) for name in names}
        found.append(Finding("parts", "headline", {"kind": row.kind, **parts, "estimated": int(row.estimated)}))
        if row.rest_ms is not None and row.rest_ms > 0:
            gain = row.step_ms / (row.step_ms - row.rest_ms)
            numbers: dict[str, Number] = {"kind": row.kind, "rest_ms": row.rest_ms, "speedup": gain}
            found.append(Finding("no_overhead", "advice", numbers))
    return found


def _denominator(row: Bin, roof: Roof) -> str:
    compute, memory = row.compute_fraction or 0.0, row.bandwidth_fraction or 0.0
    if compute >= memory:
        return f"{roof.pi_name} pi" if roof.origin == "measured" else "pi"
    return "read beta" if row.kind == "decode" and roof.read_beta_gbps != roof.beta_gbps else "beta"


def _waiting(summary: Summary, total: float) -> list[Finding]:
    return [
        Finding(
            "waiting_for_host",
            "headline",
            {
                "kind": row.kind,
                "roof_fraction": row.roof_fraction,
                "batch_low": row.batch_low,
                "batch_high": row.batch_high,
                "windows": row.windows,
                "share": row.seconds / total if total else None,
            },
        )
        for row in summary.bins
        if row.bound == "host"
    ]


def _decode_advice(row: Bin, run: RunContext, ceiling: Ceiling, profile: Profile | None) -> list[Finding]:
    batch = float(row.batch_high or 1)
    context = ((row.context_low or 0) + (row.context_high or 0)) / 2
    found = _to_ridge(batch, run)
    now = ceiling.floor_ms(batch, context)
    if now is None:
        return found
    found += _more_batch(row, batch, context, now, run, ceiling)
    found += _free_prefill(batch, ceiling)
    found += _eight_bit_weights(batch, context, now, run, ceiling, profile)
    kv = row.kv_ms or 0.0
    if kv / 2 > _WORTH * now and run.shard is not None and run.facts.kv_cache_dtype not in ("fp8", "fp8_e4m3"):
        numbers: dict[str, Number] = {
            "kv_ms": kv,
            "step_ms_ceiling_now": now,
            "step_ms_ceiling": now - kv / 2,
            "gain": now / (now - kv / 2) - 1,
        }
        found.append(Finding("kv_8bit_helps", "advice", numbers))
    return found


def t_star_of(run: RunContext) -> tuple[float | None, float] | None:
    """(rows at which this model's layer reaches the ridge, the ridge in FLOP/byte); None without roof or dimensions.

    The first is None where no number of rows does.
    """
    roof, shard = run.roof, run.shard
    if shard is None or not shard.projections or not roof.pi_tflops or not roof.beta_gbps:
        return None
    ridge = roofline.ridge(roof.pi_tflops * 1e12, roof.beta_gbps * 1e9)
    b_in = 1.0 if roof.dtype in _EIGHT_BIT else shard.b_act
    return roofline.t_star_of_layer(ridge, shard.projections, b_in, shard.b_weight, shard.b_act), ridge


def _to_ridge(rows: float, run: RunContext) -> list[Finding]:
    found = t_star_of(run)
    if found is None:
        return []
    needed, ridge = found
    where: dict[str, Number] = {"ridge": ridge, "dtype": run.roof.dtype, "tp": run.shard.tp if run.shard else None}
    if needed is None:
        return [Finding("never_compute_bound", "advice", where)]
    numbers: dict[str, Number] = {"rows": rows, "t_star": needed, "missing": max(0.0, needed - rows)}
    return [Finding("to_ridge", "advice", {**numbers, **where})]


def batch_limit(run: RunContext, context: float) -> tuple[float | None, str | None]:
    """Largest batch at ``context`` tokens each that the KV cache and the engine's own limit allow, and which it is."""
    facts = run.facts
    by_cache = facts.kv_cache_tokens / context if facts.kv_cache_tokens and context else None
    limits = [(value, name) for value, name in ((by_cache, "kv cache"), (facts.max_running, "max running")) if value]
    return min(limits) if limits else (None, None)


def _more_batch(row: Bin, batch: float, context: float, now: float, run: RunContext, ceiling: Ceiling) -> list[Finding]:
    limit, name = batch_limit(run, context)
    target = batch * 2
    held = limit is not None and limit < target
    if held and limit is not None:
        target = limit
    then = ceiling.floor_ms(target, context)
    if then is None or target <= batch:
        return []
    gain = (target / then) / (batch / now) - 1
    if gain < _WORTH:
        return [Finding("batch_exhausted", "advice", {"batch": batch, "context": context, "gain": gain})]
    return [
        Finding(
            "batch_helps",
            "advice",
            {
                "batch": batch,
                "to_batch": target,
                "context": context,
                "tok_s": row.tok_s,
                "tok_s_ceiling_now": batch / now * 1e3,
                "tok_s_ceiling": target / then * 1e3,
                "gain": gain,
                "limit": name if held else None,
            },
        )
    ]


def _free_prefill(batch: float, ceiling: Ceiling) -> list[Finding]:
    """Prompt tokens a decode step can take along before its projections take a tenth longer."""
    base = ceiling.gemm_ms(batch)
    if not base:
        return []
    rows = batch
    while rows < 4096 and (ceiling.gemm_ms(rows + 8) or 0.0) <= base * (1 + _WORTH):
        rows += 8
    if rows - batch < 8:
        return []
    return [Finding("prefill_rides_free", "advice", {"rows": batch, "free_rows": rows - batch, "step_ms": base})]


def _eight_bit_weights(
    batch: float, context: float, now: float, run: RunContext, ceiling: Ceiling, profile: Profile | None
) -> list[Finding]:
    shard, roof = run.shard, run.roof
    if shard is None or roof.dtype in _EIGHT_BIT or shard.b_weight < 1.5 or shard.source == "fit":
        return []
    gemm, measured = _fp8_gemm_ms(batch, run, profile)
    base = ceiling.gemm_ms(batch)
    if gemm is None or base is None:
        return []
    then = now - base + gemm
    gain = now / then - 1
    if gain < _WORTH:
        return []
    numbers: dict[str, Number] = {
        "step_ms_ceiling_now": now,
        "step_ms_ceiling": then,
        "gain": gain,
        "measured": int(measured),
    }
    return [Finding("weights_8bit_help", "advice", numbers)]


def _fp8_gemm_ms(batch: float, run: RunContext, profile: Profile | None) -> tuple[float | None, bool]:
    """Projections at ``batch`` rows with 8-bit weights: measured where the profile has it, else by the bytes saved."""
    shard, roof = run.shard, run.roof
    if shard is None or run.ceiling is None:
        return None, False
    if profile is not None and profile.pi_tflops("fp8"):
        smaller = replace(shard, dense_weight_bytes=shard.dense_weight_bytes / shard.b_weight, b_weight=1.0)
        fp8 = build_ceiling(profile, replace(roof, dtype="fp8"), smaller)
        if fp8.rows:
            return fp8.gemm_ms(batch), not fp8.estimated
    base = run.ceiling.gemm_ms(batch)
    if base is None or not roof.read_beta_gbps:
        return None, False
    saved = shard.dense_weight_bytes / 2 / roof.read_beta_gbps / 1e6
    compute = batch * shard.linear_flops_per_token / roof.pi_tflops / 1e9 if roof.pi_tflops else 0.0
    return max(base - saved, compute), False


def _prefill_advice(row: Bin, run: RunContext, profile: Profile | None) -> list[Finding]:
    fraction = row.compute_fraction
    if fraction is None:
        return []
    fp8 = profile.pi_tflops("fp8", "sustained") or profile.pi_tflops("fp8") if profile else None
    gain = fp8 / run.roof.pi_tflops if fp8 and run.roof.pi_tflops and run.roof.dtype not in _EIGHT_BIT else None
    if fraction >= _AT_LIMIT:
        return [
            Finding("prefill_at_limit", "advice", {"fraction": fraction, "pi_name": run.roof.pi_name, "fp8_gain": gain})
        ]
    rest = row.rest_ms / row.step_ms if row.rest_ms is not None and row.step_ms else None
    return [Finding("prefill_below_limit", "advice", {"fraction": fraction, "rest_share": rest})]


def _limits(summary: Summary, run: RunContext) -> list[Finding]:
    steady = sum(row.windows for row in summary.kinds)
    found = []
    if summary.queued and steady:
        numbers: dict[str, Number] = {
            "share": summary.queued / steady,
            "running_max": summary.queued_running_max,
            "max_running": run.facts.max_running,
            "kv_usage_max": summary.queued_kv_usage_max,
            "limit": _queue_limit(summary, run),
        }
        found.append(Finding("queueing", "note", numbers))
    if (summary.kv_usage_max or 0.0) >= _FULL:
        full: dict[str, Number] = {
            "kv_usage_max": summary.kv_usage_max,
            "kv_cache_tokens": run.facts.kv_cache_tokens,
        }
        found.append(Finding("kv_cache_full", "note", full))
    return found


def _queue_limit(summary: Summary, run: RunContext) -> str:
    """What held waiting requests back: room for KV, the limit of running requests, or the tokens one step may take."""
    if (summary.queued_kv_usage_max or 0.0) >= _FULL:
        return "kv cache"
    most = run.facts.max_running
    return "max running" if most and (summary.queued_running_max or 0) >= most else "token budget"


_DIFFERS = 0.02
_WHY_FLOPS = {
    "vllm": ("vllm_full_square", "vllm_lm_head_every_token", "vllm_speculative_as_prefill", "swa_full_context"),
    "sglang": ("sglang_summed_triangle", "sglang_lm_head_missing", "sglang_tp_mlp", "sglang_pp_whole_model"),
}
_WHY_BYTES = {"vllm": ("activations",), "sglang": ("sglang_weights_per_token", "sglang_quantization_ignored")}
_PREFILL_ONLY = ("vllm_full_square", "sglang_summed_triangle", "vllm_lm_head_every_token")
_LESS = ("sglang_lm_head_missing",)
"""Reasons for counting less than was done; the others are reasons for more."""
_SERIOUS = ("lm_head_only", "mla_miscounted", "sglang_moe_uncounted")


def _counting(row: Bin, run: RunContext) -> list[Finding]:
    """By how much the engine's count and the recount differ, and why."""
    found = []
    pairs = (
        ("FLOPs", row.engine_tflops, row.recounted_tflops, _WHY_FLOPS),
        ("bytes", row.engine_gbps, row.recounted_gbps, _WHY_BYTES),
    )
    for quantity, engine, recounted, reasons in pairs:
        if not engine or not recounted or abs(engine / recounted - 1) < _DIFFERS:
            continue
        known = (*_SERIOUS, *reasons.get(row.engine, ()))
        why = [code for code in known if code in run.counting or code == "activations"]
        if row.kind == "decode":
            why = [code for code in why if code not in _PREFILL_ONLY]
        why = [code for code in why if (code in _LESS) == (engine < recounted) or code in _SERIOUS]
        code = "engine_counts_more" if engine > recounted else "engine_counts_less"
        numbers: dict[str, Number] = {
            "kind": row.kind,
            "quantity": quantity,
            "ratio": engine / recounted,
            "why": ", ".join(why) or None,
        }
        found.append(Finding(code, "note", numbers))
    if row.step_ms is not None and row.windows and row.seconds / row.windows * 1e3 < 10 * row.step_ms > 100:
        numbers = {"kind": row.kind, "window_s": row.seconds / row.windows, "step_ms": row.step_ms}
        if row.engine == "vllm":
            found.append(Finding("aliased_windows", "note", numbers))
    return found


def _warnings(summary: Summary, run: RunContext) -> list[Finding]:
    found = []
    if summary.steps and not summary.kinds:
        found.append(Finding("no_steady_window", "warning", {"steps": summary.steps}))
    if summary.steps and run.shard is None:
        found.append(Finding("engine_only", "warning", {"engine": run.facts.engine}))
    if summary.kinds and all(row.engine_tflops is None and row.engine_gbps is None for row in summary.kinds):
        found.append(Finding("recounted_only", "note", {"engine": run.facts.engine}))
    for row in summary.kinds:
        if row.roof_fraction is not None and row.roof_fraction > 1:
            numbers: dict[str, Number] = {"kind": row.kind, "roof_fraction": row.roof_fraction, "why": _why_above(run)}
            found.append(Finding("above_roof", "warning", numbers))
    found.append(Finding("cannot_say", "note", {"what": "device"}))
    return found


def _why_above(run: RunContext) -> str:
    """The likeliest reason for more than the roof: 12 of the hard cases, in the order of how often each is it."""
    if "quantization_unsettled" in run.caveats or "quantization_unknown" in run.caveats:
        return "8-bit work under a 16-bit pi"
    if {"device_hint_conflict", "memory_conflict", "platform_conflict"} & set(run.caveats):
        return "another card"
    if run.shard is None:
        return "the engine's estimate"
    return "another card or a higher clock than the profile's"
