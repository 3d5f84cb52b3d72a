"""A user's mistake is one clear sentence on stderr and the exit code of the README's table; never a traceback."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


def assert_one_sentence(result: subprocess.CompletedProcess[bytes], code: int, *words: str) -> None:
    said = result.stderr.decode()
    assert result.returncode == code, said
    assert result.stdout == b""
    assert said.startswith("probe: ")
    assert said.endswith((".\n", ").\n"))
    assert said.count("\n") == 1
    assert "Traceback" not in said
    for word in words:
        assert word in said


def test_missing_log(probe: Run, h200: Path) -> None:
    assert_one_sentence(probe("compare", "nope.log", "--profile", h200), 2, "nope.log")


def test_missing_log_is_named_before_a_missing_profile(probe: Run) -> None:
    assert_one_sentence(probe("compare", "nope.log"), 2, "nope.log")


def test_folder_without_logs(probe: Run, h200: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert_one_sentence(probe("compare", "empty", "--profile", h200), 2, "empty")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"not json", ["not a probe profile"]),
        (b'{"schema_version": 99}', ["newer probe", "schema 99"]),
        (b'{"schema_version": 1, "device": 3}', ["damaged"]),
    ],
    ids=["not-json", "newer-schema", "wrong-type"],
)
def test_bad_profile(probe: Run, vllm_log: Path, tmp_path: Path, content: bytes, words: list[str]) -> None:
    (tmp_path / "bad.json").write_bytes(content)
    assert_one_sentence(probe("compare", vllm_log, "--profile", "bad.json"), 2, "bad.json", *words)


def test_unknown_profile_name_lists_the_known_ones(probe: Run, vllm_log: Path) -> None:
    assert_one_sentence(probe("compare", vllm_log, "--profile", "voodoo3"), 2, "voodoo3", "known")


def test_no_profile_at_all_names_the_ways_out(probe: Run, vllm_log: Path) -> None:
    assert_one_sentence(probe("compare", vllm_log), 4, "probe measure", "--roof datasheet", "--pi")


def test_datasheet_without_a_card_lists_the_cards(probe: Run, vllm_log: Path) -> None:
    assert_one_sentence(probe("compare", vllm_log, "--roof", "datasheet"), 4, "H200 SXM 141GB")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["empty"]),
        (bytes(range(256)) * 400, ["no line of vLLM or SGLang"]),
        (b"Dear diary,\ntoday nothing happened.\n", ["no line of vLLM or SGLang"]),
    ],
    ids=["empty", "binary", "ordinary-text"],
)
def test_log_that_holds_nothing_usable(
    probe: Run, h200: Path, tmp_path: Path, content: bytes, words: list[str]
) -> None:
    (tmp_path / "some.log").write_bytes(content)
    assert_one_sentence(probe("compare", "some.log", "--profile", h200), 3, *words)


def test_log_without_mfu_lines_and_dimensions_names_the_flag_that_fixes_it(
    probe: Run, vllm_log: Path, h200: Path, tmp_path: Path
) -> None:
    kept = [
        line.replace("Meta-Llama-3-8B-Instruct", "mystery")
        for line in vllm_log.read_text().splitlines(keepends=True)
        if "MFU" not in line and "ComponentMetrics" not in line
    ]
    (tmp_path / "bare.log").write_text("".join(kept))
    result = probe("compare", "bare.log", "--profile", h200)
    assert_one_sentence(result, 3, "--enable-mfu-metrics", "--model")


def test_selection_that_leaves_nothing(probe: Run, vllm_log: Path, h200: Path) -> None:
    assert_one_sentence(probe("compare", vllm_log, "--profile", h200, "--where", "batch>9999"), 3, "--where")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--roof", "thatched"], ["thatched", "sustained"]),
        (["--pi", "fast"], ["--pi"]),
        (["--where", "colour==red"], ["colour"]),
        (["--since", "teatime"], ["teatime"]),
        (["--engine", "steam"], ["steam", "vllm"]),
        (["--model", "unheard-of"], ["unheard-of", "llama-3.1-8b"]),
        (["--fail-under", "decode"], ["decode=80"]),
        (["--fail-under", "lunch=3"], ["lunch"]),
        (["--json", "-", "--csv", "-"], ["standard output"]),
        (["--no-such-flag"], ["--no-such-flag", "--help"]),
    ],
    ids=["roof", "number", "where", "time", "engine", "model", "gate-form", "gate-kind", "two-on-stdout", "flag"],
)
def test_flag_that_was_not_understood(
    probe: Run, vllm_log: Path, h200: Path, arguments: list[str], words: list[str]
) -> None:
    assert_one_sentence(probe("compare", vllm_log, "--profile", h200, *arguments), 2, *words)


def test_unwritable_result(probe: Run, vllm_log: Path, h200: Path) -> None:
    result = probe("compare", "-q", vllm_log, "--profile", h200, "--json", "/dev/full")
    assert_one_sentence(result, 2, "/dev/full", "No space left on device")


def test_no_log_at_all(probe: Run) -> None:
    assert_one_sentence(probe("compare"), 2, "LOG", "--help")


def test_unknown_command(probe: Run) -> None:
    assert_one_sentence(probe("guess"), 2, "guess", "--help")


def test_hostile_names_are_escaped_in_the_sentence(probe: Run, h200: Path) -> None:
    result = probe("compare", "evil\x1b[2J.log", "--profile", h200)
    assert result.returncode == 2
    assert b"\x1b" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-n", "9" * 23, "-f", "some.log"], ["-n"]),
        (["--interval", "inf", "http://127.0.0.1:9/metrics"], ["interval", "not inf"]),
        (["--interval", "nan", "http://127.0.0.1:9/metrics"], ["interval", "not nan"]),
        (["--interval", "0", "http://127.0.0.1:9/metrics"], ["interval", "not 0"]),
        (["--interval", "2", "-f", "some.log"], ["--interval belongs to addresses"]),
        (["-n", "3", "http://127.0.0.1:9/metrics"], ["--last belongs to -f"]),
    ],
    ids=["too-many-steps", "never", "no-interval", "at-once", "interval-of-a-file", "last-of-an-address"],
)
def test_a_number_that_tail_cannot_mean(probe: Run, arguments: list[str], words: list[str]) -> None:
    assert_one_sentence(probe("tail", "--profile", "h200", *arguments), 2, *words)
