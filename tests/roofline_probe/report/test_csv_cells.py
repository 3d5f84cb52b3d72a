"""A cell of text does nothing in a spreadsheet or a terminal, and a number stays one."""

from __future__ import annotations

import csv
import dataclasses
import io

import pytest

from roofline_probe.comparison import Comparison
from roofline_probe.measure.export import csv_lines
from roofline_probe.point import Point
from roofline_probe.profile import Trial
from roofline_probe.report.csv_cells import cell
from roofline_probe.report.json_out import CsvSteps


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "\\x09=1"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\u202eb", "a\\u202eb"),
        ("two\nlines", "two\\x0alines"),
        ("naïve – 日本", "naïve – 日本"),
        ("", ""),
        (-1.5, -1.5),
        (None, None),
        (True, True),
    ],
    ids=[
        "equals",
        "plus",
        "minus",
        "at",
        "tab",
        "escape",
        "bidi",
        "newline",
        "letters",
        "empty",
        "number",
        "none",
        "bool",
    ],
)
def test_cells(given: object, written: object) -> None:
    assert cell(given) == written


def test_a_long_text_is_whole() -> None:
    assert cell("\x07" * 5000) == "\\x07" * 5000


def test_steps_of_a_log_with_a_hostile_name(comparison: Comparison, points: list[Point]) -> None:
    step = dataclasses.replace(points[0].step, source="=HYPERLINK(1)\x1b")
    writer = CsvSteps()
    writer.add(dataclasses.replace(points[0], step=step))
    (row,) = csv.DictReader(io.StringIO(b"".join(writer.pieces(comparison)).decode()))
    assert row["source"] == "'=HYPERLINK(1)\\x1b"


def test_trials_with_a_hostile_reason() -> None:
    trial = Trial(kernel="gemm", dtype="bf16", regime="median", implementation="torch.mm", reason="=1+1\x07")
    lines = b"".join(csv_lines([trial])).decode()
    (row,) = csv.DictReader(io.StringIO(lines))
    assert row["reason"] == "'=1+1\\x07"
