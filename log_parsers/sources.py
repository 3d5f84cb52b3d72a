"""Paths, globs, directories, standard input, archives -> the files to read in time order, and their text in blocks."""

from __future__ import annotations

import errno
import glob
import os
import re
import select
import stat
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from itertools import chain
from queue import SimpleQueue
from typing import Any, BinaryIO

from log_parsers.archives import kind_of, may_be_archive, unpack
from log_parsers.decode import Block, Decoder
from log_parsers.step import ScanReport

BLOCK = 1 << 20
"""Bytes read at once: long enough that a block costs nothing to hand on, short enough that it stays in the cache."""
_AHEAD = 3
"""Blocks unpacked but not yet asked for, and the one in use."""
_ARCHIVE = re.compile(r"\.(?:gz|zst|xz|bz2)\Z")
_NUMBERED = re.compile(r"(?P<stem>.+)\.(?P<number>\d{1,3})\Z")
_DATED = re.compile(r"(?P<stem>.+?)[.\-_](?P<date>(?:19|20)\d\d-?\d\d-?\d\d(?:[T_\-.:]?\d\d){0,6})\Z")


def displayed(name: str) -> str:
    """A file's name as it can be printed and encoded: bytes of it that are not UTF-8 as ``\\xff``."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def expand(paths: Iterable[str], problem: Callable[[str], object] = lambda sentence: None) -> list[list[str]]:
    """Logs to read, each as the files it consists of in time order; no file comes twice.

    Of a file with several names (a symbolic link ``current.log``, a hard link, a path with ``..``) the first counts, a
    link's only where no other is given, and ``problem`` is told.

    ``server.log.2.gz`` comes before ``server.log.1`` before ``server.log``, wherever the shell put them. Globs are
    opened out. A directory stands for its log files (all its files if none is named like a log, but none that the
    kernel makes up, as in ``/proc``: reading those may never end), not for its subdirectories. ``-`` is standard
    input. Raises FileNotFoundError for what matches nothing, IsADirectoryError for a directory without files.
    """
    logs: dict[str, dict[str, None]] = {}
    names = [name for path in paths for name in _matches(path)]
    for name in _without_twins(list(dict.fromkeys(names)), problem):
        logs.setdefault(_rotation(name)[0], {})[name] = None
    return [_parts(list(parts)) for parts in logs.values()]


def _without_twins(names: list[str], problem: Callable[[str], object]) -> Iterator[str]:
    """Every file by one name, told by device and inode."""
    chosen: dict[object, str] = {}
    identities = [_identity(name) for name in names]
    for name, identity in zip(names, identities, strict=True):
        if identity not in chosen or (os.path.islink(chosen[identity]) and not os.path.islink(name)):
            chosen[identity] = name
    for name, identity in zip(names, identities, strict=True):
        if chosen[identity] == name:
            yield name
        else:
            problem(f"{displayed(name)}: is the same file as {displayed(chosen[identity])}; it was read once")


def _identity(name: str) -> object:
    """Equal for two names of one regular file; whatever else bears a name, each name is one of its own."""
    try:
        found = os.stat(name)
    except OSError:  # ``-``, or gone since
        return name
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else name


def _parts(names: list[str]) -> list[str]:
    """Files of one log by time, without archives that stand beside the very file they were made from."""
    known = set(names)
    kept = (name for name in names if not (_ARCHIVE.search(name) and _ARCHIVE.sub("", name) in known))
    return sorted(kept, key=_rotation)


def _matches(path: str) -> list[str]:
    if path == "-":
        return [path]
    if os.path.isdir(path):
        return _log_files(path)
    if os.path.exists(path):
        return [path]
    found = sorted((name for name in glob.glob(path, recursive=True) if not os.path.isdir(name)), key=_natural)
    if not found:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return found


def _log_files(folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        files = [entry for entry in entries if entry.is_file() and not entry.name.startswith(".")]
    logs = [entry for entry in files if ".log" in entry.name or entry.name.endswith(".out")]
    if not logs:
        made_up = os.statvfs(folder).f_blocks == 0  # a file system that stores nothing
        logs = [entry for entry in files if not made_up or entry.stat().st_blocks]
    if not logs:
        raise IsADirectoryError(errno.EISDIR, "this directory holds no log file", folder)
    return [entry.path for entry in sorted(logs, key=lambda entry: _natural(entry.name))]


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort key that orders numbers inside names by value."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]{1,18})", name)]


def _rotation(name: str) -> tuple[str, int, str, int]:
    """The log that a file is a part of, and what sorts its parts by time: dated, then numbered, then the current."""
    plain = _ARCHIVE.sub("", name)
    if match := _NUMBERED.match(plain):
        return match["stem"], 1, "", -int(match["number"])
    if match := _DATED.match(plain):
        return match["stem"], 0, re.sub(r"[^0-9]", "", match["date"]), 0
    return plain, 2, "", 0


def open_blocks(
    source: str | os.PathLike[str] | BinaryIO, report: ScanReport, *, live: bool = False
) -> Iterator[Block]:
    """The text of a file, an archive or a stream as UTF-8 bytes in blocks; ``-`` is standard input.

    A block is valid until the next is asked for. What was wrong with the input (a cut or damaged archive, bytes left
    out) is added to ``report.problems`` in sentences; content never raises. With ``live`` every piece is passed on as
    soon as it arrives. Raises OSError at once for what cannot be opened, and while iterating for what cannot be read.
    """
    if source == "-":
        # Its raw file where it has one: on a pipe that somebody made non-blocking, a buffered one reports the end.
        file, name, ours = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer), "standard input", False
    elif isinstance(source, (str, os.PathLike)):
        file, name, ours = open(source, "rb", buffering=0), displayed(os.fspath(source)), True  # noqa: SIM115 - _read does
    else:
        file, name, ours = source, str(getattr(source, "name", "the input")), False

    def problem(text: str) -> None:
        report.problems.append(f"{name}: {text}")

    return _decoded(_unpacked(_read_live(file) if live else _read(file, ours), live, problem), problem)


_Blocks = Generator[Block, None, None]
_spare: list[bytearray] = []
"""A read buffer that is not in use: a hundred rotated files need not touch fresh memory a hundred times."""


def _read(file: Any, ours: bool) -> _Blocks:
    """Full blocks, all in the same buffer."""
    buffer = _spare.pop() if _spare else bytearray(BLOCK)
    try:
        view = memoryview(buffer)
        while size := _fill(file, view):
            yield view[:size]
    finally:
        if not _spare:
            _spare.append(buffer)
        if ours:
            file.close()


def _fill(file: Any, buffer: memoryview) -> int:
    """Read until the buffer is full or the file ends; the bytes read."""
    size = 0
    while size < len(buffer):
        got = file.readinto(buffer[size:])
        if got is None:  # a pipe that somebody made non-blocking
            select.select([file], [], [])
        elif not got:
            break
        else:
            size += got
    return size


def _read_live(file: Any) -> _Blocks:
    """Whatever arrives, as it arrives."""
    read = getattr(file, "read1", file.read)
    while (block := read(BLOCK)) != b"":
        if block is None:
            select.select([file], [], [])
        else:
            yield block


def _unpacked(raw: _Blocks, live: bool, problem: Callable[[str], None]) -> _Blocks:
    start: Block = b""
    for block in raw:
        start = bytes(start) + bytes(block) if start else block
        if not may_be_archive(bytes(start[:6])):
            break
    archive = kind_of(bytes(start[:6]))
    if archive is not None:
        text = unpack(archive, map(bytes, chain([start], raw)), problem)
        yield from text if live else _ahead(text)
        return
    if start:
        yield start
    yield from raw


def _ahead(blocks: Generator[bytes, None, None]) -> _Blocks:
    """The same blocks, unpacked in a thread while others are searched: that does not hold the interpreter's lock."""
    ready: SimpleQueue[Block | BaseException | None] = SimpleQueue()
    room: SimpleQueue[bool] = SimpleQueue()

    def make() -> None:
        try:
            while room.get():
                ready.put(next(blocks, None))
        except BaseException as error:  # whatever it is, it belongs to the one who asks for the next block
            ready.put(error)
        finally:
            blocks.close()

    for _ in range(_AHEAD - 1):
        room.put(True)
    try:
        threading.Thread(target=make, name="read-ahead", daemon=True).start()
    except RuntimeError:  # no more threads allowed
        yield from blocks
        return
    try:
        while (block := ready.get()) is not None:
            if isinstance(block, BaseException):
                raise block
            yield block
            room.put(True)
    finally:
        room.put(False)


def _decoded(blocks: _Blocks, problem: Callable[[str], None]) -> Iterator[Block]:
    decoder = Decoder()
    with closing(blocks):
        for block in blocks:
            yield from decoder.feed(block)
    yield from decoder.close()
    for sentence in decoder.problems:
        problem(sentence)
