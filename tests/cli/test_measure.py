"""``probe measure`` in a process of its own, on this machine's CPU."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import subprocess
import termios
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
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGHUP, 130), (signal.SIGKILL, -signal.SIGKILL)],
    ids=["ctrl-c", "kill", "terminal closed", "kill-9"],
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
    assert (b"beta" in out) == (number != signal.SIGKILL)


@pytest.mark.parametrize("key", [b"\x03", b"\x04"], ids=["ctrl-c", "ctrl-d"])
@pytest.mark.parametrize("answers", [b"", b"80\n"], ids=["first question", "second question"])
def test_a_question_can_be_left(key: bytes, answers: bytes, script: Path, environment: dict[str, str]) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [str(script), *QUICK[:-2], "--predict"], stdin=theirs, stdout=theirs, stderr=theirs, env=environment,
        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(theirs)
    said = b""
    while b"?" not in said:
        said += os.read(ours, 4096)
    os.write(ours, answers + key)
    while True:
        try:
            said += os.read(ours, 4096)
        except OSError:  # the terminal's other end is closed
            break
    assert process.wait(timeout=60) == 130
    assert b"Traceback" not in said
    os.close(ours)
