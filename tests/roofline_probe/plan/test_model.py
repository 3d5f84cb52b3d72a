"""The planned step over any kernels: monotone, never under its floor, and the searches land on the edge."""

from __future__ import annotations

import dataclasses
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log_parsers.step import LogFacts
from roofline_probe import store
from roofline_probe.ceiling import Ceiling
from roofline_probe.errors import UsageError
from roofline_probe.plan.answer import parse_slo, plan_without_log
from roofline_probe.plan.law import BOUND_ONLY, StepLaw
from roofline_probe.plan.model import StepModel
from roofline_probe.plan.room import Room
from roofline_probe.point import Roof
from roofline_probe.report.console import make_console
from roofline_probe.report.plan_view import plan_sentences, print_plan
from roofline_probe.shard import shard_of
from roofline_probe.workloads import MODELS

ROOF = Roof(
    origin="measured", device="card", choice="auto", dtype="bf16", dtype_source="log",
    pi_burst_tflops=808, pi_sustained_tflops=683, beta_gbps=4380, read_beta_gbps=4580,
)  # fmt: skip
SHARD = shard_of(MODELS["llama-3.1-8b"], "flag", LogFacts(dtype="bf16"))
# The point at 64 is lower than the one at 32, as a noisy measurement can be.
NOISY = Ceiling(SHARD, ROOF, (1.0, 32.0, 64.0, 256.0, 8192.0), (4.1, 4.4, 4.3, 7.2, 170.0), estimated=False)
MODEL = StepModel(NOISY, SHARD, StepLaw(1.05, 0.8, 0.005))
BOUND = StepModel(NOISY, SHARD, BOUND_ONLY)
sizes = st.integers(1, 4096)


@settings(max_examples=100, deadline=None)
@given(sizes, sizes, sizes)
def test_a_step_grows_with_batch_and_context_and_stays_above_the_bound(batch: int, context: int, more: int) -> None:
    here = MODEL.step(batch, context)
    assert MODEL.step(batch + more, context).step_ms >= here.step_ms
    assert MODEL.step(batch, context + more).step_ms >= here.step_ms
    assert here.step_ms >= BOUND.step(batch, context).step_ms
    assert here.tok_s == pytest.approx(batch / here.step_ms * 1e3)
    assert here.tok_s_per_user == pytest.approx(1e3 / here.step_ms)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 20_000), st.floats(0.1, 500))
def test_the_largest_batch_is_the_last_that_fits(context: int, slo_ms: float) -> None:
    batch = MODEL.largest_batch(context, slo_ms)
    assert batch == 0 or MODEL.step(batch, context).step_ms <= slo_ms
    assert MODEL.step(batch + 1, context).step_ms > slo_ms


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(1, 8000), st.integers(0, 4096), st.floats(1, 3))
def test_a_prompt_chunk_never_makes_a_step_faster(batch: int, context: int, chunk: int, factor: float) -> None:
    mixed = MODEL.mixed_step_ms(batch, context, chunk, factor)
    assert mixed >= MODEL.step(batch, context).step_ms
    assert MODEL.mixed_step_ms(batch, context, chunk + 64, factor) >= mixed


def test_kv_time_is_bytes_over_the_read_beta_times_the_factor() -> None:
    step = MODEL.step(32, 4000)
    assert step.kv_ms == pytest.approx(1.05 * 32 * 4000 * 131_072 / 4580e9 * 1e3)
    assert step.gemm_ms == pytest.approx(4.4)
    assert step.engine_ms == pytest.approx(0.8 + 0.005 * 32)


def test_room_counts_whole_sequences_in_the_cache_that_the_log_states() -> None:
    room = Room(SHARD, kv_cache_tokens=10_000, memory_bytes=1)
    assert room.batch(3000) == 3
    assert room.holds(3, 3000)
    assert not room.holds(4, 3000)


def test_room_without_a_log_is_what_the_card_has_beside_the_weights() -> None:
    room = Room(SHARD, memory_bytes=round(MODELS["llama-3.1-8b"].total_parameters * 2 + 2.5 * 1000 * 131_072))
    assert room.batch(1000) == 2
    assert Room(SHARD, memory_bytes=1).batch(1000) == 0
    assert Room(SHARD).batch(1000) is None
    assert Room(SHARD).holds(10**6, 1000), "nothing known is no limit"


@pytest.mark.parametrize(
    ("model", "tp", "gigabytes"),
    [("llama-3.1-8b", 1, 16.06), ("llama-3.1-70b", 1, 141.1), ("llama-3.1-70b", 4, 35.28), ("qwen3-30b-a3b", 1, 61.06)],
)
def test_a_gpu_holds_the_published_weights(model: str, tp: int, gigabytes: float) -> None:
    shard = shard_of(MODELS[model], "flag", LogFacts(dtype="bf16", tp=tp))
    assert Room(shard).weight_bytes / 1e9 == pytest.approx(gigabytes, rel=1e-3)


def test_eight_bits_are_those_of_the_weights(capsys: pytest.CaptureFixture[str]) -> None:
    h200, shape = store.load("h200")[0], MODELS["llama-3.1-8b"]
    half, full = (plan_without_log(h200, shape, dtype, 1, 32, 2000, None) for dtype in ("fp8", "bf16"))
    assert half.room.weight_bytes / 1e9 == pytest.approx(6.98 + 2 * 1.05, abs=0.02), "embedding and LM head in bf16"
    assert half.room.kv_bytes(1, 1000) == full.room.kv_bytes(1, 1000) == 131_072_000
    print_plan(half, make_console(width=120))
    assert "llama-3.1-8b · fp8 · KV cache in bf16" in capsys.readouterr().out


def test_four_bits_are_those_of_the_weights_too() -> None:
    h200, shape = store.load("h200")[0], MODELS["llama-3.1-8b"]
    four = [msgspec.structs.replace(peak, dtype="fp4") for peak in h200.peaks if peak.dtype == "fp8"]
    plan = plan_without_log(msgspec.structs.replace(h200, peaks=[*h200.peaks, *four]), shape, "fp4", 1, 32, 2000, None)
    assert plan.room.weight_bytes / 1e9 == pytest.approx(6.98 * 0.53 + 2 * 1.05, abs=0.05)


def test_a_bound_is_worded_as_one() -> None:
    said = plan_sentences(plan_without_log(store.load("h200")[0], MODELS["llama-3.1-8b"], "bf16", 1, None, 2000, 20.0))
    assert said[0].startswith("20.0 ms a token at 2,000 tokens of context can be met at best up to batch ")
    assert re.search(r"takes at least \S+ ms = .* KV: at most \S+ tok/s per GPU", said[1])
    assert re.search(r"there would be room for \d+ sequences, at best at \S+ tok/s per GPU", said[2])


def test_a_tied_embedding_is_held_once() -> None:
    tied = dataclasses.replace(MODELS["llama-3.1-8b"], tied_embeddings=True)
    assert Room(shard_of(tied, "flag", LogFacts(dtype="bf16"))).weight_bytes == pytest.approx(
        tied.total_parameters * 2, rel=1e-4
    )


def test_the_input_embedding_takes_room_that_the_cache_cannot_have() -> None:
    plan = plan_without_log(store.load("h200")[0], MODELS["llama-3.1-70b"], "bf16", 1, 128, 256, None)
    assert plan_sentences(plan) == [
        "A decode step of 128 sequences at 256 tokens of context does not fit: its KV cache takes 10.7 GB, and beside "
        "141 GB of weights a card of 150 GB has room for 107 sequences of that length at most."
    ]


def test_weights_that_no_card_holds_are_told_before_any_cache() -> None:
    card = store.load("h200")[0]
    small = msgspec.structs.replace(card, device=msgspec.structs.replace(card.device, memory_bytes=80_000_000_000))
    for batch, slo in ((8, None), (None, 50.0)):
        said = plan_sentences(plan_without_log(small, MODELS["llama-3.1-70b"], "bf16", 1, batch, 1000, slo))
        assert "does not fit: the weights alone take 141 GB, and the card has 80.0 GB." in said[-1]


def test_what_does_not_fit_is_told_once_and_nothing_of_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    plan = plan_without_log(store.load("h200")[0], MODELS["llama-3.1-8b"], "bf16", 1, 9000, 16_000, None)
    assert "batch_outside_ceiling" not in plan.caveats
    assert "card_too_small" in plan.caveats
    print_plan(plan, make_console(width=80))
    assert "memory does not hold" not in capsys.readouterr().out


def test_gemms_from_the_roofs_are_said_to_be_and_no_mark_is_promised(capsys: pytest.CaptureFixture[str]) -> None:
    plan = plan_without_log(store.load("h200")[0], MODELS["llama-3.1-70b"], None, 2, None, 4000, 10.0)
    print_plan(plan, make_console(width=120))
    shown = " ".join(capsys.readouterr().out.split())
    assert "~" not in shown
    assert "`probe measure --model llama-3.1-70b --dtype bf16 --tp 2` measures it" in shown


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("context", [64, 100_000])
def test_the_context_asked_for_is_always_a_column(width: int, context: int, capsys: pytest.CaptureFixture[str]) -> None:
    plan = plan_without_log(store.load("h200")[0], MODELS["llama-3.1-8b"], "bf16", 1, 1, context, None)
    print_plan(plan, make_console(width=width))
    (header,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  batch")]
    assert f"{context:,}" in header.split()


@pytest.mark.parametrize(("slo_ms", "legend"), [(1000.0, False), (6.0, True)])
def test_a_star_is_explained_where_there_is_one(
    slo_ms: float, legend: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    print_plan(
        plan_without_log(store.load("h200")[0], MODELS["llama-3.1-8b"], "bf16", 1, None, 1000, slo_ms), make_console()
    )
    assert ("* misses the SLO" in capsys.readouterr().out) is legend


def test_a_bound_for_more_than_the_card_holds_says_so() -> None:
    plan = plan_without_log(store.load("h200")[0], MODELS["llama-3.1-8b"], "bf16", 1, 512, 16_000, 50.0)
    assert plan.step is not None
    assert not plan.fits(plan.step)
    assert "card_too_small" in plan.caveats
    said = plan_sentences(plan)
    assert "does not fit: its KV cache takes 1,074 GB" in said[0]
    assert "241" not in said[0], "no engine can run that step, so its time is no answer"
    assert plan.slo is not None
    assert plan.slo.step is not None
    assert plan.slo.step.batch == plan.room.batch(16_000) == 63


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("tpot=10ms", 10), ("tpot=0.01s", 10), ("TPOT = 12.5", 12.5), (None, None)],
    ids=["ms", "s", "bare", "none"],
)
def test_slo_texts(text: str | None, milliseconds: float | None) -> None:
    assert parse_slo(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ttft=1s", "arrivals and queueing"),
        ("tpot=0ms", "more than 0"),
        ("fast", "not understood"),
        ("tpot=" + "9" * 400, "not understood"),
    ],
    ids=["ttft", "zero", "words", "beyond a float"],
)
def test_slo_texts_that_are_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse_slo(text)


@pytest.mark.parametrize(
    ("dtype", "used", "source"), [(None, "bf16", "assumed"), ("bf16", "bf16", "flag"), ("fp8", "fp8", "flag")]
)
def test_a_dtype_that_nobody_gave_is_assumed_and_said_to_be(dtype: str | None, used: str, source: str) -> None:
    plan = plan_without_log(store.load("h200")[0], MODELS["llama-3.1-8b"], dtype, 1, 32, 2000, None)
    roof = plan.model.ceiling.roof
    assert (roof.dtype, roof.dtype_source, plan.facts.quantization or plan.facts.dtype) == (used, source, used)
    assert ("dtype_assumed" in plan.caveats) == (source == "assumed")


@pytest.mark.parametrize(
    ("batch", "context", "tp", "dtype", "reason"),
    [
        (10**400, 1000, 1, "bf16", "--batch 1000.* is more than any engine serves"),
        (8, 10**18, 1, "bf16", "--context 1000.* is more than any engine serves"),
        (8, 1000, 7, "bf16", "--tp 7 does not divide the 32 query heads of llama-3.1-8b"),
        (8, 1000, 1, "junk", "--dtype junk is not a compute dtype"),
    ],
    ids=["batch", "context", "tp", "dtype"],
)
def test_a_plan_for_what_cannot_be_served_is_refused(
    batch: int, context: int, tp: int, dtype: str, reason: str
) -> None:
    h200 = store.load("h200")[0]
    with pytest.raises(UsageError, match=reason):
        plan_without_log(h200, MODELS["llama-3.1-8b"], dtype, tp, batch, context, None)
