from __future__ import annotations

import pytest

from log_parsers.step import LogFacts, ScanReport
from roofline_probe.tail.hints import hint


def test_it_is_silent_at_first_and_once_steps_come():
    assert hint(29, ScanReport(lines=100), None) is None
    assert hint(300, ScanReport(lines=100, steps=1), None) is None


def test_lines_without_steps_are_counted_and_both_usual_causes_named():
    assert hint(30, ScanReport(lines=1204), None) == (
        "no MFU lines in 30 s; 1,204 lines seen; is --enable-mfu-metrics on? SGLang logs to stderr: use 2>&1."
    )


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (LogFacts(engine="vllm", flags={"disable_log_stats": True}), "without statistics"),
        (LogFacts(engine="vllm", warnings=("stats_disabled_api_servers",)), "more than one API server"),
        (LogFacts(engine="vllm", warnings=("aggregated_engines",)), "aggregated"),
        (LogFacts(engine="sglang", flags={"enable_mfu_metrics": True, "enable_metrics": False}), "--enable-metrics"),
        (LogFacts(engine="vllm", flags={"enable_mfu_metrics": True}), "once requests do"),
        (LogFacts(engine="vllm"), "is --enable-mfu-metrics on?"),
    ],
    ids=["stats-off", "api-servers", "aggregated", "sglang-metrics", "no-load-yet", "flag"],
)
def test_what_the_start_up_lines_tell_is_used(facts, words):
    sentence = hint(45, ScanReport(lines=10), facts)
    assert words in sentence
    assert "2>&1" not in sentence


def test_nothing_at_all_points_at_the_pipe():
    assert "2>&1" in hint(31, ScanReport(), None)


def test_the_flag_that_leaves_an_engines_lines_out_is_named() -> None:
    sentence = hint(45, ScanReport(lines=10, only_engine="sglang"), None)
    assert sentence is not None
    assert sentence.endswith("--engine sglang leaves other engines' lines out: is it the right one?")
