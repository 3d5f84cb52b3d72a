"""Outputs that would destroy an input or each other are refused before anything is read."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from roofline_probe.cli._targets import check_targets
from roofline_probe.errors import UsageError

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def folder(tmp_path: Path, vllm_log: Path, h200: Path) -> Path:
    """Two parts of a log, a profile and a model config, each also under a second name."""
    shutil.copy(vllm_log, tmp_path / "a.log")
    (tmp_path / "a.log.1.gz").write_bytes(gzip.compress(vllm_log.read_bytes()))
    shutil.copy(h200, tmp_path / "card.json")
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "soft").symlink_to("a.log")
    os.link(tmp_path / "a.log", tmp_path / "hard")
    (tmp_path / "page.html").write_text("a log of that name")
    return tmp_path


def refused(result: subprocess.CompletedProcess[bytes], *words: str) -> None:
    said = result.stderr.decode()
    assert (result.returncode, result.stdout, said.count("\n")) == (2, b"", 1), said
    assert all(word in said for word in words), said


@pytest.mark.parametrize(
    "arguments",
    [
        "compare a.log --profile card.json --json a.log",
        "compare a.log --profile card.json --csv ./a.log",
        "compare a.log --profile card.json --json soft",
        "compare a.log --profile card.json --json hard",
        "compare soft --profile card.json --json a.log",
        "compare a.log* --profile card.json --csv a.log.1.gz",
        "compare . --profile card.json --csv a.log.1.gz",
        "compare page.html --profile card.json --html page.html",
        "compare page.html --profile card.json --plot page.html",
        "compare a.log --profile card.json --json card.json",
        "compare a.log --profile card.json --model config.json --json config.json",
        "compare a.log --profile card.json --cluster --json a.log",
        "diff a.log hard --profile card.json --json a.log",
        "diff card.json h200 --json card.json",
        "plan a.log --profile card.json --json a.log",
        "show card.json --json card.json",
        "export prometheus card.json -o card.json",
        "tail --profile card.json --tee card.json",
        "measure --quick --model config.json --csv config.json",
    ],
)
def test_an_output_that_is_an_input_is_refused(probe: Run, folder: Path, arguments: str) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    refused(probe(*arguments.split()), "would overwrite")
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


@pytest.mark.parametrize(
    "arguments",
    [
        "compare a.log --profile h200 --json out --csv ./out",
        "compare a.log --profile h200 --html out.html --plot out.html",
        "plan a.log --profile h200 --json out.svg --plot out.svg",
        "measure --quick --json out --csv out",
        "measure --quick --profile out --json out",
        "show h200 --json out.svg --plot out.svg",
    ],
)
def test_two_outputs_that_are_one_file_are_refused(probe: Run, folder: Path, arguments: str) -> None:
    refused(probe(*arguments.split()), "name one file")
    assert not list(folder.glob("out*"))


def test_a_stored_profile_is_an_input_under_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, h200: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    stored = tmp_path / "roofline-probe" / "profiles" / "mine.json"
    stored.parent.mkdir(parents=True)
    shutil.copy(h200, stored)
    with pytest.raises(UsageError, match="would overwrite"):
        check_targets({"--json": str(stored)}, ["mine"])


def test_results_of_an_earlier_run_beside_the_logs_may_be_replaced(probe: Run, folder: Path) -> None:
    for _ in range(2):
        assert probe("compare", ".", "-q", "--profile", "h200", "--json", "out.json").returncode == 0


def test_a_device_and_standard_output_are_no_files_to_lose() -> None:
    check_targets({"--json": os.devnull, "--csv": os.devnull, "--html": "-"}, [os.devnull, "-", None])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compare", ""], "An argument is empty"),
        (["compare", "a.log", "--json", ""], "behind --json is empty"),
        (["compare", "a.log", "--html="], "behind --html is empty"),
        (["compare", "a.log", "--profile", ""], "behind --profile is empty"),
        (["tail", "-f", ""], "behind -f is empty"),
        (["tail", "--tee", ""], "behind --tee is empty"),
        (["export", "grafana", "-o", ""], "behind -o is empty"),
        (["measure", "--profile", ""], "behind --profile is empty"),
        (["show", ""], "An argument is empty"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_an_empty_word_is_named(probe: Run, folder: Path, arguments: list[str], words: str) -> None:
    refused(probe(*arguments), words)


def test_an_empty_word_of_the_servers_own_command_line_is_its_own(probe: Run) -> None:
    result = probe("tail", "--profile", "h200", "--", "true", "")
    assert (result.returncode, result.stderr.count(b"The log is empty")) == (3, 1)
