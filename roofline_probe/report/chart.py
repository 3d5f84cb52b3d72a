"""Pictures: one specification, written as PNG, SVG or a page that needs no network.

Everything here needs the ``plot`` extra (altair describes the picture, vl-convert draws it without a browser); it is
loaded only when a picture is asked for.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofline_probe import kpi
from roofline_probe.errors import UsageError
from roofline_probe.point import Point, Roof, Summary
from roofline_probe.profile import Profile
from roofline_probe.report.charts import rows, theme
from roofline_probe.report.text import clean, model_name

if TYPE_CHECKING:
    from roofline_probe.plan.answer import Plan
    from roofline_probe.report.charts.panel import Figure, Panel

MAIN_WIDTH, SIDE_WIDTH = 540, 415
"""With their axes and labels 1,200 pixels."""
SUFFIXES = (".png", ".svg", ".html")


def require_plot_extra() -> None:
    """Say in one sentence what to install, before any work is done.

    Raises:
        UsageError: altair, vl-convert or Jinja is not installed.
    """
    if any(importlib.util.find_spec(name) is None for name in ("altair", "vl_convert", "jinja2")):
        raise UsageError("Pictures need the plot extra; install it with `pip install 'roofline-probe[plot]'`.")


def check_plot_path(target: str) -> None:
    """Refuse an unknown kind of file before an hour of measuring, not after it.

    Raises:
        UsageError: the suffix is not .png, .svg or .html, the folder does not exist, or the extra is missing.
    """
    path = Path(target)
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"--plot writes .png, .svg or .html, not {path.suffix or path.name!r}; rename {path}.")
    check_page_path(target)


def check_page_path(target: str) -> None:
    """Refuse a page that cannot be written before the log is read.

    Raises:
        UsageError: the folder does not exist, or the extra is missing.
    """
    folder = Path(target).parent
    if Path(target).is_dir():
        raise UsageError(f"{target} is a folder; give the path of a file.")
    if not folder.is_dir():
        raise UsageError(f"The folder {folder} does not exist; create it or write {target} elsewhere.")
    require_plot_extra()


def profile_figure(profile: Profile) -> Figure:
    """A card: its roofline with the sweep's trials, and beside it rates by shape, bandwidths and peaks.

    Raises:
        UsageError: the profile holds neither a peak nor a bandwidth, or the ``plot`` extra is missing.
    """
    require_plot_extra()
    if not profile.peaks and not profile.betas:
        raise UsageError("The profile holds neither a peak nor a bandwidth, so there is nothing to draw.")
    from roofline_probe.report.charts.panel import Figure
    from roofline_probe.report.charts.roof_panel import roof_panel
    from roofline_probe.report.charts.sweep_panels import sweep_panels

    dtype = kpi.main_dtype(profile) or "bf16"
    main = roof_panel(rows.roof_of_profile(profile, dtype), profile)
    return Figure(
        f"{clean(profile.device.name, 60)}, measured {profile.created[:10]}", main, tuple(sweep_panels(profile, dtype))
    )


def compare_figure(
    roof: Roof,
    profile: Profile | None,
    points: Sequence[Point],
    summary: Summary,
    *,
    title: str = "",
    model: str | None = None,
    tp: int = 1,
) -> Figure:
    """A log under the roofs: its steps, how the run went, and a decode step taken apart.

    ``model`` and ``tp`` say whose ceiling to draw, if the profile has it; None draws the first of the roof's dtype.
    """
    require_plot_extra()
    from roofline_probe.report.charts.panel import Figure
    from roofline_probe.report.charts.part_panel import part_panel
    from roofline_probe.report.charts.roof_panel import roof_panel
    from roofline_probe.report.charts.time_panels import time_panels

    main = roof_panel(roof, profile, points, model, tp)
    parts = part_panel(summary.bins)
    return Figure(title or main.title, main, (*time_panels(points), *((parts,) if parts else ())))


def plan_figure(plan: Plan) -> Figure:
    """A plan: step time by batch and context, and tokens per GPU against tokens per user."""
    require_plot_extra()
    from roofline_probe.report.charts.panel import Figure
    from roofline_probe.report.charts.plan_panels import step_panel, trade_panel

    model = model_name(plan.facts.model) or plan.model.shard.name
    bound = "" if plan.evidence is not None else ": kernels alone, a bound"
    title = f"{clean(model, 60)} on {clean(plan.model.ceiling.roof.device, 60)}{bound}"
    return Figure(title, step_panel(plan), (trade_panel(plan),))


def panel_spec(panel: Panel) -> dict[str, Any]:
    """Vega-Lite of one panel as wide as its container, for pages; its rows are named, not in it (``datasets``)."""
    chart = panel.chart.properties(width="container", height=panel.height)
    return {**chart.to_dict(), "config": theme.config()}


def datasets(figure: Figure) -> dict[str, list[dict[str, Any]]]:
    """The rows of all panels by name; panels that share an axis share their rows."""
    return {name: data for panel in figure.panels for name, data in panel.datasets.items()}


def figure_spec(figure: Figure) -> dict[str, Any]:
    """Vega-Lite of the whole picture at 1,200 x 800: the roofline, and the other panels in a column beside it."""
    return {**_arranged(figure).to_dict(), "config": theme.config(), "datasets": datasets(figure)}


def notebook_chart(figure: Figure) -> Any:
    """The whole picture as an altair chart object, which a notebook draws."""
    return _arranged(figure).properties(config=theme.config(), datasets=datasets(figure))


def _arranged(figure: Figure) -> Any:
    import altair as alt

    main = _titled(figure.main, MAIN_WIDTH)
    own = {"color": "independent", "shape": "independent", "size": "independent"}
    if not figure.side:
        return main
    beside = alt.vconcat(*(_titled(panel, SIDE_WIDTH) for panel in figure.side), spacing=12).resolve_scale(**own)
    both = alt.hconcat(main, beside, spacing=34).resolve_scale(**own)
    return (
        both if figure.title == figure.main.title else both.properties(title=alt.TitleParams(figure.title, fontSize=16))
    )


def _titled(panel: Panel, width: int) -> Any:
    import altair as alt

    title = alt.TitleParams(panel.title, subtitle=_wrapped(panel.caption, width)) if panel.caption else panel.title
    return panel.chart.properties(width=width, height=panel.height, title=title)


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of about ``width`` pixels: Vega does not wrap subtitles."""
    import textwrap

    return textwrap.wrap(text, width // 6) or [""]


def render(figure: Figure, suffix: str) -> bytes:
    """The picture as ``.png`` (twice the pixels, for sharp screens), ``.svg`` or ``.html``."""
    if suffix == ".png":
        return png(figure)
    return (svg(figure) if suffix == ".svg" else page(figure)).encode()


def save(figure: Figure, target: str) -> None:
    """Write the picture to a path, in the format that its suffix names.

    Raises:
        UsageError: unknown suffix or the file cannot be written.
    """
    from roofline_probe.report import files

    check_plot_path(target)
    files.write(target, [render(figure, Path(target).suffix.lower())])


def png(figure: Figure) -> bytes:
    """A transparent PNG whose middle greys are readable on white and on black."""
    import vl_convert

    return bytes(vl_convert.vegalite_to_png(figure_spec(figure), scale=2))


def svg(figure: Figure) -> str:
    """An SVG whose text follows the reader's light or dark theme."""
    from html import escape

    import vl_convert

    spec = figure_spec(figure)
    spec["config"]["aria"] = False  # a sentence on every mark makes the file five times as large
    drawn = _GEOMETRY.sub(lambda attribute: _LONG.sub(_hundredths, attribute[0]), vl_convert.vegalite_to_svg(spec))
    head, rest = drawn.split(">", 1)
    return f'{head} role="img" aria-label="{escape(figure.title)}"><style>{theme.TEXT_CSS}</style>{rest}'


_GEOMETRY = re.compile(r' (?:d|transform)="[^"]*"')
_LONG = re.compile(r"\d+\.\d{3,}")


def _hundredths(number: re.Match[str]) -> str:
    """Coordinates to a hundredth of a pixel: Vega writes sixteen digits of each."""
    return f"{float(number[0]):.2f}"


def page(figure: Figure) -> str:
    """The panels on a page of their own that needs no network."""
    from roofline_probe.report import html

    return html.chart_page(figure)
