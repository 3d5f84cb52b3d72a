"""Argument dumps of start-up lines: ``key=value, …`` with nested reprs, and Python dict reprs."""

from __future__ import annotations

from collections.abc import Iterator

_OPEN, _CLOSE = "([{<", ")]}>"
_LIMIT = 200_000


def pairs(text: str) -> dict[str, str]:
    """Top-level ``key=value`` (or ``'key': value``) pairs, values as printed; commas inside brackets and quotes
    belong to values.

    Stops at the bracket that closes the dump; a cut dump yields the pairs that are complete.
    """
    found: dict[str, str] = {}
    for part in _split(text[:_LIMIT]):
        key, sep, value = _key_value(part)
        if sep:
            found[key] = value
    return found


def _key_value(part: str) -> tuple[str, str, str]:
    part = part.strip()
    if part[:1] in ("'", '"'):
        end = part.find(part[0], 1)
        if end > 0 and part[end + 1 : end + 2] == ":":
            return part[1:end], ":", part[end + 2 :].strip()
    key, sep, value = part.partition("=")
    return key, sep if key.isidentifier() else "", value


def _split(text: str) -> Iterator[str]:
    depth, quote, start, i = 0, "", 0, 0
    while i < len(text):
        char = text[i]
        if quote:
            if char == "\\":
                i += 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            if depth == 0:
                break
            depth -= 1
        elif char == "," and depth == 0:
            yield text[start:i]
            start = i + 1
        i += 1
    if i < len(text) or (not quote and not depth):
        yield text[start:i]


def unquote(value: str | None) -> str | None:
    """The text of a printed string; None for ``None`` and for nothing."""
    if value is None or value in ("None", ""):
        return None
    if value[0] in "'\"" and value[-1] == value[0] and len(value) > 1:
        return value[1:-1]
    return value


def integer(value: str | None) -> int | None:
    """A printed integer, or None."""
    return int(value) if value is not None and len(value) < 19 and value.isascii() and value.isdecimal() else None


def truth(value: str | None) -> bool | None:
    """A printed bool, or None."""
    return {"True": True, "False": False}.get(value or "")


def short_dtype(value: str | None) -> str | None:
    """``torch.bfloat16`` and ``bfloat16`` as ``bf16``, and so on; None for ``auto``."""
    name = (unquote(value) or "auto").removeprefix("torch.")
    known = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32", "auto": None}
    return known.get(name, name)
