"""The shortcuts for the most common lines change nothing but the time it takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import log_parsers
from log_parsers import wrappers
from log_parsers.engines import sglang, vllm

LOGS = sorted((Path(__file__).parents[2] / "fixtures/logs").glob("*/*.log"))
NEVER = re.compile(r"(?!)")


@pytest.mark.parametrize("path", LOGS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_steps_facts_and_counts_are_those_of_the_general_forms(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = log_parsers.parse(path)
    steps = list(short)
    monkeypatch.setattr(vllm, "_USUAL_MFU", NEVER)
    monkeypatch.setattr(vllm, "_USUAL_THROUGHPUT", NEVER)
    monkeypatch.setattr(sglang, "_USUAL_DECODE", NEVER)
    monkeypatch.setattr(sglang, "_USUAL_PREFILL", NEVER)
    monkeypatch.setattr(wrappers, "_CLOCK", NEVER)
    monkeypatch.setattr(wrappers, "_DATED", NEVER)
    general = log_parsers.parse(path)
    assert list(general) == steps
    assert general.facts == short.facts
    assert general.report == short.report


def test_heads_remembered_by_their_frame_stay_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrappers, "_heads", {})
    for number in range(5000):
        text = f"2026-03-01T12:00:00.{number:09d}Z (APIServer pid=1) INFO 03-01 12:00:00 [perf.py:1] "
        assert wrappers.head_of(wrappers.Bare(text), len(text)) is not None
    assert len(wrappers._heads) <= 2001
