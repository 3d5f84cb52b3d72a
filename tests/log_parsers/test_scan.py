"""The literal prefilter, held against a splitter too simple to be wrong."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log_parsers import scan
from log_parsers.scan import Local, Scanned, Scanner

NEEDLES = (b"MFU: ", b"QQ")
LOCALS = (
    Local((b"near", b"QQ"), (b"MFU: ",), 60),
    Local((b"once", b"more"), (b"QQ",), 40, stays=True),
    Local((b"rare",), (b"MFU: QQ",), 50),
)
TOKENS = [
    *(b"MFU: ", b"MFU: QQ", b"QQ", b"Q", b"MF", b"near", b"once", b"more", b"rare"),
    *(b"\n", b"\n", b"\r\n", b" ", b"x" * 30, b"\xff\0"),
]
Texts = st.lists(st.sampled_from(TOKENS), max_size=60).map(b"".join)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits small enough that short texts reach them."""
    monkeypatch.setattr(scan, "FROM_START", 50)


@pytest.fixture
def short_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"LONG_LINE": 50, "HEAD": 8, "BEFORE": 10, "AFTER": 12, "_SEGMENT": 128}.items():
        monkeypatch.setattr(scan, name, value)
    monkeypatch.setattr(scan._Window, "_STEP", 16)


def run(text: bytes, cuts: list[int], needles: tuple[bytes, ...] = NEEDLES, local: tuple[Local, ...] = LOCALS) -> tuple:
    scanner, found, low = Scanner(needles, local), [], 0
    for high in [*cuts, len(text)]:
        found += scanner.feed(text[low:high])
        low = high
    found += scanner.close()
    return found, scanner.lines, scanner.bytes_read, scanner.cut_lines


def naive(text: bytes) -> list[tuple[int, bytes]]:
    """The rules of ``Local`` and ``Scanner``, line by line."""
    found, offset = [], 0
    until: list[float] = [scan.FROM_START] * len(LOCALS)
    for number, line in enumerate(text.split(b"\n"), 1):
        hit = any(needle in line for needle in NEEDLES)
        for index, rule in enumerate(LOCALS):
            if offset < until[index] and any(needle in line for needle in rule.needles):
                hit = True
                until[index] = float("inf") if rule.stays else until[index]
        for index, rule in enumerate(LOCALS):
            if any(needle in line for needle in rule.after):
                until[index] = max(until[index], offset + rule.within)
        found += [(number, line)] if hit else []
        offset += len(line) + 1
    return found


@given(Texts, st.lists(st.integers(0, 400), max_size=12))
@settings(max_examples=400, deadline=None)
def test_any_chunking_finds_what_a_naive_splitter_finds(text: bytes, cuts: list[int]) -> None:
    found, lines, size, cut_lines = run(text, sorted(cuts))
    assert found == naive(text)
    assert lines == text.count(b"\n") + bool(text and not text.endswith(b"\n"))
    assert (size, cut_lines) == (len(text), 0)


@given(Texts, st.binary(max_size=60))
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_taken_byte_by_byte_as_in_one_piece(text: bytes, noise: bytes) -> None:
    text += noise + text
    assert run(text, list(range(len(text)))) == run(text, [])


@pytest.mark.usefixtures("short_lines")
@pytest.mark.parametrize("seed", range(8))
def test_long_lines_are_cut_alike_whatever_the_chunking(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(150):
        text = b"".join(rng.choices([*TOKENS, b"\r"], k=rng.randint(0, 80)))
        whole = run(text, [])
        assert run(text, sorted(rng.randint(0, len(text)) for _ in range(9))) == whole
        assert run(text, list(range(len(text)))) == whole


@pytest.mark.usefixtures("short_lines")
def test_a_long_line_keeps_its_head_and_what_surrounds_its_last_needle() -> None:
    line = b"(APIServer) " + b"a" * 100 + b"MFU: 1 " + b"b" * 100 + b"MFU: 2 " + b"c" * 100
    (found,), lines, _, cut_lines = run(b"first\n" + line + b"\nlast\n", [40, 41, 200])
    assert found == (2, b"(APIServ" + scan.GAP + b"b" * 10 + b"MFU: 2 " + b"c" * 5)
    assert (lines, cut_lines) == (3, 1)


@pytest.mark.usefixtures("short_lines")
def test_a_needle_near_the_beginning_of_a_long_line_leaves_no_gap() -> None:
    (found,), _, _, cut_lines = run(b"ab MFU: 1 " + b"c" * 100, [])
    assert found == (1, b"ab MFU: 1 ccccc")
    assert cut_lines == 1


@pytest.mark.usefixtures("short_lines")
def test_a_line_of_carriage_returns_is_delivered_state_by_state() -> None:
    bar = b"\r".join(b"Loading %3d%%" % percent for percent in range(40))
    found, lines, _, cut_lines = run(bar + b"\rMFU: 1.0\r" + bar + b"\rMFU: 2.0\n", [7, 300])
    assert found == [(1, b"MFU: 1.0"), (1, b"MFU: 2.0")]
    assert (lines, cut_lines) == (1, 0)


@pytest.mark.usefixtures("short_lines")
def test_local_needles_of_a_long_line_count_only_where_they_are_open() -> None:
    closed = b"z" * 60 + b"\n" + b"y" * 70 + b"near" + b"y" * 20 + b"\n"
    assert run(closed, [])[0] == []
    opened = b"z" * 60 + b"\nMFU: 1\n" + b"y" * 70 + b"near" + b"y" * 20 + b"\n"
    assert [number for number, _ in run(opened, [])[0]] == [2, 3]


@pytest.mark.usefixtures("short_lines")
def test_text_after_a_long_line_in_the_same_block_is_searched_once_each() -> None:
    text = b"MFU: 1\n" + b"x" * 60 + b"MFU: 2\n" + b"MFU: 3\n" + b"x" * 60 + b"MFU: 4\n" + b"MFU: 5\n"
    assert [number for number, _ in run(text, [])[0]] == [1, 2, 3, 4, 5]


def test_a_line_as_long_as_allowed_is_whole_and_one_byte_more_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "LONG_LINE", 100_000)
    fits = b"MFU: " + b"x" * 99_995
    for cuts in ([], [3], [99_999], [100_000], [100_001]):
        assert run(fits + b"\n", cuts)[0] == [(1, fits)]
        assert len(run(fits + b"y\n", cuts)[0][0][1]) < 50_000
        assert len(run(fits + b"y", cuts)[0][0][1]) < 50_000


def test_a_needle_over_the_edge_of_two_pieces_of_a_long_line_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "LONG_LINE", 1000)
    step = scan._Window._STEP
    for shift in range(-6, 3):
        text = b"." * (step + shift) + b"MFU: 7" + b"." * 5000
        (found,), *_ = run(text, [step])
        assert b"MFU: 7" in found[1]


def test_memory_is_bounded_and_time_linear_for_one_line_of_a_hundred_megabytes() -> None:
    scanner = Scanner(NEEDLES, LOCALS)
    block = b"x" * (1 << 20)
    tracemalloc.start()
    for _ in range(50):
        assert scanner.feed(block) == []
    scanner.feed(b"MFU: 1.0")
    for _ in range(50):
        scanner.feed(block)
    (found,) = scanner.feed(b"\n")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found[0] == 1
    assert b"MFU: 1.0" in found[1]
    assert len(found[1]) < scan.HEAD + scan.BEFORE + scan.AFTER + 100
    assert peak < 16 << 20


def test_a_reused_buffer_does_not_change_what_was_returned_or_held_back() -> None:
    scanner = Scanner(NEEDLES)
    buffer = bytearray(b"MFU: 1\nMFU: ")
    first = scanner.feed(buffer)
    buffer[:] = b"#" * len(buffer)
    assert first == [(1, b"MFU: 1")]
    assert scanner.feed(b"2\n") == [(2, b"MFU: 2")]


def test_an_unfinished_line_waits_for_its_rest() -> None:
    scanner = Scanner(NEEDLES)
    assert scanner.feed(b"MFU: 131.") == []
    assert scanner.lines == 0
    assert scanner.feed(b"0\n") == [(1, b"MFU: 131.0")]
    assert scanner.close() == []
    assert scanner.lines == 1


def test_without_needles_lines_are_only_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "LONG_LINE", 10)
    assert run(b"a\n" + b"b" * 30 + b"\nc", [], (), ()) == ([], 3, 34, 0)


@pytest.mark.parametrize("needle", [b"", b"a\nb", b"a\rb"], ids=["empty", "newline", "carriage-return"])
@pytest.mark.parametrize("where", ["everywhere", "local"])
def test_a_needle_that_cannot_be_part_of_a_line_is_refused(needle: bytes, where: str) -> None:
    with pytest.raises(ValueError, match="needle"):
        Scanner([needle]) if where == "everywhere" else Scanner([b"a"], [Local((needle,), (b"a",), 9)])


def test_a_text_that_continues_another_is_numbered_anew_but_opens_nothing_anew() -> None:
    scanner = Scanner(NEEDLES, LOCALS)
    assert scanner.scan(b"near\n" + b"x" * 60 + b"\nMFU: 1") == Scanned([(1, b"near")], 2, 72)
    assert scanner.end(["cut"]) == Scanned([(3, b"MFU: 1")], 3, 72, True, 0, ("cut",))
    again = scanner.scan(b"near\n" + b"x" * 60 + b"\nnear\nMFU: 2\n")
    assert again == Scanned([(1, b"near"), (4, b"MFU: 2")], 4, 78)


def test_local_needles_cannot_depend_on_what_is_not_searched() -> None:
    with pytest.raises(ValueError, match="must itself hold"):
        Scanner([b"a"], [Local((b"b",), (b"c",), 9)])
