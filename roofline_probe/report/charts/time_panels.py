"""How a run went: fractions over time, and under them what the engine had to do."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import altair as alt

from roofline_probe.point import Point
from roofline_probe.report.charts import rows, theme
from roofline_probe.report.charts.panel import Panel

MOST_PERCENT = 130.0
"""Marks above it stand at the edge: one window of 400 % would press all others into a line."""


def time_panels(points: Sequence[Point], height: int = 140) -> list[Panel]:
    """Attained and roof fraction; running requests; tokens/s: over one axis, those that the log has figures for."""
    if not points:
        return []
    field, moments = rows.over_time(points)
    outside = rows.keep_inside(moments, MOST_PERCENT)
    axis = _Axis(field, moments)
    small = round(height * 0.45)
    wanted: list[tuple[bool, str, str, str, Callable[[_Axis, bool], Any], int]] = [
        (axis.has("attained_at", "roof_at"), "attained", "Attained and roof fraction, %",
         _caption(points, moments, outside), _fractions, height),
        (axis.has("running"), "batch", "Running requests", "", _running, small),
        (bool(axis.rates), "tokens", "Tokens/s", "rates under 1/s are not drawn", _tokens, small + 22),
    ]  # fmt: skip
    present = [panel[1:] for panel in wanted if panel[0]]
    return [
        Panel(name, title, caption, draw(axis, at == len(present) - 1), {"moments": moments}, tall)
        for at, (name, title, caption, draw, tall) in enumerate(present)
    ]


class _Axis:
    """The shared position axis: the server's clock, or line numbers where the log has none."""

    def __init__(self, field: str, moments: list[rows.Row]) -> None:
        self.clock, self.moments = field == "time", moments
        ats = [r["at"] for r in moments]
        self.domain = [min(r["from"] for r in moments), max(ats)]
        self.rates = [r[name] for r in moments for name in ("gen", "prompt") if r.get(name, 0) >= 1]
        self.kinds = [kind for kind in theme.KINDS if any(r["kind"] == kind for r in moments)]

    def has(self, *fields: str) -> bool:
        """Whether any row has one of the fields: Vega complains of an axis over nothing."""
        return any(name in r for r in self.moments for name in fields)

    def x(self, *, labels: bool) -> alt.X:
        """The encoding; ``labels`` only under the lowest panel."""
        scale = alt.Scale(domain=self.domain, nice=False)
        title = ("server's clock" if self.clock else "line of the log") if labels else None
        axis = alt.Axis(title=title, labels=labels, ticks=labels, grid=True, tickCount=5, format=",d")
        if self.clock:
            axis["values"], form = rows.clock_ticks(*self.domain)
            axis["labelExpr"] = f"utcFormat(datum.value, '{form}')"
        return alt.X("at:Q", scale=scale, axis=axis)

    @property
    def chart(self) -> alt.Chart:
        """The rows; ``when`` is the position as text for hover."""
        chart = alt.Chart(alt.NamedData("moments"))
        return chart.transform_calculate(when="utcFormat(datum.at, '%Y-%m-%d %H:%M:%S')") if self.clock else chart

    @property
    def hover(self) -> list[alt.Tooltip]:
        """Where a mark is: its line, and its moment where there is a clock."""
        line = alt.Tooltip("line:Q", title="log line")
        return [alt.Tooltip("when:N", title="server's clock"), line] if self.clock else [line]

    def kind_encodings(self, legend: alt.Legend | None) -> dict[str, Any]:
        """Colour and shape by kind."""
        colours = [theme.KIND_COLOURS[theme.KINDS.index(kind)] for kind in self.kinds]
        shapes = [theme.KIND_SHAPES[theme.KINDS.index(kind)] for kind in self.kinds]
        return {
            "color": alt.Color("kind:N", scale=alt.Scale(domain=self.kinds, range=colours), legend=legend),
            "shape": alt.Shape("kind:N", scale=alt.Scale(domain=self.kinds, range=shapes), legend=legend),
        }


def _decades(values: list[float]) -> list[float]:
    """Powers of ten around ``values``: a logarithmic axis with every line between them is a grey block."""
    low, high = (math.floor(math.log10(v)) for v in (min(values, default=1), max(values, default=1)))
    return [10.0**e for e in range(low, high + 2)]


def _y(field: str, ticks: list[float] | None = None, **scale: Any) -> alt.Y:
    axis = alt.Axis(title=None, minExtent=theme.AXIS_WIDTH, maxExtent=theme.AXIS_WIDTH, tickCount=4, format="~s")
    if ticks:
        axis["values"] = ticks
    return alt.Y(field, axis=axis, scale=alt.Scale(**scale))


def _fractions(axis: _Axis, last: bool) -> alt.LayerChart:
    base = axis.chart.transform_filter("datum.status == 'steady'")
    tooltip = [
        alt.Tooltip("kind:N"),
        *axis.hover,
        alt.Tooltip("attained:Q", title="attained, %"),
        alt.Tooltip("roof:Q", title="roof fraction, %"),
        alt.Tooltip("ms:Q", title="step, ms"),
        alt.Tooltip("steps:Q", title="windows here"),
    ]
    marks = {
        "roof_at": {"filled": False, "size": 14, "strokeWidth": 1, "opacity": 0.55},
        "attained_at": {"filled": True, "size": 26, "opacity": 0.9},
    }
    rule = alt.Chart(alt.NamedData("moments")).mark_rule(color=theme.FAINT, strokeDash=[4, 3])
    layers = [
        base.transform_filter(f"isValid(datum.{field})")
        .mark_point(**mark)
        .encode(x=axis.x(labels=last), y=_y(f"{field}:Q", zero=True), tooltip=tooltip, **axis.kind_encodings(None))
        for field, mark in marks.items()
        if axis.has(field)
    ]
    return alt.layer(rule.encode(y=alt.datum(100)), *layers)


def _running(axis: _Axis, last: bool) -> alt.Chart:
    return (
        axis.chart.transform_filter("isValid(datum.running)")
        .mark_rect(color=theme.FAINT, stroke=theme.FAINT, strokeWidth=0.5, clip=True)
        .encode(
            x=axis.x(labels=last),
            x2="from",
            y=_y("running:Q", zero=True),
            y2=alt.datum(0),
            tooltip=[alt.Tooltip("running:Q", title="running requests"), *axis.hover],
        )
    )


def _tokens(axis: _Axis, last: bool) -> alt.Chart:
    scale = alt.Scale(domain=["generated", "prompt"], range=[theme.BLUE, theme.VERMILLION])
    return (
        axis.chart.transform_fold(["gen", "prompt"], as_=["what", "rate"])
        .transform_filter("datum.rate >= 1")
        .transform_calculate(tokens="datum.what == 'gen' ? 'generated' : 'prompt'")
        .mark_point(filled=True, size=12, opacity=0.9)
        .encode(
            x=axis.x(labels=last),
            y=_y("rate:Q", _decades(axis.rates), type="log", nice=False),
            color=alt.Color("tokens:N", scale=scale, legend=alt.Legend(orient="top")),
            tooltip=[
                alt.Tooltip("tokens:N"),
                alt.Tooltip("rate:Q", title="tokens/s"),
                *axis.hover,
            ],
        )
    )


def _caption(points: Sequence[Point], moments: list[rows.Row], outside: int) -> str:
    text = "filled: attained; open: roof fraction; steady windows only"
    if len(moments) < len(points):
        text += f"; {len(points):,} windows averaged in {len(moments):,} marks"
    if outside:
        text += f"; {outside:,} above {MOST_PERCENT:g} % stand at the upper edge, hover tells their value"
    return text
