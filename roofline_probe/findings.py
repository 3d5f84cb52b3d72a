"""What the figures mean, as data: one ``Finding`` per statement, most important first; ``report.words`` words them.

Times are in ms, rates in TFLOP/s, GB/s and tokens/s per GPU group (one engine), fractions 0 to 1. "ceiling" figures are
what kernels alone would take, with no engine time at all: bounds, not predictions.

Headlines: ``no_headline`` (kinds without a percentage, joined by commas, why = ``dimensions``, ``pi``, ``beta``,
``context`` or None, dtype), ``bound`` (kind, bound, roof_fraction, of = which roof, attained, batch_low, batch_high,
tok_s, share of the steady time), ``parts`` (kind, step_ms, gemm_ms, kv_ms, link_ms, rest_ms, estimated and
link_lower_bound 0 or 1), ``link_share`` (kind, link_ms, share of the step, lower_bound 0 or 1), ``waiting_for_host``
(kind, roof_fraction, batch_low, batch_high, windows, share, device).

Advice: all about decode but ``no_overhead`` is about one row of the table (batch_low, batch_high, context_low,
context_high, and share of the decode time), as is all about prefill (batch_low, batch_high = tokens a step, share of
the prefill time).
``no_overhead`` (kind, rest_ms, speedup: what removing all engine time would buy), ``to_ridge`` (rows now per step,
t_star, missing, ridge, dtype, tp), ``never_compute_bound`` (ridge, dtype, tp: no number of rows reaches it),
``batch_helps`` (batch, to_batch, context, tok_s, tok_s_ceiling_now, tok_s_ceiling, gain, limit = ``kv cache``, ``max
running`` or None), ``batch_limited`` (the same, max_running, kv_cache_tokens: what it would be with the limits, joined
by commas, raised), ``batch_exhausted`` (batch, context, gain: of twice the batch), ``prefill_rides_free`` (rows,
free_rows, step_ms: prompt tokens that fit into a decode step while its weights are streamed anyway),
``weights_8bit_help`` (step_ms_ceiling_now, step_ms_ceiling, gain, measured 0 or 1, of_bytes = share that is left),
``kv_8bit_helps`` (kv_ms, step_ms_ceiling_now, step_ms_ceiling, gain, of_bytes), ``prefill_at_limit`` (fraction,
pi_name, link_share, link_lower_bound 0 or 1, fp8_gain), ``prefill_below_limit`` (the same without fp8_gain; rest_share,
rest_gain: without what the engine adds, pi_gain: with all arithmetic at pi too, link_in_rest 0 or 1: not measured).

Notes: ``queueing`` (share of steady windows, running_max, max_running, kv_usage_max, limit = ``kv cache``, ``max
running``, ``token budget`` or ``not stated``), ``kv_cache_full`` (kv_usage_max, kv_cache_tokens),
``engine_counts_more`` and ``_less`` (kind, quantity = ``FLOPs`` or ``bytes``, ratio, why = codes joined by commas),
``aliased_windows`` (kind, window_s, step_ms), ``step_beyond_window`` (kind, window_s, step_ms, budget = tokens of the
step that is counted, assumed 0 or 1), ``not_taken_apart`` (kind, windows, share of the steady time, why =
``steps_unknown`` or None: rows of their own, no part in their kind's figures), ``recounted_only`` (engine),
``cannot_say`` (what = ``device``).

Warnings: ``engine_only`` (engine: no dimensions, so no recount), ``no_steady_window`` (steps, untimed = how many of
them are left out because their length is not known, stamped 0 or 1), ``windows_above`` (kind, windows, of_windows,
share of the kind's time, highest, fraction, without = the headline fraction without them, of, why; row_low, row_high,
row_fraction, row_without: the row that they lift the most), ``above_roof`` (kind, roof_fraction, why),
``rest_negative`` (kind, attained, batch_low, batch_high, windows, seconds, why, rows = how many rows of the tables
attain more than their whole step; the figures are those of the highest).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from roofline_probe.above import device_of, rows_above, why_above, windows_above
from roofline_probe.advice import decode_advice, prefill_advice
from roofline_probe.diagnose import Finding, Number
from roofline_probe.headline import headline
from roofline_probe.point import Bin, Roof, Summary
from roofline_probe.profile import Profile
from roofline_probe.recount import DEFAULT_TOKEN_BUDGET
from roofline_probe.summary import UNTIMED

if TYPE_CHECKING:
    from roofline_probe.analysis import RunContext

KV_FULL = 0.95
"""Share of the KV cache from which on admission waits for room."""


def find(summary: Summary, runs: Sequence[RunContext], profile: Profile | None) -> tuple[Finding, ...]:
    """Every finding of a log; empty before the first step."""
    if not runs:
        return ()
    run = runs[-1]
    found = _no_headline(summary, run)
    total = sum(row.seconds for row in summary.bins)
    for row in summary.kinds:
        found += _headline(row, total, run.roof)
    found += _waiting(summary, total, device_of(run))
    spent = {kind: sum(row.seconds for row in summary.bins if row.kind == kind) for kind in ("decode", "prefill")}
    decode = _main_decode(summary)
    if decode is not None and run.ceiling is not None:
        found += decode_advice(decode, run, run.ceiling, profile, decode.seconds / spent["decode"])
    prefill = _main_prefill(summary)
    if prefill is not None:
        found += prefill_advice(prefill, run, profile, prefill.seconds / spent["prefill"])
    found += _apart(summary, total)
    found += _limits(summary, run)
    found += [finding for row in summary.kinds for finding in _counting(row, run)]
    found += _warnings(summary, run, any(each.engine_counted for each in runs))
    return tuple(found)


def _main_decode(summary: Summary) -> Bin | None:
    """The decode row in which the most time was spent: advice for "batch 1 to 256" would be advice for none."""
    rows = [row for row in summary.bins if row.kind == "decode" and row.step_ms and row.batch_high]
    return max(rows, key=lambda row: row.seconds, default=None)


def _main_prefill(summary: Summary) -> Bin | None:
    """The prefill row that computed the most tokens: prefix hits take long for a handful."""
    rows = [row for row in summary.bins if row.kind == "prefill" and row.bound != "host"]
    return max(rows, key=lambda row: (row.tok_s or 0.0) * row.seconds, default=None)


def _no_headline(summary: Summary, run: RunContext) -> list[Finding]:
    """The kinds whose headline is a dash, and what would give them one; a wrong card is said beside the roof."""
    kinds = [row.kind for row in summary.kinds if headline(row, run.roof)[0] is None]
    if not kinds or "platform_conflict" in run.caveats:
        return []
    unknown = any("context_unknown" in row.caveats for row in summary.kinds if row.kind in kinds)
    reasons = (
        ("dimensions", run.shard is None),
        ("pi", not run.roof.pi_tflops),
        ("beta", not run.roof.beta_gbps),
        ("context", unknown),
    )
    why = next((name for name, holds in reasons if holds), None)
    return [Finding("no_headline", "headline", {"kinds": ", ".join(kinds), "why": why, "dtype": run.roof.dtype})]


def _headline(row: Bin, total: float, roof: Roof) -> list[Finding]:
    found = []
    if row.roof_fraction is not None:
        bounds: dict[str, Number] = {
            "kind": row.kind,
            "bound": row.bound,
            "roof_fraction": row.roof_fraction,
            "of": _denominator(row, roof),
            "attained": row.attained_fraction,
            "batch_low": row.batch_low,
            "batch_high": row.batch_high,
            "tok_s": row.tok_s,
            "share": row.seconds / total if total else None,
        }
        found.append(Finding("bound", "headline", bounds))
    if row.step_ms is not None and row.gemm_ms is not None and row.kind == "decode":
        names = ("step_ms", "gemm_ms", "kv_ms", "link_ms", "rest_ms")
        parts: dict[str, Number] = {name: getattr(row, name) for name in names}
        bound = int("link_lower_bound" in row.caveats)
        marks: dict[str, Number] = {"estimated": int(row.estimated), "link_lower_bound": bound}
        found.append(Finding("parts", "headline", {"kind": row.kind, **parts, **marks}))
        if row.link_ms:
            share: dict[str, Number] = {"kind": row.kind, "link_ms": row.link_ms, "share": row.link_ms / row.step_ms}
            found.append(Finding("link_share", "headline", {**share, "lower_bound": bound}))
        if row.rest_ms is not None and row.rest_ms > 0 and row.link_ms is not None:  # else the link is in the rest
            gain = row.step_ms / (row.step_ms - row.rest_ms)
            numbers: dict[str, Number] = {"kind": row.kind, "rest_ms": row.rest_ms, "speedup": gain}
            found.append(Finding("no_overhead", "advice", numbers))
    return found


def _denominator(row: Bin, roof: Roof) -> str:
    compute, memory = row.compute_fraction or 0.0, row.bandwidth_fraction or 0.0
    if compute >= memory:
        return f"{roof.pi_name} pi" if roof.origin == "measured" else "pi"
    return "read beta" if row.kind == "decode" and roof.read_beta_gbps != roof.beta_gbps else "beta"


def _apart(summary: Summary, total: float) -> list[Finding]:
    """Windows that cannot be taken apart, of kinds that others stand for."""
    judged = {row.kind for row in summary.kinds if row.attained_fraction is not None}
    found = []
    for kind in sorted(judged):
        rows = [row for row in summary.bins if row.kind == kind and row.attained_fraction is None]
        if not rows:
            continue
        numbers: dict[str, Number] = {
            "kind": kind,
            "windows": sum(row.windows for row in rows),
            "share": sum(row.seconds for row in rows) / total if total else None,
            "why": "steps_unknown" if all("steps_unknown" in row.caveats for row in rows) else None,
        }
        found.append(Finding("not_taken_apart", "note", numbers))
    return found


def _waiting(summary: Summary, total: float, device: str) -> list[Finding]:
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
                "device": device,
            },
        )
        for row in summary.bins
        if row.bound == "host"
    ]


def _limits(summary: Summary, run: RunContext) -> list[Finding]:
    steady = sum(row.windows for row in summary.bins)
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
    if (summary.kv_usage_max or 0.0) >= KV_FULL:
        full: dict[str, Number] = {
            "kv_usage_max": summary.kv_usage_max,
            "kv_cache_tokens": run.facts.kv_cache_tokens,
        }
        found.append(Finding("kv_cache_full", "note", full))
    return found


def _queue_limit(summary: Summary, run: RunContext) -> str:
    """What held waiting requests back: room for KV, the limit of running requests, or the tokens one step may take."""
    if (summary.queued_kv_usage_max or 0.0) >= KV_FULL:
        return "kv cache"
    most = run.facts.max_running
    if most and (summary.queued_running_max or 0) >= most:
        return "max running"
    return "token budget" if most and summary.queued_kv_usage_max is not None else "not stated"


_DIFFERS = 0.02
_PRINTED = {"vllm": 0.1, "sglang": 0.01}
"""TFLOP/s and GB/s by which an engine's printed rates differ at least."""
_FEW_STEPS = 5
"""A mean of rates that are this few such steps high says how the engine rounds, not how it counts."""
_WHY_FLOPS = {
    "vllm": ("vllm_full_square", "vllm_lm_head_every_token", "vllm_speculative_as_prefill", "swa_full_context"),
    "sglang": ("sglang_summed_triangle", "sglang_lm_head_missing", "sglang_tp_mlp", "sglang_pp_whole_model"),
}
_WHY_BYTES = {"vllm": ("activations",), "sglang": ("sglang_weights_per_token", "sglang_quantization_ignored")}
_PREFILL_ONLY = ("vllm_full_square", "sglang_summed_triangle", "vllm_lm_head_every_token")
_LESS = ("sglang_lm_head_missing",)
"""Reasons for counting less than was done; the others are reasons for more."""
_SERIOUS = ("lm_head_only", "mla_miscounted", "sglang_moe_uncounted")


def mostly_rounding(engine: str, rate: float) -> bool:
    """Whether a rate (TFLOP/s or GB/s) is so small beside the digits ``engine`` prints that its ratio says nothing."""
    return rate < _FEW_STEPS * _PRINTED.get(engine, 0.0)


def _counting(row: Bin, run: RunContext) -> list[Finding]:
    """By how much the engine's count and the recount differ, and why."""
    found = []
    pairs = (
        ("FLOPs", row.engine_tflops, row.recounted_tflops, _WHY_FLOPS),
        ("bytes", row.engine_gbps, row.recounted_gbps, _WHY_BYTES),
    )
    for quantity, engine, recounted, reasons in pairs:
        if not engine or not recounted or mostly_rounding(row.engine, engine):
            continue
        if abs(engine - recounted) < max(_DIFFERS * recounted, _PRINTED.get(row.engine, 0.0)):
            continue
        known = (*_SERIOUS, *reasons.get(row.engine, ()))
        why = [code for code in known if code in run.counting or code == "activations"]
        if row.kind == "decode":
            why = [code for code in why if code not in _PREFILL_ONLY]
        why = [code for code in why if (code in _LESS) == (engine < recounted) or code in _SERIOUS]
        if not why and quantity == "bytes" and row.engine == "vllm":
            why = ["steps_estimated"]
        code = "engine_counts_more" if engine > recounted else "engine_counts_less"
        numbers: dict[str, Number] = {
            "kind": row.kind,
            "quantity": quantity,
            "ratio": engine / recounted,
            "why": ", ".join(why) or None,
        }
        found.append(Finding(code, "note", numbers))
    return found + _aliased(row, run)


def _aliased(row: Bin, run: RunContext) -> list[Finding]:
    """Windows of vLLM that are short beside its steps, or beside the step by which their prompts are counted."""
    window_s = row.seconds / row.windows if row.windows else 0.0
    if row.engine != "vllm" or row.step_ms is None or not window_s * 1e3 < 10 * row.step_ms > 100:
        return []
    numbers: dict[str, Number] = {"kind": row.kind, "window_s": window_s, "step_ms": row.step_ms}
    if row.kind != "prefill" or row.step_ms <= window_s * 1e3:
        return [Finding("aliased_windows", "note", numbers)]
    budget = run.facts.token_budget
    counted: dict[str, Number] = {"budget": budget or DEFAULT_TOKEN_BUDGET, "assumed": int(not budget)}
    return [Finding("step_beyond_window", "note", {**numbers, **counted})]


def _warnings(summary: Summary, run: RunContext, engine_counted: bool) -> list[Finding]:
    found = []
    if summary.steps and not summary.kinds:
        numbers: dict[str, Number] = {
            "steps": summary.steps,
            "untimed": summary.excluded.get(UNTIMED, 0),
            "stamped": int(summary.first_time is not None),
        }
        found.append(Finding("no_steady_window", "warning", numbers))
    if summary.steps and run.shard is None:
        found.append(Finding("engine_only", "warning", {"engine": run.facts.engine}))
    if summary.kinds and not engine_counted and run.shard is not None:
        found.append(Finding("recounted_only", "note", {"engine": run.facts.engine}))
    for row in summary.kinds:
        if row.roof_fraction is not None and row.roof_fraction > 1:
            why = why_above(row, run)
            found.append(
                Finding("above_roof", "warning", {"kind": row.kind, "roof_fraction": row.roof_fraction, "why": why})
            )
    found += [finding for row in summary.kinds for finding in windows_above(row, summary, run)]
    found += rows_above((*summary.bins, *summary.ranks), run)
    if run.roof.origin == "measured" and device_of(run) == "GPU" and "platform_conflict" not in run.caveats:
        found.append(Finding("cannot_say", "note", {"what": "device"}))
    return found
