"""The one fraction that stands for a kind of work, and the gate that a build can set on it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from roofline_probe.errors import GateNotMet, UsageError
from roofline_probe.point import Bin, Roof, Summary

ATTAINED = "attained"
OF_ROOF = "of the roof"
KINDS = ("decode", "prefill", "mixed")
_PERCENT = re.compile(r"\s*\d{1,6}(\.\d{1,6})?%?\s*", re.ASCII)


def headline(row: Bin, roof: Roof) -> tuple[float | None, str]:
    """The fraction, and what it is a fraction of.

    Decode is judged by its step's time (attained): it runs memory-heavy attention after compute-heavy GEMMs, and can be
    near its limit at 61 % of either roof. Prefill is judged by recounted work against pi. Where that cannot be told,
    the roof fraction stands in.
    """
    if row.kind == "prefill" and row.compute_fraction is not None:
        return row.compute_fraction, f"of {roof.pi_name} pi"
    if row.attained_fraction is not None:
        return row.attained_fraction, ATTAINED
    return row.roof_fraction, OF_ROOF


def parse_gates(text: str | None) -> Mapping[str, float]:
    """``decode=80,prefill=85`` as fractions by kind.

    Raises:
        UsageError: not of that form.
    """
    gates = {}
    for part in (text or "").split(",") if text is not None else ():
        kind, _, percent = part.partition("=")
        if kind.strip() not in KINDS or not _PERCENT.fullmatch(percent):
            raise UsageError(
                f"--fail-under {text!r} was not understood at {part!r}; write it like decode=80,prefill=85 "
                f"(kinds: {', '.join(KINDS)}; percent)."
            )
        if kind.strip() in gates:
            raise UsageError(f"--fail-under {text!r} gives two thresholds for {kind.strip()}; give one for each kind.")
        gates[kind.strip()] = float(percent.strip().removesuffix("%")) / 100
    return gates


def check_gates(gates: Mapping[str, float], summary: Summary, roof: Roof) -> None:
    """Every gate against the kind's headline.

    Raises:
        GateNotMet: one is below, or cannot be judged; the sentence says by how much.
    """
    rows = {row.kind: row for row in summary.kinds}
    failures = [text for kind, least in gates.items() if (text := _failure(kind, least, rows.get(kind), roof))]
    if failures:
        raise GateNotMet("Gate not met: " + "; ".join(failures) + ".")


def _failure(kind: str, least: float, row: Bin | None, roof: Roof) -> str | None:
    if row is None:
        return f"the log holds no steady {kind} window, so {kind} cannot be judged"
    fraction, denominator = headline(row, roof)
    if fraction is None:
        return f"{kind} cannot be judged under this roof"
    if fraction >= least:
        return None
    below = (least - fraction) * 100
    return f"{kind} at {fraction * 100:.1f} % {denominator}, {below:.1f} points below {least * 100:g} %"
