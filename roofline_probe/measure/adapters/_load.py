"""How much of the CPU other programs took meanwhile: what they take is missing from its peaks."""

from __future__ import annotations

import os
from pathlib import Path

_STAT = Path("/proc/stat")


class OthersLoad:
    """Counts from when it is made: the load average of the last minute would blame what ended before."""

    def __init__(self, stat: Path = _STAT) -> None:
        """Takes the counters as they are now."""
        self._stat = stat
        self._began = self._counters()

    def share(self) -> float | None:
        """Share of all cores that others kept busy, 0 to 1; None where the system does not say.

        Time stolen by a hypervisor counts: the cores were somebody else's then.
        """
        now = self._counters()
        if now is None or self._began is None:
            return None
        total, busy, own = (after - before for after, before in zip(now, self._began, strict=True))
        return max(0.0, busy - own) / total if total > 0 else None

    def _counters(self) -> tuple[float, float, float] | None:
        """Seconds of all cores so far: in all, busy, and those of this process."""
        try:
            first = self._stat.read_text(encoding="ascii").partition("\n")[0]
            ticks = [int(field) for field in first.split()[1:9]]  # beyond: guests, who are in user and nice already
            user, nice, system, idle, waiting, irq, soft_irq, stolen = ticks
        except (OSError, ValueError):
            return None
        hertz = os.sysconf("SC_CLK_TCK")
        busy = user + nice + system + irq + soft_irq + stolen
        return (busy + idle + waiting) / hertz, busy / hertz, sum(os.times()[:4])
