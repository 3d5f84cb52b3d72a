"""A page becomes one sample per engine, whatever else is on it."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline_probe.errors import UsageError
from roofline_probe.fleet.exposition import parse
from roofline_probe.fleet.scrape import ScrapeFailed


def test_real_vllm_page_gives_counters_gauges_and_the_kv_cache_size(captured: Callable[[str], bytes]) -> None:
    samples = parse(captured("vllm/0.24.0-h200-graph-1s-after-batch-256.prom"))

    (sample,) = samples.values()
    assert (sample.engine, sample.rank, sample.model) == ("vllm", "0", "/models/Meta-Llama-3-8B-Instruct")
    assert sample.counters["flops"] == 1.0441522982944768e16
    assert sample.counters["read_bytes"] == 2.3559437205504e14
    assert sample.counters["computed_prompt_tokens"] == 54656
    assert sample.counters["gen_tokens"] == 625032
    assert sample.counters["iterations"] == 10521
    assert sample.gauges["kv_cache_tokens"] == 840016
    assert sample.born == 1795962317.5469656


def test_real_sglang_page_takes_token_counts_by_mode(captured: Callable[[str], bytes]) -> None:
    (sample,) = parse(captured("sglang/0.5.16-h200-bf16-after-mixed.prom")).values()

    assert (sample.engine, sample.rank) == ("sglang", None)
    assert sample.counters["computed_prompt_tokens"] == 721650
    assert sample.counters["cached_tokens"] == 2861525
    assert sample.counters["gen_tokens"] == 378279
    assert sample.gauges["kv_cache_tokens"] == 788971


def test_kv_cache_size_of_older_vllm_is_blocks_times_block_size() -> None:
    page = b'vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="100",cache_dtype="fp8"} 1.0\n'

    (sample,) = parse(page).values()

    assert sample.gauges["kv_cache_tokens"] == 1600
    assert sample.kv_cache_dtype == "fp8"


def test_two_vllm_engines_stay_apart(vllm_page: Callable[..., bytes]) -> None:
    samples = parse(vllm_page(engine="0", flops=1.0) + vllm_page(engine="1", flops=2.0))

    assert {rank: s.counters["flops"] for (_, rank), s in samples.items()} == {"0": 1.0, "1": 2.0}


def test_sglang_ranks_are_named_as_its_log_names_them(sglang_page: Callable[..., bytes]) -> None:
    page = b"".join(
        sglang_page(f'tp_rank="0",pp_rank="{pp}",moe_ep_rank="0",dp_rank="{dp}"') for pp in (0, 1) for dp in (0, 1)
    )

    assert [rank for _, rank in parse(page)] == ["DP0 PP0", "DP1 PP0", "DP0 PP1", "DP1 PP1"]


def test_priorities_are_not_added_to_their_own_total() -> None:
    name = 'sglang:num_running_reqs{{tp_rank="0",priority="{}"}} {}\n'
    page = "".join(name.format(priority, value) for priority, value in (("1", 3), ("", 7), ("2", 4)))

    (sample,) = parse(page.encode()).values()

    assert sample.gauges["running"] == 7


def test_series_that_are_not_finite_are_left_out(vllm_page: Callable[..., bytes]) -> None:
    (sample,) = parse(vllm_page(flops=float("nan"), kv=float("inf"))).values()

    assert "flops" not in sample.counters
    assert "kv_usage" not in sample.gauges


def test_gauges_below_nothing_are_left_out(vllm_page: Callable[..., bytes]) -> None:
    (sample,) = parse(vllm_page(kv=-1.0)).values()

    assert "kv_usage" not in sample.gauges


def test_control_characters_of_a_label_do_not_get_through() -> None:
    (sample,) = parse(b'vllm:num_requests_running{engine="0\x1b[31m",model_name="m\x07"} 1\n').values()

    assert sample.rank == "0?[31m"
    assert sample.model == "m?"


@pytest.mark.parametrize(
    ("page", "words"),
    [
        pytest.param(b"<html>It works!</html>", "no vllm: or sglang: series", id="web-page"),
        pytest.param(b"go_goroutines 12\n", "no vllm: or sglang: series", id="other-exporter"),
        pytest.param(b"", "no vllm: or sglang: series", id="empty"),
        pytest.param(b'vllm:num_requests_running{engine="0" 1\n', "not in Prometheus' text format", id="cut-label"),
        pytest.param(b"vllm:num_requests_running many\n", "not in Prometheus' text format", id="no-number"),
    ],
)
def test_a_page_of_something_else_is_one_sentence(page: bytes, words: str) -> None:
    with pytest.raises(ScrapeFailed, match=words):
        parse(page)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 400))
def test_no_page_raises_anything_but_its_sentence(junk: bytes, at: int) -> None:
    good = b'vllm:num_requests_running{engine="0",model_name="m"} 1.0\nsglang:token_usage{tp_rank="0"} 0.5\n'

    with contextlib.suppress(ScrapeFailed):
        assert parse(good[:at] + junk + good[at:])


def test_without_prometheus_client_one_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def missing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("prometheus_client"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)

    with pytest.raises(UsageError, match=r"roofline-probe\[fleet\]"):
        parse(b"vllm:num_requests_running 1\n")
