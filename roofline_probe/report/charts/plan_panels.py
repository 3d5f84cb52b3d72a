"""A plan over batch and context: step time against batch, and what each millisecond buys in tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import altair as alt

from roofline_probe.plan.answer import Plan
from roofline_probe.report.charts import theme
from roofline_probe.report.charts.panel import Panel

COLOURS = (theme.SKY, theme.BLUE, theme.GREEN, theme.ORANGE, theme.VERMILLION)
"""One a context, shortest first."""
_PER_OCTAVE = 4


def step_panel(plan: Plan, height: int = 600) -> Panel:
    """Step ms by batch, a line a context; the log's own windows and the SLO where there are any."""
    lines = list(_lines(plan))
    times = [line["step_ms"] for line in lines] + ([plan.slo.tpot_ms] if plan.slo is not None else [])
    scale = alt.Scale(type="log", domain=[0.85 * min(times), 1.15 * max(times)], nice=False)
    layers = [
        _base("plan", plan)
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("batch:Q", scale=alt.Scale(type="log", base=2), axis=alt.Axis(title="batch (sequences decoding)")),
            y=alt.Y("step_ms:Q", scale=scale, axis=alt.Axis(title="step, ms", tickCount=6)),
            tooltip=_tooltips(),
        )
    ]
    datasets: dict[str, list[dict[str, Any]]] = {"plan": lines}
    seen = _observed(plan)
    if seen:
        datasets["seen"] = seen
        layers.append(
            alt.Chart(alt.NamedData("seen"))
            .mark_point(size=28, filled=False, color=theme.FAINT)
            .encode(
                x="batch:Q",
                y="step_ms:Q",
                tooltip=[
                    alt.Tooltip("batch:Q"),
                    alt.Tooltip("mean_context:Q", title="context", format=",.0f"),
                    alt.Tooltip("step_ms:Q", title="measured step, ms", format=".2f"),
                ],
            )
        )
    if plan.slo is not None:
        datasets["slo"] = [{"step_ms": plan.slo.tpot_ms, "label": f"SLO {plan.slo.tpot_ms:g} ms"}]
        layers += _slo_layers()
    caption = "lines: the law, as far as there is room for the KV cache" + (
        "; rings: the log's own windows" if seen else ""
    )
    return Panel("plan", "Decode step by batch and context", caption, alt.layer(*layers), datasets, height)


def trade_panel(plan: Plan, height: int = 600) -> Panel:
    """Tokens/s per GPU against tokens/s per user: what one costs in the other."""
    chart = (
        _base("plan", plan)
        .mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=18))
        .encode(
            x=alt.X("tok_s_per_user:Q", axis=alt.Axis(title="tokens/s per user")),
            y=alt.Y("tok_s_per_gpu:Q", axis=alt.Axis(title="tokens/s per GPU", minExtent=theme.AXIS_WIDTH)),
            order="batch:Q",
            tooltip=_tooltips(),
        )
    )
    caption = "each dot a batch; to the left more users at once, each of them slower"
    return Panel("trade", "Throughput against speed", caption, chart, {"plan": list(_lines(plan))}, height)


def _base(name: str, plan: Plan) -> alt.Chart:
    contexts = [f"{step.context:,}" for step in plan.grid[0]]
    scale = alt.Scale(domain=contexts, range=list(COLOURS[: len(contexts)]))
    colour = alt.Color("context:N", scale=scale, sort=contexts, legend=alt.Legend(title="context tokens"))
    return alt.Chart(alt.NamedData(name)).encode(color=colour)


def _tooltips() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("batch:Q"),
        alt.Tooltip("context:N"),
        alt.Tooltip("step_ms:Q", title="step, ms", format=".2f"),
        alt.Tooltip("tok_s_per_gpu:Q", title="tok/s per GPU", format=",.0f"),
        alt.Tooltip("tok_s_per_user:Q", title="tok/s per user", format=".1f"),
    ]


def _slo_layers() -> list[alt.Chart]:
    base = alt.Chart(alt.NamedData("slo")).encode(y="step_ms:Q")
    return [
        base.mark_rule(color=theme.INK, strokeDash=[5, 4]),
        base.mark_text(align="left", baseline="bottom", dx=4, dy=-3).encode(x=alt.value(0), text="label:N"),
    ]


def _lines(plan: Plan) -> Iterator[dict[str, Any]]:
    """Batches closely enough for a smooth line, up to the grid's largest or what there is room for."""
    largest = plan.grid[-1][0].batch
    octaves = largest.bit_length() * _PER_OCTAVE
    batches = sorted({round(2 ** (i / _PER_OCTAVE)) for i in range(octaves + 1)})
    for cell in plan.grid[0]:
        capacity = plan.room.batch(cell.context)
        limit = largest if capacity is None else min(largest, capacity)
        for batch in (b for b in batches if b <= limit):
            step = plan.model.step(batch, cell.context)
            yield {
                "context": f"{cell.context:,}",
                "batch": batch,
                "step_ms": round(step.step_ms, 4),
                "tok_s_per_gpu": round(step.tok_s_per_gpu, 1),
                "tok_s_per_user": round(step.tok_s_per_user, 2),
            }


def _observed(plan: Plan) -> list[dict[str, Any]]:
    if plan.evidence is None:
        return []
    return [
        {"batch": o.batch, "mean_context": round(o.context), "step_ms": round(o.step_ms, 4)}
        for o in plan.evidence.observations
    ]
