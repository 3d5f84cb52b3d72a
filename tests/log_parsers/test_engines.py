"""What every engine file must prove, found by listing the folder: its samples, and nobody else's text."""

from __future__ import annotations

import importlib
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import pytest

import log_parsers.engines
from log_parsers import LogStream, ScanReport
from log_parsers.engines import Engine, Event, Line, Sample, load_engines
from log_parsers.engines._each_line import EachLine
from log_parsers.run import Run
from log_parsers.wrappers import Bare

ENGINES = load_engines()
SAMPLES = [
    pytest.param(engine, sample, id=f"{name}-{number}")
    for name, engine in ENGINES.items()
    for number, sample in enumerate(engine.samples)
]
STAMPS = (
    "INFO 11-29 14:26:01 [loggers.py:1] ",
    "(APIServer pid=1) INFO 11-29 14:26:01 [perf.py:1532] ",
    "[2026-11-29 14:26:01] ",
    "",
)
DECOYS = {
    "kv-transfer": "KV Transfer metrics: Num successful transfers=3, Avg xfer time (ms)=1.5, Throughput (MB/s)=123.4",
    "flag-in-arguments": "Command line: vllm serve m --enable-mfu-metrics --max-num-seqs 256",
    "unit-without-engine": "MFU: 999.9 TF/s/GPU 9.9 GB/s/GPU",
    "quoted-pair": "Received request cmpl-1: prompt: 'Engine 000: MFU: 999.9 TF/s/GPU 9.9 GB/s/GPU', params: None",
    "quoted-decode": "Receive: obj=GenerateReqInput(text='Decode batch, #running-req: 1, #token: 2, gen throughput "
    "(token/s): 3.00, #queue-req: 0')",
    "prose": "the MFU: of Engine 000 was 12.5 TF/s, and its Avg prompt throughput: unknown",
    "access": '127.0.0.1:44222 - "GET /?q=Engine%20000:%20MFU:%20999.9%20TF/s/GPU HTTP/1.1" 200 OK',
    "kv-usage": "GPU KV cache usage: 12.3%, Prefix cache hit rate: 25.0%",
    "ec-transfer": "EC Transfer metrics: loads=3, Avg load time (ms)=0.4",
    "diffusion": "DiffusionDecoding metrics: Throughput: 12.0 tokens/s",
    "graphs": "**CUDAGraph Config Settings:**",
}


def events(engine: Engine, text: str) -> list[str]:
    found = (engine.parse_line(Bare(line)) for line in text.splitlines())
    return [event.kind for event in found if event is not None]


def test_the_folder_is_the_list_of_engines() -> None:
    assert list(ENGINES) == ["sglang", "vllm"]
    assert all(engine.name == name for name, engine in ENGINES.items())


@pytest.mark.parametrize(("engine", "sample"), SAMPLES)
def test_a_sample_yields_what_the_format_file_says(engine: Engine, sample: Sample) -> None:
    stream = LogStream("sample", engine.name)
    steps = stream.feed(sample.text.encode()) + stream.close()
    if sample.step is not None:
        found = asdict(steps[-1])
        assert {key: found[key] for key in sample.step} == dict(sample.step)
    if sample.facts is not None:
        known = asdict(stream.facts)
        assert {key: known[key] for key in sample.facts} == dict(sample.facts)
    assert sample.step is not None or not steps
    assert not stream.report.dropped


@pytest.mark.parametrize(("engine", "sample"), SAMPLES)
def test_a_sample_is_claimed_by_its_own_engine_alone(engine: Engine, sample: Sample) -> None:
    assert len(events(engine, sample.text)) == len(sample.text.splitlines())
    others = [other for other in ENGINES.values() if other is not engine]
    assert others
    assert [events(other, sample.text) for other in others] == [[] for _ in others]


@pytest.mark.parametrize(("engine", "sample"), SAMPLES)
def test_every_line_of_a_sample_holds_a_literal_of_the_fast_path(engine: Engine, sample: Sample) -> None:
    literals = [*engine.needles, *(needle for local in engine.local for needle in local.needles)]
    for line in sample.text.encode().splitlines():
        assert any(literal in line for literal in literals)


FIGURES = [
    *(sample.text for engine in ENGINES.values() for sample in engine.samples),
    "(APIServer pid=9569) DEBUG 11-29 14:47:39 [v1/metrics/perf.py:1455] Engine 000: MFU details: {\n"
    '(APIServer pid=9569) DEBUG 11-29 14:47:39 [v1/metrics/perf.py:1455]   "duration": "1.0s",\n',
    "(EngineCore_DP1 pid=7) INFO 03-01 12:00:09 [core.py:1] Iteration(7): 1 context requests, 64 context tokens, "
    "2 generation requests, 2 generation tokens, iteration elapsed time: 7.25 ms\n" + ENGINES["vllm"].samples[0].text,
    "2026-03-01 12:00:10,250 - vllm.v1 - INFO - [perf.py:1] Engine 000: MFU: 110.3 TF/s/GPU 1796.1 GB/s/GPU\n",
    '{"time": "2026-03-01T12:00:11Z", "message": "Engine 000: MFU: 110.3 TF/s/GPU 1796.1 GB/s/GPU"}\n',
    "2026-03-01T12:00:11.5Z INFO 03-01 12:00:10 [perf.py:1] Engine 000: MFU: 110.3 TF/s/GPU 1796.1 GB/s/GPU\n",
    "[2026-03-01 12:00:00] server_args=ServerArgs(model_path='m', tp_size=2, context_length=4096)\n",
    "(EngineCore pid=7) INFO 11-29 14:24:26 [core.py:114] Initializing a V1 LLM engine (v0.24.0) with config: "
    "model='m', max_seq_len=8192, tensor_parallel_size=2\n"
    "(EngineCore pid=7) INFO 11-29 14:24:26 [model_runner.py:1] Model loading took 14.9889 GiB and 3.2 seconds\n",
]


@pytest.mark.parametrize("digits", ["٠١٢٣٤٥٦٧٨٩", "０１２３４５６７８９"], ids=["arabic", "full-width"])
@pytest.mark.parametrize("text", FIGURES, ids=range(len(FIGURES)))
def test_digits_that_no_engine_prints_are_no_digits(text: str, digits: str) -> None:
    def read(text: str) -> str:
        stream = LogStream("log", now=datetime(2026, 6, 1))
        steps = stream.feed(text.encode()) + stream.close()
        return repr((steps, stream.all_facts, sum(stream.report.dropped.values()))).translate(
            dict.fromkeys(map(ord, digits), "é")
        )

    for run in re.finditer("[0-9]+", text):
        before, behind = text[: run.start()], text[run.end() :]
        foreign = run[0].translate(str.maketrans("0123456789", digits))
        assert read(before + foreign + behind) == read(before + "é" * len(foreign) + behind)


@pytest.mark.parametrize("decoy", DECOYS, ids=str)
@pytest.mark.parametrize("stamp", STAMPS, ids=["vllm-loggers", "vllm-perf", "sglang", "bare"])
def test_a_decoy_passes_no_engine(decoy: str, stamp: str) -> None:
    stream = LogStream("decoy")
    assert stream.feed((stamp + DECOYS[decoy] + "\n").encode()) + stream.close() == []
    assert stream.all_facts == [] or "Command line" in DECOYS[decoy]


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_an_engine_given_by_name_reads_only_its_own_lines(name: str) -> None:
    text = "".join(sample.text for engine in ENGINES.values() for sample in engine.samples)
    stream = LogStream("both", name)
    steps = stream.feed(text.encode()) + stream.close()
    assert {step.engine for step in steps} == {name}


def test_a_hint_in_one_engines_format_is_not_the_other_ones() -> None:
    text = "(Worker pid=1) WARNING 03-01 11:58:50 [fused_moe.py:1] configs/device_name=NVIDIA_H200.json missing\n"
    begun = "[2026-03-01 11:58:00] server_args=ServerArgs(model_path='m')\n"
    stream = LogStream("both")
    stream.feed((begun + text).encode())
    assert stream.facts.engine == "sglang"
    assert stream.facts.device_hints == ()


def test_an_unknown_engine_is_a_value_error_that_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="sglang, vllm"):
        LogStream("x", "tgi")


@pytest.fixture
def with_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """The folder of engines with one file more: the template under a name of its own."""
    shutil.copy(Path(log_parsers.engines.__file__).with_name("_template.py"), tmp_path / "example.py")
    monkeypatch.setattr(log_parsers.engines, "__path__", [*log_parsers.engines.__path__, str(tmp_path)])
    yield load_engines()["example"]
    sys.modules.pop("log_parsers.engines.example", None)


def test_one_file_more_is_an_engine_more(with_example: Engine) -> None:
    (sample,) = with_example.samples
    stream = LogStream("log")
    text = "".join(sample.text for engine in load_engines().values() for sample in engine.samples)
    steps = stream.feed(text.encode())
    assert {step.engine for step in steps} == {"example", "sglang", "vllm"}
    (step,) = [step for step in steps if step.engine == "example"]
    assert sample.step is not None
    assert {key: asdict(step)[key] for key in sample.step} == dict(sample.step)
    assert (step.status, step.time, step.source) == ("steady", "2026-03-01T12:00:00", "log")
    assert [events(other, sample.text) for other in ENGINES.values()] == [[], []]


@pytest.mark.parametrize("decoy", DECOYS, ids=str)
def test_the_template_passes_no_decoy_either(with_example: Engine, decoy: str) -> None:
    assert all(events(with_example, stamp + DECOYS[decoy]) == [] for stamp in STAMPS)


def test_the_template_as_it_stands_is_whole() -> None:
    template = importlib.import_module("log_parsers.engines._template").ENGINE
    (sample,) = template.samples
    assert events(template, sample.text) == ["step"]
    assert events(template, sample.text.replace("GB/s", "GB/")) == ["broken"]
    assert events(template, "user said " + sample.text) == []
    assert events(template, "TFLOPS, memory: 1.0 GB/s") == []


def test_the_simplest_tracker_makes_steps_of_step_events_alone() -> None:
    run = Run("log", 0, "example", 1, ScanReport(), part="log")
    tracker = EachLine(run)
    line = Line(7, None, "raw")
    assert tracker.feed(Event("fact", None, {"model": "m"}), line) == []
    (step,) = tracker.feed(Event("step", None, {"kind": "prefill", "status": "noise"}), line)
    assert (step.kind, step.status, step.line_no, step.time, step.rank, step.raw) == (
        "prefill",
        "noise",
        7,
        None,
        None,
        "raw",
    )
    assert tracker.flush() == []


def test_the_template_drops_torn_and_echoed_lines(with_example: Engine) -> None:
    line = with_example.samples[0].text.rstrip()
    stream = LogStream("log")
    text = f"{line[:-3]}\nuser said '{line}'\n{line.split('] ')[1]}\n"
    assert stream.feed(text.encode()) + stream.close() == []
    assert stream.report.dropped == {"throughput line torn or cut": 1}
