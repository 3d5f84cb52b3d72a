from __future__ import annotations

import errno
import os
import threading

import pytest

from roofline_probe.errors import UsageError
from roofline_probe.tail import tee as tee_module
from roofline_probe.tail.tee import Tee


@pytest.fixture
def said():
    return []


def test_the_raw_bytes_are_appended_whatever_they_are(tmp_path, said):
    path = tmp_path / "kept.log"
    path.write_bytes(b"before\n")
    tee = Tee(path, said.append)
    tee.start()
    blocks = [b"\x1b[31m\xff\x00 half a li", b"ne\r\n", b"last without newline"]
    for block in blocks:
        tee.offer(block)
    tee.close()
    assert path.read_bytes() == b"before\n" + b"".join(blocks)
    assert tee.missing_bytes == 0
    assert said == []


def test_bytes_reach_the_file_while_the_server_still_runs(tmp_path, said):
    path = tmp_path / "kept.log"
    tee = Tee(path, said.append)
    tee.start()
    tee.offer(b"now\n")
    wait_for(lambda: path.read_bytes() == b"now\n")
    tee.close()


def test_a_folder_that_does_not_exist_is_refused_at_once(tmp_path, said):
    with pytest.raises(UsageError, match=r"--tee .*cannot be written"):
        Tee(tmp_path / "no" / "kept.log", said.append)


def test_a_full_disk_is_said_once_survived_and_counted(tmp_path, said, monkeypatch):
    path = tmp_path / "kept.log"
    tee = Tee(path, said.append)
    full = [True]
    real = os.write

    def write(fd, data):
        if fd == tee._fd and full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data)

    monkeypatch.setattr(tee_module.os, "write", write)
    tee.start()
    tee.offer(b"lost one\n")
    tee.offer(b"lost two\n")
    wait_for(lambda: tee.missing_bytes == 18)
    full[0] = False
    tee.offer(b"kept\n")
    tee.close()
    assert path.read_bytes() == b"kept\n"
    assert len(said) == 2
    assert "No space left on device" in said[0]
    assert "18 bytes are missing" in said[1]


def test_a_hanging_disk_costs_bytes_of_the_file_and_not_the_engine(tmp_path, said, monkeypatch):
    """The backlog fills, one block waits for room, the rest is given up without waiting."""
    monkeypatch.setattr(tee_module, "BACKLOG_BYTES", 100)
    path = tmp_path / "kept.log"
    tee = Tee(path, said.append)
    hanging = threading.Event()
    real = os.write

    def write(fd, data):
        if fd == tee._fd:
            hanging.wait(10)
        return real(fd, data)

    monkeypatch.setattr(tee_module.os, "write", write)
    waits = []
    monkeypatch.setattr(tee._change, "wait_for", counting(tee._change.wait_for, waits))
    tee.start()
    for _ in range(50):
        tee.offer(b"x" * 40)
    assert len([timeout for timeout in waits if timeout is not None]) == 1
    assert tee.missing_bytes == 48 * 40
    assert len(said) == 1
    hanging.set()
    tee.close()
    assert path.read_bytes() == b"x" * 80


def counting(real, waits):
    def wait_for(predicate, timeout=None):
        waits.append(timeout)
        return real(predicate, timeout)

    return wait_for


def wait_for(condition, seconds=10.0):
    import time

    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.005)
