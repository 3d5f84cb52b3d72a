"""vLLM's lines: every wording, pairing, and what the start-up lines state."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from log_parsers import LogFacts, LogStream, ServingStep
from log_parsers.engines._vllm_ticks import _details_window

LOGS = Path(__file__).parents[2] / "fixtures" / "logs" / "vllm"
NOW = datetime(2026, 12, 1)
HEAD = "(APIServer pid=4242) INFO 03-01 12:00:"


def tput(second: int, gen: float = 2880.0, prompt: float = 0.0, running: int = 32, engine: str = "Engine 000") -> str:
    return (
        f"{HEAD}{second:02d} [loggers.py:273] {engine}: Avg prompt throughput: {prompt:.1f} tokens/s, "
        f"Avg generation throughput: {gen:.1f} tokens/s, Running: {running} reqs, Waiting: 2 reqs, "
        "GPU KV cache usage: 12.3%, Prefix cache hit rate: 25.0%\n"
    )


def mfu(second: int, tflops: float = 110.3, engine: str = "Engine 000: ", unit: str = "GPU") -> str:
    return f"{HEAD}{second:02d} [perf.py:1532] {engine}MFU: {tflops} TF/s/{unit} 1796.1 GB/s/{unit}\n"


def read(text: str, **options: object) -> list[ServingStep]:
    stream = LogStream("log", now=NOW)
    return stream.feed(text.encode()) + stream.close()


def facts_of(text: str) -> LogFacts:
    stream = LogStream("log", now=NOW)
    stream.feed(text.encode())
    stream.close()
    return stream.facts


def log_facts(name: str) -> LogFacts:
    return facts_of((LOGS / name).read_text())


def test_a_pair_is_one_step_with_both_lines_fields() -> None:
    (step,) = read(tput(10, 2880.0, 4608.0) + mfu(10))
    assert (step.prompt_tok_s, step.gen_tok_s, step.running, step.waiting) == (4608.0, 2880.0, 32, 2)
    assert (step.tflops, step.gbps, step.kv_usage, step.prefix_hit_rate) == (110.3, 1796.1, 0.123, 0.25)
    assert (step.line_no, step.time, step.year_inferred, step.rank) == (2, "2026-03-01T12:00:10", True, "0")
    assert (step.read_gbps, step.write_gbps, step.queue, step.context_tokens) == (None, None, None, None)
    assert step.raw == mfu(10).rstrip()


@pytest.mark.parametrize("unit", ["GPU", "device"])
def test_both_units_are_read(unit: str) -> None:
    (step,) = read(mfu(10, unit=unit))
    assert (step.tflops, step.gbps) == (110.3, 1796.1)


@pytest.mark.parametrize("tail", ["", " ", ",", ", ", ", new field: 3", ", a: 1, b: 2 ms"])
def test_what_a_release_may_append_to_an_mfu_line_costs_nothing(tail: str) -> None:
    (step,) = read(mfu(10).rstrip() + tail + "\n")
    assert step.gbps == 1796.1


@pytest.mark.parametrize(
    "line",
    [
        mfu(10).replace("1796.1 GB", "1796. GB"),
        mfu(10).replace("110.3", "11x.3"),
        mfu(10).replace("GB/s/GPU", "GB/s"),
        mfu(10).replace("TF/s/GPU", "TF/s/NPU"),
        mfu(10).rstrip() + " and more\n",
        mfu(10).rstrip() + '"\n',
        mfu(10).replace("110.3", "-110.3"),
        mfu(10).replace("110.3", "inf"),
    ],
)
def test_a_damaged_mfu_line_is_no_sample(line: str) -> None:
    stream = LogStream("log", now=NOW)
    assert stream.feed(line.encode()) + stream.close() == []
    assert stream.report.dropped == {"MFU line torn or cut": 1}


@pytest.mark.parametrize("file", ["logger.py:39", "my_perf.py:3", "perf.pyx:1", "v1/perf.py/x:1"])
def test_a_body_behind_another_files_record_is_no_sample(file: str) -> None:
    assert read(mfu(10).replace("perf.py:1532", file)) == []


def test_pairing_is_by_engine_index_not_by_adjacency() -> None:
    text = tput(10, 1.0) + tput(10, 2.0, engine="Engine 001") + mfu(10, 20.0, "Engine 001: ") + mfu(10, 10.0)
    steps = read(text)
    assert [(step.rank, step.gen_tok_s, step.tflops) for step in steps] == [("1", 2.0, 20.0), ("0", 1.0, 10.0)]


def test_equal_stamps_are_taken_in_order_of_arrival() -> None:
    steps = read(tput(10, 1.0) + mfu(10, 1.0) + tput(10, 2.0) + mfu(10, 2.0))
    assert [(step.gen_tok_s, step.tflops) for step in steps] == [(1.0, 1.0), (2.0, 2.0)]


def test_companions_between_the_pair_do_not_separate_it() -> None:
    spec = (
        f"{HEAD}10 [metrics.py:120] SpecDecoding metrics: Mean acceptance length: 2.41, Accepted throughput: 57.00 "
        "tokens/s, Drafted throughput: 8.00 tokens/s, Accepted: 5 tokens, Drafted: 8 tokens, Per-position acceptance "
        "rate: 0.667, 0.333, Avg Draft acceptance rate: nan%\n"
    )
    kv = f"{HEAD}10 [metrics.py:9] KV Transfer metrics: Num successful transfers=3, Throughput (MB/s)=12.5\n"
    stream = LogStream("log", now=NOW)
    (step,) = stream.feed((tput(10) + spec + kv + mfu(10)).encode())
    assert (step.gen_tok_s, step.tflops, step.accept_len) == (2880.0, 110.3, 2.41)
    assert stream.facts.speculative is True


def test_a_lost_mfu_line_leaves_its_throughput_line_a_step() -> None:
    steps = read(tput(10, 1.0) + mfu(10) + tput(20, 2.0) + tput(30, 3.0) + mfu(30))
    assert [(step.gen_tok_s, step.tflops) for step in steps] == [(1.0, 110.3), (2.0, None), (3.0, 110.3)]
    assert [step.line_no for step in steps] == [2, 3, 5]


def test_mfu_lines_alone_are_steps_with_windows_from_their_spacing() -> None:
    steps = read("".join(mfu(second) for second in (10, 20, 30)) + mfu(50))
    assert [(step.kind, step.gen_tok_s) for step in steps] == [("unknown", None)] * 4
    assert [step.window_s for step in steps] == [None, 10.0, 10.0, 20.0]
    assert [step.status for step in steps] == ["diluted", "steady", "steady", "diluted"]
    assert steps[-1].dilution == 2.0


def test_aggregated_engines_are_steps_at_once_and_say_why_no_mfu_line_comes() -> None:
    stream = LogStream("log", now=NOW)
    (step,) = stream.feed(tput(10, engine="2 Engines Aggregated").encode())
    assert (step.rank, step.tflops, step.gen_tok_s) == ("2 engines aggregated", None, 2880.0)
    assert stream.facts.warnings == ("aggregated_engines",)


def test_an_idle_line_is_a_step_at_once() -> None:
    stream = LogStream("log", now=NOW)
    (step,) = stream.feed(tput(10, 0.0, running=0).encode())
    assert (step.kind, step.status, step.tflops) == ("unknown", "idle", None)


def test_a_zero_line_with_requests_running_waits_for_the_mfu_line_of_a_long_prefill() -> None:
    stream = LogStream("log", now=NOW)
    assert stream.feed((tput(10) + mfu(10)).encode())
    assert stream.feed(tput(20, 0.0).encode()) == []
    (step,) = stream.feed(mfu(20).encode())
    assert (step.kind, step.status) == ("prefill", "partial")
    assert step.status_reason == "a prefill still running: no token counted yet"


def test_without_mfu_lines_a_throughput_line_soon_completes_by_itself() -> None:
    stream = LogStream("log", now=NOW)
    got = [len(stream.feed(tput(second).encode())) for second in (10, 20, 30, 40, 50)]
    assert got == [0, 1, 1, 2, 1]


def test_where_the_start_up_says_that_the_feature_is_off_a_line_completes_at_once() -> None:
    args = f"{HEAD}00 [utils.py:233] non-default args: {{'model': 'm', 'max_num_seqs': 8}}\n"
    stream = LogStream("log", now=NOW)
    assert stream.feed(args.encode()) == []
    assert len(stream.feed(tput(10).encode())) == 1


def test_where_the_start_up_says_that_the_feature_is_on_a_line_waits() -> None:
    args = f"{HEAD}00 [utils.py:233] non-default args: {{'model': 'm', 'enable_mfu_metrics': True}}\n"
    stream = LogStream("log", now=NOW)
    for second in (10, 20, 30):
        stream.feed((args + tput(second) + mfu(second)).encode())
    assert stream.feed(tput(40).encode()) == []
    assert len(stream.close()) == 1


def test_the_rust_frontend_has_other_words_no_index_and_no_dilution() -> None:
    text = (LOGS / "0.33.0-rust-frontend.log").read_text()
    first, second = read(text)
    assert (first.rank, first.tflops, first.gbps, first.running, first.waiting) == (None, 110.3, 1796.1, 32, 2)
    assert (second.waiting, second.kv_usage, second.prefix_hit_rate, second.accept_len) == (7, 0.123, 0.25, 3.0)
    assert [step.status for step in (first, second)] == ["steady", "steady"]
    assert second.window_s == 10.0


def test_details_blocks_give_the_true_window_steps_and_prefilled_tokens() -> None:
    steps = read((LOGS / "0.29.0-cpu-debug.log").read_text())
    assert [step.iterations for step in steps] == [73, 114, 78, None, None, 37, 96]
    assert [step.new_tokens for step in steps] == [384, 384, 256, None, None, 256, 256]
    assert [step.window_s for step in steps] == [3.2, 2.0, 2.0, 2.0, 2.0, 6.0, 2.0]


def in_json(lines: list[str]) -> str:
    """Lines of the plain formatter as one message of the JSON formatter."""
    message = "\n".join(line.partition("] ")[2].rstrip() for line in lines)
    return json.dumps({"asctime": f"2026-11-29 {lines[0].partition(' 11-29 ')[2][:8]}", "message": message}) + "\n"


def test_the_json_formatter_leaves_a_details_block_and_the_banner_in_one_message() -> None:
    lines = (LOGS / "0.29.0-cpu-debug.log").read_text().splitlines(keepends=True)
    records: list[list[str]] = []
    for line in lines:
        if "perf.py:1455]" not in line or "MFU details: {" in line:
            records.append([])
        records[-1].append(line)
    text = "".join(in_json(record) if "MFU" in record[0] or "Avg" in record[0] else "" for record in records)
    _, *steps = read(text)  # nothing tells the first pair that a block follows: JSON names no folder
    assert [step.iterations for step in steps] == [114, 78, None, None, 37, 96]
    assert [step.new_tokens for step in steps] == [384, 256, None, None, 256, 256]
    banner = "\n       █     █     █▄   ▄█\n ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.24.0\n"
    assert facts_of(json.dumps({"message": banner}) + "\n").engine_version == "0.24.0"


@pytest.mark.parametrize("sep", ["\n", "\r", "\r\n", "\n\n"], ids=repr)
@pytest.mark.parametrize("first", ["prompt: ", "MFU details: {", "Engine 000: MFU details: {", "{"])
def test_further_lines_of_a_json_message_are_no_records_of_the_engines(first: str, sep: str) -> None:
    bodies = [tput(20), mfu(20), '"duration": "99.0s"', f"{HEAD}20 [api_utils.py:1] vLLM server version 9.9.9"]
    echoed = json.dumps({"message": sep.join([first, *map(str.strip, bodies)])}) + "\n"
    stream = LogStream("log", now=NOW)
    steps = stream.feed((tput(10) + mfu(10) + echoed + tput(30) + mfu(30)).encode()) + stream.close()
    assert [step.line_no for step in steps] == [2, 5]
    assert stream.facts.engine_version is None
    assert sum(stream.report.dropped.values()) == 2


def test_a_pair_at_level_debug_waits_for_its_details_but_not_where_none_come() -> None:
    debug = mfu(10).replace("perf.py", "v1/metrics/perf.py")
    stream = LogStream("log", now=NOW)
    assert stream.feed((tput(10) + debug).encode()) == []
    assert len(stream.feed(tput(20).encode())) == 1
    assert len(stream.feed(debug.replace(":10 ", ":20 ").encode())) == 1


def test_the_first_details_line_of_another_file_is_not_taken() -> None:
    text = (LOGS / "0.29.0-cpu-debug.log").read_text().replace('perf.py:1455]   "num', 'other.py:1]   "num')
    assert read(text)[0].iterations is None


def test_iteration_lines_are_added_up_for_the_step_that_follows() -> None:
    steps = read((LOGS / "0.33.0-iteration-details.log").read_text())
    assert [(step.iterations, step.iteration_ms, step.new_tokens) for step in steps] == [(3, 12.23, 512)] * 2


def test_iteration_lines_of_the_engine_process_belong_to_its_rank_and_dummies_to_none() -> None:
    line = (
        "(EngineCore_DP{rank} pid=4300) INFO 03-01 12:00:01 [core.py:348] Iteration({n}): 1 context requests, {tokens} "
        "context tokens, 31 generation requests, 31 generation tokens, iteration elapsed time: {ms} ms{tail}\n"
    )
    text = (
        line.format(rank=1, n=1, tokens=512, ms="14.00", tail="")
        + line.format(rank=0, n=1, tokens=100, ms="10.00", tail="")
        + line.format(rank=1, n=2, tokens=8, ms="16.00", tail="")
        + line.format(rank=1, n=3, tokens=8, ms="99.00", tail=" (dummy)")
    )
    pairs = tput(10) + mfu(10) + tput(10, engine="Engine 001") + mfu(10, engine="Engine 001: ")
    zero, one = read(text + pairs)
    assert (zero.iterations, zero.iteration_ms, zero.new_tokens) == (1, 10.0, 100)
    assert (one.iterations, one.iteration_ms, one.new_tokens) == (2, 15.0, 520)


@pytest.mark.parametrize(
    "rest",
    [
        "GPU KV cache usage: 12.",
        "GPU KV cache usage: 12",
        "Prefix cache hit",
        "GPU KV cache usage: 12.3%, Prefix cache hit rate: 25.0% and 'more'",
        "GPU KV cache usage: 12.3%, note: 'x'",
    ],
)
def test_a_throughput_line_that_ends_inside_a_field_is_no_sample(rest: str) -> None:
    line = tput(10).split("GPU KV")[0] + rest + "\n"
    stream = LogStream("log", now=NOW)
    assert stream.feed(line.encode()) + stream.close() == []
    assert stream.report.dropped == {"throughput line torn or cut": 1}


@pytest.mark.parametrize(
    ("rest", "usage", "hits"),
    [
        ("GPU KV cache usage: 0.0%, Prefix cache hit rate: 0.0%", 0.0, 0.0),
        ("XPU KV cache usage: 99.9%", 0.999, None),
        (
            "Deferred: 5 reqs, KV fetch: 3 waiting to start, 1 in progress, 0 completed waiting, "
            "CPU KV cache usage: 1.5%",
            0.015,
            None,
        ),
        ("GPU KV cache usage: 5.0%, External prefix cache hit rate: 40.0%, MM cache hit rate: 1.0%", 0.05, None),
        ("GPU KV cache usage: 5.0%, Prefix cache hit rate: nan%", 0.05, None),
        ("GPU KV cache usage: 5.0%, Corrupted: 0 reqs, Prefix cache hit rate: 7.5%,", 0.05, 0.075),
    ],
)
def test_optional_throughput_parts(rest: str, usage: float, hits: float | None) -> None:
    (step,) = read(tput(10).split("GPU KV")[0] + rest + "\n")
    assert (step.kv_usage, step.prefix_hit_rate) == (usage, hits)


def test_a_tick_names_the_device_where_it_is_not_called_gpu() -> None:
    stream = LogStream("log", now=NOW)
    stream.feed(tput(10).replace("GPU KV", "TPU KV").encode())
    assert stream.facts.device_platform == "tpu"


def test_start_up_facts_of_a_captured_server() -> None:
    facts = log_facts("0.24.0-h200-graph-1s.log")
    assert (facts.engine, facts.engine_version) == ("vllm", "0.24.0")
    assert facts.model == "/models/Meta-Llama-3-8B-Instruct"
    assert (facts.dtype, facts.kv_cache_dtype, facts.quantization) == ("bf16", "bf16", None)
    assert (facts.tp, facts.pp, facts.dp, facts.ep) == (1, 1, 1, None)
    assert (facts.kv_cache_tokens, facts.max_model_len) == (840_016, 8192)
    assert (facts.max_running, facts.token_budget) == (256, 8192)
    assert facts.weight_bytes == round(14.96 * 2**30)
    assert facts.flags["enable_mfu_metrics"] is True
    assert facts.flags["enforce_eager"] is False
    assert (facts.speculative, facts.device_platform) == (False, "cuda")
    assert facts.components["attn"] == {
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "activation_byte_size": 2,
        "tp_size": 1,
        "pp_size": 1,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "cache_byte_size": 2,
        "weight_byte_size": 2,
    }
    assert set(facts.components) == {"attn", "ffn", "unembed"}
    assert (facts.first_line_no, facts.run, facts.warnings) == (3, 0, ())


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("0.24.0-h200-tp2-2s.log", "tp", 2),
        ("0.32.0-cpu-default.log", "device_platform", "cpu"),
        ("0.32.0-cpu-default.log", "dtype", "fp32"),
        ("0.32.0-cpu-ngram.log", "speculative", True),
        ("0.32.0-cpu-dp2-stats-off.log", "api_server_count", 2),
        ("0.32.0-cpu-dp2-stats-off.log", "warnings", ("stats_disabled_api_servers",)),
        ("0.32.0-cpu-offline.log", "warnings", ("engine_crashed",)),
        ("0.32.0-cpu-offline.log", "max_running", 16),
        ("0.32.0-cpu-json.log", "engine_version", "0.32.0"),
        ("0.32.0-cpu-json.log", "kv_cache_tokens", 65_536),
        ("0.24.0-startup-decoys.log", "quantization", "fp8"),
        ("0.24.0-startup-decoys.log", "kv_cache_dtype", "fp8"),
        ("0.24.0-startup-decoys.log", "tp", 4),
        ("0.24.0-startup-decoys.log", "kv_cache_tokens", 1_024_768),
        ("0.24.0-startup-decoys.log", "device_hints", ("NVIDIA_H100_80GB_HBM3",)),
        ("0.24.0-startup-decoys.log", "weight_bytes", round(3.77 * 2**30)),
        ("0.29.0-cpu-default.log", "engine_version", "0.29.0"),
    ],
)
def test_facts_of_other_logs(name: str, field: str, value: object) -> None:
    assert getattr(log_facts(name), field) == value


def test_components_may_hold_nothing() -> None:
    facts = log_facts("0.30.0-device.log")
    assert facts.components["attn"]["sliding_window"] is None
    assert facts.components["attn"]["num_swa_layers"] == 0


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("[api_server.py:1] vLLM API server version 0.14.1", "engine_version", "0.14.1"),
        ("[api_server.py:1] vLLM server version 0.32.0, serving model acme/m", "model", "acme/m"),
        ("[api_utils.py:339]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.24.0", "engine_version", "0.24.0"),
        ("[utils.py:1] non-default args: {'disable_log_stats': True}", "warnings", ("stats_disabled",)),
        ("[utils.py:1] non-default args: {'model': 'm', 'dtype': 'half', 'quantization': 'awq'}", "dtype", "fp16"),
        ("[perf.py:1] Failed to instantiate attn from Config(quant='x')", "warnings", ("component_failed",)),
        ("[perf.py:1] Failed to instantiate mla_attn from Model does not use MLA attention", "warnings", ()),
        ("[perf.py:1] Failed to instantiate attn from Model uses MLA attention; use another", "warnings", ()),
        ("[utils.py:1] non-default args: {'model_tag': 'acme/tag'}", "model", "acme/tag"),
        ("[utils.py:1] non-default args: {'model_tag': 'acme/tag', 'model': 'acme/m'}", "model", "acme/m"),
        ("[utils.py:1] non-default args: {'max_num_batched_tokens': 512}", "token_budget", 512),
        ("[utils.py:1] non-default args: {'pipeline_parallel_size': 2}", "pp", 2),
        ("[utils.py:1] non-default args: {'data_parallel_size': 3}", "dp", 3),
        ("[utils.py:1] non-default args: {'max_model_len': 99}", "max_model_len", 99),
        ("[utils.py:1] non-default args: {'kv_cache_dtype': 'fp8'}", "kv_cache_dtype", "fp8"),
        (
            "[core.py:1] Initializing a V1 LLM engine (v0.24.0) with config: observability_config=ObservabilityConfig("
            "x=None, enable_mfu_metrics=True), seed=0",
            "flags",
            {"enable_mfu_metrics": True},
        ),
        (
            "[core.py:1] Initializing a V1 LLM engine (v0.24.0) with config: enforce_eager=True, device_config=cpu",
            "flags",
            {"enforce_eager": True},
        ),
        ("[core.py:1] Initializing a V1 LLM engine (v0.24.0) with config: device_config=cpu", "device_platform", "cpu"),
        (
            "[core.py:1] Initializing a V1 LLM engine (v0.24.0) with config: device_config=<object at 0x1>",
            "device_platform",
            None,
        ),
        ("[kv.py:1] XPU KV cache size: 1,234 tokens", "device_platform", "xpu"),
        (
            "[loggers.py:1] TypeError: unsupported operand type(s) for +: 'int' and 'list'",
            "warnings",
            ("mfu_debug_type_error",),
        ),
    ],
)
def test_single_start_up_lines(line: str, field: str, value: object) -> None:
    assert getattr(facts_of(f"(APIServer pid=1) INFO 03-01 11:58:00 {line}\n"), field) == value


@pytest.mark.parametrize(
    "head",
    [
        "2025-07-08 17:24:00 - vllm.v1.core - INFO - ",
        "2025-07-08 17:24:00.5 | INFO     | vllm.v1.core:log:273 - ",
        "2025-07-08 17:24:00 INFO ",
    ],
)
def test_start_up_lines_in_other_formats(head: str) -> None:
    assert facts_of(f"{head}GPU KV cache size: 1,234 tokens\n").kv_cache_tokens == 1234


def test_expert_parallel_size_is_data_times_tensor_parallel() -> None:
    args = "{'enable_expert_parallel': True, 'tensor_parallel_size': 4, 'data_parallel_size': 2}"
    assert facts_of(f"{HEAD}00 [utils.py:1] non-default args: {args}\n").ep == 8


@pytest.mark.parametrize(
    "decoy",
    [
        "(APIServer pid=1) INFO 03-01 11:58:00 [logger.py:39] Received request: prompt: 'Initializing a V1 LLM engine "
        "(v9.9.9) with config: model=evil, dtype=torch.float16'",
        "(APIServer pid=1) INFO 03-01 11:58:00 [logger.py:39] say GPU KV cache size: 7 tokens",
        "INFO:     127.0.0.1 - GET /?q=non-default args: {'model': 'evil'}",
        "(APIServer pid=1) INFO 03-01 11:58:00 [launcher.py:46] Route: /version 1.2, Methods: GET",
    ],
)
def test_an_echoed_start_up_line_states_nothing(decoy: str) -> None:
    assert facts_of(decoy + "\n") == LogFacts(source="log")


def test_unsupported_components_make_the_rates_unusable() -> None:
    (step,) = read((LOGS / "0.17.1-unsupported-quant.log").read_text())
    assert step.status == "unsupported"
    assert step.status_reason == "the engine does not count attention and the feed-forward layers for this model"


def test_unsupported_components_make_the_rust_frontends_rates_unusable_too() -> None:
    component = f"{HEAD}00 [perf.py:1] Instantiated ComponentMetrics [unembed] with (tp_size=1)\n"
    steps = read(component + (LOGS / "0.33.0-rust-frontend.log").read_text())
    assert [step.status for step in steps] == ["unsupported", "unsupported"]


def test_throughput_lines_are_usable_whatever_the_components() -> None:
    component = f"{HEAD}00 [perf.py:1] Instantiated ComponentMetrics [unembed] with (tp_size=1)\n"
    assert [step.status for step in read(component + tput(10) + tput(20))] == ["diluted", "steady"]


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (("ffn", "unembed"), "attention"),
        (("attn", "unembed"), "the feed-forward layers"),
        (("mla_attn", "unembed"), "the feed-forward layers"),
    ],
)
def test_the_components_that_are_missing_are_named(names: tuple[str, ...], missing: str) -> None:
    lines = "".join(f"{HEAD}00 [perf.py:1] Instantiated ComponentMetrics [{name}] with (tp_size=1)\n" for name in names)
    (step,) = read(lines + tput(10) + mfu(10))
    assert step.status_reason == f"the engine does not count {missing} for this model"


def test_an_mla_component_counts_as_attention() -> None:
    lines = "".join(
        f"(EngineCore pid=1) INFO 03-01 11:59:00 [perf.py:1] Instantiated ComponentMetrics [{name}] with (tp_size=1)\n"
        for name in ("mla_attn", "ffn", "unembed")
    )
    steps = read(lines + tput(10) + mfu(10) + tput(20) + mfu(20))
    assert [step.status for step in steps] == ["diluted", "steady"]


def test_two_servers_behind_one_file_are_two_runs() -> None:
    text = (LOGS.parent / "wrapped" / "two-services.log").read_text()
    steps = read(text)
    assert [step.run for step in steps] == [0, 1, 0, 1, 0, 1]
    assert [step.tflops for step in steps if step.run == 0] == [83.6, 81.6, 80.1]


def test_a_restart_begins_a_run_with_facts_of_its_own() -> None:
    stream = LogStream("log", now=NOW)
    steps = stream.feed((LOGS.parent / "wrapped" / "restart.log").read_bytes())
    assert [(step.run, step.engine_version) for step in steps] == [(0, "0.24.0")] * 2 + [(1, "0.25.0")] * 3
    assert [(facts.run, facts.kv_cache_tokens) for facts in stream.all_facts] == [(0, 840_016), (1, 700_000)]
    assert [facts.first_line_no for facts in stream.all_facts] == [1, 11]
    assert [step.status for step in steps] == ["diluted", "steady", "diluted", "steady", "steady"]


def test_numbers_of_absurd_length_do_no_harm() -> None:
    long = "9" * 5000
    text = mfu(10).replace("110.3", f"{long}.0") + tput(10).replace("32 reqs", f"{long} reqs")
    text += mfu(10).replace("Engine 000", f"Engine {long}") + f"{HEAD}10 [kv.py:1] GPU KV cache size: {long} tokens\n"
    assert read(text) == []


def test_a_line_that_lost_its_process_prefix_to_a_progress_bar_finds_its_pair() -> None:
    glued = "Loading:  10%|#     | 1/10 [00:00<00:01, 3.0it/s]" + tput(10).split(") ", 1)[1]
    for text in (glued + mfu(10), tput(10) + mfu(10).split(") ", 1)[1]):
        (step,) = read(text)
        assert (step.gen_tok_s, step.tflops) == (2880.0, 110.3)


def test_two_processes_with_one_engine_index_are_kept_apart() -> None:
    other = tput(10, 1.0).replace("4242", "7"), mfu(10, 1.0).replace("4242", "7")
    steps = read(tput(10, 2.0) + other[0] + mfu(10, 2.0) + other[1])
    assert [(step.gen_tok_s, step.tflops) for step in steps] == [(2.0, 2.0), (1.0, 1.0)]


def test_a_spec_line_belongs_to_the_throughput_line_before_it() -> None:
    spec = f"{HEAD}10 [metrics.py:120] SpecDecoding metrics: Mean acceptance length: {{}}, Accepted: 5 tokens\n"
    one = "Engine 001"
    text = (
        tput(10) + spec.format("2.00") + mfu(10) + tput(10, engine=one) + spec.format("nan") + mfu(10, 1.0, f"{one}: ")
    )
    assert [(step.rank, step.accept_len) for step in read(text)] == [("0", 2.0), ("1", None)]
    assert [step.accept_len for step in read(spec.format("2.00") + tput(10) + mfu(10))] == [None]


def test_a_spec_line_that_is_torn_is_counted() -> None:
    stream = LogStream("log", now=NOW)
    line = f"{HEAD}10 [metrics.py:120] SpecDecoding metrics: Mean acceptance length: 2.x, Accepted: 5 tokens\n"
    assert stream.feed(line.encode()) == []
    assert stream.report.dropped == {"SpecDecoding metrics line torn or cut": 1}


def test_a_spec_line_without_a_record_head_is_no_line_of_the_engine() -> None:
    assert read(tput(10) + "SpecDecoding metrics: Mean acceptance length: 2.00, x\n" + mfu(10))[0].accept_len is None


def test_a_late_tick_is_late_and_not_idle() -> None:
    steps = read("".join(tput(second) + mfu(second) for second in (10, 20, 30, 55)))
    assert [(step.window_s, step.status) for step in steps] == [
        (None, "diluted"),
        (10.0, "steady"),
        (10.0, "steady"),
        (25.0, "steady"),
    ]


@pytest.mark.parametrize(("second", "window"), [(39, 10.0), (40, 10.0), (41, 10.0), (42, 12.0), (38, 8.0)])
def test_a_stamps_rounding_is_not_taken_for_time(second: int, window: float) -> None:
    steps = read("".join(tput(second) + mfu(second) for second in (10, 20, 30, second)))
    assert steps[-1].window_s == window


def test_idle_ticks_dilute_the_next_mfu_line_by_their_number() -> None:
    steps = read(tput(0) + mfu(0) + tput(10) + mfu(10) + tput(20, 0.0, running=0) + tput(50) + mfu(50))
    assert [(step.status, step.window_s, step.dilution) for step in steps] == [
        ("diluted", None, None),
        ("steady", 10.0, None),
        ("idle", 10.0, None),
        ("diluted", 40.0, 4.0),
    ]


def test_an_idle_mfu_line_ends_the_dilution() -> None:
    zero = mfu(20, 0.0).replace("1796.1", "0.0")
    steps = read(tput(0) + mfu(0) + tput(10) + mfu(10) + tput(20, 0.0) + zero + tput(30) + mfu(30))
    assert [(step.status, step.window_s) for step in steps[2:]] == [("idle", 10.0), ("partial", 10.0)]


def test_the_first_throughput_line_after_a_start_up_holds_the_start_up() -> None:
    start = f"{HEAD}00 [kv.py:1] GPU KV cache size: 5 tokens\n"
    assert [step.status for step in read(start + tput(10) + tput(20))] == ["diluted", "steady"]
    assert [step.status for step in read(tput(10) + tput(20))] == ["steady", "steady"]


def test_the_first_window_runs_since_the_last_start_up_line() -> None:
    start = f"{HEAD}04 [kv.py:1] GPU KV cache size: 5 tokens\n"
    (step,) = read(start + tput(10) + mfu(10))
    assert (step.window_s, step.status_reason) == (6.0, "first line: its window runs since start-up")
    (step,) = read(tput(10) + mfu(10))
    assert (step.window_s, step.status_reason) == (None, "first line: its window began before this log")


def test_a_clock_set_back_gives_no_negative_window() -> None:
    steps = read(tput(20) + mfu(20) + tput(30) + mfu(30) + tput(10) + mfu(10))
    assert [step.window_s for step in steps] == [None, 10.0, 10.0]


def test_an_impossible_time_is_no_time() -> None:
    (step,) = read((tput(10) + mfu(10)).replace("12:00", "99:00"))
    assert (step.time, step.window_s, step.year_inferred) == (None, None, False)


def test_a_details_block_without_its_mfu_line_does_no_harm() -> None:
    lines = (LOGS / "0.29.0-cpu-debug.log").read_text().splitlines(keepends=True)
    block = next(number for number, line in enumerate(lines) if "MFU details" in line)
    stream = LogStream("log", now=NOW)
    assert stream.feed("".join(lines[block : block + 48]).encode()) == []
    assert stream.feed((tput(10) + mfu(10)).encode()) == []  # from now on pairs wait for their block
    assert [step.iterations for step in stream.close()] == [None]


def test_thousands_of_collector_stamps_and_iteration_ranks_are_bounded() -> None:
    iteration = (
        "(EngineCore_DP{0} pid=4300) INFO 03-01 12:00:01 [core.py:348] Iteration({0}): 1 context requests, 8 context "
        "tokens, 1 generation requests, 1 generation tokens, iteration elapsed time: 2.00 ms\n"
    )
    stamped = "".join(f"2026-03-01T11:{n // 60:02d}:{n % 60:02d}.{n}Z {tput(10)}" for n in range(2_200))
    stream = LogStream("log", now=NOW)
    steps = stream.feed("".join(iteration.format(number) for number in range(4_200)).encode())
    steps += stream.feed(stamped.encode()) + stream.close()
    assert len(steps) == 2_200
    assert {step.time for step in steps} == {"2026-03-01T12:00:10"}


def test_a_start_up_text_behind_something_else_is_no_statement() -> None:
    line = f"he said {HEAD}00 [kv.py:1] GPU KV cache size: 5 tokens\n"
    assert facts_of(line) == LogFacts(source="log")


def test_an_mfu_line_whose_compute_rounds_to_zero_is_no_idle_one() -> None:
    steps = read(mfu(10, 0.0) + mfu(20, 0.0))
    assert [(step.status, step.tflops, step.gbps) for step in steps][1:] == [("steady", 0.0, 1796.1)]
    idle = mfu(10, 0.0).replace("1796.1", "0.0")
    assert [step.status for step in read(idle)] == ["idle"]


@pytest.mark.parametrize(
    ("window", "duration", "expected"),
    [(2.004, 2.0, 2.004), (2.05, 2.0, 2.05), (2.06, 2.0, 2.0), (3.0, 3.2, 3.2), (None, 3.2, 3.2), (3.0, None, 3.0)],
)
def test_a_printed_duration_counts_where_it_says_more_than_the_stamps(
    window: float | None, duration: float | None, expected: float
) -> None:
    """It has one decimal: within that, stamps and the learned interval are finer."""
    assert _details_window(window, {} if duration is None else {"duration": duration}) == expected


def test_several_device_hints_are_kept_once_each() -> None:
    hint = f"{HEAD}00 [moe.py:1] configs/device_name=NVIDIA_{{}}.json missing\n"
    text = f"{HEAD}00 [kv.py:1] GPU KV cache size: 5 tokens\n" + "".join(hint.format(name) for name in ("A", "B", "A"))
    assert facts_of(text).device_hints == ("NVIDIA_A", "NVIDIA_B")


def test_later_statements_win_and_mappings_grow() -> None:
    text = (
        f"{HEAD}00 [utils.py:1] non-default args: {{'model': 'm', 'dtype': 'half', 'enforce_eager': True}}\n"
        f"{HEAD}01 [core.py:1] Initializing a V1 LLM engine (v1.0.0) with config: model='n', dtype=torch.bfloat16, "
        "enable_prefix_caching=False\n"
    )
    facts = facts_of(text)
    assert (facts.model, facts.dtype) == ("n", "bf16")
    assert facts.flags == {"enforce_eager": True, "enable_prefix_caching": False}
