"""What is said beside the result: one line at a time on stderr, more with ``-v``, nothing with ``-q``."""

from __future__ import annotations

import sys

QUIET, NORMAL, VERBOSE = -1, 0, 1
_level = NORMAL


def set_level(level: int) -> None:
    """For the whole process: ``QUIET``, ``NORMAL`` or ``VERBOSE``."""
    global _level
    _level = level


def is_quiet() -> bool:
    """Whether ``-q`` was given, before or after the command's name."""
    return _level <= QUIET


def note(sentence: str) -> None:
    """One line on stderr, unless ``-q``."""
    if _level >= NORMAL:
        print(f"probe: {sentence}", file=sys.stderr)


def detail(sentence: str) -> None:
    """One line on stderr, only with ``-v``."""
    if _level >= VERBOSE:
        print(f"probe: {sentence}", file=sys.stderr)
