"""A fleet's comparison as plain data: the JSON document and the table that scripts read.

Fractions are 0 to 1 and not clamped; None stands for what is not known.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

from roofline_probe import plain_json
from roofline_probe.fleet.cluster import Fleet
from roofline_probe.fleet.spread import distribution, odd_ones, slowest
from roofline_probe.report.csv_cells import cell

SCHEMA_VERSION = 1
_FIGURES = ("windows", "seconds", "tok_s", "step_ms", "compute_fraction", "bandwidth_fraction", "roof_fraction")


def to_json(fleet: Fleet, profile_name: str | None) -> bytes:
    """One object: ``schema_version``, ``profile``, ``files`` (rows, problems, failure), ``kinds``, ``cluster``."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "profile": profile_name,
        "kinds": {kind: _spread(fleet, kind) for kind in _kinds(fleet)},
        "files": fleet.files,
        "cluster": {"workers": fleet.workers, "start_s": fleet.start_s, "read_s": fleet.read_s},
    }
    return plain_json.document(document)


def _kinds(fleet: Fleet) -> list[str]:
    return list(dict.fromkeys(kind for row in fleet.rows for kind in row.headlines))


def _spread(fleet: Fleet, kind: str) -> dict[str, Any]:
    rows = fleet.rows
    values = {i: h.fraction for i, row in enumerate(rows) if (h := row.headlines.get(kind)) and h.fraction is not None}

    def named(picked: list[int]) -> list[dict[str, Any]]:
        return [{"path": rows[i].path, "rank": rows[i].rank, "fraction": values[i]} for i in picked]

    return {
        "distribution": distribution(list(values.values())),
        "slowest": named(slowest(values)),
        "odd": named(odd_ones(values)),
    }


def csv_pieces(fleet: Fleet) -> Iterator[bytes]:
    """One line a log, rank and kind, with the headline and what stands behind it."""
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(["path", "rank", "engine", "model", "kind", "headline", "headline_of", *_FIGURES])
    for row in fleet.rows:
        for bin_ in row.kinds:
            headline = row.headlines[bin_.kind]
            figures = [getattr(bin_, name) for name in _FIGURES]
            writer.writerow(
                map(
                    cell,
                    [row.path, row.rank, row.engine, row.model, bin_.kind, headline.fraction, headline.of, *figures],
                )
            )
    yield table.getvalue().encode()
