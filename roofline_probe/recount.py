"""FLOPs and bytes of a step counted again from the model's dimensions: one accounting for both engines.

Nothing here uses the engine's own FLOP or byte figures, so a log without MFU lines is recounted just the same, and the
difference between "as the engine counts it" and "recounted" means something. What a line gives is little; the rest is
inferred as follows, and every inference that is more than arithmetic is named in ``Work.caveats``.

vLLM, one statistics tick of dt seconds:

* tokens: ``Avg prompt throughput``·dt computed prompt tokens P, ``Avg generation throughput``·dt generated tokens G.
  The throughput line covers the last tick only; the MFU line all the time since the previous MFU line, so the work
  found is divided by that longer window.
* before 0.16 the prompt throughput holds cached tokens too: they are taken off by the prefix cache's hit rate.
* decode steps: G / (running · accepted length). ``Running`` is a snapshot at the end of the tick: equal at both ends it
  is taken as it is, otherwise the mean of both ends, and where one end is idle, the other end alone.
* decode context: KV usage · KV cache size, a snapshot with 0.1 % resolution that counts whole blocks: the mean of both
  ends; if one end is empty, the other end less (or plus) half of the tokens generated in the tick.
* prompt length, for causal attention: prompts of length n cost n²/2 pairs. In a window without decode every generated
  token ends one prompt, so n = P/G; otherwise n is at least what a running request holds (KV tokens / running).
* vLLM adds a prompt to P when it is done, with all its tokens: a short tick is off by a whole prompt. Where requests
  leave with their first token, what is resident are prompts under way, and P + growth of the resident tokens is what
  was computed in the tick.
* prefill steps: P / token budget, never less; a window's steps are the larger of both counts, as decodes ride along.

SGLang:

* a decode line is ``decode_log_interval`` steps of ``#running-req`` sequences; ``#token`` is the context at its end;
* a prefill line is one batch: ``#new-token`` tokens in ``#new-seq`` sequences after ``#cached-token`` tokens; a batch
  cut at the chunk size holds the head of one prompt and the tail of another, so the mean prompt is
  new tokens / (sequences − cuts).
"""

from __future__ import annotations

from dataclasses import dataclass

from log_parsers.frozen import quick
from log_parsers.step import LogFacts, ServingStep
from roofline_probe.releases import before
from roofline_probe.shard import Shard

DEFAULT_TOKEN_BUDGET = 8192
"""vLLM's ``max_num_batched_tokens`` on data-centre GPUs, and SGLang's ``chunked_prefill_size`` there."""
_BLOCK_SLACK_TOKENS = 7.5
"""KV usage counts blocks of 16 tokens: a sequence's last block is on average half empty."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one GPU did in a step's window. Totals of the window, not rates."""

    window_s: float
    """Seconds that rates divide by: the step's window."""
    busy_s: float
    """Seconds of it that the tokens were counted over: the last tick of a diluted vLLM window."""
    steps: float | None
    """Engine steps; None where the line cannot say."""
    batch: float | None
    """Sequences decoding per step."""
    context: float | None
    """Mean tokens of context per decoding sequence."""
    decode_tokens: float
    prompt_tokens: float
    prefill_steps: float
    flops: float | None
    attention_flops: float
    """Of which prefill attention."""
    weight_bytes: float | None
    kv_read_bytes: float
    kv_write_bytes: float
    activation_bytes: float
    caveats: tuple[str, ...] = ()

    @property
    def bytes(self) -> float | None:
        """Weights and KV: what the recounted rate is made of."""
        return None if self.weight_bytes is None else self.weight_bytes + self.kv_read_bytes + self.kv_write_bytes

    @property
    def tokens(self) -> float:
        """Generated plus computed prompt tokens."""
        return self.decode_tokens + self.prompt_tokens


_make_work = quick(Work)


class Recounter:
    """Counts the steps of one rank in order; holds the previous snapshot, which a tick's averages need."""

    def __init__(self, shard: Shard, facts: LogFacts) -> None:
        self._shard = shard
        self.learn(facts)
        self._running = 0
        self._kv_tokens: float | None = None
        self._passing = False
        self._cut = False
        self._prompts = _PromptLength()

    def learn(self, facts: LogFacts) -> None:
        """Take a fuller statement about the same run; the snapshot stays."""
        self._cache_tokens = facts.kv_cache_tokens
        self._budget = facts.token_budget if facts.token_budget and facts.token_budget > 0 else DEFAULT_TOKEN_BUDGET
        self._budget_known = bool(facts.token_budget)
        self._speculative = bool(facts.speculative)
        self._prompts_hold_cached = facts.engine == "vllm" and before(facts, 0, 16)

    def count(self, step: ServingStep) -> Work | None:
        """The window's work, or None if the line carries no throughput or no window."""
        if step.status == "noise" or not step.window_s:
            return None
        if step.engine == "sglang":
            return self._sglang_prefill(step) if step.kind == "prefill" else self._sglang_decode(step)
        return self._vllm(step)

    def _vllm(self, step: ServingStep) -> Work | None:
        window = step.window_s
        if not window or step.gen_tok_s is None or step.prompt_tok_s is None:
            return None
        tick = window / step.dilution if step.dilution else window
        generated, prompt = step.gen_tok_s * tick, step.prompt_tok_s * tick
        caveats: list[str] = []
        if self._prompts_hold_cached and prompt and step.prefix_hit_rate:
            prompt *= 1 - step.prefix_hit_rate
            caveats.append("cached_prompts_estimated")
        running, kv_now = step.running or 0, self._resident(step)
        passing = _passes_through(step.kind, prompt, generated, running, kv_now)
        if passing and self._passing and kv_now is not None and self._kv_tokens is not None:
            prompt = max(0.0, prompt + kv_now - self._kv_tokens)
        self._passing = passing
        batch = _between(self._running, running)
        kv = self._mean_kv(running, kv_now, generated)
        self._running, self._kv_tokens = running, kv_now
        decoded = 0.0 if step.kind == "prefill" else generated
        length = _prompt_length(step.kind, prompt, generated, running, kv_now)
        return self._assemble(step, tick, decoded, generated, prompt, length, batch, kv, caveats)

    def _resident(self, step: ServingStep) -> float | None:
        """Tokens in the KV cache at the end of the tick."""
        if step.kv_usage is None or self._cache_tokens is None:
            return None
        return max(0.0, step.kv_usage * self._cache_tokens - _BLOCK_SLACK_TOKENS * (step.running or 0))

    def _mean_kv(self, running: int, now: float | None, generated: float) -> float | None:
        """Mean resident tokens over the tick (see the module's text)."""
        if now is None:
            return None
        before = self._kv_tokens
        if not self._running or before is None:
            return max(now - generated / 2, now / 2)
        if not running:
            return before + generated / 2
        return (before + now) / 2

    def _assemble(
        self, step: ServingStep, tick: float, decoded: float, generated: float, prompt: float, length: float,
        batch: float | None, kv: float | None, caveats: list[str],
    ) -> Work:  # fmt: skip
        shard = self._shard
        accepted = step.accept_len or 1.0
        if self._speculative or step.accept_len:
            caveats.append("speculative")
        decode_steps = decoded / (batch * accepted) if batch and decoded else 0.0
        prefill_steps = prompt / self._budget
        if prompt and not self._budget_known:
            caveats.append("token_budget_assumed")
        steps = step.iterations or max(decode_steps, prefill_steps)
        if decoded and batch is None and not step.iterations:
            steps = 0.0  # requests shorter than a tick: no snapshot ever saw one run
            caveats.append("steps_unknown")
        if step.iterations and batch:
            decode_steps = min(decode_steps, step.iterations)
        if prompt and (step.prefix_hit_rate or 0) > 0.02:
            caveats.append("cached_prefix_unseen")
        if decoded and kv is None:
            caveats.append("context_unknown")
        context = kv / batch if kv is not None and batch else None
        attended = (shard.attended(context) * batch if context is not None and batch else 0.0) * decode_steps
        pairs = prompt * shard.attended(length) / 2
        attention = pairs * shard.attention_flops_per_pair
        rows = generated if decoded else max(generated, prompt / length if length else 0.0)
        tokens = prompt + decoded
        return _make_work(
            window_s=step.window_s or tick,
            busy_s=tick,
            steps=steps or None,
            batch=batch if decoded else None,
            context=context if decoded else None,
            decode_tokens=decoded,
            prompt_tokens=prompt,
            prefill_steps=prefill_steps,
            flops=tokens * shard.linear_flops_per_token
            + rows * shard.lm_head_flops_per_row
            + attended * shard.attention_flops_per_pair
            + attention,
            attention_flops=attention,
            weight_bytes=steps * shard.weight_bytes(tokens / steps) if steps else None,
            kv_read_bytes=(attended + prompt) * shard.kv_bytes_per_token,
            kv_write_bytes=tokens * shard.kv_bytes_per_token,
            activation_bytes=tokens * shard.activation_bytes_per_token,
            caveats=tuple(caveats),
        )

    def _sglang_decode(self, step: ServingStep) -> Work | None:
        window, running = step.window_s, step.running
        if not window or step.gen_tok_s is None or not running:
            return None
        generated = step.gen_tok_s * window
        steps = step.iterations or generated / (running * (step.accept_len or 1.0))
        kv = None if step.context_tokens is None else max(0.0, step.context_tokens - generated / 2)
        return self._decode_work(step, window, running, steps, generated, kv)

    def _decode_work(
        self, step: ServingStep, window: float, batch: float, steps: float, generated: float, kv: float | None
    ) -> Work:
        shard = self._shard
        context = kv / batch if kv is not None else None
        attended = (shard.attended(context) * batch if context is not None else 0.0) * steps
        caveats = ("context_unknown",) if kv is None else ()
        return _make_work(
            window_s=window,
            busy_s=window,
            steps=steps,
            batch=batch,
            context=context,
            decode_tokens=generated,
            prompt_tokens=0.0,
            prefill_steps=0.0,
            flops=generated * (shard.linear_flops_per_token + shard.lm_head_flops_per_row)
            + attended * shard.attention_flops_per_pair,
            attention_flops=0.0,
            weight_bytes=steps * shard.weight_bytes(generated / steps) if steps else None,
            kv_read_bytes=attended * shard.kv_bytes_per_token,
            kv_write_bytes=generated * shard.kv_bytes_per_token,
            activation_bytes=generated * shard.activation_bytes_per_token,
            caveats=caveats + (("speculative",) if step.accept_len else ()),
        )

    def _sglang_prefill(self, step: ServingStep) -> Work | None:
        window, tokens = step.window_s, step.new_tokens
        if not window or not tokens:
            return None
        shard = self._shard
        cut = tokens >= self._budget
        sequences = float(step.new_seqs or 1)
        length = self._prompts.mean(tokens, sequences, int(cut) + int(self._cut))
        self._cut = cut
        cached = (step.cached_tokens or 0) / sequences
        pairs = tokens * (shard.attended(cached + length) - shard.attended(length) + shard.attended(length) / 2)
        attention = pairs * shard.attention_flops_per_pair
        finished = max(sequences - int(cut), 0.0)
        return _make_work(
            window_s=window,
            busy_s=window,
            steps=1.0,
            batch=None,
            context=None,
            decode_tokens=0.0,
            prompt_tokens=float(tokens),
            prefill_steps=1.0,
            flops=tokens * shard.linear_flops_per_token + finished * shard.lm_head_flops_per_row + attention,
            attention_flops=attention,
            weight_bytes=shard.weight_bytes(tokens),
            kv_read_bytes=(tokens + (step.cached_tokens or 0)) * shard.kv_bytes_per_token,
            kv_write_bytes=tokens * shard.kv_bytes_per_token,
            activation_bytes=tokens * shard.activation_bytes_per_token,
            caveats=() if step.new_seqs else ("prompt_length_assumed",),
        )


class _PromptLength:
    """Mean prompt length over an unbroken row of chunked batches: one batch alone says it only to a factor of two."""

    _KEEP = 0.9

    def __init__(self) -> None:
        self._tokens = 0.0
        self._prompts = 0.0

    def mean(self, tokens: float, sequences: float, cuts: int) -> float:
        if cuts < 2:  # nothing is carried over both ends: a row begins or ends here
            self._tokens = self._prompts = 0.0
        if not cuts:
            return tokens / sequences
        self._tokens = self._tokens * self._KEEP + tokens
        self._prompts = self._prompts * self._KEEP + max(sequences - cuts / 2, 0.0)
        return max(tokens / sequences, self._tokens / self._prompts if self._prompts else tokens)


def _passes_through(kind: str, prompt: float, generated: float, running: int, kv: float | None) -> bool:
    """Whether requests leave as soon as their prompt is done, so that what is resident is prompts under way.

    Then the average resident holds no more than a prompt, where every generated token ends one.
    """
    return kind == "prefill" and bool(running and generated and kv and kv / running <= prompt / generated)


def _between(before: int, now: int) -> float | None:
    """Sequences per decode step of a tick that began with ``before`` running and ended with ``now``."""
    if before and now:
        return (before + now) / 2
    return float(before or now) or None


def _prompt_length(kind: str, prompt: float, generated: float, running: int, kv: float | None) -> float:
    """Mean length of the prompts computed in a tick (see the module's text)."""
    if not prompt:
        return 0.0
    per_token = prompt / generated if generated else prompt
    held = kv / running if kv and running else 0.0
    return per_token if kind == "prefill" and not held else max(per_token, held)
