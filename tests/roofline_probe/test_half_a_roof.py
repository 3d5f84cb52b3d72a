"""Where pi or beta is missing, nothing is said that needs it; what the other one tells stays."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import log_parsers
from roofline_probe.analysis import Analysis, Options, analyse
from roofline_probe.errors import GateNotMet, NoRoof
from roofline_probe.headline import check_gates, headline
from roofline_probe.plan.answer import plan_without_log
from roofline_probe.point import Summary
from roofline_probe.profile import Profile
from roofline_probe.report import answer, finding_words, words
from roofline_probe.summary import SummaryBuilder
from roofline_probe.workloads import MODELS

NEEDS_BOTH = ("roof_fraction", "bound", "gemm_ms", "rest_ms", "attained_fraction")
HALVES = {
    "pi": ("compute_fraction", "bandwidth_fraction", "beta_missing"),
    "beta": ("bandwidth_fraction", "compute_fraction", "pi_missing"),
}


def half_profile(whole: Profile, half: str) -> Profile:
    """What ``probe measure --mode gemm`` or ``--mode bandwidth`` leaves."""
    missing = {"pi": {"betas": []}, "beta": {"peaks": []}}[half]
    return msgspec.structs.replace(whole, ceilings=[], **missing)


@pytest.fixture(params=["pi given", "beta given", "pi measured", "beta measured"])
def half(request: pytest.FixtureRequest, logs: Path, reference: Profile) -> tuple[str, Analysis]:
    """Which half of the roof there is, and a capture under it."""
    name, origin = request.param.split()
    parsed = log_parsers.parse(str(logs / "vllm/0.24.0-h200-graph-1s.log"))
    if origin == "measured":
        return name, analyse(parsed, half_profile(reference, name), keep_points=True)
    given = Options(pi_tflops=683.0) if name == "pi" else Options(beta_gbps=4400.0)
    return name, analyse(parsed, None, given, keep_points=True)


def test_no_figure_needs_the_missing_half(half: tuple[str, Analysis]) -> None:
    name, analysis = half
    known, missing, _ = HALVES[name]
    rows = (*analysis.summary.kinds, *analysis.summary.bins, *analysis.points)
    for row in rows:
        assert {getattr(row, field) for field in (*NEEDS_BOTH, missing)} == {None}
        assert not row.estimated
    for kind in ("decode", "prefill"):
        row = next(row for row in analysis.summary.kinds if row.kind == kind)
        assert getattr(row, known) > 0
        assert row.step_ms > 0


def test_kv_reads_need_beta_alone(half: tuple[str, Analysis]) -> None:
    name, analysis = half
    decode = analysis.summary.kinds[0]
    assert (decode.kv_ms is None) == (name == "pi")


def test_nothing_is_concluded_from_half_a_roof(half: tuple[str, Analysis]) -> None:
    name, analysis = half
    told = {f.code for f in analysis.findings if f.weight != "note"}
    advice = {"prefill_at_limit"} if name == "pi" else set()  # 90 % of pi is near the roof whatever beta is
    assert told == {"no_headline"} | advice
    (sentence,) = answer.answer(analysis.findings)
    assert f"There is no {HALVES[name][2].removesuffix('_missing')}" in sentence
    assert not any("host" in sentence for sentence in answer.notes(analysis.findings))
    assert len(finding_words.advice(analysis.findings)) == len(advice)


def test_the_missing_half_is_named(half: tuple[str, Analysis]) -> None:
    name, analysis = half
    said = {"pi_missing", "beta_missing", "ceiling_from_roofs"} & set(analysis.summary.caveats)
    assert said == {HALVES[name][2]}


def test_headlines_and_gates_use_the_half_there_is(half: tuple[str, Analysis]) -> None:
    name, analysis = half
    rows = {row.kind: row for row in analysis.summary.kinds}
    assert headline(rows["decode"], analysis.roof)[0] is None
    with pytest.raises(GateNotMet, match="decode cannot be judged under this roof"):
        check_gates({"decode": 0.0}, analysis.summary, analysis.roof)
    if name == "pi":
        check_gates({"prefill": 0.8}, analysis.summary, analysis.roof)
    else:
        with pytest.raises(GateNotMet, match="prefill cannot be judged under this roof"):
            check_gates({"prefill": 0.0}, analysis.summary, analysis.roof)


def test_more_than_the_half_is_above_the_roof(logs: Path) -> None:
    parsed = log_parsers.parse(str(logs / "vllm/0.24.0-h200-graph-1s.log"))
    assert "above_roof" in analyse(parsed, None, Options(pi_tflops=100.0)).summary.caveats


def both_runs(whole: Analysis, half: Analysis) -> Summary:
    both = SummaryBuilder()
    for point in (*whole.points, *half.points):
        both.add(point)
    return both.build()


def test_windows_without_a_roof_have_no_part_in_the_figures_of_those_with_one(
    half: tuple[str, Analysis], logs: Path
) -> None:
    """Rows may mix runs, one of which has both halves: all figures of a row are of the same windows."""
    given = Options(pi_tflops=683.0, beta_gbps=4400.0)
    whole = analyse(log_parsers.parse(str(logs / "vllm/0.24.0-h200-graph-1s.log")), None, given, keep_points=True)
    both = both_runs(whole, half[1])
    assert both.kinds[0].windows == whole.summary.kinds[0].windows
    assert both.kinds[0].roof_fraction == whole.summary.kinds[0].roof_fraction > 0
    assert sum(row.windows for row in both.bins if row.kind == "decode") == 2 * both.kinds[0].windows


def test_windows_taken_apart_without_a_roof_leave_their_row_without_one(logs: Path, reference: Profile) -> None:
    log = str(logs / "vllm/0.24.0-h200-graph-1s.log")
    no_pi = msgspec.structs.replace(reference, peaks=[])
    whole, half = (analyse(log_parsers.parse(log), p, keep_points=True) for p in (reference, no_pi))
    decode = both_runs(whole, half).kinds[0]
    assert whole.summary.kinds[0].roof_fraction > 0
    assert (decode.roof_fraction, decode.compute_fraction is None) == (None, False)


def test_measured_projections_need_no_pi(logs: Path, reference: Profile) -> None:
    """A decode step is taken apart by the ceiling and the read bandwidth; prefill's attention runs at pi."""
    profile = msgspec.structs.replace(reference, peaks=[])
    analysis = analyse(log_parsers.parse(str(logs / "vllm/0.24.0-h200-graph-1s.log")), profile)
    decode, prefill = (row for row in analysis.summary.kinds if row.kind in ("decode", "prefill"))
    assert decode.attained_fraction == pytest.approx(1 - decode.rest_ms / decode.step_ms)
    assert (decode.roof_fraction, decode.bound) == (None, None)
    assert (prefill.gemm_ms, prefill.rest_ms, prefill.attained_fraction) == (None, None, None)
    missing, sentence = answer.answer(analysis.findings)
    assert missing.startswith("There is no pi for bf16 under this roof, so there is no percentage for ")
    assert sentence.startswith("Of decode's mean step of")


@pytest.mark.parametrize(
    ("half", "figure"),
    [("pi", "no bandwidth"), ("beta", "no pi for bf16")],
)
def test_no_plan_on_half_a_roof(reference: Profile, half: str, figure: str) -> None:
    profile = half_profile(reference, half)
    with pytest.raises(NoRoof, match=figure):
        plan_without_log(profile, MODELS["llama-3.1-8b"], "bf16", 1, 32, 2000, None)


@pytest.mark.parametrize(
    ("figures", "flags", "of"),
    [
        ({"pi_tflops": 683.0, "beta_gbps": 4400.0}, "--pi and --beta", "of pi, of beta: the figures"),
        ({"pi_tflops": 683.0}, "--pi", "of pi: the figure"),
        ({"beta_gbps": 4400.0}, "--beta", "of beta: the figure"),
    ],
    ids=["both", "pi", "beta"],
)
def test_the_flag_that_was_given_is_named(logs: Path, figures: dict[str, float], flags: str, of: str) -> None:
    parsed = log_parsers.parse(str(logs / "vllm/0.24.0-h200-graph-1s.log"))
    roof = analyse(parsed, None, Options(**figures)).roof  # type: ignore[arg-type]
    assert words.roof_origin(roof) == f"as given with {flags}, bf16 as the log says"
    assert words.denominators(roof) == f"{of} given with {flags}"
    assert roof.device == f"the card of {flags}"
