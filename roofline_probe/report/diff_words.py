"""What ``probe diff`` found, in words: the same sentences on a terminal, in Markdown and in JSON."""

from __future__ import annotations

from roofline_probe.diff.logs import BinChange, Change, KindChange, LogDiff, Side, over
from roofline_probe.diff.pace import MIN_WINDOWS, UNCHANGED, Pace
from roofline_probe.diff.profiles import REPEATS_WITHIN, FigureChange, ProfileDiff
from roofline_probe.report.text import DASH, clean, count, listed, number, percent, significant, span

LIKE = "at the same batch and context, within 10 %"
_PARTS = (("gemm_ms", "GEMMs"), ("kv_ms", "KV reads"), ("link_ms", "all-reduces"))
_MOVED = 0.03
"""A mean batch or context that moved by more than this inside its bin is told, since it moves the parts too."""
_FACTOR_FROM = 2.0
"""Changes from here on are told as a factor."""


def points(fraction: float) -> str:
    """``6.1``: a percentage without its sign, to a tenth as everywhere in a diff."""
    return f"{abs(fraction) * 100:.1f}"


def signed(fraction: float) -> str:
    """``+6.1``, ``-0.4``; what rounds to zero has no sign."""
    shown = points(fraction)
    return shown if float(shown) == 0 else f"{'-' if fraction < 0 else '+'}{shown}"


def _factor(relative: float) -> str | None:
    """``3.1x`` for a figure that more than doubled or fell below half, whichever way; None for a smaller change."""
    ratio = 1 + relative
    larger = max(ratio, 1 / ratio) if ratio > 0 else 0.0
    return f"{significant(larger, 2)}x" if larger >= _FACTOR_FROM else None


def amount(relative: float) -> str:
    """``6.1 %``, or ``3.1x`` from a factor of two on."""
    return _factor(relative) or f"{points(relative)} %"


def change_cell(relative: float) -> str:
    """Of a column headed ``%``: ``+6.1``, or after / before from a factor of two on: ``3.1x``, ``0.32x``."""
    return signed(relative) if _factor(relative) is None else f"{significant(1 + relative, 2)}x"


def pace_words(what: str, pace: Pace | None) -> str:
    """``decode 6.1 % slower (4.2 to 8.0)``, ``decode 3.1x slower (2.9x to 3.3x)``."""
    if pace is None:
        return f"{what} cannot be compared"
    if pace.verdict == "unchanged":
        bounds = f"({signed(pace.low)} to {signed(pace.high)} %)"
        if abs(pace.slower) < UNCHANGED:
            return f"{what} unchanged {bounds}"
        return f"{what} {amount(pace.slower)} {'slower' if pace.slower > 0 else 'faster'}, which may be chance {bounds}"
    low, high = sorted((pace.low, pace.high), key=abs)
    ends = [_factor(end) or points(end) for end in (low, high)]
    unit = " %" if ends[0][-1] != ends[1][-1] == "x" else ""
    return f"{what} {amount(pace.slower)} {pace.verdict} ({ends[0]}{unit} to {ends[1]})"


def kind_sentence(kind: KindChange) -> str:
    """The headline of one kind."""
    left = ((kind.thin_bins, "too thin"), (kind.unlike_bins, "not alike in batch and context"))
    others = [f"{bins} {why}" for bins, why in left if bins]
    if kind.pace is None:
        return (
            f"{kind.kind}: nothing compared, no bin has {MIN_WINDOWS} windows on each side {LIKE}"
            f"{f' ({listed(others)})' if others else ''}; log for longer, or serve the same load twice."
        )
    share = percent(kind.compared_fraction)
    share = "" if share in (DASH, "100 %") else f" with {share} of before's time"
    told = ", ".join((f"{count(kind.bins, 'bin')} compared{share}", *others))
    return f"{pace_words(kind.kind, kind.pace)} {_like(kind)}: {told}."


def _like(kind: KindChange) -> str:
    """What was the same in the windows compared. Only what the logs tell is claimed."""
    if kind.kind == "prefill":
        return "for the same work"
    if kind.known == ("batch", "context"):
        return LIKE
    if kind.known == ("batch",):
        return "at the same batch, within 10 %, the context not being known"
    return "with batch and context not known"


def bin_name(change: BinChange) -> str:
    """``batch 32``, ``batch 33–63, context 1,043–2,368``, ``prefill of 8,192 tokens a step``."""
    if change.batch_low is None:
        return change.kind
    if change.kind == "prefill":
        return f"prefill of {span(change.batch_low, change.batch_high)} tokens a step"
    context = f", context {span(change.context_low, change.context_high)}" if change.context_low is not None else ""
    return f"{'mixed at ' if change.kind == 'mixed' else ''}batch {span(change.batch_low, change.batch_high)}{context}"


def bin_sentences(diff: LogDiff) -> list[str]:
    """One sentence a bin that can be judged, and one for all that are too thin or hold no like work."""
    found = [bin_sentence(change) for change in diff.bins if change.verdict not in ("too thin", "not alike")]
    unlike = [", ".join((bin_name(c), *_moves(c))) for c in diff.bins if c.verdict == "not alike"]
    if unlike:
        found.append(f"Not compared, too few windows {LIKE}: {'; '.join(unlike)}.")
    thin = [f"{bin_name(c)} ({c.before_windows} -> {c.after_windows})" for c in diff.bins if c.thin]
    if thin:
        found.append(f"Too thin to judge, {MIN_WINDOWS} windows are needed on both sides: {'; '.join(thin)}.")
    return found


def gate_words(diff: LogDiff, percent: float) -> list[str]:
    """What failed ``--fail-over``: kinds, and bins that their kind's sum would hide."""
    kinds, bins = over(diff, percent)
    named = [(kind.kind, kind.pace) for kind in kinds] + [(bin_name(change), change.pace) for change in bins]
    return [f"{name} {amount(pace.slower)} slower" for name, pace in named if pace]


def bin_sentence(change: BinChange) -> str:
    """``batch 32: engine rest 0.97 -> 1.40 ms; kernels unchanged; decode 6.1 % slower (4.2 to 8.0)``.

    Parts are means of the whole bin, so what moved its batch or context is told before them, and the pace after them.
    """
    if change.thin:
        least = min(change.before_windows, change.after_windows)
        return (
            f"{bin_name(change)}: too thin to judge ({count(least, 'window')}; {MIN_WINDOWS} are needed on both sides)"
        )
    moves, pace = _moves(change), pace_words(change.kind, change.pace)
    if change.verdict == "not alike":
        pace = f"too few windows {LIKE}: not compared"
    elif moves:
        pace = f"like for like {pace}"
    return f"{bin_name(change)}: {'; '.join((*moves, *_part_words(change, bool(moves)), pace))}"


def mean_move(change: BinChange, name: str) -> str | None:
    """``571 -> 480`` where the mean ``batch`` or ``context`` moved inside the bin; None where it stayed."""
    mean = change.changes[name]
    if mean.relative is None or abs(mean.relative) <= _MOVED:
        return None
    before, after = (number(v) if v and v >= 100 else significant(v) for v in (mean.before, mean.after))
    return f"{before} -> {after}"


def _moves(change: BinChange) -> list[str]:
    size = "tokens a step" if change.kind == "prefill" else "batch"
    means = ((size, mean_move(change, "batch")), ("context", mean_move(change, "context")))
    return [f"mean {name} {move}" for name, move in means if move]


def _part_words(change: BinChange, work_moved: bool) -> list[str]:
    step, rest = change.changes["step_ms"], change.changes["rest_ms"]
    if rest.before is None or rest.after is None or not step.before:
        return []
    floor = step.before * UNCHANGED
    engine = f"engine rest {_arrow(rest)}{'' if rest.certain else ' (may be chance)'}"
    kernels = [(name, change.changes[field]) for field, name in _PARTS]
    moved = [f"{name} {_arrow(part)}" for name, part in kernels if _moved(part, floor)]
    if not moved and not work_moved:
        moved = ["kernels unchanged"]
    return [engine if _moved(rest, floor) else "engine rest unchanged", *moved]


def _moved(part: Change, floor: float) -> bool:
    return part.difference is not None and abs(part.difference) >= floor


def _arrow(part: Change) -> str:
    return f"{part.before:.2f} -> {part.after:.2f} ms"


def side_words(side: Side) -> str:
    """``vLLM 0.24.0, Meta-Llama-3-8B, bf16, 143 steady windows``: what a log is, without its name."""
    engine = {"vllm": "vLLM", "sglang": "SGLang"}.get(side.engine or "", side.engine or "engine not named")
    version = f" {clean(side.engine_version, 30)}" if side.engine_version else ""
    model = clean(side.model.rstrip("/").rsplit("/", 1)[-1], 60) if side.model else "model not named"
    parts = [f"{engine}{version}", model, clean(side.quantization or side.dtype or "", 30)]
    parts.append(f"TP {side.tp}" if (side.tp or 1) > 1 else "")
    parts.append(count(side.steady_windows, "steady window"))
    return ", ".join(part for part in parts if part)


def path_words(name: str) -> str:
    """A side's path, safe to show and whole: it is there to be copied."""
    return clean(name, 4096)


def log_caveats(diff: LogDiff) -> list[str]:
    """What stands between the two logs, one sentence each."""
    one, two = diff.before, diff.after
    sentences = {
        "different_engine": f"Different engines ({one.engine}, {two.engine}): each counts its own way, so the engines' "
        "own FLOPs and bytes are left out and only recounted figures are compared.",
        "different_card": f"Different cards ({clean(one.device, 60)}, {clean(two.device, 60)}, both assumed): attained "
        "stands under each one's own roof, the pace compares times, and only recounted figures are compared.",
        "different_model": f"Different models ({clean(one.model, 60)}, {clean(two.model, 60)}): "
        "times differ because the work does.",
        "different_dtype": f"Different formats ({_format(one)}, {_format(two)}): the roof and the bytes differ.",
        "different_tp": f"Tensor parallel {one.tp} against {two.tp}: each figure is that of one GPU.",
        "different_roof": "The two logs stand under different roofs: the pace compares times, not attained.",
    }
    return [sentences[code] for code in diff.caveats]


def _format(side: Side) -> str:
    return clean(side.quantization or side.dtype or "unknown", 30)


def only_words(diff: LogDiff) -> list[str]:
    """What only one of the logs ran."""
    named = (("before", diff.only_before), ("after", diff.only_after))
    return [f"Only {when}: {listed(_first(bins))}." for when, bins in named if bins]


def _first(bins: tuple[str, ...], most: int = 4) -> list[str]:
    return [*bins[:most], f"{len(bins) - most} smaller ones"] if len(bins) > most + 1 else list(bins)


# ---- profiles --------------------------------------------------------------------------------------------------------


def figure_words(change: FigureChange) -> str:
    """``pi bf16 sustained 683 -> 652 TFLOP/s: 4.5 % worse``."""
    name = f"{change.group} {clean(change.name)}"
    if change.relative is None or change.worse_by is None:
        known = change.before if change.before is not None else change.after
        return f"{name} {significant(known)} {change.unit}: measured {change.verdict}"
    figures = f"{significant(change.before)} -> {significant(change.after)} {change.unit}"
    tail = "unchanged" if change.verdict == "unchanged" else f"{amount(change.relative)} {change.verdict}"
    return f"{name} {figures}: {tail}"


def profile_headline(diff: ProfileDiff) -> str:
    """``2 figures worse, 1 better, 14 unchanged.``"""
    verdicts = [f.verdict for f in diff.figures if f.gated]
    worse, better, same = (verdicts.count(v) for v in ("worse", "better", "unchanged"))
    return f"{count(worse, 'figure')} worse, {better} better, {same} unchanged."


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
            least, most = amount(by[0]), amount(by[-1])
            least = least.removesuffix(" %") if most.endswith("%") else least
            told.append(f"{len(by)} of {len(figures)} {verdict}, by {least} to {most}")
    name = f"{figures[0].group} {clean(figures[0].series)}".rstrip()
    return [f"{name}: {'; '.join(told)}"] if told else []


def repeats_note() -> str:
    """``a change counts from 1 % (pi, beta), 2 % (ceiling) …: so far runs on one card repeat``."""
    groups: dict[float, list[str]] = {}
    for group, within in REPEATS_WITHIN.items():
        groups.setdefault(within, []).append(group)
    told = ", ".join(f"{within:.0%} ({', '.join(names)})" for within, names in groups.items())
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
    return [sentences[code] for code in diff.caveats]
