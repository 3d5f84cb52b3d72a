"""What ran in a window, and whether it counts: the rules, as pure functions of a step's own and earlier lines.

A step's status never depends on later lines, so that a live reader and a saved file give the same steps. The price: a
window in which work *ends* is known by its own snapshot (nothing running), one in which work merely pauses is not.
"""

from __future__ import annotations

from typing import NamedTuple

from log_parsers.step import Kind, Status

_DECODE_PROMPT_SHARE = 0.05
_PREFILL_GEN_SHARE = 0.02
_SHORT_REQUESTS_BAND = 0.35
_BATCH_JUMP = 2.0
_BATCH_JUMP_MIN = 4
_RATE_FALL = 2.0


class Verdict(NamedTuple):
    """A status, why, and the dilution factor where it can be computed."""

    status: Status = "steady"
    reason: str | None = None
    dilution: float | None = None


class Tick(NamedTuple):
    """What the next vLLM tick must know of the one before it."""

    busy: bool
    running: int | None
    tok_s: float
    kind: Kind


def kind_of_rates(prompt: float | None, gen: float | None, tflops: float | None) -> Kind:
    """What ran, from the two token rates.

    A generated token never costs less time than a prompt token, so 5 % of prompt tokens beside decode are negligible,
    while generated tokens beside prefill are only below 2 %. Both rates zero with work counted: a prefill that has not
    yielded its first token.
    """
    if prompt is None or gen is None:
        return "unknown"
    if prompt == 0 and gen == 0:
        return "prefill" if tflops else "unknown"
    if prompt <= _DECODE_PROMPT_SHARE * gen:
        return "decode"
    if gen <= _PREFILL_GEN_SHARE * prompt:
        return "prefill"
    return "mixed"


def tick_verdict(now: Tick, before: Tick | None) -> Verdict:
    """Whether work began, ended or changed its nature inside a busy vLLM tick."""
    if now.tok_s == 0:
        return Verdict("partial", "a prefill still running: no token counted yet")
    short = before is not None and before.busy and before.running == 0 and _similar(now.tok_s, before.tok_s)
    if now.running == 0:
        # the count is a snapshot: a steady stream of short requests shows 0 tick after tick
        return Verdict() if short else Verdict("partial", "work ended inside the window")
    if before is None:
        return Verdict()
    if not before.busy or before.running == 0:
        return Verdict("partial", "work began inside the window")
    if {now.kind, before.kind} == {"decode", "prefill"}:
        return Verdict("partial", f"work changed from {before.kind} to {now.kind} inside the window")
    if now.kind in ("decode", "mixed") and _jumped(now.running, before.running):
        return Verdict("partial", f"batch went from {before.running} to {now.running} inside the window")
    if now.kind == before.kind == "decode" and _fell(now, before):
        return Verdict("partial", "far fewer tokens a request than in the window before: idle time inside")
    return Verdict()


def _fell(now: Tick, before: Tick) -> bool:
    """A request's decode rate changes slowly with batch and context: half of it gone is time without work."""
    if not now.running or not before.running:
        return False
    return now.tok_s / now.running < before.tok_s / before.running / _RATE_FALL


def _similar(a: float, b: float) -> bool:
    return abs(a - b) <= _SHORT_REQUESTS_BAND * max(a, b)


def _jumped(a: int | None, b: int | None) -> bool:
    if not a or not b or max(a, b) < _BATCH_JUMP_MIN:
        return False
    return max(a, b) >= _BATCH_JUMP * min(a, b)
