"""``probe diff`` on a terminal: golden text at three widths, from the sample that the pictures use."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from roofline_probe.diff.collect import collect
from roofline_probe.diff.logs import Change, LogDiff, Side, diff_logs
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


@pytest.mark.parametrize("width", [pytest.param(w, id=f"{w}-columns") for w in (80, 120)])
def test_a_context_that_moved_stands_beside_the_figures_that_it_moved(width: int, changed: LogDiff, draw: Draw) -> None:
    """A bin 3 % slower like for like and yet of shorter steps, since its contexts are."""
    change = next(c for c in changed.bins if c.pace)
    shorter = {**change.changes, "context": Change(700.0, 570.0, -130.0, relative=570 / 700 - 1)}
    diff = dataclasses.replace(changed, bins=(dataclasses.replace(change, changes=shorter),))
    shown = " ".join(draw(print_log_diff, diff, width=width).split())
    for text in (shown, markdown(diff).replace("\\", "")):
        assert "700 -> 570" in text
        assert "mean context 700 -> 570;" in text
        assert "like for like decode" in text
        assert "slower % compares windows at the same batch and context, within 10 %" in text


def test_a_bin_without_like_windows_says_so_and_explains_no_pace(changed: LogDiff, draw: Draw) -> None:
    unlike = dataclasses.replace(next(c for c in changed.bins if c.pace), pace=None, unlike=True)
    diff = dataclasses.replace(changed, bins=(unlike,))
    for shown in (draw(print_log_diff, diff, width=120), markdown(diff)):
        assert "not alike" in shown
        assert "slower % compares" not in shown


@pytest.mark.parametrize("width", [pytest.param(w, id=f"{w}-columns") for w in (60, 80, 100, 120)])
def test_what_decides_is_shown_at_every_width_and_so_are_the_windows_of_a_thin_bin(
    width: int, changed: LogDiff, draw: Draw
) -> None:
    headers = " ".join(line for line in draw(print_log_diff, changed, width=width).splitlines() if "  kind " in line)
    for column in ("slower %", "step ms", *(("tok/s", "windows") if width >= 80 else ())):
        assert column in headers


def test_of_bins_that_cannot_be_judged_no_column_is_explained(changed: LogDiff, draw: Draw) -> None:
    thin = dataclasses.replace(changed, bins=tuple(c for c in changed.bins if c.thin))
    for shown in (draw(print_log_diff, thin, width=80), markdown(thin)):
        assert "What changed" not in shown
        assert "slower % compares" not in shown
        assert "kernel that became slower" not in shown


def test_a_long_path_stays_in_one_piece(changed: LogDiff, draw: Draw) -> None:
    path = f"/srv/{'benchmarks/' * 12}before.log"
    diff = dataclasses.replace(changed, before=dataclasses.replace(changed.before, name=path))
    assert f"before  {path}\n" in draw(print_log_diff, diff, width=80)


def test_diff_of_two_profiles(profile: Profile, draw: Draw, golden: Golden) -> None:
    found = diff_profiles(profile, profile, ("monday.json", "tuesday.json"))
    golden("diff-profiles", draw(print_profile_diff, found, width=80))
