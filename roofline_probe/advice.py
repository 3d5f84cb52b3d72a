"""What would help a regime, each with the ceiling it predicts: batch, prompts riding along, 8-bit weights or KV cache.

Ceilings are what kernels alone would take: bounds, not predictions (``plan`` predicts).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from roofline_probe import roofline
from roofline_probe.ceiling import Ceiling, build_ceiling
from roofline_probe.diagnose import Finding, Number
from roofline_probe.point import Bin
from roofline_probe.profile import Profile
from roofline_probe.shard import kv_element_bytes

if TYPE_CHECKING:
    from roofline_probe.analysis import RunContext

_WORTH = 0.1
"""A gain below a tenth is not advice."""
_AT_LIMIT = 0.85
_NARROW = {"fp8": 1.0, "int8": 1.0, "fp4": 0.5}
"""Bytes of an activation that is multiplied in fewer than 16 bits."""


def decode_advice(row: Bin, run: RunContext, ceiling: Ceiling, profile: Profile | None, share: float) -> list[Finding]:
    """What would help the decode regime of ``row``, in which ``share`` of the decode time was spent.

    Every ceiling starts from the parts that the table shows of this row, and goes on from its mean batch and context.
    """
    where: dict[str, Number] = {
        "batch_low": row.batch_low,
        "batch_high": row.batch_high,
        "context_low": row.context_low,
        "context_high": row.context_high,
        "share": share,
    }
    found = _decode_advice(row, run, ceiling, profile)
    return [replace(finding, numbers={**finding.numbers, **where}) for finding in found]


def _decode_advice(row: Bin, run: RunContext, ceiling: Ceiling, profile: Profile | None) -> list[Finding]:
    batch = row.batch_mean or float(row.batch_high or 1)
    found = _to_ridge(batch, run)
    now = _kernels_ms(row)
    if now is None:
        return found
    if row.context_mean is not None:
        found += _more_batch(row, batch, row.context_mean, now, run, ceiling)
    found += _free_prefill(batch, ceiling)
    found += _eight_bit_weights(batch, now, run, ceiling, profile)
    return found + _eight_bit_kv(row.kv_ms or 0.0, now, run)


def _kernels_ms(row: Bin) -> float | None:
    """The row's mean step without what the engine adds; None where a part is not known."""
    if row.gemm_ms is None or row.kv_ms is None:
        return None
    return row.gemm_ms + row.kv_ms + (row.link_ms or 0.0)


def t_star_of(run: RunContext) -> tuple[float | None, float] | None:
    """(rows at which this model's layer reaches the ridge, the ridge in FLOP/byte); None without roof or dimensions.

    The first is None where no number of rows does. Decode reads, so the ridge is that of the read bandwidth; where the
    step's GEMMs are estimated from the roofs, T* is where that estimate turns from the one to the other.
    """
    roof, shard = run.roof, run.shard
    if shard is None or not shard.projections or not roof.pi_tflops or not roof.read_beta_gbps:
        return None
    ridge = roofline.ridge(roof.pi_tflops * 1e12, roof.read_beta_gbps * 1e9)
    b_in = _NARROW.get(roof.dtype, shard.b_act)
    rows = roofline.t_star_of_layer(ridge, shard.projections, b_in, shard.b_weight, shard.b_act)
    if rows is not None and run.ceiling is not None and not run.ceiling.rows:
        rows = ridge * shard.weight_bytes(1) / shard.linear_flops_per_token
    return rows, ridge


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


def batch_limits(run: RunContext, context: float) -> list[tuple[float, str]]:
    """Batches at ``context`` tokens each that the KV cache and the engine's own limit allow, the lowest first."""
    facts = run.facts
    by_cache = facts.kv_cache_tokens / context if facts.kv_cache_tokens and context else None
    limits = ((by_cache, "kv cache"), (facts.max_running, "max running"))
    return sorted((float(value), name) for value, name in limits if value)


def _more_batch(row: Bin, batch: float, context: float, now: float, run: RunContext, ceiling: Ceiling) -> list[Finding]:
    """The first batch that is worth it, up to twice as many: what the engine allows as it is, else what it would with
    a limit raised, which is named.
    """
    here = ceiling.floor_ms(batch, context)
    limits = [(value, name) for value, name in batch_limits(run, context) if value < 2 * batch]
    tokens = row.tok_s * row.step_ms / 1e3 if row.tok_s and row.step_ms else batch  # drafts make more than one each
    numbers: dict[str, Number] = {"batch": batch, "context": context}
    raised: list[str] = []
    for target, name in (*limits, (2 * batch, None)):
        there = ceiling.floor_ms(target, context)
        if here is None or there is None:
            return []
        then = now + there - here
        gain = (target / then) / (batch / now) - 1
        if gain >= _WORTH:
            numbers |= {
                "to_batch": target,
                "tok_s": row.tok_s,
                "tok_s_ceiling_now": tokens / now * 1e3,
                "tok_s_ceiling": tokens * target / batch / then * 1e3,
                "gain": gain,
            }
            if not raised:
                return [Finding("batch_helps", "advice", {**numbers, "limit": name})]
            at = {"max_running": run.facts.max_running, "kv_cache_tokens": run.facts.kv_cache_tokens}
            return [Finding("batch_limited", "advice", {**numbers, **at, "limit": ", ".join(raised)})]
        if name is not None:
            raised.append(name)
    return [Finding("batch_exhausted", "advice", {**numbers, "gain": gain})]


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
    batch: float, now: float, run: RunContext, ceiling: Ceiling, profile: Profile | None
) -> list[Finding]:
    shard, roof = run.shard, run.roof
    if shard is None or roof.dtype in _NARROW or shard.b_weight < 1.5 or shard.source == "fit":
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
        "of_bytes": 1 / shard.b_weight,
    }
    return [Finding("weights_8bit_help", "advice", numbers)]


def _eight_bit_kv(kv: float, now: float, run: RunContext) -> list[Finding]:
    """What is left of ``kv`` ms of KV reads, of a step of ``now`` ms, if every element took one byte."""
    if run.shard is None:
        return []
    of_bytes = 1 / kv_element_bytes(run.facts, run.shard.b_act)
    then = now - kv * (1 - of_bytes)
    if now / then - 1 < _WORTH:
        return []
    numbers: dict[str, Number] = {
        "kv_ms": kv,
        "step_ms_ceiling_now": now,
        "step_ms_ceiling": then,
        "gain": now / then - 1,
        "of_bytes": of_bytes,
    }
    return [Finding("kv_8bit_helps", "advice", numbers)]


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
    if base is None or not roof.read_beta_gbps or not roof.pi_tflops:
        return None, False
    saved = shard.dense_weight_bytes * (1 - 1 / shard.b_weight) / roof.read_beta_gbps / 1e6
    compute = batch * shard.linear_flops_per_token / roof.pi_tflops / 1e9
    return max(base - saved, compute), False


def prefill_advice(row: Bin, run: RunContext, profile: Profile | None, share: float) -> list[Finding]:
    """What is left for the prefill of ``row``, in which ``share`` of the prefill time was spent.

    What the link takes stays, whatever the arithmetic does.
    """
    fraction = row.compute_fraction
    if fraction is None:
        return []
    link = row.link_ms / row.step_ms if row.link_ms and row.step_ms else 0.0
    numbers: dict[str, Number] = {
        "batch_low": row.batch_low,
        "batch_high": row.batch_high,
        "share": share,
        "fraction": fraction,
        "pi_name": run.roof.pi_name,
        "link_share": link,
        "link_lower_bound": int("link_lower_bound" in row.caveats),
    }
    if fraction + link >= _AT_LIMIT:
        fp8 = profile.pi_tflops("fp8", "sustained") or profile.pi_tflops("fp8") if profile else None
        faster = fp8 / run.roof.pi_tflops if fp8 and run.roof.pi_tflops and run.roof.dtype not in _NARROW else None
        gain = 1 / ((1 - link) / faster + link) if faster else None
        return [Finding("prefill_at_limit", "advice", {**numbers, "fp8_gain": gain})]
    rest = row.rest_ms / row.step_ms if row.step_ms and row.rest_ms is not None and row.rest_ms > 0 else None
    left: dict[str, Number] = {
        "rest_share": rest,
        "rest_gain": None if rest is None else 1 / (1 - rest),
        "pi_gain": 1 / (fraction + link) if fraction else None,
        "link_in_rest": int(row.link_ms is None),
    }
    return [Finding("prefill_below_limit", "advice", {**numbers, **left})]
