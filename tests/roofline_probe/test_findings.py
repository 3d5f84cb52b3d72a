"""What the figures mean: findings of the captures, checked against arithmetic done here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import log_parsers
import roofline_probe
from log_parsers.step import LogFacts, ServingStep
from roofline_probe.advice import batch_limits, t_star_of
from roofline_probe.analysis import LiveAnalysis, Options, analyse
from roofline_probe.diagnose import Finding
from roofline_probe.profile import Profile
from roofline_probe.workloads import MODELS

GRAPH, STEADY, SGLANG = "vllm/0.24.0-h200-graph-1s", "vllm/0.24.0-h200-steady-10s", "sglang/0.5.16-h200"


def of(findings: tuple[Finding, ...], code: str, **where: object) -> Finding:
    return next(f for f in findings if f.code == code and all(f.numbers.get(k) == v for k, v in where.items()))


def codes(findings: tuple[Finding, ...]) -> set[str]:
    return {f.code for f in findings}


@pytest.mark.parametrize(
    ("name", "kind", "bound", "of_what"),
    [
        (GRAPH, "decode", "memory", "read beta"),
        (GRAPH, "prefill", "compute", "sustained pi"),
        (STEADY, "mixed", "compute", "sustained pi"),
        (SGLANG, "decode", "memory", "read beta"),
    ],
)
def test_headline_names_bound_and_denominator(
    capture: Callable, name: str, kind: str, bound: str, of_what: str
) -> None:
    analysis = capture(name).analysis
    found = of(analysis.findings, "bound", kind=kind)
    row = next(r for r in analysis.summary.kinds if r.kind == kind)
    assert found.weight == "headline"
    assert (found.numbers["bound"], found.numbers["of"]) == (bound, of_what)
    assert found.numbers["roof_fraction"] == row.roof_fraction
    assert found.numbers["attained"] == row.attained_fraction


def test_removing_all_engine_time_buys_the_step_over_its_kernels(capture: Callable) -> None:
    analysis = capture(STEADY).analysis
    parts, gain = of(analysis.findings, "parts"), of(analysis.findings, "no_overhead")
    step, rest = parts.numbers["step_ms"], parts.numbers["rest_ms"]
    assert gain.numbers["speedup"] == pytest.approx(step / (step - rest))
    assert 1.05 < gain.numbers["speedup"] < 1.2


def test_two_cards_say_the_links_share_of_a_step(capture: Callable) -> None:
    analysis = capture("vllm/0.24.0-h200-tp2-2s").analysis
    found, parts = of(analysis.findings, "link_share").numbers, of(analysis.findings, "parts").numbers
    assert found["share"] == pytest.approx(parts["link_ms"] / parts["step_ms"])
    assert found["lower_bound"] == 1
    assert "link_share" not in codes(capture(STEADY).analysis.findings)


def test_rows_missing_to_the_ridge(capture: Callable) -> None:
    """Ridge 683e12 / 4.58e12, as decode reads; T* of Llama's four projections together, by the formula."""
    ridge = 683e12 / 4.58e12
    shapes = [(4096, 6144), (4096, 4096), (4096, 28672), (14336, 4096)]
    weights = sum(k * n for k, n in shapes)
    t_star = 2 * ridge * weights / (2 * weights - ridge * sum(2 * k + 2 * n for k, n in shapes))
    found = of(capture(STEADY).analysis.findings, "to_ridge")
    assert found.numbers["ridge"] == pytest.approx(ridge)
    assert found.numbers["t_star"] == pytest.approx(t_star)
    assert found.numbers["missing"] == pytest.approx(t_star - 64)


def test_a_batch_beyond_the_ridge_misses_nothing(capture: Callable) -> None:
    assert of(capture(GRAPH).analysis.findings, "to_ridge").numbers["missing"] == 0


def test_twice_the_batch_with_its_predicted_ceiling(capture: Callable) -> None:
    analysis = capture(STEADY).analysis
    found = of(analysis.findings, "batch_helps").numbers
    row = next(r for r in analysis.summary.bins if r.kind == "decode")
    kernels, more = row.step_ms - row.rest_ms, analysis.ceiling.floor_ms(128, row.context_mean)
    assert found["to_batch"] == 128
    assert found["tok_s_ceiling_now"] == pytest.approx(64e3 / kernels, rel=1e-3)
    assert found["tok_s_ceiling"] == pytest.approx(128e3 / more, rel=0.01)
    assert found["gain"] == pytest.approx(found["tok_s_ceiling"] / found["tok_s_ceiling_now"] - 1)


def test_prompt_tokens_ride_free_where_weights_are_streamed_anyway(capture: Callable) -> None:
    analysis = capture(STEADY).analysis
    found = of(analysis.findings, "prefill_rides_free").numbers
    together = analysis.ceiling.gemm_ms(found["rows"] + found["free_rows"])
    assert together <= 1.1 * found["step_ms"]
    assert found["free_rows"] > 32


def test_8_bit_weights_by_the_profiles_own_fp8_ceiling(capture: Callable, reference: Profile) -> None:
    found = of(capture(STEADY).analysis.findings, "weights_8bit_help").numbers
    measured = {p.m: p.ms for c in reference.ceilings if c.dtype == "fp8" for p in c.points}
    saved = found["step_ms_ceiling_now"] - found["step_ms_ceiling"]
    assert found["measured"] == 1
    bf16_at_64 = 4.2492 + (4.9376 - 4.2492) / 3
    assert saved == pytest.approx(bf16_at_64 - (measured[32] + (measured[128] - measured[32]) / 3), abs=0.01)


def test_the_bound_of_estimated_gemms_is_that_of_the_estimate(reference: Profile) -> None:
    """One bandwidth for T*, for the table's GEMM time and for how many prompt tokens ride along."""
    live = LiveAnalysis(reference, Options(model=MODELS["qwen3-8b"]))
    for step in ticks(3, running=64, gen_tok_s=4000.0, kv_usage=0.1):
        live.feed(step, FACTS)
    run = live.runs[-1]
    assert run.ceiling is not None
    assert run.ceiling.estimated
    rows = t_star_of(run)[0]
    flat, at, above = (run.ceiling.gemm_ms(n) for n in (1, rows, rows * 1.1))
    assert flat == pytest.approx(at)
    assert above == pytest.approx(at * 1.1)


def test_8_bits_are_a_quarter_of_32(reference: Profile) -> None:
    given = Options(model=MODELS["llama-3.1-8b"], pi_tflops=700.0, beta_gbps=4400.0)
    live = LiveAnalysis(None, given)
    for step in ticks(3, running=32, gen_tok_s=1000.0, kv_usage=0.9):
        live.feed(step, replace(FACTS, dtype="fp32"))
    run, found = live.runs[-1], live.findings()
    weights, kv = of(found, "weights_8bit_help").numbers, of(found, "kv_8bit_helps").numbers
    assert (weights["of_bytes"], kv["of_bytes"]) == (0.25, 0.25)
    assert weights["step_ms_ceiling_now"] - weights["step_ms_ceiling"] == pytest.approx(
        0.75 * run.shard.dense_weight_bytes / 4400e6
    )
    assert kv["step_ms_ceiling_now"] - kv["step_ms_ceiling"] == pytest.approx(0.75 * kv["kv_ms"])


def test_prefill_over_two_cards_counts_the_link_that_no_arithmetic_removes(capture: Callable) -> None:
    analysis = capture("vllm/0.24.0-h200-tp2-2s", "shipped").analysis
    row = max((r for r in analysis.summary.bins if r.kind == "prefill"), key=lambda r: r.seconds)
    found = of(analysis.findings, "prefill_at_limit").numbers
    assert found["link_share"] == row.link_ms / row.step_ms > 0.1
    assert found["fraction"] < 0.85 < found["fraction"] + found["link_share"]
    assert 1 < found["fp8_gain"] < 1250 / 683


def test_8_bit_kv_saves_half_the_reads(capture: Callable) -> None:
    found = of(capture(STEADY).analysis.findings, "kv_8bit_helps").numbers
    assert found["step_ms_ceiling_now"] - found["step_ms_ceiling"] == pytest.approx(found["kv_ms"] / 2)


@pytest.mark.parametrize("code", ["weights_8bit_help", "kv_8bit_helps"])
def test_8_bit_advice_starts_from_the_parts_that_the_table_shows(capture: Callable, code: str) -> None:
    analysis = capture(GRAPH).analysis
    row = max((r for r in analysis.summary.bins if r.kind == "decode"), key=lambda r: r.seconds)
    found = of(analysis.findings, code).numbers
    assert found["step_ms_ceiling_now"] == pytest.approx(row.step_ms - row.rest_ms)


def test_prefill_near_its_limit_is_told_what_is_left(capture: Callable) -> None:
    """0 of the hard cases: under load the card is power-capped, and 90 % of the sustained pi is as good as it gets."""
    found = of(capture(GRAPH).analysis.findings, "prefill_at_limit").numbers
    assert 0.85 < found["fraction"] < 1
    assert found["fp8_gain"] == pytest.approx(1250 / 683)


def test_prefix_hits_leave_the_gpu_waiting(capture: Callable) -> None:
    assert of(capture(GRAPH).analysis.findings, "waiting_for_host").numbers["roof_fraction"] < 0.1


def test_a_kinds_sentence_is_about_the_windows_of_its_bar(capture: Callable) -> None:
    """Prefix hits leave the GPU waiting; they have a finding of their own, and their part in the kind's figures."""
    analysis = capture(SGLANG).analysis
    found = of(analysis.findings, "bound", kind="prefill").numbers
    row = next(r for r in analysis.summary.kinds if r.kind == "prefill")
    total = sum(r.seconds for r in analysis.summary.kinds)
    assert found["roof_fraction"] == row.roof_fraction == row.compute_fraction
    assert found["share"] == pytest.approx(row.seconds / total)
    assert found["bound"] == "compute"
    assert of(analysis.findings, "waiting_for_host", kind="prefill").numbers["windows"] > 50


@pytest.mark.parametrize("name", [GRAPH, STEADY, SGLANG])
def test_advice_says_which_row_it_is_about(capture: Callable, name: str) -> None:
    analysis = capture(name).analysis
    rows = [r for r in analysis.summary.bins if r.kind == "decode"]
    row = max(rows, key=lambda r: r.seconds)
    found = of(analysis.findings, "to_ridge").numbers
    assert (found["batch_low"], found["batch_high"]) == (row.batch_low, row.batch_high)
    assert found["share"] == pytest.approx(row.seconds / sum(r.seconds for r in rows))
    assert (found["context_low"], found["context_high"]) == (row.context_low, row.context_high)
    assert row.batch_low <= found["rows"] <= row.batch_high


def test_a_row_of_several_batches_is_advised_at_its_mean(reference: Profile) -> None:
    live = LiveAnalysis(reference, Options(model=MODELS["llama-3.1-8b"]))
    for running, rate in ((32, 5000.0), (60, 8000.0)):
        for step in ticks(4, running=running, gen_tok_s=rate, kv_usage=0.3):
            live.feed(step, FACTS)
    found = of(live.findings(), "to_ridge").numbers
    assert (found["batch_low"], found["batch_high"]) == (32, 60)
    assert 40 < found["rows"] < 52


def test_every_ceiling_of_a_row_starts_from_one_step(capture: Callable) -> None:
    findings = capture(STEADY).analysis.findings
    batch, kv = of(findings, "batch_helps").numbers, of(findings, "kv_8bit_helps").numbers
    assert batch["batch"] * 1e3 / batch["tok_s_ceiling_now"] == pytest.approx(kv["step_ms_ceiling_now"], rel=1e-3)


def test_queueing_is_named_by_what_held_requests_back(capture: Callable) -> None:
    found = of(capture(GRAPH).analysis.findings, "queueing").numbers
    assert found["limit"] == "token budget"
    assert found["running_max"] < found["max_running"]


@pytest.mark.parametrize(("max_running", "kv_usage"), [(None, 0.3), (64, None), (None, None)])
def test_a_limit_that_is_not_stated_was_not_found_unmet(
    reference: Profile, max_running: int | None, kv_usage: float | None
) -> None:
    facts = replace(FACTS, max_running=max_running)
    live = made(reference, facts, running=40, gen_tok_s=4000.0, kv_usage=kv_usage, waiting=9)
    assert of(live.findings(), "queueing").numbers["limit"] == "not stated"


@pytest.mark.parametrize(
    ("kind", "quantity", "code", "ratio", "why"),
    [
        ("decode", "FLOPs", "engine_counts_less", 0.93, "sglang_lm_head_missing"),
        ("decode", "bytes", "engine_counts_more", 42.0, "sglang_weights_per_token"),
        ("prefill", "FLOPs", "engine_counts_more", 1.08, "sglang_summed_triangle"),
    ],
)
def test_how_sglang_counts_and_why(
    capture: Callable, kind: str, quantity: str, code: str, ratio: float, why: str
) -> None:
    found = of(capture(SGLANG).analysis.findings, code, kind=kind, quantity=quantity).numbers
    assert found["ratio"] == pytest.approx(ratio, rel=0.03)
    assert found["why"] == why


def test_short_windows_over_long_steps_are_called_aliased(capture: Callable) -> None:
    found = of(capture(GRAPH).analysis.findings, "aliased_windows").numbers
    assert found["window_s"] == pytest.approx(1.0)
    assert found["step_ms"] > 150
    assert "aliased_windows" not in codes(capture(STEADY).analysis.findings)


def test_what_the_log_cannot_say_is_said(capture: Callable) -> None:
    assert of(capture(GRAPH).analysis.findings, "cannot_say").numbers["what"] == "device"


def test_figures_given_by_hand_are_no_cards(logs: Path) -> None:
    given = Options(pi_tflops=700.0, beta_gbps=4400.0)
    assert "cannot_say" not in codes(analyse(log_parsers.parse(str(logs / f"{STEADY}.log")), None, given).findings)


@pytest.mark.parametrize("name", [GRAPH, STEADY, SGLANG, "vllm/0.32.0-cpu-terminal", "vllm/0.24.0-h200-tp2-2s"])
def test_what_bounds_a_row_follows_from_the_figures_that_it_shows(logs: Path, name: str) -> None:
    given = Options(pi_tflops=0.065, beta_gbps=8.4) if "cpu" in name else Options(pi_tflops=700.0, beta_gbps=4400.0)
    summary = analyse(log_parsers.parse(str(logs / f"{name}.log")), None, given).summary
    for row in (r for r in (*summary.kinds, *summary.bins) if r.bound in ("compute", "memory")):
        assert (row.bound == "compute") == (row.compute_fraction >= row.bandwidth_fraction)
        assert row.roof_fraction >= 0.3 or row.attained_fraction >= 0.5


def test_no_steady_window_is_a_warning(logs: Path, reference: Profile) -> None:
    analysis = analyse(log_parsers.parse(str(logs / "vllm/0.24.0-h200-eager-debug-10s.log")), reference)
    assert of(analysis.findings, "no_steady_window").weight == "warning"


def ticks(n: int, **fields: object) -> Iterator[ServingStep]:
    base: dict[str, object] = {
        "source": "-", "run": 0, "engine": "vllm", "engine_version": "0.30.0", "rank": "0", "kind": "decode",
        "status": "steady", "window_s": 10.0, "prompt_tok_s": 0.0, "waiting": 0,
    }  # fmt: skip
    for i in range(n):
        yield ServingStep(line_no=i + 1, **{**base, **fields})  # type: ignore[arg-type]


def made(profile: Profile, facts: LogFacts, **fields: object) -> LiveAnalysis:
    live = LiveAnalysis(profile, Options(model=MODELS["llama-3.1-8b"]))
    for step in ticks(5, **fields):
        live.feed(step, facts)
    return live


FACTS = LogFacts(engine="vllm", dtype="bf16", kv_cache_tokens=100_000, max_running=64, token_budget=8192)


def test_a_full_cache_is_named_as_the_limit(reference: Profile) -> None:
    live = made(reference, FACTS, running=40, gen_tok_s=3000.0, kv_usage=0.98, waiting=9)
    found = live.findings()
    assert of(found, "queueing").numbers["limit"] == "kv cache"
    assert of(found, "kv_cache_full").numbers["kv_cache_tokens"] == 100_000


def test_the_engines_own_limit_is_named(reference: Profile) -> None:
    live = made(reference, FACTS, running=64, gen_tok_s=4000.0, kv_usage=0.3, waiting=9)
    assert of(live.findings(), "queueing").numbers["limit"] == "max running"


@pytest.mark.parametrize(
    ("context", "limits"),
    [
        (5000, [(20.0, "kv cache"), (64, "max running")]),
        (500, [(64, "max running"), (200.0, "kv cache")]),
        (0, [(64, "max running")]),
    ],
)
def test_the_largest_batches_and_what_limits_them(
    reference: Profile, context: float, limits: list[tuple[float, str]]
) -> None:
    live = made(reference, FACTS, running=8, gen_tok_s=1000.0, kv_usage=0.1)
    assert batch_limits(live.runs[-1], context) == limits


@pytest.mark.parametrize(
    ("facts", "fields", "limit"),
    [
        ({"max_running": 33}, {"running": 32, "kv_usage": 0.1}, "max running"),
        ({"max_running": 32}, {"running": 32, "kv_usage": 0.1}, "max running"),
        ({"max_running": None}, {"running": 32, "kv_usage": 0.97}, "kv cache"),
        ({"max_running": 32}, {"running": 32, "kv_usage": 0.97}, "max running, kv cache"),
    ],
    ids=["just below the limit", "at the limit", "a full cache", "both"],
)
def test_a_limit_that_stops_the_batch_is_named_with_what_raising_it_would_buy(
    reference: Profile, facts: dict[str, object], fields: dict[str, object], limit: str
) -> None:
    live = made(reference, replace(FACTS, **facts), gen_tok_s=3000.0, **fields)  # type: ignore[arg-type]
    found = of(live.findings(), "batch_limited").numbers
    assert (found["limit"], found["batch"], found["to_batch"]) == (limit, 32, 64)
    assert found["gain"] > 0.1
    assert not {"batch_exhausted", "batch_helps"} & set(codes(live.findings()))


def test_a_raised_limit_leads_no_further_than_the_cache(reference: Profile) -> None:
    live = made(reference, replace(FACTS, max_running=32), running=32, gen_tok_s=3000.0, kv_usage=0.6)
    found = of(live.findings(), "batch_limited").numbers
    assert found["limit"] == "max running"
    assert found["to_batch"] == pytest.approx(32 / 0.6, rel=0.1)


def test_more_batch_is_cut_at_the_cache_and_says_so(reference: Profile) -> None:
    live = made(reference, replace(FACTS, max_running=None), running=40, gen_tok_s=4000.0, kv_usage=0.8)
    found = of(live.findings(), "batch_helps").numbers
    assert found["limit"] == "kv cache"
    assert found["to_batch"] < 80


def test_long_contexts_exhaust_batching(reference: Profile) -> None:
    facts = replace(FACTS, kv_cache_tokens=8_000_000, max_running=None)
    live = made(reference, facts, running=64, gen_tok_s=600.0, kv_usage=0.8)
    assert "batch_exhausted" in codes(live.findings())
    assert "batch_helps" not in codes(live.findings())


def test_no_rows_reach_a_ridge_beyond_the_shapes(reference: Profile) -> None:
    live = LiveAnalysis(None, Options(model=MODELS["llama-3.1-8b"], pi_tflops=5000.0, beta_gbps=1000.0))
    for step in ticks(3, running=8, gen_tok_s=400.0, kv_usage=0.1):
        live.feed(step, FACTS)
    assert t_star_of(live.runs[-1]) == (None, 5000.0)
    assert "never_compute_bound" in codes(live.findings())


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({}, "another card or a higher clock than the profile's"),
        ({"quantization": "compressed-tensors"}, "8-bit work under a 16-bit pi"),
        ({"device_platform": "cpu"}, "another card"),
    ],
    ids=["nothing contradicts", "unsettled quantization", "another platform"],
)
def test_above_the_roof_is_shown_with_its_likely_reason(reference: Profile, facts: dict[str, object], why: str) -> None:
    live = made(reference, replace(FACTS, **facts), running=32, gen_tok_s=20_000.0, kv_usage=0.5)  # type: ignore[arg-type]
    found = of(live.findings(), "above_roof").numbers
    assert found["roof_fraction"] > 1
    assert found["why"] == why


def test_more_than_the_whole_step_is_warned_of_however_short_the_row(capture: Callable) -> None:
    """One SGLang window of 192 prompt tokens, 4 ms long: its neighbour holds the rest of its step."""
    analysis = capture(SGLANG).analysis
    highest = max(analysis.summary.bins, key=lambda row: row.attained_fraction or 0)
    found = of(analysis.findings, "rest_negative")
    assert found.weight == "warning"
    assert found.numbers["attained"] == highest.attained_fraction > 1
    assert (found.numbers["batch_low"], found.numbers["windows"], found.numbers["rows"]) == (192, 1, 1)
    assert found.numbers["why"] == "a window cut between two lines"


def test_a_short_row_above_roof_and_step_has_one_reason_for_both(logs: Path, reference: Profile) -> None:
    found = roofline_probe.compare(logs / f"{SGLANG}.log", reference, since="14:56:35", until="14:56:40").findings
    above = [of(found, code).numbers["why"] for code in ("above_roof", "rest_negative")]
    assert above == ["a window cut between two lines"] * 2


def test_a_long_row_above_its_step_is_laid_to_the_card(reference: Profile) -> None:
    live = made(reference, FACTS, running=32, gen_tok_s=20_000.0, kv_usage=0.5)
    found = of(live.findings(), "rest_negative").numbers
    assert found["seconds"] >= 1
    assert found["why"] == "another card or a higher clock than the profile's"


def test_no_row_above_its_step_is_no_warning(capture: Callable) -> None:
    assert "rest_negative" not in codes(capture(STEADY).analysis.findings)


def test_windows_that_cannot_be_taken_apart_have_no_part_in_their_kinds_figures(capture: Callable) -> None:
    analysis = capture(GRAPH).analysis
    row = next(r for r in analysis.summary.kinds if r.kind == "mixed")
    steady = [p for p in analysis.points if p.step.kind == "mixed" and p.step.status == "steady"]
    taken = [p for p in steady if p.attained_fraction is not None]
    seconds = sum(p.step.window_s for p in taken)
    assert (row.windows, len(taken), len(steady)) == (15, 15, 18)
    assert row.seconds == pytest.approx(seconds)
    assert row.tok_s == pytest.approx(sum(p.work.tokens for p in taken) / seconds)
    assert row.compute_fraction == pytest.approx(sum(p.compute_fraction * p.step.window_s for p in taken) / seconds)
    assert of(analysis.findings, "not_taken_apart").numbers["windows"] == 3
    assert sum(r.windows for r in analysis.summary.bins if r.kind == "mixed") == 18
    shares = [f.numbers["share"] for f in analysis.findings if f.code in ("bound", "not_taken_apart")]
    assert sum(shares) == pytest.approx(1)


def test_before_the_first_step_nothing_is_found() -> None:
    assert LiveAnalysis().findings() == ()


def test_windows_that_no_card_could_run_are_counted_with_what_they_do(capture: Callable) -> None:
    """SGLang prints two batches launched together with one long and one short window."""
    run = capture(SGLANG, "shipped")
    found = of(run.analysis.findings, "windows_above", kind="prefill").numbers
    steady = [p for p in run.analysis.points if p.step.kind == "prefill" and p.step.status == "steady"]
    above = [p for p in steady if max(p.attained_fraction, p.roof_fraction) > 1]
    rest = [p for p in steady if p not in above]
    seconds = sum(p.step.window_s for p in rest)
    assert (found["windows"], found["of_windows"]) == (len(above), len(steady)) == (7, 174)
    assert found["share"] == pytest.approx(
        sum(p.step.window_s for p in above) / (seconds + sum(p.step.window_s for p in above))
    )
    assert found["highest"] == max(p.attained_fraction for p in above) > 3
    assert found["without"] == pytest.approx(sum(p.compute_fraction * p.step.window_s for p in rest) / seconds)
    assert 0.005 < found["fraction"] - found["without"] < 0.015
    assert found["row_fraction"] - found["row_without"] > 0.1
    assert "windows_above" not in codes(capture(STEADY).analysis.findings)


UNTIMED = ["vllm/0.31.0-colour", "vllm/0.31.0-offline", "vllm/0.33.0-iteration-details"]


@pytest.mark.parametrize("name", UNTIMED)
def test_a_window_of_no_known_length_is_no_steady_one(logs: Path, reference: Profile, name: str) -> None:
    """Two lines of one stamp: work over no time is no rate."""
    analysis = analyse(log_parsers.parse(str(logs / f"{name}.log")), reference)
    assert analysis.summary.kinds == ()
    assert analysis.summary.excluded["untimed"] == 1
    assert of(analysis.findings, "no_steady_window").numbers["untimed"] == 1


@pytest.mark.parametrize("name", [*UNTIMED, "wrapped/cut-in-number"])
def test_a_log_with_mfu_lines_is_never_said_to_hold_none(logs: Path, reference: Profile, name: str) -> None:
    analysis = analyse(log_parsers.parse(str(logs / f"{name}.log")), reference)
    assert any(run.engine_counted for run in analysis.live.runs)
    assert "recounted_only" not in codes(analysis.findings)


def test_without_dimensions_the_way_to_a_percentage_is_part_of_the_answer(logs: Path, reference: Profile) -> None:
    analysis = analyse(log_parsers.parse(str(logs / "wrapped/cut-in-number.log")), reference)
    found = analysis.findings[0]
    assert (found.code, found.weight) == ("no_headline", "headline")
    assert (found.numbers["kinds"], found.numbers["why"]) == ("decode", "dimensions")
    assert "no_headline" not in codes(analyse(log_parsers.parse(str(logs / f"{STEADY}.log")), reference).findings)


@pytest.mark.parametrize("name", ["0.29.0-cpu-default", "0.32.0-cpu-terminal", "0.32.0-cpu-moe", "0.32.0-cpu-default"])
def test_a_window_shorter_than_the_step_it_is_counted_by_holds_no_few_of_them(
    logs: Path, reference: Profile, name: str
) -> None:
    analysis = analyse(log_parsers.parse(str(logs / f"vllm/{name}.log")), reference)
    found = of(analysis.findings, "step_beyond_window").numbers
    assert found["step_ms"] > found["window_s"] * 1e3
    assert (found["budget"], found["assumed"]) == (8192, 1)
    assert not any(f.code == "aliased_windows" and f.numbers["kind"] == "prefill" for f in analysis.findings)


@pytest.mark.parametrize(
    ("name", "kind", "quantity"),
    [
        ("0.29.0-cpu-default", "prefill", "FLOPs"),  # 0.1 printed, 0.0448 recounted
        ("0.29.0-cpu-default", "prefill", "bytes"),
        ("0.32.0-cpu-dp2", "decode", "bytes"),
    ],
)
def test_a_rounded_rate_says_nothing_of_how_the_engine_counts(
    logs: Path, reference: Profile, name: str, kind: str, quantity: str
) -> None:
    findings = analyse(log_parsers.parse(str(logs / f"vllm/{name}.log")), reference).findings
    told = [f for f in findings if f.code.startswith("engine_counts")]
    assert not any(f.numbers["kind"] == kind and f.numbers["quantity"] == quantity for f in told)
    assert all(f.numbers["why"] for f in told)
