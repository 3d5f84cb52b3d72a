"""The law against real servers: each regime predicted by a law that has not seen it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from roofline_probe import store
from roofline_probe.comparison import compare
from roofline_probe.errors import NothingUsable
from roofline_probe.plan.answer import judged, plan_from_log, plan_without_log
from roofline_probe.plan.evidence import Collector, Evidence, examine
from roofline_probe.plan.law import errors_of
from roofline_probe.report.chart import plan_figure
from roofline_probe.report.console import make_console
from roofline_probe.report.plan_view import plan_sentences, print_plan
from roofline_probe.workloads import MODELS

FIXTURES = Path(__file__).parents[3] / "fixtures"
PROFILE = FIXTURES / "profiles" / "h200-reference.json"
GRAPH_1S = FIXTURES / "logs/vllm/0.24.0-h200-graph-1s.log"
STEADY_10S = FIXTURES / "logs/vllm/0.24.0-h200-steady-10s.log"
TP2_2S = FIXTURES / "logs/vllm/0.24.0-h200-tp2-2s.log"
SGLANG = FIXTURES / "logs/sglang/0.5.16-h200.log"


def collect(log: Path) -> tuple[Collector, Evidence]:
    collected = Collector()
    result = compare(log, PROFILE, keep_points=False, sink=collected.add)
    return collected, examine(result.analysis.live.runs, collected)


def test_every_regime_of_the_vllm_capture_is_predicted_within_five_percent() -> None:
    _, evidence = collect(GRAPH_1S)
    error = judged(evidence)
    assert len(error.regimes) >= 9
    assert error.windows >= 70
    assert error.worst_window <= 0.05


def test_another_run_at_another_interval_is_predicted_within_five_percent() -> None:
    _, evidence = collect(GRAPH_1S)
    other = Collector()
    compare(STEADY_10S, PROFILE, keep_points=False, sink=other.add)
    assert other.decode, "the 10 s capture decodes at batch 64, which the 1 s capture never does"
    assert {round(o.batch) for o in other.decode}.isdisjoint({round(o.batch) for o in evidence.observations})
    assert max(abs(e) for e in errors_of(evidence.law, other.decode)) <= 0.05


def test_sglang_regimes_are_predicted_within_five_percent_on_average() -> None:
    # Its Triton attention changes its split as context grows, which no smooth law follows: single regimes are further
    # off, and the plan prints by how much.
    _, evidence = collect(SGLANG)
    error = judged(evidence)
    assert error.typical <= 0.05
    assert error.worst_regime <= 0.10


def test_one_batch_cannot_carry_a_plan() -> None:
    with pytest.raises(NothingUsable, match=r"batch 64 only.*1, 16 and 128 concurrent requests"):
        collect(STEADY_10S)


def test_a_ceiling_of_another_parallelism_is_refused_with_the_command_that_measures_it() -> None:
    with pytest.raises(NothingUsable, match=r"probe measure --model llama-3.1-8b --dtype bf16 --tp 2"):
        collect(TP2_2S)


def test_regimes_of_two_windows_each_are_accidents_and_the_sentence_counts_them() -> None:
    collected = Collector()
    result = compare(TP2_2S, "h200", keep_points=False, sink=collected.add)
    with pytest.raises(NothingUsable, match=r"at batch 1, 32, 256 only, in 8 windows.*with 3 windows each"):
        examine(result.analysis.live.runs, collected)


def test_logs_of_two_engines_are_refused() -> None:
    collected = Collector()
    runs = [
        run
        for log in (GRAPH_1S, SGLANG)
        for run in compare(log, PROFILE, keep_points=False, sink=collected.add).analysis.live.runs
    ]
    with pytest.raises(NothingUsable, match="different engines"):
        examine(runs, collected)


def test_the_batch_that_meets_an_slo_meets_it_and_the_next_one_does_not() -> None:
    _, evidence = collect(GRAPH_1S)
    plan = plan_from_log(evidence, None, 1000, tpot_ms=10.0)
    assert plan.slo is not None
    assert plan.slo.step is not None
    assert plan.slo.step.step_ms <= 10.0 < plan.model.step(plan.slo.batch + 1, 1000).step_ms
    assert plan.slo.kv_batch == 840_016 // 1000
    assert plan.slo.unlimited is not None
    assert plan.slo.unlimited.batch == 256, "its own --max-num-seqs, not the 840 that the KV cache would hold"
    assert not plan.extrapolated(plan.slo.unlimited)
    assert plan.slo.unlimited.tok_s > plan.slo.step.tok_s
    chunks = [batch for _, batch in plan.slo.mixed]
    assert chunks == sorted(chunks, reverse=True), "more prompt tokens in a step leave room for fewer sequences"


def test_an_slo_beyond_the_servers_own_limit_stops_at_that_limit() -> None:
    _, evidence = collect(GRAPH_1S)
    plan = plan_from_log(evidence, None, 1000, tpot_ms=30.0)
    assert plan.slo is not None
    assert plan.slo.batch > 400
    assert plan.slo.admitted == 256
    said = plan_sentences(plan)
    assert "(extrapolated)" in said[0]
    assert said[1] == "The server's own limit binds first: 256 requests (--max-num-seqs)."
    assert all(batch <= 256 for _, batch in plan.slo.mixed)


def test_every_cell_outside_what_the_log_shows_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    _, evidence = collect(GRAPH_1S)
    plan = plan_from_log(evidence, 512, 1000, None)
    print_plan(plan, make_console(width=100))
    shown = capsys.readouterr().out
    rows = {line.split()[0]: line.split() for line in shown.splitlines() if line.startswith("  ") and "(" in line}
    assert rows["512"][1].startswith("~")
    assert rows["256"][1].startswith("11."), "the largest batch that the log shows is no extrapolation"
    assert rows["1"][-2].startswith("~"), "16,384 tokens are more than the log shows"
    assert rows["128"][5].startswith("~"), "each is in the log, but no step read as much KV as both together"
    assert "~ extrapolated: the log shows batch 1 to 256" in shown
    assert "takes ~" in " ".join(shown.split())


def test_the_model_has_the_name_that_compare_gives_it(capsys: pytest.CaptureFixture[str]) -> None:
    _, evidence = collect(GRAPH_1S)
    print_plan(plan_from_log(evidence, 8, None, None), make_console(width=120))
    assert "vllm 0.24.0 · Meta-Llama-3-8B-Instruct · bf16" in capsys.readouterr().out


def test_a_measured_regime_is_given_back_by_the_plan() -> None:
    collected, evidence = collect(GRAPH_1S)
    plan = plan_from_log(evidence, 32, 4400, None)
    measured = [o.step_ms for o in collected.decode if round(o.batch) == 32 and o.context > 4200]
    assert plan.step is not None
    assert plan.step.step_ms == pytest.approx(sum(measured) / len(measured), rel=0.03)
    assert plan.step.step_ms == pytest.approx(
        plan.step.gemm_ms + plan.step.kv_ms + plan.step.link_ms + plan.step.engine_ms
    )
    assert plan.caveats == ()


def test_what_lies_outside_the_log_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    _, evidence = collect(GRAPH_1S)
    plan = plan_from_log(evidence, 512, 1000, None)
    assert set(plan.caveats) == {"batch_outside_log", "kv_outside_log", "above_max_running"}
    print_plan(plan, make_console(width=200))
    shown = " ".join(capsys.readouterr().out.split())
    assert "The batch and the KV that a step reads (batch times context) lie outside what the log shows: " in shown
    assert shown.count("is extrapolated there") == 1


def test_of_what_does_not_fit_nothing_is_said_to_be_extrapolated() -> None:
    _, evidence = collect(GRAPH_1S)
    assert set(plan_from_log(evidence, 2000, 32_000, None).caveats) == {"kv_cache_too_small", "above_max_running"}


def test_a_batch_beside_prompts_is_told_once_however_many_chunks_it_carries() -> None:
    _, evidence = collect(GRAPH_1S)
    (said,) = [s for s in plan_sentences(plan_from_log(evidence, None, 1000, 100.0)) if "also prefill" in s]
    assert "up to batch 256 beside 128, 512 and 2,048 prompt tokens; --max-num" in said
    guessed = plan_sentences(plan_from_log(evidence, None, 4000, 25.0))
    (said,) = [s for s in guessed if "also prefill" in s]
    assert re.search(r"up to batch ~\d+ beside 128 and \d+ beside 512 prompt tokens \(~ extrapolated\)", said)


@pytest.mark.parametrize("log", [True, False], ids=["of-a-log", "bound"])
def test_the_picture_names_the_model_as_the_report_does(log: bool) -> None:
    if log:
        plan = plan_from_log(collect(GRAPH_1S)[1], 8, None, None)
    else:
        plan = plan_without_log(store.load("h200")[0], MODELS["llama-3.1-8b"], "bf16", 1, 8, 1000, None)
    assert plan_figure(plan).title.startswith("Meta-Llama-3-8B-Instruct on " if log else "llama-3.1-8b on ")
