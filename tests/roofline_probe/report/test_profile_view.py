"""A profile as ``measure`` and ``show`` print it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from roofline_probe.profile import Profile, ProfileWarning
from roofline_probe.report.profile_view import print_profile
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


def test_empty_profile_is_drawn_without_an_error(h200_profile: Profile, draw: Draw) -> None:
    bare = Profile(
        schema_version=1,
        method_version=1,
        created="2026-11-29T14:03:11+00:00",
        device=h200_profile.device,
        environment=h200_profile.environment,
    )
    assert "nothing was measured" in draw(print_profile, bare)
