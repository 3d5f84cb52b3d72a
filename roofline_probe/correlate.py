"""One serving step under the roofs: pure, one step at a time, no state of its own.

Fractions divide the recounted rates where the model's dimensions allow a recount, else the engine's own; ``basis`` says
which. Decode divides its bytes by the read bandwidth (its traffic is reads but for one KV entry a token), everything
else by beta.
"""

from __future__ import annotations

from typing import Literal

from log_parsers.frozen import quick
from log_parsers.step import ServingStep
from roofline_probe.ceiling import Ceiling
from roofline_probe.point import Bound, Point, Roof
from roofline_probe.recount import Work

_make_point = quick(Point)

HOST_BOUND_BELOW = 0.3
"""A window that reaches less of its roof than this was waiting, for the host or for requests, ..."""
HOST_ATTAINED_BELOW = 0.5
"""... unless its unavoidable parts alone fill more of its time than this (small batches on a fast link)."""
_Basis = tuple[Literal["engine", "recounted"] | None, float | None, float | None]
_Parts = tuple[float | None, float | None, float | None, float | None, float | None, float | None]
_NO_PARTS: _Parts = (None, None, None, None, None, None)


def correlate(
    step: ServingStep, work: Work | None, roof: Roof, ceiling: Ceiling | None = None, engine_usable: bool = True
) -> Point:
    """Place ``step`` under ``roof``.

    Args:
        step: what the line says.
        work: its recount, None where the dimensions or the throughput are missing.
        roof: the denominators.
        ceiling: times of the step's parts; None without dimensions.
        engine_usable: False where the engine is known to miscount this model (see ``diagnose``).
    """
    flops_rate = byte_rate = None
    engine_knows = engine_usable and step.tflops is not None and step.status != "unsupported"
    if work is not None and not ("context_unknown" in work.caveats and engine_knows):
        flops_rate = work.flops / work.window_s / 1e12 if work.flops is not None else None
        byte_rate = work.bytes / work.window_s / 1e9 if work.bytes is not None else None
    basis, tflops, gbps = _basis(step, flops_rate, byte_rate, engine_usable)
    decode = step.kind == "decode"
    beta = roof.read_beta_gbps if decode else roof.beta_gbps
    pi = roof.pi_tflops
    compute = tflops / pi if tflops is not None and pi else None
    bandwidth = gbps / beta if gbps is not None and beta else None
    highest = _larger(compute, bandwidth)
    # One roof alone does not tell which of the two is the nearer; nor does decode without its bytes.
    fraction = highest if pi and beta and not (decode and basis == "engine" and gbps is None) else None
    parts = _parts(step, work, ceiling) if work is not None and ceiling is not None else _NO_PARTS
    step_ms, gemm_ms, kv_ms, link_ms, rest_ms, attained = parts
    intensity = tflops * 1e3 / gbps if tflops is not None and gbps else None
    ridge = pi * 1e3 / beta if pi and beta else None
    return _make_point(
        step=step,
        recounted_tflops=flops_rate,
        recounted_gbps=byte_rate,
        basis=basis,
        batch=_batch(step, work),
        context=work.context if work is not None else None,
        intensity=intensity,
        compute_fraction=compute,
        bandwidth_fraction=bandwidth,
        roof_fraction=fraction,
        beta_name=None if bandwidth is None else "read" if decode else "beta",
        step_ms=step_ms,
        gemm_ms=gemm_ms,
        kv_ms=kv_ms,
        link_ms=link_ms,
        rest_ms=rest_ms,
        attained_fraction=attained,
        estimated=ceiling.estimated if ceiling is not None and gemm_ms is not None else False,
        bound=_bound(step, fraction, intensity, ridge, parts),
        caveats=_caveats(work, ceiling, highest, rest_ms),
        work=work,
    )


def _basis(step: ServingStep, flops: float | None, moved: float | None, engine_usable: bool) -> _Basis:
    """(basis, TFLOP/s, GB/s) that the fractions divide."""
    if flops is not None or moved is not None:
        return "recounted", flops, moved
    if not engine_usable or step.status in ("unsupported", "noise") or (step.tflops is None and step.gbps is None):
        return None, None, None
    if step.engine == "sglang" and step.kind == "decode" and step.running != 1:
        # Its weights are charged per token: once more than one request runs this is no rate of any memory.
        return "engine", step.tflops, None
    return "engine", step.tflops, step.gbps


def _batch(step: ServingStep, work: Work | None) -> float | None:
    if work is not None and work.batch is not None:
        return work.batch
    if step.kind == "prefill":
        return work.prompt_tokens / work.steps if work is not None and work.steps else None
    return float(step.running) if step.kind == "decode" and step.running else None


def _larger(a: float | None, b: float | None) -> float | None:
    if a is None or b is None:
        return b if a is None else a
    return max(b, a)


def _parts(step: ServingStep, work: Work, ceiling: Ceiling) -> _Parts:
    """(step, gemm, kv, link, rest in ms, attained). ``gemm`` holds prefill attention's matrix products too.

    What needs a roof that is missing is None, and so is the rest, from which it cannot be told.

    A mixed window is taken as full prefill steps with the decodes riding along, and decode-only steps for the rest:
    GEMM time is not linear in the rows, so the mean of both would be too small.
    """
    steps = work.steps
    if not steps:
        return _NO_PARTS
    step_ms = step.iteration_ms if step.iteration_ms is not None else work.busy_s * 1e3 / steps
    batch = work.batch or 0.0
    prefills = min(work.prefill_steps, steps) if batch else (steps if work.prompt_tokens else 0.0)
    decodes = steps - prefills
    gemm: float | None = ceiling.attention_ms(work.attention_flops) if work.attention_flops else 0.0
    link, no_link = 0.0, False
    with_prompts = work.prompt_tokens / prefills + batch if prefills else 0.0
    for count, rows, logits in ((prefills, with_prompts, max(batch, 1.0)), (decodes, batch, batch)):
        if count > 0 and rows:
            each, hop = ceiling.gemm_ms(rows, logits), ceiling.link_ms(rows)
            gemm = None if gemm is None or each is None else gemm + count * each
            link += count * (hop or 0.0)
            no_link = no_link or hop is None
    kv = None if "context_unknown" in work.caveats else ceiling.kv_ms(work.kv_read_bytes)
    gemm_ms, link_ms = None if gemm is None else gemm / steps, None if no_link else link / steps
    kv_ms = None if kv is None else kv / steps
    if gemm_ms is None or kv_ms is None:
        return (step_ms, gemm_ms, kv_ms, link_ms, None, None)
    busy = gemm_ms + kv_ms + (link_ms or 0.0)
    return (step_ms, gemm_ms, kv_ms, link_ms, step_ms - busy, busy / step_ms if step_ms else None)


def _bound(
    step: ServingStep, fraction: float | None, intensity: float | None, ridge: float | None, parts: _Parts
) -> Bound | None:
    """What limits the step: the host where it mostly waits, the link where that is the longest part, else a roof."""
    if fraction is None or step.status in ("idle", "noise", "unsupported"):
        return None
    _, gemm, kv, link, _, attained = parts
    if waits_for_host(fraction, attained):
        return "host"
    if link and link > (gemm or 0.0) + (kv or 0.0):
        return "link"
    if intensity is None or ridge is None:
        return None
    return "compute" if intensity >= ridge else "memory"


def waits_for_host(fraction: float, attained: float | None) -> bool:
    """Whether so little of the roof and of the time is reached that the device mostly waits."""
    return fraction < HOST_BOUND_BELOW and (attained is None or attained < HOST_ATTAINED_BELOW)


WINDOW_CODES = ("above_roof", "rest_negative")
"""Caveats of one window that aliasing alone can cause: a row of many windows has them only if its own figures do."""


def _caveats(
    work: Work | None, ceiling: Ceiling | None, highest: float | None, rest_ms: float | None
) -> tuple[str, ...]:
    found = work.caveats if work is not None else ()
    if ceiling is not None and work is not None:
        found += ceiling.caveats
    if highest is not None and highest > 1:  # above one roof is above both
        found += ("above_roof",)
    if rest_ms is not None and rest_ms < 0:
        found += ("rest_negative",)
    return found
