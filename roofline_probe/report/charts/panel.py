"""A picture is a few panels; files put them side by side, a page under each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import altair as alt


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart with the rows it draws, by data set name."""

    name: str
    title: str
    caption: str
    chart: alt.Chart | alt.LayerChart
    datasets: dict[str, list[dict[str, Any]]]
    height: int


@dataclass(frozen=True, slots=True)
class Figure:
    """The roofline, and what stands beside it."""

    title: str
    main: Panel
    side: tuple[Panel, ...]

    @property
    def panels(self) -> tuple[Panel, ...]:
        """All of them, the roofline first."""
        return (self.main, *self.side)
