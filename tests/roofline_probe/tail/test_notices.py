from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline_probe.tail import notices
from roofline_probe.tail.notices import LineWatch, NoticeBoard

VLLM = "(APIServer pid=4242) {} 03-01 12:00:10 [api.py:15] {}\n"
COLOUR = "\x1b[0;36m(APIServer pid=4242)\x1b[0;0m \x1b[33m{}\x1b[0m \x1b[90m03-01 12:00:10\x1b[0m [api.py:15] {}\n"


def shown(watch):
    """Through the board, as a view gets them."""
    board = NoticeBoard()
    board.put(*watch.take())
    return board.take()


def watched(text, pieces=1, **options):
    watch = LineWatch(**options)
    data = text.encode()
    size = max(1, len(data) // pieces)
    for start in range(0, len(data), size):
        watch.feed(data[start : start + size])
    watch.close()
    return watch


@pytest.mark.parametrize("pieces", [1, 7, 10_000], ids=["whole", "cut", "byte-by-byte"])
def test_warnings_and_errors_are_found_and_counted(pieces):
    text = VLLM.format("INFO", "all well") + VLLM.format("WARNING", "w1") + VLLM.format("ERROR", "e1") * 2
    watch = watched(text, pieces)
    assert (watch.warnings, watch.errors) == (1, 2)
    lines, dropped = shown(watch)
    assert [line.split("] ")[1] for line in lines] == ["w1", "e1", "e1"]
    assert dropped == 0


@pytest.mark.parametrize(
    "line",
    [
        VLLM.format("INFO", "Received request: prompt: 'ERROR 03-01 12:00:10 [x.py:1] fake'"),
        VLLM.format("INFO", "the word WARNING in a message"),
        "a prompt of its own line: {'text': 'WARNING 03-01'}\n",
        VLLM.format("DEBUG", "ERROR: retried"),
    ],
    ids=["echoed-prompt", "in-a-message", "dump", "below-a-calm-level"],
)
def test_a_level_inside_a_message_is_not_the_line_s_level(line):
    watch = watched(line)
    assert (watch.warnings, watch.errors) == (0, 0)
    assert shown(watch) == ([], 0)


def test_colours_do_not_hide_a_level_and_are_not_passed_on():
    watch = watched(COLOUR.format("WARNING", "careful"))
    assert watch.warnings == 1
    (line,), _ = shown(watch)
    assert "\x1b" not in line
    assert line.endswith("careful")


def test_a_traceback_is_one_error_and_shown_whole():
    text = (
        "[2026-03-01 12:00:25] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "a.py", line 1, in run\n'
        "    boom()\n"
        "RuntimeError: ERROR in the kernel\n"
        "[2026-03-01 12:00:26] all well\n"
    )
    watch = watched(text)
    assert watch.errors == 1
    lines, _ = shown(watch)
    assert lines[0].endswith("(most recent call last):")
    assert lines[-1] == "RuntimeError: ERROR in the kernel"
    assert len(lines) == 4


def test_a_flood_is_held_to_the_last_lines_and_the_rest_is_counted():
    watch = watched(VLLM.format("ERROR", "again") * 1000, pieces=3)
    lines, dropped = shown(watch)
    assert len(lines) == notices.PARCEL_LINES
    assert dropped == 1000 - notices.PARCEL_LINES
    assert watch.errors == 1000


@pytest.mark.parametrize("pieces", [1, 5], ids=["one-block", "five-blocks"])
def test_passing_shows_every_line_that_a_screen_can_take(pieces):
    text = "".join(f"line {number}\n" for number in range(1000))
    watch = watched(text, pieces, pass_all=True)
    lines, dropped = shown(watch)
    assert lines == [f"line {number}" for number in range(1000 - notices.PARCEL_LINES, 1000)]
    assert dropped == 1000 - notices.PARCEL_LINES


def test_passed_lines_are_shown_once_and_an_error_is_counted_too():
    watch = watched("plain\n" + VLLM.format("ERROR", "e"), pass_all=True)
    lines, _ = shown(watch)
    assert len(lines) == 2
    assert watch.errors == 1


def test_a_line_of_megabytes_is_cut_and_memory_stays_bounded():
    watch = LineWatch(pass_all=True)
    for _ in range(8):
        watch.feed(b"x" * (1 << 20))
    watch.feed(b"\nnext\n")
    lines, _ = shown(watch)
    assert [len(line) for line in lines] == [2000, 4]


def test_what_was_taken_is_not_shown_again():
    watch = watched(VLLM.format("ERROR", "once"))
    watch.take()
    assert shown(watch) == ([], 0)


def test_the_board_keeps_the_last_lines_and_counts_the_rest():
    board = NoticeBoard()
    for number in range(notices.KEPT_LINES + 10):
        board.put([b"%d" % number], not_shown=1)
    lines, dropped = board.take()
    assert lines[0] == "10"
    assert len(lines) == notices.KEPT_LINES
    assert dropped == 10 + notices.KEPT_LINES + 10
    assert board.take() == ([], 0)


LINES = st.sampled_from(
    [
        VLLM.format("INFO", "calm").encode(),
        VLLM.format("WARNING", "w").encode(),
        VLLM.format("ERROR", "e").encode(),
        b"Traceback (most recent call last):\n",
        b"  indented\n",
        b"ValueError: x\n",
        b"\xff\x00\x1b[31m\n",
        b"\n",
        b"x" * 9000 + b"\n",
    ]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(LINES, max_size=30), st.lists(st.integers(0, 40_000), max_size=12))
def test_counts_do_not_depend_on_where_the_pipe_cuts(lines, cuts):
    data = b"".join(lines)
    whole, cut = LineWatch(), LineWatch()
    whole.feed(data)
    edges = [0, *sorted(min(edge, len(data)) for edge in cuts), len(data)]
    for low, high in itertools.pairwise(edges):
        cut.feed(data[low:high])
    whole.close()
    cut.close()
    assert (cut.warnings, cut.errors) == (whole.warnings, whole.errors)
