"""Details that no fixture shows: each of these once was a change to the code that no test noticed."""

from __future__ import annotations

import io

import pytest

import log_parsers
from log_parsers import status
from log_parsers.step import LogFacts, ServingStep
from log_parsers.stream import LogStream

CONFIG = (
    "(EngineCore pid=1017) INFO 11-29 14:24:26 [core.py:114] Initializing a V1 LLM engine (v0.24.0) with config: "
    "model='/m/A', dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=2, kv_cache_dtype=auto\n"
)
SERVER_ARGS = (
    "[2026-11-29 14:52:49] server_args=ServerArgs(model_path='/m/A', context_length=4096, dtype='float16', tp_size=1)\n"
)
MFU = "(APIServer pid=1) INFO 03-01 12:00:{:02d} [perf.py:1532] Engine 000: MFU: 110.3 TF/s/GPU 1796.1 GB/s/GPU\n"


def parsed(text: str) -> tuple[list[ServingStep], list[LogFacts]]:
    stream = LogStream("server.log")
    steps = stream.feed(text.encode()) + stream.close()
    return steps, stream.all_facts


def test_an_engine_configuration_states_dtype_and_length() -> None:
    _, (facts,) = parsed(CONFIG)
    assert (facts.dtype, facts.max_model_len, facts.tp, facts.kv_cache_dtype) == ("bf16", 8192, 2, "bf16")


def test_server_arguments_state_dtype_and_length() -> None:
    _, (facts,) = parsed(SERVER_ARGS)
    assert (facts.dtype, facts.max_model_len) == ("fp16", 4096)


def test_a_repeated_banner_is_the_same_start_and_a_different_one_another() -> None:
    assert len(parsed(CONFIG + CONFIG)[1]) == 1
    assert [facts.model for facts in parsed(CONFIG + CONFIG.replace("/m/A", "/m/B"))[1]] == ["/m/A", "/m/B"]


def test_pods_of_one_collected_log_are_servers_of_their_own() -> None:
    text = "".join(f"[{pod}] {MFU.format(second)}" for second in range(2) for pod in ("pod/vllm-0", "pod/vllm-1"))
    assert [(step.run, step.line_no) for step in parsed(text)[0]] == [(0, 1), (1, 2), (0, 3), (1, 4)]


def test_a_record_glued_to_a_progress_bar_keeps_its_container() -> None:
    bar = "Loading:  50%|#####     | 1/2 [00:01<00:01, 1.00it/s]"
    text = f"a  | {bar}{MFU.format(0)}b  | {bar}{MFU.format(0)}a  | {MFU.format(1)}"
    assert [step.run for step in parsed(text)[0]] == [0, 1, 0]


def test_a_byte_order_mark_where_two_files_were_joined_is_no_part_of_the_line() -> None:
    assert [step.line_no for step in parsed("\ufeff" + MFU.format(0) + "\ufeff" + MFU.format(1))[0]] == [1, 2]


def test_a_collectors_time_around_json_tells_the_year() -> None:
    inner = MFU.format(10).strip().replace('"', "'")
    steps, _ = parsed(f'{{"time": "2021-03-01T12:00:11Z", "jsonPayload": {{"message": "{inner}"}}}}\n')
    assert steps[0].time == "2021-03-01T12:00:10"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("lost", [0, 4], ids=["inserted", "overwritten"])
def test_a_hole_of_nuls_anywhere_makes_no_figure_that_was_not_printed(encoding: str, lost: int) -> None:
    lines = [MFU.format(second).replace("1796.1", f"30{second}1.7") for second in range(3)]
    printed = {(110.3, 3001.7), (110.3, 3011.7), (110.3, 3021.7)}
    text, begin = "".join(lines), len(lines[0])
    for at in range(begin, 2 * begin + 1):
        holed = text[:at] + "\0" * 64 + text[at + lost :]
        log = log_parsers.parse(io.BytesIO(holed.encode(encoding)))
        found = {(step.tflops, step.gbps) for step in log}
        assert (110.3, 3001.7) in found
        assert found <= printed
        if begin + lines[1].find("Engine") < at < 2 * begin - 1 - lost:
            assert (110.3, 3021.7) in found
            assert len(found) == 2
            assert sum(log.report.dropped.values()) == ("MFU" in holed[begin : 2 * begin + 64])


def test_a_list_in_json_is_no_record() -> None:
    steps, facts = parsed(f'["{MFU.format(10).strip()}"]\n{{"message": 5}} MFU: 1.0\n')
    assert (steps, facts) == ([], [])


def test_a_health_probe_between_decodes_makes_the_next_empty_decode_line_noise() -> None:
    decode = (
        "[2026-03-01 12:00:{:02d}] Decode batch, #running-req: 1, #token: {}, token usage: 0.00, cuda graph: True, "
        "gen throughput (token/s): {}, #queue-req: 0\n"
    )
    probe = (
        "[2026-03-01 12:00:{:02d}] Prefill batch, #new-seq: 1, #new-token: 1, #cached-token: 0, token usage: 0.00, "
        "#running-req: 0, #queue-req: 0, #pending-token: 0, cuda graph: False, input throughput (token/s): 5.00\n"
    )
    text = decode.format(1, 64, "90.00") + probe.format(2) + probe.format(3) + decode.format(4, 0, "12.00")
    assert [step.status for step in parsed(text)[0]] == ["diluted", "noise", "noise", "noise"]


@pytest.mark.parametrize(
    ("prompt", "gen", "kind"),
    [(5.0, 100.0, "decode"), (5.1, 100.0, "mixed"), (100.0, 2.0, "prefill"), (100.0, 2.1, "mixed")],
)
def test_kinds_change_at_the_shares_that_the_docstring_names(prompt: float, gen: float, kind: str) -> None:
    assert status.kind_of_rates(prompt, gen, 1.0) == kind
