"""Numbers as people read them, and text that is safe to show."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofline_probe.report.text import (
    DASH,
    bar,
    clean,
    count,
    listed,
    number,
    percent,
    significant,
    span,
    tera,
    tight_percent,
    tokens_span,
)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.00713, "0.00713"), (0.4481, "0.448"), (4.4806, "4.48"), (44.806, "44.8"), (448.06, "448"), (4480.6, "4,481"),
     (0, "0"), (None, DASH), (-1.234, "-1.23")],
    ids=["thousandths", "tenths", "ones", "tens", "hundreds", "thousands", "zero", "unknown", "negative"],
)  # fmt: skip
def test_three_significant_figures_without_an_exponent(value: float | None, shown: str) -> None:
    assert significant(value) == shown


def test_unknown_is_a_dash_in_every_format() -> None:
    assert {number(None), percent(None), tight_percent(None), tera(None), significant(None)} == {DASH}


def test_what_rounds_to_zero_has_no_sign() -> None:
    assert [number(-0.001, 2), number(-0.2), percent(-0.001), tight_percent(-0.001)] == ["0.00", "0", "0 %", "0%"]
    assert [number(-0.006, 2), significant(-0.0)] == ["-0.01", "0"]


def test_both_percentages_round_alike() -> None:
    assert [percent(f) for f in (0.8145, 0.815, 0.8149999)] == ["81 %", "82 %", "81 %"]
    assert [tight_percent(f) for f in (0.8145, 0.815, 0.8149999)] == ["81%", "82%", "81%"]


def test_percentages_are_not_clamped() -> None:
    assert percent(1.134) == "113 %"
    assert tight_percent(-0.02) == "-2%"


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [(32, 32, "32"), (17, 31, "17–31"), (None, None, DASH), (257, None, "≥ 257"), (None, 4, "≤ 4")],
    ids=["one", "range", "unknown", "open-above", "open-below"],
)
def test_bounds_of_a_bin(low: int | None, high: int | None, shown: str) -> None:
    assert span(low, high) == shown


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (288, 967, "288–967"),
        (1253, 2513, "1.3–2.5k"),
        (12_100, 31_000, "12–31k"),
        (8192, 8192, "8.2k"),
        (0, None, "≥ 0"),
    ],
    ids=["hundreds", "thousands", "ten-thousands", "one-value", "open"],
)
def test_token_ranges_in_few_characters(low: int, high: int | None, shown: str) -> None:
    assert tokens_span(low, high) == shown


@given(st.text(max_size=300))
def test_cleaned_text_is_one_visible_line(text: str) -> None:
    shown = clean(text)
    assert shown.isprintable()
    assert len(shown) <= 200


@pytest.mark.parametrize(
    "text",
    ["a\x1b[31mred", "bell\x07", "title\x1b]0;x\x07", "right\u202eleft", "nul\x00", "c1\x9b31m", "zero\u200bwidth"],
)
def test_control_and_invisible_characters_are_written_out(text: str) -> None:
    assert "\\" in clean(text)
    assert clean(text).isprintable()


def test_ordinary_text_of_any_script_is_kept() -> None:
    assert clean("模型 Modèle [bold] 8B") == "模型 Modèle [bold] 8B"


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 60), st.booleans())
def test_a_bar_has_exactly_its_width_whatever_the_fraction(fraction: float, width: int, ascii_only: bool) -> None:
    assert len(bar(fraction, width, ascii_only)) == width


def test_a_bar_shows_eighths_of_a_cell() -> None:
    assert bar(0.5625, 8) == "████▌   "


def test_counting_and_listing_words() -> None:
    assert [count(1, "window"), count(1200, "window")] == ["1 window", "1,200 windows"]
    assert [listed([]), listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
