"""What the figures mean, as data: one ``Finding`` per statement, most important first; ``report.words`` words them.

Times are in ms, rates in TFLOP/s, GB/s and tokens/s per GPU group (one engine), fractions 0 to 1. "ceiling" figures are
what kernels alone would take, with no engine time at all: bounds, not predictions.

Headlines: ``bound`` (kind, bound, roof_fraction, of = which roof, attained, batch_low, batch_high, tok_s, share of the
steady time), ``parts`` (kind, step_ms, gemm_ms, kv_ms, link_ms, rest_ms, estimated and link_lower_bound 0 or
1), ``link_share`` (kind, link_ms, share of the step, lower_bound 0 or 1), ``waiting_for_host`` (kind, roof_fraction,
batch_low, batch_high, windows, share).

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
roof_fraction, why), ``rest_negative`` (kind, attained, batch_low, batch_high, windows, seconds, why, rows = how many
rows of the tables attain more than their whole step; the figures are those of the highest).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from roofline_probe.advice import decode_advice, prefill_advice
from roofline_probe.diagnose import Finding, Number
from roofline_probe.point import Bin, Roof, Summary
from roofline_probe.profile import Profile

if TYPE_CHECKING:
    from roofline_probe.analysis import RunContext

_FULL = 0.95
"""Share of the KV cache from which on admission waits for room."""


def find(summary: Summary, runs: Sequence[RunContext], profile: Profile | None) -> tuple[Finding, ...]:
    """Every finding of a log; empty before the first step."""
    if not runs:
        return ()
    run = runs[-1]
    found: list[Finding] = []
    total = sum(row.seconds for row in summary.kinds)
    for row in summary.kinds:
        found += _headline(_at_work(row, summary), total, run.roof)
    found += _waiting(summary, total)
    decode = _main_decode(summary)
    if decode is not None and run.ceiling is not None:
        found += decode_advice(decode, run, run.ceiling, profile)
    prefill = _main_prefill(summary)
    if prefill is not None:
        found += prefill_advice(prefill, run, profile)
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


def _at_work(row: Bin, summary: Summary) -> Bin:
    """The kind's row without the regimes in which the GPU waits for the host: those have a finding of their own."""
    parts = [part for part in summary.bins if part.kind == row.kind]
    busy = [part for part in parts if part.bound != "host"]
    if len(busy) in (0, len(parts)) or row.roof_fraction is None:
        return row
    compute, memory = _over_time(busy, "compute_fraction"), _over_time(busy, "bandwidth_fraction")
    longest = max(busy, key=lambda part: part.seconds)
    return replace(
        row,
        compute_fraction=compute,
        bandwidth_fraction=memory,
        roof_fraction=max((f for f in (compute, memory) if f is not None), default=None),
        attained_fraction=_over_time(busy, "attained_fraction"),
        seconds=sum(part.seconds for part in busy),
        windows=sum(part.windows for part in busy),
        tok_s=_over_time(busy, "tok_s"),
        bound=longest.bound,
    )


def _over_time(rows: Sequence[Bin], name: str) -> float | None:
    known = [(getattr(row, name), row.seconds) for row in rows if getattr(row, name) is not None]
    seconds = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / seconds if seconds else None


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
            why = _why_above(row, run)
            found.append(
                Finding("above_roof", "warning", {"kind": row.kind, "roof_fraction": row.roof_fraction, "why": why})
            )
    found += _rest_negative((*summary.bins, *summary.ranks), run)
    found.append(Finding("cannot_say", "note", {"what": "device"}))
    return found


_CUT_S = 1.0
"""Shorter rows owe their figures to where their windows were cut."""


def _rest_negative(rows: Sequence[Bin], run: RunContext) -> list[Finding]:
    """Rows whose kernels, measured alone, take longer than the step did: however short, the tables show them."""
    above = [row for row in rows if (row.attained_fraction or 0.0) > 1]
    if not above:
        return []
    row = max(above, key=lambda row: row.attained_fraction or 0.0)
    numbers: dict[str, Number] = {
        "kind": row.kind,
        "attained": row.attained_fraction,
        "batch_low": row.batch_low,
        "batch_high": row.batch_high,
        "windows": row.windows,
        "seconds": row.seconds,
        "why": _why_above(row, run),
        "rows": len(above),
    }
    return [Finding("rest_negative", "warning", numbers)]


def _why_above(row: Bin, run: RunContext) -> str:
    """The likeliest reason for more than the roof: 12 of the hard cases, in the order of how often each is it."""
    if row.seconds < _CUT_S:
        return "a window cut between two lines"
    if "quantization_unsettled" in run.caveats or "quantization_unknown" in run.caveats:
        return "8-bit work under a 16-bit pi"
    if {"device_hint_conflict", "memory_conflict", "platform_conflict"} & set(run.caveats):
        return "another card"
    if run.shard is None:
        return "the engine's estimate"
    return "another card or a higher clock than the profile's"
