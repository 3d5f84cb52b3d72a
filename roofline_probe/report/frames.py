"""Steps, bins and trials as pandas DataFrames: the only place of the report that loads pandas."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roofline_probe.errors import UsageError
from roofline_probe.point import Bin, Point, Summary
from roofline_probe.profile import Profile, Trial
from roofline_probe.report.json_out import POINT_COLUMNS, STEP_FIELDS, rows

if TYPE_CHECKING:
    import pandas


def steps_frame(points: Sequence[Point]) -> pandas.DataFrame:
    """One row a step, in the order of the log; "not said" is NA.

    Raises:
        UsageError: pandas is not installed.
    """
    return _frame(list(rows(points)), [*STEP_FIELDS, *POINT_COLUMNS])


def bins_frame(summary: Summary) -> pandas.DataFrame:
    """One row per kind, batch and context bin, columns as ``summary.bins`` in the JSON document; missing is NA.

    Raises:
        UsageError: pandas is not installed.
    """
    columns = [f.name for f in dataclasses.fields(Bin)]
    return _frame([{name: getattr(b, name) for name in columns} for b in summary.bins], columns)


def trials_frame(profile: Profile) -> pandas.DataFrame:
    """One row a trial of a profile, raw ``seconds`` as lists; missing is NA.

    Raises:
        UsageError: pandas is not installed.
    """
    columns = list(Trial.__struct_fields__)
    return _frame([{name: getattr(t, name) for name in columns} for t in profile.trials], columns)


def _frame(records: list[dict[str, Any]], columns: list[str]) -> pandas.DataFrame:
    try:
        import pandas
    except ImportError:
        raise UsageError("A DataFrame needs pandas; install it with `pip install 'roofline-probe[frames]'`.") from None
    return pandas.DataFrame(records, columns=columns).convert_dtypes()
