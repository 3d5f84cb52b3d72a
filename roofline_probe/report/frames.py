"""Steps as a pandas DataFrame: the only place of the report that loads pandas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from roofline_probe.errors import UsageError
from roofline_probe.point import Point
from roofline_probe.report.json_out import POINT_COLUMNS, STEP_FIELDS, rows

if TYPE_CHECKING:
    import pandas


def steps_frame(points: Sequence[Point]) -> pandas.DataFrame:
    """One row a step, in the order of the log; "not said" is NA.

    Raises:
        UsageError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise UsageError("A DataFrame needs pandas; install it with `pip install 'roofline-probe[frames]'`.") from None
    return pandas.DataFrame(list(rows(points)), columns=[*STEP_FIELDS, *POINT_COLUMNS]).convert_dtypes()
