"""The plan on a screen: the step asked for, the batch that meets the SLO, the grid; and how far to trust them."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from roofline_probe.plan.answer import Error, Plan, SloAnswer
from roofline_probe.plan.model import StepPlan
from roofline_probe.report import caveats
from roofline_probe.report.console import STYLES
from roofline_probe.report.diff_words import signed
from roofline_probe.report.tables import add_rows, bullets, facts, heading, indented, make_table
from roofline_probe.report.text import DASH, clean, count, listed, number, percent, significant
from roofline_probe.report.words import log_line, roof_figures, roof_origin

_LIMIT_FLAG = {"vllm": "--max-num-seqs", "sglang": "--max-running-requests"}
_BUDGET_FLAG = {"vllm": "--max-num-batched-tokens", "sglang": "--chunked-prefill-size (with --enable-mixed-chunk)"}
_OUTSIDE = {
    "batch_outside_log": "the batch",
    "context_outside_log": "the context",
    "kv_outside_log": "the KV that a step reads (batch times context)",
}
_TOLD = ("kv_cache_too_small", "card_too_small")
"""By the sentence of the step itself."""


def print_plan(plan: Plan, console: Console) -> None:
    """Which roof and law first, then the answers in words, then the grid."""
    console.print(facts(_head(plan)))
    console.print()
    console.print(indented(bullets(plan_sentences(plan))))
    _print_grid(plan, console)
    if plan.error is not None:
        _print_error(plan.error, console)
    if warnings := _warnings(plan):
        heading(console, "Take care")
        console.print(indented(bullets(warnings, "!", STYLES["warning"])))


def caveat_words(plan: Plan, code: str) -> str | None:
    """One caveat's sentence; None for a cause (as ``caveats.sentence``)."""
    if code == "ceiling_from_roofs":
        shard, dtype = plan.model.shard, plan.model.ceiling.roof.dtype
        return (
            "The profile holds no ceiling for this model, so the GEMMs are the least that the roofs allow: "
            f"`probe measure --model {clean(shard.name)} --dtype {dtype} --tp {shard.tp}` measures it."
        )
    return caveats.sentence(code)


def _warnings(plan: Plan) -> list[str]:
    """The caveats without what the answers say themselves; what lies outside the log in one sentence."""
    outside = [_OUTSIDE[code] for code in plan.caveats if code in _OUTSIDE]
    others = [code for code in plan.caveats if code not in (*_OUTSIDE, *_TOLD)]
    found = [text for code in others if (text := caveat_words(plan, code)) is not None]
    if outside:
        what = listed(outside)
        lie = "lies" if len(outside) == 1 else "lie"
        found.append(
            f"{what[0].upper()}{what[1:]} {lie} outside what the log shows: the law is extrapolated there, and its "
            "error is not known."
        )
    return found


def _head(plan: Plan) -> list[tuple[str, str | Text]]:
    shard, roof = plan.model.shard, plan.model.ceiling.roof
    rows: list[tuple[str, str | Text]] = [("roof", f"{roof_origin(roof)}\n{roof_figures(roof)}")]
    if plan.evidence is None:
        who = [shard.name, roof.dtype, f"TP {shard.tp}" if shard.tp > 1 else "", f"KV cache in {plan.facts.dtype}"]
        rows.append(("model", " · ".join(clean(part) for part in who if part)))
        rows.append(("law", "none, kernels alone: A BOUND, not a prediction"))
        return rows
    rows.append(("log", log_line(plan.facts)))
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
    what = f"A decode step of {count(step.batch, 'sequence')} at {step.context:,} tokens of context"
    if not plan.fits(step):
        return f"{what} does not fit: {_room_sentence(plan, step)}"
    kind, most = ("takes", "") if plan.evidence is not None else ("takes at least", "at most ")
    mark, note = ("~", " (extrapolated)") if plan.extrapolated(step) else ("", "")
    return (
        f"{what} {kind} {mark}{significant(step.step_ms)} ms{note} = {_parts(step)}: "
        f"{most}{mark}{number(step.tok_s_per_gpu)} tok/s per GPU, "
        f"{mark}{significant(step.tok_s_per_user)} tok/s per user."
    )


def _room_sentence(plan: Plan, step: StepPlan) -> str:
    room = plan.room
    most = f"{count(room.batch(step.context) or 0, 'sequence')} of that length"
    if room.kv_cache_tokens is not None:
        return f"the KV cache holds {room.kv_cache_tokens:,} tokens, which is {most}."
    assert room.memory_bytes is not None
    needed, weights = room.kv_bytes(step.batch, step.context), room.weight_bytes
    if weights > room.memory_bytes:
        return f"the weights alone take {_gigabytes(weights)}, and the card has {_gigabytes(room.memory_bytes)}."
    return (
        f"its KV cache takes {_gigabytes(needed)}, and beside {_gigabytes(weights)} of weights a card of "
        f"{_gigabytes(room.memory_bytes)} has room for {most} at most."
    )


def _gigabytes(size: float) -> str:
    return f"{significant(size / 1e9)} GB"


def _parts(step: StepPlan) -> str:
    link = f" + {significant(step.link_ms)} link" if step.link_ms else ""
    engine = f" + {significant(step.engine_ms)} engine" if step.engine_ms else ""
    return f"{significant(step.gemm_ms)} GEMMs + {significant(step.kv_ms)} KV{link}{engine}"


def _slo_sentences(plan: Plan, slo: SloAnswer) -> list[str]:
    target = f"{significant(slo.tpot_ms)} ms a token at {slo.context:,} tokens of context"
    floor = plan.model.step(1, slo.context)
    if not slo.batch:
        return [f"No batch meets {target}: a single sequence already takes {significant(floor.step_ms)} ms."]
    if not slo.admitted:
        return [f"A single sequence of {slo.context:,} tokens does not fit: {_room_sentence(plan, floor)}"]
    verb = "is met" if plan.evidence is not None else "can be met at best"
    sentences = [f"{target[:1].upper()}{target[1:]} {verb} up to batch {_batch(plan, slo.batch, slo.context)}."]
    if slo.limit is not None and slo.limit < slo.batch:
        sentences.append(_binding_sentence(plan, slo))
    assert slo.step is not None
    sentences.append(_step_sentence(plan, slo.step))
    flag = _LIMIT_FLAG.get(plan.facts.engine or "")
    if flag and slo.admitted != slo.max_running:
        now = f" (this log: {slo.max_running:,})" if slo.max_running is not None else ""
        sentences.append(f"Set it with {flag} {slo.admitted}{now}.")
    sentences += _cost_sentences(plan, slo)
    if slo.mixed:
        sentences.append(_mixed_sentence(plan, slo))
    elif plan.evidence is not None:
        sentences.append("The log holds no steady prefill, so no token budget for mixed steps can be told.")
    return sentences


def _batch(plan: Plan, batch: int, context: int) -> str:
    """A batch, marked where it lies outside what the log shows."""
    outside = plan.extrapolated(plan.model.step(batch, context))
    return f"~{batch:,} (extrapolated)" if outside else f"{batch:,}"


def _by_own_limit(slo: SloAnswer) -> bool:
    """Whether the server's limit on requests binds before its memory."""
    return slo.max_running is not None and slo.limit == slo.max_running


def _binding_sentence(plan: Plan, slo: SloAnswer) -> str:
    if _by_own_limit(slo):
        flag = _LIMIT_FLAG.get(plan.facts.engine or "", "its flag")
        return f"The server's own limit binds first: {count(slo.limit or 0, 'request')} ({flag})."
    held = count(slo.limit or 0, "sequence")
    if plan.room.kv_cache_tokens is not None:
        return f"The KV cache binds first: it holds {held} of that length."
    return f"The card's memory binds first: beside the weights it holds {held} of that length at most."


def _cost_sentences(plan: Plan, slo: SloAnswer) -> list[str]:
    other = slo.unlimited
    if slo.step is None or other is None or other.batch <= slo.step.batch:
        return []
    cost = 1 - slo.step.tok_s / other.tok_s
    best = "" if plan.evidence is not None else "at best "
    who = "the server's own limit would allow" if _by_own_limit(slo) else "there would be room for"
    mark, note = ("~", ", extrapolated") if plan.extrapolated(other) else ("", "")
    return [
        f"What it costs: {who} {count(other.batch, 'sequence')}, {best}at {mark}{number(other.tok_s_per_gpu)} tok/s "
        f"per GPU and {mark}{significant(other.step_ms)} ms a token{note}; "
        f"the SLO gives up {mark}{percent(cost)} of that throughput."
    ]


def _mixed_sentence(plan: Plan, slo: SloAnswer) -> str:
    assert plan.evidence is not None
    fitting = [(chunk, batch) for chunk, batch in slo.mixed if batch]
    if not fitting:
        return "No prompt chunk of 128 tokens or more fits into a step under this SLO: every prefill breaks it."
    flag = _BUDGET_FLAG.get(plan.facts.engine or "", "the token budget")
    chunk, batch = fitting[0]
    which = " for the first" if len(fitting) > 1 else ""
    return (
        f"Steps that also prefill meet it up to {_beside(plan, slo.context, fitting)}; "
        f"{flag} is the sum of both, {batch + chunk:,}{which}. "
        f"Prefill steps in this log took {plan.evidence.prefill_factor:.2f}× their kernels' time "
        f"({count(plan.evidence.prefill_windows, 'window')})."
    )


def _beside(plan: Plan, context: int, fitting: list[tuple[int, int]]) -> str:
    """``batch 256 beside 128, 512 and 2,048 prompt tokens``, each batch once."""
    chunks: dict[int, list[str]] = {}
    for chunk, batch in fitting:
        chunks.setdefault(batch, []).append(f"{chunk:,}")
    outside = [plan.extrapolated(plan.model.step(batch, context)) for batch in chunks]
    cases = [
        f"{'~' if guessed else ''}{batch:,} beside {listed(beside)}"
        for guessed, (batch, beside) in zip(outside, chunks.items(), strict=True)
    ]
    return f"batch {listed(cases)} prompt tokens{' (~ extrapolated)' if any(outside) else ''}"


def _print_grid(plan: Plan, console: Console) -> None:
    contexts = [step.context for step in plan.grid[0]]
    heading(console, "Step ms by batch and context", "tok/s per GPU behind it")
    asked = {step.context for step in (plan.step, plan.slo) if step is not None}
    spare = [context for context in contexts if context not in asked]
    left_out = spare[: len(contexts) - 4] if console.width < 100 else []
    shown = [context for context in contexts if context not in left_out]
    table = make_table(["batch", *(f"{c:,}" for c in shown)])
    console.print(indented(add_rows(table, (_grid_row(plan, row, shown) for row in plan.grid))))
    for sentence in _grid_notes(plan, [step for row in plan.grid for step in row if step.context in shown]):
        console.print(indented(Text(sentence, style="dim")))


def _grid_notes(plan: Plan, steps: list[StepPlan]) -> list[str]:
    """What the marks of the cells mean, as far as there are any."""
    notes = []
    if any(not plan.fits(step) for step in steps):
        why = "the KV cache is too small" if plan.room.kv_cache_tokens is not None else "the card's memory is too small"
        notes.append(f"{DASH} {why}")
    if any(_misses(plan, step) for step in steps):
        notes.append("* misses the SLO")
    if any(plan.extrapolated(step) and plan.fits(step) for step in steps):
        notes.append(f"~ extrapolated: {_measured_range(plan)}")
    return notes


def _measured_range(plan: Plan) -> str:
    if plan.evidence is None:
        return f"the profile's model ceiling ends at batch {number(plan.model.ceiling.rows[-1])}"
    (least, most), (short, long) = plan.evidence.batches, plan.evidence.contexts
    lengths = f"{number(short)} to {number(long)}" if round(short) else f"up to {number(long)}"
    limit = plan.facts.max_running
    own = f"; its server admits {limit:,} requests" if limit is not None else ""
    seen = f"batch {number(least)} to {number(most)}, context {lengths}"
    return f"the log shows {seen}, together up to {number(plan.evidence.most_tokens)} tokens{own}"


def _grid_row(plan: Plan, row: tuple[StepPlan, ...], shown: list[int]) -> list[str]:
    return [f"{row[0].batch:,}", *(_cell(plan, step) for step in row if step.context in shown)]


def _cell(plan: Plan, step: StepPlan) -> str:
    if not plan.fits(step):
        return DASH
    guess = "~" if plan.extrapolated(step) else ""
    missed = "*" if _misses(plan, step) else ""
    return f"{guess}{significant(step.step_ms)}{missed} ({number(step.tok_s_per_gpu)})"


def _misses(plan: Plan, step: StepPlan) -> bool:
    return plan.slo is not None and plan.fits(step) and step.step_ms > plan.slo.tpot_ms


def _print_error(error: Error, console: Console) -> None:
    heading(console, "How far to trust it", "each regime predicted by a law fitted without it")
    table = make_table(["batch", "context", "windows", "mean error", "worst window"], left=0)
    rows = (
        [number(r.batch), number(r.context), str(r.windows), f"{signed(r.mean_error)} %", f"{signed(r.worst_error)} %"]
        for r in error.regimes
    )
    console.print(indented(add_rows(table, rows)))
