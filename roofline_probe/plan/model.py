"""A step at any batch and context: the law over one model's kernels, and the questions asked of it. Pure.

TTFT and queueing are not predicted: they depend on when requests arrive and on how the scheduler orders them, and a
log of steps says neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from roofline_probe.ceiling import Ceiling
from roofline_probe.plan.law import StepLaw
from roofline_probe.shard import Shard

MAX_BATCH = 1 << 20
"""Search limit: no engine schedules more sequences."""
MAX_CONTEXT = 1 << 30
"""Tokens; two orders above the longest context any model is published with."""


@dataclass(frozen=True, slots=True)
class StepPlan:
    """A predicted decode step. Milliseconds; tokens/s of generated tokens."""

    batch: int
    context: int
    step_ms: float
    gemm_ms: float
    kv_ms: float
    """KV bytes over the read beta times the law's factor."""
    link_ms: float
    engine_ms: float
    tok_s: float
    """Of the whole engine."""
    tok_s_per_gpu: float
    tok_s_per_user: float


@dataclass(frozen=True)
class StepModel:
    """One GPU's kernels under one engine's law."""

    ceiling: Ceiling
    shard: Shard
    law: StepLaw

    def step(self, batch: int, context: int) -> StepPlan:
        """The decode step of ``batch`` sequences with a mean context of ``context`` tokens."""
        gemm, link = self._gemm_ms(batch), self._link_ms(batch)
        kv = self.law.kv_factor * self._kv_ms(batch, context)
        engine = self.law.engine_ms(batch)
        total = gemm + kv + link + engine
        tok_s = batch / total * 1e3
        gpus = self.shard.tp * self.shard.pp
        return StepPlan(batch, context, total, gemm, kv, link, engine, tok_s, tok_s / gpus, tok_s / batch)

    def mixed_step_ms(self, batch: int, context: int, chunk: int, prefill_factor: float) -> float:
        """A step that decodes ``batch`` sequences and computes ``chunk`` tokens of a prompt beside them.

        The chunk attends, on average, to half a context of ``context`` tokens; what it adds is charged at the quotient
        that this log's prefill steps took over their kernels (``prefill_factor``).
        """
        alone, rows = self.step(batch, context), batch + chunk
        pairs = chunk * self.shard.attended(context) / 2
        attention = self.ceiling.attention_ms(pairs * self.shard.attention_flops_per_pair) or 0.0
        added = self._gemm_ms(rows) - alone.gemm_ms + attention + self._link_ms(rows) - alone.link_ms
        return alone.step_ms + prefill_factor * added

    def largest_batch(self, context: int, slo_ms: float) -> int:
        """Largest batch whose step meets ``slo_ms``; 0 if not even one sequence does."""
        return _largest(lambda batch: self.step(batch, context).step_ms <= slo_ms, MAX_BATCH)

    def largest_batch_beside(self, chunk: int, context: int, slo_ms: float, prefill_factor: float) -> int:
        """Largest batch that still meets ``slo_ms`` in a step that also holds ``chunk`` prompt tokens; 0 if none."""
        return _largest(lambda batch: self.mixed_step_ms(batch, context, chunk, prefill_factor) <= slo_ms, MAX_BATCH)

    def _gemm_ms(self, rows: int) -> float:
        """Ceiling at ``rows``; never less than at fewer rows, which a measured point's noise could make it."""
        below = [ms for m, ms in zip(self.ceiling.rows, self.ceiling.ms, strict=True) if m <= rows]
        return max([self.ceiling.gemm_ms(rows) or 0.0, *below])

    def _kv_ms(self, batch: int, context: int) -> float:
        return self.ceiling.kv_ms(batch * self.shard.attended(context) * self.shard.kv_bytes_per_token) or 0.0

    def _link_ms(self, rows: int) -> float:
        return self.ceiling.link_ms(rows) or 0.0


def _largest(fits: Callable[[int], bool], limit: int) -> int:
    """Largest n in 0..limit with ``fits(n)``, for a test that never becomes true again once it failed."""
    low, high = 0, 1
    while high <= limit and fits(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
