"""The plan's picture: its lines are the law's, it stops where the KV cache does, its SLO is drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofline_probe import store, workloads
from roofline_probe.plan.answer import Plan, plan_without_log

pytest.importorskip("altair", reason="pictures need the plot extra")
pytest.importorskip("vl_convert", reason="pictures need the plot extra")

from roofline_probe.report import chart

PROFILE = Path(__file__).parents[3] / "fixtures/profiles/h200-reference.json"


def planned(tpot_ms: float | None = None) -> Plan:
    profile, _ = store.load(str(PROFILE))
    return plan_without_log(profile, workloads.MODELS["llama-3.1-8b"], "bf16", 1, 32, 2000, tpot_ms)


def test_lines_are_the_plan_s_own_steps() -> None:
    plan = planned()
    rows = chart.datasets(chart.plan_figure(plan))["plan"]
    assert {row["context"] for row in rows} == {f"{cell.context:,}" for cell in plan.grid[0]}
    row = next(r for r in rows if r["context"] == "2,000" and r["batch"] == 32)
    assert plan.step is not None
    assert row["step_ms"] == pytest.approx(plan.step.step_ms, abs=1e-3)


def test_the_slo_is_drawn_and_a_bound_is_called_one() -> None:
    figure = chart.plan_figure(planned(tpot_ms=12.0))
    assert chart.datasets(figure)["slo"] == [{"step_ms": 12.0, "label": "SLO 12 ms"}]
    assert "a bound" in figure.title


def test_it_renders_as_picture(tmp_path: Path) -> None:
    target = tmp_path / "plan.png"
    chart.save(chart.plan_figure(planned()), str(target))
    assert target.read_bytes().startswith(b"\x89PNG")
