"""The README's table of engine, recount and client, row by row: what it prints is what the tool and the client say."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from roofline_probe.comparison import compare
from roofline_probe.plan.answer import judged
from roofline_probe.plan.evidence import Collector, examine

LOGS = Path(__file__).parents[2] / "fixtures" / "logs"
README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
VLLM, SGLANG = "vllm/0.24.0-h200-graph-1s", "sglang/0.5.16-h200"
ROWS = [
    ("vLLM decode, batch 1", "01_dec_1_128_2600", "decode"),
    ("vLLM decode, batch 32", "03_dec_32_128_2400", "decode"),
    ("vLLM decode, batch 256", "05_dec_256_128_1200", "decode"),
    ("vLLM decode, batch 32, 4k prompts", "10_dec_32_4000_800", "decode"),
    ("vLLM prefill", "06_pre_16_15", "prefill"),
    ("vLLM mixed", "09_mix_64_15", "mixed"),
    ("SGLang decode, batch 1", "01_dec_1_128_1500", "decode"),
    ("SGLang decode, batch 32", "03_dec_32_128_1200", "decode"),
    ("SGLang decode, batch 256", "05_dec_256_128_700", "decode"),
    ("SGLang prefill", "06_pre_16_10", "prefill"),
]


def printed(row: str) -> list[str]:
    """The row's cells."""
    line = re.search(rf"^\| {re.escape(row)} \|(.*)\|$", README, flags=re.MULTILINE)
    assert line is not None, f"the README has no row {row!r}"
    return [cell.strip(" *").replace(",", "") for cell in line[1].split("|")]


def agrees(cell: str, figure: float | None) -> bool:
    """Whether ``cell`` is ``figure`` to the digits it shows; a dash is a figure that nobody knows."""
    if figure is None:
        return cell == "–"
    return abs(float(cell) - figure) <= (0.051 if "." in cell else 0.51)


@pytest.mark.parametrize(("row", "phase_name", "kind"), ROWS, ids=[row for row, _, _ in ROWS])
def test_a_row_says_what_was_sent_what_was_counted_and_how_near_the_roof_it_came(
    capture: Callable, total: Callable, row: str, phase_name: str, kind: str
) -> None:
    sglang = row.startswith("SGLang")
    run = capture(SGLANG if sglang else VLLM, "shipped")
    phase = run.phase(phase_name)
    points = run.points_in(phase, slack_s=0 if sglang else 1.0)
    work = [
        total(points, lambda p: p.step.tflops),
        total(points, lambda p: p.recounted_tflops),
        phase.flops / 1e12,
        total(points, lambda p: p.step.gbps) / 1e3 or None,
        total(points, lambda p: p.recounted_gbps) / 1e3,
        phase.bytes / 1e12 if phase.bytes else None,
    ]
    assert work[1] == pytest.approx(work[2], rel=0.05)
    if work[5] is not None:
        assert work[4] == pytest.approx(work[5], rel=0.05)
    steady = [p for p in points if p.step.status == "steady" and p.step.kind == kind]
    seconds = total(steady, lambda p: 1.0)
    share = max(total(steady, lambda p: p.compute_fraction), total(steady, lambda p: p.bandwidth_fraction)) / seconds
    step_ms = sum(p.step_ms * p.work.steps for p in steady)
    rest_ms = sum(p.rest_ms * p.work.steps for p in steady)
    figures = [*work, 100 * share, 100 * (1 - rest_ms / step_ms)]
    assert [agrees(cell, figure) for cell, figure in zip(printed(row), figures, strict=True)] == [True] * len(figures)


def test_the_plans_errors_are_those_that_leaving_each_regime_out_gives() -> None:
    said = re.search(
        r"vLLM ([\d.]+) % off typically\s+and ([\d.]+) % in the worst window; "
        r"SGLang ([\d.]+) % typically, ([\d.]+) % in the worst regime, ([\d.]+) %\s+in the worst window",
        README,
    )
    assert said is not None
    errors = {}
    for log in (VLLM, SGLANG):
        collected = Collector()
        result = compare(LOGS / f"{log}.log", "h200", keep_points=False, sink=collected.add)
        errors[log] = judged(examine(result.analysis.live.runs, collected))
    vllm, sglang = errors[VLLM], errors[SGLANG]
    figures = (vllm.typical, vllm.worst_window, sglang.typical, sglang.worst_regime, sglang.worst_window)
    assert [agrees(cell, 100 * figure) for cell, figure in zip(said.groups(), figures, strict=True)] == [True] * 5
