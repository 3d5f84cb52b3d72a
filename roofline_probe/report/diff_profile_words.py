"""What ``probe diff`` found in two profiles, in words: the same sentences on a terminal and in Markdown."""

from __future__ import annotations

from roofline_probe.diff.profiles import REPEATS_WITHIN, FactChange, FigureChange, ProfileDiff
from roofline_probe.report.diff_words import amount, change_cell
from roofline_probe.report.text import DASH, clean, count, listed, percent, significant

_FACTS: dict[str, str] = {
    "name": "card",
    "uuid": "UUID",
    "power_limit_w": "power limit",
    "sm_clock_max_mhz": "highest SM clock",
    "memory_clock_max_mhz": "highest memory clock",
    "ecc": "ECC",
    "mig": "MIG",
    "memory_bytes": "memory",
    "threads": "CPU threads",
    "blas": "BLAS",
    "probe_version": "probe",
}
_SWITCH = {"True": "on", "False": "off"}


def fact_words(fact: FactChange) -> tuple[str, str, str]:
    """``("highest memory clock", "3,201 MHz", "–")``: name, before, after."""
    return _FACTS.get(fact.name, fact.name), _fact_value(fact.name, fact.before), _fact_value(fact.name, fact.after)


def _fact_value(name: str, value: str | None) -> str:
    if value is None:
        return DASH
    if name == "memory_bytes":
        return f"{int(value) / 1e9:,.2f} GB"
    unit = {"w": " W", "mhz": " MHz"}.get(name.rsplit("_", 1)[-1])
    return f"{float(value):,.10g}{unit}" if unit else clean(_SWITCH.get(value, value), 60)


def _limit(change: FigureChange) -> float:
    return REPEATS_WITHIN[change.group] * 100


def figure_cell(change: FigureChange) -> str:
    """The change in percent; in brackets where it is not judged, a dash where there is none."""
    if change.relative is None:
        return DASH
    cell = change_cell(change.relative, _limit(change))
    return f"({cell})" if change.unjudged else cell


def figure_words(change: FigureChange, limit: float | None = None) -> str:
    """``pi bf16 sustained 683 -> 652 TFLOP/s: 4.5 % worse``; ``limit`` is the percentage that it is held against."""
    name = f"{change.group} {clean(change.name)}"
    if change.relative is None or change.worse_by is None:
        known = change.before if change.before is not None else change.after
        return f"{name} {significant(known)} {change.unit}: measured {change.verdict}"
    figures = f"{significant(change.before)} -> {significant(change.after)} {change.unit}"
    if change.verdict == "unchanged":
        return f"{name} {figures}: unchanged"
    held = _limit(change) if limit is None else limit
    return f"{name} {figures}: {amount(change.relative, held)} {_verdict(change.group, change.verdict)}"


def _verdict(group: str, verdict: str) -> str:
    """A clock explains a change and is no better or worse for it."""
    return {"worse": "lower", "better": "higher"}[verdict] if group == "clock" else verdict


def profile_headline(diff: ProfileDiff) -> str:
    """``2 figures worse, 1 better, 14 unchanged, 6 not judged.``"""
    verdicts = [f.verdict for f in diff.figures if not f.unjudged]
    worse, better, same = (verdicts.count(v) for v in ("worse", "better", "unchanged"))
    others = len(diff.figures) - len(verdicts)
    return (
        f"{count(worse, 'figure')} worse, {better} better, {same} unchanged{f', {others} not judged' * bool(others)}."
    )


_UNJUDGED = {
    "launch": ("small message", " timed by the host, which is mostly its launch (in brackets)"),
    "clock": ("clock", ", told because it explains a change (in brackets)"),
    "one side": ("figure", " in one profile only"),
    "timers": ("message", " timed differently"),
}


def unjudged_note(diff: ProfileDiff) -> str | None:
    """Which figures are shown and not judged, and why; None where all are judged."""
    reasons = [figure.unjudged for figure in diff.figures]
    told = [f"{count(reasons.count(r), what)}{why}" for r, (what, why) in _UNJUDGED.items() if r in reasons]
    return f"not judged: {'; '.join(told)}" if told else None


def profile_sentences(diff: ProfileDiff) -> list[str]:
    """Each peak that changed, and in one sentence each ceiling, collective and the clocks where much did."""
    series: dict[tuple[str, str], list[FigureChange]] = {}
    for figure in diff.figures:
        if figure.gated or figure.group == "clock":
            series.setdefault((figure.group, figure.series), []).append(figure)
    return [sentence for figures in series.values() for sentence in _series_sentences(figures)]


def _series_sentences(figures: list[FigureChange]) -> list[str]:
    changed = [f for f in figures if f.verdict != "unchanged"]
    if len(changed) <= 2 or figures[0].group in ("pi", "beta"):
        return [figure_words(f) for f in changed]
    told = []
    for verdict in ("worse", "better"):
        by = sorted((f.relative for f in changed if f.verdict == verdict and f.relative is not None), key=abs)
        if by:
            least, most = (amount(relative, _limit(figures[0])) for relative in (by[0], by[-1]))
            ends = [least.removesuffix(" %") if most.endswith("%") else least, most] if least != most else [most]
            told.append(f"{len(by)} of {len(figures)} {_verdict(figures[0].group, verdict)}, by {' to '.join(ends)}")
    name = f"{figures[0].group} {clean(figures[0].series)}".rstrip()
    return [f"{name}: {'; '.join(told)}"] if told else []


def repeats_note() -> str:
    """``a change counts from 1 % (pi, beta), 3 % (ceiling, link, clock): closer, one card does not repeat``."""
    groups: dict[float, list[str]] = {}
    for group, within in REPEATS_WITHIN.items():
        groups.setdefault(within, []).append(group)
    told = ", ".join(f"{percent(within)} ({', '.join(names)})" for within, names in groups.items())
    return f"a change counts from {told}: closer, one card does not repeat"


def profile_caveats(diff: ProfileDiff) -> list[str]:
    """What stands between the two profiles."""
    sentences = {
        "different_card": "These are different kinds of card: the figures compare hardware, not a change on one card.",
        "other_card_of_this_kind": "Two cards of one kind: they differ by a few percent as they are.",
        "different_method": "They were measured by different versions of the method; measure again before judging.",
        "quick": "At least one is a --quick run, whose figures are less settled.",
        "incomplete": "At least one run was interrupted; what it lacks is not compared.",
        "different_timers": "Some collectives were timed in a CUDA graph in one profile and by the host in the other, "
        "which adds its launch: they are shown and not judged.",
    }
    named = (("before", diff.only_before), ("after", diff.only_after))
    alone = [f"Only {when} holds {listed([clean(name) for name in names])}." for when, names in named if names]
    return [*(sentences[code] for code in diff.caveats), *alone]
