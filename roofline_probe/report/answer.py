"""The ten-second answer in as few sentences as hold it; what weighs too little for it stands among the notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from roofline_probe.diagnose import Finding
from roofline_probe.report import finding_words as words
from roofline_probe.report.finding_numbers import Numbers, figure_of, text_of

SMALL = 0.05
"""A share of the steady time below this is no part of the answer."""
_ALL = 0.995


@dataclass
class _Kind:
    """The headline findings about one kind of work."""

    bound: Numbers | None = None
    parts: Numbers | None = None
    speedup: float | None = None
    waiting: list[Numbers] = field(default_factory=list)

    @property
    def only_waits(self) -> bool:
        return bool(self.waiting) and (self.bound is None or text_of(self.bound, "bound") == "host")

    @property
    def small(self) -> bool:
        return self.bound is not None and _share([self.bound]) < SMALL

    def clause(self, *, brief: bool) -> str:
        """``Decode (68 % of the steady time) is bound by memory, ...``; nothing where the GPU only waits."""
        if self.bound is None or self.only_waits:
            return ""
        return words.bound_clause(self.bound, brief=brief)


def answer(findings: Sequence[Finding]) -> list[str]:
    """The headlines: what would give the kinds without one theirs; a kind whose step is taken apart, the other kinds
    together, where the GPU waits for the host.
    """
    kinds = _by_kind(findings)
    waiting = [numbers for kind in kinds.values() for numbers in kind.waiting]
    said = [words.sentence(finding) for finding in findings if finding.code in ("no_headline", "no_steady_window")]
    said += _kinds([kind for kind in kinds.values() if not kind.small])
    if kinds and all(kind.only_waits for kind in kinds.values()):
        return [words.waiting_sentence(waiting, throughout=_share(waiting) >= _ALL), *said]
    return said + ([words.waiting_sentence(waiting)] if _share(waiting) >= SMALL else [])


def notes(findings: Sequence[Finding]) -> list[str]:
    """What is too small for the answer; how the counts differ, which limits were met, what the log cannot say."""
    kinds = _by_kind(findings)
    waiting = [numbers for kind in kinds.values() for numbers in kind.waiting]
    said = _kinds([kind for kind in kinds.values() if kind.small])
    if waiting and _share(waiting) < SMALL:
        said.append(words.waiting_sentence(waiting))
    return said + _merged([finding for finding in findings if finding.weight == "note"])


def _merged(found: Sequence[Finding]) -> list[str]:
    """A sentence a note; those on how the engine counts one quantity for one reason are one."""
    counts: dict[tuple[str, str], list[Numbers]] = {}
    for finding in found:
        if finding.code in _COUNTS:
            counts.setdefault(_counted(finding), []).append(finding.numbers)
    return [
        words.counts_sentence(counts.pop(_counted(finding))) if finding.code in _COUNTS else words.sentence(finding)
        for finding in found
        if finding.code not in _COUNTS or _counted(finding) in counts
    ]


_COUNTS = ("engine_counts_more", "engine_counts_less")


def _counted(finding: Finding) -> tuple[str, str]:
    return text_of(finding.numbers, "quantity"), text_of(finding.numbers, "why")


def told(findings: Sequence[Finding]) -> set[str]:
    """Codes of the warnings that the answer has told already."""
    codes = {"no_steady_window"}
    for finding in findings:
        if finding.code == "no_headline":
            codes |= _TOLD_BY.get(text_of(finding.numbers, "why"), set())
        if finding.code == "not_taken_apart":
            codes.add(text_of(finding.numbers, "why"))
    return codes


_TOLD_BY: dict[str, set[str]] = {
    "dimensions": {"engine_only"},
    "pi": {"pi_missing"},
    "beta": {"beta_missing"},
}


def _by_kind(findings: Sequence[Finding]) -> dict[str, _Kind]:
    kinds: dict[str, _Kind] = {}
    for finding in findings:
        if finding.code not in ("bound", "parts", "no_overhead", "waiting_for_host"):
            continue
        kind = kinds.setdefault(text_of(finding.numbers, "kind"), _Kind())
        if finding.code == "bound":
            kind.bound = finding.numbers
        elif finding.code == "parts":
            kind.parts = finding.numbers
        elif finding.code == "no_overhead":
            kind.speedup = figure_of(finding.numbers, "speedup")
        else:
            kind.waiting.append(finding.numbers)
    return kinds


def _share(found: Sequence[Numbers]) -> float:
    """Of the steady time; where it is not known, all of it: nothing is hidden for want of a figure."""
    shares = [figure_of(numbers, "share") for numbers in found]
    return sum(1.0 if share is None else share for share in shares)


def _kinds(kinds: Sequence[_Kind]) -> list[str]:
    """A paragraph for each kind whose step is taken apart, then one sentence for all the others."""
    said: list[str] = []
    for kind in kinds:
        if kind.parts is not None:
            clause = kind.clause(brief=False)
            step = words.parts_sentence(kind.parts, speedup=kind.speedup, follows=bool(clause))
            said.append(f"{clause}. {step}" if clause else step)
    brief = bool(said)
    others = [clause for kind in kinds if kind.parts is None and (clause := kind.clause(brief=brief))]
    if others:
        first, *rest = others
        said.append("; ".join([first, *(clause[:1].lower() + clause[1:] for clause in rest)]) + ".")
    return said
