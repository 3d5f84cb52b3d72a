"""Commands as people run them: the installed script in a process of its own, with a home that holds no profile."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from roofline_probe import profile_file

ROOT = Path(__file__).parents[2]
SCRIPT = Path(sys.executable).parent / "probe"
H200 = ROOT / "fixtures" / "profiles" / "h200-reference.json"
VLLM_LOG = ROOT / "fixtures" / "logs" / "vllm" / "0.24.0-h200-graph-1s.log"
SGLANG_LOG = ROOT / "fixtures" / "logs" / "sglang" / "0.5.16-h200.log"

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """This process's environment without anything that changes output, and with empty user folders."""
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM")}
    home = tmp_path / "home"
    return {**kept, "HOME": str(home), "XDG_DATA_HOME": str(home / "data"), "COLUMNS": "80", "TERM": "xterm-256color"}


@pytest.fixture
def probe(environment: dict[str, str], tmp_path: Path) -> Run:
    """Run ``probe`` to its end: ``probe("compare", log, stdin=b"...", env={...})``."""

    def run(
        *arguments: object, stdin: bytes | None = None, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [str(SCRIPT), *map(str, arguments)],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            cwd=tmp_path,
            env={**environment, **(env or {})},
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture
def script() -> Path:
    """The installed ``probe``."""
    return SCRIPT


@pytest.fixture
def h200() -> Path:
    """A profile assembled from kernel measurements on H200 cards."""
    return H200


@pytest.fixture
def cpu_profile(tmp_path: Path) -> Path:
    """The H200's figures as if a CPU had given them, stored: what a laptop that measured itself has."""
    profile = profile_file.decode(H200.read_bytes(), "h200")
    path = tmp_path / "home" / "data" / "roofline-probe" / "profiles" / "laptop.json"
    device = msgspec.structs.replace(profile.device, kind="cpu", name="Some CPU")
    profile_file.save(msgspec.structs.replace(profile, device=device), path)
    return path


@pytest.fixture
def vllm_log() -> Path:
    """vLLM 0.24.0 on one H200: decode at five batches, prefill, mixed."""
    return VLLM_LOG


@pytest.fixture
def sglang_log() -> Path:
    """SGLang 0.5.16 on the same card."""
    return SGLANG_LOG
