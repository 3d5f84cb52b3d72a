from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from log_parsers.step import ScanReport
from roofline_probe.errors import UsageError
from roofline_probe.tail.following import FollowSource, open_pipe


class Followed:
    """A source read by a thread, with what it said and when it had caught up."""

    def __init__(self, path):
        self.text, self.said = b"", []
        self.caught_up = threading.Event()
        self.held_when_caught_up = None
        self.source = FollowSource(path, ScanReport(), self.said.append)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for chunk in self.source.chunks():
            self.text += chunk
            if not chunk:
                assert not self.caught_up.is_set()
                self.held_when_caught_up = self.text
                self.caught_up.set()

    def end(self):
        self.source.stop()
        self.thread.join(10)
        assert not self.thread.is_alive()
        return self.text


def test_what_the_file_holds_comes_first_then_what_is_appended(tmp_path):
    path = tmp_path / "server.log"
    path.write_bytes(b"before\n")
    followed = Followed(path)
    assert followed.caught_up.wait(10)
    assert followed.held_when_caught_up == b"before\n"
    with path.open("ab") as file:
        file.write(b"after\n")
    wait_for(lambda: followed.text == b"before\nafter\n")
    followed.end()
    assert followed.said == []


def test_a_file_that_comes_late_is_waited_for_and_that_is_said(tmp_path):
    path = tmp_path / "late.log"
    followed = Followed(path)
    assert followed.caught_up.wait(10)
    path.write_bytes(b"here\n")
    wait_for(lambda: followed.text == b"here\n")
    followed.end()
    assert "does not exist yet" in followed.said[0]


def test_truncation_is_said(tmp_path):
    path = tmp_path / "server.log"
    path.write_bytes(b"a long first line\n")
    followed = Followed(path)
    assert followed.caught_up.wait(10)
    path.write_bytes(b"new\n")
    wait_for(lambda: followed.text.endswith(b"new\n"))
    followed.end()
    assert "truncated" in followed.said[0]


def test_an_unfinished_last_line_is_given_at_the_end(tmp_path):
    path = tmp_path / "server.log"
    path.write_bytes(b"whole\nunfin")
    followed = Followed(path)
    assert followed.caught_up.wait(10)
    assert followed.end() == b"whole\nunfin"


def test_a_folder_is_refused_before_anything_starts(tmp_path):
    with pytest.raises(IsADirectoryError):
        open_pipe(tmp_path)


def test_a_file_and_what_is_not_there_yet_are_followed_by_name(tmp_path):
    (tmp_path / "server.log").touch()
    assert open_pipe(tmp_path / "server.log") is None
    assert open_pipe(tmp_path / "late.log") is None


def test_a_terminal_is_refused():
    _, terminal = os.openpty()
    with pytest.raises(UsageError, match="is a terminal"):
        open_pipe(Path(os.ttyname(terminal)))


def test_a_pipe_is_read_as_it_comes_until_its_last_writer_has_gone(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    chunks = open_pipe(fifo).chunks()
    with fifo.open("wb", buffering=0) as writer:
        for piece in (b"one\n", b"\xfftwo"):
            writer.write(piece)
            assert next(chunks) == piece
    assert list(chunks) == []


def test_a_pipe_that_nobody_writes_to_can_be_left(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    source, chunks = open_pipe(fifo), []
    thread = threading.Thread(target=lambda: chunks.extend(source.chunks()), daemon=True)
    thread.start()
    source.stop()
    thread.join(10)
    assert not thread.is_alive()
    assert chunks == []


def wait_for(condition, seconds=10.0):
    import time

    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.01)
