"""The report of ``compare`` as people see it: golden text at three widths, and what must hold at any width."""

from __future__ import annotations

import dataclasses
import io
import unicodedata
from collections.abc import Callable

import pytest

from roofline_probe.comparison import Comparison
from roofline_probe.point import Bin, Summary
from roofline_probe.report.console import make_console
from roofline_probe.report.terminal import print_report

Draw = Callable[..., str]


def with_summary(comparison: Comparison, summary: Summary) -> Comparison:
    comparison.analysis.summary = summary
    return comparison


@pytest.mark.parametrize("width", [80, 120, 200], ids=["80-columns", "120-columns", "200-columns"])
def test_report_is_as_agreed_at_three_widths(
    width: int, comparison: Comparison, draw: Draw, golden: Callable[[str, str], None]
) -> None:
    golden(f"compare-{width}", draw(print_report, comparison, width=width))


@pytest.mark.parametrize("width", [40, 60, 79, 80, 100, 119, 120, 150, 200])
def test_no_line_is_wider_than_the_window(width: int, comparison: Comparison, draw: Draw) -> None:
    lines = draw(print_report, comparison, width=width, all_steps=True).splitlines()
    assert max(_cells(line.rstrip()) for line in lines) <= width


def _cells(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


@pytest.mark.parametrize("width", [80, 120, 200])
def test_no_cell_of_a_table_is_cut(width: int, comparison: Comparison, draw: Draw) -> None:
    assert "…" not in draw(print_report, comparison, width=width)


def test_roof_comes_first_then_the_answer_then_the_tables(comparison: Comparison, draw: Draw) -> None:
    text = draw(print_report, comparison)
    places = [text.index(mark) for mark in ("roof", "83 % attained", "By kind", "Left out", "Take care")]
    assert places == sorted(places)


def test_assumed_device_and_both_denominators_are_named(comparison: Comparison, draw: Draw) -> None:
    text = draw(print_report, comparison, width=200)
    assert "NVIDIA H200 (assumed: no log names its GPU), measured 2026-11-29, bf16 as the log says" in text
    assert "sustained pi 683 TFLOP/s (burst 820) · read beta 4.62 TB/s for decode, beta 4.41 TB/s for the rest" in text


def test_prefill_is_judged_against_pi_and_decode_by_its_step(comparison: Comparison, draw: Draw) -> None:
    text = draw(print_report, comparison)
    assert "83 % attained" in text
    assert "90 % of sustained pi" in text


def test_a_fraction_above_one_is_shown_as_it_is(
    comparison: Comparison, summary: Summary, new_bin: Callable[..., Bin], draw: Draw
) -> None:
    row = new_bin("prefill", recounted_tflops=800.0, compute_fraction=1.17, roof_fraction=1.17, tok_s=1.0)
    text = draw(print_report, with_summary(comparison, dataclasses.replace(summary, kinds=(row,), bins=(row,))))
    assert "117 % of sustained pi" in text


def test_unknown_figures_are_dashes_and_never_zero(
    comparison: Comparison, summary: Summary, new_bin: Callable[..., Bin], draw: Draw
) -> None:
    row = new_bin("decode", batch_low=4, batch_high=4, tok_s=100.0)
    text = draw(print_report, with_summary(comparison, dataclasses.replace(summary, kinds=(row,), bins=(row,))))
    (line,) = [line for line in text.splitlines() if line.strip().startswith("decode 4")]
    assert line.split() == ["decode", "4", "10", "100", "–", "–", "–", "–", "–"]


def test_estimated_parts_are_marked(
    comparison: Comparison, summary: Summary, new_bin: Callable[..., Bin], draw: Draw
) -> None:
    row = new_bin("decode", step_ms=5.0, gemm_ms=3.1, kv_ms=0.9, rest_ms=1.0, attained_fraction=0.8, estimated=True)
    text = draw(print_report, with_summary(comparison, dataclasses.replace(summary, kinds=(row,), bins=(row,))))
    assert "~80 % attained" in text
    assert "~80%" in text


def test_engines_own_count_stands_beside_the_recount_at_every_width(comparison: Comparison, draw: Draw) -> None:
    assert "As the engine counts it, and recounted" in draw(print_report, comparison, width=80)
    assert "engine's" in draw(print_report, comparison, width=200)


def test_engine_basis_is_said_where_nothing_is_recounted(
    comparison: Comparison, summary: Summary, new_bin: Callable[..., Bin], draw: Draw
) -> None:
    row = new_bin("decode", engine_tflops=20.0, engine_gbps=3000.0, bandwidth_fraction=0.65, roof_fraction=0.65)
    text = draw(print_report, with_summary(comparison, dataclasses.replace(summary, kinds=(row,), bins=(row,))))
    assert "as the engine counts it" in text
    assert "3,000" in text


def test_ranks_are_listed_slowest_first(
    comparison: Comparison, summary: Summary, new_bin: Callable[..., Bin], draw: Draw
) -> None:
    ranks = tuple(new_bin("decode", rank=f"DP{n}", attained_fraction=f) for n, f in enumerate((0.9, 0.7, 0.8)))
    text = draw(print_report, with_summary(comparison, dataclasses.replace(summary, ranks=ranks)))
    assert text.index("DP1") < text.index("DP2") < text.index("DP0")


def test_link_has_a_column_only_where_it_takes_time(
    comparison: Comparison, summary: Summary, new_bin: Callable[..., Bin], draw: Draw
) -> None:
    parts = {"step_ms": 5.0, "gemm_ms": 2.5, "kv_ms": 0.5, "rest_ms": 0.8, "attained_fraction": 0.84}
    alone = (new_bin("decode", **parts, link_ms=0.0),)
    paired = (new_bin("decode", **parts, link_ms=1.2),)
    assert "link" not in draw(print_report, with_summary(comparison, dataclasses.replace(summary, bins=alone)))
    assert "link" in draw(print_report, with_summary(comparison, dataclasses.replace(summary, bins=paired)))


def test_a_step_whose_rest_is_unknown_has_no_bar(
    comparison: Comparison, summary: Summary, new_bin: Callable[..., Bin], draw: Draw
) -> None:
    """Without the KV cache's size what the engine adds cannot be told: dots would draw it all the same."""
    unknown = (new_bin("decode", step_ms=11.1, gemm_ms=0.73, kv_ms=None, rest_ms=None, attained_fraction=None),)
    text = draw(print_report, with_summary(comparison, dataclasses.replace(summary, bins=unknown)))
    table = text.partition("A step taken apart")[2].partition("As the engine counts it")[0]
    assert "0.73" in table
    assert not {"█", "·"} & set(table)


def test_every_step_is_shown_and_the_left_out_ones_with_their_reason(comparison: Comparison, draw: Draw) -> None:
    text = draw(print_report, comparison, all_steps=True)
    assert text.count("14:25:0") == 3
    assert "idle: nothing ran" in text


def test_untrusted_text_reaches_the_terminal_escaped(comparison: Comparison, draw: Draw) -> None:
    nasty = "evil\x1b]0;owned\x07[bold]\u202e-model"
    comparison.analysis.facts[0] = dataclasses.replace(comparison.facts[0], model=nasty)
    comparison.analysis.report.dropped["\x1b[2Jcleared"] = 1
    text = draw(print_report, comparison, width=200)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[bold]" in text


def test_colour_is_off_when_asked_and_blocks_give_way_to_ascii(
    comparison: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="latin-1", errors="replace")
    print_report(comparison, make_console(file, 80))
    file.flush()
    shown = raw.getvalue()
    assert b"\x1b[3" not in shown
    assert b"####" in shown
