from __future__ import annotations

import fcntl
import os
import threading
import time

import pytest

from roofline_probe.errors import UsageError
from roofline_probe.tail import reader
from roofline_probe.tail.reader import FdSource, Reader


def read_all(source, consume):
    ended = threading.Event()
    thread = Reader(source, consume, ended.set)
    thread.start()
    return thread, ended


def end_input(pipe, ended):
    os.close(pipe[1])
    pipe[1] = -1
    assert ended.wait(10)


def test_every_byte_arrives_in_order_until_end_of_input(pipe):
    taken = []
    thread, ended = read_all(FdSource(pipe[0]), taken.append)
    sent = [bytes([n % 251]) * (n * 37 % 5000 + 1) for n in range(200)]
    for piece in sent:
        os.write(pipe[1], piece)
    end_input(pipe, ended)
    assert b"".join(taken) == b"".join(sent)
    assert thread.ended
    assert thread.failure is None


def test_a_short_write_is_handed_on_without_waiting_for_more(pipe):
    arrived = threading.Event()
    _, ended = read_all(FdSource(pipe[0]), lambda chunk: arrived.set())
    os.write(pipe[1], b"one line\n")
    assert arrived.wait(10)
    end_input(pipe, ended)


def test_a_descriptor_that_somebody_set_non_blocking_is_waited_for(pipe):
    os.set_blocking(pipe[0], False)
    taken = []
    _, ended = read_all(FdSource(pipe[0]), taken.append)
    time.sleep(0.05)
    os.write(pipe[1], b"late")
    end_input(pipe, ended)
    assert taken == [b"late"]


def test_a_fault_of_ours_is_kept_and_the_engine_is_still_drained(pipe):
    def fail(chunk):
        raise RuntimeError("a bug")

    thread, ended = read_all(FdSource(pipe[0]), fail)
    for _ in range(100):
        os.write(pipe[1], b"x" * 60_000)
    end_input(pipe, ended)
    assert isinstance(thread.failure, RuntimeError)


def test_a_pause_of_the_parser_is_not_one_of_the_engine(pipe):
    """Blocks are taken while the first one is still being worked on."""
    go_on = threading.Event()
    taken = []

    def slow(chunk):
        go_on.wait(10)
        taken.append(chunk)

    _, ended = read_all(FdSource(pipe[0]), slow)
    for _ in range(50):
        os.write(pipe[1], b"x" * 60_000)  # three times what the pipe holds
    go_on.set()
    end_input(pipe, ended)
    assert sum(map(len, taken)) == 3_000_000


def test_silence_is_measured_from_the_last_byte(pipe):
    seen = threading.Event()
    thread, ended = read_all(FdSource(pipe[0]), lambda chunk: seen.set())
    thread.last_read -= 100
    assert thread.silent_s >= 100
    os.write(pipe[1], b"x")
    assert seen.wait(10)
    assert thread.silent_s < 100
    end_input(pipe, ended)


def test_a_stopped_source_ends_after_the_block_at_hand(pipe):
    source = FdSource(pipe[0])
    os.write(pipe[1], b"first")
    chunks = source.chunks()
    assert next(chunks) == b"first"
    source.stop()
    assert list(chunks) == []


def test_a_pipe_is_widened_where_the_system_allows(pipe):
    fcntl = pytest.importorskip("fcntl")
    if not hasattr(fcntl, "F_GETPIPE_SZ"):
        pytest.skip("only Linux lets a pipe be widened")
    before = fcntl.fcntl(pipe[0], fcntl.F_GETPIPE_SZ)
    reader.widen_pipe(pipe[0])
    assert fcntl.fcntl(pipe[0], fcntl.F_GETPIPE_SZ) >= before


def test_a_file_that_is_no_pipe_is_left_as_it_is(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"abc")
    with path.open("rb") as file:
        assert list(FdSource(file.fileno()).chunks()) == [b"abc"]


def test_a_terminal_as_input_is_refused_with_the_ways_to_use_it(monkeypatch):
    monkeypatch.setattr(os, "isatty", lambda fd: True)
    with pytest.raises(UsageError, match=r"2>&1 \| probe tail"):
        reader.standard_input()


@pytest.mark.parametrize("held", [False, True], ids=["closed", "held-open-for-writing-only"])
def test_a_closed_standard_input_is_refused(monkeypatch, held):
    def flags(fd, command):
        if not held:
            raise OSError(9, "Bad file descriptor")
        return os.O_WRONLY

    monkeypatch.setattr(fcntl, "fcntl", flags)
    with pytest.raises(UsageError, match="closed"):
        reader.standard_input()
