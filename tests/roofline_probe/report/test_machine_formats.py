"""JSON and CSV: the contract of the README, streamed, complete, and safe whatever a log holds."""

from __future__ import annotations

import csv
import dataclasses
import io
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from log_parsers.step import ServingStep
from roofline_probe.comparison import Comparison
from roofline_probe.point import Point
from roofline_probe.report import json_out
from roofline_probe.report.frames import steps_frame
from roofline_probe.report.json_out import CsvSteps, JsonSteps


def document(comparison: Comparison, points: list[Point]) -> dict:
    steps = JsonSteps()
    for point in points:
        steps.add(point)
    return json.loads(b"".join(steps.pieces(comparison)))


def test_top_level_is_the_contract(comparison: Comparison, points: list[Point]) -> None:
    keys = ["schema_version", "roof", "facts", "steps", "summary", "excluded", "warnings"]
    assert list(document(comparison, points)) == keys


def test_a_step_holds_its_own_fields_and_those_of_its_point(comparison: Comparison, points: list[Point]) -> None:
    step = document(comparison, points)["steps"][0]
    point_fields = [f.name for f in dataclasses.fields(Point) if f.name != "step"]
    assert list(step) == [f.name for f in dataclasses.fields(ServingStep)] + point_fields
    assert (step["tflops"], step["recounted_tflops"], step["attained_fraction"]) == (24.0, 24.1, 0.847)


def test_not_said_is_null_and_never_zero(comparison: Comparison, points: list[Point]) -> None:
    step = document(comparison, points)["steps"][2]
    assert step["tflops"] is None
    assert step["roof_fraction"] is None
    assert step["running"] == 0


def test_roof_names_the_pi_that_was_used_and_its_profile(comparison: Comparison) -> None:
    roof = document(comparison, [])["roof"]
    assert (roof["pi_tflops"], roof["pi_name"], roof["profile_name"]) == (683.1, "sustained", "h200")


def test_summary_excluded_and_warnings_say_what_the_screen_says(comparison: Comparison) -> None:
    parsed = document(comparison, [])
    assert [row["kind"] for row in parsed["summary"]["kinds"]] == ["decode", "prefill"]
    assert parsed["summary"]["findings"][0]["code"] == "bound"
    assert parsed["excluded"] == {"steps": {"idle": 9, "diluted": 1}, "lines": {"torn line": 2}}
    assert {"code", "message"} == set(parsed["warnings"][0])


@given(raw=st.text(max_size=80), model=st.text(max_size=40))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_of_a_log_survives_flattening(
    comparison: Comparison, points: list[Point], raw: str, model: str
) -> None:
    hostile = raw + '},"recounted_tflops":{"step":{' + model
    step = dataclasses.replace(points[0].step, raw=hostile.encode("utf-8", "replace").decode())
    parsed = document(comparison, [dataclasses.replace(points[0], step=step)])
    assert parsed["steps"][0]["raw"] == step.raw
    assert parsed["steps"][0]["recounted_tflops"] == 24.1


def test_a_long_log_is_written_in_pieces_and_stays_complete(
    comparison: Comparison, points: list[Point], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_out, "_AT_ONCE", 7)
    monkeypatch.setattr(json_out, "_IN_MEMORY", 1000)
    many = [dataclasses.replace(points[0], step=dataclasses.replace(points[0].step, line_no=n)) for n in range(100)]
    assert [step["line_no"] for step in document(comparison, many)["steps"]] == list(range(100))


def test_csv_has_one_line_a_step_and_empty_cells_for_not_said(comparison: Comparison, points: list[Point]) -> None:
    table = CsvSteps()
    for point in points:
        table.add(point)
    read = list(csv.DictReader(io.StringIO(b"".join(table.pieces(comparison)).decode())))
    assert [row["line_no"] for row in read] == ["1", "2", "3"]
    assert read[2]["tflops"] == ""
    assert read[1]["caveats"] == "above_roof"


def test_frame_has_the_documents_columns_and_na_for_not_said(points: list[Point]) -> None:
    frame = steps_frame(points)
    assert list(frame.columns) == [*json_out.STEP_FIELDS, *json_out.POINT_COLUMNS]
    assert frame["tflops"].isna().tolist() == [False, False, True]
    assert frame["bandwidth_fraction"][0] == pytest.approx(0.666)


def test_comparison_shows_itself_in_a_notebook_with_its_text_escaped(comparison: Comparison) -> None:
    comparison.analysis.facts[0] = dataclasses.replace(comparison.facts[0], model="<script>alert(1)</script>")
    html = comparison._repr_html_()
    assert "<script>" not in html
    assert "attained" in html
