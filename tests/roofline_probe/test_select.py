"""--since, --until, --where: what they select, and what they refuse."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_parsers.step import ServingStep
from roofline_probe.correlate import correlate
from roofline_probe.errors import UsageError
from roofline_probe.point import Point, Roof
from roofline_probe.select import FIELDS, parse_where, selection

ROOF = Roof("given", "x", "auto", "bf16", "log", pi_burst_tflops=1000.0, beta_gbps=4000.0, read_beta_gbps=4000.0)
STEP = ServingStep(
    source="-", run=0, line_no=1, engine="vllm", engine_version="0.24.0", rank="0", kind="decode", status="steady",
    time="2026-11-29T14:26:05", window_s=1.0, running=32, tflops=50.0, gbps=3000.0, graph=True,
)  # fmt: skip


def point(**fields: object) -> Point:
    return correlate(replace(STEP, **fields), None, ROOF)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ("batch>=32", True),
        ("batch > 32", False),
        ("batch==32 and kind==decode", True),
        ("batch=32 and kind='decode'", True),
        ("kind==prefill or kind==decode", True),
        ("kind != decode", False),
        ("rank==0", True),
        ("roof_fraction<0.5", False),
        ("graph==true", True),
        ("batch<1 or batch>1 and kind==prefill", False),
        ("(batch<1 or batch>1) and kind==decode", True),
        ("((batch>=32))", True),
        ("attained_fraction>0", False),
        ("kind>=3", False),
        ("running>=-1", True),
        ('engine=="vllm"', True),
    ],
)
def test_where(where: str, holds: bool) -> None:
    assert parse_where(where)(point()) is holds


@pytest.mark.parametrize(
    ("where", "complaint"),
    [
        ("", "ends in the middle"),
        ("batch", "ends in the middle"),
        ("batch>=", "ends in the middle"),
        ("batch>=32 and", "ends in the middle"),
        ("batch>=32 kind==decode", "was not understood from 'kind'"),
        ("batch ~ 3", "was not understood at '~ 3'"),
        ("speed>3", "there is no field 'speed'"),
        ("(batch>=32", "lacks a closing parenthesis"),
        ("32>=batch", "is not a comparison"),
        ("batch>=32)", "was not understood from '\\)'"),
        ("__class__==x", "there is no field"),
        ("raw==x", "there is no field"),
    ],
)
def test_a_bad_predicate_is_refused_with_the_reason(where: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse_where(where)


@given(st.text(max_size=60))
def test_any_text_is_understood_or_refused(text: str) -> None:
    with suppress(UsageError):
        assert parse_where(text)(point()) in (True, False)


@given(st.sampled_from(FIELDS), st.floats(-1e6, 1e6).map(lambda x: f"{x:.3f}"))
def test_every_field_can_be_compared_with_a_number(name: str, number: str) -> None:
    assert parse_where(f"{name}>={number}")(point()) in (True, False)


@pytest.mark.parametrize(
    ("since", "until", "kept"),
    [
        (None, None, True),
        ("14:26", None, True),
        ("14:26:05", "14:26:05", True),
        ("14:26:06", None, False),
        (None, "14:26", True),
        (None, "14:26:04", False),
        (None, "14:25", False),
        ("2026-11-29", "2026-11-29", True),
        ("2026-11-29T14:26:05", None, True),
        ("2026-11-29 14:27", None, False),
        ("2026-11-30", None, False),
    ],
)
def test_times(since: str | None, until: str | None, kept: bool) -> None:
    assert selection(since, until).in_time(STEP) is kept


def test_a_short_hour_is_an_hour() -> None:
    early = replace(STEP, time="2026-11-29T09:30:00")
    assert selection("9:15").in_time(early)
    assert not selection("9:45").in_time(early)


def test_a_step_without_a_stamp_is_in_no_span_of_time() -> None:
    bare = replace(STEP, time=None)
    assert selection().in_time(bare)
    assert not selection("00:00").in_time(bare)


@pytest.mark.parametrize(
    "text",
    ["yesterday", "25", "14.26", "2026-11", "", "25:00", "14:60", "14:05:61", "2026-13-01", "2026-02-30", "٠٩:٠٠"],
)
def test_a_bad_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time"):
        selection(since=text)


def test_parentheses_without_end_are_refused_and_a_persons_are_not() -> None:
    assert parse_where("(" * 20 + "batch>=1" + ")" * 20)(point())
    with pytest.raises(UsageError, match="more than 50 deep"):
        parse_where("(" * 5000 + "batch>=1" + ")" * 5000)
