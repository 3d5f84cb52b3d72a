"""What one server run has stated so far: the growing side of ``LogFacts``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from log_parsers.clock import Moment
from log_parsers.step import LogFacts, ScanReport

_MANY = 512
"""Entries that a mapping or list of facts may hold: far above what an engine prints, a bound on what a hostile log
can make grow.
"""


@dataclass
class Run:
    """One server run inside one source, as far as it has been read."""

    source: str
    index: int
    engine: str
    first_line_no: int
    report: ScanReport
    part: str = ""
    """The rotated part being read: what the steps name as their source."""
    facts: dict[str, Any] = field(default_factory=dict)
    boundaries: dict[str, dict[str, Any]] = field(default_factory=dict)
    has_steps: bool = False
    stamped: bool = False
    """Whether its statistics lines carry a clock."""
    started: Moment | None = None
    """Stamp of the last start-up line: the first statistics window begins about there."""
    changed: dict[int, Run] = field(default_factory=dict)
    """Where a run enters itself, by its index, when it has learned something: the stream's."""
    _snapshot: LogFacts | None = None

    def learn(self, values: Mapping[str, Any]) -> None:
        """Merge what a line states; mappings and lists accumulate, other fields keep the latest statement."""
        self._snapshot = None
        self.changed[self.index] = self
        for key, value in values.items():
            if isinstance(value, dict):
                known = self.facts.setdefault(key, {})
                known.update(value if len(known) < _MANY else {})
            elif key in ("warnings", "device_hints"):
                listed = self.facts.setdefault(key, ())
                self.facts[key] = (listed + tuple(item for item in value if item not in listed))[:_MANY]
            elif value is not None:
                self.facts[key] = value

    def snapshot(self) -> LogFacts:
        """The facts as the public, frozen type; the same object until the run learns more."""
        if self._snapshot is None:
            self._snapshot = self._take()
        return self._snapshot

    def _take(self) -> LogFacts:
        facts: dict[str, Any] = {
            key: dict(value) if isinstance(value, dict) else value for key, value in self.facts.items()
        }
        pool_dtype = facts.pop("kv_pool_dtype", None)
        if facts.get("kv_cache_dtype") in ("auto", None):
            facts["kv_cache_dtype"] = pool_dtype or facts.get("dtype") or facts.get("kv_cache_dtype")
        if facts.get("dtype") is None and pool_dtype in ("bf16", "fp16", "fp32"):
            facts["dtype"] = pool_dtype  # an automatic cache dtype is the model's
        if facts.get("flags", {}).get("enable_expert_parallel"):
            facts["ep"] = (facts.get("tp") or 1) * (facts.get("dp") or 1)
        return LogFacts(
            source=self.source, run=self.index, first_line_no=self.first_line_no, engine=self.engine, **facts
        )
