"""``--plot`` and ``--html`` as people use them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("altair", reason="pictures need the plot extra")

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]
HEADS = {"png": b"\x89PNG", "svg": b"<svg", "html": b"<!doctype html>"}


@pytest.mark.parametrize("kind", [pytest.param(k, id=k) for k in HEADS])
def test_compare_writes_the_picture(probe: Run, vllm_log: Path, h200: Path, tmp_path: Path, kind: str) -> None:
    done = probe("compare", vllm_log, "--profile", h200, "--plot", f"run.{kind}", "-q")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / f"run.{kind}").read_bytes().startswith(HEADS[kind])


def test_show_writes_the_picture_beside_its_tables(probe: Run, h200: Path, tmp_path: Path) -> None:
    done = probe("show", h200, "--plot", "card.svg")
    assert done.returncode == 0, done.stderr
    assert b"NVIDIA H200" in done.stdout
    assert b"burst 808" in (tmp_path / "card.svg").read_bytes()


def test_report_page_and_gate_together(probe: Run, vllm_log: Path, h200: Path, tmp_path: Path) -> None:
    gate = ("--fail-under", "decode=99")
    done = probe("compare", vllm_log, "--profile", h200, "--html", "report.html", "-q", *gate)
    assert done.returncode == 1
    assert b"attained" in (tmp_path / "report.html").read_bytes(), "the page is there when the gate fails"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param(("--plot", "run.pdf"), b"--plot writes .png, .svg or .html", id="suffix"),
        pytest.param(("--plot", "nowhere/run.png"), b"does not exist", id="folder"),
        pytest.param(("--html", "nowhere/run.html"), b"does not exist", id="page-folder"),
    ],
)
def test_bad_targets_are_one_sentence(
    probe: Run, vllm_log: Path, h200: Path, arguments: tuple[str, ...], sentence: bytes
) -> None:
    done = probe("compare", vllm_log, "--profile", h200, "-q", *arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    "flag", [pytest.param(("--plot", "a.png"), id="plot"), pytest.param(("--html", "a.html"), id="html")]
)
def test_without_the_extra_it_says_what_to_install(
    environment: dict[str, str], script: Path, vllm_log: Path, h200: Path, flag: tuple[str, str]
) -> None:
    arguments = ["compare", str(vllm_log), "--profile", str(h200), *flag]
    code = (
        "import sys, importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'altair' else real(name, *rest)\n"
        f"from roofline_probe.cli import main; sys.exit(main({arguments!r}))"
    )
    done = subprocess.run(
        [str(script.parent / "python"), "-c", code], capture_output=True, env=environment, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stderr == (
        b"probe: Pictures need the plot extra; install it with `pip install 'roofline-probe[plot]'`.\n"
    )
