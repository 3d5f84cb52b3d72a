"""The command line itself: help, version, both script names, completion, interruption, readers that leave."""

from __future__ import annotations

import os
import pkgutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from roofline_probe import __version__, cli

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]
COMMANDS = sorted(module.name for module in pkgutil.iter_modules(cli.__path__) if not module.name.startswith("_"))
SCRIPTS = Path(sys.executable).parent


def test_version(probe: Run) -> None:
    result = probe("--version")
    assert (result.returncode, result.stdout.decode()) == (0, f"probe {__version__}\n")


def test_help_lists_every_command_of_the_folder(probe: Run) -> None:
    shown = probe("--help").stdout.decode()
    assert COMMANDS
    assert all(f" {command} " in shown for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(probe: Run, command: str) -> None:
    result = probe(command, "--help")
    assert result.returncode == 0
    assert f"probe {command}" in result.stdout.decode().split("Usage:")[1].split("\n", 1)[1]


def test_no_command_shows_the_help_and_leaves_with_2(probe: Run) -> None:
    result = probe()
    assert result.returncode == 2
    assert b"compare" in result.stdout


def test_both_script_names_are_installed() -> None:
    for name in ("probe", "roofline-probe"):
        result = subprocess.run([SCRIPTS / name, "--version"], capture_output=True, check=True)
        assert result.stdout.startswith(b"probe ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_offers_the_commands(environment: dict[str, str], shell: str) -> None:
    asked = {"_PROBE_COMPLETE": f"complete_{shell}", "COMP_WORDS": "probe com", "COMP_CWORD": "1"}
    asked |= {"_TYPER_COMPLETE_ARGS": "probe com", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    result = subprocess.run([SCRIPTS / "probe"], env={**environment, **asked}, capture_output=True, check=False)
    assert b"compare" in result.stdout


def test_reader_that_leaves_early_is_no_error(environment: dict[str, str], vllm_log: Path, h200: Path) -> None:
    command = [str(SCRIPTS / "probe"), "compare", str(vllm_log), "--profile", str(h200), "--json", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        said = process.stderr.read()
    assert said == b""
    assert process.returncode == 141


def test_interruption_leaves_with_130_and_without_a_traceback(environment: dict[str, str], h200: Path) -> None:
    command = [str(SCRIPTS / "probe"), "compare", "-", "--profile", str(h200)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"waiting\n" * 100_000)  # more than a pipe holds: it is being read now
        process.stdin.flush()
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == 130
    assert said == b""


def test_ascii_terminal_gets_text_it_can_show(probe: Run, vllm_log: Path, h200: Path) -> None:
    result = probe("compare", vllm_log, "--profile", h200, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert result.returncode == 0
    assert result.stdout.isascii()
    assert b"####" in result.stdout
    assert b"?" not in result.stdout


def test_unreadable_file_is_one_sentence(probe: Run, tmp_path: Path, h200: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    (tmp_path / "secret.log").write_bytes(b"x")
    (tmp_path / "secret.log").chmod(0)
    result = probe("compare", "secret.log", "--profile", h200)
    assert result.returncode == 2
    assert b"Permission denied" in result.stderr
