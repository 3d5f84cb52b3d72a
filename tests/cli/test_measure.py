"""``probe measure`` in a process of its own, on this machine's CPU."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.slow
Run = Callable[..., "subprocess.CompletedProcess[bytes]"]
QUICK = ("measure", "--device", "cpu", "--quick", "--mode", "bandwidth")


def test_what_was_measured_is_shown_again_with_no_flags(probe: Run) -> None:
    measured = probe(*QUICK, "--json", "-")
    assert measured.returncode == 0, measured.stderr
    document = json.loads(measured.stdout)
    assert document["device"]["kind"] == "cpu"
    assert document["quick"]
    shown = probe("show")
    assert shown.returncode == 0
    assert b"beta" in shown.stdout


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)], ids=["ctrl-c", "kill-9"]
)
def test_ended_in_the_middle_the_previous_profile_is_intact(
    number: signal.Signals, code: int, script: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    previous = tmp_path / "mine.json"
    previous.write_text("what was there before")
    process = subprocess.Popen(
        [str(script), "measure", "--device", "cpu", "--quick", "-v", "--profile", str(previous)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if b"fp32 burst" in line:
            break
    time.sleep(0.3)
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == code
    assert previous.read_text() == "what was there before"
    partial = json.loads((tmp_path / "mine.partial.json").read_bytes())
    assert partial["complete"] is False
    assert partial["betas"]
    assert (b"beta" in out) == (number == signal.SIGINT)
