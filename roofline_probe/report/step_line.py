"""One step as one line: text for a person reading ``tail`` through a pipe, JSON for a program. Needs no rich."""

from __future__ import annotations

from roofline_probe import plain_json
from roofline_probe.comparison import Comparison
from roofline_probe.point import Point
from roofline_probe.report import json_out, words
from roofline_probe.report.text import DASH, clean, number, percent, significant


def step_json(point: Point) -> bytes:
    """The step object of the JSON document, on one line."""
    return json_out.flat(plain_json.encode(point)) + b"\n"


def summary_json(result: Comparison) -> bytes:
    """What the JSON document holds beside its steps, on one line; told from a step by its key ``summary``."""
    fields = {
        "schema_version": json_out.SCHEMA_VERSION,
        "roof": json_out.roof_fields(result),
        "facts": result.facts,
        "summary": json_out.summary_fields(result),
        "excluded": json_out.excluded_fields(result),
        "warnings": words.warnings(result),
    }
    return plain_json.encode(fields) + b"\n"


def step_text(point: Point) -> bytes:
    """Time, kind, the fractions, the step taken apart, the load."""
    step = point.step
    words = [(step.time or DASH)[11:19] or DASH]
    where = [step.source.split("/")[2]] if "://" in step.source else []
    where += [step.rank] if step.rank not in (None, "0") else []
    if where:
        words.append(f"[{clean(' '.join(where), 40)}]")
    words.append(f"{step.kind:7}")
    if step.status != "steady":
        words.append(f"({step.status})")
    words += [f"{name} {text}" for name, text in _figures(point) if text != DASH]
    return ("  ".join(words) + "\n").encode()


def _figures(point: Point) -> list[tuple[str, str]]:
    step = point.step
    about = "~" if point.estimated and point.attained_fraction is not None else ""
    waiting = step.waiting if step.waiting is not None else step.queue
    return [
        ("attained", about + percent(point.attained_fraction)),
        ("of pi", percent(point.compute_fraction)),
        ("of read beta" if point.beta_name == "read" else "of beta", percent(point.bandwidth_fraction)),
        ("step", _parts(point)),
        ("batch", number(point.batch, 0)),
        ("generated", _rate(step.gen_tok_s)),
        ("prompt", _rate(step.prompt_tok_s)),
        ("running", number(step.running)),
        ("waiting", number(waiting)),
        ("KV", percent(step.kv_usage)),
    ]


def _rate(tokens_per_s: float | None) -> str:
    return DASH if tokens_per_s is None else f"{number(tokens_per_s)} tok/s"


def _parts(point: Point) -> str:
    if point.step_ms is None:
        return DASH
    parts = (("GEMMs", point.gemm_ms), ("KV", point.kv_ms), ("link", point.link_ms), ("rest", point.rest_ms))
    known = " + ".join(f"{name} {significant(ms)}" for name, ms in parts if ms)
    sign = "=" if point.rest_ms is not None else "of which"
    return f"{significant(point.step_ms)} ms" + (f" {sign} {known}" if known else "")
