"""Reading in a second process gives what reading in this one gives, errors included."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import gzip
import io
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import log_parsers
from log_parsers import apart as apart_module
from log_parsers import reading
from log_parsers.apart import apart, can_fork

LOGS = Path(__file__).parents[2] / "fixtures/logs"
pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork"),
    # pytest-xdist has threads of its own; outside the tests nothing is forked beside threads
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
]


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Reads everything apart, however short, and lists the children."""
    children: list[int] = []
    fork = os.fork

    def counted() -> int:
        child = fork()
        children.append(child)
        return child

    monkeypatch.setattr(os, "fork", counted)
    monkeypatch.setattr(reading, "_WORTH_A_PROCESS", 1)
    monkeypatch.setattr(reading, "can_fork", lambda: True)
    return children


def test_items_come_in_order_and_the_child_is_gone_afterwards(forks: list[int]) -> None:
    assert list(apart(iter(range(1000)))) == list(range(1000))
    with pytest.raises(ProcessLookupError):
        os.kill(forks[0], 0)


def test_a_system_that_reaps_children_itself_is_no_error(monkeypatch: pytest.MonkeyPatch, forks: list[int]) -> None:
    def gone(*_: object) -> None:
        raise ChildProcessError(10, "No child processes")

    waitpid = os.waitpid
    monkeypatch.setattr(os, "waitpid", gone)
    assert list(apart(iter([1, 2]))) == [1, 2]
    waitpid(forks[0], 0)


def test_where_no_more_processes_are_allowed_the_work_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    monkeypatch.setattr(os, "fork", refused)
    assert list(apart(iter([1, 2]))) == [1, 2]
    assert before is None or len(os.listdir("/proc/self/fd")) == before


def test_ctrl_c_right_behind_the_fork_leaves_no_child_without_an_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    fork, children = os.fork, []

    def interrupted() -> int:
        child = fork()
        if child:
            children.append(child)
            signal.raise_signal(signal.SIGINT)
        return child

    monkeypatch.setattr(os, "fork", interrupted)
    with pytest.raises(KeyboardInterrupt):
        apart(slow_items())
    gc.collect()
    with pytest.raises(ProcessLookupError):
        os.kill(children[0], 0)


def slow_items() -> Iterator[int]:
    time.sleep(600)
    yield 1


def test_a_child_whose_owner_was_killed_ends_though_it_has_nothing_to_hand_over() -> None:
    """Two generations, as when a long log is read: the elder hears from the younger, and has nobody to tell."""
    read_end, write_end = os.pipe()

    def ticking() -> Iterator[int]:
        while True:
            time.sleep(0.01)
            yield 1

    def elder() -> Iterator[int]:
        os.write(write_end, b"%d\n" % os.getpid())
        for _ in apart(ticking()):
            pass
        yield 1

    owner = os.fork()
    if owner == 0:
        with contextlib.suppress(BaseException):
            list(apart(elder()))
        os._exit(0)
    elder_pid = int(os.read(read_end, 32))
    os.kill(owner, signal.SIGKILL)
    os.waitpid(owner, 0)
    for _ in range(1000):
        if is_gone(elder_pid):
            break
        time.sleep(0.01)
    assert is_gone(elder_pid)
    os.close(read_end), os.close(write_end)


def is_gone(pid: int) -> bool:
    """Dead, be it that nobody has asked for its exit code yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_child_that_the_system_has_reaped_does_not_hide_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def reaped(pid: int, number: int) -> None:
        raise ProcessLookupError(3, "No such process")

    def failing() -> Iterator[int]:
        raise PermissionError(13, "Permission denied", "secret.log")
        yield

    monkeypatch.setattr(os, "kill", reaped)
    with pytest.raises(PermissionError):
        list(apart(failing()))


def test_an_error_of_the_child_is_raised_here_behind_the_items_before_it() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise FileNotFoundError(2, "No such file or directory", "server.log")

    items = apart(failing())
    assert next(items) == 1
    with pytest.raises(FileNotFoundError) as caught:
        next(items)
    assert caught.value.filename == "server.log"


def test_a_child_that_dies_is_an_error_not_an_end() -> None:
    def dying() -> Iterator[int]:
        yield 1
        os.kill(os.getpid(), signal.SIGKILL)

    items = apart(dying())
    assert next(items) == 1
    with pytest.raises(ChildProcessError, match="before it was done"):
        next(items)


@pytest.mark.parametrize(("reader", "code"), [("listens", 0), ("is gone", 1)])
def test_the_child_leaves_without_clean_up_whether_its_reader_listens_or_is_gone(
    monkeypatch: pytest.MonkeyPatch, reader: str, code: int
) -> None:
    class Left(BaseException):
        pass

    def leave(code: int) -> None:
        raise Left(code)

    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(apart_module, "_owner", None)  # set below, in this process instead of a child
    reading_end, writing_end = os.pipe()
    if reader == "is gone":
        os.close(reading_end)
    with pytest.raises(Left) as left:
        apart_module._serve(iter([1, 2]), writing_end, os.getpid())
    assert left.value.args == (code,)
    apart_module._owner = None
    if reader == "listens":
        with open(reading_end, "rb") as pipe:
            assert list(apart_module._received(pipe)) == [1, 2]


def test_who_stops_early_is_not_kept_waiting_by_the_child(forks: list[int]) -> None:
    def silent() -> Iterator[int]:
        yield 1
        time.sleep(600)

    items = apart(silent())
    next(items)
    items.close()  # type: ignore[attr-defined]
    with pytest.raises(ProcessLookupError):
        os.kill(forks[0], 0)


def test_the_child_begins_before_anyone_asks_for_an_item_and_ends_when_nobody_will(forks: list[int]) -> None:
    begun_r, begun_w = os.pipe()

    def told() -> Iterator[int]:
        os.write(begun_w, b"x")
        time.sleep(600)
        yield 1

    items = apart(told())
    assert os.read(begun_r, 1) == b"x"
    del items
    with pytest.raises(ProcessLookupError):
        os.kill(forks[0], 0)
    os.close(begun_r), os.close(begun_w)


def test_a_second_start_ends_what_the_first_one_began(forks: list[int]) -> None:
    log = log_parsers.parse(LOGS / "vllm/0.24.0-h200-tp2-2s.log").start().start()
    with pytest.raises(ProcessLookupError):
        os.kill(forks[0], 0)
    assert list(log)


def test_nothing_to_read_is_nothing_to_begin() -> None:
    assert list(log_parsers.parse().start()) == []


def test_a_log_whose_reading_was_begun_gives_the_same_steps_facts_and_counts(forks: list[int]) -> None:
    path = LOGS / "vllm/0.24.0-h200-tp2-2s.log"
    begun = log_parsers.parse(path).start()
    assert forks
    count = len(forks)
    with path.open("rb") as file:
        plain = log_parsers.parse(file)
        wanted = [dataclasses.replace(step, source=str(path)) for step in plain]
    assert list(begun) == wanted
    assert len(forks) == count
    assert begun.report == plain.report
    assert list(begun) == wanted  # a second time, from the beginning


def test_what_is_wrong_with_a_source_is_said_when_it_is_read_not_when_it_is_begun(tmp_path: Path) -> None:
    begun = log_parsers.parse(tmp_path / "missing.log").start()
    with pytest.raises(FileNotFoundError):
        list(begun)
    with pytest.raises(FileNotFoundError):
        begun.check()


@pytest.mark.usefixtures("forks")
@pytest.mark.parametrize("at_once", [1, 7, 256])
def test_steps_in_batches_see_the_facts_stated_before_them_and_no_others(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(reading, "_AT_ONCE", at_once)
    monkeypatch.setattr(reading, "apart", iter)  # the child's work, done here
    for path in (LOGS / "wrapped/restart.log", LOGS / "vllm/0.24.0-h200-tp2-2s.log"):
        batched = log_parsers.parse(path)
        with path.open("rb") as file:
            plain = log_parsers.parse(file)
            for ours, theirs in zip(batched, plain, strict=True):
                assert dataclasses.replace(ours, source="-") == dataclasses.replace(theirs, source="-")
                assert [facts.model for facts in batched.facts] == [facts.model for facts in plain.facts]
                assert [facts.components for facts in batched.facts] == [facts.components for facts in plain.facts]
        assert batched.report == plain.report


@pytest.mark.usefixtures("forks")
def test_facts_stay_the_same_objects_until_their_run_states_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_AT_ONCE", 1)
    log = log_parsers.parse(LOGS / "vllm/0.24.0-h200-graph-1s.log")
    seen = {id(log.facts[0]): log.facts[0] for _ in log}
    assert len(seen) < 5


@pytest.mark.parametrize("path", sorted(LOGS.glob("*/*h200*.log")), ids=lambda path: path.stem)
def test_a_log_read_apart_yields_the_same_steps_facts_and_counts(path: Path, forks: list[int]) -> None:
    there = log_parsers.parse(path)
    steps = list(there)
    assert len(forks) == 1
    with path.open("rb") as file:
        here = log_parsers.parse(file)
        assert [step.line_no for step in here] == [step.line_no for step in steps]
    assert len(forks) == 1
    assert len(there.facts) == len(here.facts)
    assert there.report == here.report


def test_rotated_parts_read_apart_keep_their_names_and_problems(tmp_path: Path, forks: list[int]) -> None:
    text = (LOGS / "vllm/0.24.0-h200-graph-1s.log").read_bytes()
    cut = text.index(b"\n", len(text) // 2) + 1
    (tmp_path / "s.log.1.gz").write_bytes(gzip.compress(text[:cut]))
    (tmp_path / "s.log").write_bytes(text[cut:] + b"\0" * 5)
    log = log_parsers.parse(tmp_path)
    steps = list(log)
    assert len(forks) == 1
    assert {Path(step.source).name for step in steps} == {"s.log.1.gz", "s.log"}
    assert len(steps) == len(list(log_parsers.parse(io.BytesIO(text))))
    assert log.report.lines == text.count(b"\n")
    assert [problem for problem in log.report.problems if "NUL bytes" in problem]


@pytest.mark.usefixtures("forks")
def test_a_part_that_cannot_be_read_is_an_error_in_either_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s.log").write_bytes(b"text\n")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "s.log")

    monkeypatch.setattr(reading, "open_blocks", refuse)
    with pytest.raises(PermissionError, match="Permission denied"):
        list(log_parsers.parse(tmp_path / "s.log"))


def test_short_files_and_streams_are_read_in_this_process(
    tmp_path: Path, forks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.log"
    path.write_bytes(b"x" * 100)
    monkeypatch.setattr(reading, "_WORTH_A_PROCESS", 101)
    list(log_parsers.parse(path, io.BytesIO(b"x" * 200)))
    assert forks == []
    monkeypatch.setattr(reading, "_WORTH_A_PROCESS", 100)
    list(log_parsers.parse(path))
    assert len(forks) == 1


def test_an_archive_counts_as_the_text_that_it_holds(
    tmp_path: Path, forks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "s.log.gz"
    packed.write_bytes(gzip.compress(bytes(range(256))))
    monkeypatch.setattr(reading, "_WORTH_A_PROCESS", packed.stat().st_size * reading._PACKED_TIMES)
    list(log_parsers.parse(packed))
    assert len(forks) == 1
    monkeypatch.setattr(reading, "_WORTH_A_PROCESS", packed.stat().st_size * reading._PACKED_TIMES + 1)
    list(log_parsers.parse(packed))
    assert len(forks) == 1


def test_nothing_is_forked_beside_other_threads_or_on_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart_module.threading, "active_count", lambda: 1)
    monkeypatch.setattr(apart_module, "_cores", lambda: 2)
    monkeypatch.setattr(apart_module.sys, "platform", "linux")
    assert can_fork()
    monkeypatch.setattr(apart_module.sys, "platform", "darwin")
    assert not can_fork(), "forking without exec is unsafe in Apple's frameworks"
    monkeypatch.setattr(apart_module.sys, "platform", "linux")
    monkeypatch.setattr(apart_module, "_cores", lambda: 1)
    assert not can_fork()
    monkeypatch.setattr(apart_module, "_cores", lambda: 2)
    monkeypatch.undo()
    ended = threading.Event()
    other = threading.Thread(target=ended.wait)
    other.start()
    assert not can_fork()
    ended.set()
    other.join()
    assert apart_module._cores() >= 1
