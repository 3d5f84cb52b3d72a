"""The main thread's decisions, with real descriptors and real signals to this process."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from roofline_probe.tail import session as session_module
from roofline_probe.tail.reader import FdSource
from roofline_probe.tail.runner import Child
from roofline_probe.tail.session import End, Session


@pytest.fixture(autouse=True)
def handlers():
    """Whatever a session installs is taken back."""
    numbers = (
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGTSTP,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGQUIT,
    )
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def make(line_pump, view):
    def build(source, **options):
        return Session(source, line_pump, view, **options)

    return build


def later(seconds, *actions):
    def act():
        for action in actions:
            time.sleep(seconds)
            action()

    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


def shut(pipe):
    fd, pipe[1] = pipe[1], -1
    os.close(fd)


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def test_the_end_of_input_ends_it_and_the_last_line_counts(make, pipe, view):
    os.write(pipe[1], b"one\ntwo")
    shut(pipe)
    assert make(FdSource(pipe[0])).watch() is End.INPUT
    assert len(view.points) == 2
    assert view.events == ["start", "stop", "flush"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_the_first_signal_stops_the_display_and_drains_what_the_server_still_prints(make, pipe, view, number):
    later(
        0.1,
        lambda: os.kill(os.getpid(), number),
        lambda: os.write(pipe[1], b"shutting down\n"),
        lambda: shut(pipe),
    )
    assert make(FdSource(pipe[0])).watch() is End.INPUT
    assert view.events[:2] == ["start", "stop"]
    assert [point.step.raw for point in view.points] == ["shutting down"]
    assert any("Once more leaves at once" in sentence for sentence in view.sentences)


def test_the_second_signal_leaves_though_the_input_is_open(make, pipe):
    later(0.1, interrupt, interrupt)
    assert make(FdSource(pipe[0])).watch() is End.LEFT
    shut(pipe)
    time.sleep(0.05)


def test_a_file_ends_at_the_first_signal_since_no_server_stops_behind_it(make):
    class Endless:
        endless = True

        def __init__(self):
            self.stopped = threading.Event()

        def chunks(self):
            yield b"one\n"
            self.stopped.wait(10)

        def stop(self):
            self.stopped.set()

        def close(self, timeout_s):
            pass

    later(0.1, interrupt)
    assert make(Endless()).watch() is End.INPUT


def test_when_nobody_reads_our_output_it_ends_quietly(make, pipe, view):
    later(0.1, lambda: setattr(view, "closed", True))
    assert make(FdSource(pipe[0])).watch() is End.NOBODY_READS
    assert view.sentences == []
    shut(pipe)
    time.sleep(0.05)


def test_while_the_log_is_kept_it_drains_to_the_end_though_nobody_reads_our_output(make, pipe, view):
    view.closed = True
    later(0.3, lambda: os.write(pipe[1], b"still read\n"), lambda: shut(pipe))
    assert make(FdSource(pipe[0]), keeps=True).watch() is End.INPUT
    assert len(view.points) == 1


def test_a_hung_up_terminal_counts_as_nobody_reading(make, pipe):
    later(0.1, lambda: os.kill(os.getpid(), signal.SIGHUP))
    assert make(FdSource(pipe[0])).watch() is End.NOBODY_READS
    shut(pipe)
    time.sleep(0.05)


def test_under_nohup_a_hang_up_stays_ignored(make, pipe):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    later(0.1, lambda: os.kill(os.getpid(), signal.SIGHUP), lambda: shut(pipe))
    assert make(FdSource(pipe[0])).watch() is End.INPUT


def test_while_draining_silence_is_said(make, pipe, view, monkeypatch):
    monkeypatch.setattr(session_module, "REMIND_S", 0.2)
    later(0.1, interrupt)
    later(1.2, lambda: shut(pipe))
    make(FdSource(pipe[0])).watch()
    assert any("silent for" in sentence for sentence in view.sentences)


def test_a_server_of_ours_whose_children_hold_its_output_is_not_waited_for(make, view, monkeypatch):
    """As after SIGKILL of an API server: its workers keep the pipe open."""
    monkeypatch.setattr(session_module, "ORPHANS_S", 0.3)
    child = Child(["sh", "-c", "sleep 30 & echo last line"])
    try:
        assert make(child.source, child=child).watch() is End.INPUT
        assert [point.step.raw for point in view.points] == ["last line"]
        assert any("still hold its output" in sentence for sentence in view.sentences)
    finally:
        child.kill()


def test_leaving_at_the_second_signal_takes_a_server_of_ours_along(make):
    """A server that nobody watches would go on holding its GPU."""
    child = Child(["sh", "-c", "trap '' INT; echo up; while :; do sleep 0.05; done"])
    later(0.3, interrupt, interrupt)
    assert make(child.source, child=child).watch() is End.LEFT
    assert child.wait(10) == 128 + signal.SIGKILL


def test_a_server_of_ours_that_closes_its_output_is_waited_for(make):
    child = Child(["sh", "-c", "exec >&- 2>&-; sleep 0.6; exit 5"])
    assert make(child.source, child=child).watch() is End.INPUT
    assert child.poll() == 5


def test_a_fault_of_ours_is_reported_after_the_engine_was_drained(make, pipe, line_pump, view):
    def fail(chunk):
        raise RuntimeError("a bug")

    line_pump.consume = fail
    later(0.4, lambda: os.write(pipe[1], b"a\n"), lambda: os.write(pipe[1], b"b\n"), lambda: shut(pipe))
    session = make(FdSource(pipe[0]))
    assert session.watch() is End.INPUT
    assert isinstance(session.reader.failure, RuntimeError)
    assert sum("A fault in probe" in sentence for sentence in view.sentences) == 1
