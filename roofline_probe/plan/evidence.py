"""What a log offers a plan: its steady windows as observations, and whether they can carry the law.

A law fitted to two batches, or to a ceiling of another model, would still print three digits. So everything that makes
a plan unsound is refused here, with what to run to fill the gap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from log_parsers.step import LogFacts
from roofline_probe.analysis import RunContext
from roofline_probe.ceiling import Ceiling
from roofline_probe.errors import NoRoof, NothingUsable
from roofline_probe.plan.law import MIN_REGIMES, Observation, StepLaw, fit
from roofline_probe.point import Point, Roof
from roofline_probe.shard import Shard
from roofline_probe.summary import batch_bin, context_bin

MIN_WINDOWS = 3
"""A regime seen in fewer windows than this is an accident, not a regime."""


@dataclass
class Collector:
    """Takes points as they are found and keeps the few numbers a plan needs of each."""

    decode: list[Observation] = field(default_factory=list)
    prefill_ms: float = 0.0
    """Time of the steady prefill steps, and ..."""
    prefill_kernel_ms: float = 0.0
    """... what their kernels need: the quotient is what the engine adds to a prefill."""
    prefill_windows: int = 0
    speculative: bool = False

    def add(self, point: Point) -> None:
        """Keep a steady window whose parts are known."""
        if point.step.status != "steady" or point.step_ms is None or point.gemm_ms is None:
            return
        if point.step.kind == "decode" and point.kv_ms is not None and point.batch and point.context is not None:
            self.speculative = self.speculative or "speculative" in point.caveats
            self.decode.append(_observation(point, point.batch, point.context, point.gemm_ms, point.kv_ms))
        elif point.step.kind == "prefill" and point.work is not None and point.work.steps:
            kernels = point.gemm_ms + (point.kv_ms or 0.0) + (point.link_ms or 0.0)
            self.prefill_ms += point.step_ms * point.work.steps
            self.prefill_kernel_ms += kernels * point.work.steps
            self.prefill_windows += 1


def _observation(point: Point, batch: float, context: float, gemm_ms: float, kv_ms: float) -> Observation:
    assert point.step_ms is not None
    regime = (batch_bin(batch), context_bin(context))
    return Observation(batch, context, gemm_ms, kv_ms, point.step_ms, regime, point.link_ms or 0.0)


@dataclass(frozen=True)
class Evidence:
    """The run a plan speaks about, and what its log showed."""

    facts: LogFacts
    roof: Roof
    shard: Shard
    ceiling: Ceiling
    observations: tuple[Observation, ...] = ()
    prefill_factor: float | None = None
    """Time of the log's prefill steps over their kernels' time; None without steady prefill windows."""
    prefill_windows: int = 0

    @property
    def law(self) -> StepLaw:
        """The engine's coefficients, fitted to all observations."""
        return fit(self.observations)

    @property
    def batches(self) -> tuple[float, float]:
        """Smallest and largest batch observed."""
        seen = [o.batch for o in self.observations]
        return min(seen), max(seen)

    @property
    def contexts(self) -> tuple[float, float]:
        """Shortest and longest mean context observed."""
        seen = [o.context for o in self.observations]
        return min(seen), max(seen)

    @property
    def most_tokens(self) -> float:
        """Largest product of batch and context observed: the most KV that a step read."""
        return max(o.batch * o.context for o in self.observations)


def examine(runs: Sequence[RunContext], collected: Collector) -> Evidence:
    """The evidence of a log's runs.

    Raises:
        NothingUsable: the log cannot carry a plan; the sentence says why and what to run.
        NoRoof: the profile lacks pi or beta.
    """
    run = _one_setup(runs)
    require_both(run.roof)
    if run.shard is None or run.ceiling is None:
        raise NothingUsable(
            "The log does not tell the model's dimensions, without which no step can be taken apart: "
            "add --model NAME or --model CONFIG.JSON."
        )
    _require_ceiling(run.shard, run.ceiling, run.roof)
    if collected.speculative:
        raise NothingUsable(
            "The log was written with speculative decoding, whose steps take a varying number of tokens; "
            "plan from a log without it."
        )
    if run.shard.tp > 1 and run.ceiling.link_ms(1) is None:
        raise NothingUsable(
            f"The profile holds no link between cards, which a step with tensor parallelism {run.shard.tp} needs: "
            "run `probe measure --device all` on that machine."
        )
    kept = _without_accidents(collected.decode)
    _require_regimes(collected.decode, kept)
    factor = collected.prefill_ms / collected.prefill_kernel_ms if collected.prefill_kernel_ms else None
    return Evidence(run.facts, run.roof, run.shard, run.ceiling, tuple(kept), factor, collected.prefill_windows)


def require_both(roof: Roof) -> None:
    """A step's time needs both halves of the roof.

    Raises:
        NoRoof: one is missing.
    """
    missing = [
        name
        for name, figure in ((f"pi for {roof.dtype}", roof.pi_tflops), ("bandwidth", roof.read_beta_gbps))
        if figure is None
    ]
    if missing:
        raise NoRoof(
            f"The profile holds no {' and no '.join(missing)}, and a plan needs both pi and beta: "
            f"run `probe measure --dtype {roof.dtype}` on the card."
        )


def _one_setup(runs: Sequence[RunContext]) -> RunContext:
    """The runs' common setup: a plan mixes restarts of one server, not servers."""
    setups = {(r.facts.engine, r.facts.engine_version, r.shard, r.roof.dtype) for r in runs if r.shard is not None}
    if len(setups) > 1:
        raise NothingUsable(
            "The logs are of different engines, models or parallel setups, which obey different laws: "
            "plan from the logs of one."
        )
    return next((r for r in reversed(runs) if r.shard is not None), runs[-1])


def _require_ceiling(shard: Shard, ceiling: Ceiling, roof: Roof) -> None:
    if ceiling.estimated:
        raise NothingUsable(
            f"The profile has no measured ceiling for {shard.name} in {roof.dtype} at tensor parallelism {shard.tp}: "
            f"run `probe measure --model {shard.name} --dtype {roof.dtype} --tp {shard.tp}` on the card."
        )


def _without_accidents(observations: Sequence[Observation]) -> list[Observation]:
    counts = Counter(o.regime for o in observations)
    return [o for o in observations if counts[o.regime] >= MIN_WINDOWS]


def _require_regimes(observations: Sequence[Observation], kept: Sequence[Observation]) -> None:
    if len({o.regime for o in kept}) >= MIN_REGIMES:
        return
    batches = ", ".join(str(b) for b in sorted({round(o.batch) for o in observations})[:6])
    windows = f"{len(observations)} window{'s' if len(observations) > 1 else ''}"
    seen = (
        f"decodes steadily at batch {batches} only, in {windows}" if observations else "holds no steady decode window"
    )
    raise NothingUsable(
        f"The log {seen}, and at least {MIN_REGIMES} regimes of batch and context with {MIN_WINDOWS} windows each are "
        "needed to tell the engine's costs apart: serve for a minute each at, say, 1, 16 and 128 concurrent requests, "
        "and plan from that log."
    )
