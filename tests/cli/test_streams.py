"""Standard streams that are closed or full: one sentence and the exit code of the README's table, never a traceback."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROBE = shlex.quote(str(Path(sys.executable).parent / "probe"))
Shell = Callable[[str], "subprocess.CompletedProcess[str]"]

COMMANDS = {
    "compare": "compare $LOG --profile h200",
    "compare-json": "compare $LOG --profile h200 --json -",
    "show": "show h200",
    "diff": "diff $LOG $LOG --profile h200",
    "plan": "plan $LOG --profile h200",
    "export": "export grafana",
    "tail": "tail --profile h200 <$LOG",
    "tail-json": "tail --profile h200 --json <$LOG",
    "help": "--help",
    "help-of-a-command": "compare --help",
    "version": "--version",
}


@pytest.fixture
def shell(environment: dict[str, str], vllm_log: Path, tmp_path: Path) -> Shell:
    """Run ``probe`` from a shell that redirects; ``$LOG`` is a log. The first process's exit code counts in a pipe."""

    def run(arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", f"{PROBE} {arguments}"],
            env={**environment, "LOG": str(vllm_log)},
            stdin=subprocess.DEVNULL,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
@pytest.mark.parametrize(
    ("redirected", "why"),
    [(">/dev/full", "No space left on device"), (">&-", "it is closed")],
    ids=["full", "closed"],
)
def test_a_standard_output_that_takes_nothing_is_one_sentence(
    shell: Shell, command: str, redirected: str, why: str
) -> None:
    result = shell(f"{command} {redirected}")
    assert result.returncode == 2
    assert result.stderr.startswith(f"probe: Standard output could not be written ({why})")
    assert result.stderr.count("\n") == 1


def test_a_closed_standard_output_that_nothing_is_printed_on_is_no_mistake(shell: Shell, tmp_path: Path) -> None:
    result = shell("compare $LOG --profile h200 -q --json out.json >&-")
    assert (result.returncode, result.stderr) == (0, "")
    assert (tmp_path / "out.json").read_bytes().startswith(b'{"schema_version"')


@pytest.mark.parametrize("target", ["/dev/full", "&-"], ids=["full", "closed"])
def test_a_standard_error_that_takes_nothing_leaves_the_exit_code(shell: Shell, target: str) -> None:
    result = shell(f"compare $LOG --profile h200 --roof thatched 2>{target}")
    assert (result.returncode, result.stdout, result.stderr) == (2, "", "")


@pytest.mark.parametrize("command", ["compare -", "plan -", "tail"], ids=["compare", "plan", "tail"])
def test_a_closed_standard_input_is_one_sentence(shell: Shell, command: str) -> None:
    result = shell(f"{command} --profile h200 <&-")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("probe: Standard input is closed; ")
    assert result.stderr.count("\n") == 1


def test_a_log_opened_beside_closed_streams_is_not_taken_for_one_of_them(shell: Shell, vllm_log: Path) -> None:
    before = vllm_log.read_bytes()
    result = shell("compare $LOG --profile h200 <&- >&- 2>&-")
    assert result.returncode == 2
    assert vllm_log.read_bytes() == before


@pytest.mark.parametrize("arguments", [["--help"], ["show", "h200"]], ids=["help", "show"])
def test_a_reader_that_left_before_the_first_line_is_no_mistake(
    environment: dict[str, str], script: Path, arguments: list[str]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as out:
        result = subprocess.run([script, *arguments], stdout=out, stderr=subprocess.PIPE, env=environment, check=False)
    assert (result.returncode, result.stderr) == (141, b"")


@pytest.mark.parametrize("size", ["9" * 20, "9" * 5000, "²", "wide"], ids=["huge", "endless", "superscript", "word"])
@pytest.mark.parametrize("name", ["COLUMNS", "LINES"])
def test_a_terminal_size_that_none_has_is_bounded(shell: Shell, name: str, size: str) -> None:
    result = shell(f"--help && {name}={size} {PROBE} --help")
    assert (result.returncode, result.stderr) == (0, "")
    assert "compare" in result.stdout
