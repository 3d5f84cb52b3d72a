"""Any of the encodings that logs come in -> UTF-8 bytes, block by block.

PowerShell 5.1 writes UTF-16LE with ``>`` and ``Tee-Object`` and appends to files of another encoding without looking; a
crash leaves a tail of NUL bytes, and rotation by copy-and-truncate a hole of them. So the encoding is a property of
stretches of a file, not of the file. UTF-8 without NUL bytes, which is nearly everything, passes through uncopied.

NULs are left out, but what a hole inside a line swallowed is unknown (``30`` and ``00.0`` around it are not 3000.0):
one NUL stays there, by which the reader tells the line as torn.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

import stringzilla as sz

Block = bytes | bytearray | memoryview

TEAR = b"\0"
"""Stands, once, for NULs inside a line."""
_NULS = re.compile("\0+")
_LINE_ENDS = b"\r\n"
_LE, _BE = "utf-16-le", "utf-16-be"
_BOMS = ((codecs.BOM_UTF16_LE, _LE), (codecs.BOM_UTF16_BE, _BE))
_RUN = 24
"""So many UTF-16 units in a row without a NUL byte are looked at more closely: Chinese, or UTF-8 again?"""
_PIECE = 16 << 10
_LONG_RUN = re.compile(rb"[^\x00]{%d}" % _RUN)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_BEGINS_BOM = re.compile(rb"(?:\xff(?:\xfe.?)?|\xfe\xff?)\Z", re.DOTALL)


class Decoder:
    """Incremental: ``feed`` blocks, then ``close``. Invalid UTF-8 passes as it is, invalid UTF-16 becomes U+FFFD.

    Never raises on content, and where the blocks are cut makes no difference.
    """

    def __init__(self) -> None:
        self.encodings: list[str] = []
        """The encodings met, each once, in order of appearance."""
        self.nul_bytes = 0
        """NUL bytes met."""
        self._carry = b""  # what cannot be judged before more arrives
        self._at_start = True
        self._utf16 = ""  # name of the encoding, while in UTF-16
        self._last_utf16 = ""
        self._decoder = codecs.getincrementaldecoder(_LE)("replace")
        self._plain_bytes = 0
        self._in_nuls = False  # in a run of NUL bytes to be left out
        self._hole = False  # NULs were left out since the last text
        self._mid_line = False  # that text ended inside a line
        self._in_line = 0  # bytes of the current line so far, while in UTF-8: tells the byte order of UTF-16 to come

    @property
    def problems(self) -> list[str]:
        """What was odd about the text so far, in words that follow its name."""
        found = []
        if len(self.encodings) > 1:
            found.append(f"changes its encoding ({', '.join(self.encodings)}); all of it was read")
        if self.nul_bytes:
            found.append(f"{self.nul_bytes:,} NUL bytes were left out (a crash or a truncated log leaves them)")
        return found

    def feed(self, block: Block) -> Iterator[Block]:
        """The text of the next block; what is yielded may be the block itself."""
        if self._carry:
            block = self._carry + bytes(block)
            self._carry = b""
        if self._at_start:
            if len(block) < 3:
                self._carry = bytes(block)
                return
            block = self._start(block)
        if self._utf16 or sz.find(block, b"\0") >= 0 or _BEGINS_BOM.search(block[-3:]):
            yield from self._pieces(bytes(block))
        elif block:
            yield self._plain(block)

    def close(self) -> Iterator[Block]:
        """What was held back."""
        block, self._carry = self._carry, b""
        if self._at_start:
            block = bytes(self._start(block))
        yield from self._stretches(block, final=True)

    def _start(self, block: Block) -> Block:
        self._at_start = False
        if bytes(block[:3]) == codecs.BOM_UTF8:
            return block[3:]
        for bom, name in _BOMS:
            if bytes(block[:2]) == bom:
                self._enter_utf16(name)
                return block[2:]
        return block

    def _enter_utf16(self, name: str) -> None:
        self._utf16 = self._last_utf16 = name
        self._decoder = codecs.getincrementaldecoder(name)("replace")
        self._met(name)

    def _met(self, encoding: str) -> None:
        if encoding not in self.encodings:
            self.encodings.append(encoding)

    def _pieces(self, block: bytes) -> Iterator[Block]:
        """A small piece at a time: at every change and every hole, the rest of what is at hand is copied."""
        for low in range(0, len(block), _PIECE):
            data, self._carry = self._carry + block[low : low + _PIECE], b""
            if text := b"".join(self._stretches(data, final=False)):
                yield text

    def _stretches(self, data: bytes, final: bool) -> Iterator[Block]:
        while data:
            stretch = self._utf16_stretch if self._utf16 else self._utf8_stretch
            text, data = stretch(data, final)
            if text:
                yield text

    def _plain(self, text: Block) -> Block:
        """Note what passes as UTF-8."""
        newline = sz.rfind(text, b"\n")
        self._in_line = len(text) - newline - 1 if newline >= 0 else self._in_line + len(text)
        self._in_nuls = False
        self._plain_bytes += len(text)
        if self._plain_bytes > 1:  # a single one is the first character of UTF-16LE without a byte order mark
            self._met("utf-8")
        return self._behind_hole(text)

    def _behind_hole(self, text: Block) -> Block:
        """The text, marked if the NULs in front of it tore a line; beside a line's end they are harmless."""
        torn = self._hole and self._mid_line and text[0] not in _LINE_ENDS
        self._hole, self._mid_line = False, text[-1] not in _LINE_ENDS
        return TEAR + bytes(text) if torn else text

    def _utf8_stretch(self, data: bytes, final: bool) -> tuple[Block, bytes]:
        """UTF-8 up to where UTF-16 or a run of NULs begins; and the rest."""
        if self._in_nuls:
            rest = data.lstrip(b"\0")
            self.nul_bytes += len(data) - len(rest)
            self._in_nuls, self._hole = not rest, True
            return b"", rest
        nul = data.find(0)
        if nul < 0:
            hold = len(data)
            if not final and (begun := _BEGINS_BOM.search(data, max(0, len(data) - 3))):
                hold = begun.start()
            self._carry = data[hold:]
            return (self._plain(data[:hold]) if hold else b""), b""
        for (bom, name), at in zip(_BOMS, (nul - 3, nul - 2), strict=True):
            if at >= 0 and data.startswith(bom, at):
                text = self._plain(data[:at]) if at else b""
                self._enter_utf16(name)
                return text, data[at + 2 :]
        pairs = data[nul : nul + 5]
        if len(pairs) < 5 and not final and not any(pairs[::2]) and all(pairs[1::2]):
            begin = max(0, nul - 3)
            self._carry = data[begin:]
            return self._plain(data[:begin]) if begin else b"", b""
        if len(pairs) > 2 and not any(pairs[::2]) and all(pairs[1::2]):
            return self._byte_order(data, nul)
        text = self._plain(data[:nul]) if nul else b""
        self._in_nuls, self._in_line = True, 0
        return text, data[nul:]

    def _byte_order(self, data: bytes, nul: int) -> tuple[Block, bytes]:
        """UTF-16 without a byte order mark: its first NUL is at ``nul``, and it began with the line."""
        text = self._plain(data[:nul]) if nul else b""
        self._enter_utf16(self._last_utf16 or (_LE if self._in_line % 2 else _BE))
        if self._utf16 == _BE:
            return text, data[nul:]
        # Little endian: the ASCII character in front of the NUL belongs to it; passed as UTF-8 it is already decoded.
        return text, data[nul + 1 :]

    def _utf16_stretch(self, data: bytes, final: bool) -> tuple[Block, bytes]:
        """UTF-16 up to where UTF-8 begins again; and the rest."""
        whole = len(data) & ~1
        high = data[1:whole:2] if self._utf16 == _LE else data[:whole:2]
        judged, runs = 0, _LONG_RUN.finditer(high) if len(high) - high.count(0) >= _RUN else ()
        for run in runs:
            if _not_utf16(data[2 * run.start() : 2 * run.end()]):
                return self._leave_utf16(data, 2 * run.start())
            judged = run.end()
        unjudged = max(judged, high.rfind(0) + 1)
        if final:
            rest = data[2 * unjudged :]
            if rest == b"\0":  # half of a last NUL
                data, self.nul_bytes = data[:-1], self.nul_bytes + 1
            return self._leave_utf16(data, 2 * unjudged if rest.endswith(b"\n") and _not_utf16(rest) else len(data))
        self._carry = data[2 * unjudged :]
        return self._decoded(data[: 2 * unjudged]), b""

    def _leave_utf16(self, data: bytes, end: int) -> tuple[Block, bytes]:
        text = self._decoded(data[:end], final=True)
        self._utf16, self._in_line = "", 0
        return text, data[end:].removeprefix(codecs.BOM_UTF8)

    def _decoded(self, data: bytes, final: bool = False) -> Block:
        text = self._decoder.decode(data, final).replace("\ufeff", "")
        inner = text.strip("\0")
        self._hole = self._hole or text.startswith("\0")
        if "\0" in inner:
            inner = _NULS.sub(_mark, inner)
        self.nul_bytes += text.count("\0")
        if not inner:
            return b""
        found = self._behind_hole(inner.encode("utf-8", "replace"))
        self._hole = text.endswith("\0")
        return found


def _mark(nuls: re.Match[str]) -> str:
    """What stands for NULs between two characters."""
    ends = nuls.string[nuls.start() - 1] in "\r\n" or nuls.string[nuls.end()] in "\r\n"
    return "" if ends else TEAR.decode()


def _not_utf16(data: bytes) -> bool:
    """Whether a run of units without a NUL in their high byte is UTF-8, or UTF-16 that is off by one byte."""
    if 4 * data.count(0) >= len(data):
        return True
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return not _CONTROL.search(data)
