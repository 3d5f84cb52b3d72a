from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from log_parsers.stream import LogStream
from roofline_probe.tail.intake import Intake
from roofline_probe.tail.notices import LineWatch
from roofline_probe.tail.tee import Tee

LOG = Path(__file__).parents[3] / "fixtures" / "logs" / "vllm" / "0.24.0-h200-graph-1s.log"


def blocks(data, size):
    return [data[start : start + size] for start in range(0, len(data), size)]


def steps_of(parcels, stream):
    steps = []
    for part in (part for parcel in parcels for part in parcel.scanned):
        steps += stream.take_end(part) if part.ends else stream.take(part.found, part.lines, part.bytes_read)
    return steps + stream.flush()


@pytest.mark.parametrize("size", [977, 1 << 20], ids=["small-blocks", "one-block"])
def test_parcels_carry_all_that_the_parser_needs_also_through_a_pickle(size):
    data = LOG.read_bytes()
    stream, plain = LogStream(), LogStream()
    intake = Intake(stream.scanner, "-")
    parcels = [pickle.loads(pickle.dumps(parcel)) for parcel in intake.parcels(blocks(data, size))]
    assert steps_of(parcels, stream) == plain.feed(data) + plain.close()
    assert stream.report.lines == plain.report.lines
    assert stream.report.bytes_read == len(data)


def test_parcels_are_small_beside_the_log():
    data = (b"x" * 500 + b"\n") * 2000
    parcels = list(Intake(LogStream().scanner, "-").parcels([data]))
    assert sum(len(pickle.dumps(parcel)) for parcel in parcels) < len(data) / 100


def test_text_in_another_encoding_is_read_too():
    data = LOG.read_bytes().decode().encode("utf-16-le")
    stream, plain = LogStream(), LogStream()
    steps = steps_of(Intake(stream.scanner, "-").parcels(blocks(data, 10_001)), stream)
    assert steps == plain.feed(LOG.read_bytes()) + plain.close()


def test_warnings_go_along_and_are_counted():
    line = b"(APIServer pid=1) WARNING 03-01 12:00:10 [x.py:1] careful\n"
    first, last = Intake(LogStream().scanner, "-", LineWatch()).parcels([line])
    assert first.lines == (line[:-1],)
    assert (first.warnings, first.errors) == (1, 0)
    assert last.lines == ()
    assert last.warnings == 1


def test_the_tee_is_complete_when_the_last_parcel_comes(tmp_path):
    path = tmp_path / "kept"
    intake = Intake(LogStream().scanner, "-", tee=Tee(path, print))
    parcels = intake.parcels([b"one ", b"two"])
    for _ in range(3):
        next(parcels)
    assert path.read_bytes() == b"one two"


def test_what_the_tee_says_goes_along():
    intake = Intake(LogStream().scanner, "-")
    intake.say("The disk is full.")
    first, last = intake.parcels([b"x"])
    assert first.said == ("The disk is full.",)
    assert last.said == ()


def test_after_a_fault_of_ours_the_log_is_still_kept_and_the_fault_is_told_once(tmp_path):
    path = tmp_path / "kept"

    class Broken:
        lines = bytes_read = 0

        def feed(self, block):
            raise RuntimeError("a bug")

    intake = Intake(Broken(), "-", tee=Tee(path, print))
    parcels = list(intake.parcels([b"first\n", b"second\n"]))
    assert [parcel.fault is not None for parcel in parcels] == [True, False, False]
    assert "RuntimeError: a bug" in parcels[0].fault
    assert path.read_bytes() == b"first\nsecond\n"


def test_an_empty_block_marks_where_a_file_becomes_live():
    parcels = Intake(LogStream().scanner, "-").parcels([b"old", b"", b"new"])
    assert [parcel.caught_up for parcel in parcels] == [False, True, False, False]


def test_what_was_odd_about_the_bytes_is_told_at_the_end():
    stream = LogStream()
    steps_of(Intake(stream.scanner, "standard input").parcels([b"one\n" + b"\0" * 8 + b"two\n"]), stream)
    assert stream.report.problems == [
        "standard input: 8 NUL bytes were left out (a crash or a truncated log leaves them)"
    ]
