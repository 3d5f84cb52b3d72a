"""Findings as sentences: one function a code, so that a code without words is seen by the test that lists them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from roofline_probe.diagnose import Finding
from roofline_probe.report import advice_words, caveats
from roofline_probe.report.finding_numbers import Numbers, capital, figure_of, ms_of, text_of, whole_of
from roofline_probe.report.text import clean, count, listed, number, percent, row_name, significant

BOUND_WORDS = {"compute": "arithmetic", "memory": "memory", "link": "the link between cards", "host": "the host"}


def sentence(finding: Finding) -> str:
    """One finding in words; a code without words shows itself, so that nothing is dropped silently."""
    words = WORDS.get(finding.code)
    return words(finding.numbers) if words is not None else clean(finding.code.replace("_", " ")) + "."


def advice(findings: Sequence[Finding]) -> list[str]:
    """What would help, and what would not; the decode row that most of it is about is named once."""
    said: list[str] = []
    named = False
    for finding in findings:
        if finding.weight != "advice" or finding.code == "no_overhead":
            continue
        of_decode = finding.code not in ("prefill_at_limit", "prefill_below_limit")
        said.append(sentence(replace(finding, numbers={**finding.numbers, "there": int(of_decode and named)})))
        named = named or of_decode
    return said


def _no_headline(n: Numbers) -> str:
    kinds = listed([kind.strip() for kind in text_of(n, "kinds").split(",") if kind.strip()])
    dtype = text_of(n, "dtype")
    none = f"so there is no percentage for {kinds or 'this log'}"
    return {
        "dimensions": f"The log does not tell the model's dimensions, {none}: add --model NAME (a known model or a "
        "config.json).",
        "pi": f"There is no pi for {dtype} under this roof, {none}: `probe measure --dtype {dtype}` on the device that "
        "served would measure it, --pi TFLOPS gives it.",
        "beta": f"There is no beta under this roof, {none}: a whole `probe measure` would measure it, --beta GBPS "
        "gives it.",
        "context": f"The log does not tell the size of the KV cache, {none}: it is printed at start-up, so give the "
        "log from its beginning.",
    }.get(text_of(n, "why"), f"The log does not tell enough, {none}; the reasons stand below.")


def bound_clause(n: Numbers, *, brief: bool = False) -> str:
    """What bounds a kind, without its full stop; ``brief``: what its share is a share of was said before."""
    kind, bound = text_of(n, "kind").capitalize(), text_of(n, "bound")
    by = f"is bound by {BOUND_WORDS.get(bound, bound)}" if bound else "has no clear bound"
    share = figure_of(n, "share")
    of_what = "" if brief else " of the steady time"
    took = f" ({percent(share)}{of_what})" if share is not None and share < 0.995 else ""
    return f"{kind}{took} {by}, at {percent(figure_of(n, 'roof_fraction'))} of {text_of(n, 'of')}"


def _bound(n: Numbers) -> str:
    return f"{bound_clause(n)}."


_PARTS = (("gemm_ms", "of GEMMs"), ("kv_ms", "of reading KV"))


def parts_sentence(n: Numbers, *, speedup: float | None = None, follows: bool = True) -> str:
    """A kind's mean step taken apart; ``follows``: a sentence before it names the kind."""
    whose = "its" if follows else f"{text_of(n, 'kind')}'s"
    step = f"{whose} mean step {{}}{ms_of(n, 'step_ms')}"
    known = [(field, name) for field, name in _PARTS if figure_of(n, field) is not None]
    parts = [f"{ms_of(n, field)} {name}" for field, name in known]
    link = figure_of(n, "link_ms") or 0.0
    if link >= 0.005:
        least = "at least " if figure_of(n, "link_lower_bound") else ""
        parts.append(f"{least}{ms_of(n, 'link_ms')} ({percent(link / (figure_of(n, 'step_ms') or link))}) on the link")
    estimated = ", estimated from the roofs," if figure_of(n, "estimated") else ""
    rest = figure_of(n, "rest_ms")
    with_what = "at these rates" if estimated else "with these kernels"
    adds = "the engine adds" if figure_of(n, "link_ms") is not None else "the engine and the link between cards add"
    if rest is None:
        unknown = "how long it reads KV is not known"
        return f"Of {step.format('of ')}, {listed(parts)}{estimated} cannot be avoided {with_what}; {unknown}."
    if rest <= 0:
        return f"{capital(step.format('takes '))}; {listed(parts)}{estimated} explain all of it."
    without = f": without that it would be at most {significant(speedup)}× as fast" if speedup is not None else ""
    return (
        f"Of {step.format('of ')}, {listed(parts)}{estimated} "
        f"cannot be avoided {with_what}; {ms_of(n, 'rest_ms')} is what {adds}{without}."
    )


def _link_share(n: Numbers) -> str:
    least = "at least " if figure_of(n, "lower_bound") else ""
    return f"The link between cards takes {least}{percent(figure_of(n, 'share'))} of it."


def _no_overhead(n: Numbers) -> str:
    return f"With none of what the engine adds it would be at most {significant(figure_of(n, 'speedup'))}× as fast."


_WHY_HOST = "too few requests, prefix-cache hits, or a busy CPU"


def waiting_sentence(found: Sequence[Numbers], *, throughout: bool = False) -> str:
    """One sentence for all windows in which the GPU waits, however many rows they make."""
    highest = percent(max((figure_of(n, "roof_fraction") or 0.0 for n in found), default=None))
    own = text_of(found[0], "device") == "CPU" if found else False  # then the host is the device
    who = "the kernels wait for the engine" if own else "the GPU waits for the host"
    why = "too few requests, prefix-cache hits, or other work on its cores" if own else _WHY_HOST
    waits = f"{who} (at most {highest} of the roof): {why}."
    if throughout:
        return f"Throughout, {waits}"
    windows: dict[str, int] = {}
    for n in found:
        windows[text_of(n, "kind")] = windows.get(text_of(n, "kind"), 0) + (whole_of(n, "windows") or 0)
    where = listed([count(total, f"{kind} window") for kind, total in windows.items()])
    share = sum(figure_of(n, "share") or 0.0 for n in found)
    time = f" ({percent(share, 0 if share >= 0.01 else 1)} of the steady time)" if share else ""
    return f"In {where}{time} {waits}"


_UNSTATED = {
    (True, False): "the KV cache is not full, and the request limit is not stated in the log",
    (False, True): "how full the KV cache is the log does not tell",
    (False, False): "neither how full the KV cache is nor the request limit is stated in the log",
}


def _queueing(n: Numbers) -> str:
    stated = (figure_of(n, "kv_usage_max") is not None, figure_of(n, "max_running") is not None)
    limit = {
        "kv cache": "the KV cache is full",
        "max running": f"{number(figure_of(n, 'max_running'))} running requests are the engine's limit",
        "token budget": "neither the KV cache nor the request limit is reached, so the token budget of a step holds "
        "them back, or they come in bursts",
        "not stated": _UNSTATED.get(stated, ""),
    }.get(text_of(n, "limit"), text_of(n, "limit"))
    return f"Requests queue in {percent(figure_of(n, 'share'))} of the steady windows: {limit}."


def _kv_cache_full(n: Numbers) -> str:
    return (
        f"The KV cache fills up to {percent(figure_of(n, 'kv_usage_max'))} of "
        f"{number(figure_of(n, 'kv_cache_tokens'))} tokens: it limits the batch."
    )


def counts_sentence(found: Sequence[Numbers]) -> str:
    """``Bytes: the engine counts 2 % more in decode and 4.68× as many in prefill: it adds activations ...``; all of one
    quantity and for one reason.
    """
    causes = "; ".join(caveats.cause(code.strip()) for code in text_of(found[0], "why").split(",") if code.strip())
    why = causes or "no known difference in counting explains it"
    quantity = text_of(found[0], "quantity")
    return f"{quantity[:1].upper()}{quantity[1:]}: the engine counts {listed([_count_of(n) for n in found])}: {why}."


def _count_of(n: Numbers) -> str:
    ratio = figure_of(n, "ratio") or 1.0
    near = f"{percent(abs(ratio - 1))} {'more' if ratio > 1 else 'fewer'}"
    return f"{near if 0.5 <= ratio < 2 else f'{significant(ratio, 3)}× as many'} in {text_of(n, 'kind')}"


def _aliased_windows(n: Numbers) -> str:
    return (
        f"A {text_of(n, 'kind')} window of {number(figure_of(n, 'window_s'), 1)} s holds only a few steps of "
        f"{ms_of(n, 'step_ms')}: single windows swing by a whole step, means over many do not."
    )


def _step_beyond_window(n: Numbers) -> str:
    assumed = ", assumed" if figure_of(n, "assumed") else ""
    return (
        f"A {text_of(n, 'kind')} window of {number(figure_of(n, 'window_s'), 1)} s holds less than one step of "
        f"{number(figure_of(n, 'budget'))} tokens (the token budget{assumed}), by which steps are counted here: the "
        f"engine ran smaller ones or only part of one, and {ms_of(n, 'step_ms')} is what a full one would take."
    )


def _recounted_only(n: Numbers) -> str:
    return "The log holds no MFU figures: every rate is recounted from its throughput lines and the model's dimensions."


def _engine_only(n: Numbers) -> str:
    return (
        "The model's dimensions are not known, so there is no recount and no step taken apart: the figures are the "
        "engine's own. --model NAME or a config.json changes that."
    )


def _no_steady_window(n: Numbers) -> str:
    steps = whole_of(n, "steps")
    which = "The log's only window is not" if steps == 1 else f"None of the {number(steps)} windows is"
    length = " and of known length" if figure_of(n, "untimed") else ""
    stamps = "keep the lines' time stamps, " if figure_of(n, "untimed") and not figure_of(n, "stamped") else ""
    return (
        f"{which} steady{length}, so there is no headline: {stamps}serve the same load for longer, "
        "or see each window with --steps."
    )


def _above_roof(n: Numbers) -> str:
    return (
        f"{text_of(n, 'kind').capitalize()} reads {percent(figure_of(n, 'roof_fraction'))} of its roof, "
        f"which is shown as it is; likely {text_of(n, 'why')}."
    )


def _rest_negative(n: Numbers) -> str:
    name = row_name(text_of(n, "kind"), whole_of(n, "batch_low"), whole_of(n, "batch_high")).capitalize()
    others = (whole_of(n, "rows") or 1) - 1
    more = f" ({count(others, 'other row')} too, less far)" if others else ""
    return (
        f"{name} reads {percent(figure_of(n, 'attained'))} attained in "
        f"{count(whole_of(n, 'windows') or 0, 'window')}{more}, which is shown as it is: its kernels measured "
        f"alone take longer than the step did; likely {text_of(n, 'why')}."
    )


def _windows_above(n: Numbers) -> str:
    kind, windows = text_of(n, "kind"), whole_of(n, "windows") or 0
    of = text_of(n, "of")
    row = ""
    if figure_of(n, "row_fraction") is not None:
        name = row_name(kind, whole_of(n, "row_low"), whole_of(n, "row_high"))
        bare, shown = percent(figure_of(n, "row_without")), percent(figure_of(n, "row_fraction"))
        row = f", {name} {bare} instead of {shown}"
    share = figure_of(n, "share")
    took = percent(share, 0 if (share or 0) >= 0.01 else 1)
    return (
        f"{windows:,} of {count(whole_of(n, 'of_windows') or 0, f'{kind} window')} ({took} of {kind}'s time) "
        f"{'reads' if windows == 1 else 'read'} more than the whole step or the roof, up to "
        f"{percent(figure_of(n, 'highest'))}, and {'counts' if windows == 1 else 'count'} as shown; likely "
        f"{text_of(n, 'why')}. Without {'it' if windows == 1 else 'them'} {kind} would be at "
        f"{percent(figure_of(n, 'without'))} instead of {percent(figure_of(n, 'fraction'))} {of}{row}."
    )


def _cannot_say(n: Numbers) -> str:
    what = {"device": "which card served: another one of the same model differs by a few percent"}
    return f"The log cannot say {what.get(text_of(n, 'what'), text_of(n, 'what'))}."


def _not_taken_apart(n: Numbers) -> str:
    windows, kind = whole_of(n, "windows") or 0, text_of(n, "kind").capitalize()
    rows, held = ("a row of its own", "it held") if windows == 1 else ("rows of their own", "they held")
    known = f"how many engine steps {held}" if text_of(n, "why") == "steps_unknown" else "enough to take them apart"
    return f"{kind}'s figures leave out {count(windows, 'window')} with {rows}: the log does not tell {known}."


WORDS: dict[str, Callable[[Numbers], str]] = {
    "no_headline": _no_headline,
    "bound": _bound,
    "parts": parts_sentence,
    "link_share": _link_share,
    "no_overhead": _no_overhead,
    **advice_words.WORDS,
    "waiting_for_host": lambda n: waiting_sentence([n]),
    "queueing": _queueing,
    "kv_cache_full": _kv_cache_full,
    "engine_counts_more": lambda n: counts_sentence([n]),
    "engine_counts_less": lambda n: counts_sentence([n]),
    "aliased_windows": _aliased_windows,
    "step_beyond_window": _step_beyond_window,
    "recounted_only": _recounted_only,
    "engine_only": _engine_only,
    "no_steady_window": _no_steady_window,
    "above_roof": _above_roof,
    "windows_above": _windows_above,
    "rest_negative": _rest_negative,
    "cannot_say": _cannot_say,
    "not_taken_apart": _not_taken_apart,
}
