from __future__ import annotations

import os
import threading
import time

import pytest

from roofline_probe.tail import outlet as outlet_module
from roofline_probe.tail.outlet import Outlet


def read_to_end(fd):
    data = b""
    while block := os.read(fd, 1 << 16):
        data += block
    return data


def test_lines_come_out_in_order(pipe):
    outlet = Outlet(pipe[1])
    outlet.start()
    for number in range(1000):
        outlet.put(b"%d\n" % number)
    assert outlet.close(10)
    os.close(pipe[1])
    pipe[1] = -1
    assert read_to_end(pipe[0]) == b"".join(b"%d\n" % number for number in range(1000))


def test_a_reader_that_stops_loses_nothing_and_memory_stays_bounded(pipe):
    """More than pipe and memory hold together goes through the temporary file, in order."""
    outlet = Outlet(pipe[1], memory_bytes=1000)
    outlet.start()
    lines = [b"%06d " % number + b"x" * 93 + b"\n" for number in range(5000)]
    for line in lines:
        outlet.put(line)
    assert outlet._held <= 1000
    assert outlet._spill_end > 0
    out = []
    reader = threading.Thread(target=lambda: out.append(read_to_end(pipe[0])))
    reader.start()
    assert outlet.close(20)
    os.close(pipe[1])
    pipe[1] = -1
    reader.join(20)
    assert out[0] == b"".join(lines)


def test_after_the_slow_reader_caught_up_lines_go_through_memory_again(pipe):
    outlet = Outlet(pipe[1], memory_bytes=100)
    outlet.start()
    fill = b"y" * (1 << 20)
    outlet.put(fill)  # fills the pipe, so that what follows is put aside
    outlet.put(b"aside\n")
    taken = b""
    while len(taken) < len(fill) + 6:
        taken += os.read(pipe[0], 1 << 16)
    assert taken.endswith(b"aside\n")
    end = time.monotonic() + 10
    while outlet._spill_end and time.monotonic() < end:
        time.sleep(0.005)
    outlet.put(b"again\n")
    assert os.read(pipe[0], 100) == b"again\n"
    assert outlet._spill_end == 0
    outlet.close(10)


def test_a_reader_that_left_closes_the_outlet_quietly(pipe):
    os.close(pipe[0])
    pipe[0] = -1
    outlet = Outlet(pipe[1])
    outlet.start()
    outlet.put(b"nobody\n")
    outlet.join(10)
    assert outlet.closed
    outlet.put(b"nobody still\n")
    assert not outlet.close(1)


def test_what_no_disk_can_hold_is_counted(pipe, monkeypatch):
    def no_file(**options):
        raise OSError("no space")

    monkeypatch.setattr(outlet_module.tempfile, "TemporaryFile", no_file)
    outlet = Outlet(pipe[1], memory_bytes=10)
    outlet.put(b"0123456789")
    outlet.put(b"too much\n")
    assert outlet.lost_bytes == 9


def test_closing_does_not_wait_longer_than_it_is_told_for_a_stuck_reader(pipe):
    outlet = Outlet(pipe[1])
    outlet.start()
    outlet.put(b"z" * (4 << 20))
    assert not outlet.close(0.05)
    assert outlet.is_alive()
    os.close(pipe[0])  # lets the stuck thread go
    pipe[0] = -1
    outlet.join(10)


@pytest.mark.parametrize("size", [0, 1, 4096], ids=["nothing", "one-byte", "a-page"])
def test_closing_lets_everything_out(pipe, size):
    outlet = Outlet(pipe[1])
    outlet.start()
    outlet.put(b"a" * size)
    assert outlet.close(10)
    os.close(pipe[1])
    pipe[1] = -1
    assert len(read_to_end(pipe[0])) == size
