"""JSON that can be looked at: what a terminal would obey or hide comes as its escape, which means the same."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import regex

_UNSEEN = regex.compile(r"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}]")


def encode(value: Any) -> bytes:
    """One line of UTF-8; controls, direction marks and zero-width characters of a log's texts as ``\\u202e``."""
    data = msgspec.json.encode(value)
    if data.isascii() and b"\x7f" not in data:
        return data
    text: str = _UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1], data.decode())
    return text.encode()


def document(value: Any) -> bytes:
    """The same, indented, ending in a newline."""
    return msgspec.json.format(encode(value), indent=1) + b"\n"
