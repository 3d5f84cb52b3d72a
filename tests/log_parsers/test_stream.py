"""The stream: any chunking gives the same steps, no bytes raise, rotated parts go on, and everything is counted."""

from __future__ import annotations

import gzip
import io
import random
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import log_parsers
from log_parsers import WARNINGS, LogFacts, LogStream, ServingStep
from log_parsers.engines import load_engines

LOGS = Path(__file__).parents[2] / "fixtures" / "logs"
NOW = datetime(2026, 12, 1)
VARIED = [
    "vllm/0.24.0-h200-graph-1s",
    "vllm/0.24.0-h200-eager-debug-10s",
    "vllm/0.32.0-cpu-json",
    "vllm/0.32.0-cpu-offline",
    "vllm/0.32.0-cpu-terminal",
    "vllm/0.33.0-rust-frontend",
    "vllm/0.33.0-iteration-details",
    "sglang/0.5.16-optional-parts",
    "wrapped/lone-cr",
    "wrapped/carriage-return-bars",
    "wrapped/torn-lines",
    "wrapped/restart",
    "wrapped/two-services",
    "wrapped/echoed-prompts",
    "wrapped/cut-in-number",
]


def lines_of(data: bytes) -> list[bytes]:
    """Physical lines: a lone carriage return ends none."""
    return [line + b"\n" for line in data.removesuffix(b"\n").split(b"\n")]


def read(*chunks: bytes, engine: str | None = None) -> list[ServingStep]:
    stream = LogStream("log", engine, now=NOW)
    steps = [step for chunk in chunks for step in stream.feed(chunk)]
    return steps + stream.close()


def cut(data: bytes, sizes: random.Random) -> list[bytes]:
    chunks, at = [], 0
    while at < len(data):
        size = sizes.choice((1, 2, 7, 64, 1000, 65_536))
        chunks.append(data[at : at + size])
        at += size
    return chunks


@pytest.mark.parametrize("name", VARIED)
def test_random_chunks_and_single_lines_give_the_same_steps_as_one_block(name: str) -> None:
    data = (LOGS / f"{name}.log").read_bytes()
    whole = read(data)
    assert read(*cut(data, random.Random(name))) == whole
    assert read(*data.splitlines(keepends=True)) == whole


@pytest.mark.parametrize("name", ["wrapped/restart", "vllm/0.33.0-rust-frontend", "wrapped/carriage-return-bars"])
def test_byte_by_byte_gives_the_same_steps_too(name: str) -> None:
    data = (LOGS / f"{name}.log").read_bytes()
    assert read(*(data[at : at + 1] for at in range(len(data)))) == read(data)


def test_the_report_does_not_depend_on_the_chunks() -> None:
    data = (LOGS / "wrapped" / "echoed-prompts.log").read_bytes()
    reports = []
    for chunks in ([data], cut(data, random.Random(7)), data.splitlines(keepends=True)):
        stream = LogStream("log", now=NOW)
        for chunk in chunks:
            stream.feed(chunk)
        stream.close()
        reports.append(stream.report)
    assert reports[0] == reports[1] == reports[2]
    assert (reports[0].bytes_read, reports[0].lines, reports[0].steps) == (len(data), data.count(b"\n"), 4)
    assert (reports[0].throughput_lines, reports[0].mfu_lines) == (4, 4)


def test_a_step_is_handed_over_with_the_line_that_completes_it() -> None:
    lines = lines_of((LOGS / "vllm" / "0.24.0-h200-graph-1s.log").read_bytes())
    stream = LogStream("log", now=NOW)
    for number, line in enumerate(lines, 1):
        for step in stream.feed(line):
            assert step.line_no == number


def test_an_unfinished_line_waits_for_its_rest() -> None:
    data = (LOGS / "wrapped" / "crlf.log").read_bytes()
    stream = LogStream("log", now=NOW)
    assert stream.feed(data[:300]) + stream.feed(data[300:302]) == []
    assert len(stream.feed(data[302:])) == 3


FRAGMENTS = [sample.text.encode() for engine in load_engines().values() for sample in engine.samples] + [
    (LOGS / f"{name}.log").read_bytes()[:4000]
    for name in ("wrapped/json-nested", "wrapped/colours", "wrapped/echoed-prompts", "vllm/0.24.0-mfu-details")
]
PIECES = [
    b"MFU: ",
    b"Engine 000: ",
    b"#running-req: ",
    b"Decode batch",
    b"\r",
    b"\n",
    b"{",
    b'"}',
    b"\x1b]",
    b"\xff",
    b"\0",
]


@st.composite
def hostile(draw: st.DrawFn) -> bytes:
    """Real lines, cut, repeated, spliced into one another and sprinkled with what confuses parsers."""
    out = bytearray()
    for _ in range(draw(st.integers(1, 6))):
        text = draw(st.sampled_from(FRAGMENTS))
        low = draw(st.integers(0, len(text)))
        out += text[low : low + draw(st.integers(0, 400))]
        out += draw(st.one_of(st.sampled_from(PIECES), st.binary(max_size=8)))
    return bytes(out)


@settings(max_examples=250, deadline=None)
@given(hostile(), st.randoms(use_true_random=False))
def test_damaged_lines_never_raise_and_chunks_never_matter(data: bytes, rng: random.Random) -> None:
    assert read(*cut(data, rng)) == read(data)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_behind_a_needle_never_raise(data: bytes) -> None:
    for needle in (b"MFU: ", b"Avg prompt t", b"#running-req: ", b"server_args=", b"non-default args: "):
        read(needle + data + b"\n", data + needle)


@pytest.mark.parametrize(
    "line",
    [
        b" " * 1_000_000 + b"MFU: ",
        b"(a=b " * 100_000 + b"MFU: 1.0 TF/s/GPU",
        b"a-" * 300_000 + b"MFU: ",
        b"1" * 900_000 + b": MFU: ",
        b"50%| " * 150_000 + b"' Engine 000: MFU: 1.0 TF/s/GPU 1.0 GB/s/GPU",
        b"x\r" * 400_000 + b"MFU: \r",
        b'{"message": "' + b"x\\n" * 250_000 + b'Engine 000: MFU: "}',
        b"\x1b]" * 300_000 + b"MFU: ",
        b"[" * 500_000 + b"#running-req: 1",
        b"Decode batch, #running-req: 1" + b", a: 1" * 100_000,
        b"(" * 400_000 + b"{" + b'"MFU: ' + b"}",
        b'{"a":' * 100_000 + b'"MFU: "' + b"}" * 100_000,
        b"[2026-03-01 12:00:00] Decode batch, #running-req: 1" + b" " * 900_000 + b"[repeated 3x across cluster]",
        b"[2026-03-01 12:00:00] server_args=ServerArgs(" + b"(" * 500_000,
    ],
    ids=[
        "blanks",
        "groups",
        "dashes",
        "digits",
        "bars-and-a-quote",
        "carriage-returns",
        "json-newlines",
        "escapes",
        "brackets",
        "fields",
        "parentheses",
        "deep-json",
        "blanks-before-a-note",
        "deep-arguments",
    ],
)
def test_a_line_of_a_megabyte_costs_linear_time(line: bytes) -> None:
    """Not timed: with a quadratic pattern this would not end."""
    assert [step.tflops for step in read(line + b"\n")] in ([], [None])


def test_a_hostile_number_of_engines_and_ranks_is_bounded() -> None:
    head = "INFO 03-01 12:00:10 [loggers.py:1] Engine {:03d}: Avg prompt throughput: 0.0 tokens/s, Avg generation "
    head += "throughput: 1.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%\n"
    text = "".join(head.format(number) for number in range(4_500))
    assert 4_000 < len(read(text.encode())) <= 4_500


def test_every_warning_code_that_a_run_can_state_is_explained() -> None:
    for path in LOGS.rglob("*.log"):
        stream = LogStream(path.name, now=NOW)
        stream.feed(path.read_bytes())
        for facts in stream.all_facts:
            assert set(facts.warnings) <= WARNINGS.keys()


@pytest.mark.parametrize(
    "line",
    [
        "MFU: 999.9 TF/s/GPU 9.9 GB/s/GPU",
        "he said Engine 000: MFU",
        "the Avg prompt throughput: 1.0 tokens/s",
        "Decode batch, #running-req: 1, #queue-req: 0",
    ],
)
def test_what_only_looks_like_a_statistics_line_is_counted(line: str) -> None:
    stream = LogStream("log")
    assert stream.feed(f"{line}\n".encode()) == []
    assert [reason[:34] for reason in stream.report.dropped] == ["looks like a statistics line, but "]


def test_other_lines_with_a_needle_are_not_counted_as_dropped() -> None:
    stream = LogStream("log")
    stream.feed(
        b"INFO 11-29 14:26:01 [cli.py:1] VLLM_DEBUG_MFU_METRICS is set\nversion 2 of the KV cache size: guide\n"
    )
    assert stream.report.dropped == {}


def test_nothing_read_states_nothing() -> None:
    stream = LogStream("name")
    assert stream.close() == []
    assert stream.facts == LogFacts(source="name")
    assert stream.all_facts == []
    assert LogStream().facts == LogFacts(source="-")


def test_parse_reads_a_path_lazily_and_again(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    log = log_parsers.parse(path, now=NOW)
    path.write_bytes((LOGS / "wrapped" / "restart.log").read_bytes())
    first, second = list(log), list(log)
    assert first == second
    assert len(first) == 5
    assert [(facts.source, facts.run) for facts in log.facts] == [(str(path), 0), (str(path), 1)]
    assert (log.report.steps, log.report.mfu_lines) == (5, 5)


def test_facts_grow_while_reading() -> None:
    log = log_parsers.parse(LOGS / "wrapped" / "restart.log", now=NOW)
    seen = [(step.run, len(log.facts), log.facts[-1].engine_version) for step in log]
    assert seen[0] == (0, 1, "0.24.0")
    assert seen[-1] == (1, 2, "0.25.0")


def test_a_missing_file_is_an_os_error_while_iterating() -> None:
    with pytest.raises(FileNotFoundError):
        list(log_parsers.parse("/does/not/exist.log"))


def test_an_open_binary_file_is_read_too() -> None:
    data = (LOGS / "wrapped" / "journald.log").read_bytes()
    steps = list(log_parsers.parse(io.BytesIO(data), now=NOW))
    assert [(step.source, step.tflops) for step in steps] == [("-", 83.6), ("-", 81.6), ("-", 80.1)]


def test_rotated_parts_are_one_run_that_goes_on(tmp_path: Path) -> None:
    data = (LOGS / "vllm" / "0.24.0-h200-graph-1s.log").read_bytes()
    lines = lines_of(data)
    (tmp_path / "server.log.2.gz").write_bytes(gzip.compress(b"".join(lines[:600])))
    (tmp_path / "server.log.1").write_bytes(b"".join(lines[600:1000]))
    (tmp_path / "server.log").write_bytes(b"".join(lines[1000:]))
    log = log_parsers.parse(tmp_path, now=NOW)
    got = list(log)
    assert [(step.tflops, step.window_s, step.status, step.dilution) for step in got] == [
        (step.tflops, step.window_s, step.status, step.dilution) for step in read(data)
    ]
    assert {step.run for step in got} == {0}
    assert (got[0].source, got[0].line_no) == (str(tmp_path / "server.log.2.gz"), 97)
    assert (got[-1].source, got[-1].line_no) == (str(tmp_path / "server.log"), 1855 - 1000)
    assert {step.source for step in got} == {
        str(tmp_path / name) for name in ("server.log.2.gz", "server.log.1", "server.log")
    }
    assert [(facts.source, facts.kv_cache_tokens) for facts in log.facts] == [
        (str(tmp_path / "server.log.2.gz"), 840_016)
    ]
    assert log.report.lines == len(lines)
    assert log.report.bytes_read == len(data)


def test_a_pair_that_a_rotation_separates_is_still_a_pair(tmp_path: Path) -> None:
    lines = (LOGS / "wrapped" / "crlf.log").read_bytes().splitlines(keepends=True)
    (tmp_path / "a.log.1").write_bytes(b"".join(lines[:3]))
    (tmp_path / "a.log").write_bytes(b"".join(lines[3:]))
    steps = list(log_parsers.parse(tmp_path, now=NOW))
    assert [(step.gen_tok_s, step.tflops, step.line_no) for step in steps] == [
        (5435.1, 83.6, 2),
        (5274.7, 81.6, 1),
        (5146.1, 80.1, 3),
    ]


def test_logs_with_start_ups_of_their_own_are_separate(tmp_path: Path) -> None:
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_bytes((LOGS / "wrapped" / "markup-in-model-name.log").read_bytes())
    log = log_parsers.parse(tmp_path / "a.log", tmp_path / "b.log", now=NOW)
    steps = list(log)
    assert [step.status for step in steps] == ["diluted", "steady", "steady"] * 2
    assert [Path(facts.source).name for facts in log.facts] == ["a.log", "b.log"]
    assert log.report.steps == 6


def test_a_cut_archive_is_read_as_far_as_it_goes_and_reported(tmp_path: Path) -> None:
    packed = gzip.compress((LOGS / "vllm" / "0.24.0-h200-graph-1s.log").read_bytes())
    path = tmp_path / "server.log.gz"
    path.write_bytes(packed[: len(packed) // 2])
    log = log_parsers.parse(path, now=NOW)
    assert len(list(log)) > 10
    assert len(log.report.problems) == 1


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_text_in_other_encodings_is_read_like_utf_8(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "server.log"
    path.write_bytes((LOGS / "wrapped" / "crlf.log").read_bytes().decode().encode(encoding))
    steps = list(log_parsers.parse(path, now=NOW))
    assert [(step.tflops, step.line_no) for step in steps] == [(83.6, 2), (81.6, 4), (80.1, 6)]


def test_raw_text_holds_no_control_characters() -> None:
    for name in ("colours", "osc-title-hyperlink", "crlf", "rsyslog-escaped-colours"):
        for step in read((LOGS / "wrapped" / f"{name}.log").read_bytes()):
            assert step.raw.isprintable()
            assert step.raw.endswith("GB/s/GPU")


def test_raw_text_is_cut() -> None:
    line = (LOGS / "wrapped" / "crlf.log").read_bytes().splitlines()[1]
    (step,) = read(b" " * 5000 + line)
    assert len(step.raw) <= 2000


def test_a_line_without_clock_is_no_record_where_records_have_one() -> None:
    pair = b"".join((LOGS / "wrapped" / "crlf.log").read_bytes().splitlines(keepends=True)[:2])
    fake = b"Engine 000: MFU: 999.9 TF/s/GPU 9.9 GB/s/GPU\n"
    assert [step.tflops for step in read(fake)] == [999.9]
    assert [step.tflops for step in read(pair + fake)] == [83.6]
