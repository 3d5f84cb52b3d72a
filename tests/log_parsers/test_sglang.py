"""SGLang's lines: order-free fields of every release, windows, status, and the start-up facts."""

from __future__ import annotations

from pathlib import Path

import pytest

from log_parsers import LogFacts, LogStream, ServingStep

LOGS = Path(__file__).parents[2] / "fixtures" / "logs" / "sglang"
ARGS = "[2026-03-01 11:58:00] server_args=ServerArgs(model_path='m', decode_log_interval=10, enable_metrics=True)\n"


def decode(
    second: int = 1, running: int = 8, token: int = 4000, gen: float = 1600.0, rank: str = "", tail: str = ""
) -> str:
    return (
        f"[2026-03-01 12:00:{second:02d}{rank}] Decode batch, #running-req: {running}, #token: {token}, "
        f"token usage: 0.31, cuda graph: True, gen throughput (token/s): {gen:.2f}, #queue-req: 3, "
        f"est. decode TFLOPS/s (per GPU): 22.90, est. read BW (GB/s per GPU): 21000.10, "
        f"est. write BW (GB/s per GPU): 6.20{tail}\n"
    )


def prefill(
    second: int = 1,
    new: int = 4096,
    rate: float = 40960.0,
    running: int = 3,
    cached: int = 0,
    pending: str = "#pending-token: 5, ",
) -> str:
    return (
        f"[2026-03-01 12:00:{second:02d}] Prefill batch, #new-seq: 1, #new-token: {new}, #cached-token: {cached}, "
        f"token usage: 0.02, #running-req: {running}, #queue-req: 4, {pending}cuda graph: False, "
        f"input throughput (token/s): {rate:.2f}, est. prefill TFLOPS/s (per GPU): 500.25\n"
    )


def read(text: str) -> list[ServingStep]:
    stream = LogStream("log")
    return stream.feed(text.encode()) + stream.close()


def facts_of(text: str) -> LogFacts:
    stream = LogStream("log")
    stream.feed(text.encode())
    return stream.facts


def test_a_decode_line() -> None:
    (step,) = read(decode())
    assert (step.kind, step.engine, step.rank, step.time) == ("decode", "sglang", None, "2026-03-01T12:00:01")
    assert (step.running, step.queue, step.waiting, step.context_tokens) == (8, 3, None, 4000)
    assert (step.tflops, step.read_gbps, step.write_gbps, step.gbps) == (22.9, 21000.1, 6.2, 21006.3)
    assert (step.gen_tok_s, step.prompt_tok_s, step.kv_usage, step.graph) == (1600.0, None, 0.31, True)
    assert (step.new_tokens, step.cached_tokens, step.year_inferred, step.line_no) == (None, None, False, 1)


def test_a_prefill_line() -> None:
    (step,) = read(prefill(cached=128))
    assert (step.kind, step.new_tokens, step.cached_tokens) == ("prefill", 4096, 128)
    assert (step.running, step.queue, step.prompt_tok_s, step.gen_tok_s) == (3, 4, 40960.0, None)
    assert (step.tflops, step.gbps, step.read_gbps, step.graph) == (500.25, None, None, False)
    assert (step.window_s, step.iterations, step.new_seqs) == (0.1, 1, 1)


@pytest.mark.parametrize(
    ("usage", "tokens", "fraction"),
    [
        ("#token: 41234, token usage: 0.31", 41234, 0.31),
        ("#full token: 41234, full token usage: 0.31, #swa token: 9876, swa token usage: 0.12", 41234, 0.31),
        ("#full token: 7, full token usage: 0.50, mamba num: 77, mamba usage: 0.45", 7, 0.5),
        ("#gpu token: 12, gpu token usage: 0.10, #cpu token: 99, cpu token usage: 0.90", 12, 0.1),
    ],
)
def test_every_form_of_the_usage_part(usage: str, tokens: int, fraction: float) -> None:
    (step,) = read(decode().replace("#token: 4000, token usage: 0.31", usage))
    assert (step.context_tokens, step.kv_usage) == (tokens, fraction)


@pytest.mark.parametrize(
    "part",
    [
        "accept len: 2.41, accept rate: 0.60, ",
        "pre-allocated usage: 0.04, #prealloc-req: 2, #transfer-req: 1, #host-receive-req: 9, #retracted-req: 0, ",
        "waiting-image-req: 1, ",
        "some future field: whatever it is, ",
        "cap len: 3.00, block accept len: 1.50, ",
    ],
)
def test_optional_parts_do_not_disturb_the_others(part: str) -> None:
    plain, other = read(decode())[0], read(decode().replace("cuda graph", part + "cuda graph"))[0]
    same = ("running", "context_tokens", "gen_tok_s", "queue", "tflops", "read_gbps", "write_gbps", "graph", "kv_usage")
    assert [getattr(other, name) for name in same] == [getattr(plain, name) for name in same]
    assert other.accept_len == (2.41 if "accept len: 2.41" in part else None)


@pytest.mark.parametrize(
    "tail", [", fwd occupancy: nan%", ", fwd occupancy: 93.46%, fwd+idle occupancy: 95.00%", ",", ", "]
)
def test_what_may_follow_the_last_field(tail: str) -> None:
    (step,) = read(decode(tail=tail))
    assert step.write_gbps == 6.2


@pytest.mark.parametrize("label", ["cuda graph", "cpu graph", "npu graph", "musa graph"])
def test_the_graph_label_of_every_device(label: str) -> None:
    assert [step.graph for step in read(decode().replace("cuda graph", label))] == [True]
    assert [step.graph for step in read(decode().replace("cuda graph: True", f"{label}: False"))] == [False]


def test_fields_are_read_in_any_order() -> None:
    head, body = decode().rstrip().split("Decode batch, ")
    shuffled = f"{head}Decode batch, {', '.join(reversed(body.split(', ')))}\n"
    plain, other = read(decode())[0], read(shuffled)[0]
    assert (other.running, other.gen_tok_s, other.tflops) == (plain.running, plain.gen_tok_s, plain.tflops)


@pytest.mark.parametrize("rank", ["TP0", "DP1 TP2 EP2", "DP0 PP1 ATTN_CP0 MOE_DP0 TP0 EP0"])
def test_ranks_are_kept_as_printed_and_have_states_of_their_own(rank: str) -> None:
    steps = read(decode(1, rank=f" {rank}") + decode(2) + decode(3, rank=f" {rank}") + decode(4))
    assert [step.rank for step in steps] == [rank, None, rank, None]
    assert [step.status for step in steps] == ["diluted", "diluted", "steady", "steady"]


@pytest.mark.parametrize("iteration", ["Decode batch [123], ", "Decode batch. ", "Decode batch [7]. "])
def test_the_words_in_front_of_the_fields(iteration: str) -> None:
    (step,) = read(decode().replace("Decode batch, ", iteration))
    assert step.running == 8


@pytest.mark.parametrize(
    "line",
    [
        decode().replace("6.20", "6.2"),
        decode().replace("6.20", "6."),
        decode().replace(", est. write BW (GB/s per GPU): 6.20", ""),
        decode().replace(", est. write BW (GB/s per GPU): 6.20", ", est. write B"),
        decode().replace("#running-req: 8", "#running-req: 8x"),
        decode().replace("#token: 4000", "#token: 40[2026"),
        decode().replace("gen throughput (token/s): 1600.00, ", ""),
        decode().replace("cuda graph: True", "cuda graph: Tr"),
        decode().replace("#token: 4000", "#running-req: 4, #token: Decode #running-req: 3"),
        decode().replace("#token: 4000", "new part: 12 #running-req 3"),
        prefill().replace("500.25", "500.2"),
        prefill().replace("#new-token: 4096, ", ""),
    ],
)
def test_a_damaged_line_is_no_sample_and_is_counted(line: str) -> None:
    stream = LogStream("log")
    assert stream.feed(line.encode()) + stream.close() == []
    phase = "prefill" if "Prefill" in line else "decode"
    assert stream.report.dropped == {f"{phase} line torn or cut": 1}


def test_an_unfinished_last_line_that_ends_in_an_integer_may_be_cut() -> None:
    bare = decode().split(", est. decode")[0]
    assert [step.queue for step in read(bare + "\n")] == [3]
    assert read(bare) == []


def test_the_decode_window_is_interval_times_batch_over_rate() -> None:
    (step,) = read(ARGS + decode(gen=1600.0))
    assert (step.window_s, step.iterations) == (0.05, 10)
    (step,) = read(decode(gen=1600.0))
    assert (step.window_s, step.iterations) == (0.2, None)


def test_the_decode_window_of_a_draft_model_counts_accepted_tokens() -> None:
    (step,) = read(ARGS + decode(gen=1600.0).replace("cuda", "accept len: 2.50, accept rate: 0.50, cuda"))
    assert (step.window_s, step.accept_len) == (0.125, 2.5)


def test_stamps_in_milliseconds_give_the_window_where_the_interval_is_unknown() -> None:
    first, second = decode(1).replace("01]", "01.250]"), decode(1).replace("01]", "01.650]")
    assert [step.window_s for step in read(first + second)] == [0.2, 0.4]
    assert [step.window_s for step in read(ARGS + first + second)] == [0.05, 0.05]


def test_the_prefill_window_of_the_first_release_is_of_the_batch_before() -> None:
    steps = read(prefill(1, 4096, 0.0, pending="") + prefill(2, 1000, 8192.0, pending=""))
    assert [step.window_s for step in steps] == [None, 0.5]


def test_no_rate_no_window() -> None:
    assert [step.window_s for step in read(decode(gen=0.0) + decode(running=0))] == [None, None]


def test_health_probes_are_noise() -> None:
    probe = prefill(1, 1, 0.5, 0)
    steps = read(ARGS + probe + probe + decode(2, 1, 0, 0.5) + probe + decode(3, 1, 0, 4.0))
    assert [step.status for step in steps] == ["noise"] * 5


def test_one_new_token_behind_a_cached_prefix_is_no_probe() -> None:
    steps = read(ARGS + prefill(1) + prefill(2, 1, 30.0, 17, cached=5999))
    assert steps[1].status == "steady"


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (prefill(2, 1, 0.5, 0), "noise"),
        (prefill(2, 2, 1.0, 0), "diluted"),
        (prefill(2, 1, 0.5, 0).replace("#new-seq: 1", "#new-seq: 2"), "diluted"),
        (prefill(2, 1, 0.5, 0).replace("#new-seq: 1, ", ""), "noise"),
        (prefill(2, 0, 0.5, 0), "noise"),
    ],
)
def test_a_probe_is_one_token_of_one_request(line: str, status: str) -> None:
    assert read(ARGS + line)[0].status == status


@pytest.mark.parametrize(("gen", "status"), [(0.99, "noise"), (1.0, "partial")])
def test_an_empty_cache_is_a_probes_below_a_token_a_second(gen: float, status: str) -> None:
    assert read(ARGS + decode(1) + decode(9, 1, 0, gen))[1].status == status


def test_an_emptied_cache_after_real_work_is_the_end_of_work_not_a_probe() -> None:
    steps = read(ARGS + decode(1) + decode(1) + decode(2, 1, 0, 186.0))
    assert [step.status for step in steps] == ["diluted", "steady", "partial"]


def test_the_first_line_of_a_phase_holds_the_start_up() -> None:
    steps = read(ARGS + prefill(1) + prefill(2) + decode(3))
    assert [step.status for step in steps] == ["diluted", "steady", "diluted"]


def test_prefills_inside_a_decode_window_dilute_it_by_a_known_factor() -> None:
    steady = decode(1) + decode(1) + decode(1)
    steps = read(ARGS + steady + prefill(2) + decode(3, gen=400.0))
    assert (steps[-1].status, steps[-1].dilution) == ("diluted", 4.0)
    assert steps[-1].status_reason == "prefills ran inside the window"


def test_decode_steps_inside_a_prefill_window_dilute_it() -> None:
    steps = read(ARGS + prefill(1) + decode(1) + prefill(2) + prefill(2))
    assert [step.status for step in steps if step.kind == "prefill"] == ["diluted", "diluted", "steady"]


def test_a_pause_inside_a_decode_window_shows_in_its_step_time() -> None:
    steps = read(ARGS + decode(1) * 4 + decode(21, gen=40.0) + decode(22))
    assert [step.status for step in steps] == ["diluted", "steady", "steady", "steady", "diluted", "steady"]
    assert steps[4].dilution == 40.0


def test_a_pause_inside_a_prefill_window_shows_in_its_rate() -> None:
    steps = read(ARGS + prefill(1) + prefill(1) + prefill(1) + prefill(9, rate=4096.0))
    assert (steps[-1].status, steps[-1].dilution) == ("diluted", 10.0)


@pytest.mark.parametrize(("tokens", "status"), [(512, "diluted"), (511, "steady")])
def test_rates_of_small_prefills_tell_nothing_of_pauses(tokens: int, status: str) -> None:
    steps = read(ARGS + prefill(1) + prefill(1) + prefill(9, tokens, tokens / 2))
    assert steps[-1].status == status


@pytest.mark.parametrize(("rate", "status"), [(13_653.0, "diluted"), (13_654.0, "steady")])
def test_a_third_of_the_usual_rate_is_a_pause(rate: float, status: str) -> None:
    steps = read(ARGS + prefill(1) + prefill(1) + prefill(9, rate=rate))
    assert steps[-1].status == status


@pytest.mark.parametrize(("gen", "status"), [(1600 / 1.5, "steady"), (1066.0, "diluted")])
def test_a_step_half_as_long_again_is_a_pause(gen: float, status: str) -> None:
    steps = read(ARGS + decode(1) * 3 + decode(2, gen=gen))
    assert steps[-1].status == status


@pytest.mark.parametrize(
    ("running", "status"), [(8, "steady"), (10, "steady"), (11, "partial"), (7, "steady"), (6, "partial")]
)
def test_a_fifth_of_the_batch_may_come_or_go(running: int, status: str) -> None:
    steps = read(ARGS + decode(1) * 3 + decode(2, running=running, gen=200.0 * running))
    assert steps[-1].status == status


def test_a_prefill_after_a_long_gap_with_nothing_running_is_diluted() -> None:
    steps = read(ARGS + prefill(1, 128, 12800.0) + prefill(9, 128, 14.0, running=0))
    assert steps[-1].status == "diluted"
    steps = read(ARGS + prefill(1, 1, 0.5, 0) + prefill(2, 128, 140.0, running=0))
    assert [step.status for step in steps] == ["noise", "diluted"]


def test_a_changed_batch_makes_the_window_partial() -> None:
    steps = read(ARGS + decode(1) + decode(1) + decode(2, running=5) + decode(2, running=5, gen=1000.0))
    assert [step.status for step in steps] == ["diluted", "steady", "partial", "steady"]
    assert steps[2].status_reason == "batch went from 8 to 5 inside the window"


def test_an_empty_batch_is_the_end_of_work() -> None:
    steps = read(ARGS + decode(1) + decode(2, running=0))
    assert steps[-1].status == "partial"


def test_a_prefill_line_without_rate_says_nothing_of_its_window() -> None:
    steps = read(ARGS + prefill(1) + prefill(2, rate=0.0))
    assert (steps[-1].status, steps[-1].window_s) == ("partial", None)


def test_start_up_facts_of_a_captured_server() -> None:
    facts = facts_of((LOGS / "0.5.16-h200.log").read_text())
    assert (facts.engine, facts.engine_version, facts.model) == ("sglang", None, "/models/Meta-Llama-3-8B-Instruct")
    assert (facts.dtype, facts.kv_cache_dtype, facts.quantization) == ("bf16", "bf16", None)
    assert (facts.tp, facts.pp, facts.dp, facts.ep) == (1, 1, 1, 1)
    assert (facts.kv_cache_tokens, facts.max_model_len) == (788_971, 8192)
    assert (facts.max_running, facts.token_budget, facts.decode_log_interval) == (256, 8192, 10)
    assert facts.weight_bytes == round(14.98 * 2**30)
    assert (facts.flags["enable_metrics"], facts.flags["enable_mfu_metrics"]) == (True, True)
    assert (facts.speculative, facts.device_platform, facts.first_line_no) == (False, "cuda", 8)


def test_both_forms_of_the_arguments_say_the_same() -> None:
    first, second = (LOGS / "0.5.19-startup-decoys.log").read_text().splitlines()[:2]
    old, new = facts_of(first + "\n"), facts_of(second + "\n")
    assert old == new
    assert (old.model, old.quantization, old.tp, old.decode_log_interval) == ("acme/llama-8b", "fp8", 4, 40)
    assert old.kv_cache_dtype == "auto"
    assert old.dtype is None


@pytest.mark.parametrize(
    ("printed", "model", "cache"),
    [
        ("torch.float16", "fp16", "fp16"),
        ("torch.bfloat16", "bf16", "bf16"),
        ("torch.float32", "fp32", "fp32"),
        ("torch.float8_e4m3fn", None, "float8_e4m3fn"),
    ],
)
def test_an_automatic_cache_dtype_tells_an_automatic_model_dtype(printed: str, model: str | None, cache: str) -> None:
    line = f"[2026-03-01 11:58:18] KV Cache is allocated. dtype: {printed}, #tokens: 788971, K size: 48.16 GB\n"
    facts = facts_of(ARGS.replace("model_path='m'", "model_path='m', dtype='auto', kv_cache_dtype='auto'") + line)
    assert (facts.dtype, facts.kv_cache_dtype, facts.kv_cache_tokens) == (model, cache, 788_971)


@pytest.mark.parametrize(
    ("args", "warnings"),
    [
        ("enable_mfu_metrics=True, enable_metrics=False", ("mfu_needs_enable_metrics",)),
        ("enable_mfu_metrics=True, enable_metrics=True", ()),
        ("enable_mfu_metrics=False, enable_metrics=False", ()),
        ("log_level='warning'", ("log_level_hides_stats",)),
        ("log_level='info'", ()),
    ],
)
def test_warnings_that_explain_missing_figures(args: str, warnings: tuple[str, ...]) -> None:
    assert facts_of(f"[2026-03-01 11:58:00] server_args=ServerArgs({args})\n").warnings == warnings


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        (
            "Load weight end. elapsed=1.22 s, type=X, quant=fp8, fmt=e4m3, avail mem=74.83 GB, mem usage=3.77 GB.",
            "quantization",
            "fp8",
        ),
        (
            "Load weight end. elapsed=1.22 s, type=X, dtype=torch.bfloat16, avail mem=7.83 GB, mem usage=3.77 GB.",
            "dtype",
            "bf16",
        ),
        (
            "Load weight end. elapsed=1.22 s, type=X, avail mem=74.83 GB, mem usage=3.77 GB.",
            "weight_bytes",
            round(3.77 * 2**30),
        ),
        ("Using configs/E=8,N=9,device_name=NVIDIA_H200,dtype=fp8_w8a8.json for MoE", "device_hints", ("NVIDIA_H200",)),
    ],
)
def test_single_start_up_lines(line: str, field: str, value: object) -> None:
    assert getattr(facts_of(f"{ARGS}[2026-03-01 11:58:31 TP0] {line}\n"), field) == value


def test_a_device_hint_alone_begins_no_run() -> None:
    assert facts_of("[2026-03-01 11:58:31] configs/device_name=NVIDIA_H200.json\n") == LogFacts(source="log")


def test_a_restart_brings_its_own_interval() -> None:
    steps = read((LOGS.parent / "wrapped" / "sglang-restart.log").read_text())
    assert [(step.run, step.iterations) for step in steps] == [(0, 10), (0, 10), (1, 40), (1, 40)]


def test_ray_groups_stand_in_front() -> None:
    steps = read((LOGS / "0.5.19-startup-decoys.log").read_text())
    assert [(step.rank, step.tflops) for step in steps] == [("TP0", 39.32)]


def test_a_hostile_number_of_ranks_is_bounded() -> None:
    text = "".join(decode(1, rank=f" TP{number}") for number in range(4_200)) + decode(2, rank=" TP0")
    steps = read(text)
    assert len(steps) == 4_201
    assert {step.status for step in steps} == {"diluted"}


def test_a_prefill_line_is_never_read_as_a_decode_line() -> None:
    for step in read((LOGS / "0.5.16-h200.log").read_text()):
        assert (step.kind == "prefill") == ("Prefill batch" in step.raw)


@pytest.mark.parametrize(("running", "status"), [(10, "diluted"), (11, "partial")])
def test_steps_of_batches_within_a_fifth_are_compared(running: int, status: str) -> None:
    steps = read(ARGS + decode(1) * 3 + decode(2, running=running, gen=1000.0))
    assert steps[-1].status == status
    assert steps[-1].dilution == (2.0 if status == "diluted" else None)
