"""gz, zst, xz and bz2, unpacked block by block in bounded memory, as far as they can be read.

Archives are told by their first bytes, not by their names. Members behind one another are one text. A cut or damaged
archive gives what can still be read, and a sentence for the report.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple, Protocol

_OUT = 1 << 20
"""Bytes unpacked at once: a bomb grows no faster than it is read. Damage costs at most as much of what precedes it."""
_XZ_MEMORY = 128 << 20
"""``xz -9`` needs 65 MiB; a file that asks for more than this is refused."""


class _Member(Protocol):
    """One compressed member, with the interface of ``lzma.LZMADecompressor``."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...


class _Zlib:
    """Without isal (it has no wheels for some machines) gzip goes through zlib, several times slower."""

    def __init__(self, zlib: Any) -> None:
        self._wrapped = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return bool(self._wrapped.eof)

    @property
    def needs_input(self) -> bool:
        return not self._wrapped.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return bytes(self._wrapped.unused_data)

    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes:
        return bytes(self._wrapped.decompress(self._wrapped.unconsumed_tail + data, max_length))


class _Zstd:
    """zstandard's object takes no limit: 4 bytes can become 128 KiB, so ``Archive.piece`` is what bounds the output."""

    needs_input = True

    def __init__(self, zstandard: Any) -> None:
        self._wrapped = zstandard.ZstdDecompressor().decompressobj()

    @property
    def eof(self) -> bool:
        return bool(self._wrapped.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._wrapped.unused_data)

    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes:
        return bytes(self._wrapped.decompress(data))


_Tools = tuple[Callable[[], _Member], type[Exception]]
"""What makes a decompressor for one member, and what that raises on damage."""


def _gz() -> _Tools:
    try:
        from isal import igzip_lib
    except ImportError:
        import zlib

        return lambda: _Zlib(zlib), zlib.error
    damage: Any = igzip_lib.IsalError
    return lambda: igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP), damage


def _zst() -> _Tools:
    import zstandard

    return lambda: _Zstd(zstandard), zstandard.ZstdError


def _xz() -> _Tools:
    import lzma

    return lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY), lzma.LZMAError


def _bz2() -> _Tools:
    import bz2

    return bz2.BZ2Decompressor, OSError


class Archive(NamedTuple):
    """A kind of archive."""

    name: str
    magic: bytes
    tools: Callable[[], _Tools]
    piece: int = 256 << 10
    """Compressed bytes handed over at once."""


ARCHIVES = (
    Archive("gz", b"\x1f\x8b\x08", _gz),
    Archive("zst", b"\x28\xb5\x2f\xfd", _zst, piece=1 << 10),
    Archive("zst", b"\x50\x2a\x4d\x18", _zst, piece=1 << 10),  # begins with a skippable frame
    Archive("xz", b"\xfd7zXZ\x00", _xz),
    Archive("bz2", b"BZh", _bz2),
)


def kind_of(start: bytes) -> Archive | None:
    """The archive that begins so, if it is one."""
    return next((archive for archive in ARCHIVES if start.startswith(archive.magic)), None)


def may_be_archive(start: bytes) -> bool:
    """Whether more bytes could make this the beginning of an archive."""
    return any(len(start) < len(archive.magic) and archive.magic.startswith(start) for archive in ARCHIVES)


def unpack(archive: Archive, packed: Iterator[bytes], problem: Callable[[str], None]) -> Generator[bytes, None, None]:
    """The text in ``packed``; ``problem`` is told in words what could not be read."""
    gathered: list[bytes] = []
    size = 0
    for piece in _unpack(archive, _pieces(packed, archive.piece), problem):
        gathered.append(piece)
        size += len(piece)
        if size >= _OUT:
            yield b"".join(gathered)
            gathered, size = [], 0
    if gathered:
        yield b"".join(gathered)


def _pieces(packed: Iterator[bytes], size: int) -> Iterator[bytes]:
    for block in packed:
        for low in range(0, len(block), size):
            yield block[low : low + size]


def _unpack(archive: Archive, packed: Iterator[bytes], problem: Callable[[str], None]) -> Iterator[bytes]:
    new_member, damage = archive.tools()
    rest, total = next(packed, b""), 0
    while rest:
        member = new_member()
        data = rest
        while not member.eof:
            if not data and member.needs_input:
                data = next(packed, b"")
                if not data:
                    problem(f"the {archive.name} archive is cut off; it was read up to there ({total:,} bytes of text)")
                    return
            try:
                text = member.decompress(data, _OUT)
            except damage as error:
                problem(
                    f"the {archive.name} archive is damaged ({error}); {total:,} bytes of text before that were read"
                )
                return
            data = b""
            total += len(text)
            yield text
        rest = _next_member(member.unused_data, packed, archive, problem)


def _next_member(rest: bytes, packed: Iterator[bytes], archive: Archive, problem: Callable[[str], None]) -> bytes:
    """What follows a member, from the next member on; empty at the end. Zero bytes between them are padding."""
    rest = rest.lstrip(b"\0")
    while len(rest) < 6 and (more := next(packed, b"")):
        rest = (rest + more).lstrip(b"\0")
    if rest and kind_of(rest) is None:
        problem(f"something that is not {archive.name} follows the archive and was left out")
        return b""
    return rest
