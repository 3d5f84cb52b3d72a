"""Windows and status of SGLang's lines: each is complete in itself, but what its window holds shows only in the
past.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from log_parsers.clock import Moment
from log_parsers.engines import Event, Line
from log_parsers.frozen import quick
from log_parsers.run import Run
from log_parsers.status import Verdict
from log_parsers.step import ServingStep

_make_step = quick(ServingStep)
_DEFAULT_INTERVAL = 40
_HISTORY = 16
_SLOW = 1.5
_PREFILL_SHARE = 0.05
_BATCH_CHANGE = 0.2
_LARGE_PREFILL = 512
_IDLE_GAP_S = 2.0
_PROBE_TOK_S = 1.0
_MANY_RANKS = 4096


@dataclass
class _Rank:
    """What one scheduler printed before."""

    decode_at: Moment | None = None
    decode_running: int | None = None
    prefills: int = 0
    """Prefill lines since the last decode line, and their tokens."""
    prefill_tokens: int = 0
    probes: int = 0
    """Health probes' prefills since the last decode line."""
    after_probe: bool = False
    """The last prefill line was a probe's."""
    decodes: int = 0
    """Decode lines since the last prefill line."""
    prefill_seen: bool = False
    prefill_new_tokens: int = 0
    steps: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=_HISTORY))
    """(batch, seconds a step) of undisturbed decode windows."""
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=_HISTORY))
    """Token rates of large prefill batches."""


class Batches:
    """Tracker of one SGLang run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._ranks: dict[str | None, _Rank] = {}

    def feed(self, event: Event, line: Line) -> list[ServingStep]:
        """One step for every decode or prefill line."""
        assert event.head is not None
        rank = event.head.rank
        state = self._ranks.get(rank)
        if state is None:
            if len(self._ranks) >= _MANY_RANKS:  # no deployment has so many: a bound for hostile logs
                self._ranks.clear()
            state = self._ranks[rank] = _Rank()
        values = event.values
        self._run.report.throughput_lines += 1
        self._run.report.mfu_lines += "tflops" in values
        judge = self._decode if values["phase"] == "decode" else self._prefill
        window, verdict = judge(state, values, line.at)
        self._run.has_steps = True
        return [self._step(rank, values, line, window, verdict)]

    def flush(self) -> list[ServingStep]:
        """Nothing ever waits."""
        return []

    def _step(
        self, rank: str | None, values: dict[str, Any], line: Line, window: float | None, verdict: Verdict
    ) -> ServingStep:
        read, write = values.get("read_gbps"), values.get("write_gbps")
        at = line.at
        decode = values["phase"] == "decode"
        return _make_step(
            source=self._run.part,
            run=self._run.index,
            line_no=line.number,
            engine=self._run.engine,
            engine_version=self._run.facts.get("engine_version"),
            rank=rank,
            kind="decode" if decode else "prefill",
            status=verdict.status,
            status_reason=verdict.reason,
            time=at.iso if at else None,
            year_inferred=at.year_inferred if at else False,
            window_s=round(window, 6) if window else None,
            tflops=values.get("tflops"),
            gbps=None if read is None or write is None else round(read + write, 2),
            read_gbps=read,
            write_gbps=write,
            dilution=verdict.dilution,
            running=values["running"],
            queue=values.get("queue"),
            prompt_tok_s=values.get("prompt_tok_s"),
            gen_tok_s=values.get("gen_tok_s"),
            new_tokens=values.get("new_tokens"),
            new_seqs=values.get("new_seqs"),
            cached_tokens=values.get("cached_tokens"),
            context_tokens=values.get("context_tokens"),
            kv_usage=values.get("kv_usage"),
            accept_len=values.get("accept_len"),
            iterations=self._run.facts.get("decode_log_interval") if decode else 1,
            graph=values.get("graph"),
            raw=line.raw,
        )

    def _decode(self, state: _Rank, values: dict[str, Any], at: Moment | None) -> tuple[float | None, Verdict]:
        window = self._decode_window(state, values, at)
        verdict = self._decode_verdict(state, values, window)
        running, interval = values["running"], self._interval
        if verdict.status == "steady" and window:
            state.steps.append((running, window / interval))
        if verdict.status != "noise":
            state.decode_running = running
            state.decodes += 1
        state.prefills = state.prefill_tokens = state.probes = 0
        state.decode_at = at
        return window, verdict

    @property
    def _interval(self) -> int:
        return self._run.facts.get("decode_log_interval") or _DEFAULT_INTERVAL

    def _decode_window(self, state: _Rank, values: dict[str, Any], at: Moment | None) -> float | None:
        """Iterations x tokens an iteration / rate; by the stamps where they are fine and the interval is unknown."""
        known = self._run.facts.get("decode_log_interval") is not None
        if not known and at and state.decode_at and at.fine and state.decode_at.fine:
            return max(0.0, at.seconds - state.decode_at.seconds) or None
        if not values["gen_tok_s"] or not values["running"]:
            return None
        tokens = self._interval * values["running"] * (values.get("accept_len") or 1.0)
        return float(tokens / values["gen_tok_s"])

    def _decode_verdict(self, state: _Rank, values: dict[str, Any], window: float | None) -> Verdict:
        running = values["running"]
        if values.get("context_tokens") == 0:
            if not state.prefills and (state.probes or values["gen_tok_s"] < _PROBE_TOK_S):
                return Verdict("noise", "health probes: decoding with no token held in the cache")
            return Verdict("partial", "work ended inside the window")
        if state.decode_running is None:
            return Verdict("diluted", "first decode line: its window runs since the scheduler's start")
        if running == 0:
            return Verdict("partial", "work ended inside the window")
        usual = self._usual_step(state, running)
        step = window / self._interval if window else None
        factor = round(step / usual, 4) if step and usual and step > usual else None
        if self._prefilled(state, values, window):
            return Verdict("diluted", "prefills ran inside the window", factor)
        if abs(running - state.decode_running) > _BATCH_CHANGE * max(running, state.decode_running):
            return Verdict("partial", f"batch went from {state.decode_running} to {running} inside the window")
        if factor is not None and factor > _SLOW:
            return Verdict("diluted", "a step took much longer than those before: idle or other work inside", factor)
        return Verdict()

    def _prefilled(self, state: _Rank, values: dict[str, Any], window: float | None) -> bool:
        if not state.prefills:
            return False
        decoded = values["gen_tok_s"] * (window or 0.0)
        return state.prefills > _PREFILL_SHARE * self._interval or state.prefill_tokens > _PREFILL_SHARE * decoded

    def _usual_step(self, state: _Rank, running: int) -> float | None:
        alike = [step for batch, step in state.steps if abs(batch - running) <= _BATCH_CHANGE * max(batch, running)]
        return median(alike) if alike else None

    def _prefill(self, state: _Rank, values: dict[str, Any], at: Moment | None) -> tuple[float | None, Verdict]:
        rate, tokens = values["prompt_tok_s"], values["new_tokens"]
        # 0.5.10 (no #pending-token) divides the tokens of the batch BEFORE by the gap
        counted = tokens if "pending_tokens" in values else state.prefill_new_tokens
        window = counted / rate if rate and counted else None
        verdict = self._prefill_verdict(state, values, window)
        if verdict.status != "noise":
            state.prefills += 1
            state.prefill_tokens += tokens
            if verdict.status == "steady" and tokens >= _LARGE_PREFILL and window:
                state.rates.append(tokens / window)
        else:
            state.probes += 1
        state.prefill_seen, state.prefill_new_tokens, state.decodes = True, tokens, 0
        state.after_probe = verdict.status == "noise"
        return window, verdict

    def _prefill_verdict(self, state: _Rank, values: dict[str, Any], window: float | None) -> Verdict:
        tokens = values["new_tokens"]
        if tokens <= 1 and not values.get("cached_tokens") and values.get("new_seqs", 1) <= 1:
            return Verdict("noise", "health probe: one token to prefill")
        if not state.prefill_seen:
            return Verdict("diluted", "first prefill line: its window runs since the scheduler's start")
        if state.decodes:
            return Verdict("diluted", "decode steps ran inside the window")
        if window is None:
            return Verdict("partial", "the line does not tell its window")
        usual = median(state.rates) if state.rates else None
        if usual is not None and tokens >= _LARGE_PREFILL and tokens / window < usual / (2 * _SLOW):
            return Verdict("diluted", "idle time inside the window", round(usual * window / tokens, 4))
        alone = usual is None and values["running"] == 0
        if state.after_probe or (window > _IDLE_GAP_S and (alone or tokens < _LARGE_PREFILL)):
            return Verdict("diluted", "idle time inside the window")
        return Verdict()
