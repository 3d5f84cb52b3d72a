"""Where results go: whole files, pipes and devices in place, and honest failures."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from roofline_probe.errors import UsageError
from roofline_probe.report import files


def test_regular_file_is_replaced_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    target.write_bytes(b"old")
    target.chmod(0o640)
    files.write(str(target), [b"new", b"er"])
    assert target.read_bytes() == b"newer"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [target]


def test_new_file_gets_the_usual_mode(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        files.write(str(tmp_path / "new"), [b"x"])
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


def test_a_failure_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    target.write_bytes(b"old")

    def pieces():  # type: ignore[no-untyped-def]
        yield b"half"
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError):
        files.write(str(target), pieces())
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_fifo_is_written_in_place(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(fifo.read_bytes()))
    reader.start()
    files.write(str(fifo), [b"through"])
    reader.join(timeout=10)
    assert received == [b"through"]
    assert stat.S_ISFIFO(fifo.stat().st_mode)


def test_a_process_substitution_is_written_in_place() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as received:
        files.write(f"/dev/fd/{writing}", [b"through"])
        os.close(writing)
        assert received.read() == b"through"


def test_symbolic_link_stays_a_link_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    files.write(str(tmp_path / "link"), [b"new"])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


@pytest.mark.parametrize(
    ("target", "reason"),
    [("missing-folder/x.json", "No such file or directory"), ("/dev/full", "No space left on device")],
)
def test_what_cannot_be_written_is_one_sentence(tmp_path: Path, target: str, reason: str) -> None:
    path = target if target.startswith("/") else str(tmp_path / target)
    with pytest.raises(UsageError, match=reason):
        files.write(path, [b"x"])
