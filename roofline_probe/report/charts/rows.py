"""What the pictures draw, as plain rows: no chart library here, so that it can be tested without one.

A long log holds more steps than a screen has pixels. ``merged`` puts steps that fall on the same spot of the roofline
into one mark whose area is their summed seconds; ``over_time`` averages neighbours. Nothing is left out, and the
captions say when it happened.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Any

from roofline_probe import kpi, roofline
from roofline_probe.point import Bin, Point, Roof
from roofline_probe.profile import ModelCeiling, Profile, Trial
from roofline_probe.report import text
from roofline_probe.summary import CONTEXT_EDGES, context_bin
from roofline_probe.workloads import DEFAULT_MODEL, MODELS

Row = dict[str, Any]

MARKS_MAX = 2000
"""Steps drawn one by one; above it they are merged or averaged (browsers redraw this many SVG marks at once)."""
CELLS_PER_DECADE = 40
"""Merged steps are at most 3 % apart: about the diameter of a mark."""


def figures(value: float | None, digits: int = 4) -> float | None:
    """Rounded to significant digits: a picture shows no more, and a page of 20,000 steps stays small."""
    shown = None if value is None else float(f"{value:.{digits}g}")
    return shown if shown is not None and math.isfinite(shown) else None


def tflops_of(point: Point) -> float | None:
    """The rate of the count that the point's fractions divide."""
    return point.recounted_tflops if point.basis == "recounted" else point.step.tflops


def steady(points: Iterable[Point]) -> list[Point]:
    """The steps that count in a headline."""
    return [p for p in points if p.step.status == "steady"]


def placeable(points: Iterable[Point]) -> list[Point]:
    """Steady steps with both coordinates of a roofline, positive as its logarithmic axes need."""
    return [p for p in steady(points) if (p.intensity or 0) > 0 and (tflops_of(p) or 0) > 0]


def step_rows(points: Sequence[Point]) -> list[Row]:
    """One row a mark: position, area (seconds) and the figures of its hover text."""
    shown = placeable(points)
    if len(shown) <= MARKS_MAX:
        return [_mark([p]) for p in shown]
    return [_mark(group) for group in merged(shown)]


def merged(points: Iterable[Point]) -> list[list[Point]]:
    """Points grouped by kind and cell of the logarithmic plane."""
    cells: dict[tuple[str, int, int], list[Point]] = {}
    for p in points:
        x, y = math.log10(p.intensity or 1), math.log10(tflops_of(p) or 1)
        cells.setdefault((p.step.kind, round(x * CELLS_PER_DECADE), round(y * CELLS_PER_DECADE)), []).append(p)
    return list(cells.values())


def _mark(group: Sequence[Point]) -> Row:
    first = group[0]
    row: Row = {
        "kind": first.step.kind,
        "x": figures(mean(group, "intensity")),
        "y": figures(weighted([(tflops_of(p), p) for p in group])),
        "seconds": figures(sum(p.step.window_s or 1.0 for p in group)),
        "steps": len(group),
        "line": first.step.line_no,
        "batch": figures(mean(group, "batch"), 3),
        "context": figures(mean(group, "context"), 3),
        "attained": percent(mean(group, "attained_fraction")),
        "roof": percent(mean(group, "roof_fraction")),
        "ms": figures(mean(group, "step_ms")),
    }
    return {key: value for key, value in row.items() if value is not None}


def percent(fraction: float | None) -> float | None:
    """For the screen, one decimal; never clamped."""
    return None if fraction is None else round(fraction * 100, 1)


def weighted(pairs: Iterable[tuple[float | None, Point]]) -> float | None:
    """Work over time: sum(value · window) / sum(window), over the points that have the value."""
    total = seconds = 0.0
    for value, point in pairs:
        if value is not None:
            window = point.step.window_s or 1.0
            total += value * window
            seconds += window
    return total / seconds if seconds else None


def mean(points: Iterable[Point], name: str) -> float | None:
    """``weighted`` over one attribute of a point."""
    return weighted([(getattr(p, name), p) for p in points])


# ---- over time -------------------------------------------------------------------------------------------------------


def epoch_ms(time: str | None) -> int | None:
    """The reading of the server's clock taken as UTC: a picture shows what the log shows, wherever it is opened."""
    if time is None:
        return None
    try:
        moment = datetime.fromisoformat(time.replace("Z", "+00:00"))
    except ValueError:
        return None
    return int(moment.replace(tzinfo=timezone.utc).timestamp() * 1000)


_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)


def clock_ticks(low: float, high: float, most: int = 6) -> tuple[list[int], str]:
    """Round moments (epoch ms) from ``low`` to ``high``, and the format that tells them apart.

    A temporal axis of Vega would do this in the reader's time zone; these are the server's.
    """
    step = (
        next((s for s in _STEPS_S if (high - low) / 1e3 / s <= most), None)
        or math.ceil((high - low) / 1e3 / most / 604800) * 604800
    )
    ticks = range(math.ceil(low / 1e3 / step), math.floor(high / 1e3 / step) + 1)
    form = "%H:%M:%S" if step < 60 else "%H:%M" if high - low < 86400e3 else "%d %b" if step >= 86400 else "%d %b %H:%M"
    return [tick * step * 1000 for tick in ticks], form


def over_time(points: Sequence[Point]) -> tuple[str, list[Row]]:
    """Position field (``time``, or ``line`` where the log has no clock) and one row a step or bucket of neighbours.

    All statuses are here, since an idle hour belongs to the story; fractions are given for steady steps only.
    """
    timed = [(epoch_ms(p.step.time), p) for p in points]
    clock = any(moment is not None for moment, _ in timed)
    placed = [(moment if clock else p.step.line_no, p) for moment, p in timed if not clock or moment is not None]
    rows = [_moment(group, clock) for group in _buckets(placed)]
    return ("time" if clock else "line"), rows


def _buckets(placed: list[tuple[int | None, Point]]) -> list[list[tuple[int, Point]]]:
    """Neighbours of one kind, status and rank: as many a bucket as keep the picture under ``MARKS_MAX`` rows."""
    size = math.ceil(len(placed) / MARKS_MAX)
    open_groups: dict[tuple[str, bool, str | None], list[tuple[int, Point]]] = {}
    done: list[list[tuple[int, Point]]] = []
    for moment, p in placed:
        key = (p.step.kind, p.step.status == "steady", p.step.rank)
        group = open_groups.setdefault(key, [])
        group.append((moment or 0, p))
        if len(group) >= size:
            done.append(open_groups.pop(key))
    return sorted([*done, *open_groups.values()], key=lambda group: group[0][0])


def _moment(group: list[tuple[int, Point]], clock: bool) -> Row:
    points = [p for _, p in group]
    counted = steady(points)
    row: Row = {
        "from": round(group[0][0] - (points[0].step.window_s or 1.0) * 1e3) if clock else group[0][0] - 1,
        "at": group[-1][0],
        "kind": points[0].step.kind,
        "status": points[0].step.status,
        "steps": len(group),
        "line": points[0].step.line_no,
        "attained": percent(mean(counted, "attained_fraction")),
        "roof": percent(mean(counted, "roof_fraction")),
        "running": figures(weighted([(p.step.running, p) for p in points]), 3),
        "gen": figures(weighted([(p.step.gen_tok_s, p) for p in points])),
        "prompt": figures(weighted([(p.step.prompt_tok_s, p) for p in points])),
        "ms": figures(mean(counted, "step_ms")),
    }
    return {key: value for key, value in row.items() if value is not None}


def keep_inside(moments: list[Row], most: float) -> int:
    """Add where ``attained`` and ``roof`` are drawn (``_at``), ``most`` if above; returns how many rows that moved."""
    moved = 0
    for row in moments:
        for name in ("attained", "roof"):
            if name in row:
                row[f"{name}_at"] = min(row[name], most)
        moved += any(row.get(name, 0) > most for name in ("attained", "roof"))
    return moved


# ---- the roof --------------------------------------------------------------------------------------------------------


def roof_corners(pi: float | None, beta: float | None, x_low: float, x_high: float) -> list[tuple[float, float]]:
    """Corners of min(pi, beta·I), TFLOP/s over FLOP/byte, from ``x_low`` to ``x_high``; one part may be absent."""
    if pi is None and beta is None:
        return []
    if beta is None:
        return [(x_low, pi or 0), (x_high, pi or 0)]
    slope = beta / 1e3
    if pi is None:
        return [(x_low, slope * x_low), (x_high, slope * x_high)]
    ridge = roofline.ridge(pi * 1e12, beta * 1e9)
    return [(x_low, slope * x_low), (ridge, pi), (x_high, pi)]


def workload_rows(pi: float | None, beta: float | None, dtype: str) -> list[Row]:
    """The three reference workloads on the roof they stand under."""
    if pi is None or beta is None:
        return []
    shape, element_bytes = MODELS[DEFAULT_MODEL], kpi.element_bytes(dtype)
    named = (
        ("GEMV, batch 1", roofline.gemv_intensity(element_bytes)),
        (f"attention, GQA {shape.gqa_group}", roofline.gqa_attention_intensity(shape.gqa_group, element_bytes)),
        ("prefill GEMM, T 2048", roofline.square_gemm_intensity(2048, shape.hidden_size, element_bytes)),
    )
    return [
        {
            "workload": name,
            "x": figures(x),
            "y": figures(roofline.attainable_flops(x, pi * 1e12, beta * 1e9) / 1e12),
            "bound": roofline.bound_of(x, pi * 1e12, beta * 1e9),
        }
        for name, x in named
    ]


def ceiling_rows(ceiling: ModelCeiling | None) -> list[Row]:
    """The model's own projections at M tokens; intensity over the weights they stream."""
    if ceiling is None:
        return []
    return [
        {
            "m": p.m,
            "x": figures(ceiling.flops_per_token * p.m / ceiling.weight_bytes),
            "y": figures(p.tflops),
            "ms": figures(p.ms),
            "weights": figures(p.weight_gbps),
        }
        for p in ceiling.points
        if p.tflops
    ]


def usable_trials(profile: Profile) -> list[Trial]:
    """Trials with a rate: skipped, unsupported and unverified ones have no place in a picture."""
    return [t for t in profile.trials if t.status in ("ok", "launch_bound") and (t.tflops or t.gbps)]


def trial_rows(profile: Profile, dtype: str) -> list[Row]:
    """GEMM trials of one dtype, each where its compulsory traffic puts it."""
    return [
        {
            "x": figures(t.flops / t.bytes_moved),
            "y": figures(t.tflops),
            "shape": f"{t.m} x {t.n} x {t.k}",
            "m": t.m,
            "label": t.label or t.kernel,
            "regime": t.regime,
            "by": t.implementation,
        }
        for t in usable_trials(profile)
        if t.kernel == "gemm" and t.dtype == dtype and t.flops and t.bytes_moved and t.tflops
    ]


def ceiling_of(profile: Profile | None, dtype: str, model: str | None = None, tp: int = 1) -> ModelCeiling | None:
    """The ceiling to draw: that of ``model`` if it was measured; the first of that dtype where no model is meant."""
    same = [c for c in profile.ceilings if c.dtype == dtype and c.tp == tp] if profile else []
    return next((c for c in same if model is None or c.model == model), None)


# ---- a step taken apart ----------------------------------------------------------------------------------------------


def part_rows(bins: Sequence[Bin]) -> list[Row]:
    """One row a part of a bin's step, in ms; bins whose step could not be taken apart are absent."""
    engines = len({b.engine for b in bins})
    rows: list[Row] = []
    for b in bins:
        if b.step_ms is None or b.gemm_ms is None:
            continue
        label = bin_label(b) + (f"{LABEL_BREAK}{b.engine}" if engines > 1 else "")
        for part, ms in zip(("GEMMs", "KV", "link", "rest"), (b.gemm_ms, b.kv_ms, b.link_ms, b.rest_ms), strict=True):
            if ms:
                rows.append({"bin": label, "part": part, "ms": figures(ms), **_step_of(b)})
    return rows


def _step_of(b: Bin) -> Row:
    return {
        "step": figures(b.step_ms),
        "attained": None if b.attained_fraction is None else text.percent(b.attained_fraction),
        "windows": b.windows,
    }


LABEL_BREAK = " · "


def bin_label(b: Bin) -> str:
    """``32 · 1k-4k``: batch, then the context bin where the context is known."""
    batch = text.span(b.batch_low, b.batch_high)
    if b.context_low is None:
        return batch
    at = context_bin(b.context_low)
    edges = [_short(edge) for edge in CONTEXT_EDGES]
    low, high = edges[at - 1] if at else "", edges[at] if at < len(edges) else ""
    return f"{batch}{LABEL_BREAK}{f'<{high}' if not low else f'≥{low}' if not high else f'{low}-{high}'}"


def _short(count: int) -> str:
    return f"{count // 1024}k" if count >= 1024 and count % 1024 == 0 else str(count)


def roof_of_profile(profile: Profile, dtype: str) -> Roof:
    """A profile's own figures as a roof, for pictures without a log."""
    return Roof(
        origin="measured",
        device=profile.device.name,
        choice="auto",
        dtype=dtype,
        dtype_source="flag",
        date=profile.created[:10],
        pi_burst_tflops=profile.pi_tflops(dtype, "burst"),
        pi_sustained_tflops=profile.pi_tflops(dtype, "sustained"),
        beta_gbps=profile.beta_gbps,
        read_beta_gbps=profile.read_beta_gbps,
    )
