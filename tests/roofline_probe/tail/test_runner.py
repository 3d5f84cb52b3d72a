from __future__ import annotations

import os
import signal
import time

import pytest

from roofline_probe.errors import UsageError
from roofline_probe.tail.runner import Child


def read_all(child):
    return b"".join(child.source.chunks())


def test_both_streams_are_read_in_the_order_written():
    child = Child(["sh", "-c", "echo out; echo err >&2; echo out again"])
    assert read_all(child) == b"out\nerr\nout again\n"
    assert child.wait(10) == 0


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 128 + 15), ("kill -KILL $$", 128 + 9)],
    ids=["success", "failure", "terminated", "killed"],
)
def test_the_exit_code_is_the_one_a_shell_would_give(script, code):
    child = Child(["sh", "-c", script])
    read_all(child)
    assert child.wait(10) == code


def test_a_command_that_does_not_exist_is_one_sentence():
    with pytest.raises(UsageError, match=r"no-such-server-here cannot be started \(No such file"):
        Child(["no-such-server-here"])


def test_an_interrupt_reaches_the_whole_group_as_from_a_terminal():
    child = Child(
        ["sh", "-c", "trap 'echo parent' INT; (trap 'echo worker; exit' INT; echo up; while :; do sleep 0.05; done)"]
    )
    chunks = child.source.chunks()
    seen = next(chunks)
    while b"up" not in seen:
        seen += next(chunks)
    child.pass_on(signal.SIGINT)
    seen += b"".join(chunks)
    assert b"worker" in seen
    assert b"parent" in seen
    child.kill()


def test_a_termination_is_for_the_first_process_alone():
    child = Child(["sh", "-c", "(trap 'echo worker' TERM; sleep 0.5) & trap 'echo parent; exit 3' TERM; echo up; wait"])
    chunks = child.source.chunks()
    seen = next(chunks)
    while b"up" not in seen:
        seen += next(chunks)
    child.pass_on(signal.SIGTERM)
    seen += b"".join(chunks)
    assert b"parent" in seen
    assert b"worker" not in seen
    assert child.wait(10) == 3


def test_the_server_runs_in_a_session_of_its_own():
    child = Child(["sh", "-c", "sleep 5"])
    assert os.getsid(child.pid) == child.pid != os.getsid(0)
    child.kill()
    assert child.wait(10) == 128 + signal.SIGKILL


def test_killing_takes_the_children_that_hold_the_pipe_too():
    child = Child(["sh", "-c", "sleep 30 & sleep 30"])
    time.sleep(0.1)
    child.kill()
    assert read_all(child) == b""
