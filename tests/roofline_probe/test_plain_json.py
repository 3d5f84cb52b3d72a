"""JSON for a terminal: nothing in it is obeyed or hidden, and it means what was encoded."""

from __future__ import annotations

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from roofline_probe import plain_json

VALUES = st.recursive(st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(), st.lists, max_leaves=5)


@given(value=st.dictionaries(st.text(), VALUES))
def test_every_character_can_be_seen_and_nothing_is_changed(value: dict[str, object]) -> None:
    text = plain_json.encode(value).decode()
    assert {unicodedata.category(character) for character in text}.isdisjoint(("Cc", "Cf", "Zl", "Zp"))
    assert "\n" not in text
    assert json.loads(text) == value


def test_direction_marks_and_the_eight_bit_escape_are_written_out() -> None:
    assert plain_json.encode(["a\u202eb\u009b1m\x7fé\U000e0001"]) == (
        b'["a\\u202eb\\u009b1m\\u007f\xc3\xa9\\udb40\\udc01"]'
    )


def test_a_document_is_indented_and_ends_in_a_newline() -> None:
    assert plain_json.document({"a": ["\u200b"]}) == b'{\n "a": [\n  "\\u200b"\n ]\n}\n'
