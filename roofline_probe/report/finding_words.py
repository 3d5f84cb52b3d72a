"""Findings as sentences: one function a code, so that a code without words is seen by the test that lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from roofline_probe.diagnose import Finding, Number
from roofline_probe.report import caveats
from roofline_probe.report.text import clean, count, listed, number, percent, row_name, significant

Numbers = Mapping[str, Number]
BOUND_WORDS = {"compute": "arithmetic", "memory": "memory", "link": "the link between cards", "host": "the host"}


def sentence(finding: Finding) -> str:
    """One finding in words; a code without words shows itself, so that nothing is dropped silently."""
    words = WORDS.get(finding.code)
    return words(finding.numbers) if words is not None else clean(finding.code.replace("_", " ")) + "."


def advice(findings: Sequence[Finding]) -> list[str]:
    """What would help, and what would not."""
    return [sentence(finding) for finding in findings if finding.weight == "advice" and finding.code != "no_overhead"]


def figure_of(numbers: Numbers, name: str) -> float | None:
    """The figure ``name``; None where it is not known."""
    value = numbers.get(name)
    return float(value) if isinstance(value, (int, float)) else None


def _whole(numbers: Numbers, name: str) -> int | None:
    value = figure_of(numbers, name)
    return None if value is None else round(value)


def text_of(numbers: Numbers, name: str) -> str:
    """The word ``name``, safe to show; empty where it is not known."""
    value = numbers.get(name)
    return "" if value is None else clean(value)


def _ms(numbers: Numbers, name: str) -> str:
    return f"{significant(figure_of(numbers, name))} ms"


def _gain(numbers: Numbers) -> str:
    return f"{percent(figure_of(numbers, 'gain'))} more tokens/s at the ceiling"


def bound_clause(n: Numbers, *, apart: bool = False, brief: bool = False) -> str:
    """What bounds a kind, without its full stop.

    ``apart``: the figures leave out windows in which the GPU waits, which have a sentence of their own; ``brief``: what
    its share is a share of was said before.
    """
    kind, bound = text_of(n, "kind").capitalize(), text_of(n, "bound")
    by = f"is bound by {BOUND_WORDS.get(bound, bound)}" if bound else "has no clear bound"
    share = figure_of(n, "share")
    of_what = "" if brief else " of the steady time"
    took = f" ({percent(share)}{of_what})" if share is not None and share < 0.995 else ""
    where = ", where the GPU does not wait for the host," if apart else ""
    return f"{kind}{took}{where} {by}, at {percent(figure_of(n, 'roof_fraction'))} of {text_of(n, 'of')}"


def _bound(n: Numbers) -> str:
    return f"{bound_clause(n)}."


def parts_sentence(n: Numbers, *, speedup: float | None = None, follows: bool = True) -> str:
    """A kind's mean step taken apart; ``follows``: a sentence before it names the kind."""
    whose = "its" if follows else f"{text_of(n, 'kind')}'s"
    step = f"{whose} mean step {{}}{_ms(n, 'step_ms')}"
    parts = [f"{_ms(n, field)} {name}" for field, name in (("gemm_ms", "of GEMMs"), ("kv_ms", "of reading KV"))]
    link = figure_of(n, "link_ms") or 0.0
    if link >= 0.005:
        least = "at least " if figure_of(n, "link_lower_bound") else ""
        parts.append(f"{least}{_ms(n, 'link_ms')} ({percent(link / (figure_of(n, 'step_ms') or link))}) on the link")
    estimated = ", estimated from the roofs," if figure_of(n, "estimated") else ""
    rest = figure_of(n, "rest_ms")
    if rest is None or rest <= 0:
        return f"{_capital(step.format('takes '))}; {listed(parts)}{estimated} explain all of it."
    without = f": without that it would be at most {significant(speedup)}× as fast" if speedup is not None else ""
    return (
        f"Of {step.format('of ')}, {listed(parts)}{estimated} "
        f"cannot be avoided with these kernels; {_ms(n, 'rest_ms')} is what the engine adds{without}."
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _link_share(n: Numbers) -> str:
    least = "at least " if figure_of(n, "lower_bound") else ""
    return f"The link between cards takes {least}{percent(figure_of(n, 'share'))} of it."


def _no_overhead(n: Numbers) -> str:
    return f"With none of what the engine adds it would be at most {significant(figure_of(n, 'speedup'))}× as fast."


def _to_ridge(n: Numbers) -> str:
    rows, needed, missing = figure_of(n, "rows"), figure_of(n, "t_star"), figure_of(n, "missing") or 0.0
    where = f"T* of this model in {text_of(n, 'dtype')}" + (
        f", TP {text_of(n, 'tp')}" if (figure_of(n, "tp") or 1) > 1 else ""
    )
    if missing <= 0:
        return f"A step's {number(rows)} rows are past {where} ({number(needed)}): its GEMMs are compute-bound."
    return (
        f"{where} is {number(needed)} rows a step. Decode mostly runs {number(rows)}, {number(missing)} short of it: "
        "until there, more sequences share the same weight reads."
    )


def _never_compute_bound(n: Numbers) -> str:
    return (
        f"With these shapes in {text_of(n, 'dtype')} no number of rows reaches the ridge of "
        f"{number(figure_of(n, 'ridge'))} FLOP/byte: the GEMMs stay memory-bound."
    )


def _batch_helps(n: Numbers) -> str:
    limit = {"kv cache": " (all that the KV cache holds)", "max running": " (the engine's own limit)"}
    to = f"{number(figure_of(n, 'to_batch'))}{limit.get(text_of(n, 'limit'), '')}"
    return (
        f"A larger batch helps: from {number(figure_of(n, 'batch'))} to {to} at the same context the ceiling rises "
        f"from {significant(figure_of(n, 'tok_s_ceiling_now'))} to {significant(figure_of(n, 'tok_s_ceiling'))} "
        f"tokens/s ({percent(figure_of(n, 'gain'))} more)."
    )


def _batch_exhausted(n: Numbers) -> str:
    return (
        f"A larger batch would not help: doubling {number(figure_of(n, 'batch'))} at "
        f"{number(figure_of(n, 'context'))} tokens of context buys {percent(figure_of(n, 'gain'))}."
    )


def _prefill_rides_free(n: Numbers) -> str:
    return (
        f"Chunked prefill rides along: about {number(figure_of(n, 'free_rows'))} prompt tokens fit into each decode "
        "step before its GEMMs take a tenth longer."
    )


def _weights_8bit_help(n: Numbers) -> str:
    how = "measured fp8 kernels" if figure_of(n, "measured") else "half the weight bytes"
    return f"8-bit weights help: {how} would take the step's ceiling {_from_to(n)}."


def _kv_8bit_helps(n: Numbers) -> str:
    return f"An 8-bit KV cache helps: half of {_ms(n, 'kv_ms')} of KV reads, the step's ceiling {_from_to(n)}."


def _from_to(n: Numbers) -> str:
    return f"from {_ms(n, 'step_ms_ceiling_now')} to {_ms(n, 'step_ms_ceiling')} ({_gain(n)})"


def _prefill_at_limit(n: Numbers) -> str:
    fp8 = figure_of(n, "fp8_gain")
    more = f"; fp8 arithmetic would allow up to {number(fp8, 2)}×" if fp8 else ""
    return (
        f"Prefill is at its limit ({percent(figure_of(n, 'fraction'))} of {text_of(n, 'pi_name')} pi): "
        f"only fewer tokens (prefix caching) or narrower arithmetic help{more}."
    )


def _prefill_below_limit(n: Numbers) -> str:
    rest = figure_of(n, "rest_share")
    adds = f"; the engine adds {percent(rest)} of its time" if rest is not None and rest > 0 else ""
    faster = number(1 / (figure_of(n, "fraction") or 1), 2)
    return f"Prefill could be up to {faster}× as fast, if all of it ran at the roof's pi{adds}."


def waiting_sentence(found: Sequence[Numbers], *, throughout: bool = False) -> str:
    """One sentence for all windows in which the GPU waits, however many rows they make."""
    highest = percent(max((figure_of(n, "roof_fraction") or 0.0 for n in found), default=None))
    why = "too few requests, prefix-cache hits, or a busy CPU"
    waits = f"the GPU waits for the host (at most {highest} of the roof): {why}."
    if throughout:
        return f"Throughout, {waits}"
    windows: dict[str, int] = {}
    for n in found:
        windows[text_of(n, "kind")] = windows.get(text_of(n, "kind"), 0) + (_whole(n, "windows") or 0)
    where = listed([count(total, f"{kind} window") for kind, total in windows.items()])
    share = sum(figure_of(n, "share") or 0.0 for n in found)
    time = f" ({percent(share, 0 if share >= 0.01 else 1)} of the steady time)" if share else ""
    return f"In {where}{time} {waits}"


def _queueing(n: Numbers) -> str:
    limit = {
        "kv cache": "the KV cache is full",
        "max running": f"{number(figure_of(n, 'max_running'))} running requests are the engine's limit",
        "token budget": "neither the KV cache nor the request limit is reached, so the token budget of a step holds "
        "them back, or they come in bursts",
    }.get(text_of(n, "limit"), text_of(n, "limit"))
    return f"Requests queue in {percent(figure_of(n, 'share'))} of the steady windows: {limit}."


def _kv_cache_full(n: Numbers) -> str:
    return (
        f"The KV cache fills up to {percent(figure_of(n, 'kv_usage_max'))} of "
        f"{number(figure_of(n, 'kv_cache_tokens'))} tokens: it limits the batch."
    )


def _counts(n: Numbers) -> str:
    ratio = figure_of(n, "ratio") or 1.0
    if 0.5 <= ratio < 2:
        difference = f"{percent(abs(ratio - 1))} {'more' if ratio > 1 else 'fewer'} {text_of(n, 'quantity')}"
    else:
        difference = f"{number(ratio, 2)}× the {text_of(n, 'quantity')}"
    causes = "; ".join(caveats.cause(code.strip()) for code in text_of(n, "why").split(",") if code.strip())
    return f"{text_of(n, 'kind').capitalize()}: the engine counts {difference}{': ' + causes if causes else ''}."


def _aliased_windows(n: Numbers) -> str:
    return (
        f"A {text_of(n, 'kind')} window of {number(figure_of(n, 'window_s'), 1)} s holds only a few steps of "
        f"{_ms(n, 'step_ms')}: single windows swing by a whole step, means over many do not."
    )


def _recounted_only(n: Numbers) -> str:
    return "The log holds no MFU lines: every rate is recounted from its throughput lines and the model's dimensions."


def _engine_only(n: Numbers) -> str:
    return (
        "The model's dimensions are not known, so there is no recount and no step taken apart: the figures are the "
        "engine's own. --model NAME or a config.json changes that."
    )


def _no_steady_window(n: Numbers) -> str:
    return (
        f"None of the {number(figure_of(n, 'steps'))} windows is steady, so there is no headline: "
        "serve the same load for longer, or see each window with --steps."
    )


def _above_roof(n: Numbers) -> str:
    return (
        f"{text_of(n, 'kind').capitalize()} reads {percent(figure_of(n, 'roof_fraction'))} of its roof, "
        f"which is shown as it is; likely {text_of(n, 'why')}."
    )


def _rest_negative(n: Numbers) -> str:
    name = row_name(text_of(n, "kind"), _whole(n, "batch_low"), _whole(n, "batch_high")).capitalize()
    others = (_whole(n, "rows") or 1) - 1
    more = f" ({count(others, 'other row')} too, less far)" if others else ""
    return (
        f"{name} reads {percent(figure_of(n, 'attained'))} attained in "
        f"{count(_whole(n, 'windows') or 0, 'window')}{more}, which is shown as it is: its kernels measured "
        f"alone take longer than the step did; likely {text_of(n, 'why')}."
    )


def _cannot_say(n: Numbers) -> str:
    what = {
        "device": "which GPU served: the profile's is assumed, and another card of that model differs by a few percent"
    }.get(text_of(n, "what"), text_of(n, "what"))
    return f"The log cannot say {what}."


WORDS: dict[str, Callable[[Numbers], str]] = {
    "bound": _bound,
    "parts": parts_sentence,
    "link_share": _link_share,
    "no_overhead": _no_overhead,
    "to_ridge": _to_ridge,
    "never_compute_bound": _never_compute_bound,
    "batch_helps": _batch_helps,
    "batch_exhausted": _batch_exhausted,
    "prefill_rides_free": _prefill_rides_free,
    "weights_8bit_help": _weights_8bit_help,
    "kv_8bit_helps": _kv_8bit_helps,
    "prefill_at_limit": _prefill_at_limit,
    "prefill_below_limit": _prefill_below_limit,
    "waiting_for_host": lambda n: waiting_sentence([n]),
    "queueing": _queueing,
    "kv_cache_full": _kv_cache_full,
    "engine_counts_more": _counts,
    "engine_counts_less": _counts,
    "aliased_windows": _aliased_windows,
    "recounted_only": _recounted_only,
    "engine_only": _engine_only,
    "no_steady_window": _no_steady_window,
    "above_roof": _above_roof,
    "rest_negative": _rest_negative,
    "cannot_say": _cannot_say,
}
