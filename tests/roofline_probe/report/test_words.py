"""Codes into sentences: every code that the analysis can raise has words, and the words carry the figures."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import roofline_probe
from log_parsers import WARNINGS
from roofline_probe.comparison import Comparison
from roofline_probe.diagnose import Finding, Number
from roofline_probe.errors import NothingUsable
from roofline_probe.point import Roof
from roofline_probe.profile import Beta, DeviceInfo, Peak, Prediction, Profile
from roofline_probe.report import answer, caveats, finding_words, words
from roofline_probe.report.terminal import print_report

PACKAGE = Path(roofline_probe.__file__).parent


def finding_codes() -> list[str]:
    """The codes with which a ``Finding`` is made anywhere in the package."""
    calls = (
        node
        for path in PACKAGE.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding" and node.args
    )
    named = {call.args[0].value for call in calls if isinstance(call.args[0], ast.Constant)}
    return sorted({*named, "engine_counts_more", "engine_counts_less"})


def test_findings_are_found_at_all() -> None:
    assert len(finding_codes()) > 20


@pytest.mark.parametrize("code", finding_codes())
def test_every_finding_has_words_that_survive_missing_figures(code: str) -> None:
    assert code in finding_words.WORDS
    shown = finding_words.sentence(Finding(code, "note", {}))
    assert shown.endswith(".")
    assert "None" not in shown.removeprefix("None of")


LOGS = sorted((PACKAGE.parent / "fixtures" / "logs").glob("*/*.log"))
PROFILE = PACKAGE.parent / "fixtures" / "profiles" / "h200-reference.json"


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_every_caveat_and_finding_of_every_fixture_has_words(log: Path) -> None:
    try:
        result = roofline_probe.compare(log, PROFILE, keep_points=False)
    except NothingUsable:
        return  # its sentence is what the command's own tests look at
    raised = {*result.roof.caveats, *result.summary.caveats}
    assert sorted(raised - {*caveats.SENTENCES, *caveats.CAUSES, *WARNINGS}) == []
    assert {finding.code for finding in result.findings} <= set(finding_words.WORDS)


def test_unknown_codes_show_themselves_instead_of_vanishing() -> None:
    assert caveats.sentence("some_new_code") == "some new code."
    assert finding_words.sentence(Finding("some_new_code", "note", {})) == "some new code."


def test_causes_are_told_where_the_counts_are_compared_and_not_as_warnings(comparison: Comparison) -> None:
    codes = [warning["code"] for warning in words.warnings(comparison)]
    assert codes == ["cached_prefix_unseen", "other_process"]


def test_parts_name_what_cannot_be_avoided_and_what_the_engine_adds() -> None:
    numbers = {"kind": "decode", "step_ms": 15.65, "gemm_ms": 7.2, "kv_ms": 6.32, "link_ms": 0.4, "rest_ms": 1.73}
    shown = finding_words.sentence(Finding("parts", "headline", numbers))
    assert "15.7 ms" in shown
    assert "7.20 ms of GEMMs, 6.32 ms of reading KV and 0.400 ms (3 %) on the link" in shown
    assert "1.73 ms is what the engine adds" in shown


def test_a_row_above_its_whole_step_is_named_as_the_table_names_it_and_once() -> None:
    log = PACKAGE.parent / "fixtures" / "logs" / "sglang" / "0.5.16-h200.log"
    told = [w for w in words.warnings(roofline_probe.compare(log, "h200")) if w["code"] == "rest_negative"]
    assert [w["message"] for w in told] == [
        "Prefill 192 reads 144 % attained in 1 window, which is shown as it is: its kernels measured alone take "
        "longer than the step did; likely a window cut between two lines."
    ]


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [(1.086, "9 % more in decode"), (0.93, "7 % fewer in decode"), (42.1, "42.1× as many in decode")],
    ids=["more", "fewer", "many-times"],
)
def test_difference_of_counts_in_words(ratio: float, shown: str) -> None:
    finding = Finding(
        "engine_counts_more", "note", {"kind": "decode", "quantity": "FLOPs", "ratio": ratio, "why": None}
    )
    assert shown in finding_words.sentence(finding)


@pytest.mark.parametrize(
    ("origin", "shown"),
    [
        ("measured", "assumed: no log names its GPU"),
        ("datasheet", "PUBLISHED, not measured"),
        ("given", "--pi and --beta"),
    ],
)
def test_origin_of_the_roof_is_always_said(origin: str, shown: str) -> None:
    roof = Roof(
        origin=origin, device="X", choice="auto", dtype="bf16", dtype_source="assumed",  # type: ignore[arg-type]
        pi_burst_tflops=683.0, beta_gbps=4400.0,
    )  # fmt: skip
    assert shown in words.roof_origin(roof)
    assert "bf16 ASSUMED" in words.roof_origin(roof)


def test_burst_choice_names_burst_and_still_tells_sustained(roof: Roof) -> None:
    shown = words.roof_figures(dataclasses.replace(roof, choice="burst"))
    assert shown.startswith("burst pi 820 TFLOP/s (sustained 683)")


def test_span_across_midnight_names_both_days(comparison: Comparison) -> None:
    summary = dataclasses.replace(comparison.summary, last_time="2026-11-30T00:10:00")
    assert words.span_line(summary) == "52 windows, 2026-11-29 14:25:19 to 2026-11-30 00:10:00"


def test_prediction_is_scored_in_words() -> None:
    prediction = Prediction(question="Higher or lower?", answer="higher", measured="lower", correct=False)
    assert words.prediction_sentence(prediction) == "Higher or lower? You said higher; measured lower: wrong."


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({}, "of beta: read beta in decode, else beta; of pi: sustained; measured 2026-11-29"),
        ({"choice": "burst", "read_beta_gbps": 4405}, "of beta: beta; of pi: burst; measured 2026-11-29"),
        (
            {"pi_burst_tflops": None, "pi_sustained_tflops": None, "read_beta_gbps": 4405},
            "of beta: beta; measured 2026-11-29",
        ),
        ({"beta_gbps": None, "read_beta_gbps": None}, "of pi: sustained; measured 2026-11-29"),
        ({"origin": "datasheet"}, "of pi, of beta: the published figures of NVIDIA H200"),
        ({"origin": "given"}, "of pi, of beta: the figures given with --pi and --beta"),
    ],
    ids=["measured", "burst-and-one-beta", "no-pi", "no-beta", "published", "given"],
)
def test_denominators_of_a_table_are_one_line(roof: Roof, changes: dict[str, object], shown: str) -> None:
    assert words.denominators(dataclasses.replace(roof, **changes)) == shown  # type: ignore[arg-type]


BELOW: dict[str, Number] = {
    "fraction": 0.74, "rest_share": 0.08, "rest_gain": 1.087, "pi_gain": 1.351, "pi_name": "sustained",
    "batch_low": 4223, "batch_high": 8192, "share": 0.87,
}  # fmt: skip


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({}, "1.09× as fast without what the engine adds (8 % of its step), and 1.35× if it also ran at sustained pi "
             "throughout and not at 74 % of it."),
        ({"link_share": 0.13, "link_lower_bound": 1, "pi_gain": 1.15},
         "1.09× as fast without what the engine adds (8 % of its step), and 1.15× if it also ran at sustained pi "
         "throughout and not at 74 % of it; at least 13 % of its step is the link between cards, which stays."),
        ({"link_in_rest": 1, "pi_gain": 1.09}, "1.09× as fast without what the engine and the link between cards add "
                                               "(8 % of its step)."),
        ({"rest_gain": None}, "1.35× as fast at sustained pi throughout and not at 74 % of it."),
    ],
    ids=["one card", "a link", "a link that was not measured", "no rest"],
)  # fmt: skip
def test_prefill_below_its_limit_tells_what_the_engine_adds_from_the_distance_to_pi(
    given: dict[str, Number], shown: str
) -> None:
    row = "Prefill of 4.2–8.2k tokens a step (87 % of its time) would be at most "
    assert finding_words.sentence(Finding("prefill_below_limit", "advice", {**BELOW, **given})) == row + shown


def test_prefill_at_the_limit_of_arithmetic_and_link_names_both() -> None:
    numbers: dict[str, Number] = {
        "fraction": 0.75, "pi_name": "sustained", "link_share": 0.13, "batch_low": 1, "batch_high": 1, "share": 1.0,
    }  # fmt: skip
    assert finding_words.sentence(Finding("prefill_at_limit", "advice", numbers)) == (
        "Prefill of 1 token a step is at its limit (75 % of sustained pi, and 13 % of its step is the link between "
        "cards): only fewer tokens (prefix caching), narrower arithmetic or a faster link help."
    )


LIMITED: dict[str, Number] = {
    "batch": 4.6, "to_batch": 9.2, "tok_s_ceiling_now": 381, "tok_s_ceiling": 698, "gain": 0.83, "max_running": 16,
    "kv_cache_tokens": 65536,
}  # fmt: skip


@pytest.mark.parametrize(
    ("limit", "shown"),
    [
        ("max running", "The engine's limit of 16 running requests holds the batch back: without it, from 4.6 to "),
        ("kv cache", "The KV cache of 65,536 tokens holds the batch back: without it, from 4.6 to "),
        ("max running, kv cache", "The engine's limit of 16 running requests and the KV cache of 65,536 tokens hold "
                                  "the batch back: without them, from 4.6 to "),
    ],
)  # fmt: skip
def test_a_limit_on_the_batch_is_named_with_what_raising_it_buys(limit: str, shown: str) -> None:
    said = finding_words.sentence(Finding("batch_limited", "advice", {**LIMITED, "limit": limit}))
    assert said == f"{shown}9.2 at the same context the ceiling rises from 381 to 698 tokens/s (83 % more)."


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [
        ({}, "neither how full the KV cache is nor the request limit is stated in the log"),
        ({"kv_usage_max": 0.3}, "the request limit is not stated in the log"),
        ({"max_running": 64}, "how full the KV cache is the log does not tell"),
    ],
)
def test_a_limit_that_the_log_does_not_state_is_said_to_be_unstated(numbers: dict[str, Number], shown: str) -> None:
    said = finding_words.sentence(Finding("queueing", "note", {"share": 0.5, "limit": "not stated", **numbers}))
    assert shown in said
    assert "reached" not in said


ROW = {"batch_low": 256, "batch_high": 256, "context_low": 143, "context_high": 813, "share": 0.22}


def test_advice_names_its_row_once_and_fits_the_bound_of_decode() -> None:
    ridge = Finding("to_ridge", "advice", {**ROW, "rows": 256, "t_star": 170, "missing": 0, "dtype": "bf16", "tp": 1})
    free = Finding("prefill_rides_free", "advice", {**ROW, "free_rows": 32})
    limit = Finding("prefill_at_limit", "advice", {"fraction": 0.9, "pi_name": "burst", "share": 1.0})
    assert finding_words.advice([ridge, free, limit]) == [
        "At batch 256, context 143–813 (22 % of the decode time) the step's GEMMs are compute-bound (256 rows are past "
        "T* of this model in bf16, 170), its KV reads memory-bound.",
        "There, chunked prefill rides along: about 32 prompt tokens fit into each decode step before its GEMMs take a "
        "tenth longer.",
        "Prefill is at its limit (90 % of burst pi): only fewer tokens (prefix caching) or narrower arithmetic help.",
    ]


@pytest.fixture
def cpu_report(h200_profile: Profile, draw: Callable[..., str]) -> str:
    """A CPU's log under a CPU's profile, as the terminal shows it."""
    device = DeviceInfo(kind="cpu", name="EPYC")
    peak = Peak(dtype="fp32", regime="burst", tflops=0.065, implementation="mm", m=512, n=512, k=512)
    betas = [Beta(pattern=p, gbps=9.8, implementation="stream", array_bytes=1 << 28) for p in ("copy", "read")]
    cpu = msgspec.structs.replace(h200_profile, device=device, peaks=[peak], betas=betas, ceilings=[], warnings=[])
    log = LOGS[0].parents[1] / "vllm" / "0.29.0-cpu-default.log"
    return draw(print_report, roofline_probe.compare(log, cpu), all_steps=True)


def test_under_a_cpus_profile_no_word_is_of_gpus_and_no_rate_in_teras(cpu_report: str) -> None:
    assert "GPU" not in cpu_report
    assert "TF/s" not in cpu_report
    assert "GF/s" in cpu_report


def test_no_ratio_stands_beside_a_figure_that_is_all_rounding(cpu_report: str) -> None:
    counts = cpu_report[cpu_report.index("As the engine counts it") :]
    line = next(line for line in counts.splitlines() if line.split()[:1] == ["prefill"])
    assert line.split()[3::3] == ["–", "–"]


def test_what_the_answer_tells_stands_in_no_second_place(tmp_path: Path) -> None:
    result = roofline_probe.compare(LOGS[0].parents[1] / "wrapped" / "cut-in-number.log", "h200")
    first, *_ = answer.answer(result.findings)
    assert "--model NAME" in first
    assert not any("--model" in sentence for sentence in words.warning_sentences(result))
    assert "engine_only" in {warning["code"] for warning in words.warnings(result)}


@pytest.mark.parametrize(
    ("steps", "shown"),
    [(1, "The log's only window is not steady"), (1234, "None of the 1,234 windows is steady")],
)
def test_no_steady_window_counts_in_words(steps: int, shown: str) -> None:
    assert finding_words.sentence(Finding("no_steady_window", "warning", {"steps": steps})).startswith(shown)


@pytest.mark.parametrize(("code", "meaning"), WARNINGS.items())
def test_what_a_log_warns_of_is_a_sentence(code: str, meaning: str) -> None:
    assert meaning[0].isupper() or meaning.startswith("vLLM"), code
    assert meaning.endswith("."), code
