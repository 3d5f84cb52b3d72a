"""Trials as a table: one row each, raw times as their count and extremes (the JSON document holds all of them)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from roofline_probe.profile import Trial
from roofline_probe.report.csv_cells import cell

COLUMNS = (
    "kernel", "dtype", "regime", "label", "m", "n", "k", "array_bytes", "implementation", "flops", "bytes_moved",
    "seconds_used", "seconds_min", "seconds_max", "samples", "calls_per_sample", "glitches", "tflops", "gbps", "timer",
    "inputs", "verified", "relative_error", "status", "reason",
)  # fmt: skip


def csv_lines(trials: Iterable[Trial]) -> Iterator[bytes]:
    """A header and a line per trial; an empty cell means "not measured"."""
    yield _line(COLUMNS)
    for trial in trials:
        derived = {
            "seconds_min": min(trial.seconds, default=None),
            "seconds_max": max(trial.seconds, default=None),
            "samples": len(trial.seconds),
        }
        yield _line([derived[name] if name in derived else getattr(trial, name) for name in COLUMNS])


def _line(values: Iterable[object]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(["" if value is None else cell(value) for value in values])
    return text.getvalue().encode()
