"""Pairs the lines of vLLM's statistics calls into steps.

When a step is complete, decided by content alone so that any chunking gives the same steps:

* an MFU line completes the throughput line of the same process and engine index, or stands alone if there is none;
* a throughput line completes at once if no MFU line can follow (idle with nothing running, aggregated engines, the
start-up
  lines say that the feature is off, or three throughput lines of this run went by without one); otherwise at the next
  throughput line of that engine, or at the end;
* at level DEBUG (the file is printed with its folder) a pair waits for the ``MFU details`` block behind it, unless the
  first pair of the run showed that none is printed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from log_parsers.clock import Moment
from log_parsers.engines import Event, Line
from log_parsers.frozen import quick
from log_parsers.run import Run
from log_parsers.status import Tick, Verdict, kind_of_rates, tick_verdict
from log_parsers.step import ServingStep
from log_parsers.windows import Interval

_make_step = quick(ServingStep)
_ENOUGH_WITHOUT_MFU = 3
_STAMP_ERROR_S = 1.0
"""Two stamps of whole seconds differ from the time between them by less than this."""
_MANY_ENGINES = 4096
_SKIPPED = 1.9
"""From this many intervals on, an MFU line without throughput lines around it had a tick without one before it."""
_SINCE_START = "first line: its window runs since start-up"
_BEFORE_LOG = "first line: its window began before this log"
_Key = tuple[str, str | None]


@dataclass
class _Pair:
    """The lines of one call, as far as they have come."""

    tput: Event | None
    line: Line
    mfu: Event | None = None
    accept_len: float | None = None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass
class _EngineState:
    """What the next window of one engine needs to know of the past."""

    pending: _Pair | None = None
    before: Tick | None = None
    last_tick: Moment | None = None
    last_mfu: Moment | None = None
    idle_since_mfu: bool = False
    interval: Interval = field(default_factory=Interval)


@dataclass
class _Iterations:
    count: int = 0
    ms: float = 0.0
    new_tokens: int = 0


class Ticks:
    """Tracker of one vLLM run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._engines: dict[_Key, _EngineState] = {}
        self._iterations: dict[str, _Iterations] = {}
        self._held: tuple[_Key, _Pair] | None = None
        self._details_come: bool | None = None
        self._mfu_seen = False
        self._without_mfu = 0

    def feed(self, event: Event, line: Line) -> list[ServingStep]:
        """Steps completed by this event."""
        if event.kind == "throughput":
            return self._throughput(event, line)
        if event.kind == "mfu":
            return self._mfu(event, line)
        if event.kind == "details":
            return self._details(event)
        if event.kind == "iteration":
            self._iteration(event)
        if event.kind == "spec":
            self._spec(event)
        return []

    def flush(self) -> list[ServingStep]:
        """Steps still waiting for a companion line."""
        steps = self._release()
        for key, state in self._engines.items():
            if state.pending is not None:
                steps.append(self._emit(key, state, state.pending))
        return steps

    def _state(self, event: Event) -> tuple[_Key, _EngineState]:
        assert event.head is not None
        key = self._known((event.head.pid, event.values["rank"]))
        state = self._engines.get(key)
        if state is None:
            if len(self._engines) >= _MANY_ENGINES:  # no deployment has so many: a bound for hostile logs
                del self._engines[next(iter(self._engines))]
            state = self._engines[key] = _EngineState()
        return key, state

    def _known(self, key: _Key) -> _Key:
        """A line whose process prefix is lost (glued to a progress bar) belongs to the engine of its index."""
        if key in self._engines:
            return key
        alike = [known for known in self._engines if known[1] == key[1] and not (known[0] and key[0])]
        return alike[0] if alike else key

    def _throughput(self, event: Event, line: Line) -> list[ServingStep]:
        self._run.report.throughput_lines += 1
        steps = self._release()
        key, state = self._state(event)
        if state.pending is not None:
            steps.append(self._emit(key, state, state.pending))
        if (device := event.values.get("device")) and device != "GPU":
            self._run.learn({"device_platform": device.lower()})
        state.pending = _Pair(event, line)
        if self._stands_alone(event.values):
            steps.append(self._emit(key, state, state.pending))
        return steps

    def _stands_alone(self, values: dict[str, Any]) -> bool:
        if values["aggregated"]:
            self._run.learn({"warnings": ("aggregated_engines",)})
            return True
        if values["prompt_tok_s"] == 0 and values["gen_tok_s"] == 0 and values["running"] == 0:
            return True
        if self._mfu_seen:
            return False
        flag = self._run.facts.get("flags", {}).get("enable_mfu_metrics")
        said_off = flag is False or (flag is None and "non-default args: " in self._run.boundaries)
        self._without_mfu += 1
        return said_off or self._without_mfu > _ENOUGH_WITHOUT_MFU

    def _mfu(self, event: Event, line: Line) -> list[ServingStep]:
        self._run.report.mfu_lines += 1
        self._mfu_seen = True
        steps = self._release()
        key, state = self._state(event)
        pair = state.pending or _Pair(None, line)
        pair.mfu, pair.line = event, line
        state.pending = pair
        if self._details_follow(event):
            state.pending, self._held = None, (key, pair)
        else:
            steps.append(self._emit(key, state, pair))
        return steps

    def _details_follow(self, event: Event) -> bool:
        if self._details_come is not None:
            return self._details_come
        assert event.head is not None
        return event.head.file is not None and "/" in event.head.file

    def _details(self, event: Event) -> list[ServingStep]:
        self._details_come = True
        if self._held is None:
            return []
        self._held[1].details.update(event.values)
        return self._release() if "duration" in event.values else []

    def _release(self) -> list[ServingStep]:
        """The pair that waited for its details block, whether the block came or not."""
        if self._held is None:
            return []
        (key, pair), self._held = self._held, None
        if self._details_come is None:
            self._details_come = False
        return [self._emit(key, self._engines[key], pair)]

    def _iteration(self, event: Event) -> None:
        if event.values["dummy"]:
            return
        rank = event.values["rank"] or (event.head.dp if event.head else None) or "0"
        if len(self._iterations) >= _MANY_ENGINES:
            self._iterations.clear()
        seen = self._iterations.setdefault(rank, _Iterations())
        seen.count += 1
        seen.ms += event.values["ms"]
        seen.new_tokens += event.values["new_tokens"]

    def _spec(self, event: Event) -> None:
        assert event.head is not None
        self._run.learn({"speculative": True})
        # the line names no engine: it belongs to the call whose throughput line came last
        waiting = [
            s.pending for (pid, _), s in self._engines.items() if pid == event.head.pid and s.pending is not None
        ]
        for pair in sorted(waiting, key=lambda pair: pair.line.number)[-1:]:
            pair.accept_len = event.values["accept_len"]

    def _emit(self, key: _Key, state: _EngineState, pair: _Pair) -> ServingStep:
        state.pending = None
        at = pair.line.at
        tput = pair.tput.values if pair.tput else {}
        mfu = pair.mfu.values if pair.mfu else {}
        prompt, gen, running = tput.get("prompt_tok_s"), tput.get("gen_tok_s"), tput.get("running")
        tflops, gbps = mfu.get("tflops"), mfu.get("gbps")
        kind = kind_of_rates(prompt, gen, tflops)
        busy = bool(prompt or gen) or bool(tflops or gbps)
        tick = Tick(busy, running, (prompt or 0.0) + (gen or 0.0), kind)
        self._learn_interval(state, at, pair)
        window, verdict = self._judge(state, pair, tick)
        iterations = self._take_iterations(key[1], pair.details)
        state.before, state.last_tick = tick, at or state.last_tick
        if at is not None and (pair.mfu is not None or (busy and self._mfu_seen)):
            # where MFU lines come, a busy tick without one lost it (torn, cut): it was printed all the same
            state.last_mfu, state.idle_since_mfu = at, False
        elif not busy:
            state.idle_since_mfu = True
        self._run.has_steps = True
        return _make_step(
            source=self._run.part,
            run=self._run.index,
            line_no=pair.line.number,
            engine=self._run.engine,
            engine_version=self._run.facts.get("engine_version"),
            rank=key[1],
            kind=kind,
            status=verdict.status,
            status_reason=verdict.reason,
            time=at.iso if at else None,
            year_inferred=at.year_inferred if at else False,
            window_s=window,
            tflops=tflops,
            gbps=gbps,
            dilution=verdict.dilution,
            running=running,
            waiting=tput.get("waiting"),
            prompt_tok_s=prompt,
            gen_tok_s=gen,
            new_tokens=iterations[2],
            kv_usage=tput.get("kv_usage"),
            prefix_hit_rate=tput.get("prefix_hit_rate"),
            accept_len=pair.accept_len,
            iterations=iterations[0],
            iteration_ms=iterations[1],
            raw=pair.line.raw,
        )

    def _learn_interval(self, state: _EngineState, at: Moment | None, pair: _Pair) -> None:
        before = state.before
        if at is None or state.last_tick is None or before is None:
            return
        if before.busy or pair.tput is None:
            state.interval.learn(at.seconds - state.last_tick.seconds, at.fine and state.last_tick.fine)

    def _judge(self, state: _EngineState, pair: _Pair, tick: Tick) -> tuple[float | None, Verdict]:
        """Window and status. The window is one tick, but for the Python front end's MFU lines: theirs runs since the
        last.
        """
        since_last = pair.mfu is not None and not pair.mfu.values["rust"]
        if since_last:
            window = _details_window(self._window(state, pair), pair.details)
        else:
            window = state.interval.seconds
        if not tick.busy:
            return window, Verdict("idle", "nothing ran")
        if pair.mfu is not None and (missing := self._missing_components()):
            return window, Verdict("unsupported", f"the engine does not count {' and '.join(missing)} for this model")
        if since_last:
            return window, self._dilution(state, pair, tick, window)
        if state.last_tick is None and self._run.started:
            return window, Verdict("diluted", _SINCE_START)
        return window, tick_verdict(tick, state.before)

    def _dilution(self, state: _EngineState, pair: _Pair, tick: Tick, window: float | None) -> Verdict:
        if state.last_mfu is None:
            return Verdict("diluted", _SINCE_START if self._run.started else _BEFORE_LOG)
        interval = state.interval.seconds
        factor = window / interval if window and interval else None
        # an idle tick after a busy one is always printed, so with throughput lines a late tick was late, not idle
        if state.idle_since_mfu or (pair.tput is None and factor is not None and factor >= _SKIPPED):
            known = round(factor, 4) if factor is not None and factor > 1 else None
            return Verdict("diluted", "its window holds idle time since the line before", known)
        if pair.tput is None:
            return Verdict()
        return tick_verdict(tick, state.before)

    def _window(self, state: _EngineState, pair: _Pair) -> float | None:
        at = pair.line.at
        if at is None:
            return None
        if state.last_mfu is None:
            started = self._run.started
            span = at.seconds - started.seconds if started else 0.0
            return round(span, 6) if span > 0 else None
        span = at.seconds - state.last_mfu.seconds
        interval = state.interval.seconds
        if span < 0:
            return interval
        if at.fine and state.last_mfu.fine:
            return round(span, 6) or None
        if interval is None:
            return span or None
        if not state.idle_since_mfu and pair.tput is not None:
            return interval if abs(span - interval) <= _STAMP_ERROR_S else span
        return state.interval.ticks_in(span) * interval

    def _missing_components(self) -> list[str]:
        components = self._run.facts.get("components")
        if not components:
            return []
        missing = [] if "attn" in components or "mla_attn" in components else ["attention"]
        return missing if "ffn" in components else [*missing, "the feed-forward layers"]

    def _take_iterations(
        self, rank: str | None, details: dict[str, Any]
    ) -> tuple[int | None, float | None, int | None]:
        seen = self._iterations.pop(rank or "0", None)
        count = details.get("num_batches")
        tokens = details.get("prefill_num_tokens")
        if seen is None:
            return count, None, tokens
        return count or seen.count, round(seen.ms / seen.count, 4), tokens if tokens is not None else seen.new_tokens


def _details_window(window: float | None, details: dict[str, Any]) -> float | None:
    """The printed duration has 0.1 s resolution: where it agrees with the ticks, the ticks are finer."""
    duration = details.get("duration")
    if duration is None or (window is not None and abs(duration - window) <= 0.0501):
        return window
    return float(duration)
