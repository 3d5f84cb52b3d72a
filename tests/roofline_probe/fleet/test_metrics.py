"""Counters become serving steps: gains over time, restarts, gaps, silent counters, targets that fail or stall."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import log_parsers
from log_parsers.step import LogFacts, ServingStep
from roofline_probe.errors import UsageError
from roofline_probe.fleet.counters import EngineHistory, advance, facts_of
from roofline_probe.fleet.exposition import parse
from roofline_probe.fleet.metrics import MetricsSource
from roofline_probe.fleet.parallelism import DegreeFinder

LOGS = Path(__file__).resolve().parents[3] / "fixtures" / "logs"
KV_TOKENS = {1: 840_016, 2: 1_805_424}
"""What the servers of the two logs said of their KV cache, by tensor-parallel degree."""


def windows_of(*pages: bytes, every_s: float = 10.0) -> list[list[ServingStep]]:
    """The steps between pages of one engine scraped every ``every_s`` seconds, scrape by scrape."""
    (first,) = parse(pages[0]).values()
    history, windows = EngineHistory(first, at=0.0), []
    for number, page in enumerate(pages[1:], start=1):
        (sample,) = parse(page).values()
        history, steps = advance(history, sample, number * every_s, "u", "2026-01-01T00:00:00+00:00")
        windows.append(steps)
    return windows


def step_of(before: bytes, after: bytes) -> ServingStep:
    """The one step between two pages of vLLM, or of SGLang when it did one thing only."""
    ((step,),) = windows_of(before, after)
    return step


def test_rates_are_gains_over_the_window(vllm_page: Callable[..., bytes]) -> None:
    before = vllm_page(flops=1e15, read=1e13, write=1e10, gen=1000, steps=100, running=8, waiting=1, kv=0.4)
    after = vllm_page(flops=3e15, read=4e13, write=11e10, gen=5000, steps=600, running=8, waiting=2, kv=0.5)

    step = step_of(before, after)

    assert (step.kind, step.status) == ("decode", "steady")
    assert step.window_s == 10
    assert step.tflops == pytest.approx(200)
    assert step.read_gbps == pytest.approx(3000)
    assert step.write_gbps == pytest.approx(10)
    assert step.gbps == pytest.approx(3010)
    assert step.gen_tok_s == pytest.approx(400)
    assert step.iterations == 500
    assert (step.running, step.waiting, step.kv_usage, step.rank) == (8, 2, 0.5, "0")


@pytest.mark.parametrize(
    ("gains", "kind"),
    [
        pytest.param({"gen": 100, "flops": 1}, "decode", id="decode"),
        pytest.param({"prompt": 600, "gen": 2, "first": 2, "flops": 1}, "prefill", id="first-tokens-are-prefill"),
        pytest.param({"prompt": 600, "gen": 50, "first": 2, "flops": 1}, "mixed", id="mixed"),
    ],
)
def test_kind_of_a_vllm_window(vllm_page: Callable[..., bytes], gains: dict[str, float], kind: str) -> None:
    step = step_of(vllm_page(running=1), vllm_page(running=1, **gains))

    assert step.kind == kind


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        pytest.param({}, {}, "idle", id="nothing-moved"),
        pytest.param({"running": 0}, {"running": 4, "gen": 100, "flops": 1}, "partial", id="work-began"),
        pytest.param({"running": 4}, {"running": 0, "gen": 100, "flops": 1}, "partial", id="work-ended"),
        pytest.param({"running": 4}, {"running": 4, "gen": 100, "flops": 1}, "steady", id="ran-all-along"),
    ],
)
def test_status_of_a_window(
    vllm_page: Callable[..., bytes], before: dict[str, float], after: dict[str, float], status: str
) -> None:
    step = step_of(vllm_page(**before), vllm_page(**after))

    assert step.status == status


def test_sglang_health_probes_are_noise(sglang_page: Callable[..., bytes]) -> None:
    (steps,) = windows_of(sglang_page(), sglang_page(computed=5, gen=5, flops=1e11, read=1e11))

    assert {(step.status, step.status_reason) for step in steps} == {("noise", "health probes only")}


def test_sglang_window_is_split_as_its_log_is(sglang_page: Callable[..., bytes]) -> None:
    common = {"running": 8.0, "queue": 3.0, "context": 4096.0, "kv": 0.25}
    gained = {"computed": 250.0, "cached": 750.0, "gen": 750.0, "flops": 4e14, "read": 8e12, "write": 4e11}

    ((decode, prefill),) = windows_of(sglang_page(**common), sglang_page(**common, **gained))

    assert (decode.kind, decode.queue, decode.waiting, decode.context_tokens) == ("decode", 3, None, 4096)
    assert (decode.gen_tok_s, decode.prompt_tok_s) == (75.0, None)
    assert decode.tflops == pytest.approx(30)
    assert decode.read_gbps == pytest.approx(600)
    assert (prefill.kind, prefill.prompt_tok_s, prefill.gen_tok_s) == ("prefill", 25.0, None)
    assert prefill.tflops == pytest.approx(10)
    assert (prefill.gbps, prefill.read_gbps, prefill.write_gbps) == (None, None, None)
    assert (prefill.cached_tokens, prefill.prefix_hit_rate) == (750, 0.75)
    assert decode.window_s == prefill.window_s == 10


@pytest.mark.parametrize(("gained", "kind"), [({"gen": 80.0}, "decode"), ({"computed": 900.0}, "prefill")])
def test_sglang_window_that_did_one_thing_is_one_step(
    sglang_page: Callable[..., bytes], gained: dict[str, float], kind: str
) -> None:
    step = step_of(sglang_page(running=8), sglang_page(running=8, flops=1e14, **gained))

    assert (step.kind, step.tflops) == (kind, pytest.approx(10))


@pytest.mark.parametrize(
    "after",
    [
        pytest.param({"flops": 1e9, "gen": 5, "born": 1.0}, id="counter-fell"),
        pytest.param({"flops": 5e13, "gen": 5000, "born": 2.0}, id="born-later-though-higher"),
    ],
)
def test_a_restart_gives_no_step_and_begins_a_run(vllm_page: Callable[..., bytes], after: dict[str, float]) -> None:
    before = vllm_page(flops=1e13, gen=1000, born=1.0, running=1)
    restarted = vllm_page(running=1, **after)
    later = vllm_page(flops=after["flops"] + 1e13, gen=after["gen"] + 10, born=after["born"], running=1)

    gap, (step,) = windows_of(before, restarted, later)

    assert gap == []
    assert (step.run, step.line_no) == (1, 3)
    assert step.tflops == pytest.approx(1.0)


def test_flag_off_leaves_rates_unknown_and_says_how_to_switch_it_on(
    replay: Any, vllm_page: Callable[..., bytes]
) -> None:
    source = MetricsSource([replay.url], interval_s=5)
    replay.pages["/metrics"] = vllm_page(running=1)
    source.scrape()
    replay.pages["/metrics"] = vllm_page(gen=100, running=1)

    (reading,) = source.scrape()

    (step,) = reading.steps
    assert (step.tflops, step.gbps, step.status) == (None, None, "steady")
    assert step.gen_tok_s is not None
    assert reading.problem is not None
    assert "--enable-mfu-metrics" in reading.problem
    assert reading.facts[0].flags == {"enable_mfu_metrics": False}


def test_missing_series_are_none_not_zero(vllm_page: Callable[..., bytes]) -> None:
    drop = ("flops", "read", "write", "steps", "kv")

    step = step_of(vllm_page(drop=drop, running=1), vllm_page(drop=drop, gen=10, running=1))

    assert (step.tflops, step.read_gbps, step.gbps, step.iterations, step.kv_usage) == (None,) * 5


def test_a_missed_scrape_only_lengthens_the_next_window(
    replay: Any, vllm_page: Callable[..., bytes], respond: Callable[..., None]
) -> None:
    source = MetricsSource([replay.url], interval_s=5)
    replay.pages["/metrics"] = vllm_page(running=1)
    source.scrape()
    replay.pages["/metrics"] = lambda handler: respond(handler, b"", 503)
    (failed,) = source.scrape()
    replay.pages["/metrics"] = vllm_page(flops=7e12, gen=10, running=1)

    (reading,) = source.scrape()

    assert failed.steps == []
    assert failed.problem == "It answered 503; is the engine healthy?"
    (step,) = reading.steps
    assert reading.problem is None
    assert step.tflops is not None
    assert step.window_s is not None
    assert step.tflops * step.window_s == pytest.approx(7)


def test_a_restart_is_said_once(replay: Any, vllm_page: Callable[..., bytes]) -> None:
    source = MetricsSource([replay.url], interval_s=5)
    problems = []
    for flops in (5e12, 1e12, 2e12):
        replay.pages["/metrics"] = vllm_page(flops=flops, gen=flops / 1e12, running=1)
        problems.append(source.scrape()[0].problem)

    assert problems[0] is None
    assert problems[1] is not None
    assert "restarted" in problems[1]
    assert problems[2] is None


def test_an_engine_that_left_and_came_back_starts_afresh(replay: Any, vllm_page: Callable[..., bytes]) -> None:
    source = MetricsSource([replay.url], interval_s=5)
    both = vllm_page(engine="0", running=1) + vllm_page(engine="1", running=1)
    seen = []
    for page in (both, vllm_page(engine="0", running=1), both, both):
        replay.pages["/metrics"] = page
        seen.append([step.rank for step in source.scrape()[0].steps])

    assert seen == [[], ["0"], ["0"], ["0", "1"]]


def test_dead_and_stalled_targets_do_not_hold_up_the_others(new_server: Any, vllm_page: Callable[..., bytes]) -> None:
    good, stalled = new_server(), new_server()
    release = threading.Event()
    good.pages["/metrics"] = vllm_page(running=1)
    stalled.pages["/metrics"] = lambda handler: release.wait(20)
    urls = [stalled.url, "http://127.0.0.1:9/metrics", good.url]
    with MetricsSource(urls, interval_s=0.4) as source:
        ticks = source.ticks()
        next(ticks)
        good.pages["/metrics"] = vllm_page(gen=10, flops=1e12, running=1)
        second = next(ticks)
    release.set()

    assert [reading.label for reading in second] == urls
    assert second[0].problem is not None
    assert "did not answer" in second[0].problem
    assert second[1].problem is not None
    assert len(second[2].steps) == 1


def test_among_several_servers_ranks_carry_the_servers_name(new_server: Any, vllm_page: Callable[..., bytes]) -> None:
    one, two = new_server(), new_server()
    source = MetricsSource([one.url, two.url], interval_s=5)
    for tokens in (0, 10):
        one.pages["/metrics"] = vllm_page(gen=tokens, flops=tokens, running=1)
        two.pages["/metrics"] = vllm_page("0", gen=tokens, running=1) + vllm_page("1", gen=tokens, running=1)
        readings = source.scrape()

    ranks = [step.rank for reading in readings for step in reading.steps]
    assert ranks == [f"127.0.0.1:{one.port}", f"127.0.0.1:{two.port} 0", f"127.0.0.1:{two.port} 1"]


def test_a_single_server_keeps_its_ranks_as_printed(replay: Any, vllm_page: Callable[..., bytes]) -> None:
    source = MetricsSource([replay.url], interval_s=5)
    for tokens in (0, 10):
        replay.pages["/metrics"] = vllm_page(gen=tokens, running=1)
        (reading,) = source.scrape()

    assert [step.rank for step in reading.steps] == ["0"]


def test_headers_that_trickle_are_given_up(replay: Any) -> None:
    ended = threading.Event()

    def trickle(handler: Any) -> None:
        try:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
            for _ in range(400):
                handler.wfile.write(b"x")
                time.sleep(0.02)
        except OSError:
            ended.set()

    replay.pages["/metrics"] = trickle
    source = MetricsSource([replay.url], interval_s=0.3)

    (reading,) = source.scrape()

    assert reading.problem is not None
    assert "did not answer" in reading.problem
    assert ended.wait(5), "the connection was left open"


def test_closing_ends_the_ticks(replay: Any, vllm_page: Callable[..., bytes]) -> None:
    replay.pages["/metrics"] = vllm_page()
    source = MetricsSource([replay.url], interval_s=30)
    ticks = source.ticks()
    next(ticks)

    source.close()

    assert list(ticks) == []


def test_200_targets_are_all_read_in_one_tick(replay: Any, captured: Callable[[str], bytes]) -> None:
    page = captured("vllm/0.24.0-h200-graph-1s-after-batch-256.prom")
    urls = [f"{replay.url}?target={i}" for i in range(200)]
    for i in range(200):
        replay.pages[f"/metrics?target={i}"] = page
    with MetricsSource(urls, interval_s=60, timeout_s=60) as source:
        source.scrape()
        readings = source.scrape()

    assert [reading.problem for reading in readings] == [None] * 200
    assert sum(len(reading.steps) for reading in readings) == 200


def test_facts_come_from_the_page(captured: Callable[[str], bytes]) -> None:
    (sample,) = parse(captured("vllm/0.24.0-h200-graph-1s-after-batch-256.prom")).values()

    facts = facts_of(EngineHistory(sample, 0.0), "u")

    assert (facts.engine, facts.model) == ("vllm", "/models/Meta-Llama-3-8B-Instruct")
    assert (facts.kv_cache_tokens, facts.kv_cache_dtype) == (840016, None)
    assert facts.flags == {"enable_mfu_metrics": True}


def test_facts_stay_the_same_object_until_they_change(replay: Any, vllm_page: Callable[..., bytes]) -> None:
    source = MetricsSource([replay.url], interval_s=5)
    seen = []
    for flops in (1e12, 2e12, 3e12, 1e12):
        replay.pages["/metrics"] = vllm_page(flops=flops, gen=flops / 1e12, running=1)
        (facts,) = source.scrape()[0].facts
        seen.append(facts)

    assert seen[0] is seen[1] is seen[2]
    assert [facts.run for facts in seen] == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("log", "degree"), [("0.24.0-h200-graph-1s.log", 1), ("0.24.0-h200-tp2-2s.log", 2)], ids=["one-gpu", "two-gpus"]
)
def test_tensor_parallel_degree_is_told_by_flops_per_gpu(log: str, degree: int) -> None:
    """Counters and log lines carry the same figures; the facts are what ``/metrics`` would state: no degree."""
    facts = LogFacts(engine="vllm", model="/models/Meta-Llama-3-8B-Instruct", kv_cache_tokens=KV_TOKENS[degree])
    finder = DegreeFinder(facts)

    for step in log_parsers.parse(LOGS / "vllm" / log):
        finder.feed(step)

    assert finder.degree == degree


def test_degree_of_an_unknown_model_stays_unknown() -> None:
    finder = DegreeFinder(LogFacts(engine="vllm", model="our/own-model"))

    for step in log_parsers.parse(LOGS / "vllm" / "0.24.0-h200-graph-1s.log"):
        finder.feed(step)

    assert finder.degree is None


@pytest.mark.parametrize("interval", [0, -1, float("nan"), float("inf"), 1e300])
def test_an_interval_that_no_clock_waits_is_refused(interval: float) -> None:
    with pytest.raises(UsageError, match="more than 0 and at most"):
        MetricsSource(["http://host"], interval_s=interval)
