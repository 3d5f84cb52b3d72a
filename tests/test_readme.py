"""The README cannot rot: its commands run, its flags exist, its tables match the code."""

from __future__ import annotations

import dataclasses
import gzip
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from log_parsers.step import ServingStep
from roofline_probe import errors
from roofline_probe.point import Point, Roof, Summary

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LOGS = ROOT / "fixtures" / "logs"
LOG = LOGS / "vllm" / "0.24.0-h200-graph-1s.log"
PROFILE = ROOT / "fixtures" / "profiles" / "h200-reference.json"
SCRIPTS = Path(sys.executable).parent


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


COMMANDS = [line for block in blocks("sh") for line in block.splitlines() if "probe " in line and "pip " not in line]
RUNNABLE = [line for line in COMMANDS if "# on the card" not in line and "# needs" not in line]


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with logs and profiles of the README's names, and a home in which this machine was measured."""
    shutil.copy(LOG, tmp_path / "vllm.log")
    shutil.copy(LOGS / "sglang" / "0.5.16-h200.log", tmp_path / "sglang.log")
    (tmp_path / "logs").mkdir()
    for name in ("a", "b"):
        (tmp_path / "logs" / f"{name}.log.gz").write_bytes(gzip.compress(LOG.read_bytes()))
    stored = tmp_path / "data" / "roofline-probe" / "profiles"
    stored.mkdir(parents=True)
    shutil.copy(PROFILE, stored / "my-h200.json")
    shutil.copytree(PROFILE.parent, tmp_path / "fixtures" / "profiles")
    return tmp_path


def run(command: list[str], desk: Path) -> subprocess.CompletedProcess[str]:
    path = f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(desk), "XDG_DATA_HOME": str(desk / "data")}
    return subprocess.run(command, cwd=desk, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_there_are_commands_to_run() -> None:
    assert len(RUNNABLE) >= 8


@pytest.mark.parametrize("line", RUNNABLE)
def test_command_of_the_readme_runs(line: str, desk: Path) -> None:
    result = run(["bash", "-c", f"set -o pipefail; {line}"], desk)
    allowed = (0, errors.EXIT_BROKEN_PIPE) if "| head" in line else (0,)
    assert result.returncode in allowed, result.stderr
    assert result.stdout


@pytest.mark.parametrize("line", COMMANDS)
def test_flags_of_the_readme_exist(line: str, desk: Path) -> None:
    words = shlex.split(line.partition("#")[0])
    words = words[words.index("probe") + 1 :]
    words = words[: words.index("--")] if "--" in words else words
    words = words[: words.index("|")] if "|" in words else words
    command = words[:2] if words[0] == "export" else words[:1]  # export is a group of two
    shown = run(["probe", *command, "--help"], desk).stdout
    for flag in (word for word in words if word.startswith("--")):
        assert flag in shown


@pytest.mark.parametrize("code", blocks("python"))
def test_python_of_the_readme_runs(code: str, desk: Path) -> None:
    result = run([sys.executable, "-c", code], desk)
    assert result.returncode == 0, result.stderr
    assert result.stdout


def test_every_field_of_a_step_is_documented_and_no_other() -> None:
    table = README.split("| a step's fields |")[1].split("\n\n")[0]
    documented = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    fields = {f.name for cls in (ServingStep, Point) for f in dataclasses.fields(cls)} - {"step"}
    assert documented == fields


@pytest.mark.parametrize(("row", "cls"), [("roof", Roof), ("summary", Summary)])
def test_every_field_of_roof_and_summary_is_documented(row: str, cls: type) -> None:
    (line,) = [line for line in README.splitlines() if line.startswith(f"| `{row}` |")]
    assert {f.name for f in dataclasses.fields(cls)} <= set(re.findall(r"`(\w+)`", line))


def test_exit_codes_are_those_of_the_code() -> None:
    table = README.split("## Exit codes")[1].split("\n\n")[1]
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", table, flags=re.MULTILINE)}
    assert documented == {value for name, value in vars(errors).items() if name.startswith("EXIT_")}


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert target.startswith("http") or (ROOT / target).exists(), target


def test_the_workflow_example_uses_commands_and_flags_that_exist(desk: Path) -> None:
    workflow = (ROOT / ".github" / "workflows" / "performance-gate.yml").read_text(encoding="utf-8")
    lines = re.findall(r"run: (probe .*)", workflow)
    assert len(lines) == 3
    for line in lines:
        words = shlex.split(line)
        shown = run(["probe", words[1], "--help"], desk).stdout
        assert all(word in shown for word in words if word.startswith("--"))


def test_every_command_is_mentioned() -> None:
    commands = {p.stem for p in (ROOT / "roofline_probe" / "cli").glob("*.py") if not p.stem.startswith("_")}
    assert all(f"probe {command}" in README for command in commands)
