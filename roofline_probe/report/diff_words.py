"""What ``probe diff`` found in two logs, in words: the same sentences on a terminal, in Markdown and in JSON."""

from __future__ import annotations

from collections.abc import Sequence

from roofline_probe.diff.logs import BinChange, Change, KindChange, LogDiff, Side, over
from roofline_probe.diff.pace import MIN_WINDOWS, UNCHANGED, Pace
from roofline_probe.report.text import DASH, clean, count, listed, model_name, number, percent, significant, span

LIKE = "at the same batch and context, within 10 %"
_PARTS = (("gemm_ms", "GEMMs"), ("kv_ms", "KV reads"), ("link_ms", "all-reduces"))
_MOVED = 0.03
"""A mean batch or context that moved by more than this inside its bin is told, since it moves the parts too."""
_FACTOR_FROM = 2.0
"""Changes from here on are told as a factor."""


def points(fraction: float, limit: float | None = None) -> str:
    """``6.1``: a percentage without its sign, to a tenth; finer where that would put it on the other side of ``limit``
    (percent), as 0.98 shown as 1.0 beside a limit of 1."""
    value = abs(fraction) * 100
    if limit is None:
        return f"{value:.1f}"
    shown = [f"{value:.{digits}f}" for digits in range(1, 5)]
    return next((s for s in shown if (float(s) > limit, float(s) < limit) == (value > limit, value < limit)), shown[0])


def signed(fraction: float, limit: float | None = None) -> str:
    """``+6.1``, ``-0.4``; what rounds to zero has no sign."""
    shown = points(fraction, limit)
    return shown if float(shown) == 0 else f"{'-' if fraction < 0 else '+'}{shown}"


def _factor(relative: float) -> str | None:
    """``3.1x`` for a figure that more than doubled or fell below half, whichever way; None for a smaller change."""
    ratio = 1 + relative
    larger = max(ratio, 1 / ratio) if ratio > 0 else 0.0
    return f"{significant(larger, 2)}x" if larger >= _FACTOR_FROM else None


def amount(relative: float, limit: float | None = None) -> str:
    """``6.1 %``, or ``3.1x`` from a factor of two on."""
    return _factor(relative) or f"{points(relative, limit)} %"


def change_cell(relative: float, limit: float | None = None) -> str:
    """Of a column headed ``%``: ``+6.1``, or after / before from a factor of two on: ``3.1x``, ``0.32x``."""
    return signed(relative, limit) if _factor(relative) is None else f"{significant(1 + relative, 2)}x"


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


def answers(diff: LogDiff) -> list[tuple[str, str]]:
    """The headlines, each with its verdict: a kind compared each, then the others, one for all of the same reason."""
    if not diff.bins:
        return [(_nothing_in_common(diff), "")]
    found = [(kind_sentence(kind), kind.pace.verdict) for kind in diff.kinds if kind.pace]
    groups: dict[tuple[str | None, bool], list[KindChange]] = {}
    for kind in diff.kinds:
        if kind.pace is None:
            groups.setdefault((kind.only, kind.common_bins > 0), []).append(kind)
    return found + [(_uncompared(kinds), "") for kinds in groups.values()]


def _nothing_in_common(diff: LogDiff) -> str:
    empty = [when for when, side in (("before", diff.before), ("after", diff.after)) if not side.steady_windows]
    if empty:
        verb = "holds" if len(empty) == 1 else "hold"
        return f"{listed(empty).capitalize()} {verb} no steady window: nothing can be compared."
    return "The two logs have no kind, batch and context in common: nothing can be compared."


def _uncompared(kinds: Sequence[KindChange]) -> str:
    """Why there is no pace, the same reason for all of ``kinds``."""
    names, first = listed([kind.kind for kind in kinds]), kinds[0]
    if first.only:
        return f"{names}: in {first.only} only."
    if not first.common_bins:
        return f"{names}: nothing compared, the logs have no bin of batch and context in common."
    others = _left_out(sum(kind.thin_bins for kind in kinds), sum(kind.unlike_bins for kind in kinds))
    return (
        f"{names}: nothing compared, no bin has {MIN_WINDOWS} windows on each side {LIKE}"
        f"{f' ({listed(others)})' if others else ''}; log for longer, or serve the same load twice."
    )


def _left_out(thin: int, unlike: int) -> list[str]:
    return [f"{bins} {why}" for bins, why in ((thin, "too thin"), (unlike, "not alike in batch and context")) if bins]


def kind_sentence(kind: KindChange) -> str:
    """The headline of one kind."""
    if kind.pace is None:
        return _uncompared([kind])
    others = _left_out(kind.thin_bins, kind.unlike_bins)
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
        tokens = "token" if change.batch_high == 1 else "tokens"
        return f"prefill of {span(change.batch_low, change.batch_high)} {tokens} a step"
    context = f", context {span(change.context_low, change.context_high)}" if change.context_low is not None else ""
    return f"{'mixed at ' if change.kind == 'mixed' else ''}batch {span(change.batch_low, change.batch_high)}{context}"


def bin_sentences(diff: LogDiff) -> list[str]:
    """One sentence a bin that changed, one for all that did not; those that cannot be judged stand in the table."""
    changed = changed_bins(diff)
    same = [bin_name(change) for change in diff.bins if _is_the_same(change)]
    found = [bin_sentence(change) for change in changed]
    if same:
        those = f"the {'other ' if changed else ''}{len(same)} bins compared" if len(same) > 3 else "; ".join(same)
        found.append(f"{'unchanged:' if changed else 'nothing in'} {those}")
    return found


def changed_bins(diff: LogDiff) -> list[BinChange]:
    """Those of which there is more to tell than that nothing changed."""
    return [c for c in diff.bins if c.verdict not in ("too thin", "not alike") and not _is_the_same(c)]


def _is_the_same(change: BinChange) -> bool:
    """Pace, parts, mean batch and context, none of which might have changed by chance."""
    pace = change.pace
    if pace is None or pace.verdict != "unchanged" or abs(pace.slower) >= UNCHANGED:
        return False
    return not _moves(change) and all(part.endswith("unchanged") for part in _part_words(change, False))


def verdict_notes(bins: Sequence[BinChange]) -> list[str]:
    """What the table's words for a bin without a pace mean, as far as there are any."""
    meanings = {
        "too thin": f"too thin: under {MIN_WINDOWS} windows on a side",
        "not alike": f"not alike: under {MIN_WINDOWS} windows at the batch and context of the other side's",
    }
    verdicts = {change.verdict for change in bins}
    return [meaning for verdict, meaning in meanings.items() if verdict in verdicts]


def gate_words(diff: LogDiff, percent: float) -> list[str]:
    """What failed ``--fail-over``: kinds, and bins that their kind's sum would hide."""
    kinds, bins = over(diff, percent)
    found = []
    for kind in kinds:
        own = [change.pace.slower for change in bins if change.kind == kind.kind and change.pace]
        most = f" ({count(len(own), 'bin')}, up to {amount(max(own), percent)})" if len(own) > 1 else ""
        found.append(f"{kind.kind} {amount(kind.pace.slower, percent)} slower{most}" if kind.pace else kind.kind)
    hidden = [change for change in bins if change.kind not in {kind.kind for kind in kinds}]
    return found + [f"{bin_name(c)}: {amount(c.pace.slower, percent)} slower" for c in hidden if c.pace]


def bin_sentence(change: BinChange) -> str:
    """``batch 32: engine rest 0.97 -> 1.40 ms; kernels unchanged; decode 6.1 % slower (4.2 to 8.0)``.

    Parts are means of the whole bin, so what moved its batch or context is told before them, and the pace after them.
    """
    if change.thin:
        least = min(change.before_windows, change.after_windows)
        return (
            f"{bin_name(change)}: too thin to judge ({count(least, 'window')}; {MIN_WINDOWS} are needed on both sides)"
        )
    name = bin_name(change)
    moves, pace = _moves(change), pace_words("" if name == change.kind else change.kind, change.pace).strip()
    if change.verdict == "not alike":
        pace = f"too few windows {LIKE}: not compared"
    elif moves:
        pace = f"like for like {pace}"
    return f"{name}: {'; '.join((*moves, *_part_words(change, bool(moves)), pace))}"


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
    version = f" {clean(side.engine_version, 30)}" if side.engine_version else ""
    parts = [f"{_engine(side)}{version}", _model(side), clean(side.quantization or side.dtype or "", 30)]
    parts.append(f"TP {side.tp}" if (side.tp or 1) > 1 else "")
    parts.append(count(side.steady_windows, "steady window"))
    return ", ".join(part for part in parts if part)


def _engine(side: Side) -> str:
    return {"vllm": "vLLM", "sglang": "SGLang"}.get(side.engine or "", clean(side.engine or "engine not named", 30))


def _model(side: Side) -> str:
    return clean(model_name(side.model), 60) or "model not named"


def path_words(name: str) -> str:
    """A side's path, safe to show and whole: it is there to be copied."""
    return clean(name, 4096)


def log_caveats(diff: LogDiff) -> list[str]:
    """What stands between the two logs, one sentence each."""
    one, two = diff.before, diff.after
    sentences = {
        "different_engine": f"Different engines ({_engine(one)}, {_engine(two)}): each counts FLOPs and bytes in its "
        "own way, so only recounted figures are compared.",
        "different_card": f"Different cards ({clean(one.device, 60)}, {clean(two.device, 60)}, both assumed): attained "
        "stands under each one's own roof, the pace compares times, and only recounted figures are compared.",
        "different_model": f"Different models ({_model(one)}, {_model(two)}): times differ because the work does.",
        "different_dtype": f"Different formats ({_format(one)}, {_format(two)}): a step reads other bytes.",
        "different_tp": f"Tensor parallel {one.tp} against {two.tp}: FLOPs and bytes are those of one GPU, tok/s and "
        "step times the server's.",
        "different_roof": "The two logs stand under different roofs: attained and a step's parts are each under its "
        "own, the pace compares times.",
    }
    return [sentences[code] for code in diff.caveats]


def _format(side: Side) -> str:
    return clean(side.quantization or side.dtype or "unknown", 30)


def only_words(diff: LogDiff) -> list[str]:
    """What only one of the logs ran."""
    if not (diff.before.steady_windows and diff.after.steady_windows):
        return []
    named = (("before", diff.only_before), ("after", diff.only_after))
    return [f"Only {when}: {listed(_first(bins))}." for when, bins in named if bins]


def _first(bins: tuple[str, ...], most: int = 4) -> list[str]:
    return [*bins[:most], f"{len(bins) - most} more"] if len(bins) > most + 1 else list(bins)
