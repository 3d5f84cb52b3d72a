"""``probe diff`` on a terminal: golden text at three widths, from the sample that the pictures use."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from roofline_probe.diff.collect import collect
from roofline_probe.diff.logs import Basis, LogDiff, Pace, Side, diff_logs
from roofline_probe.diff.profiles import diff_profiles
from roofline_probe.point import Point
from roofline_probe.profile import Profile
from roofline_probe.report.diff_view import markdown, print_log_diff, print_profile_diff

Draw = Callable[..., str]
Golden = Callable[[str, str], None]


def slower(point: Point, by_ms: float) -> Point:
    """The same window after the engine's own part of the step grew."""
    if point.step_ms is None or point.rest_ms is None or point.work is None:
        return point
    step_ms = point.step_ms + by_ms
    factor = point.step_ms / step_ms
    rate = (point.step.gen_tok_s or 0.0) * factor
    work = dataclasses.replace(point.work, steps=1e3 / step_ms, decode_tokens=point.work.decode_tokens * factor)
    return dataclasses.replace(
        point, step=dataclasses.replace(point.step, gen_tok_s=rate), work=work, step_ms=step_ms,
        rest_ms=point.rest_ms + by_ms, attained_fraction=(point.attained_fraction or 0.0) * factor,
        recounted_tflops=(point.recounted_tflops or 0.0) * factor,
    )  # fmt: skip


@pytest.fixture(scope="session")
def changed(points: list[Point]) -> LogDiff:
    """Half a millisecond more a step at batch 32 and above; batch 1 is seen too briefly afterwards."""
    after = [slower(p, 0.5) if (p.batch or 0) >= 32 else p for p in points[5:]]
    sides = [
        Side(name, "vllm", version, "Meta-Llama-3-8B", "bf16", None, 1, "NVIDIA H200", len(rows))
        for name, version, rows in (("before.log", "0.24.0", points), ("after.log", "0.25.0", after))
    ]
    return diff_logs(collect(points), collect(after), (sides[0], sides[1]))


@pytest.mark.parametrize("width", [pytest.param(w, id=f"{w}-columns") for w in (80, 120, 200)])
def test_diff_of_two_logs(width: int, changed: LogDiff, draw: Draw, golden: Golden) -> None:
    golden(f"diff-{width}", draw(print_log_diff, changed, width=width))


def test_diff_as_markdown(changed: LogDiff, golden: Golden) -> None:
    golden("diff-markdown", markdown(changed))


@pytest.mark.parametrize(
    ("basis", "thin", "told"),
    [
        pytest.param("equal work", False, True, id="equal-work"),
        pytest.param("recounted rate", False, True, id="recounted-rate"),
        pytest.param("tokens/s", False, False, id="tokens-as-they-are"),
        pytest.param("step time", False, False, id="steps-as-they-are"),
        pytest.param("equal work", True, False, id="too-thin-to-show"),
    ],
)
def test_a_pace_beside_rates_that_it_is_not_the_change_of_is_explained(
    basis: Basis, thin: bool, told: bool, changed: LogDiff, draw: Draw
) -> None:
    """A bin whose mean batch grew: 3.3 % slower for the same work, and yet more tokens/s."""
    pace = Pace(basis, 0.033, 0.032, 0.034)
    diff = dataclasses.replace(changed, bins=(dataclasses.replace(changed.bins[1], pace=pace, thin=thin),))
    for shown in (draw(print_log_diff, diff, width=120), markdown(diff)):
        assert ("slower % compares equal work" in shown) is told


def test_diff_of_two_profiles(profile: Profile, draw: Draw, golden: Golden) -> None:
    found = diff_profiles(profile, profile, ("monday.json", "tuesday.json"))
    golden("diff-profiles", draw(print_profile_diff, found, width=80))
