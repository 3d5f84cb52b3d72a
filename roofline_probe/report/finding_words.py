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


def answer(findings: Sequence[Finding]) -> list[str]:
    """The headline findings, those about one kind joined into one paragraph."""
    waiting = [finding.numbers for finding in findings if finding.code == "waiting_for_host"]
    kinds_that_wait = {_word(numbers, "kind") for numbers in waiting}
    paragraphs: dict[str, list[str]] = {}
    for finding in findings:
        if finding.code == "waiting_for_host" or not (finding.weight == "headline" or finding.code == "no_overhead"):
            continue
        kind = _word(finding.numbers, "kind")
        apart = finding.code == "bound" and kind in kinds_that_wait and _word(finding.numbers, "bound") != "host"
        said = _bound(finding.numbers, apart=True) if apart else sentence(finding)
        paragraphs.setdefault(kind, []).append(said)
    return [" ".join(sentences) for sentences in paragraphs.values()] + _waiting_by_kind(waiting)


def _waiting_by_kind(found: Sequence[Numbers]) -> list[str]:
    """One sentence a kind, however many bins wait."""
    sentences = []
    for kind in dict.fromkeys(_word(n, "kind") for n in found):
        rows = [n for n in found if _word(n, "kind") == kind]
        total = {name: sum(_figure(n, name) or 0 for n in rows) for name in ("windows", "share")}
        highest = max(_figure(n, "roof_fraction") or 0 for n in rows)
        sentences.append(_waiting_for_host({"kind": kind, **total, "roof_fraction": highest}))
    return sentences


def advice(findings: Sequence[Finding]) -> list[str]:
    """What would help, and what would not."""
    return [sentence(finding) for finding in findings if finding.weight == "advice" and finding.code != "no_overhead"]


def notes(findings: Sequence[Finding]) -> list[str]:
    """How the counts differ, which limits were met, what the log cannot say."""
    return [sentence(finding) for finding in findings if finding.weight == "note"]


def _figure(numbers: Numbers, name: str) -> float | None:
    value = numbers.get(name)
    return float(value) if isinstance(value, (int, float)) else None


def _whole(numbers: Numbers, name: str) -> int | None:
    value = _figure(numbers, name)
    return None if value is None else round(value)


def _word(numbers: Numbers, name: str) -> str:
    value = numbers.get(name)
    return "" if value is None else clean(value)


def _ms(numbers: Numbers, name: str) -> str:
    return f"{significant(_figure(numbers, name))} ms"


def _gain(numbers: Numbers) -> str:
    return f"{percent(_figure(numbers, 'gain'))} more tokens/s at the ceiling"


def _bound(n: Numbers, *, apart: bool = False) -> str:
    """``apart``: the figures leave out windows in which the GPU waits, which have a sentence of their own."""
    kind, bound = _word(n, "kind").capitalize(), _word(n, "bound")
    by = f"is bound by {BOUND_WORDS.get(bound, bound)}" if bound else "has no clear bound"
    share = _figure(n, "share")
    took = f" ({percent(share)} of the steady time)" if share is not None and share < 0.995 else ""
    where = ", where the GPU does not wait for the host," if apart else ""
    return f"{kind}{took}{where} {by}, at {percent(_figure(n, 'roof_fraction'))} of {_word(n, 'of')}."


def _parts(n: Numbers) -> str:
    parts = [f"{_ms(n, field)} {name}" for field, name in (("gemm_ms", "of GEMMs"), ("kv_ms", "of reading KV"))]
    if (_figure(n, "link_ms") or 0) >= 0.005:
        parts.append(f"{_ms(n, 'link_ms')} on the link")
    estimated = ", estimated from the roofs," if _figure(n, "estimated") else ""
    rest = _figure(n, "rest_ms")
    if rest is None or rest <= 0:
        return f"Its mean step takes {_ms(n, 'step_ms')}; {listed(parts)}{estimated} explain all of it."
    return (
        f"Of its mean step of {_ms(n, 'step_ms')}, {listed(parts)}{estimated} "
        f"cannot be avoided with these kernels; {_ms(n, 'rest_ms')} is what the engine adds."
    )


def _link_share(n: Numbers) -> str:
    least = "at least " if _figure(n, "lower_bound") else ""
    return f"The link between cards takes {least}{percent(_figure(n, 'share'))} of it."


def _no_overhead(n: Numbers) -> str:
    return f"With none of what the engine adds it would be at most {significant(_figure(n, 'speedup'))}× as fast."


def _to_ridge(n: Numbers) -> str:
    rows, needed, missing = _figure(n, "rows"), _figure(n, "t_star"), _figure(n, "missing") or 0.0
    where = f"T* of this model in {_word(n, 'dtype')}" + (
        f", TP {_word(n, 'tp')}" if (_figure(n, "tp") or 1) > 1 else ""
    )
    if missing <= 0:
        return f"A step's {number(rows)} rows are past {where} ({number(needed)}): its GEMMs are compute-bound."
    return (
        f"{where} is {number(needed)} rows a step. Decode mostly runs {number(rows)}, {number(missing)} short of it: "
        "until there, more sequences share the same weight reads."
    )


def _never_compute_bound(n: Numbers) -> str:
    return (
        f"With these shapes in {_word(n, 'dtype')} no number of rows reaches the ridge of "
        f"{number(_figure(n, 'ridge'))} FLOP/byte: the GEMMs stay memory-bound."
    )


def _batch_helps(n: Numbers) -> str:
    limit = {"kv cache": " (all that the KV cache holds)", "max running": " (the engine's own limit)"}
    to = f"{number(_figure(n, 'to_batch'))}{limit.get(_word(n, 'limit'), '')}"
    return (
        f"A larger batch helps: from {number(_figure(n, 'batch'))} to {to} at the same context the ceiling rises from "
        f"{significant(_figure(n, 'tok_s_ceiling_now'))} to {significant(_figure(n, 'tok_s_ceiling'))} tokens/s "
        f"({percent(_figure(n, 'gain'))})."
    )


def _batch_exhausted(n: Numbers) -> str:
    return (
        f"A larger batch would not help: doubling {number(_figure(n, 'batch'))} at "
        f"{number(_figure(n, 'context'))} tokens of context buys {percent(_figure(n, 'gain'))}."
    )


def _prefill_rides_free(n: Numbers) -> str:
    return (
        f"Chunked prefill rides along: about {number(_figure(n, 'free_rows'))} prompt tokens fit into each decode step "
        "before its GEMMs take a tenth longer."
    )


def _weights_8bit_help(n: Numbers) -> str:
    how = "measured fp8 kernels" if _figure(n, "measured") else "half the weight bytes"
    return f"8-bit weights help: {how} would take the step's ceiling {_from_to(n)}."


def _kv_8bit_helps(n: Numbers) -> str:
    return f"An 8-bit KV cache helps: half of {_ms(n, 'kv_ms')} of KV reads, the step's ceiling {_from_to(n)}."


def _from_to(n: Numbers) -> str:
    return f"from {_ms(n, 'step_ms_ceiling_now')} to {_ms(n, 'step_ms_ceiling')} ({_gain(n)})"


def _prefill_at_limit(n: Numbers) -> str:
    fp8 = _figure(n, "fp8_gain")
    more = f"; fp8 arithmetic would allow up to {number(fp8, 2)}×" if fp8 else ""
    return (
        f"Prefill is at its limit ({percent(_figure(n, 'fraction'))} of {_word(n, 'pi_name')} pi): "
        f"only fewer tokens (prefix caching) or narrower arithmetic help{more}."
    )


def _prefill_below_limit(n: Numbers) -> str:
    rest = _figure(n, "rest_share")
    adds = f"; the engine adds {percent(rest)} of its time" if rest is not None and rest > 0 else ""
    faster = number(1 / (_figure(n, "fraction") or 1), 2)
    return f"Prefill could be up to {faster}× as fast, if all of it ran at the roof's pi{adds}."


def _waiting_for_host(n: Numbers) -> str:
    windows, share = _figure(n, "windows") or 0, _figure(n, "share")
    time = f" ({percent(share, 0 if (share or 0) >= 0.01 else 1)} of the steady time)" if share is not None else ""
    return (
        f"In {count(round(windows), _word(n, 'kind') + ' window')}{time} the GPU waits for the host (at most "
        f"{percent(_figure(n, 'roof_fraction'))} of the roof): too few requests, prefix-cache hits, or a busy CPU."
    )


def _queueing(n: Numbers) -> str:
    limit = {
        "kv cache": "the KV cache is full",
        "max running": f"{number(_figure(n, 'max_running'))} running requests are the engine's limit",
        "token budget": "neither the KV cache nor the request limit is reached, so the token budget of a step holds "
        "them back, or they come in bursts",
    }.get(_word(n, "limit"), _word(n, "limit"))
    return f"Requests queue in {percent(_figure(n, 'share'))} of the steady windows: {limit}."


def _kv_cache_full(n: Numbers) -> str:
    return (
        f"The KV cache fills up to {percent(_figure(n, 'kv_usage_max'))} of {number(_figure(n, 'kv_cache_tokens'))} "
        "tokens: it limits the batch."
    )


def _counts(n: Numbers) -> str:
    ratio = _figure(n, "ratio") or 1.0
    if 0.5 <= ratio < 2:
        difference = f"{percent(abs(ratio - 1))} {'more' if ratio > 1 else 'fewer'} {_word(n, 'quantity')}"
    else:
        difference = f"{number(ratio, 2)}× the {_word(n, 'quantity')}"
    causes = "; ".join(caveats.cause(code.strip()) for code in _word(n, "why").split(",") if code.strip())
    return f"{_word(n, 'kind').capitalize()}: the engine counts {difference}{': ' + causes if causes else ''}."


def _aliased_windows(n: Numbers) -> str:
    return (
        f"A {_word(n, 'kind')} window of {number(_figure(n, 'window_s'), 1)} s holds only a few steps of "
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
        f"None of the {number(_figure(n, 'steps'))} windows is steady, so there is no headline: "
        "serve the same load for longer, or see each window with --steps."
    )


def _above_roof(n: Numbers) -> str:
    return (
        f"{_word(n, 'kind').capitalize()} reads {percent(_figure(n, 'roof_fraction'))} of its roof, "
        f"which is shown as it is; likely {_word(n, 'why')}."
    )


def _rest_negative(n: Numbers) -> str:
    name = row_name(_word(n, "kind"), _whole(n, "batch_low"), _whole(n, "batch_high")).capitalize()
    others = (_whole(n, "rows") or 1) - 1
    more = f" ({count(others, 'other row')} too, less far)" if others else ""
    return (
        f"{name} reads {percent(_figure(n, 'attained'))} attained in "
        f"{count(_whole(n, 'windows') or 0, 'window')}{more}, which is shown as it is: its kernels measured "
        f"alone take longer than the step did; likely {_word(n, 'why')}."
    )


def _cannot_say(n: Numbers) -> str:
    what = {
        "device": "which GPU served: the profile's is assumed, and another card of that model differs by a few percent"
    }.get(_word(n, "what"), _word(n, "what"))
    return f"The log cannot say {what}."


WORDS: dict[str, Callable[[Numbers], str]] = {
    "bound": _bound,
    "parts": _parts,
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
    "waiting_for_host": _waiting_for_host,
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
