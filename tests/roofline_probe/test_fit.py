"""SGLang's weights and KV bytes from its own lines: on lines made from a known model, with the engine's rounding."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_parsers.step import LogFacts, ServingStep
from roofline_probe.fit import MIN_LINES, SglangFit

FACTS = LogFacts(engine="sglang", tp=1, dtype="bf16", weight_bytes=16_060_000_000)
WEIGHTS, KV, LINEAR, PAIR = 13.96e9, 131_072, 13.96e9, 524_288


def line(batch: int, context: float, gen_tok_s: float, **more: object) -> ServingStep:
    per_token = WEIGHTS + KV * context
    base: dict[str, object] = {
        "source": "-", "run": 0, "line_no": 1, "engine": "sglang", "engine_version": None, "rank": None,
        "kind": "decode", "status": "steady", "window_s": 0.1, "running": batch, "gen_tok_s": round(gen_tok_s, 2),
        "context_tokens": round(batch * context), "read_gbps": round(gen_tok_s * per_token / 1e9, 2),
        "tflops": round(gen_tok_s * (LINEAR + PAIR * context) / 1e12, 2),
    }  # fmt: skip
    return ServingStep(**{**base, **more})  # type: ignore[arg-type]


def fed(lines: list[ServingStep], facts: LogFacts = FACTS) -> SglangFit:
    fit = SglangFit(facts)
    for each in lines:
        fit.add(each)
    return fit


@given(batch=st.integers(1, 256), start=st.integers(64, 1000), stride=st.integers(10, 40))
def test_the_line_is_found_through_the_engines_rounding(batch: int, start: int, stride: int) -> None:
    lines = [line(batch, start + stride * i, 200.0 * batch**0.8) for i in range(40)]
    shard = fed(lines).shard()
    assert shard is not None
    assert shard.dense_weight_bytes == pytest.approx(WEIGHTS, rel=0.005)
    assert shard.lm_head_bytes == pytest.approx((16.06e9 - WEIGHTS) / 2, rel=0.05)


def test_weights_kv_and_flops_over_a_long_run() -> None:
    shard = fed([line(64, 100 + 20 * i, 6000.0) for i in range(100)]).shard()
    assert shard is not None
    assert shard.kv_bytes_per_token == pytest.approx(KV, rel=0.01)
    assert shard.linear_flops_per_token == pytest.approx(LINEAR, rel=0.01)
    assert shard.attention_flops_per_pair == pytest.approx(PAIR, rel=0.1)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([line(8, 100 + i, 1600.0) for i in range(MIN_LINES - 1)], id="too few lines"),
        pytest.param([line(8, 500, 1600.0)] * 40, id="context never moves"),
        pytest.param([line(1, 100 * i, 0.3) for i in range(1, 40)], id="probe lines only"),
        pytest.param([line(8, 100 * i, 1600.0, accept_len=2.5) for i in range(1, 40)], id="speculative decoding"),
        pytest.param([line(8, 100 * i, 1600.0, kind="prefill") for i in range(1, 40)], id="no decode"),
        pytest.param([line(8, 100 * i, 1600.0, read_gbps=None) for i in range(1, 40)], id="no estimates printed"),
    ],
)
def test_no_fit_rather_than_a_bad_one(lines: list[ServingStep]) -> None:
    assert fed(lines).shard() is None


def test_scattered_lines_are_not_certain_enough() -> None:
    lines = [line(8, 100 * i, 1600.0, read_gbps=22_000.0 * (1 + 0.4 * (-1) ** i)) for i in range(1, 20)]
    assert fed(lines).shard() is None


@pytest.mark.parametrize(
    ("facts", "possible"),
    [
        (LogFacts(engine="sglang", tp=1), True),
        (LogFacts(engine="sglang"), True),
        (LogFacts(engine="sglang", tp=2), False),
        (LogFacts(engine="sglang", tp=1, pp=2), False),
        (LogFacts(engine="vllm", tp=1), False),
    ],
    ids=["one GPU", "degree not stated", "tensor parallel", "pipeline parallel", "not SGLang"],
)
def test_only_sglang_on_one_gpu_can_be_fitted(facts: LogFacts, possible: bool) -> None:
    assert SglangFit(facts).possible is possible


def test_without_the_loaders_bytes_there_is_no_lm_head() -> None:
    lines = [line(64, 100 + 20 * i, 6000.0) for i in range(100)]
    shard = fed(lines, LogFacts(engine="sglang", tp=1)).shard()
    assert shard is not None
    assert shard.lm_head_bytes == 0
