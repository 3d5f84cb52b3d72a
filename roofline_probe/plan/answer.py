"""What ``probe plan`` answers: one step, the batch under an SLO, a grid of both; with how far each can be trusted."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median

from log_parsers.step import LogFacts
from roofline_probe.ceiling import build_ceiling
from roofline_probe.errors import UsageError
from roofline_probe.plan.evidence import Evidence, require_both
from roofline_probe.plan.law import BOUND_ONLY, RegimeError, leave_one_regime_out
from roofline_probe.plan.model import MAX_BATCH, MAX_CONTEXT, StepModel, StepPlan
from roofline_probe.plan.room import Room
from roofline_probe.profile import Profile
from roofline_probe.roof import choose_roof
from roofline_probe.shard import shard_of
from roofline_probe.workloads import ModelShape, check_tp

BEYOND = 1.1
"""Further outside what the log shows than this factor, a prediction is an extrapolation and marked so. Windows are
means: one at a server's limit of 256 reads 255.6, and its context grows on the way."""
GRID_CONTEXTS = (256, 1024, 4096, 16384)
CHUNKS = (128, 512, 2048)
"""Prompt tokens beside the decodes of a mixed step."""
GRID_BATCHES = (1, 4, 16, 64, 128, 256, 512)


@dataclass(frozen=True)
class Error:
    """How well the law predicts regimes that it has not seen (fractions of the measured step)."""

    typical: float
    """Mean over regimes of the absolute mean error."""
    worst_regime: float
    """Largest absolute mean error of a regime."""
    worst_window: float
    windows: int
    regimes: tuple[RegimeError, ...]


@dataclass(frozen=True)
class SloAnswer:
    """The largest batch that meets a time per output token."""

    tpot_ms: float
    context: int
    batch: int
    """0 if not even one sequence meets it."""
    kv_batch: int | None
    """Sequences of that context that there is room for; None if that is not known."""
    max_running: int | None
    """The server's own limit on running requests; None if no log states it."""
    step: StepPlan | None
    """The step at ``admitted``, None where that is 0."""
    unlimited: StepPlan | None
    """What those two limits alone would allow: the throughput that the SLO costs."""
    mixed: tuple[tuple[int, int], ...]
    """(prompt tokens in a step, largest batch that still meets the SLO beside them); empty where the log has no steady
    prefill to judge by."""

    @property
    def limit(self) -> int | None:
        """The server's limit without the SLO; None if none is known."""
        return min((limit for limit in (self.kv_batch, self.max_running) if limit is not None), default=None)

    @property
    def admitted(self) -> int:
        """Batch that meets the SLO and that the server can run."""
        return self.batch if self.limit is None else min(self.batch, self.limit)


@dataclass(frozen=True)
class Plan:
    """Everything a view of the plan needs."""

    model: StepModel
    facts: LogFacts
    evidence: Evidence | None
    """None for a plan without a log: bounds only."""
    error: Error | None
    step: StepPlan | None
    """The step asked for, else the one at the SLO's batch."""
    slo: SloAnswer | None
    room: Room
    grid: tuple[tuple[StepPlan, ...], ...]
    """Rows of one batch, columns of one context."""
    caveats: tuple[str, ...] = field(default=())
    """Stable codes; ``report.caveats`` has the sentences."""

    def extrapolated(self, step: StepPlan) -> bool:
        """Whether it lies outside what the law was fitted to, or the ceiling measured at."""
        return bool(_range_caveats(self.model, self.evidence, step))

    def fits(self, step: StepPlan) -> bool:
        """Whether there is room for it, as far as is known."""
        return self.room.holds(step.batch, step.context)


def judged(evidence: Evidence) -> Error:
    """Leave every regime out once."""
    regimes = leave_one_regime_out(evidence.observations)
    means = [abs(r.mean_error) for r in regimes]
    return Error(
        typical=fmean(means),
        worst_regime=max(means),
        worst_window=max(abs(r.worst_error) for r in regimes),
        windows=sum(r.windows for r in regimes),
        regimes=tuple(regimes),
    )


def plan_from_log(evidence: Evidence, batch: int | None, context: int | None, tpot_ms: float | None) -> Plan:
    """The plan that a log's steady windows carry; ``context`` left out is the log's own median."""
    model = StepModel(evidence.ceiling, evidence.shard, evidence.law)
    length = context if context is not None else round(median(o.context for o in evidence.observations))
    room = Room(evidence.shard, evidence.facts.kv_cache_tokens)
    return _plan(model, evidence.facts, evidence, room, batch, length, tpot_ms)


def plan_without_log(
    profile: Profile,
    shape: ModelShape,
    dtype: str | None,
    tp: int,
    batch: int | None,
    context: int,
    tpot_ms: float | None,
) -> Plan:
    """Bounds from profile and dimensions alone: no engine term; bf16 is assumed where ``dtype`` is None, and a KV cache
    in the model's own format.

    Raises:
        UsageError: no dtype, or a parallelism that no engine divides this model by.
        NoRoof: the profile lacks pi or beta.
    """
    roof = choose_roof(profile, LogFacts(), dtype_flag=dtype)
    require_both(roof)
    check_tp(shape, tp)
    # Quantized weights: embeddings and KV cache stay in 16 bits.
    quantization, dtype = (roof.dtype, "bf16") if roof.dtype in ("fp8", "int8", "fp4") else (None, roof.dtype)
    facts = LogFacts(source="--model", model=shape.name, dtype=dtype, quantization=quantization, tp=tp)
    shard = shard_of(shape, "flag", facts)
    model = StepModel(build_ceiling(profile, roof, shard), shard, BOUND_ONLY)
    room = Room(shard, memory_bytes=profile.device.memory_bytes)
    return _plan(model, facts, None, room, batch, context, tpot_ms)


def parse_slo(text: str | None) -> float | None:
    """``tpot=10ms`` (or ``0.01s``) as milliseconds.

    Raises:
        UsageError: another quantity or no time.
    """
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\w+)\s*=\s*(\d+(?:\.\d+)?)\s*(ms|s)?\s*", text.lower(), re.ASCII)
    if match is None or math.isinf(float(match.group(2))):
        raise UsageError(f"--slo {text} is not understood; write it like tpot=10ms.")
    name, value, unit = match.group(1), float(match.group(2)), match.group(3) or "ms"
    if name != "tpot":
        raise UsageError(
            f"--slo {name} cannot be planned: it depends on arrivals and queueing, which a log of steps does not hold; "
            "tpot=TIME can."
        )
    if value <= 0:
        raise UsageError("--slo tpot must be more than 0; write it like tpot=10ms.")
    return value * (1000 if unit == "s" else 1)


def _plan(
    model: StepModel, facts: LogFacts, evidence: Evidence | None, room: Room,
    batch: int | None, context: int, tpot_ms: float | None,
) -> Plan:  # fmt: skip
    for flag, value, largest in (("--batch", batch, MAX_BATCH), ("--context", context, MAX_CONTEXT)):
        if value is not None and value > largest:
            raise UsageError(f"{flag} {value} is more than any engine serves; give at most {largest:,}.")
    slo = None
    if tpot_ms is not None:
        slo = _slo_answer(model, evidence, room.batch(context), facts.max_running, context, tpot_ms)
    asked = model.step(batch, context) if batch is not None else None
    steps = [step for step in (asked, slo.step if slo is not None else None) if step is not None]
    return Plan(
        model=model,
        facts=facts,
        evidence=evidence,
        error=judged(evidence) if evidence is not None else None,
        step=steps[0] if steps else None,
        slo=slo,
        room=room,
        grid=_grid(model, context, [step.batch for step in steps]),
        caveats=_caveats(model, facts, evidence, room, steps),
    )


def _slo_answer(
    model: StepModel, evidence: Evidence | None, kv_batch: int | None, max_running: int | None,
    context: int, tpot_ms: float,
) -> SloAnswer:  # fmt: skip
    batch = model.largest_batch(context, tpot_ms)
    bare = SloAnswer(tpot_ms, context, batch, kv_batch, max_running, step=None, unlimited=None, mixed=())
    return replace(
        bare,
        step=model.step(bare.admitted, context) if bare.admitted else None,
        unlimited=model.step(bare.limit, context) if bare.limit else None,
        mixed=_mixed(model, evidence, context, tpot_ms, bare.admitted),
    )


def _mixed(
    model: StepModel, evidence: Evidence | None, context: int, tpot_ms: float, admitted: int
) -> tuple[tuple[int, int], ...]:
    factor = evidence.prefill_factor if evidence is not None else None
    if factor is None:
        return ()
    return tuple((n, min(admitted, model.largest_batch_beside(n, context, tpot_ms, factor))) for n in CHUNKS)


def _grid(model: StepModel, context: int, extra: Sequence[int]) -> tuple[tuple[StepPlan, ...], ...]:
    """Steps over batch x context, the asked-for ones among them; those without room are left in, for the view to
    mark."""
    contexts, batches = _with_own(GRID_CONTEXTS, [context]), _with_own(GRID_BATCHES, extra)
    return tuple(tuple(model.step(b, c) for c in contexts) for b in batches)


def _with_own(usual: Sequence[int], own: Sequence[int]) -> list[int]:
    """The usual values, with those asked for in place of what lies close to them."""
    return sorted({*own, *(u for u in usual if all(not 0.7 < u / o < 1.4 for o in own))})


def _caveats(
    model: StepModel, facts: LogFacts, evidence: Evidence | None, room: Room, steps: Sequence[StepPlan]
) -> tuple[str, ...]:
    found = [*model.ceiling.roof.caveats, *model.ceiling.caveats]
    if evidence is None:
        found.append("no_engine_term")
    for step in steps:
        if room.holds(step.batch, step.context):
            found += _range_caveats(model, evidence, step)
        else:  # no server can run it, so how far its time can be trusted is no question
            found.append("kv_cache_too_small" if room.kv_cache_tokens is not None else "card_too_small")
        if facts.max_running is not None and step.batch > facts.max_running:
            found.append("above_max_running")
    return tuple(dict.fromkeys(found))


def _range_caveats(model: StepModel, evidence: Evidence | None, step: StepPlan) -> list[str]:
    found = []
    if evidence is not None and _outside(step.batch, evidence.batches):
        found.append("batch_outside_log")
    if evidence is not None and _outside(step.context, evidence.contexts):
        found.append("context_outside_log")
    if evidence is not None and step.batch * step.context > evidence.most_tokens * BEYOND:
        found.append("kv_outside_log")
    if model.ceiling.rows and step.batch > model.ceiling.rows[-1]:
        found.append("batch_outside_ceiling")
    return found


def _outside(value: float, seen: tuple[float, float]) -> bool:
    return value < seen[0] / BEYOND or value > seen[1] * BEYOND
