"""How many GPUs share a model, which no ``/metrics`` page states.

vLLM counts FLOPs per GPU, so the work of a decode window counted for the whole model, over what the engine counted, is
the tensor-parallel degree. A recount is good to a few percent and degrees are powers of two: one window decides.
SGLang divides only the attention heads of its count, too little to tell degrees apart.
"""

from __future__ import annotations

from log_parsers.step import LogFacts, ServingStep
from roofline_probe.recount import Recounter
from roofline_probe.shard import find_shape, shard_of

_DEGREES = (1, 2, 4, 8, 16, 32)
_TOLERANCE = 0.15


class DegreeFinder:
    """Feed the steps of one vLLM engine in order; ``degree`` is None until a window has told."""

    def __init__(self, facts: LogFacts) -> None:
        found = find_shape(facts, None) if facts.engine == "vllm" else None
        self._recounter = Recounter(shard_of(*found, facts), facts) if found is not None else None
        self.degree: int | None = None

    def feed(self, step: ServingStep) -> None:
        """Look at one step; the snapshots of all of them are needed, the counts of steady decode only."""
        if self._recounter is None or self.degree is not None:
            return
        work = self._recounter.count(step)
        if work is None or work.flops is None or not step.tflops or (step.kind, step.status) != ("decode", "steady"):
            return
        ratio = work.flops / work.window_s / (step.tflops * 1e12)
        self.degree = next((n for n in _DEGREES if abs(ratio / n - 1) < _TOLERANCE), None)
