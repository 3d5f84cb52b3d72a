"""Encodings: whole files, files that change half-way, holes of NULs, and bytes that are nothing at all."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log_parsers.decode import Decoder

LINES = [
    "(APIServer pid=449) INFO 11-29 14:26:34 [perf.py:1532] Engine 000: MFU: 275.1 TF/s/GPU 416.1 GB/s/GPU\n",
    "(APIServer pid=449) INFO 11-29 14:23:47 [api_utils.py:339]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.24.0\r\n",
    "(APIServer pid=449) 大规模语言模型推理的性能取决于显存带宽与计算能力之间的平衡关系大规模语言模型推理🦙\n",
    "(APIServer pid=449) Производительность вывода больших языковых моделей зависит от пропускной способности памяти\n",
    "short\n",
]
TEXT = "".join(LINES)
BOMS = {"utf-8": codecs.BOM_UTF8, "utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}
PIECES = [
    *(b"\0", b"a", b"b\0", b"\0b", b"\0\0", b"\n", b"\n\0", b"\0\n", b"\xff", b"\xfe", b"\xd8", b"a\0b\0c\0d\0"),
    *(b"abcdefghijklmnopqrstuvwxyz" * 2, b"\x4e" * 48, b"\x4e\x80" * 24, *BOMS.values()),
]


def decode(data: bytes, cuts: list[int] | range = range(0)) -> tuple[bytes, set[str], int]:
    decoder, out, low = Decoder(), [], 0
    for high in [*cuts, len(data)]:
        out += [bytes(block) for block in decoder.feed(memoryview(data)[low:high])]
        low = high
    out += [bytes(block) for block in decoder.close()]
    return b"".join(out), set(decoder.encodings), decoder.nul_bytes


@pytest.mark.parametrize("bom", [True, False], ids=["with-bom", "without-bom"])
@pytest.mark.parametrize("encoding", BOMS)
def test_a_file_in_one_encoding(encoding: str, bom: bool) -> None:
    data = (BOMS[encoding] if bom else b"") + TEXT.encode(encoding)
    assert decode(data) == (TEXT.encode(), {encoding}, 0)
    assert decode(data, range(len(data))) == (TEXT.encode(), {encoding}, 0)


@pytest.mark.parametrize("bom", [True, False], ids=["with-bom", "without-bom"])
@pytest.mark.parametrize(
    ("first", "second"),
    [("utf-8", "utf-16-le"), ("utf-8", "utf-16-be"), ("utf-16-le", "utf-8"), ("utf-16-be", "utf-8")],
)
def test_a_file_that_changes_its_encoding_half_way(first: str, second: str, bom: bool) -> None:
    data = b"".join((BOMS[name] if bom else b"") + TEXT.encode(name) for name in (first, second))
    assert decode(data) == (TEXT.encode() * 2, {first, second}, 0)
    assert decode(data, range(0, len(data), 7)) == (TEXT.encode() * 2, {first, second}, 0)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("first", ["", "\n", "one\n", "three\n"], ids=["nothing", "a-newline", "even", "odd"])
def test_the_byte_order_shows_in_where_a_line_began_whatever_precedes_it(first: str, encoding: str) -> None:
    data = (first + LINES[0]).encode() + LINES[0].encode(encoding)
    assert decode(data)[:2] == ((first + LINES[0] * 2).encode(), {"utf-8", encoding})
    for cut in range(len(data) - len(LINES[0]) * 2 - 3, len(data) - len(LINES[0]) * 2 + 9):
        assert decode(data, [cut])[0] == (first + LINES[0] * 2).encode()


def test_short_lines_of_utf8_among_utf16_leave_the_rest_aligned() -> None:
    data = b"".join(LINES[0].encode("utf-16-le") * 3 + b"odd!\n" + LINES[0].encode("utf-16-le") for _ in range(3))
    text, encodings, _ = decode(data)
    assert text.count(LINES[0].encode()) == 12
    assert encodings == {"utf-8", "utf-16-le"}


def test_a_short_last_line_of_utf8_behind_utf16() -> None:
    assert decode(LINES[0].encode("utf-16-le") + b"Killed\n")[0] == LINES[0].encode() + b"Killed\n"


def test_utf16_text_that_ends_without_a_newline_stays_utf16() -> None:
    assert decode((LINES[0] + "中中").encode("utf-16-le"))[0] == (LINES[0] + "中中").encode()


def test_a_nul_or_two_in_a_prompt_do_not_turn_the_rest_into_utf16() -> None:
    data = b"prompt: 'a\0b\0c\0d\0e\0'\n" + TEXT.encode() * 3
    text = decode(data)[0]
    assert text.endswith(TEXT.encode() * 3)


@pytest.mark.parametrize("nuls", [1, 2, 3, 4096])
@pytest.mark.parametrize("encoding", BOMS)
def test_a_nul_tail_is_left_out_and_counted(encoding: str, nuls: int) -> None:
    text, encodings, left_out = decode(TEXT.encode(encoding) + b"\0" * nuls)
    assert (text, encodings) == (TEXT.encode(), {encoding})
    assert left_out >= nuls // 2


def test_a_hole_of_nuls_before_the_text_is_left_out() -> None:
    data = b"\0" * 5000 + TEXT.encode()
    assert decode(data) == (TEXT.encode(), {"utf-8"}, 5000)
    assert decode(data, range(0, len(data), 999)) == (TEXT.encode(), {"utf-8"}, 5000)
    assert decode(b"\0" * 9 + TEXT.encode("utf-16-le"))[0] == TEXT.encode()


@pytest.mark.parametrize("nuls", [1, 2, 3, 4096])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
def test_a_hole_inside_a_line_leaves_one_nul_as_its_mark_and_beside_a_lines_end_none(encoding: str, nuls: int) -> None:
    hole = "\0" * nuls
    given = f"{hole}one {hole}two{hole}\r\n{hole}three\n{hole}\n{LINES[0]}fo{hole}ur{hole}"
    data = BOMS[encoding] + given.encode(encoding)
    text = f"one \0two\r\nthree\n\n{LINES[0]}fo\0ur".encode()
    left_out = 7 * nuls
    assert decode(data) == (text, {encoding}, left_out)
    assert decode(data, range(0, len(data), 5)) == (text, {encoding}, left_out)


def test_many_holes_cost_linear_time() -> None:
    """Not timed: where every hole copied the rest of the block, this would take minutes."""
    assert decode(b"abc\0" * 500_000)[::2] == (b"abc" + b"\0abc" * 499_999, 500_000)


def test_invalid_utf8_passes_as_it_is_and_invalid_utf16_is_replaced() -> None:
    assert decode(b"ab\xff\xfecd\xc3\n" * 3)[0] == b"ab\xff\xfecd\xc3\n" * 3
    lone = codecs.BOM_UTF16_LE + b"\x00\xd8" + LINES[0].encode("utf-16-le")
    assert decode(lone)[0] == "\ufffd".encode() + LINES[0].encode()


def test_plain_utf8_is_passed_on_uncopied() -> None:
    block = memoryview(bytearray(TEXT.encode()))
    (passed,) = Decoder().feed(block)
    assert passed is block


@pytest.mark.parametrize("data", [b"", b"a", b"\xef\xbb", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf"])
def test_files_shorter_than_a_byte_order_mark(data: bytes) -> None:
    assert decode(data)[0] == (b"" if data in BOMS.values() else data)


def test_half_a_unit_at_the_end_is_replaced() -> None:
    assert decode("ab\n".encode("utf-16-le") + b"cde")[0] == b"ab\n" + b"\xe6\x91\xa3" + "\ufffd".encode()


@given(st.lists(st.sampled_from(PIECES), max_size=25).map(b"".join), st.lists(st.integers(0, 300), max_size=6))
@settings(max_examples=400, deadline=None)
def test_where_blocks_are_cut_makes_no_difference_and_nothing_raises(data: bytes, cuts: list[int]) -> None:
    whole = decode(data)
    assert decode(data, sorted(cuts)) == whole
    assert decode(data, range(len(data))) == whole


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_any_bytes_decode_without_an_error(data: bytes) -> None:
    assert decode(data, [len(data) // 2]) == decode(data)
