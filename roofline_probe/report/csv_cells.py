"""Text that is safe in a cell: names of files, models and ranks come from a log, and spreadsheets read CSV."""

from __future__ import annotations

from typing import Any

from roofline_probe.report.text import clean

_FORMULA = ("=", "+", "-", "@")
"""A cell of text that begins so is computed by a spreadsheet, which can send what stands beside it elsewhere."""


def cell(value: Any) -> Any:
    """Text without invisible characters, with an apostrophe before what would be a formula; a number as it is."""
    if not isinstance(value, str):
        return value
    text = value if value.isprintable() else clean(value, limit=10 * len(value))
    return f"'{text}" if text.startswith(_FORMULA) else text
