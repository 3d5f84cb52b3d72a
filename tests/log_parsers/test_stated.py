"""What all runs have stated: found by its run, replaced in its place, and in time that does not grow with the runs."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

import log_parsers
from log_parsers import LogFacts, LogStream, ServingStep, reading
from log_parsers.stated import Stated

STEP = ServingStep(
    source="a.log", run=0, line_no=1, engine="vllm", engine_version=None, rank="0", kind="decode", status="steady"
)
SAID = LogFacts(source="a.log", run=0, engine="vllm", model="Meta-Llama-3-8B")
SILENT = LogFacts(source="a.log", run=0, engine="vllm")
RECORD = (
    "[ns/pod{0}] INFO 11-29 10:00:0{1} [loggers.py:273] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg "
    "generation throughput: 203.8 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.1%\n"
    "[ns/pod{0}] INFO 11-29 10:00:0{1} [perf.py:1532] Engine 000: MFU: 3.1 TF/s/GPU 3082.3 GB/s/GPU\n"
)
BANNER = "[ns/pod{0}] INFO 11-29 10:00:00 [api_utils.py:273] non-default args: {{'model': '{1}'}}\n"
CACHE = "[ns/pod{0}] INFO 11-29 10:00:0{1} [kv_cache_utils.py:1319] GPU KV cache size: 812,976 tokens\n"


def stated(*entries: LogFacts) -> Stated:
    made = Stated()
    for run, facts in enumerate(entries):
        made.put(run, facts)
    return made


def test_a_step_has_the_facts_of_its_own_run() -> None:
    other = replace(SAID, run=1, model="Qwen3-8B")
    assert stated(SAID, other).of(STEP) is SAID
    assert stated(SAID, other).of(replace(STEP, run=1)) is other


def test_a_log_without_a_banner_inherits_the_facts_before_it() -> None:
    known = stated(SAID)
    known.begin()
    assert known.of(STEP) is SAID
    known.put(0, replace(SILENT, source="b.log", run=0))
    assert known.of(replace(STEP, source="b.log")) is SAID
    assert stated(SILENT).of(STEP) is SILENT
    assert Stated().of(STEP) is None


def test_it_does_not_inherit_from_another_engine() -> None:
    known = stated(SILENT, replace(SAID, run=1, engine="sglang"))
    assert known.of(STEP) is SILENT


def test_what_is_stated_late_takes_its_place_and_is_inherited_in_order_of_appearance() -> None:
    known = stated(SILENT, replace(SAID, run=1, model="later"))
    known.put(0, SAID)
    assert known.entries[0] is known.of(STEP) is SAID
    assert known.of(replace(STEP, run=7)) is known.entries[1]


def test_the_same_statement_again_is_no_change() -> None:
    known = stated(SAID, SILENT)
    assert list(known.take_changes()) == [0, 1]
    known.put(0, replace(SAID))
    assert known.entries[0] is SAID
    assert known.take_changes() == {}


def test_runs_of_one_log_keep_their_own_facts_in_every_rotated_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two pods in one collector's log that was rotated while both went on."""
    models = "".join(BANNER.format(pod, model) for pod, model in enumerate(("small", "large")))
    (tmp_path / "pods.log.1").write_text(models + RECORD.format(0, 1) + RECORD.format(1, 1))
    (tmp_path / "pods.log").write_text(RECORD.format(0, 2) + RECORD.format(1, 2))
    for size in (1 << 30, 1):  # read here, and in a process of its own
        monkeypatch.setattr(reading, "_WORTH_A_PROCESS", size)
        log = log_parsers.parse(tmp_path)
        seen = {(step.source, step.run, facts.model) for step in log if (facts := log.facts_of(step))}
        parts = [str(tmp_path / name) for name in ("pods.log.1", "pods.log")]
        assert seen == {(part, run, model) for part in parts for run, model in enumerate(("small", "large"))}


def test_two_logs_of_one_name_are_told_apart_by_order() -> None:
    log = log_parsers.parse(io.BytesIO(RECORD.format(1, 1).encode()), io.BytesIO(RECORD.format(2, 1).encode()))
    assert [log.facts_of(step) is log.facts[-1] for step in log] == [True, True]
    assert len(log.facts) == 2


def test_a_streams_facts_are_those_before_the_step_and_after_a_piece_all_of_it() -> None:
    stream = LogStream("log")
    text = RECORD.format(1, 1) + CACHE.format(1, 2) + RECORD.format(1, 3) + CACHE.format(2, 4)
    seen = [facts.kv_cache_tokens for step in stream.read(text.encode()) if (facts := stream.stated.of(step))]
    assert seen == [None, 812_976]
    assert [facts.kv_cache_tokens for facts in stream.all_facts] == [812_976, 812_976]


def test_looking_at_a_step_asks_no_other_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Counted, not timed: what is taken anew grows with the runs, not with their square."""
    taken = []
    take = log_parsers.run.Run._take  # type: ignore[attr-defined]
    monkeypatch.setattr("log_parsers.run.Run._take", lambda run: (taken.append(run.index), take(run))[1])
    compared = []
    monkeypatch.setattr(LogFacts, "__eq__", lambda one, two: (compared.append(one), False)[1])
    path = tmp_path / "pods.log"
    path.write_text("".join(RECORD.format(pod, second) for second in (1, 2, 3) for pod in range(300)))
    log = log_parsers.parse(path)
    assert len([log.facts_of(step) for step in log]) == 900
    assert len(taken) <= 300
    assert len(compared) <= 300
