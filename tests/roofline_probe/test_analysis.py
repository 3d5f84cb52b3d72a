"""The one entry point: live equals saved, facts that grow, several runs, selections that keep their state."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

import log_parsers
from log_parsers.step import LogFacts, ServingStep
from roofline_probe.analysis import LiveAnalysis, Options, RunContext, analyse, steps_with_facts
from roofline_probe.errors import NoRoof
from roofline_probe.profile import Profile
from roofline_probe.select import selection

LOGS = ["vllm/0.24.0-h200-graph-1s", "vllm/0.24.0-h200-tp2-2s", "sglang/0.5.16-h200", "vllm/0.32.0-cpu-dp2"]


@pytest.mark.parametrize("name", LOGS)
def test_a_log_read_live_ends_with_the_same_summary(logs: Path, reference: Profile, name: str) -> None:
    path = str(logs / f"{name}.log")
    saved = analyse(log_parsers.parse(path), reference)
    live, stream = LiveAnalysis(reference), log_parsers.LogStream(path)
    text = Path(path).read_bytes()
    for start in range(0, len(text), 997):
        for step in stream.feed(text[start : start + 997]):
            live.feed(step, stream.stated.of(step))
    for step in stream.close():
        live.feed(step, stream.stated.of(step))
    assert asdict(live.summary()) == asdict(saved.summary)
    assert live.findings() == saved.findings


def test_points_are_kept_or_streamed_only_when_asked_for(logs: Path, reference: Profile) -> None:
    path = str(logs / f"{LOGS[0]}.log")
    assert analyse(log_parsers.parse(path), reference).points == []
    seen: list[object] = []
    kept = analyse(log_parsers.parse(path), reference, keep_points=True, sink=seen.append)
    assert kept.points == seen
    assert len(seen) == kept.report.steps


def test_no_roof_at_all_is_refused_at_the_first_step(logs: Path) -> None:
    with pytest.raises(NoRoof):
        analyse(log_parsers.parse(str(logs / f"{LOGS[0]}.log")))


def test_given_figures_are_a_roof(logs: Path) -> None:
    options = Options(pi_tflops=700.0, beta_gbps=4500.0)
    analysis = analyse(log_parsers.parse(str(logs / f"{LOGS[0]}.log")), None, options)
    assert analysis.roof is not None
    assert analysis.roof.origin == "given"
    assert all(row.estimated for row in analysis.summary.kinds if row.gemm_ms is not None)


@pytest.mark.parametrize(
    ("where", "batches"),
    [("batch>=128 and kind==decode", {128, 256}), ("batch==1", {1}), ("kind==decode and context>4000", {32})],
)
def test_where_selects_points(logs: Path, reference: Profile, where: str, batches: set[int]) -> None:
    options = Options(selection=selection(where=where))
    analysis = analyse(log_parsers.parse(str(logs / f"{LOGS[0]}.log")), reference, options, keep_points=True)
    assert {p.batch for p in analysis.points if p.step.status == "steady"} == batches


def test_a_selection_in_time_does_not_change_the_figures_inside_it(
    capture: Callable, logs: Path, reference: Profile
) -> None:
    """The first window after ``--since`` still averages over the snapshot before it."""
    options = Options(selection=selection(since="14:26:20", until="14:26:30"))
    cut = analyse(log_parsers.parse(str(logs / f"{LOGS[0]}.log")), reference, options, keep_points=True).points
    whole = [p for p in capture(LOGS[0]).analysis.points if "14:26:20" <= p.step.time[11:] <= "14:26:30"]
    assert cut == whole
    assert len(cut) == 11


def test_the_users_model_replaces_the_logs(logs: Path, reference: Profile) -> None:
    from roofline_probe.workloads import MODELS

    options = Options(model=MODELS["qwen3-8b"])
    analysis = analyse(log_parsers.parse(str(logs / f"{LOGS[0]}.log")), reference, options)
    assert analysis.shard is not None
    assert (analysis.shard.name, analysis.shard.source) == ("qwen3-8b", "flag")


def test_a_restart_with_another_model_is_another_run(logs: Path, reference: Profile, tmp_path: Path) -> None:
    first = (logs / "vllm/0.24.0-h200-steady-10s.log").read_text(encoding="utf-8")
    second = (logs / "vllm/0.24.0-h200-tp2-2s.log").read_text(encoding="utf-8")
    (tmp_path / "restarted.log").write_text(first + second, encoding="utf-8")
    analysis = analyse(log_parsers.parse(str(tmp_path / "restarted.log")), reference)
    assert [run.shard.tp for run in analysis.live.runs if run.shard] == [1, 2]


def test_facts_learned_late_replace_the_runs_context(reference: Profile) -> None:
    step = ServingStep(
        source="-", run=0, line_no=1, engine="vllm", engine_version=None, rank="0", kind="decode", status="steady",
        window_s=1.0, prompt_tok_s=0.0, gen_tok_s=1000.0, running=8, kv_usage=0.1,
    )  # fmt: skip
    live = LiveAnalysis(reference)
    assert live.feed(step, LogFacts(engine="vllm")).basis is None
    later = live.feed(
        replace(step, line_no=2), LogFacts(engine="vllm", model="Meta-Llama-3-8B", kv_cache_tokens=800_000)
    )
    assert later.basis == "recounted"
    assert len(live.runs) == 1


def test_a_cache_size_learned_late_is_used_and_the_snapshot_kept(reference: Profile) -> None:
    step = ServingStep(
        source="-", run=0, line_no=1, engine="vllm", engine_version=None, rank="0", kind="decode", status="steady",
        window_s=1.0, prompt_tok_s=0.0, gen_tok_s=800.0, running=8, kv_usage=0.1,
    )  # fmt: skip
    facts = LogFacts(engine="vllm", model="Meta-Llama-3-8B")
    live = LiveAnalysis(reference)
    assert live.feed(step, facts).context is None
    later = replace(facts, kv_cache_tokens=800_000)
    live.feed(replace(step, line_no=2), later)
    third = live.feed(replace(step, line_no=3, kv_usage=0.101), later)
    assert third.context == pytest.approx(0.1005 * 800_000 / 8, rel=0.01)


def test_facts_learned_late_find_their_run_among_many_without_looking_through_them(
    reference: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted, not timed: a cluster's log has tens of thousands of runs."""
    step = ServingStep(
        source="-", run=0, line_no=1, engine="vllm", engine_version=None, rank="0", kind="decode", status="steady"
    )
    live = LiveAnalysis(reference)
    for run in range(50):
        live.feed(replace(step, run=run), LogFacts(run=run, engine="vllm"))
    monkeypatch.setattr(RunContext, "__eq__", lambda one, other: pytest.fail("runs are compared"))
    for run in range(50):
        live.feed(replace(step, run=run), LogFacts(run=run, engine="vllm", max_model_len=run))
    assert [context.facts.max_model_len for context in live.runs] == list(range(50))


def test_a_fit_survives_facts_that_add_nothing_to_it(reference: Profile, logs: Path) -> None:
    parsed = log_parsers.parse(str(logs / "sglang/0.5.16-h200.log"))
    live, points = LiveAnalysis(reference), []
    for number, step in enumerate(parsed):
        facts = replace(parsed.facts_of(step), model="/models/unheard-of", warnings=(str(number // 50),))
        points.append(live.feed(step, facts))
    judged = [p for p in points if p.step.kind == "decode" and p.step.status == "steady"]
    assert sum(p.recounted_gbps is None for p in judged) < 20


def test_two_engines_of_one_server_keep_their_snapshots_apart(logs: Path, reference: Profile) -> None:
    path = str(logs / "vllm/0.32.0-cpu-dp2.log")
    both = analyse(log_parsers.parse(path), reference, keep_points=True).points
    for rank in ("0", "1"):
        live = LiveAnalysis(reference)
        alone = [live.feed(s, f) for s, f in steps_with_facts(log_parsers.parse(path)) if s.rank == rank]
        assert [p.recounted_gbps for p in alone] == [p.recounted_gbps for p in both if p.step.rank == rank]


def test_health_probes_are_in_no_figure(capture: Callable) -> None:
    """8 of the hard cases: each /health call runs a one-token prefill and logs it."""
    analysis = capture("sglang/0.5.16-h200").analysis
    assert analysis.summary.excluded["noise"] > 40
    assert all(p.basis is None for p in analysis.points if p.step.status == "noise")


def test_figures_are_plain_numbers(capture: Callable) -> None:
    for name in LOGS[:3]:
        json.dumps(asdict(capture(name).analysis.summary), allow_nan=False)


def test_reading_logs_needs_neither_torch_nor_numpy_nor_pandas() -> None:
    import subprocess
    import sys

    code = (
        "import sys, roofline_probe.analysis, log_parsers; "
        "print(sorted({'torch', 'numpy', 'pandas', 'rich'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
