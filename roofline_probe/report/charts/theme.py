"""Colours, sizes and the one Vega configuration of every picture.

The palette is Okabe and Ito's, which the common forms of colour blindness keep apart; of its eight colours these four
also keep 3:1 contrast on a white AND on a near-black page, so one picture serves both. Kinds differ in shape as well.
Backgrounds are transparent and text is a middle grey; where CSS can reach the text (SVG, HTML) it follows the theme.
"""

from __future__ import annotations

from typing import Any

BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
SKY, ORANGE = "#56B4E9", "#E69F00"
INK = "#737A82"
"""4.3:1 on white, 4.4:1 on GitHub's dark page: the text of a picture that cannot know where it is shown."""
FAINT = "#8B949E"
GRID = "#80808033"

KINDS = ("decode", "prefill", "mixed", "unknown")
KIND_COLOURS = (BLUE, VERMILLION, GREEN, FAINT)
KIND_SHAPES = ("circle", "triangle-up", "square", "cross")

PARTS = ("GEMMs", "KV", "link", "rest")
PART_COLOURS = (SKY, BLUE, PURPLE, ORANGE)

AXIS_WIDTH = 44
"""Room for labels left of a panel: the same everywhere, so that one moment stands under itself."""

FONT = "Helvetica Neue, Helvetica, Arial, Liberation Sans, DejaVu Sans, sans-serif"

ON_COLOUR = "_on_colour"
"""Ends the name of text that stands on a coloured bar: its colour does not follow the page."""
_PLAIN_TEXT = f'.mark-text:not([class*="{ON_COLOUR}"]) text'
TEXT_CSS = f"""
{_PLAIN_TEXT} {{ fill: #424a53; }}
@media (prefers-color-scheme: dark) {{ {_PLAIN_TEXT} {{ fill: #c2cad3; }} }}
"""
"""Overrides the middle grey where a style sheet applies: CSS wins over an SVG presentation attribute."""


def config() -> dict[str, Any]:
    """The Vega-Lite ``config`` that every picture carries."""
    text = {"labelColor": INK, "titleColor": INK, "labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal"}
    return {
        "background": "transparent",
        "font": FONT,
        "view": {"stroke": None},
        "axis": {
            **text,
            "gridColor": GRID,
            "domainColor": FAINT,
            "tickColor": FAINT,
            "labelOverlap": "greedy",
            "labelSeparation": 5,
        },
        "legend": {**text, "orient": "top", "offset": 4, "title": None, "symbolSize": 90, "symbolOpacity": 1},
        "title": {
            "anchor": "start",
            "frame": "group",
            "color": INK,
            "subtitleColor": INK,
            "fontSize": 14,
            "subtitleFontSize": 11,
            "fontWeight": "bold",
            "offset": 8,
        },
        "text": {"color": INK, "fontSize": 11},
    }
