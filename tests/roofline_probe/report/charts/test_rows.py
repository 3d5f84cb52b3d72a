"""What the pictures draw, checked without a chart library."""

from __future__ import annotations

import dataclasses
import itertools
import math
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_probe.point import Bin, Point, Summary
from roofline_probe.profile import Profile
from roofline_probe.report import text
from roofline_probe.report.charts import rows


def changed(point: Point, **step: Any) -> Point:
    return dataclasses.replace(point, step=dataclasses.replace(point.step, **step))


def many(points: list[Point], count: int) -> list[Point]:
    """``points`` over and over, a second apart."""
    start = datetime(2026, 11, 29, 14)
    return [
        changed(points[i % len(points)], line_no=i, time=(start + timedelta(seconds=i)).isoformat())
        for i in range(count)
    ]


def test_roof_meets_at_the_ridge() -> None:
    corners = rows.roof_corners(989.4, 3350.0, 0.1, 1e4)
    assert corners[0] == (0.1, pytest.approx(0.335))
    assert corners[1] == (pytest.approx(295.34, abs=0.01), 989.4)
    assert corners[2] == (1e4, 989.4)


@pytest.mark.parametrize(
    ("pi", "beta", "corners"),
    [
        pytest.param(None, None, [], id="nothing-known"),
        pytest.param(800.0, None, [(1.0, 800.0), (10.0, 800.0)], id="no-bandwidth"),
        pytest.param(None, 4000.0, [(1.0, 4.0), (10.0, 40.0)], id="no-peak"),
    ],
)
def test_roof_with_a_part_missing(pi: float | None, beta: float | None, corners: list[tuple[float, float]]) -> None:
    assert rows.roof_corners(pi, beta, 1.0, 10.0) == corners


def test_reference_workloads_stand_on_the_h100_datasheet_roof() -> None:
    placed = {r["workload"]: r for r in rows.workload_rows(989.4, 3350.0, "bf16")}
    assert [(r["x"], r["y"]) for r in placed.values()] == [(1.0, 3.35), (4.0, 13.4), (1024.0, 989.4)]
    assert [r["bound"] for r in placed.values()] == ["memory", "memory", "compute"]


def test_an_fp8_workload_has_twice_the_intensity() -> None:
    assert [r["x"] for r in rows.workload_rows(1550.0, 4580.0, "fp8")] == [2.0, 8.0, 2048.0]


def test_short_log_is_drawn_window_by_window(points: list[Point]) -> None:
    drawn = rows.step_rows(points)
    assert len(drawn) == len(rows.steady(points))
    assert all(r["steps"] == 1 and r["seconds"] == 1.0 for r in drawn)


def test_idle_windows_are_no_marks(points: list[Point]) -> None:
    assert any(p.step.status == "idle" for p in points)
    assert {r["line"] for r in rows.step_rows(points)} == {p.step.line_no for p in points if p.step.status == "steady"}


def test_point_without_intensity_has_no_place(points: list[Point]) -> None:
    assert rows.step_rows([dataclasses.replace(points[0], intensity=None)]) == []


def test_long_log_loses_no_window_and_no_second(points: list[Point]) -> None:
    log = many(points, 20_000)
    drawn = rows.step_rows(log)
    assert len(drawn) <= rows.MARKS_MAX
    assert sum(r["steps"] for r in drawn) == len(rows.steady(log))
    assert sum(r["seconds"] for r in drawn) == pytest.approx(len(rows.steady(log)), rel=1e-3)


def test_merged_marks_are_within_a_cell_of_their_windows(points: list[Point]) -> None:
    cell = 10 ** (1 / rows.CELLS_PER_DECADE)
    for group in rows.merged(rows.placeable(points)):
        intensities = [p.intensity for p in group if p.intensity]
        assert max(intensities) / min(intensities) <= cell * 1.0001
        assert len({p.step.kind for p in group}) == 1


def test_time_rows_are_work_over_time(points: list[Point]) -> None:
    two = [changed(points[0], window_s=1.0, gen_tok_s=100.0), changed(points[1], window_s=3.0, gen_tok_s=200.0)]
    assert rows.weighted([(p.step.gen_tok_s, p) for p in two]) == pytest.approx(175.0)


def test_long_log_over_time_keeps_order_and_size(points: list[Point]) -> None:
    log = many(points, 20_000)
    field, moments = rows.over_time(log)
    assert field == "time"
    assert len(moments) <= rows.MARKS_MAX + 8
    assert sum(r["steps"] for r in moments) == 20_000
    assert all(r["from"] < r["at"] for r in moments)


def test_log_without_clock_stands_over_its_lines(points: list[Point]) -> None:
    field, moments = rows.over_time([changed(p, time=None) for p in points[:5]])
    assert field == "line"
    assert [r["at"] for r in moments] == [p.step.line_no for p in points[:5]]


def test_server_clock_is_shown_as_logged() -> None:
    assert rows.epoch_ms("2026-11-29T14:00:00+09:00") == rows.epoch_ms("2026-11-29T14:00:00")
    assert rows.epoch_ms("not a time") is None


@pytest.mark.parametrize(
    ("seconds", "form"),
    [
        pytest.param(40, "%H:%M:%S", id="seconds"),
        pytest.param(3600, "%H:%M", id="an-hour"),
        pytest.param(30 * 3600, "%d %b %H:%M", id="a-day"),
        pytest.param(9 * 86400, "%d %b", id="days"),
    ],
)
def test_clock_ticks_are_round_and_few(seconds: int, form: str) -> None:
    low = 1_795_960_800_123.0
    ticks, found = rows.clock_ticks(low, low + seconds * 1000)
    assert found == form
    assert 2 <= len(ticks) <= 7
    assert all(low <= tick <= low + seconds * 1000 for tick in ticks)
    assert len({b - a for a, b in itertools.pairwise(ticks)}) == 1


def test_outliers_move_to_the_edge_and_keep_their_value() -> None:
    moments: list[rows.Row] = [{"attained": 85.0, "roof": 60.0}, {"attained": 400.0, "roof": 350.0}, {}]
    assert rows.keep_inside(moments, 130.0) == 1
    assert moments[1] == {"attained": 400.0, "attained_at": 130.0, "roof": 350.0, "roof_at": 130.0}
    assert moments[0]["attained_at"] == 85.0


def test_parts_add_up_to_the_step(summary: Summary) -> None:
    decode = [b for b in summary.bins if b.kind == "decode"]
    for b in decode:
        parts = list(rows.part_rows([b]))
        assert sum(r["ms"] for r in parts) == pytest.approx(b.step_ms, rel=1e-3)


def test_attained_over_a_bar_is_rounded_once_as_on_the_terminal(summary: Summary) -> None:
    b = dataclasses.replace(next(b for b in summary.bins if b.kind == "decode"), attained_fraction=0.8146)
    assert {r["attained"] for r in rows.part_rows([b])} == {text.percent(0.8146)} == {"81 %"}


def test_bins_of_two_engines_are_not_stacked_on_each_other(summary: Summary) -> None:
    one = summary.bins[0]
    labels = {r["bin"] for r in rows.part_rows([one, dataclasses.replace(one, engine="sglang")])}
    assert len(labels) == 2


@pytest.mark.parametrize(
    ("context", "label"),
    [
        pytest.param(None, "32", id="unknown"),
        pytest.param(300, "32 · <1k", id="short"),
        pytest.param(2000, "32 · 1k-4k", id="middle"),
        pytest.param(200_000, "32 · ≥64k", id="long"),
    ],
)
def test_bin_labels(summary: Summary, context: int | None, label: str) -> None:
    b: Bin = dataclasses.replace(summary.bins[2], context_low=context, context_high=context)
    assert rows.bin_label(b) == label


def test_ceiling_of_another_model_is_not_drawn(profile: Profile) -> None:
    assert rows.ceiling_of(profile, "bf16", "llama-3.1-8b") is not None
    assert rows.ceiling_of(profile, "bf16", "qwen3-8b") is None
    assert rows.ceiling_of(profile, "bf16", "llama-3.1-8b", tp=2) is None
    assert rows.ceiling_of(profile, "fp8") is None


def test_only_trials_of_the_dtype_are_placed(profile: Profile) -> None:
    placed = rows.trial_rows(profile, "bf16")
    assert len(placed) == 19
    assert {r["y"] for r in rows.trial_rows(profile, "tf32")} == {390.0}


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_figures_never_hold_what_json_cannot(value: float) -> None:
    shown = rows.figures(value)
    assert shown is None or math.isfinite(shown)
