"""Argument dumps: nested reprs, dict reprs, cut dumps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_parsers.startup_args import integer, pairs, short_dtype, truth, unquote


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model='a, b', tp=2", {"model": "'a, b'", "tp": "2"}),
        ("a=F(x=1, y=[2, 3]), b=None)", {"a": "F(x=1, y=[2, 3])", "b": "None"}),
        ("'model': 'm', 'tp_size': 4}", {"model": "'m'", "tp_size": "4"}),
        ("mode=<Mode.NONE: 0>, b=1", {"mode": "<Mode.NONE: 0>", "b": "1"}),
        ("a='it\\'s, x=1', b=2", {"a": "'it\\'s, x=1'", "b": "2"}),
        ("a=1, b='cut", {"a": "1"}),
        ("a=1, b=[2, 3", {"a": "1"}),
        ("a=1, b=2", {"a": "1", "b": "2"}),
        ("a=1) b=2, c=3", {"a": "1"}),
        ("", {}),
        ("no pairs here", {}),
        ("'k': {'a': 1, 'b': 2}, 'l': 3}", {"k": "{'a': 1, 'b': 2}", "l": "3"}),
        ("'broken, 'x': 1", {}),
    ],
)
def test_pairs(text: str, expected: dict[str, str]) -> None:
    assert pairs(text) == expected


@given(st.text(alphabet="ab=,'\"()[]{}<>: \\1", max_size=60))
def test_any_text_yields_pairs_or_nothing(text: str) -> None:
    found = pairs(text)
    assert all(isinstance(value, str) for value in found.values())


def test_a_dump_without_end_is_read_to_a_limit() -> None:
    assert pairs("a=1, b='" + "x" * 1_000_000) == {"a": "1"}
    assert "c" not in pairs("a=1, b='" + "x" * 200_000 + "', c=3")


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, None), ("None", None), ("", None), ("'x'", "x"), ('"x"', "x"), ("x", "x"), ("'", "'"), ("''", "")],
)
def test_unquote(value: str | None, expected: str | None) -> None:
    assert unquote(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(None, None), ("7", 7), ("-7", None), ("7.0", None), ("x", None), ("9" * 19, None)]
)
def test_integer(value: str | None, expected: int | None) -> None:
    assert integer(value) == expected


def test_truth() -> None:
    assert [truth(value) for value in ("True", "False", "None", None, "true")] == [True, False, None, None, None]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("torch.bfloat16", "bf16"),
        ("'bfloat16'", "bf16"),
        ("'half'", "fp16"),
        ("torch.float16", "fp16"),
        ("float32", "fp32"),
        ("'auto'", None),
        (None, None),
        ("torch.float8_e4m3fn", "float8_e4m3fn"),
    ],
)
def test_short_dtype(value: str | None, expected: str | None) -> None:
    assert short_dtype(value) == expected
