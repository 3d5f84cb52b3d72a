"""The counters' view of a captured run is the log's view of it, within 2 %.

Between two pages scraped after two phases lie exactly the log's lines of the phases between: their work, summed as
value x window, against what the counters gained. Windows of an idle server, before and after, hold no work.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

import log_parsers
from log_parsers.step import ServingStep
from roofline_probe.fleet.counters import EngineHistory, advance
from roofline_probe.fleet.exposition import parse

LOGS = Path(__file__).resolve().parents[3] / "fixtures" / "logs"
PHASES = {
    "batch-1": ("01_dec_1_128_2600", "01_dec_1_128_1500"),
    "batch-8": ("", "02_dec_8_128_1500"),
    "batch-256": ("05_dec_256_128_1200", "05_dec_256_128_700"),
}
"""Page -> the phase it was scraped after, in the vLLM and in the SGLang capture."""
SPAN_S = 100.0


def gained(before: bytes, after: bytes) -> list[ServingStep]:
    (first,), (last,) = parse(before).values(), parse(after).values()
    return advance(EngineHistory(first, 0.0), last, SPAN_S, "u", "2026-11-29T00:00:00+00:00")[1]


def logged(log: Path, begin: str, end: str) -> Iterator[ServingStep]:
    """Steps stamped between the ends of two phases; a line of the last tick may come half a second late."""
    phases = {phase["name"]: phase for phase in json.loads(log.with_suffix(".phases.json").read_text())}
    low, high = phases[begin]["end"] + 0.5, phases[end]["end"] + 0.5
    for step in log_parsers.parse(log):
        assert step.time is not None
        if low < datetime.fromisoformat(step.time).replace(tzinfo=timezone.utc).timestamp() <= high:
            yield step


def work(steps: list[ServingStep], field: str) -> float:
    """Sum of value x window: TFLOP, GB, or tokens. vLLM's throughput line covers the last tick only."""
    dilutions = [(step.dilution or 1.0) if field == "gen_tok_s" else 1.0 for step in steps]
    rates = [(getattr(step, field) or 0.0) * (step.window_s or 0.0) for step in steps]
    return sum(rate / dilution for rate, dilution in zip(rates, dilutions, strict=True))


def test_vllm_counters_equal_its_log(captured: Callable[[str], bytes]) -> None:
    pages = [captured(f"vllm/0.24.0-h200-graph-1s-after-{name}.prom") for name in ("batch-1", "batch-256")]
    counters = gained(*pages)
    log = list(logged(LOGS / "vllm/0.24.0-h200-graph-1s.log", PHASES["batch-1"][0], PHASES["batch-256"][0]))

    assert len(log) > 50
    for field in ("tflops", "gbps", "gen_tok_s"):
        assert work(counters, field) == pytest.approx(work(log, field), rel=0.02), field


@pytest.mark.parametrize(("begin", "end"), [("batch-1", "batch-8"), ("batch-8", "batch-256"), ("batch-1", "batch-256")])
def test_sglang_counters_equal_its_log(captured: Callable[[str], bytes], begin: str, end: str) -> None:
    counters = gained(*(captured(f"sglang/0.5.16-h200-bf16-after-{name}.prom") for name in (begin, end)))
    log = list(logged(LOGS / "sglang/0.5.16-h200.log", PHASES[begin][1], PHASES[end][1]))
    decode = [step for step in log if step.kind == "decode"]

    assert len(decode) > 100
    for field in ("tflops", "gen_tok_s"):
        assert work(counters, field) == pytest.approx(work(log, field), rel=0.02), field


def test_sglang_bytes_of_decode_equal_those_of_its_decode_lines(captured: Callable[[str], bytes]) -> None:
    counters = gained(*(captured(f"sglang/0.5.16-h200-bf16-after-{name}.prom") for name in ("batch-1", "batch-256")))
    log = list(logged(LOGS / "sglang/0.5.16-h200.log", PHASES["batch-1"][1], PHASES["batch-256"][1]))

    (decode,) = [step for step in counters if step.kind == "decode"]

    assert work([decode], "read_gbps") == pytest.approx(work(log, "read_gbps"), rel=0.02)
