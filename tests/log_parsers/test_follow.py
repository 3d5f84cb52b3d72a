"""Following a file by name, with real files and without waiting."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable
from io import FileIO
from pathlib import Path

import pytest

from log_parsers.follow import BLOCK, Follower, follow


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


def append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


def polled(follower: Follower) -> bytes:
    """Everything new, with enough polls to notice a rotation."""
    return b"".join(follower.poll() for _ in range(4))


def test_what_is_there_and_what_is_appended(log: Path) -> None:
    log.write_bytes(b"one\n")
    follower = Follower(log)
    assert polled(follower) == b"one\n"
    assert polled(follower) == b""
    append(log, b"two\nthr")
    assert polled(follower) == b"two\nthr"
    append(log, b"ee\n")
    assert polled(follower) == b"ee\n"
    assert follower.report.problems == []


def test_a_file_that_is_created_later(log: Path) -> None:
    follower = Follower(log)
    assert polled(follower) == b""
    assert follower.close() == b""
    log.write_bytes(b"late\n")
    assert polled(follower) == b"late\n"


def test_rotation_by_renaming_reads_the_old_file_to_its_end(log: Path) -> None:
    log.write_bytes(b"one\n")
    follower = Follower(log)
    assert polled(follower) == b"one\n"
    append(log, b"last words\n")
    log.rename(log.with_suffix(".log.1"))
    log.write_bytes(b"new file\n")
    assert polled(follower) == b"last words\nnew file\n"
    assert follower.report.problems == []


def test_a_writer_that_keeps_the_renamed_file_is_still_read(log: Path) -> None:
    log.write_bytes(b"one\n")
    follower = Follower(log)
    polled(follower)
    renamed = log.rename(log.with_suffix(".log.1"))
    append(renamed, b"not reopened yet\n")
    assert polled(follower) == b"not reopened yet\n"


def test_a_line_cut_by_rotation_is_not_glued_to_the_next_file(log: Path) -> None:
    log.write_bytes(b"MFU: 13")
    follower = Follower(log)
    polled(follower)
    log.unlink()
    assert polled(follower) == b""
    log.touch()
    assert polled(follower) == b"\n"
    log.unlink()
    log.write_bytes(b"1.0 G\n")
    assert polled(follower) == b"1.0 G\n"


def test_truncation_begins_anew_and_is_reported(log: Path) -> None:
    log.write_bytes(b"one\ntwo\n")
    follower = Follower(log)
    polled(follower)
    log.write_bytes(b"new\n")
    assert polled(follower) == b"new\n"
    assert len(follower.report.problems) == 1
    assert "truncated" in follower.report.problems[0]


def test_truncation_is_seen_even_if_the_file_has_outgrown_the_old_one(log: Path) -> None:
    log.write_bytes(b"one\n" * 50)
    follower = Follower(log)
    polled(follower)
    log.write_bytes(b"two\n" * 100)
    assert polled(follower) == b"two\n" * 100
    assert "truncated" in follower.report.problems[0]


def test_the_same_file_seen_again_is_not_read_again(log: Path) -> None:
    log.write_bytes(b"one\n")
    follower = Follower(log)
    polled(follower)
    os.utime(log)
    assert polled(follower) == b""


def test_a_long_file_comes_in_blocks(log: Path) -> None:
    log.write_bytes(b"x" * (2 * BLOCK + 5))
    assert list(map(len, (Follower(log).poll(), polled(Follower(log))))) == [BLOCK, 2 * BLOCK + 5]


def test_each_file_has_its_own_encoding(log: Path) -> None:
    log.write_bytes("\ufeffone\n".encode("utf-16-le"))
    follower = Follower(log)
    assert polled(follower) == b"one\n"
    log.unlink()
    log.write_bytes(b"two\n")
    assert polled(follower) == b"two\n"


def test_closing_gives_what_was_held_back(log: Path) -> None:
    log.write_bytes(b"ab")
    follower = Follower(log)
    assert polled(follower) == b""
    assert follower.close() == b"ab"


Trouble = Callable[[Path], None]


def directory(log: Path) -> None:
    log.mkdir()


def fifo(log: Path) -> None:
    os.mkfifo(log)


def loop(log: Path) -> None:
    log.symlink_to(log.name)


def nothing(log: Path) -> None:
    pass


@pytest.mark.parametrize("trouble", [directory, fifo, loop, nothing])
@pytest.mark.parametrize("before", [b"", b"one\n"], ids=["from-the-start", "later"])
def test_what_takes_a_files_name_is_waited_out_and_said_once(log: Path, trouble: Trouble, before: bytes) -> None:
    """A FIFO is not opened: that would wait for a writer, and take its log from it."""
    follower = Follower(log)
    if before:
        log.write_bytes(before)
        assert polled(follower) == before
        log.unlink()
    trouble(log)
    assert polled(follower) == b""
    assert len(follower.report.problems) == (trouble is not nothing)
    if os.path.lexists(log):
        log.rmdir() if trouble is directory else log.unlink()
    log.write_bytes(b"again\n")
    assert polled(follower) == b"again\n"
    assert len(follower.report.problems) == (trouble is not nothing)


def test_a_folder_of_the_path_may_become_a_file(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "server.log"
    log.parent.mkdir()
    log.write_bytes(b"one\n")
    follower = Follower(log)
    assert polled(follower) == b"one\n"
    log.parent.rename(tmp_path / "moved")
    log.parent.touch()
    append(tmp_path / "moved" / "server.log", b"two\n")
    assert polled(follower) == b"two\n"
    (problem,) = follower.report.problems
    assert problem == f"{log}: cannot be read at the moment (Not a directory); waiting for it"


class Failing(FileIO):
    """A file whose reads fail while ``broken``."""

    broken = True

    def read(self, size: int | None = -1, /) -> bytes:
        if Failing.broken:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return super().read(size) or b""


def test_after_a_fault_the_same_file_goes_on_where_it_ended_and_another_begins(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(path: str, *_: object, **__: object) -> Failing:
        return Failing(path)

    monkeypatch.setattr("builtins.open", opened)
    log.write_bytes(b"one\ntw")
    follower = Follower(log)
    Failing.broken = False
    assert polled(follower) == b"one\ntw"
    Failing.broken = True
    assert polled(follower) == b""
    assert [problem.partition(": ")[2] for problem in follower.report.problems] == [
        "cannot be read at the moment (Stale file handle); waiting for it"
    ]
    Failing.broken = False
    with log.open("ab") as file:
        file.write(b"o\nthr")
    assert polled(follower) == b"o\nthr"
    Failing.broken = True
    assert polled(follower) == b""
    Failing.broken = False
    log.rename(log.with_suffix(".1"))
    log.write_bytes(b"new\n")
    assert polled(follower) == b"\nnew\n"
    assert len(follower.report.problems) == 1
    assert follower.close() == b""


def test_a_file_that_is_truncated_for_ever_is_one_problem_with_a_count(log: Path) -> None:
    log.write_bytes(b"0\n")
    follower = Follower(log)
    polled(follower)
    for number in range(1, 1501):
        log.write_bytes(b"%d\n" % number)
        polled(follower)
    assert follower.report.problems == [
        f"{log}: was truncated 1,500 times while it was followed; reading began anew each time"
    ]


def test_a_file_whose_size_the_kernel_does_not_tell_is_not_truncated() -> None:
    follower = Follower("/proc/version")
    assert polled(follower) == Path("/proc/version").read_bytes()
    assert follower.report.problems == []


def test_a_file_that_may_not_be_read_is_waited_for(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log.write_bytes(b"one\n")
    follower = Follower(log)
    polled(follower)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(log))

    log.unlink()
    log.write_bytes(b"two\n")
    with monkeypatch.context() as patch:
        patch.setattr("builtins.open", refuse)
        assert polled(follower) == b""
        assert polled(Follower(log)) == b""
    assert follower.report.problems == [f"{log}: cannot be read at the moment (Permission denied); waiting for it"]
    assert polled(follower) == b"two\n"


def test_following_waits_only_when_there_is_nothing_new(log: Path) -> None:
    log.write_bytes(b"one\n")
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        append(log, b"more\n")

    blocks = list(itertools.islice(follow(Follower(log), poll_s=0.5, sleep=sleep), 4))
    assert blocks == [b"one\n", b"", b"more\n", b""]
    assert waits == [0.5]


def test_a_name_that_is_not_utf_8_is_shown_escaped(tmp_path: Path) -> None:
    log = Path(os.fsdecode(os.fsencode(tmp_path) + b"/s\xff.log"))
    log.write_bytes(b"one\ntwo\n")
    follower = Follower(log)
    assert polled(follower) == b"one\ntwo\n"
    log.write_bytes(b"new\n")
    assert polled(follower) == b"new\n"
    assert [problem.partition(":")[0] for problem in follower.report.problems] == [f"{tmp_path}/s\\xff.log"]
