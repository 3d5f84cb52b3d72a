"""How every table looks: few lines, numbers to the right and never cut; words wrap where the width is short."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

INDENT = 2


def make_table(headers: Sequence[str], *, left: int = 1, spacing: int = 2) -> Table:
    """A table without lines; the first ``left`` columns are words, the others numbers. A header may hold ``\\n``."""
    table = Table(box=None, pad_edge=False, padding=(0, spacing, 0, 0), header_style="dim", show_edge=False)
    for position, header in enumerate(headers):
        justify: Literal["left", "right"] = "left" if position < left or not header else "right"
        table.add_column(Text(header, justify=justify), justify=justify, no_wrap=position >= left)
    return table


def add_rows(table: Table, rows: Iterable[Sequence[str | Text]]) -> Table:
    """Add rows of plain text (never markup)."""
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    return table


def indented(renderable: RenderableType, left: int = INDENT) -> Padding:
    """Moved to the right of the headings."""
    return Padding(renderable, (0, 0, 0, left), expand=False)


def heading(console: Console, title: str, note: str = "") -> None:
    """A blank line, then a section's title with a quiet note behind it."""
    console.print()
    console.print(Text.assemble((title, "bold"), (f"  {note}" if note else "", "dim")))


def facts(rows: Sequence[tuple[str, str | Text]]) -> Table:
    """Name and value pairs; a long value wraps under itself."""
    width = max((len(name) for name, _ in rows), default=0)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True, min_width=width, style="dim")
    table.add_column(overflow="fold")
    return add_rows(table, rows)


def bullets(sentences: Iterable[str], mark: str = "•", style: str = "") -> Table:
    """Sentences, each behind a mark, wrapped under itself."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), show_header=False)
    table.add_column(no_wrap=True, style=style)
    table.add_column(overflow="fold")
    return add_rows(table, ((mark, sentence) for sentence in sentences))
