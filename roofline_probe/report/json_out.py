"""The machine's view of a comparison: the JSON document that the README describes, and the same steps as CSV.

``null`` means "not said" or "not known", never zero. Fractions are 0 to 1 and not clamped. Fields may be added; one
that changes its meaning or goes away raises ``SCHEMA_VERSION``.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import tempfile
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from log_parsers.step import ServingStep
from roofline_probe import plain_json
from roofline_probe.point import Point
from roofline_probe.report import words
from roofline_probe.report.csv_cells import cell

if TYPE_CHECKING:
    from roofline_probe.comparison import Comparison

SCHEMA_VERSION = 1
_AT_ONCE = 1024
"""Steps encoded in one go."""
_TEXT_AT_ONCE = 1 << 20
_IN_MEMORY = 64 << 20
"""Bytes of encoded steps before they go to a temporary file: memory stays bounded however long the log is."""

STEP_FIELDS = tuple(f.name for f in dataclasses.fields(ServingStep))
POINT_FIELDS = tuple(f.name for f in dataclasses.fields(Point) if f.name != "step")
POINT_COLUMNS = tuple(name for name in POINT_FIELDS if name != "work")
"""What fits a table: ``work`` is an object of its own and stays in the JSON document."""


class _Spool:
    """Bytes that pile up in a temporary file once there are many."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - lives as long as the spool
        self.empty = True

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self.empty = False

    def pieces(self) -> Iterator[bytes]:
        self._file.seek(0)
        while block := self._file.read(1 << 20):
            yield block


class JsonSteps:
    """Encodes steps as they come, so that neither the points nor their text pile up in memory."""

    def __init__(self) -> None:
        self._waiting: list[Point] = []
        self._spool = _Spool()

    def add(self, point: Point) -> None:
        """Take one point; the document holds it in this order."""
        self._waiting.append(point)
        if len(self._waiting) >= _AT_ONCE:
            self._encode()

    def _encode(self) -> None:
        if self._waiting:
            self._spool.write((b"" if self._spool.empty else b",") + flat(plain_json.encode(self._waiting))[1:-1])
            self._waiting.clear()

    def pieces(self, result: Comparison) -> Iterator[bytes]:
        """The whole document: schema_version, roof, facts, steps, summary, excluded, warnings, in this order."""
        self._encode()
        encode = plain_json.encode
        yield b'{"schema_version":%d,"roof":%s' % (SCHEMA_VERSION, encode(roof_fields(result)))
        yield b',"facts":' + encode(result.facts)
        yield b',"steps":['
        yield from self._spool.pieces()
        yield b'],"summary":' + encode(summary_fields(result))
        yield b',"excluded":' + encode(excluded_fields(result))
        yield b',"warnings":' + encode(words.warnings(result)) + b"}\n"


def flat(points: bytes) -> bytes:
    """Encoded points with the step's fields beside the point's own: one object a step.

    Both marks hold an unescaped quote behind ``{`` or ``,`` and so cannot occur inside a JSON string.
    """
    first = POINT_FIELDS[0].encode()
    # ``replace`` counts before it copies: it would search megabytes twice.
    unnested = b"{".join(points.split(b'{"step":{'))
    return (b',"%s":' % first).join(unnested.split(b'},"%s":' % first))


def roof_fields(result: Comparison) -> dict[str, Any]:
    """The roof with the pi that percentages divide by, its name, and the profile it came from."""
    roof = result.roof
    fields = dataclasses.asdict(roof) | {"profile_name": result.profile_name}
    return {**fields, "pi_tflops": roof.pi_tflops, "pi_name": roof.pi_name}


def excluded_fields(result: Comparison) -> dict[str, Any]:
    """How many steps were left out of the summary, by status, and how many lines gave no step, by reason."""
    return {"steps": result.summary.excluded, "lines": result.report.dropped}


def summary_fields(result: Comparison) -> dict[str, Any]:
    """The summary's fields and, beside them, what it means (``findings``)."""
    fields = {f.name: getattr(result.summary, f.name) for f in dataclasses.fields(result.summary)}
    return {**fields, "findings": result.findings}


def rows(points: Iterable[Point]) -> Iterator[dict[str, Any]]:
    """One flat mapping a step: what the DataFrame and the CSV hold."""
    for point in points:
        step = {name: getattr(point.step, name) for name in STEP_FIELDS}
        yield step | {name: getattr(point, name) for name in POINT_COLUMNS}


class CsvSteps:
    """Steps as CSV as they come: a header line, then one line a step; an empty cell is "not said"."""

    def __init__(self) -> None:
        self._text = io.StringIO()
        self._spool = _Spool()
        self._writer = csv.DictWriter(self._text, [*STEP_FIELDS, *POINT_COLUMNS], lineterminator="\n")
        self._writer.writeheader()

    def add(self, point: Point) -> None:
        """One line; caveats are joined by ``;``."""
        (row,) = rows((point,))
        row["caveats"] = ";".join(point.caveats)
        self._writer.writerow({name: cell(value) for name, value in row.items()})
        if self._text.tell() > _TEXT_AT_ONCE:
            self._drain()

    def _drain(self) -> None:
        self._spool.write(self._text.getvalue().encode())
        self._text.seek(0)
        self._text.truncate()

    def pieces(self, result: Comparison) -> Iterator[bytes]:
        """The table's bytes; the summary has no place in it."""
        self._drain()
        return self._spool.pieces()
