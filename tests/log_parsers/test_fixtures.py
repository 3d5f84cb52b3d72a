"""Every log in fixtures/logs yields exactly the steps that are written beside it."""

import json
import re
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import pytest

import log_parsers
from log_parsers import LogStream, ServingStep

LOGS = Path(__file__).parents[2] / "fixtures" / "logs"
NOW = datetime(2026, 12, 1)
ALL = sorted(path for path in LOGS.rglob("*.log*") if path.suffix != ".json")
WRAPPED = [path for path in ALL if path.parent.name == "wrapped"]
NOT_COMPARED = {"raw", "source"}


def steps_of(path: Path) -> list[ServingStep]:
    return list(log_parsers.parse(path, now=NOW))


def compact(step: ServingStep) -> dict[str, object]:
    return {
        key: value
        for key, value in asdict(step).items()
        if key not in NOT_COMPARED and value is not None and value is not False
    }


@pytest.mark.parametrize("path", ALL, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_log_yields_the_steps_beside_it(path: Path) -> None:
    expected = json.loads(path.with_name(path.name.partition(".log")[0] + ".steps.json").read_text())
    assert [compact(step) for step in steps_of(path)] == expected


def test_every_kind_of_wrapping_has_a_case() -> None:
    assert len(WRAPPED) >= 45


# The same three pairs of a capture, whatever stands around them: what must come out, written by hand.
PAIRS = [(83.6, 3105.8, 5435.1), (81.6, 3130.0, 5274.7), (80.1, 3164.0, 5146.1)]
SAME_PAIRS = [
    "docker-compose",
    "docker-timestamps",
    "kubectl-timestamps-prefix",
    "containerd-cri",
    "journald",
    "journald-new-year",
    "ray-nested-repeated",
    "colours",
    "osc-title-hyperlink",
    "rsyslog-escaped-colours",
    "carriage-return-bars",
    "crlf",
    "lone-cr",
    "padded-blanks",
    "json-docker-file",
    "json-asctime",
    "json-behind-prefix",
    "json-journald",
    "json-textpayload",
    "json-at-message",
    "json-nested",
    "other-formatter-vllm",
    "user-prefix",
    "markup-in-model-name",
    "utf-16-le-bom",
    "utf-16-le",
    "utf-16-be-bom",
    "utf-16-from-half-way",
    "utf-8-bom",
    "invalid-utf-8",
    "nul-tail",
]


@pytest.mark.parametrize("case", SAME_PAIRS)
def test_what_surrounds_a_line_does_not_change_what_it_says(case: str) -> None:
    steps = steps_of(LOGS / "wrapped" / f"{case}.log")
    assert [(step.tflops, step.gbps, step.gen_tok_s) for step in steps] == PAIRS
    assert {(step.engine, step.rank, step.kind, step.running, step.waiting) for step in steps} == {
        ("vllm", "0", "decode", 32, 0)
    }


@pytest.mark.parametrize(
    "case",
    [
        "docker-compose",
        "docker-timestamps",
        "kubectl-timestamps-prefix",
        "containerd-cri",
        "journald",
        "json-docker-file",
        "json-journald",
        "json-textpayload",
        "ray-nested-repeated",
    ],
)
def test_the_engines_own_clock_is_used_not_the_collectors(case: str) -> None:
    times = [step.time for step in steps_of(LOGS / "wrapped" / f"{case}.log")]
    assert times == ["2026-11-29T14:26:01", "2026-11-29T14:26:02", "2026-11-29T14:26:03"]


@pytest.mark.parametrize(
    ("case", "times"),
    [
        ("json-asctime", ["2026-11-29T14:26:01.518", "2026-11-29T14:26:02.520", "2026-11-29T14:26:03.522"]),
        ("json-at-message", [f"2026-11-29T14:26:0{second}.517Z" for second in (1, 2, 3)]),
        ("json-nested", [f"2026-11-29T14:26:0{second}.25+01:00" for second in (1, 2, 3)]),
        ("other-formatter-vllm", [f"2025-07-08T17:24:0{second}" for second in (0, 1, 2)]),
    ],
)
def test_a_records_time_may_stand_in_its_json_or_another_format(case: str, times: list[str]) -> None:
    steps = steps_of(LOGS / "wrapped" / f"{case}.log")
    assert [step.time for step in steps] == times
    assert not any(step.year_inferred for step in steps)


@pytest.mark.parametrize("name", ["gz-two-members.log.gz", "zst.log.zst", "xz.log.xz", "gz-cut.log.gz"])
def test_an_archive_yields_what_can_be_read_of_it(name: str) -> None:
    log = log_parsers.parse(LOGS / "wrapped" / name, now=NOW)
    assert [(step.tflops, step.gbps, step.gen_tok_s) for step in log] == PAIRS
    assert len(log.report.problems) == ("cut" in name)


def test_echoed_prompts_and_dumps_are_never_samples_and_are_counted() -> None:
    path = LOGS / "wrapped" / "echoed-prompts.log"
    stream = LogStream(path.name, now=NOW)
    steps = stream.feed(path.read_bytes()) + stream.close()
    assert [step.tflops for step in steps] == [83.6, 81.6, 80.1, 22.86]
    assert sum(stream.report.dropped.values()) == 14
    assert stream.report.candidate_lines == 14 + 7


def test_a_torn_line_is_dropped_and_counted_and_its_neighbours_survive() -> None:
    path = LOGS / "wrapped" / "torn-lines.log"
    stream = LogStream(path.name, now=NOW)
    steps = stream.feed(path.read_bytes()) + stream.close()
    assert [step.tflops for step in steps] == [83.6, None, 80.1, 22.54]
    assert sum(stream.report.dropped.values()) == 3


@pytest.mark.parametrize("case", ["cut-in-number", "cut-in-number-sglang"])
def test_a_line_cut_inside_a_number_is_not_read(case: str) -> None:
    path = LOGS / "wrapped" / f"{case}.log"
    stream = LogStream(path.name, now=NOW)
    stream.feed(path.read_bytes())
    stream.close()
    assert sum(stream.report.dropped.values()) == 1


@pytest.mark.parametrize(
    "path", [path for path in ALL if path.parent.name != "wrapped"], ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_nothing_of_an_undamaged_log_is_dropped(path: Path) -> None:
    stream = LogStream(path.name, now=NOW)
    stream.feed(path.read_bytes())
    stream.close()
    assert stream.report.dropped == {}


CAPTURES = [
    path
    for path in ALL
    if re.search(r"h200|cpu", path.name) and "json" not in path.name and "terminal" not in path.name
]


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_a_capture_loses_and_invents_nothing(path: Path) -> None:
    """The captures hold no decoys, so that counting with a plain pattern is a second opinion."""
    text = path.read_text()
    if path.parent.name == "vllm":
        printed = [float(value) for value in re.findall(r"Engine \d+: MFU: ([\d.]+) TF", text)]
        gen = [float(value) for value in re.findall(r"Avg generation throughput: ([\d.]+) tok", text)]
    else:
        printed = [float(value) for value in re.findall(r"TFLOPS/s \(per GPU\): ([\d.]+)", text)]
        gen = [float(value) for value in re.findall(r"gen throughput \(token/s\): ([\d.]+)", text)]
    steps = steps_of(path)
    assert [step.tflops for step in steps if step.tflops is not None] == printed
    assert [step.gen_tok_s for step in steps if step.gen_tok_s is not None] == gen
