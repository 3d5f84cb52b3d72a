"""What the sweep found on the card: rate by tokens, and bandwidth by access pattern beside the datasheet's."""

from __future__ import annotations

import altair as alt

from roofline_probe.profile import Profile
from roofline_probe.report.charts import rows, theme
from roofline_probe.report.charts.panel import Panel

LINES_MAX = 5
LINE_COLOURS = (theme.BLUE, theme.VERMILLION, theme.GREEN, theme.PURPLE, theme.FAINT)


def sweep_panels(profile: Profile, dtype: str, height: int = 260) -> list[Panel]:
    """GEMM rate by M, bandwidth by pattern, peaks by dtype: those that the profile has figures for."""
    found = [_gemm_panel(profile, dtype, height), _beta_panel(profile), _peak_panel(profile)]
    return [panel for panel in found if panel is not None]


def _gemm_panel(profile: Profile, dtype: str, height: int) -> Panel | None:
    trials = [r for r in rows.trial_rows(profile, dtype) if r["regime"] == "median"]
    labels = _projections(profile, dtype)[:LINES_MAX]
    best: dict[tuple[str, int], rows.Row] = {}
    for r in trials:
        key = (r["label"], r["m"])
        if r["label"] in labels and (key not in best or r["y"] > best[key]["y"]):
            best[key] = r
    if not best:
        return None
    color = alt.Color(
        "label:N", scale=alt.Scale(domain=labels, range=list(LINE_COLOURS[: len(labels)])), legend=alt.Legend()
    )
    base = alt.Chart(alt.NamedData("gemms")).encode(
        x=alt.X(
            "m:Q",
            scale=alt.Scale(type="log", base=2),
            axis=alt.Axis(title="tokens (M)", format=",~g", values=[8**e for e in range(7)]),
        ),
        y=alt.Y("y:Q", axis=alt.Axis(title=None, minExtent=theme.AXIS_WIDTH)),
        color=color,
    )
    tooltip = [
        alt.Tooltip("label:N", title="projection"),
        alt.Tooltip("shape:N", title="M x N x K"),
        alt.Tooltip("y:Q", title="TFLOP/s"),
        alt.Tooltip("regime:N"),
    ]
    chart = alt.layer(
        base.mark_line(strokeWidth=1.5), base.mark_point(filled=True, size=26, opacity=1).encode(tooltip=tooltip)
    )
    ordered = sorted(best.values(), key=lambda r: (labels.index(r["label"]), r["m"]))
    return Panel(
        "gemms",
        f"GEMM rate by tokens, {dtype}, TFLOP/s",
        "medians; one weight [K, N] a line",
        chart,
        {"gemms": ordered},
        height,
    )


def _projections(profile: Profile, dtype: str) -> list[str]:
    """Labels whose trials vary M under one weight [K, N]: squares and searched shapes are no function of tokens."""
    shapes: dict[str, set[tuple[int | None, int | None]]] = {}
    tokens: dict[str, set[int | None]] = {}
    for t in rows.usable_trials(profile):
        if t.kernel == "gemm" and t.dtype == dtype and t.label and t.regime == "median":
            shapes.setdefault(t.label, set()).add((t.n, t.k))
            tokens.setdefault(t.label, set()).add(t.m)
    return [label for label, found in shapes.items() if len(found) == 1 and len(tokens[label]) > 2]


def _beta_panel(profile: Profile) -> Panel | None:
    sheet = profile.datasheet.gbps if profile.datasheet else None
    found = [
        {"what": pattern, "value": rows.figures(gbps), "sheet": sheet, "text": _text(gbps, sheet)}
        for pattern in ("copy", "triad", "read", "write")
        if (gbps := profile.beta_of(pattern))
    ]
    return _bars("betas", "Bandwidth, GB/s", found)


def _peak_panel(profile: Profile) -> Panel | None:
    sheet = profile.datasheet.tflops if profile.datasheet else {}
    found = [
        {
            "what": f"{p.dtype} {p.regime}",
            "value": rows.figures(p.tflops),
            "sheet": sheet.get(p.dtype),
            "text": _text(p.tflops, sheet.get(p.dtype)),
        }
        for p in profile.peaks
    ]
    return _bars("peaks", "Peak, TFLOP/s", found)


def _text(value: float, sheet: float | None) -> str:
    return f"{value:,.4g}" if not sheet else f"{value:,.0f} · {value / sheet:.0%}"


def _bars(name: str, title: str, found: list[rows.Row]) -> Panel | None:
    """Horizontal bars with their figure; a tick marks the datasheet's."""
    if not found:
        return None
    known = [r["sheet"] for r in found if r["sheet"]]
    most = max([r["value"] for r in found] + known)
    y = alt.Y("what:N", sort=None, axis=alt.Axis(title=None, ticks=False, domain=False, labelPadding=6))
    x = alt.X("value:Q", scale=alt.Scale(domain=[0, most * 1.02], nice=False), axis=alt.Axis(title=None, tickCount=5))
    base = alt.Chart(alt.NamedData(name)).encode(y=y)
    layers = [
        base.mark_bar(color=theme.SKY, height={"band": 0.62}).encode(
            x=x, tooltip=[alt.Tooltip("what:N"), alt.Tooltip("value:Q"), alt.Tooltip("sheet:Q", title="datasheet")]
        ),
        base.mark_text(align="left", dx=5, color="#10202c")
        .encode(x=alt.datum(0), text="text:N")
        .properties(name=f"{name}{theme.ON_COLOUR}"),
    ]
    if known:
        tick = base.transform_filter("datum.sheet > 0")
        layers.append(tick.mark_tick(color=theme.VERMILLION, thickness=2, height={"band": 0.8}).encode(x="sheet:Q"))
    caption = "vermillion tick: datasheet; %: of the datasheet" if known else ""
    return Panel(name, title, caption, alt.layer(*layers), {name: found}, 24 * len(found) + 6)
