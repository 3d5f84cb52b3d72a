"""The pictures' specifications (golden) and the files made from them."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from roofline_probe.comparison import compare
from roofline_probe.errors import UsageError
from roofline_probe.point import Point, Roof, Summary
from roofline_probe.profile import Profile
from roofline_probe.report import chart
from roofline_probe.report.frames import bins_frame, trials_frame

pytest.importorskip("altair", reason="pictures need the plot extra")


@pytest.fixture(scope="session")
def compare_spec(roof: Roof, profile: Profile, points: list[Point], summary: Summary) -> dict[str, Any]:
    return chart.figure_spec(chart.compare_figure(roof, profile, points, summary))


def normalized(spec: dict[str, Any]) -> dict[str, Any]:
    """Without the schema's address and the counter behind names, which follow altair's version; two rows a data set."""
    plain: dict[str, Any] = json.loads(re.sub(r"(_on_colour)_\d+", r"\1", json.dumps(spec)))
    del plain["$schema"]
    plain["datasets"] = {
        name: {"rows": len(data), "first": data[:1], "last": data[-1:]} for name, data in plain["datasets"].items()
    }
    return plain


def test_compare_specification(compare_spec: dict[str, Any], same_as_golden: Callable[[str, Any], None]) -> None:
    same_as_golden("compare", normalized(compare_spec))


def test_profile_specification(profile: Profile, same_as_golden: Callable[[str, Any], None]) -> None:
    same_as_golden("profile", normalized(chart.figure_spec(chart.profile_figure(profile))))


def test_compare_shows_everything_promised(compare_spec: dict[str, Any]) -> None:
    text = json.dumps(compare_spec, ensure_ascii=False)
    roofs = {r["roof"] for r in compare_spec["datasets"]["roofs"]}
    assert roofs == {"roof", "other", "beta", "datasheet"}
    labels = [r["text"] for r in compare_spec["datasets"]["labels"]]
    assert labels == ["sustained 683", "burst 820", "datasheet 989"]
    assert compare_spec["datasets"]["slopes"][0]["text"].split("\n") == [
        "datasheet 4.8 TB/s", "read β 4.58 TB/s", "β 4.39 TB/s",
    ]  # fmt: skip
    for panel in ("Attained and roof fraction, %", "Running requests", "Tokens/s", "Decode step, ms"):
        assert panel in text


def test_measured_roof_is_the_one_percentages_divide_by(compare_spec: dict[str, Any], roof: Roof) -> None:
    corners = [r for r in compare_spec["datasets"]["roofs"] if r["roof"] == "roof"]
    assert corners[-1]["y"] == roof.pi_sustained_tflops == 683.0
    assert corners[1]["x"] == pytest.approx(683e12 / 4580e9, rel=1e-3)


def test_picture_is_1200_by_800(roof: Roof, profile: Profile, points: list[Point], summary: Summary) -> None:
    drawn = chart.png(chart.compare_figure(roof, profile, points, summary))
    width, height = (int.from_bytes(drawn[at : at + 4], "big") / 2 for at in (16, 20))
    assert 1100 <= width <= 1260
    assert 700 <= height <= 860


def test_svg_follows_the_readers_theme(profile: Profile) -> None:
    drawn = chart.svg(chart.profile_figure(profile))
    assert drawn.startswith("<svg")
    assert "prefers-color-scheme: dark" in drawn
    assert "http" not in re.sub(r"xmlns(:\w+)?=\"[^\"]+\"", "", drawn)


def test_markup_in_a_devices_name_stays_text(profile: Profile) -> None:
    device = msgspec.structs.replace(profile.device, name="<script>alert(1)</script>\x1b[31m")
    drawn = chart.svg(chart.profile_figure(msgspec.structs.replace(profile, device=device)))
    assert "<script" not in drawn
    assert "\x1b" not in drawn


@pytest.mark.parametrize(
    "missing",
    [
        pytest.param({"read_beta_gbps": None}, id="no-read-beta"),
        pytest.param({"pi_sustained_tflops": None}, id="no-soak"),
        pytest.param({"beta_gbps": None, "read_beta_gbps": None}, id="no-bandwidth"),
        pytest.param({"pi_burst_tflops": None, "pi_sustained_tflops": None}, id="no-peak"),
    ],
)
def test_roof_with_gaps_is_still_drawn(
    missing: dict[str, None], roof: Roof, points: list[Point], summary: Summary
) -> None:
    figure = chart.compare_figure(dataclasses.replace(roof, **missing), None, points, summary)
    assert chart.svg(figure).startswith("<svg")


def test_log_without_any_steady_step_is_still_drawn(roof: Roof, profile: Profile, points: list[Point]) -> None:
    idle = [p for p in points if p.step.status == "idle"]
    figure = chart.compare_figure(roof, profile, idle, Summary(kinds=(), bins=(), ranks=()))
    assert chart.svg(figure).startswith("<svg")


def test_profile_without_figures_is_refused(profile: Profile) -> None:
    with pytest.raises(UsageError, match="nothing to draw"):
        chart.profile_figure(msgspec.structs.replace(profile, peaks=[], betas=[]))


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        pytest.param("roof.gif", r"writes \.png, \.svg or \.html", id="unknown-suffix"),
        pytest.param("roof", r"writes \.png, \.svg or \.html", id="no-suffix"),
        pytest.param("nowhere/roof.png", "does not exist", id="no-folder"),
    ],
)
def test_bad_targets_are_refused_before_any_work(target: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=sentence):
        chart.check_plot_path(str(tmp_path / target))


def test_missing_extra_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chart.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'roofline-probe\[plot\]'"):
        chart.require_plot_extra()


@pytest.mark.parametrize("suffix", [pytest.param(s, id=s[1:]) for s in (".png", ".svg", ".html")])
def test_every_promised_format_is_written(suffix: str, profile: Profile, tmp_path: Path) -> None:
    target = tmp_path / f"roof{suffix}"
    chart.save(chart.profile_figure(profile), str(target))
    head = {".png": b"\x89PNG", ".svg": b"<svg", ".html": b"<!doctype html>"}[suffix]
    assert target.read_bytes().startswith(head)


def test_comparison_draws_itself_in_a_notebook() -> None:
    root = Path(__file__).parents[4] / "fixtures"
    result = compare(root / "logs/vllm/0.24.0-h200-graph-1s.log", root / "profiles/h200-reference.json")
    bundle = result.chart._repr_mimebundle_()
    shown = bundle[0] if isinstance(bundle, tuple) else bundle
    assert any("html" in kind or "vega" in kind for kind in shown)


def test_bins_and_trials_are_frames(profile: Profile, summary: Summary) -> None:
    pytest.importorskip("pandas", reason="frames need the frames extra")
    bins, trials = bins_frame(summary), trials_frame(profile)
    assert bins["attained_fraction"].isna().sum() == 1, "prefill of this sample has none: NA, not zero"
    assert bins.loc[bins["kind"] == "decode", "batch_low"].tolist() == [1, 8, 32, 128, 256]
    assert set(trials["dtype"]) == {"bf16", "tf32"}


def test_rate_by_tokens_shows_projections_only(profile: Profile) -> None:
    spec = chart.figure_spec(chart.profile_figure(profile))
    assert {r["label"] for r in spec["datasets"]["gemms"]} == {"qkv", "down_proj"}, "no squares, no searched shapes"


def test_figures_on_bars_keep_their_colour_on_a_dark_page(profile: Profile) -> None:
    drawn = chart.svg(chart.profile_figure(profile))
    on_bars = re.findall(r'class="mark-text role-mark (\w*_on_colour\w*)"', drawn)
    assert len(on_bars) == 2
    assert ':not([class*="_on_colour"])' in drawn


@pytest.mark.parametrize(
    ("changes", "labels"),
    [
        pytest.param({"choice": "burst"}, ["sustained 683", "burst 820", "datasheet 989"], id="judged-by-burst"),
        pytest.param(
            {"origin": "datasheet", "pi_burst_tflops": 989.4, "pi_sustained_tflops": None}, ["datasheet 989"],
            id="judged-by-the-datasheet",
        ),
        pytest.param(
            {"origin": "given", "pi_burst_tflops": 8123.4, "pi_sustained_tflops": None},
            ["datasheet 989", "given 8,123"], id="given",
        ),
    ],
)  # fmt: skip
def test_every_pi_is_labelled_once(
    changes: dict[str, Any], labels: list[str], roof: Roof, profile: Profile, points: list[Point], summary: Summary
) -> None:
    figure = chart.compare_figure(dataclasses.replace(roof, **changes), profile, points, summary)
    assert [r["text"] for r in figure.main.datasets["labels"]] == labels
