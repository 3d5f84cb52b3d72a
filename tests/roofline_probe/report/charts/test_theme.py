"""What the palette claims: contrast on white and on a dark page, kinds apart for colour-blind eyes."""

from __future__ import annotations

from itertools import combinations

import pytest

from roofline_probe.report.charts import theme

Rgb = tuple[float, float, float]
WHITE, DARK = "#FFFFFF", "#0D1117"
# Machado, Oliveira and Fernandes (2009), severity 1.0: linear RGB as seen without one kind of cone.
VISION: dict[str, tuple[Rgb, Rgb, Rgb]] = {
    "normal": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def linear(colour: str) -> Rgb:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return red, green, blue


def luminance(rgb: Rgb) -> float:
    return 0.2126 * rgb[0] + 0.7152 * rgb[1] + 0.0722 * rgb[2]


def contrast(one: str, two: str) -> float:
    low, high = sorted((luminance(linear(one)), luminance(linear(two))))
    return (high + 0.05) / (low + 0.05)


def lab(rgb: Rgb) -> Rgb:
    """CIE L*a*b* (D65)."""
    r, g, b = (min(1.0, max(0.0, c)) for c in rgb)
    xyz = (
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089,
    )
    x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def seen(colour: str, vision: str) -> Rgb:
    rgb = linear(colour)
    red, green, blue = (sum(m * c for m, c in zip(row, rgb, strict=True)) for row in VISION[vision])
    return lab((red, green, blue))


@pytest.mark.parametrize("page", [pytest.param(WHITE, id="white"), pytest.param(DARK, id="dark")])
@pytest.mark.parametrize("colour", [*theme.KIND_COLOURS, theme.PURPLE])
def test_marks_keep_three_to_one(colour: str, page: str) -> None:
    assert contrast(colour, page) >= 3


@pytest.mark.parametrize("page", [pytest.param(WHITE, id="white"), pytest.param(DARK, id="dark")])
def test_text_of_a_picture_is_readable_wherever_it_is_shown(page: str) -> None:
    assert contrast(theme.INK, page) >= 4.2


@pytest.mark.parametrize("vision", list(VISION))
@pytest.mark.parametrize(
    "colours", [pytest.param(theme.KIND_COLOURS[:3], id="kinds"), pytest.param(theme.PART_COLOURS, id="parts")]
)
def test_colours_stay_apart_for_every_eye(colours: tuple[str, ...], vision: str) -> None:
    for one, two in combinations(colours, 2):
        distance = sum((a - b) ** 2 for a, b in zip(seen(one, vision), seen(two, vision), strict=True)) ** 0.5
        assert distance >= (15 if vision == "tritanopia" else 20), (one, two)


def test_kinds_differ_in_shape_too() -> None:
    assert len(set(theme.KIND_SHAPES)) == len(theme.KINDS) == len(theme.KIND_COLOURS)
