"""A real child process, with real pipes. It runs in a process of its own: forking beside pytest's threads is unsafe."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from log_parsers.stream import LogStream
from roofline_probe.tail import forked
from roofline_probe.tail.forked import InlineSource
from roofline_probe.tail.intake import Intake
from roofline_probe.tail.reader import FdSource

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

READ_ON = """
import os, sys, time
from log_parsers.stream import LogStream
from roofline_probe.errors import ProbeError
from roofline_probe.tail.forked import ForkedSource
from roofline_probe.tail.intake import Intake
from roofline_probe.tail.tee import Tee
from pathlib import Path
stream = LogStream()
intake = Intake(stream.scanner, "-", tee=Tee(Path(sys.argv[1]), print))
source = ForkedSource(0, intake)
print(source._child, flush=True)
"""
COUNT = """
try:
    for parcel in source.chunks():
        for part in parcel.scanned:
            list(stream.take(part.found, part.lines, part.bytes_read))
    print(stream.report.lines, flush=True)
except ProbeError as error:
    print(error, flush=True)
"""


def run(script, kept):
    process = subprocess.Popen(
        [sys.executable, "-c", READ_ON + script, str(kept)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    return process, int(process.stdout.readline())


def finish(process):
    process.stdin.close()
    output = process.stdout.read()
    process.stdout.close()
    process.wait(30)
    return output


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(pid, seconds=10.0):
    end = time.monotonic() + seconds
    while is_running(pid):
        assert time.monotonic() < end, "the child lives on"
        time.sleep(0.02)


def test_the_child_reads_to_the_end_and_keeps_the_bytes(tmp_path):
    process, child = run(COUNT, tmp_path / "kept")
    process.stdin.write(b"line\n" * 200_000)
    assert finish(process) == b"200000\n"
    assert (tmp_path / "kept").read_bytes() == b"line\n" * 200_000
    wait_until_gone(child)


def test_the_engine_is_drained_though_the_parent_does_not_look(tmp_path):
    """The parent sleeps: only the child can have taken the bytes."""
    process, child = run("time.sleep(30)", tmp_path / "kept")
    process.stdin.write(b"x" * 99 + b"\n")
    process.stdin.write((b"x" * 99 + b"\n") * 100_000)
    process.kill()
    finish(process)
    wait_until_gone(child)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=["int", "term", "hup"])
def test_a_signal_to_end_is_the_parents_business(tmp_path, number):
    process, child = run(COUNT, tmp_path / "kept")
    process.stdin.write(b"one\n")
    os.kill(child, number)
    process.stdin.write(b"two\n")
    assert finish(process) == b"2\n"


def test_the_child_ends_when_the_parent_is_killed_though_the_engine_is_silent(tmp_path):
    process, child = run("time.sleep(30)", tmp_path / "kept")
    process.kill()
    process.wait(30)
    wait_until_gone(child)
    finish(process)


def test_a_killed_child_is_told_in_a_sentence(tmp_path):
    process, child = run(COUNT, tmp_path / "kept")
    os.kill(child, signal.SIGKILL)
    assert b"was killed" in finish(process)


def test_with_one_core_the_reading_thread_makes_the_parcels(pipe, monkeypatch):
    monkeypatch.setattr(forked, "can_fork", lambda: False)
    source = forked.reading(FdSource(pipe[0]), Intake(LogStream().scanner, "-"))
    assert isinstance(source, InlineSource)
    os.write(pipe[1], b"line\n")
    os.close(pipe[1])
    pipe[1] = -1
    assert [part.lines for parcel in source.chunks() for part in parcel.scanned] == [1, 1]
    assert not source.endless
