"""Release numbers as logs print them, for what changed between releases."""

from __future__ import annotations

import re

from log_parsers.step import LogFacts


def version_of(text: str | None) -> tuple[int, ...]:
    """``0.24.0.post1`` as (0, 24, 0); () where unknown."""
    match = re.match(r"v?([0-9]+(?:\.[0-9]+)*)", text or "")
    return tuple(int(part) for part in match.group(1).split(".")) if match else ()


def before(facts: LogFacts, *release: int) -> bool:
    """Whether the engine is known to be older than ``release``; an unknown version is not."""
    version = version_of(facts.engine_version)
    return bool(version) and version < release
