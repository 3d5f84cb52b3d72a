"""A model's weights and KV bytes fitted from SGLang's own decode lines, where its dimensions are not known.

SGLang charges the weights once per generated token and the KV cache once per step and sequence, so that over decode
lines bytes per token = W + kv · (context per sequence): a straight line whose intercept is the weight bytes and whose
slope the KV bytes per token. FLOPs per token are another line, over the same context. The LM head, which SGLang leaves
out, follows from the loader's figure: what is loaded and not in W is the embedding and the head, of equal size.

With tensor parallelism W mixes a divided part (heads) with an undivided one (the MLP), which no line can split: the fit
is for one GPU only.
"""

from __future__ import annotations

from log_parsers.step import LogFacts, ServingStep
from roofline_probe.shard import Shard, dtype_bytes

MIN_GEN_TOK_S = 50
"""Below it a line holds probes or idle time, and its rounding alone is a percent."""
MIN_LINES = 8
MAX_INTERCEPT_ERROR = 0.005
"""Relative standard error of the weight bytes at which the fit is used."""


class _Line:
    """Least squares y = a + b·x, updated point by point; sums are taken about the first point, for their precision."""

    def __init__(self) -> None:
        self.n = 0
        self._x0 = self._y0 = 0.0
        self._sx = self._sy = self._sxx = self._sxy = self._syy = 0.0

    def add(self, x: float, y: float) -> None:
        if not self.n:
            self._x0, self._y0 = x, y
        x, y = x - self._x0, y - self._y0
        self.n += 1
        self._sx += x
        self._sy += y
        self._sxx += x * x
        self._sxy += x * y
        self._syy += y * y

    def solve(self) -> tuple[float, float, float] | None:
        """(intercept, slope, standard error of the intercept), or None while x has not moved."""
        n = self.n
        if n < 3:
            return None
        spread = self._sxx - self._sx * self._sx / n
        if spread <= 0:
            return None
        shared = self._sxy - self._sx * self._sy / n
        slope = shared / spread
        mean_x, mean_y = self._sx / n + self._x0, self._sy / n + self._y0
        residual = max(0.0, self._syy - self._sy * self._sy / n - slope * shared) / (n - 2)
        error = (residual * (1 / n + mean_x * mean_x / spread)) ** 0.5
        return mean_y - slope * mean_x, slope, error


class SglangFit:
    """Running fit over the decode lines seen so far: the same for a saved log and for a live one.

    It is used from the line at which it first becomes certain; lines before that stay without a recount.
    """

    def __init__(self, facts: LogFacts) -> None:
        self._facts = facts
        self._bytes, self._flops = _Line(), _Line()

    @property
    def possible(self) -> bool:
        """Whether this run can be fitted at all: SGLang on one GPU."""
        return self._facts.engine == "sglang" and (self._facts.tp or 1) == 1 and (self._facts.pp or 1) == 1

    def add(self, step: ServingStep) -> None:
        """Learn from a decode line; every other step is ignored."""
        gen, running, context = step.gen_tok_s, step.running, step.context_tokens
        if step.kind != "decode" or step.read_gbps is None or not gen or gen < MIN_GEN_TOK_S:
            return
        if not running or not context or step.accept_len:
            return
        self._bytes.add(context / running, step.read_gbps * 1e9 / gen)
        if step.tflops is not None:
            self._flops.add(context / running, step.tflops * 1e12 / gen)

    def weights_and_kv(self) -> tuple[float, float] | None:
        """(weight bytes charged per token, KV bytes per token of context), None until the fit is certain."""
        if self._bytes.n < MIN_LINES:
            return None
        solved = self._bytes.solve()
        if solved is None or solved[0] <= 0 or solved[1] <= 0 or solved[2] > MAX_INTERCEPT_ERROR * solved[0]:
            return None
        return solved[0], solved[1]

    def shard(self) -> Shard | None:
        """The fitted model as a one-GPU shard, None until the fit is certain."""
        found = self.weights_and_kv()
        if found is None:
            return None
        weights, kv = found
        size = dtype_bytes(self._facts.dtype)
        loaded = self._facts.weight_bytes
        head = max(0.0, (loaded - weights) / 2) if loaded else 0.0
        flops = self._flops.solve()
        return Shard(
            name=self._facts.model or "the log's model",
            source="fit",
            tp=1,
            pp=1,
            layers=0,
            hidden_size=0,
            dense_weight_bytes=weights,
            lm_head_bytes=head,
            linear_flops_per_token=flops[0] if flops else 2 * weights / size,
            lm_head_flops_per_row=2 * head / size,
            attention_flops_per_pair=max(0.0, flops[1]) if flops else 0.0,
            kv_bytes_per_token=kv,
            activation_bytes_per_token=0.0,
            b_act=size,
        )
