"""Before against after: what is called a change, how sure, and what is refused."""

from __future__ import annotations

import dataclasses
import random
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from log_parsers.step import ServingStep
from roofline_probe.comparison import compare
from roofline_probe.diff.collect import Collector, collect
from roofline_probe.diff.logs import LogDiff, Side, diff_logs, over
from roofline_probe.diff.pace import Pace
from roofline_probe.errors import UsageError
from roofline_probe.point import Point
from roofline_probe.recount import Work
from roofline_probe.report import diff_view, diff_words

GEMM_MS = {1: 4.07, 8: 4.10, 32: 4.25, 128: 4.94}
KV_MS_PER_TOKEN = 131072 / 4.58e9
ONE = Side("before.log", "vllm", "0.24.0", "/models/Meta-Llama-3-8B", "bf16", None, 1, "NVIDIA H200", 100)
TWO = Side("after.log", "vllm", "0.25.0", "/data/Meta-Llama-3-8B", "bf16", None, 1, "NVIDIA H200", 100)


def decode(batch: int, rest_ms: float, context: float = 900.0, status: str = "steady", **changes: Any) -> Point:
    gemm, kv = GEMM_MS[batch], batch * context * KV_MS_PER_TOKEN
    step_ms = gemm + kv + rest_ms
    tok_s, tflops = batch / step_ms * 1e3, batch * 15.0 / step_ms
    step = ServingStep(
        source="x.log", run=0, line_no=1, engine="vllm", engine_version=None, rank="0", kind="decode",
        status=status, window_s=1.0, tflops=tflops, gbps=3000.0, running=batch, gen_tok_s=tok_s,
    )  # type: ignore[arg-type]  # fmt: skip
    steps = 1e3 / step_ms
    work = Work(1.0, 1.0, steps, batch, context, tok_s, 0.0, 0.0, tflops * 1e12, 0.0, 15e9 * steps, 0.0, 0.0, 0.0)
    fields: dict[str, Any] = {
        "recounted_tflops": tflops, "recounted_gbps": 3000.0, "basis": "recounted", "batch": float(batch),
        "context": context, "intensity": 1.0, "compute_fraction": 0.1, "bandwidth_fraction": 0.7, "roof_fraction": 0.7,
        "beta_name": "read", "step_ms": step_ms, "gemm_ms": gemm, "kv_ms": kv, "link_ms": None, "rest_ms": rest_ms,
        "attained_fraction": (gemm + kv) / step_ms, "estimated": False, "bound": "memory",
    }  # fmt: skip
    return Point(step=step, work=work, **(fields | changes))


def log_of(
    batch: int, rest_ms: float, windows: int = 40, seed: int = 1, noise: float = 0.05, **changes: Any
) -> list[Point]:
    """Windows of one batch whose engine time scatters by ``noise`` ms around ``rest_ms``."""
    generator = random.Random(seed)
    return [decode(batch, rest_ms + generator.gauss(0, noise), **changes) for _ in range(windows)]


def diff(before: list[Point], after: list[Point], one: Side = ONE, two: Side = TWO, same_roof: bool = True) -> LogDiff:
    return diff_logs(collect(before), collect(after), (one, two), same_roof=same_roof)


def test_slower_engine_is_told_in_the_words_of_the_step() -> None:
    found = diff(log_of(32, 0.97), log_of(32, 1.40, seed=3))
    (change,) = found.bins
    assert change.pace is not None
    assert change.pace.verdict == "slower"
    exact = (4.25 + 32 * 900 * KV_MS_PER_TOKEN + 1.40) / (4.25 + 32 * 900 * KV_MS_PER_TOKEN + 0.97) - 1
    assert change.pace.slower == pytest.approx(exact, abs=0.01)
    assert change.pace.low is not None
    assert change.pace.low < exact < (change.pace.high or 0)
    sentence = diff_words.bin_sentence(change)
    told = r"batch 32, context 900: engine rest 0\.9\d -> 1\.[34]\d ms; kernels unchanged; "
    assert re.fullmatch(told + r"decode [67]\.\d % slower \(6\.\d to 7\.\d\)", sentence)


def test_every_percentage_has_one_decimal_however_wide_the_interval() -> None:
    found = diff(log_of(32, 0.97, noise=0.3), log_of(32, 1.40, seed=3, noise=0.3))
    assert re.search(r"decode \d\.\d % slower \(\d\.\d to \d+\.\d\)$", diff_words.bin_sentence(found.bins[0]))


def test_a_change_that_rounds_to_nothing_has_no_sign() -> None:
    assert [diff_words.signed(f) for f in (-0.0004, 0.0, 0.0004, -0.06, 0.025)] == ["0.0", "0.0", "0.0", "-6.0", "+2.5"]


def test_log_against_itself_is_unchanged() -> None:
    points = log_of(32, 0.97) + log_of(128, 1.5)
    found = diff(points, points)
    assert [k.pace.verdict for k in found.kinds if k.pace] == ["unchanged"]
    assert all(c.pace and c.pace.slower == 0 for c in found.bins)
    assert "engine rest unchanged; kernels unchanged; decode unchanged" in diff_words.bin_sentence(found.bins[0])


def test_noise_alone_is_no_change() -> None:
    verdicts = [
        diff(log_of(32, 0.97, seed=s, noise=0.3), log_of(32, 0.97, seed=100 + s, noise=0.3)).kinds[0].pace
        for s in range(20)
    ]
    changed = [pace for pace in verdicts if pace and pace.verdict in ("slower", "faster")]
    assert len(changed) <= 2


def test_same_input_gives_the_same_interval() -> None:
    before, after = log_of(32, 0.97), log_of(32, 1.2, seed=2)
    assert diff(before, after) == diff(before, after)


def test_fewer_than_ten_windows_are_too_thin() -> None:
    found = diff(log_of(32, 0.97, windows=9), log_of(32, 5.0))
    (change,) = found.bins
    assert change.thin
    assert change.pace is None
    assert change.verdict == "too thin"
    assert change.changes["rest_ms"].low is None
    assert found.kinds[0].pace is None
    assert over(found, 1.0) == ([], [])
    assert diff_words.bin_sentences(found) == []
    assert "too thin to judge (9 windows; 10 are needed on both sides)" in diff_words.bin_sentence(change)


def test_larger_batches_are_not_called_faster() -> None:
    before = log_of(8, 0.9, windows=60) + log_of(128, 1.5, windows=20)
    after = log_of(8, 0.9, windows=20, seed=3) + log_of(128, 1.5, windows=60, seed=4)
    found = diff(before, after)
    assert found.kinds[0].pace is not None
    assert found.kinds[0].pace.verdict == "unchanged"


def test_kinds_weigh_their_bins_by_the_time_before() -> None:
    before = log_of(8, 0.9, windows=90) + log_of(128, 1.5, windows=30)
    after = log_of(8, 0.9, windows=90, seed=3) + log_of(128, 3.5, windows=30, seed=4)
    found = diff(before, after)
    slow = next(c for c in found.bins if c.batch_low == 128)
    assert slow.pace is not None
    assert found.kinds[0].pace is not None
    assert found.kinds[0].pace.slower == pytest.approx((1 + slow.pace.slower) ** 0.25 - 1, abs=0.01)


def test_only_steady_windows_count() -> None:
    found = diff(log_of(32, 0.97), log_of(32, 0.97, seed=2) + log_of(32, 50.0, status="diluted"))
    assert found.bins[0].after_windows == 40
    assert found.kinds[0].pace is not None
    assert found.kinds[0].pace.verdict == "unchanged"


def drifting(first: float, last: float, windows: int = 60, seed: int = 1, **changes: Any) -> list[Point]:
    """Windows of batch 32 whose context grows, and with it the engine's own time, which no roof knows."""
    generator = random.Random(seed)
    contexts = [first * (last / first) ** (at / (windows - 1)) for at in range(windows)]
    return [decode(32, 0.5 + c / 1000 + generator.gauss(0, 0.03), context=c, **changes) for c in contexts]


def test_a_context_that_grew_inside_a_bin_is_not_a_slower_engine() -> None:
    found = diff(drifting(200, 400), drifting(500, 1000, seed=2))
    (change,) = found.bins
    assert (change.verdict, change.before_alike, change.after_alike) == ("not alike", 0, 0)
    assert (found.kinds[0].pace, found.kinds[0].unlike_bins) == (None, 1)
    assert over(found, 0.0) == ([], [])
    assert diff_words.bin_sentences(found) == []
    assert re.search(r"mean context 2\d\d -> 7\d\d", diff_words.bin_sentence(change))
    assert "1 not alike in batch and context" in diff_words.kind_sentence(found.kinds[0])


def test_where_contexts_overlap_only_the_overlap_is_compared() -> None:
    found = diff(drifting(200, 700), drifting(400, 1000, seed=2))
    (change,) = found.bins
    assert change.verdict == "unchanged"
    assert change.before_alike < 40
    assert change.after_alike < 50
    share = found.kinds[0].compared_fraction
    assert share is not None
    assert 0.3 < share < 0.6
    sentence = diff_words.bin_sentence(change)
    assert re.search(
        r": mean context 400 -> 6\d\d; engine rest .* KV reads .*; like for like decode unchanged", sentence
    )
    assert "kernels unchanged" not in sentence


def test_a_slower_engine_is_found_behind_a_context_that_moved() -> None:
    slow = [
        dataclasses.replace(p, step_ms=p.step_ms * 1.05, attained_fraction=p.attained_fraction / 1.05)
        for p in drifting(300, 1000, seed=2)
        if p.step_ms and p.attained_fraction
    ]
    (change,) = diff(drifting(200, 700), slow).bins
    assert change.pace is not None
    assert change.pace.verdict == "slower"
    assert change.pace.low < 0.05 < change.pace.high
    assert change.pace.high - change.pace.low < 0.03


def test_a_batch_that_grew_inside_a_bin_is_not_a_slower_engine() -> None:
    before = [dataclasses.replace(p, batch=34.0) for p in log_of(32, 0.97)]
    after = [dataclasses.replace(p, batch=60.0) for p in log_of(32, 1.40, seed=2)]
    (change,) = diff(before, after).bins
    assert change.verdict == "not alike"
    assert "mean batch 34.0 -> 60.0" in diff_words.bin_sentence(change)


def test_a_context_that_no_log_tells_is_not_called_the_same() -> None:
    blind = [dataclasses.replace(p, context=None) for p in log_of(32, 0.97)]
    headline = diff_words.kind_sentence(diff(blind, blind).kinds[0])
    assert "decode unchanged" in headline
    assert "at the same batch, within 10 %, the context not being known: 1 bin" in headline
    blind = [dataclasses.replace(p, batch=None) for p in blind]
    headline = diff_words.kind_sentence(diff(blind, blind).kinds[0])
    assert "%) with batch and context not known: 1 bin" in headline


def test_one_stretch_of_a_long_log_is_one_look_however_many_windows_it_has() -> None:
    before = [decode(32, 1.0, context=300.0)] * 3000 + [decode(32, 1.0, context=900.0)] * 200
    (change,) = diff(before, [decode(32, 1.1, context=900.0)] * 40).bins
    assert (change.before_alike, change.after_alike, change.verdict) == (200, 40, "not alike")


def test_what_may_be_chance_is_not_called_unchanged() -> None:
    (change,) = diff(log_of(32, 1.0, windows=12, noise=0.5), log_of(32, 1.2, windows=12, noise=0.5, seed=4)).bins
    assert change.verdict == "unchanged"
    sentence = diff_words.bin_sentence(change)
    assert re.search(r"engine rest \S+ -> \S+ ms \(may be chance\)", sentence)
    assert re.search(r"decode \d\.\d % slower, which may be chance \(-\d\.\d to \+\d+\.\d %\)", sentence)


@pytest.mark.parametrize(
    ("relative", "words", "cell"),
    [
        pytest.param(0.061, "6.1 %", "+6.1", id="percent"),
        pytest.param(-0.4, "40.0 %", "-40.0", id="less"),
        pytest.param(2.09, "3.1x", "3.1x", id="three-times"),
        pytest.param(-0.75, "4.0x", "0.25x", id="a-quarter"),
        pytest.param(4402.127, "4,403x", "4,403x", id="thousands"),
        pytest.param(-1.0, "100.0 %", "-100.0", id="nothing-left"),
    ],
)
def test_from_a_factor_of_two_on_a_change_is_a_factor(relative: float, words: str, cell: str) -> None:
    assert diff_words.amount(relative) == words
    assert diff_words.change_cell(relative) == cell


def test_interval_of_a_factor() -> None:
    assert diff_words.pace_words("decode", Pace("step time", 2.1, 1.9, 2.3)) == "decode 3.1x slower (2.9x to 3.3x)"
    assert diff_words.pace_words("decode", Pace("step time", 1.1, 0.9, 1.3)) == "decode 2.1x slower (90.0 % to 2.3x)"
    assert diff_words.pace_words("decode", Pace("step time", -0.6, -0.7, -0.4)) == "decode 2.5x faster (40.0 % to 3.3x)"


def test_different_engines_are_compared_in_recounted_figures_only() -> None:
    other = Side("b.log", "sglang", None, "/data/Meta-Llama-3-8B", "bf16", None, 1, "NVIDIA H200", 40)
    found = diff(log_of(32, 0.97), log_of(32, 1.4), two=other)
    assert found.caveats == ("different_engine",)
    assert "recounted_tflops" in found.bins[0].changes
    assert not {"engine_tflops", "engine_gbps"} & set(found.bins[0].changes)


def test_different_cards_are_compared_by_time() -> None:
    other = Side("b.log", "vllm", "0.24.0", "Meta-Llama-3-8B", "bf16", None, 1, "NVIDIA H100", 40)
    found = diff(log_of(32, 0.97), log_of(32, 1.4), two=other, same_roof=False)
    assert "different_card" in found.caveats
    assert "engine_tflops" not in found.bins[0].changes
    assert found.bins[0].pace is not None
    assert found.bins[0].pace.basis == "step time"


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        pytest.param("model", "qwen3-8b", "different_model", id="model"),
        pytest.param("quantization", "fp8", "different_dtype", id="format"),
        pytest.param("tp", 2, "different_tp", id="tensor-parallel"),
    ],
)
def test_what_stands_between_two_logs_is_told(field: str, value: Any, code: str) -> None:
    fields = {name: getattr(TWO, name) for name in Side.__dataclass_fields__} | {field: value}
    found = diff(log_of(32, 1.0), log_of(32, 1.0, seed=2), two=Side(**fields))
    assert found.caveats == (code,)
    assert len(diff_words.log_caveats(found)) == 1


def test_the_folder_of_a_model_is_not_the_model() -> None:
    assert diff(log_of(32, 1.0), log_of(32, 1.0)).caveats == ()


def test_logs_with_nothing_in_common_say_so() -> None:
    found = diff(log_of(8, 1.0), log_of(128, 1.0))
    assert [(kind.kind, kind.pace, kind.common_bins) for kind in found.kinds] == [("decode", None, 0)]
    assert found.only_before == ("decode at batch 8, context 900 (40 windows)",)
    assert "nothing can be compared" in diff_view.markdown(found)


@pytest.mark.parametrize(
    ("batch", "windows", "shown"),
    [(1, 1, "decode at batch 1, context 900 (1 window)"), (8, 1200, "decode at batch 8, context 900 (1,200 windows)")],
)
def test_what_one_log_lacks_is_counted_in_words(batch: int, windows: int, shown: str) -> None:
    assert diff(log_of(batch, 1.0, windows=windows), log_of(128, 1.0)).only_before == (shown,)


def test_bins_that_one_log_lacks_are_told_apart_and_always_in_the_same_order() -> None:
    before = [p for context in (4200.0, 1500.0, 600.0) for p in log_of(32, 1.0, context=context)]
    found = diff(before, log_of(8, 1.0))
    shown = [f"decode at batch 32, context {context} (40 windows)" for context in ("600", "1,500", "4,200")]
    assert list(found.only_before) == shown, "of as many windows each, shorter contexts first, whatever the hash seed"


def prefill(point: Point) -> Point:
    return dataclasses.replace(point, step=dataclasses.replace(point.step, kind="prefill"))


def test_every_kind_of_either_log_has_its_answer_and_one_reason_is_told_once() -> None:
    thin = log_of(1, 1.0, windows=4)
    both = diff(thin + [prefill(p) for p in thin], thin + [prefill(p) for p in thin])
    ((sentence, _),) = diff_words.answers(both)
    assert sentence.startswith("decode and prefill: nothing compared, no bin has 10 windows on each side")
    assert "(2 too thin)" in sentence
    found = diff(log_of(8, 1.0) + [prefill(p) for p in log_of(32, 1.0)], log_of(128, 1.0))
    found = dataclasses.replace(found, bins=both.bins)
    assert [sentence for sentence, _ in diff_words.answers(found)] == [
        "decode: nothing compared, the logs have no bin of batch and context in common.",
        "prefill: in before only.",
    ]


def test_a_log_without_steady_windows_is_said_to_be_empty_and_the_others_bins_are_not_listed() -> None:
    empty = dataclasses.replace(TWO, steady_windows=0)
    found = diff(log_of(32, 1.0), [], two=empty)
    assert diff_words.answers(found) == [("After holds no steady window: nothing can be compared.", "")]
    assert diff_words.only_words(found) == []


def test_unchanged_bins_are_one_line() -> None:
    same, few = log_of(32, 0.97) + log_of(128, 1.5), [*log_of(8, 1.0), *log_of(1, 1.0)]
    unchanged = diff_words.bin_sentences(diff(same, same))
    assert unchanged == ["nothing in batch 32, context 900; batch 128, context 900"]
    assert diff_words.bin_sentences(diff(same + few, same + few)) == ["nothing in the 4 bins compared"]
    changed = diff_words.bin_sentences(diff(same, log_of(32, 1.4, seed=2) + log_of(128, 1.5)))
    assert changed[0].startswith("batch 32, context 900: engine rest")
    assert changed[1:] == ["unchanged: batch 128, context 900"]


def test_tensor_parallel_sides_are_told_which_figures_are_of_one_gpu() -> None:
    (sentence,) = diff_words.log_caveats(diff(log_of(32, 1.0), log_of(32, 1.0), two=dataclasses.replace(TWO, tp=2)))
    assert "FLOPs and bytes are those of one GPU, tok/s and step times the server's" in sentence


@pytest.mark.parametrize(
    ("fraction", "limit", "shown"),
    [
        pytest.param(0.0098, 1.0, "0.98", id="under-it"),
        pytest.param(0.00998, 1.0, "0.998", id="just-under-it"),
        pytest.param(0.0504, 5.0, "5.04", id="over-it"),
        pytest.param(0.061, 5.0, "6.1", id="far-from-it"),
        pytest.param(0.05, 5.0, "5.0", id="at-it"),
    ],
)
def test_a_percentage_is_never_shown_on_the_other_side_of_its_limit(fraction: float, limit: float, shown: str) -> None:
    assert diff_words.points(fraction, limit) == shown


@pytest.mark.parametrize(
    ("percent", "fails"), [pytest.param(5.0, True, id="over"), pytest.param(10.0, False, id="within")]
)
def test_gate_looks_at_kinds_and_bins(percent: float, fails: bool) -> None:
    kinds, bins = over(diff(log_of(32, 0.97), log_of(32, 1.40, seed=2)), percent)
    assert bool(kinds) is fails
    assert bool(bins) is fails


def test_the_gates_sentence_names_a_kind_once_and_the_bins_that_its_sum_hides() -> None:
    before, after = log_of(32, 0.97) + log_of(128, 1.5), log_of(32, 1.4, seed=2) + log_of(128, 2.6, seed=3)
    (sentence,) = diff_words.gate_words(diff(before, after), 5.0)
    assert re.fullmatch(r"decode \d+\.\d % slower \(2 bins, up to \d+\.\d %\)", sentence)
    long = log_of(128, 1.5, windows=600)
    (hidden,) = diff_words.gate_words(diff(log_of(32, 0.97) + long, log_of(32, 1.4, seed=2) + long), 5.0)
    assert re.fullmatch(r"batch 32, context 900: \d\.\d % slower", hidden)


def test_one_token_is_no_plural() -> None:
    (change,) = diff([prefill(p) for p in log_of(1, 1.0)], [prefill(p) for p in log_of(1, 1.0)]).bins
    assert diff_words.bin_name(change) == "prefill of 1 token a step"


@pytest.mark.parametrize("percent", [float("nan"), float("inf"), -1.0])
def test_a_gate_that_nothing_can_fail_is_refused(percent: float) -> None:
    with pytest.raises(UsageError, match="is not a percentage"):
        over(diff(log_of(32, 0.97), log_of(32, 1.40, seed=2)), percent)


def test_gate_is_not_failed_by_noise() -> None:
    found = diff(log_of(32, 1.0, windows=12, noise=1.5), log_of(32, 1.3, windows=12, noise=1.5, seed=9))
    assert over(found, 1.0) == ([], [])


def test_unknown_parts_leave_the_rate() -> None:
    unknown: dict[str, Any] = dict.fromkeys(
        ("step_ms", "gemm_ms", "kv_ms", "rest_ms", "attained_fraction", "recounted_tflops", "recounted_gbps")
    )
    before = [dataclasses.replace(p, **unknown) for p in log_of(32, 0.97)]
    found = diff(before, [dataclasses.replace(p, **unknown) for p in log_of(32, 1.4, seed=2)])
    (change,) = found.bins
    assert change.pace is not None
    assert change.pace.basis == "tokens/s"
    assert change.pace.verdict == "slower"
    assert diff_words.bin_sentence(change).startswith("batch 32, context 900: decode 6.7 % slower")


def test_memory_of_a_side_is_bounded() -> None:
    collector = Collector()
    for point in log_of(32, 1.0, windows=3000):
        collector.add(point)
    (kept,) = collector.bins.values()
    assert kept.blocks.windows == 3000
    assert len(kept.blocks.draw("x")[0]) <= 128


def test_json_carries_verdicts_and_words() -> None:
    document = msgspec.json.decode(diff_view.json_document(diff(log_of(32, 0.97), log_of(32, 1.40, seed=2))))
    assert document["type"] == "logs"
    assert document["kinds"][0]["verdict"] == "slower"
    assert document["bins"][0]["changes"]["rest_ms"]["relative"] == pytest.approx(0.44, abs=0.05)
    assert "engine rest" in document["bins"][0]["words"]


def test_markdown_of_hostile_names_is_text() -> None:
    hostile = Side("<img src=x>|[a](http://x) @you `", "vllm", "0.1", "m|*x*", "bf16", None, 1, "NVIDIA H200", 40)
    text = diff_view.markdown(diff(log_of(32, 1.0), log_of(32, 1.4), two=hostile))
    assert "<img" not in text.replace("\\<img", "")
    assert "[a]" not in text.replace("\\[a\\]", "")
    assert "@you" not in text.replace("\\@you", "")


def test_a_steady_window_of_no_known_length_is_not_counted() -> None:
    log = Path(__file__).parents[3] / "fixtures/logs/vllm/0.33.0-rust-frontend.log"
    collected = Collector()
    result = compare(log, "h200", keep_points=False, sink=collected.add)
    assert collected.windows == sum(row.windows for row in result.summary.kinds)
    assert result.summary.excluded["untimed"] == 1
