"""The recount on made-up steps whose work is known by construction."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_parsers.step import LogFacts, ServingStep
from roofline_probe.recount import Recounter
from roofline_probe.shard import shard_of
from roofline_probe.workloads import MODELS

LLAMA = MODELS["llama-3.1-8b"]
LINEAR, PAIR, HEAD = 2 * 6_979_321_856, 4 * 32 * 128 * 32, 2 * 525_336_576
WEIGHTS, KV = 2 * 7_504_658_432, 131_072
CACHE = 1_000_000


def vllm_facts(**more: object) -> LogFacts:
    base: dict[str, object] = {"engine": "vllm", "dtype": "bf16", "kv_cache_tokens": CACHE, "token_budget": 8192}
    return LogFacts(**{**base, **more})  # type: ignore[arg-type]


def recounter(facts: LogFacts) -> Recounter:
    return Recounter(shard_of(LLAMA, "flag", facts), facts)


def tick(**fields: object) -> ServingStep:
    base: dict[str, object] = {
        "source": "-", "run": 0, "line_no": 1, "engine": "vllm", "engine_version": "0.24.0", "rank": "0",
        "kind": "decode", "status": "steady", "window_s": 1.0, "prompt_tok_s": 0.0, "gen_tok_s": 0.0,
    }  # fmt: skip
    return ServingStep(**{**base, **fields})  # type: ignore[arg-type]


def usage(batch: int, context: float) -> float:
    """KV usage of that many sequences, their half-empty last blocks included."""
    return batch * (context + 7.5) / CACHE


@given(
    batch=st.integers(1, 256),
    context=st.floats(64, 2000),
    steps=st.integers(5, 200),
    window=st.sampled_from([1.0, 2.0, 10.0]),
)
def test_lock_step_decode_is_counted_exactly(batch: int, context: float, steps: int, window: float) -> None:
    """``steps`` steps of ``batch`` sequences whose context grows by one token each step."""
    counter = recounter(vllm_facts())
    common = {"running": batch, "gen_tok_s": batch * steps / window, "window_s": window}
    counter.count(tick(kv_usage=usage(batch, context), **common))
    found = counter.count(tick(kv_usage=usage(batch, context + steps), **common))
    mean = context + steps / 2
    assert found is not None
    assert found.steps == pytest.approx(steps)
    assert found.batch == batch
    assert found.context == pytest.approx(mean, rel=1e-6)
    assert found.flops == pytest.approx(batch * steps * (LINEAR + HEAD + PAIR * mean), rel=1e-6)
    assert found.weight_bytes == pytest.approx(steps * WEIGHTS)
    assert found.kv_read_bytes == pytest.approx(batch * steps * mean * KV, rel=1e-6)
    assert found.kv_write_bytes == pytest.approx(batch * steps * KV)
    assert found.bytes == pytest.approx(found.weight_bytes + found.kv_read_bytes + found.kv_write_bytes)


@pytest.mark.parametrize(
    ("before", "now", "mean"),
    [
        pytest.param((0, 0.0), (32, 1000.0), 950.0, id="began inside: the end less half of what was generated"),
        pytest.param((32, 1000.0), (0, 0.0), 1050.0, id="ended inside: the start plus half of what was generated"),
        pytest.param((32, 1000.0), (32, 1100.0), 1050.0, id="both ends: their mean"),
    ],
)
def test_context_from_the_snapshots_at_both_ends(
    before: tuple[int, float], now: tuple[int, float], mean: float
) -> None:
    counter = recounter(vllm_facts())
    for running, context in (before, now):
        found = counter.count(tick(running=running, kv_usage=usage(running, context), gen_tok_s=3200.0))
    assert found is not None
    assert found.batch == 32
    assert found.context == pytest.approx(mean, rel=0.01)


def test_a_diluted_window_keeps_its_work_and_lowers_its_rate() -> None:
    whole, diluted = recounter(vllm_facts()), recounter(vllm_facts())
    fields = {"running": 8, "gen_tok_s": 1600.0, "kv_usage": usage(8, 500)}
    full = whole.count(tick(**fields))
    thin = diluted.count(tick(**fields, window_s=9.0, dilution=9.0, status="diluted"))
    assert full is not None
    assert thin is not None
    assert thin.flops == pytest.approx(full.flops)
    assert thin.window_s == 9 * full.window_s
    assert thin.busy_s == full.busy_s


@pytest.mark.parametrize(("prompts", "length"), [(8, 1000), (2, 4000), (1, 8000)])
def test_prefill_attends_to_the_causal_triangle(prompts: int, length: int) -> None:
    found = recounter(vllm_facts()).count(
        tick(kind="prefill", prompt_tok_s=float(prompts * length), gen_tok_s=float(prompts), running=0, kv_usage=0.0)
    )
    assert found is not None
    tokens = prompts * length
    assert found.attention_flops == pytest.approx(prompts * length**2 / 2 * PAIR)
    assert found.flops == pytest.approx(tokens * LINEAR + prompts * HEAD + found.attention_flops)
    assert found.steps == pytest.approx(tokens / 8192)


def test_a_tick_counts_prompts_when_done_and_the_residents_smooth_it() -> None:
    """Ticks report 3 and 5 prompts of 8,000 tokens; after the first of them most of another prompt is under way."""
    counter = recounter(vllm_facts())
    fields = {"kind": "prefill", "running": 1}
    counter.count(tick(prompt_tok_s=32000.0, gen_tok_s=4.0, kv_usage=usage(1, 2000), **fields))
    low = counter.count(tick(prompt_tok_s=24000.0, gen_tok_s=3.0, kv_usage=usage(1, 7000), **fields))
    high = counter.count(tick(prompt_tok_s=40000.0, gen_tok_s=5.0, kv_usage=usage(1, 2000), **fields))
    assert low is not None
    assert high is not None
    assert low.prompt_tokens == pytest.approx(29000)
    assert high.prompt_tokens == pytest.approx(35000)


@pytest.mark.parametrize(("version", "computed"), [("0.15.1", 5000), ("0.16.0", 20000), (None, 20000)])
def test_cached_prompt_tokens_are_taken_off_where_the_release_prints_them(version: str | None, computed: float) -> None:
    found = recounter(vllm_facts(engine_version=version)).count(
        tick(kind="prefill", prompt_tok_s=20000.0, gen_tok_s=10.0, running=1, kv_usage=0.0, prefix_hit_rate=0.75)
    )
    assert found is not None
    assert found.prompt_tokens == pytest.approx(computed)
    assert ("cached_prompts_estimated" in found.caveats) == (computed == 5000)


def test_prompts_that_stay_to_decode_are_not_taken_for_prompts_under_way() -> None:
    counter = recounter(vllm_facts())
    fields = {"kind": "prefill", "prompt_tok_s": 40000.0, "gen_tok_s": 80.0}
    counter.count(tick(running=10, kv_usage=usage(10, 4000), **fields))
    found = counter.count(tick(running=20, kv_usage=usage(20, 4000), **fields))
    assert found is not None
    assert found.prompt_tokens == 40000


def test_a_mixed_window_streams_weights_once_per_decode_step() -> None:
    counter = recounter(vllm_facts())
    fields = {"kind": "mixed", "prompt_tok_s": 20000.0, "gen_tok_s": 3200.0, "running": 64, "kv_usage": usage(64, 1000)}
    counter.count(tick(**fields))
    found = counter.count(tick(**fields))
    assert found is not None
    assert found.steps == pytest.approx(50)
    assert found.weight_bytes == pytest.approx(50 * WEIGHTS)


def test_requests_shorter_than_a_tick_leave_the_steps_unknown() -> None:
    found = recounter(vllm_facts()).count(
        tick(kind="mixed", prompt_tok_s=2000.0, gen_tok_s=127.0, running=0, kv_usage=0.0)
    )
    assert found is not None
    assert found.steps is None
    assert found.bytes is None
    assert found.flops is not None
    assert "steps_unknown" in found.caveats


def test_accepted_drafts_mean_fewer_steps() -> None:
    fields = {"gen_tok_s": 3000.0, "running": 10, "kv_usage": usage(10, 500)}
    plain, drafted = (recounter(vllm_facts()).count(tick(**fields, accept_len=a)) for a in (None, 3.0))
    assert plain is not None
    assert drafted is not None
    assert plain.steps == pytest.approx(3 * drafted.steps)
    assert "speculative" in drafted.caveats


def test_iterations_from_the_log_are_taken_as_they_are() -> None:
    found = recounter(vllm_facts()).count(tick(gen_tok_s=3200.0, running=32, kv_usage=usage(32, 500), iterations=110))
    assert found is not None
    assert found.steps == 110


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"window_s": None}, id="no window"),
        pytest.param({"gen_tok_s": None}, id="no throughput line"),
        pytest.param({"status": "noise"}, id="health probes"),
    ],
)
def test_lines_that_say_too_little_are_not_recounted(fields: dict[str, object]) -> None:
    assert recounter(vllm_facts()).count(tick(**fields)) is None


def test_without_a_cache_size_the_context_is_unknown() -> None:
    found = recounter(vllm_facts(kv_cache_tokens=None)).count(tick(gen_tok_s=3200.0, running=32, kv_usage=0.1))
    assert found is not None
    assert "context_unknown" in found.caveats
    assert found.context is None


def sglang(**fields: object) -> ServingStep:
    return tick(engine="sglang", engine_version="0.5.16", prompt_tok_s=None, gen_tok_s=None, **fields)


@given(batch=st.integers(1, 256), context=st.integers(64, 4000), interval=st.sampled_from([10, 40]))
def test_sglang_decode_line_is_its_interval_of_steps(batch: int, context: int, interval: int) -> None:
    facts = LogFacts(engine="sglang", decode_log_interval=interval)
    step = tick(
        engine="sglang", window_s=0.5, gen_tok_s=batch * interval / 0.5, prompt_tok_s=None, running=batch,
        context_tokens=batch * context, iterations=interval,
    )  # fmt: skip
    found = recounter(facts).count(step)
    assert found is not None
    assert found.steps == interval
    assert found.context == pytest.approx(context - interval / 2)
    assert found.weight_bytes == pytest.approx(interval * WEIGHTS)


def test_sglang_prefill_batch_after_a_cached_prefix() -> None:
    """4 prompts of 100 new tokens after 900 cached ones: each new token attends to the prefix and to half its own."""
    found = recounter(LogFacts(engine="sglang", token_budget=8192)).count(
        sglang(kind="prefill", window_s=0.1, new_tokens=400, new_seqs=4, cached_tokens=3600)
    )
    assert found is not None
    assert found.attention_flops == pytest.approx(400 * (900 + 50) * PAIR)
    assert found.steps == 1
    assert found.flops == pytest.approx(400 * LINEAR + 4 * HEAD + found.attention_flops)


def test_sglang_chunks_of_long_prompts_are_not_short_prompts() -> None:
    """Prompts of 6,000 tokens cut at 8,192: every batch holds the tail of one and the head of another."""
    counter = recounter(LogFacts(engine="sglang", token_budget=8192))
    length, done, pairs, found = 6000, 0, 0.0, 0.0
    for _ in range(60):
        spans = range(done, done + 8192)
        prompts = len(
            {token // length for token in (spans[0], spans[-1])}
            | set(range(spans[0] // length, spans[-1] // length + 1))
        )
        pairs += sum(token % length for token in spans)
        counted = counter.count(
            sglang(kind="prefill", window_s=0.25, new_tokens=8192, new_seqs=prompts, cached_tokens=0)
        )
        assert counted is not None
        found += counted.attention_flops / PAIR
        done += 8192
    assert found == pytest.approx(pairs, rel=0.1)
