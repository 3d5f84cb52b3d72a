"""The roofline itself: measured roofs, what was tried on the card, and the log's steps under them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from roofline_probe.point import Point, Roof
from roofline_probe.profile import ModelCeiling, Profile
from roofline_probe.report.charts import rows, theme
from roofline_probe.report.charts.panel import Panel
from roofline_probe.report.text import clean, significant

X_LOW = 0.12
"""FLOP/byte where the axis begins: room for the label of the batch-1 GEMV, which stands at 1."""
SLOPE_LABEL_AT = 5.0
"""The slope's label stands at the ridge's intensity over this."""
LABEL_GAP, PHONE_HEIGHT = 12, 440
"""Pixels between two roof labels at the least height a page draws this at: burst, sustained and datasheet lie closer
than a line of text."""


def roof_panel(
    roof: Roof,
    profile: Profile | None,
    points: Sequence[Point] = (),
    model: str | None = None,
    tp: int = 1,
    height: int = 620,
) -> Panel:
    """The roofline of ``roof``; trials, model ceiling and datasheet come from ``profile``, marks from ``points``."""
    data = _Data(roof, profile, points, rows.ceiling_of(profile, roof.dtype, model, tp))
    layers = [
        _roof_lines(data),
        _trials(data),
        _ceiling(data),
        _workloads(data),
        _steps(data),
        *_labels(data),
    ]
    chart = alt.layer(*(layer for layer in layers if layer is not None))
    return Panel("roofline", _title(roof), _caption(data), chart, data.sets, height)


class _Data:
    """Rows and domains of one roofline."""

    def __init__(
        self, roof: Roof, profile: Profile | None, points: Sequence[Point], ceiling: ModelCeiling | None
    ) -> None:
        self.roof = roof
        self.points = points
        self.steps = rows.step_rows(points)
        self.ceiling_name = clean(ceiling.model, 24) if ceiling else ""
        beta = roof.read_beta_gbps or roof.beta_gbps
        sheet = profile.datasheet if profile and roof.origin != "datasheet" else None
        self.sheet = (sheet.tflops.get(roof.dtype), sheet.gbps) if sheet else (None, None)
        self.sets: dict[str, list[dict[str, Any]]] = {
            "trials": rows.trial_rows(profile, roof.dtype) if profile else [],
            "ceiling": rows.ceiling_rows(ceiling),
            "workloads": rows.workload_rows(roof.pi_tflops, beta, roof.dtype),
            "steps": self.steps,
        }
        self.x, self.y = self._domains()
        self.sets["roofs"] = self._roofs(beta)

    def _domains(self) -> tuple[list[float], list[float]]:
        marks = [r for name in ("trials", "ceiling", "workloads", "steps") for r in self.sets[name]]
        xs = [r["x"] for r in marks] + [X_LOW, 4096]
        pis = [self.roof.pi_burst_tflops, self.roof.pi_sustained_tflops, self.sheet[0]]
        ys = [r["y"] for r in marks] + [pi for pi in pis if pi]
        return [min(xs), max(xs) * 1.3], [min(ys, default=1) / 1.6, max(ys, default=1) * 1.5]

    def other_pi(self) -> tuple[str, float | None]:
        """Burst where percentages divide by sustained, and the other way round; None where there is only one."""
        roof = self.roof
        name, pi = (
            ("burst", roof.pi_burst_tflops) if roof.pi_name == "sustained" else ("sustained", roof.pi_sustained_tflops)
        )
        return name, pi if pi != roof.pi_tflops else None

    def _roofs(self, beta: float | None) -> list[dict[str, Any]]:
        roof, (low, high) = self.roof, self.x
        lines = [
            ("roof", roof.pi_tflops, beta, low),
            ("beta", None, roof.beta_gbps if roof.read_beta_gbps else None, low),
            ("datasheet", *self.sheet, low),
        ]
        _, other = self.other_pi()
        if other:
            lines.append(("other", other, None, other * 1e3 / beta if beta else low))
        out = []
        for name, pi, slope, start in lines:
            end = high if pi or not roof.pi_tflops or not slope else roof.pi_tflops * 1e3 / slope
            out += [
                {"roof": name, "x": rows.figures(x, 5), "y": rows.figures(y, 5)}
                for x, y in rows.roof_corners(pi, slope, start, end)
            ]
        return out


def _x(data: _Data) -> alt.X:
    axis = alt.Axis(title="arithmetic intensity, FLOP/byte", values=_ticks(data.x, 2), format=",~g", labelFlush=False)
    return alt.X("x:Q", scale=alt.Scale(type="log", domain=data.x, nice=False), axis=axis)


def _y(data: _Data) -> alt.Y:
    axis = alt.Axis(title="TFLOP/s per GPU", values=_ticks(data.y, 10), format=",~g")
    return alt.Y("y:Q", scale=alt.Scale(type="log", domain=data.y, nice=False), axis=axis)


def _ticks(domain: list[float], base: int) -> list[float]:
    """Powers of ten, or every third power of two, inside the domain: few enough for a phone."""
    power = 8 if base == 2 else 10
    low, high = (math.log(d, power) for d in domain)
    return [float(power) ** e for e in range(math.ceil(low), math.floor(high) + 1)]


def _roof_lines(data: _Data) -> alt.Chart:
    order = ["roof", "other", "beta", "datasheet"]
    return (
        alt.Chart(alt.NamedData("roofs"))
        .mark_line(color=theme.INK, interpolate="linear", strokeJoin="round", clip=True)
        .encode(
            x=_x(data),
            y=_y(data),
            detail="roof:O",
            strokeDash=alt.StrokeDash(
                "roof:O", scale=alt.Scale(domain=order, range=[[1, 0], [1, 0], [1, 0], [7, 5]]), legend=None
            ),
            strokeWidth=alt.StrokeWidth("roof:O", scale=alt.Scale(domain=order, range=[2, 1.2, 0.8, 1.2]), legend=None),
        )
    )


def _trials(data: _Data) -> alt.Chart | None:
    if not data.sets["trials"]:
        return None
    return (
        alt.Chart(alt.NamedData("trials"))
        .mark_point(shape="diamond", size=16, filled=False, stroke=theme.FAINT, strokeWidth=1, opacity=0.7, clip=True)
        .encode(
            x=_x(data),
            y=_y(data),
            tooltip=[
                alt.Tooltip("label:N", title="trial"),
                alt.Tooltip("shape:N", title="M x N x K"),
                alt.Tooltip("y:Q", title="TFLOP/s"),
                alt.Tooltip("x:Q", title="FLOP/byte"),
                alt.Tooltip("regime:N"),
                alt.Tooltip("by:N", title="implementation"),
            ],
        )
    )


def _ceiling(data: _Data) -> alt.LayerChart | None:
    if not data.sets["ceiling"]:
        return None
    base = alt.Chart(alt.NamedData("ceiling")).encode(x=_x(data), y=_y(data))
    tooltip = [
        alt.Tooltip("m:Q", title="tokens (M)"),
        alt.Tooltip("ms:Q", title="all projections, ms"),
        alt.Tooltip("y:Q", title="TFLOP/s"),
        alt.Tooltip("weights:Q", title="weights, GB/s"),
    ]
    return alt.layer(
        base.mark_line(color=theme.PURPLE, strokeWidth=2, clip=True),
        base.mark_point(shape="circle", filled=True, size=30, color=theme.PURPLE, opacity=1, clip=True).encode(
            tooltip=tooltip
        ),
    )


def _workloads(data: _Data) -> alt.LayerChart | None:
    if not data.sets["workloads"]:
        return None
    base = alt.Chart(alt.NamedData("workloads")).encode(x=_x(data), y=_y(data))
    tooltip = [
        alt.Tooltip("workload:N", title="reference workload"),
        alt.Tooltip("x:Q", title="FLOP/byte"),
        alt.Tooltip("y:Q", title="attainable TFLOP/s"),
        alt.Tooltip("bound:N", title="bound by"),
    ]
    point = base.mark_point(
        shape="diamond", filled=True, size=110, color=theme.INK, opacity=1, stroke="white", strokeWidth=1
    )
    slope = base.transform_filter("datum.bound == 'memory'")
    flat = base.transform_filter("datum.bound == 'compute'")
    top = data.y[1] / 1.25  # above all roofs: below them are the marks of prefill
    return alt.layer(
        point.encode(tooltip=tooltip),
        slope.mark_text(align="right", dx=-9, dy=-8).encode(text="workload:N"),
        flat.mark_rule(color=theme.FAINT, strokeDash=[1, 3]).encode(y2=alt.datum(top)),
        flat.mark_text(align="center", dy=-6).encode(y=alt.datum(top), text="workload:N"),
    )


def _steps(data: _Data) -> alt.Chart | None:
    if not data.steps:
        return None
    present = [kind for kind in theme.KINDS if any(r["kind"] == kind for r in data.steps)]
    colours = [theme.KIND_COLOURS[theme.KINDS.index(kind)] for kind in present]
    shapes = [theme.KIND_SHAPES[theme.KINDS.index(kind)] for kind in present]
    longest = max(r["seconds"] for r in data.steps)
    return (
        alt.Chart(alt.NamedData("steps"))
        .mark_point(filled=True, clip=True)
        .encode(
            x=_x(data),
            y=_y(data),
            color=alt.Color("kind:N", scale=alt.Scale(domain=present, range=colours), legend=alt.Legend()),
            shape=alt.Shape("kind:N", scale=alt.Scale(domain=present, range=shapes), legend=alt.Legend()),
            size=alt.Size("seconds:Q", scale=alt.Scale(domain=[0, longest], range=[10, 120]), legend=None),
            opacity=alt.value(0.75),
            tooltip=_step_tooltip(),
        )
    )


def _step_tooltip() -> list[alt.Tooltip]:
    named = [
        ("kind:N", "kind"),
        ("line:Q", "log line"),
        ("steps:Q", "windows here"),
        ("seconds:Q", "seconds"),
        ("batch:Q", "batch"),
        ("context:Q", "context"),
        ("ms:Q", "step, ms"),
        ("y:Q", "TFLOP/s"),
        ("x:Q", "FLOP/byte"),
        ("attained:Q", "attained, %"),
        ("roof:Q", "roof fraction, %"),
    ]
    return [alt.Tooltip(field, title=title) for field, title in named]


# ---- labels ----------------------------------------------------------------------------------------------------------


def _labels(data: _Data) -> list[alt.Chart]:
    named = [(data.roof.pi_name, data.roof.pi_tflops), data.other_pi(), ("datasheet", data.sheet[0])]
    known = sorted(((f"{name} {significant(pi)}", pi) for name, pi in named if pi), key=lambda pair: pair[1])
    data.sets["labels"] = _spread(known, data)
    data.sets["slopes"] = _slope_labels(data)
    text = alt.Chart(alt.NamedData("labels")).mark_text(align="left", dx=5, fontSize=11).encode(text="text:N")
    slopes = alt.Chart(alt.NamedData("slopes")).encode(x=_x(data), y=_y(data), text="text:N")
    return [
        text.encode(x=_x(data), y=_y(data)),
        slopes.mark_text(align="right", baseline="bottom", dx=-8, dy=_block_top(data), lineBreak="\n"),
    ]


def _spread(known: list[tuple[str, float]], data: _Data) -> list[dict[str, Any]]:
    """Labels at the right end of their roofs, moved apart (upwards) where the roofs are closer than the text."""
    per_pixel = (math.log(data.y[1]) - math.log(data.y[0])) / PHONE_HEIGHT
    placed, last = [], -math.inf
    for text, value in known:
        last = max(math.log(value), last + LABEL_GAP * per_pixel)
        placed.append({"text": text, "x": data.x[1], "y": rows.figures(math.exp(last), 5)})
    return placed


def _slope_labels(data: _Data) -> list[dict[str, Any]]:
    """Bandwidths in words, left of the slope: nothing can be measured there."""
    read = data.roof.read_beta_gbps if data.roof.read_beta_gbps != data.roof.beta_gbps else None
    named = [("datasheet", data.sheet[1]), ("read β", read), ("β", data.roof.beta_gbps)]
    text = "\n".join(f"{name} {gbps / 1e3:.3g} TB/s" for name, gbps in named if gbps)
    steepest = max((gbps for _, gbps in named if gbps), default=None)
    if steepest is None:
        return []
    x = (data.roof.pi_tflops or steepest / 10) * 1e3 / steepest / SLOPE_LABEL_AT
    return [{"text": text, "x": rows.figures(x), "y": rows.figures(steepest / 1e3 * x)}]


def _block_top(data: _Data) -> int:
    """Pixels up to the first of the slope label's lines: Vega lets a block of text grow downwards."""
    lines: int = sum(row["text"].count("\n") for row in data.sets["slopes"])
    return 2 - 13 * lines


def _title(roof: Roof) -> str:
    return f"Roofline of {clean(roof.device, 60)}, {roof.dtype}"


def _caption(data: _Data) -> str:
    roof = data.roof
    known = [name for name, figure in (("pi", roof.pi_tflops), ("beta", roof.read_beta_gbps)) if figure is not None]
    parts = [f"{' and '.join(known) or 'no roof'} {roof.origin}" + (f" {roof.date}" if roof.date else "")]
    if data.steps:
        shown, steps = len(data.steps), sum(r["steps"] for r in data.steps)
        parts.append("a mark is a window, its area the seconds" if shown == steps else _merged(steps, shown))
        absent = len(rows.steady(data.points)) - steps
        if absent:
            parts.append(f"{absent:,} steady windows have no intensity and are not here")
    if data.sets["trials"]:
        parts.append("open diamonds: the sweep's trials")
    if data.sets["ceiling"]:
        parts.append(f"purple: projections of {data.ceiling_name} alone")
    return "; ".join(parts)


def _merged(steps: int, shown: int) -> str:
    return f"{steps:,} windows in {shown:,} marks (those within 3 % of each other are one), area = their seconds"
