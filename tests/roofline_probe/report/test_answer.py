"""The ten-second answer: each thing once, what weighs little among the notes, three sentences where that is enough."""

from __future__ import annotations

from pathlib import Path

import pytest

import roofline_probe
from roofline_probe.diagnose import Finding, Number
from roofline_probe.report.answer import answer, notes

LOGS = Path(__file__).parents[3] / "fixtures" / "logs"


def bound(kind: str, by: str, share: float | None, **numbers: Number) -> Finding:
    return Finding(
        "bound", "headline", {"kind": kind, "bound": by, "roof_fraction": 0.5, "of": "beta", "share": share, **numbers}
    )


def waits(kind: str, windows: int, share: float | None, fraction: float = 0.02) -> Finding:
    numbers: dict[str, Number] = {"kind": kind, "windows": windows, "share": share, "roof_fraction": fraction}
    return Finding("waiting_for_host", "headline", numbers)


def parts(kind: str, **numbers: Number) -> Finding:
    step: dict[str, Number] = {"step_ms": 4.45, "gemm_ms": 2.5, "kv_ms": 0.45, "link_ms": 0.87, "rest_ms": 0.63}
    return Finding("parts", "headline", {"kind": kind, **step, **numbers})


@pytest.mark.parametrize(
    "log",
    ["vllm/0.24.0-h200-graph-1s", "vllm/0.24.0-h200-steady-10s", "vllm/0.24.0-h200-tp2-2s", "sglang/0.5.16-h200",
     "vllm/0.32.0-cpu-default"],
)  # fmt: skip
def test_captures_are_answered_in_three_sentences(log: str) -> None:
    result = roofline_probe.compare(LOGS / f"{log}.log", "h200", keep_points=False)
    said = " ".join(answer(result.findings))
    assert 1 <= said.count(". ") + 1 <= 3, said


def test_rows_in_which_the_gpu_waits_are_one_sentence() -> None:
    found = [waits("prefill", 17, 0.01, 0.12), waits("prefill", 73, 0.13, 0.17), waits("mixed", 1, 0.02)]
    (said,) = answer([bound("prefill", "compute", 0.8), *found])[1:]
    assert said.startswith("In 90 prefill windows and 1 mixed window (16 % of the steady time) the GPU waits")
    assert "at most 17 % of the roof" in said


def test_a_log_bound_by_the_host_throughout_says_so_once() -> None:
    found = [bound("decode", "host", 0.4), parts("decode"), bound("prefill", "host", 0.6)]
    said = answer([*found, waits("decode", 2, 0.4), waits("prefill", 4, 0.6, 0.16)])
    assert said[0].startswith("Throughout, the GPU waits for the host (at most 16 % of the roof)")
    assert said[1].startswith("Of decode's mean step of 4.45 ms")
    assert " ".join(said).count("host") == 1


def test_not_throughout_where_some_windows_work() -> None:
    said = answer([bound("mixed", "host", 1.0), waits("mixed", 8, 0.8, 0.19)])
    assert said[0].startswith("In 8 mixed windows (80 % of the steady time) the GPU waits for the host (at most 19 %")


def test_a_link_that_was_not_measured_is_no_engine_time() -> None:
    (said,) = answer([bound("decode", "memory", 0.7), parts("decode", link_ms=None, estimated=1)])
    assert "cannot be avoided at these rates; 0.630 ms is what the engine and the link between cards add." in said


def test_a_part_that_is_not_known_explains_nothing() -> None:
    (said,) = answer([bound("decode", "memory", 0.7), parts("decode", kv_ms=None, link_ms=0.0, rest_ms=None)])
    assert said.endswith("2.50 ms of GEMMs cannot be avoided with these kernels; how long it reads KV is not known.")


def test_a_kind_that_only_waits_has_no_second_sentence_beside_those_that_work() -> None:
    said = answer([bound("decode", "memory", 0.7), bound("prefill", "host", 0.3), waits("prefill", 9, 0.3)])
    assert said[0] == "Decode (70 % of the steady time) is bound by memory, at 50 % of beta."
    assert said[1].startswith("In 9 prefill windows (30 % of the steady time) the GPU waits for the host")
    assert len(said) == 2


def test_what_takes_under_a_twentieth_of_the_time_is_a_note() -> None:
    found = [bound("decode", "memory", 0.94), bound("mixed", "compute", 0.03), waits("prefill", 88, 0.03)]
    assert answer(found) == ["Decode (94 % of the steady time) is bound by memory, at 50 % of beta."]
    small, waiting = notes(found)
    assert small.startswith("Mixed (3 % of the steady time) is bound by arithmetic")
    assert waiting.startswith("In 88 prefill windows (3 % of the steady time)")


def test_an_unknown_share_hides_nothing() -> None:
    assert len(answer([bound("decode", "memory", None), waits("prefill", 3, None)])) == 2
    assert notes([bound("decode", "memory", None)]) == []


def test_a_step_taken_apart_tells_links_and_what_its_engine_time_would_buy() -> None:
    speedup = Finding("no_overhead", "advice", {"kind": "decode", "rest_ms": 0.63, "speedup": 1.165})
    (said,) = answer([bound("decode", "memory", 0.7), parts("decode", link_lower_bound=1), speedup])
    assert "2.50 ms of GEMMs, 0.450 ms of reading KV and at least 0.870 ms (20 %) on the link cannot be avoided" in said
    assert said.endswith("0.630 ms is what the engine adds: without that it would be at most 1.17× as fast.")


def test_kinds_that_are_not_taken_apart_share_a_sentence() -> None:
    said = answer([bound("decode", "memory", 0.6), parts("decode"), bound("mixed", "compute", 0.2),
                   bound("prefill", "compute", 0.2)])  # fmt: skip
    assert said[1] == (
        "Mixed (20 %) is bound by arithmetic, at 50 % of beta; prefill (20 %) is bound by arithmetic, at 50 % of beta."
    )


def test_kinds_counted_differently_for_one_reason_are_one_note() -> None:
    def counts(kind: str, quantity: str, ratio: float, why: str) -> Finding:
        code = "engine_counts_more" if ratio > 1 else "engine_counts_less"
        return Finding(code, "note", {"kind": kind, "quantity": quantity, "ratio": ratio, "why": why})

    told = notes(
        [
            counts("decode", "bytes", 1.02, "activations"),
            counts("decode", "FLOPs", 0.93, "sglang_lm_head_missing"),
            counts("prefill", "bytes", 4.68, "activations"),
        ]
    )
    assert told == [
        "Bytes: the engine counts 2 % more in decode and 4.68× as many in prefill: it adds activations, which are "
        "shown beside the recount and not in it.",
        "FLOPs: the engine counts 7 % fewer in decode: SGLang leaves the LM head out.",
    ]
