"""Which files are read in which order, and their text out of any archive, stream or encoding."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import sys
import threading
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

import log_parsers
from log_parsers import archives, sources
from log_parsers.sources import expand, open_blocks
from log_parsers.step import ScanReport

LINE = b"(APIServer pid=449) INFO 11-29 14:26:34 [perf.py:1532] Engine 000: MFU: 275.1 TF/s/GPU 416.1 GB/s/GPU\n"
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "zst": zstandard.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
}
rng = random.Random(5)
TEXT = b"".join(LINE.replace(b"275.1", b"%.3f" % rng.random()) for _ in range(30_000))  # 3 MB: several pieces each


def read(source: object, report: ScanReport | None = None, *, live: bool = False) -> bytes:
    return b"".join(map(bytes, open_blocks(source, report or ScanReport(), live=live)))  # type: ignore[arg-type]


def problems(path: Path) -> list[str]:
    report = ScanReport()
    read(path, report)
    return report.problems


# -- which files


@pytest.mark.parametrize(
    ("given", "ordered"),
    [
        (["s.log", "s.log.1", "s.log.2.gz"], [["s.log.2.gz", "s.log.1", "s.log"]]),
        (["s.log.10", "s.log.9", "s.log"], [["s.log.10", "s.log.9", "s.log"]]),
        (["s.log", "s.log-20260302", "s.log-20260301.zst"], [["s.log-20260301.zst", "s.log-20260302", "s.log"]]),
        (["s.log", "s.log.2026-03-01_13", "s.log.2026-03-01"], [["s.log.2026-03-01", "s.log.2026-03-01_13", "s.log"]]),
        (["0.log", "0.log.20260301-120000.gz"], [["0.log.20260301-120000.gz", "0.log"]]),
        (["rank1.log", "rank0.log", "rank1.log.1"], [["rank1.log.1", "rank1.log"], ["rank0.log"]]),
        (["s.log", "s.log.gz"], [["s.log"]]),
        (["s.log", "s.log"], [["s.log"]]),
        (["s.log.4242", "s.log"], [["s.log.4242"], ["s.log"]]),
    ],
    ids=["numbered", "ten-after-nine", "dated", "hourly", "kubernetes", "two-ranks", "half-packed", "twice", "a-pid"],
)  # fmt: skip
def test_parts_of_one_log_come_in_time_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], ordered: list[list[str]]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in given:
        Path(name).touch()
    assert expand(given) == ordered
    if len(ordered) == 1:
        assert expand(given[::-1]) == ordered


def test_a_glob_and_a_directory_mean_their_log_files(tmp_path: Path) -> None:
    for name in ("b.log", "b.log.1", "a10.log", "a9.log", "notes.txt", ".hidden.log"):
        (tmp_path / name).touch()
    (tmp_path / "sub.log").mkdir()
    wanted = [["a9.log"], ["a10.log"], ["b.log.1", "b.log"]]
    assert expand([str(tmp_path)]) == [[str(tmp_path / name) for name in log] for log in wanted]
    assert expand([str(tmp_path / "*.log*")]) == [[str(tmp_path / name) for name in log] for log in wanted]


def test_a_directory_without_anything_named_like_a_log_means_all_its_files(tmp_path: Path) -> None:
    (tmp_path / "stdout").touch()
    assert expand([str(tmp_path)]) == [[str(tmp_path / "stdout")]]


def test_a_file_whose_name_looks_like_a_glob_is_that_file(tmp_path: Path) -> None:
    path = tmp_path / "s[1].log"
    path.touch()
    assert expand([str(path)]) == [[str(path)]]


def test_a_folder_of_files_that_the_kernel_makes_up_holds_no_log() -> None:
    """``/proc/kmsg`` never ends, ``/proc/kcore`` is all memory."""
    with pytest.raises(IsADirectoryError):
        expand(["/proc"])


@pytest.mark.parametrize("other", ["link", "hard", "dots", "folder"])
def test_a_file_with_two_names_is_read_once_and_that_is_said(tmp_path: Path, other: str) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(LINE)
    twin = tmp_path / "twin.log"
    if other == "link":
        twin.symlink_to(log)
    elif other == "hard":
        twin.hardlink_to(log)
    elif other == "dots":
        (tmp_path / "sub").mkdir()
        twin = tmp_path / "sub" / ".." / "server.log"
    else:
        (tmp_path / "sub").symlink_to(".")
        twin = tmp_path / "sub" / "server.log"
    parsed = log_parsers.parse(log, twin, str(log))
    assert [step.source for step in parsed] == [str(log)]
    assert parsed.report.problems == [f"{twin}: is the same file as {log}; it was read once"]
    if other != "link":  # a link's name tells less of the log it belongs to
        assert expand([str(twin), str(log)]) == [[str(twin)]]


def test_a_link_to_todays_part_does_not_take_it_from_the_log_it_belongs_to(tmp_path: Path) -> None:
    for day in (28, 29):
        (tmp_path / f"server.log.2026-11-{day}").write_bytes(LINE)
    (tmp_path / "current.log").symlink_to("server.log.2026-11-29")
    said: list[str] = []
    assert expand([str(tmp_path)], said.append) == [[f"{tmp_path}/server.log.2026-11-{day}" for day in (28, 29)]]
    assert said == [f"{tmp_path}/current.log: is the same file as {tmp_path}/server.log.2026-11-29; it was read once"]
    assert expand([str(tmp_path / "current.log")]) == [[str(tmp_path / "current.log")]]


def test_two_links_to_a_file_that_is_not_given_are_one(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").touch()
    for name in ("a.log", "b.log"):
        (tmp_path / name).symlink_to("elsewhere")
    assert expand([str(tmp_path)]) == [[str(tmp_path / "a.log")]]


def test_standard_input_is_left_as_it_is() -> None:
    assert expand(["-"]) == [["-"]]


@pytest.mark.parametrize("name", ["missing.log", "missing*.log"])
def test_what_matches_nothing_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        expand([str(tmp_path / name)])
    assert caught.value.filename == str(tmp_path / name)
    assert caught.value.strerror


def test_an_empty_directory_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError) as caught:
        expand([str(tmp_path)])
    assert caught.value.filename == str(tmp_path)


# -- their text


def test_a_plain_file_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BLOCK", 1000)
    monkeypatch.setattr(sources, "_spare", [])
    path = tmp_path / "s.log"
    for size in (0, 1, 999, 1000, 1001, 100_000):
        path.write_bytes(TEXT[:size])
        assert read(path) == TEXT[:size]
        assert read(str(path), live=True) == TEXT[:size]


@pytest.mark.parametrize("kind", PACK)
def test_an_archive_is_told_by_its_first_bytes(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(PACK[kind](TEXT))
    report = ScanReport()
    assert read(path, report) == TEXT
    assert report.problems == []


@pytest.mark.parametrize("kind", PACK)
def test_several_members_and_padding_are_one_text(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(PACK[kind](LINE) + PACK[kind](b"") + PACK[kind](TEXT) + b"\0" * 8 + PACK[kind](LINE) + b"\0" * 512)
    assert read(path) == LINE + TEXT + LINE
    assert problems(path) == []


def test_a_zst_that_begins_with_a_skippable_frame(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(b"\x50\x2a\x4d\x18\x03\0\0\0abc" + zstandard.compress(TEXT))
    assert read(path) == TEXT


@pytest.mark.parametrize("kind", PACK)
def test_a_cut_archive_gives_what_could_be_read_and_says_so(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "server.log"
    packed = PACK[kind](TEXT)
    for keep in (0.3, 0.7, 1 - 3 / len(packed)):
        path.write_bytes(packed[: int(len(packed) * keep)])
        text = read(path)
        assert TEXT.startswith(text)
        assert len(text) > 0 or kind in ("bz2", "xz")  # whose first block alone is larger than the part kept
        (problem,) = problems(path)
        assert "cut off" in problem
        assert f"{len(text):,} bytes" in problem


@pytest.mark.parametrize("kind", PACK)
def test_a_damaged_archive_never_raises_and_says_so(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "server.log"
    packed = bytearray(PACK[kind](TEXT))
    for at in range(8, len(packed), len(packed) // 7):
        packed[at : at + 20] = b"\xff" * 20
    path.write_bytes(packed)
    (problem,) = problems(path)
    assert kind in problem
    assert any(word in problem for word in ("damaged", "cut off", "follows"))


@pytest.mark.parametrize("kind", PACK)
def test_what_follows_an_archive_is_left_out_and_said(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(PACK[kind](LINE) + b"plain text behind it\n")
    assert read(path) == LINE
    assert "follows the archive" in problems(path)[0]


@pytest.mark.parametrize(
    ("kind", "size", "limit"),
    [
        ("gz", 192 << 20, 32 << 20),
        ("zst", 192 << 20, 128 << 20),
        ("xz", 48 << 20, 32 << 20),
        ("bz2", 48 << 20, 32 << 20),
    ],
    ids=list(PACK),
)
def test_an_archive_bomb_stays_small_in_memory(tmp_path: Path, kind: str, size: int, limit: int) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(PACK[kind](b"\n" * size))
    report, total = ScanReport(), 0
    tracemalloc.start()
    for block in open_blocks(path, report):
        total += len(block)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == size
    assert peak < limit


@pytest.mark.parametrize("start", [b"\x1f", b"\x1f\x8b", b"\xfd7zX", b"B", b"BZ", b""])
def test_text_that_begins_like_an_archive_is_text(tmp_path: Path, start: bytes) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(start)
    assert read(path) == start
    path.write_bytes(start + LINE)
    assert read(path) == start + LINE


def test_gzip_without_isal_goes_through_zlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "isal", None)
    assert archives.kind_of(b"\x1f\x8b\x08").tools()[1] is zlib.error  # type: ignore[union-attr]
    path = tmp_path / "server.log.gz"
    path.write_bytes(gzip.compress(TEXT) + gzip.compress(LINE))
    assert read(path) == TEXT + LINE
    path.write_bytes(gzip.compress(TEXT)[:-100])
    assert "cut off" in problems(path)[0]


def test_utf16_inside_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "server.log.gz"
    path.write_bytes(gzip.compress(("\ufeff" + TEXT.decode()).encode("utf-16-le")))
    assert read(path) == TEXT


def test_a_change_of_encoding_and_nul_bytes_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(LINE + LINE.decode().encode("utf-16-le") + b"\0" * 10)
    changes, nuls = problems(path)
    assert str(path) in changes
    assert "utf-8, utf-16-le" in changes
    assert "NUL bytes were left out" in nuls


def test_a_stream_in_memory_and_one_without_a_name() -> None:
    assert read(io.BytesIO(TEXT)) == TEXT
    assert read(io.BytesIO(gzip.compress(TEXT)), live=True) == TEXT


def test_an_open_file_is_read_from_where_it_stands_and_left_open(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(LINE * 3)
    with path.open("rb") as file:
        file.readline()
        assert read(file) == LINE * 2
        assert not file.closed


@pytest.mark.parametrize("live", [True, False], ids=["live", "saved"])
def test_a_pipe_on_standard_input(monkeypatch: pytest.MonkeyPatch, live: bool) -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)  # as a parent process may have left it

    def write() -> None:
        with open(writing, "wb", buffering=0) as pipe:
            pipe.writelines(TEXT[low : low + 50_001] for low in range(0, len(TEXT), 50_001))

    writer = threading.Thread(target=write)
    with open(reading) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        writer.start()
        assert read("-", live=live) == TEXT
        writer.join()


def test_a_live_pipe_hands_on_what_has_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with open(reading) as stdin, open(writing, "wb", buffering=0) as pipe:
        monkeypatch.setattr(sys, "stdin", stdin)
        blocks = open_blocks("-", ScanReport(), live=True)
        for _ in range(3):
            pipe.write(LINE)
            assert bytes(next(blocks)) == LINE


def test_what_cannot_be_opened_raises_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_blocks(tmp_path / "missing.log", ScanReport())
    with pytest.raises(IsADirectoryError):
        open_blocks(tmp_path, ScanReport())


def test_an_error_while_an_archive_is_read_reaches_the_reader() -> None:
    class Broken(io.BytesIO):
        def readinto(self, buffer: object) -> int:
            if self.tell() > 500_000:
                raise OSError(5, "Input/output error")
            return super().readinto(memoryview(buffer)[:100_000])  # type: ignore[call-overload]

    with pytest.raises(OSError, match="Input/output"):
        read(Broken(gzip.compress(random.Random(1).randbytes(3 << 20))))


@pytest.mark.parametrize("kind", PACK)
def test_an_archive_that_arrives_byte_by_byte(kind: str) -> None:
    class Slow(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            return super().read1(1)

    assert read(Slow(PACK[kind](LINE) + PACK[kind](LINE) + b"\0" * 3), live=True) == LINE * 2


def test_an_error_while_reading_reaches_the_reader() -> None:
    class Broken(io.RawIOBase):
        def readinto(self, buffer: object) -> int:
            raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        read(Broken())


def test_a_reader_that_stops_early_stops_the_thread_that_unpacks(tmp_path: Path) -> None:
    path = tmp_path / "server.log.gz"
    path.write_bytes(gzip.compress(TEXT * 4))
    blocks = open_blocks(path, ScanReport())
    next(blocks)
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "read-ahead"]
    blocks.close()  # type: ignore[attr-defined]
    thread.join(5)
    assert not thread.is_alive()


def test_the_read_buffer_is_used_again_for_the_next_file_but_not_by_two_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "BLOCK", 1000)
    monkeypatch.setattr(sources, "_spare", [])
    path, other = tmp_path / "server.log", tmp_path / "other.log"
    path.write_bytes(TEXT[:5000])
    other.write_bytes(TEXT[5000:10000])
    pairs = zip(open_blocks(path, ScanReport()), open_blocks(other, ScanReport()), strict=True)
    assert b"".join(bytes(one) + bytes(two) for one, two in pairs) == b"".join(
        TEXT[low : low + 1000] + TEXT[low + 5000 : low + 6000] for low in range(0, 5000, 1000)
    )
    (buffer,) = sources._spare
    assert read(path) == TEXT[:5000]
    assert sources._spare[0] is buffer


# -- whole logs


def test_a_name_that_is_not_utf_8_is_shown_escaped_and_can_be_encoded(tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/s\xff\xc3\xa9.log.gz")
    Path(path).write_bytes(gzip.compress(LINE)[:-1])
    log = log_parsers.parse(path)
    (step,) = log
    shown = f"{tmp_path}/s\\xffé.log.gz"
    assert step.source == log.facts[0].source == shown
    assert log.report.problems[0].startswith(f"{shown}: ")
    assert log_parsers.LogStream("s\udcff").source == "s\\xff"


def test_rotated_parts_are_one_log_whose_runs_and_counts_go_on(tmp_path: Path) -> None:
    old, new = tmp_path / "s.log.1.gz", tmp_path / "s.log"
    old.write_bytes(gzip.compress(LINE))
    new.write_bytes(LINE * 2)
    log = log_parsers.parse(str(new), old)
    assert [(step.source, step.run, step.line_no) for step in log] == [
        (str(old), 0, 1),
        (str(new), 0, 1),
        (str(new), 0, 2),
    ]
    assert (log.report.lines, log.report.bytes_read, log.report.steps) == (3, 3 * len(LINE), 3)


def test_several_logs_are_counted_together(tmp_path: Path) -> None:
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_bytes(b"other\n" + LINE)
    log = log_parsers.parse(tmp_path / "*.log", io.BytesIO(LINE))
    assert [Path(step.source).name for step in log] == ["a.log", "b.log", "-"]
    assert (log.report.lines, log.report.steps) == (5, 3)
    assert len(log.facts) == 3


def test_lines_of_megabytes_are_reported_as_read_in_part_for_every_log(tmp_path: Path) -> None:
    long = b"echo " + b"x" * (2 << 20) + b" MFU: 9.9\n"
    (tmp_path / "a.log").write_bytes(long + LINE)
    log = log_parsers.parse(tmp_path / "a.log", io.BytesIO(long + long))
    assert [step.line_no for step in log] == [2]
    assert log.report.problems == [
        f"{tmp_path / 'a.log'}: 1 line of more than a megabyte was read in part",
        "standard input: 2 lines of more than a megabyte were read in part",
    ]


def test_where_no_more_threads_are_allowed_an_archive_is_unpacked_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    path = tmp_path / "server.log.gz"
    path.write_bytes(gzip.compress(b"one\ntwo\n"))
    monkeypatch.setattr(threading.Thread, "start", refused)
    assert b"".join(map(bytes, open_blocks(path, ScanReport()))) == b"one\ntwo\n"
