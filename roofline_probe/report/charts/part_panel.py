"""A decode step taken apart: what its kernels need, what the engine adds."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from roofline_probe.point import Bin
from roofline_probe.report.charts import rows, theme
from roofline_probe.report.charts.panel import Panel


def part_panel(bins: Sequence[Bin], height: int = 170) -> Panel | None:
    """Stacked milliseconds by batch (and context) bin; None where no step could be taken apart."""
    decode = [b for b in bins if b.kind == "decode"]
    parts = rows.part_rows(decode)
    if not parts:
        return None
    present = [part for part in theme.PARTS if any(r["part"] == part for r in parts)]
    colours = [theme.PART_COLOURS[theme.PARTS.index(part)] for part in present]
    order = list(dict.fromkeys(r["bin"] for r in parts))
    totals = list({r["bin"]: r for r in parts}.values())
    x = alt.X("bin:N", sort=order, axis=_axis(decode))
    bars = (
        alt.Chart(alt.NamedData("parts"))
        .transform_calculate(order=f"indexof({list(theme.PARTS)}, datum.part)")
        .mark_bar(stroke="white", strokeWidth=0.5, width={"band": 0.7})
        .encode(
            x=x,
            y=alt.Y("ms:Q", axis=alt.Axis(title=None, tickCount=5, minExtent=theme.AXIS_WIDTH)),
            color=alt.Color("part:N", scale=alt.Scale(domain=present, range=colours), legend=alt.Legend()),
            order=alt.Order("order:Q"),
            tooltip=[
                alt.Tooltip("part:N"),
                alt.Tooltip("ms:Q", title="ms"),
                alt.Tooltip("step:Q", title="whole step, ms"),
                alt.Tooltip("attained:N"),
                alt.Tooltip("windows:Q"),
            ],
        )
    )
    total = alt.Chart(alt.NamedData("totals")).encode(x=x, y="step:Q")
    share = total.transform_filter("isValid(datum.attained)")
    chart = alt.layer(bars, share.mark_text(dy=-8, fontWeight="bold").encode(text="attained:N"))
    caption = "above a bar: attained, the share that GEMMs, KV reads and links need"
    if any(b.estimated for b in decode):
        caption += "; GEMMs estimated: this profile has no ceiling of this model and tensor parallelism"
    return Panel("parts", "Decode step, ms", caption, chart, {"parts": parts, "totals": totals}, height)


def _axis(bins: Sequence[Bin]) -> alt.Axis:
    """Batch, and under it the context bin."""
    title = "batch, context tokens" if any(b.context_low is not None for b in bins) else "batch"
    lines = f"split(datum.label, '{rows.LABEL_BREAK}')"
    return alt.Axis(title=title, labelAngle=0, labelLimit=70, labelExpr=lines, labelFontSize=10, ticks=False)
