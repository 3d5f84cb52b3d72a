"""The plan on a screen: the step asked for, the batch that meets the SLO, the grid; and how far to trust them."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from roofline_probe.plan.answer import Error, Plan, SloAnswer
from roofline_probe.plan.model import StepPlan, kv_capacity
from roofline_probe.report import caveats
from roofline_probe.report.console import STYLES
from roofline_probe.report.diff_words import signed
from roofline_probe.report.tables import add_rows, bullets, facts, heading, indented, make_table
from roofline_probe.report.text import DASH, clean, count, listed, number, percent, significant
from roofline_probe.report.words import roof_figures, roof_origin

_LIMIT_FLAG = {"vllm": "--max-num-seqs", "sglang": "--max-running-requests"}
_BUDGET_FLAG = {"vllm": "--max-num-batched-tokens", "sglang": "--chunked-prefill-size"}


def print_plan(plan: Plan, console: Console) -> None:
    """Which roof and law first, then the answers in words, then the grid."""
    console.print(facts(_head(plan)))
    console.print()
    console.print(indented(bullets(plan_sentences(plan))))
    _print_grid(plan, console)
    if plan.error is not None:
        _print_error(plan.error, console)
    warnings = [text for code in plan.caveats if (text := caveats.sentence(code)) is not None]
    if warnings:
        heading(console, "Take care")
        console.print(indented(bullets(warnings, "!", STYLES["warning"])))


def _head(plan: Plan) -> list[tuple[str, str | Text]]:
    shard, roof = plan.model.shard, plan.model.ceiling.roof
    engine = " ".join(part for part in (plan.facts.engine, plan.facts.engine_version) if part)
    who = [engine, shard.name, roof.dtype, f"TP {shard.tp}" if shard.tp > 1 else ""]
    rows: list[tuple[str, str | Text]] = [
        ("roof", f"{roof_origin(roof)}\n{roof_figures(roof)}"),
        ("model", " · ".join(clean(part) for part in who if part)),
    ]
    if plan.evidence is None:
        rows.append(("law", "none: kernels alone, no engine term. A BOUND, not a prediction: no engine steps faster"))
        return rows
    law = plan.model.law
    seen = plan.evidence.observations
    rows.append(
        (
            "law",
            f"GEMMs + {law.kv_factor:.2f} × KV + {law.base_ms:.2f} ms + {law.per_sequence_ms * 1000:.1f} µs a sequence"
            f", fitted to {count(len(seen), 'steady decode window')}",
        )
    )
    if plan.error is not None:
        rows.append(("error", error_sentence(plan.error)))
    return rows


def error_sentence(error: Error) -> str:
    """``3 % typical, 8 % in the worst regime: each of 11 regimes predicted from the others``."""
    return (
        f"{percent(error.typical, 1)} typical, {percent(error.worst_regime, 1)} in the worst regime, "
        f"{percent(error.worst_window, 1)} in the worst window: each of {len(error.regimes)} regimes was left out and "
        "predicted from the others"
    )


def plan_sentences(plan: Plan) -> list[str]:
    """The answers in words, for the JSON document and the screen."""
    told_below = plan.slo is not None and plan.step == plan.slo.step
    sentences = [_step_sentence(plan, plan.step)] if plan.step is not None and not told_below else []
    if plan.slo is not None:
        sentences += _slo_sentences(plan, plan.slo)
    return sentences or ["Ask for one step with --batch and --context, or for a batch with --slo tpot=10ms."]


def _step_sentence(plan: Plan, step: StepPlan) -> str:
    kind = "takes" if plan.evidence is not None else "takes at least"
    return (
        f"A decode step of {count(step.batch, 'sequence')} at {step.context:,} tokens of context {kind} "
        f"{significant(step.step_ms)} ms = {_parts(step)}: {number(step.tok_s_per_gpu)} tok/s per GPU, "
        f"{significant(step.tok_s_per_user)} tok/s per user."
    )


def _parts(step: StepPlan) -> str:
    link = f" + {significant(step.link_ms)} link" if step.link_ms else ""
    engine = f" + {significant(step.engine_ms)} engine" if step.engine_ms else ""
    return f"{significant(step.gemm_ms)} GEMMs + {significant(step.kv_ms)} KV{link}{engine}"


def _slo_sentences(plan: Plan, slo: SloAnswer) -> list[str]:
    target = f"{significant(slo.tpot_ms)} ms a token at {slo.context:,} tokens of context"
    if not slo.batch:
        floor = plan.model.step(1, slo.context)
        return [f"No batch meets {target}: a single sequence already takes {significant(floor.step_ms)} ms."]
    if not slo.admitted:
        return [f"The KV cache does not hold a single sequence of {slo.context:,} tokens."]
    sentences = [f"{target[:1].upper()}{target[1:]} is met up to batch {slo.batch:,}."]
    if slo.kv_batch is not None and slo.kv_batch < slo.batch:
        sentences.append(f"The KV cache binds first: it holds {count(slo.kv_batch, 'sequence')} of that length.")
    assert slo.step is not None
    sentences.append(_step_sentence(plan, slo.step))
    flag = _LIMIT_FLAG.get(plan.facts.engine or "")
    if flag:
        sentences.append(f"Set it with {flag} {slo.admitted}.")
    sentences += _cost_sentences(slo)
    if slo.mixed:
        sentences.append(_mixed_sentence(plan, slo))
    elif plan.evidence is not None:
        sentences.append("The log holds no steady prefill, so no token budget for mixed steps can be told.")
    return sentences


def _cost_sentences(slo: SloAnswer) -> list[str]:
    if slo.step is None or slo.unlimited is None or slo.unlimited.batch <= slo.step.batch:
        return []
    cost = 1 - slo.step.tok_s / slo.unlimited.tok_s
    return [
        f"What it costs: the KV cache would hold {slo.unlimited.batch:,} sequences, at "
        f"{number(slo.unlimited.tok_s_per_gpu)} tok/s per GPU and {significant(slo.unlimited.step_ms)} ms a token; "
        f"the SLO gives up {percent(cost)} of that throughput."
    ]


def _mixed_sentence(plan: Plan, slo: SloAnswer) -> str:
    assert plan.evidence is not None
    fitting = [(chunk, batch) for chunk, batch in slo.mixed if batch]
    if not fitting:
        return "No prompt chunk of 128 tokens or more fits into a step under this SLO: every prefill breaks it."
    cases = listed([f"batch {batch:,} beside {chunk:,} prompt tokens" for chunk, batch in fitting])
    flag = _BUDGET_FLAG.get(plan.facts.engine or "", "the token budget")
    chunk, batch = fitting[0]
    return (
        f"Steps that also prefill meet it up to {cases} ({flag} is the sum of both, {batch + chunk:,} for the first). "
        f"Prefill steps in this log took {plan.evidence.prefill_factor:.2f}× their kernels' time "
        f"({count(plan.evidence.prefill_windows, 'window')})."
    )


def _print_grid(plan: Plan, console: Console) -> None:
    contexts = [step.context for step in plan.grid[0]]
    heading(console, "Step ms by batch and context", _grid_note(plan))
    shown = contexts if console.width >= 100 else contexts[-4:]
    table = make_table(["batch", *(f"{c:,}" for c in shown)])
    console.print(indented(add_rows(table, (_grid_row(plan, row, shown) for row in plan.grid))))


def _grid_note(plan: Plan) -> str:
    full = f"; {DASH} where the KV cache is too small" if plan.facts.kv_cache_tokens is not None else ""
    missed = "; * misses the SLO" if plan.slo is not None else ""
    return f"tok/s per GPU behind it{full}{missed}"


def _grid_row(plan: Plan, row: tuple[StepPlan, ...], shown: list[int]) -> list[str]:
    return [f"{row[0].batch:,}", *(_cell(plan, step) for step in row if step.context in shown)]


def _cell(plan: Plan, step: StepPlan) -> str:
    capacity = kv_capacity(plan.facts.kv_cache_tokens, step.context)
    if capacity is not None and step.batch > capacity:
        return DASH
    mark = "*" if plan.slo is not None and step.step_ms > plan.slo.tpot_ms else ""
    return f"{significant(step.step_ms)}{mark} ({number(step.tok_s_per_gpu)})"


def _print_error(error: Error, console: Console) -> None:
    heading(console, "How far to trust it", "each regime predicted by a law fitted without it")
    table = make_table(["batch", "context", "windows", "mean error", "worst window"], left=0)
    rows = (
        [number(r.batch), number(r.context), str(r.windows), f"{signed(r.mean_error)} %", f"{signed(r.worst_error)} %"]
        for r in error.regimes
    )
    console.print(indented(add_rows(table, rows)))
