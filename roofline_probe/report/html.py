"""A report as one page that loads nothing: words, charts, sortable tables, warnings, environment.

A log is untrusted, so three things stand between its text and a script: Jinja escapes whatever is put into the page,
specifications are JSON whose ``<`` is written as an escape, and the page's own policy allows its two scripts by their
hash and no eval. Needs the ``plot`` extra.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from roofline_probe import __version__
from roofline_probe.report import chart
from roofline_probe.report.charts import theme
from roofline_probe.report.text import DASH, clean, percent, significant

if TYPE_CHECKING:
    from roofline_probe.report.charts.panel import Figure


@dataclass(frozen=True, slots=True)
class Cell:
    """What a table cell shows, and what it sorts by: a number as text, ``""`` for an unknown one, None for words."""

    text: str
    sort: str | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column; ``text`` ones are left-aligned."""

    name: str
    text: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A sortable table."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """What the page says; every string is plain text, escaped when it is put in."""

    title: str
    subtitle: str = ""
    cards: tuple[tuple[str, str, str], ...] = ()
    """The ten-second answer: name, figure, what stands behind it."""
    words: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Sentences under headings; an empty heading is left out."""
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """Shown when asked for."""
    tables: tuple[Table, ...] = ()
    facts: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()


def words_cell(text: object) -> Cell:
    """A cell of text, made visible and cut."""
    return Cell(clean(text))


def number_cell(value: float | None, figures: int = 4, scale: float = 1.0) -> Cell:
    """A cell with a number (times ``scale``); a dash that sorts last where it is not known."""
    if value is None:
        return Cell(DASH, "")
    return Cell(significant(value * scale, figures), repr(float(value)))


def count_cell(value: int | None) -> Cell:
    """A cell with a count."""
    return Cell(DASH, "") if value is None else Cell(f"{value:,}", str(value))


def percent_cell(fraction: float | None) -> Cell:
    """A fraction as a percentage, rounded as on the terminal, sorted by all its digits; not clamped."""
    return Cell(DASH, "") if fraction is None else Cell(percent(fraction).removesuffix(" %"), repr(float(fraction)))


def chart_page(figure: Figure) -> str:
    """A page that holds the figure alone."""
    return render(Page(title=figure.title), figure)


def render(page: Page, figure: Figure | None = None) -> str:
    """The page as HTML text.

    Raises:
        UsageError: the ``plot`` extra is not installed.
    """
    chart.require_plot_extra()
    import jinja2
    from markupsafe import Markup

    loader = jinja2.PackageLoader("roofline_probe.report", "templates")
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined)
    scripts = [_vega(), _own("page.js")] if figure else [_own("page.js")]
    return environment.get_template("page.html.j2").render(
        page=page,
        version=__version__,
        css=Markup(_own("page.css") + theme.TEXT_CSS),
        panels=[(figure.main,), figure.side] if figure else [],
        data=_scripts_data(figure) if figure else [],
        scripts=[Markup(script) for script in scripts],
        script_hashes=Markup(" ".join(_hash(script) for script in scripts)),
    )


def _scripts_data(figure: Figure) -> list[tuple[str, str]]:
    """(element id, JSON) of the rows, once for all panels, and of each panel's specification."""
    from markupsafe import Markup

    parts = {"rows": chart.datasets(figure)} | {f"spec-{p.name}": chart.panel_spec(p) for p in figure.panels}
    return [(name, Markup(script_json(value))) for name, value in parts.items()]


def script_json(value: object) -> str:
    """JSON that cannot end the script element that holds it, nor open a comment in it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@cache
def _own(name: str) -> str:
    return (resources.files("roofline_probe.report") / "templates" / name).read_text(encoding="utf-8")


@cache
def _vega() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script. Half a second to bundle, so it is kept for the process."""
    import vl_convert

    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def rows_of(rows: Sequence[Sequence[Cell]]) -> tuple[tuple[Cell, ...], ...]:
    """Rows as the table keeps them."""
    return tuple(tuple(row) for row in rows)
