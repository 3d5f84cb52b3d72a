"""Captured runs under the reference profile, and what their clients really sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

import pytest

import log_parsers
from roofline_probe import profile_file
from roofline_probe.analysis import Analysis, analyse
from roofline_probe.point import Point
from roofline_probe.profile import Profile

ROOT = Path(__file__).parents[2]
LOGS = ROOT / "fixtures" / "logs"

# Llama-3-8B by hand, not by the code under test: FLOP per token of the projections, per attended token pair, per
# generated token's logits; bytes of one decode step's weights and of one cached token.
LINEAR = 2 * 6_979_321_856
PAIR = 4 * 32 * 128 * 32
HEAD = 2 * 525_336_576
WEIGHTS = 15.009e9
KV = 131_072


@dataclass(frozen=True)
class Phase:
    """What the client sent between two times."""

    kind: str
    name: str
    start: datetime
    end: datetime
    flops: float
    bytes: float | None
    """Known for lock-step decode only: what prefill reads depends on how it was chunked."""


@dataclass(frozen=True)
class Capture:
    """One captured run, analysed, beside the client's account of it."""

    analysis: Analysis
    phases: tuple[Phase, ...]

    def phase(self, name: str) -> Phase:
        return next(phase for phase in self.phases if phase.name == name)

    def points_in(self, phase: Phase, slack_s: float) -> list[Point]:
        """Points stamped from the phase's first second until ``slack_s`` after its end (a tick ends after its work)."""
        first = phase.start.replace(microsecond=0)
        last = phase.end + timedelta(seconds=slack_s)
        return [p for p in self.analysis.points if first <= datetime.fromisoformat(p.step.time or "") <= last]

    def points_wholly_in(self, phase: Phase) -> list[Point]:
        return [
            p
            for p in self.points_in(phase, 0)
            if datetime.fromisoformat(p.step.time or "") - timedelta(seconds=p.step.window_s or 0) >= phase.start
        ]

    def true_flops(self) -> float:
        """Of every phase; cache hits are left out, whose context the client did not split into cached and computed."""
        return sum(phase.flops for phase in self.phases if phase.kind != "hit")


def work(points: list[Point], rate: Callable[[Point], float | None]) -> float:
    """Sum of rate x window."""
    return sum((rate(p) or 0.0) * (p.step.window_s or 0.0) for p in points)


def _phase(sent: dict[str, object], gpus: int) -> Phase:
    number = {key: value for key, value in sent.items() if isinstance(value, (int, float))}
    computed = number["prompt_tokens"] - number["cached_tokens"] + number["completion_tokens"] - number["requests"]
    pairs = number["prefill_ctx_sum"] + number["decode_ctx_sum"]
    moved = number["max_tokens"] * WEIGHTS + number["decode_ctx_sum"] * KV if sent["kind"] == "dec" else None
    return Phase(
        kind=str(sent["kind"]),
        name=str(sent["name"]),
        start=datetime.fromisoformat(str(sent["start_local"])),
        end=datetime.fromisoformat(str(sent["end_local"])),
        flops=(LINEAR * computed + PAIR * pairs + HEAD * number["completion_tokens"]) / gpus,
        bytes=moved / gpus if moved is not None else None,
    )


_PROFILES = {
    "reference": ROOT / "fixtures" / "profiles" / "h200-reference.json",
    "shipped": ROOT / "roofline_probe" / "profiles" / "h200.json",
}


@cache
def _profile(which: str) -> Profile:
    return profile_file.decode(_PROFILES[which].read_bytes(), which)


@cache
def _capture(name: str, which: str = "reference") -> Capture:
    path = LOGS / f"{name}.log"
    analysis = analyse(log_parsers.parse(str(path)), _profile(which), keep_points=True)
    sent = json.loads(path.with_suffix(".phases.json").read_text(encoding="utf-8"))
    gpus = 2 if "tp2" in name else 1
    return Capture(analysis, tuple(_phase(s, gpus) for s in sent if s["kind"] != "idle"))


@pytest.fixture(scope="session")
def reference() -> Profile:
    """The H200 that the captures are judged under."""
    return _profile("reference")


@pytest.fixture(scope="session")
def capture() -> Callable[..., Capture]:
    """Analyse a captured log once per session: ``capture("vllm/0.24.0-h200-graph-1s")``, or under ``"shipped"``."""
    return _capture


@pytest.fixture(scope="session")
def total() -> Callable[[list[Point], Callable[[Point], float | None]], float]:
    """Sum of rate x window over points."""
    return work


@pytest.fixture(scope="session")
def logs() -> Path:
    """The folder of captured logs."""
    return LOGS
