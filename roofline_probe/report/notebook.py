"""A comparison as it shows itself in a notebook: the terminal's report, as HTML with every text escaped."""

from __future__ import annotations

import io

from rich.console import Console

from roofline_probe.comparison import Comparison
from roofline_probe.report.terminal import print_report

_FORMAT = '<pre style="font-family:monospace;line-height:1.35;overflow-x:auto">{code}</pre>'


def report_html(result: Comparison, width: int = 120) -> str:
    """One ``<pre>`` element with inline styles."""
    console = Console(
        file=io.StringIO(), record=True, width=width, force_terminal=True, markup=False, highlight=False, emoji=False
    )
    print_report(result, console)
    return console.export_html(code_format=_FORMAT, inline_styles=True)
