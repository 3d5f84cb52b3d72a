"""The machine's view of a plan. Milliseconds, tokens/s, fractions; ``null`` means "not asked" or "not known"."""

from __future__ import annotations

import dataclasses
from typing import Any

from roofline_probe import plain_json
from roofline_probe.plan.answer import Error, Plan, SloAnswer
from roofline_probe.plan.model import StepPlan
from roofline_probe.report.plan_view import caveat_words, plan_sentences

SCHEMA_VERSION = 1


def encode(plan: Plan) -> bytes:
    """The plan as indented JSON, ending in a newline."""
    return plain_json.document(document(plan))


def document(plan: Plan) -> dict[str, Any]:
    """Top level: the step asked for (or the one at the SLO's batch), its parts, and how far to trust it."""
    step = plan.step
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "prediction" if plan.evidence is not None else "bound",
        "batch": step.batch if step else None,
        "context": step.context if step else None,
        "step_ms": step.step_ms if step else None,
        "parts": _parts(step) if step else None,
        "tok_s": step.tok_s if step else None,
        "tok_s_per_gpu": step.tok_s_per_gpu if step else None,
        "tok_s_per_user": step.tok_s_per_user if step else None,
        "extrapolated": plan.extrapolated(step) if step else None,
        "fits": plan.fits(step) if step else None,
        "law": dataclasses.asdict(plan.model.law) if plan.evidence is not None else None,
        "error": _error(plan.error) if plan.error else None,
        "slo": _slo(plan, plan.slo) if plan.slo else None,
        "grid": [_cell(plan, cell) for row in plan.grid for cell in row],
        "answers": plan_sentences(plan),
        "caveats": [{"code": code, "message": caveat_words(plan, code)} for code in plan.caveats],
    }


def _parts(step: StepPlan) -> dict[str, float]:
    return {
        "gemm_ms": step.gemm_ms,
        "kv_ms": step.kv_ms,
        "link_ms": step.link_ms,
        "engine_ms": step.engine_ms,
    }


def _error(error: Error) -> dict[str, Any]:
    return {
        "method": "leave one regime out",
        "typical": error.typical,
        "worst_regime": error.worst_regime,
        "worst_window": error.worst_window,
        "windows": error.windows,
        "regimes": [
            {
                "batch": r.batch,
                "context": r.context,
                "windows": r.windows,
                "mean_error": r.mean_error,
                "worst_error": r.worst_error,
            }
            for r in error.regimes
        ],
    }


def _cell(plan: Plan, step: StepPlan) -> dict[str, Any]:
    """A step with whether it lies outside what was measured, and whether there is room for it."""
    return {**dataclasses.asdict(step), "extrapolated": plan.extrapolated(step), "fits": plan.fits(step)}


def _slo(plan: Plan, slo: SloAnswer) -> dict[str, Any]:
    return {
        "tpot_ms": slo.tpot_ms,
        "context": slo.context,
        "batch": slo.batch,
        "kv_batch": slo.kv_batch,
        "max_running": slo.max_running,
        "admitted": slo.admitted,
        "mixed": [{"prompt_tokens": chunk, "batch": batch} for chunk, batch in slo.mixed],
        "without_slo": _cell(plan, slo.unlimited) if slo.unlimited else None,
    }
