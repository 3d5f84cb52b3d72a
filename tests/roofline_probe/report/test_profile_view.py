"""A profile as ``measure`` and ``show`` print it."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import pytest

from roofline_probe import store
from roofline_probe.profile import CeilingPoint, Datasheet, Profile, ProfileWarning
from roofline_probe.report.profile_view import print_profile
from roofline_probe.report.text import significant
from roofline_probe.report.words import profile_warnings

Draw = Callable[..., str]


@pytest.mark.parametrize("width", [80, 120], ids=["80-columns", "120-columns"])
def test_profile_is_as_agreed(
    width: int, h200_profile: Profile, draw: Draw, golden: Callable[[str, str], None]
) -> None:
    text = draw(
        print_profile, h200_profile, width=width, saved_to="h200.json", next_commands=["probe compare vllm.log"]
    )
    golden(f"profile-{width}", text)


def test_answer_comes_last_and_what_to_run_next_at_the_very_end(h200_profile: Profile, draw: Draw) -> None:
    text = draw(print_profile, h200_profile, saved_to="x.json", next_commands=["probe compare vllm.log"])
    places = [text.index(m) for m in ("Environment", "GEMM sweep", "Streaming", "pi 820", "decode floor", "saved")]
    assert places == sorted(places)
    assert text.rstrip().endswith("probe compare vllm.log")


def test_headline_is_one_line_of_pi_and_beta_at_80_columns(h200_profile: Profile, draw: Draw) -> None:
    lines = draw(print_profile, h200_profile).splitlines()
    assert "NVIDIA H200: pi 820 TFLOP/s bf16 (683 sustained) · beta 4.41 TB/s (reads 4.62)" in lines


def test_every_datasheet_figure_has_its_measured_twin(h200_profile: Profile, draw: Draw) -> None:
    rows = {
        line.split("  ")[1].strip(): line for line in draw(print_profile, h200_profile).splitlines() if "  " in line
    }
    assert "186.2      206.1" in rows["ridge, bf16"]
    assert "lower" in rows["ridge, bf16"]
    assert "3.407      3.250      3.127" in rows["llama-3.1-8b bf16"]


def test_card_without_datasheet_has_dashes_not_guesses(h200_profile: Profile, draw: Draw) -> None:
    text = draw(print_profile, msgspec.structs.replace(h200_profile, datasheet=None))
    (line,) = [line for line in text.splitlines() if "pi bf16 burst" in line]
    assert line.split()[-3:] == ["–", "TFLOP/s", "–"]


def test_what_was_not_soaked_is_not_measured_and_never_guessed(h200_profile: Profile, draw: Draw) -> None:
    (line,) = [line for line in draw(print_profile, h200_profile).splitlines() if "pi fp8 sustained" in line]
    assert "not measured" in line


def test_interrupted_and_unsettled_runs_say_so(h200_profile: Profile, draw: Draw) -> None:
    peaks = [msgspec.structs.replace(p, settled=False) for p in h200_profile.peaks if p.regime == "sustained"]
    text = draw(print_profile, msgspec.structs.replace(h200_profile, complete=False, peaks=peaks), width=200)
    assert "The run was interrupted" in text
    assert "had not settled" in text


def test_a_soak_that_had_not_settled_is_warned_of_once(h200_profile: Profile) -> None:
    peaks = [msgspec.structs.replace(p, settled=False) for p in h200_profile.peaks if p.regime == "sustained"]
    warned = [ProfileWarning(code="unsettled", message="The sustained rate of bf16 was still moving.")]
    assert profile_warnings(msgspec.structs.replace(h200_profile, peaks=peaks, warnings=warned)) == [warned[0].message]


def test_figures_below_one_tflops_are_gflops_in_every_table_as_in_the_headline(
    h200_profile: Profile, draw: Draw
) -> None:
    """A CPU's: a thousandth of each rate, so that 683 TFLOP/s is 683 GFLOP/s."""

    def small(value):  # type: ignore[no-untyped-def]
        return msgspec.structs.replace(value, tflops=value.tflops and value.tflops / 1e3)

    ceilings = [msgspec.structs.replace(c, points=[small(p) for p in c.points]) for c in h200_profile.ceilings]
    slow = msgspec.structs.replace(
        h200_profile,
        peaks=[small(p) for p in h200_profile.peaks],
        trials=[small(t) for t in h200_profile.trials],
        ceilings=ceilings,
        datasheet=None,
    )
    text = draw(print_profile, slow)
    assert "pi 820 GFLOP/s bf16 (683 sustained)" in text
    assert "683 GFLOP/s, settled" in text
    assert "TFLOP/s" not in text
    assert "attainable GFLOP/s" in text
    expected, shown = draw(print_profile, msgspec.structs.replace(h200_profile, datasheet=None)), text
    for table in ("GEMM sweep", "Burst search", "Model ceiling"):
        rows, same = (t.replace("GFLOP/s", "TFLOP/s").split(table)[1].split("\n\n")[0] for t in (expected, shown))
        assert rows == same


@pytest.mark.parametrize(
    ("weight_bytes", "floor"), [(15_009_317_060, "3.407"), (5_732_000_000_000, "1,301")], ids=["H200's", "a CPU's"]
)
def test_decode_floors_have_four_digits_however_long_they_are(
    weight_bytes: int, floor: str, h200_profile: Profile, draw: Draw
) -> None:
    ceilings = [msgspec.structs.replace(c, weight_bytes=weight_bytes) for c in h200_profile.ceilings]
    (line,) = [
        line
        for line in draw(print_profile, msgspec.structs.replace(h200_profile, ceilings=ceilings)).splitlines()
        if "decode floor" in line
    ]
    assert line.split("decode floor")[1].split()[0] == floor


def test_a_soaked_time_shorter_than_the_unsoaked_is_explained_only_where_it_occurs(
    h200_profile: Profile, draw: Draw
) -> None:
    assert "soaked is the shorter" not in draw(print_profile, h200_profile)
    points = [
        CeilingPoint(m=32, ms_burst=4.138, ms_sustained=4.064),
        CeilingPoint(m=64, ms_burst=4.244, ms_sustained=4.205),
        CeilingPoint(m=128, ms_burst=4.535, ms_sustained=4.698),
    ]
    ceilings = [msgspec.structs.replace(h200_profile.ceilings[0], points=points)]
    text = draw(print_profile, msgspec.structs.replace(h200_profile, ceilings=ceilings), width=120)
    assert "soaked is the shorter at 32 and 64 tokens" in text


def test_a_shipped_profile_is_called_shipped_not_saved(h200_profile: Profile, draw: Draw) -> None:
    last = draw(print_profile, h200_profile, shipped="h200").splitlines()[-1]
    assert last.split() == ["shipped", "profile", "h200"]


@pytest.mark.parametrize(
    ("found", "says"), [(2, "after a rest; 2 shapes"), (5, "; 5 shapes"), (7, "; 5 best of 7 shapes")], ids=str
)
def test_a_search_says_how_many_of_its_shapes_are_shown(
    found: int, says: str, h200_profile: Profile, draw: Draw
) -> None:
    burst = next(t for t in h200_profile.trials if t.kernel == "gemm" and t.regime == "burst")
    searched = [msgspec.structs.replace(burst, m=1024 * (i + 1)) for i in range(found)]
    lines = draw(print_profile, msgspec.structs.replace(h200_profile, trials=searched), width=120).splitlines()
    (heading,) = [line for line in lines if line.startswith("Burst search")]
    assert heading.endswith(says)


@pytest.mark.parametrize(
    ("lacking", "workloads", "decode"),
    [
        pytest.param({"betas": [], "datasheet": None}, False, False, id="no-bandwidth-at-all"),
        pytest.param({"betas": []}, True, True, id="the-datasheet's-bandwidth"),
        pytest.param({"datasheet": None}, True, True, id="measured-bandwidth"),
        pytest.param({"betas": [], "datasheet": Datasheet(card="X", gbps=4800.0)}, False, True, id="no-pair-of-roofs"),
    ],
)
def test_a_table_without_a_single_figure_is_left_out(
    lacking: dict[str, object], workloads: bool, decode: bool, h200_profile: Profile, draw: Draw
) -> None:
    text = draw(print_profile, msgspec.structs.replace(h200_profile, **lacking))
    assert ("Where three workloads land" in text) is workloads
    assert ("What decode can reach" in text) is decode


def test_empty_profile_is_drawn_without_an_error(h200_profile: Profile, draw: Draw) -> None:
    bare = Profile(
        schema_version=1,
        method_version=1,
        created="2026-11-29T14:03:11+00:00",
        device=h200_profile.device,
        environment=h200_profile.environment,
    )
    assert "nothing was measured" in draw(print_profile, bare)


def test_every_shape_of_the_sweep_has_its_figure(draw: Draw) -> None:
    """A projection may itself be square: it is no other measurement of the square of that size."""
    profile, _ = store.load("h200")
    sweep = [t for t in profile.trials if t.kernel == "gemm" and t.regime == "median" and t.dtype == "bf16"]
    table = draw(print_profile, profile, width=120).split("GEMM sweep, bf16")[1].split("Burst search")[0]
    assert any(t.m == t.n == t.k and t.label != "square" for t in sweep)
    shown = re.findall(r"[\d,]+(?:\.\d+)?", table)
    assert [t for t in sweep if significant(t.tflops) not in shown] == []
