"""Benchmarks that need no GPU: ``python -m benchmarks``."""

from __future__ import annotations


def report(what: str, value: float, unit: str, limit: float) -> None:
    """One line: a figure and the limit that it is held to."""
    mark = "ok  " if value <= limit else "OVER"
    print(f"{mark} {what:62} {value:9.3f} {unit:5} limit {limit:g}", flush=True)
