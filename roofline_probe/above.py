"""What reads more than it can: rows and windows whose kernels, measured alone, take longer than the step did.

Nothing is clamped and nothing left out; it is said how many they are, what they do to the figures, and why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from roofline_probe.diagnose import Finding, Number
from roofline_probe.headline import headline
from roofline_probe.point import Bin, Summary
from roofline_probe.summary import SOLID_S

if TYPE_CHECKING:
    from roofline_probe.analysis import RunContext

_LIFTED = 0.05
"""From so many points on a row that such windows lift is named."""


def windows_above(row: Bin, summary: Summary, run: RunContext) -> list[Finding]:
    """Windows that no card could have run, in a kind that as a whole it could: counted, and what they do to it said."""
    fraction, of = headline(row, run.roof)
    without = _without(row, run)
    if not row.above_windows or fraction is None or fraction > 1 or without is None:
        return []
    numbers: dict[str, Number] = {
        "kind": row.kind,
        "windows": row.above_windows,
        "of_windows": row.windows,
        "share": row.above_seconds / row.seconds if row.seconds else None,
        "highest": row.above_highest,
        "fraction": fraction,
        "without": without,
        "of": of,
        "why": "part of their time was printed with the window before"
        if row.engine == "sglang"
        else "they hold a step more than their share",
    }
    lifts = [
        (shown - bare, part, shown, bare)
        for part in summary.bins
        if part.kind == row.kind
        and (bare := _without(part, run)) is not None
        and (shown := headline(part, run.roof)[0]) is not None
    ]
    most, part, shown, bare = max(lifts, key=lambda lift: lift[0], default=(0.0, row, 0.0, 0.0))
    if most >= _LIFTED:
        numbers |= {
            "row_low": part.batch_low,
            "row_high": part.batch_high,
            "row_fraction": shown,
            "row_without": bare,
        }
    return [Finding("windows_above", "warning", numbers)]


def _without(row: Bin, run: RunContext) -> float | None:
    """The headline fraction of ``row`` without the windows that read above their whole step."""
    bare = replace(row, compute_fraction=row.compute_fraction_without, attained_fraction=row.attained_fraction_without)
    return headline(bare, run.roof)[0] if bare.attained_fraction is not None or row.kind == "prefill" else None


def rows_above(rows: Sequence[Bin], run: RunContext) -> list[Finding]:
    """Rows whose kernels, measured alone, take longer than the step did: however short, the tables show them."""
    above = [row for row in rows if (row.attained_fraction or 0.0) > 1]
    if not above:
        return []
    row = max(above, key=lambda row: row.attained_fraction or 0.0)
    numbers: dict[str, Number] = {
        "kind": row.kind,
        "attained": row.attained_fraction,
        "batch_low": row.batch_low,
        "batch_high": row.batch_high,
        "windows": row.windows,
        "seconds": row.seconds,
        "why": why_above(row, run),
        "rows": len(above),
    }
    return [Finding("rest_negative", "warning", numbers)]


def why_above(row: Bin, run: RunContext) -> str:
    """The likeliest reason for more than the roof; the first that applies is the one most often seen."""
    if row.seconds < SOLID_S:
        return "a window cut between two lines"
    if "quantization_unsettled" in run.caveats or "quantization_unknown" in run.caveats:
        return "8-bit work under a 16-bit pi"
    card = "card" if device_of(run) == "GPU" else device_of(run)
    if {"device_hint_conflict", "memory_conflict", "platform_conflict"} & set(run.caveats):
        return f"another {card}"
    if run.shard is None:
        return "the engine's estimate"
    return f"another {card} or a higher clock than the profile's"


def device_of(run: RunContext) -> str:
    """What served, in a word: ``CPU`` where the roof is one's, or the log's platform under a roof that does not say."""
    return "CPU" if (run.roof.device_kind or run.facts.device_platform) == "cpu" else "GPU"
