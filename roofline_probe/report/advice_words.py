"""What would help, in words: each sentence about one row of the table, which it names."""

from __future__ import annotations

from collections.abc import Callable

from roofline_probe.report.finding_numbers import (
    Numbers,
    capital,
    figure_of,
    ms_of,
    rows_of,
    share_of,
    text_of,
    whole_of,
)
from roofline_probe.report.text import DASH, listed, number, percent, significant, span, tokens_span


def _gain(numbers: Numbers) -> str:
    return f"{percent(figure_of(numbers, 'gain'))} more tokens/s at the ceiling"


def _time_share(n: Numbers, of: str) -> str:
    """`` (22 % of the decode time)``; nothing where it is all of it, or not to be said."""
    share = figure_of(n, "share")
    return f" ({percent(share)} of {of})" if share is not None and share < 0.995 else ""


def _of_row(n: Numbers, text: str) -> str:
    """``At batch 32–58, context 1.0–2.0k (22 % of the decode time) a larger ...``: the row is named, or just was."""
    low, high = whole_of(n, "batch_low"), whole_of(n, "batch_high")
    if high is None:
        return capital(text)
    if figure_of(n, "there"):
        return f"There, {text}"
    context = tokens_span(whole_of(n, "context_low"), whole_of(n, "context_high"))
    where = f"batch {span(low, high)}" + (f", context {context}" if context != DASH else "")
    return f"At {where}{_time_share(n, 'the decode time')} {text}"


def _prefill_row(n: Numbers) -> str:
    """``Prefill of 4.2–8.2k tokens a step (87 % of its time)``."""
    low, high = whole_of(n, "batch_low"), whole_of(n, "batch_high")
    tokens = "token" if low == high == 1 else "tokens"
    row = "" if high is None else f" of {tokens_span(low, high)} {tokens} a step"
    return f"Prefill{row}{_time_share(n, 'its time')}"


def _to_ridge(n: Numbers) -> str:
    rows, needed = rows_of(n, "rows"), rows_of(n, "t_star")
    where = f"T* of this model in {text_of(n, 'dtype')}" + (
        f", TP {text_of(n, 'tp')}" if (figure_of(n, "tp") or 1) > 1 else ""
    )
    if not figure_of(n, "missing"):
        return (
            f"the step's GEMMs are compute-bound ({rows} rows are past {where}, {needed}), its KV reads memory-bound."
        )
    return (
        f"the step's GEMMs are memory-bound ({rows} {'row is' if rows == '1' else 'rows are'} below {where}, "
        f"{needed}): more sequences share the same weight reads."
    )


def _never_compute_bound(n: Numbers) -> str:
    return (
        f"the GEMMs are memory-bound, and with these shapes in {text_of(n, 'dtype')} they stay so at any batch: no "
        f"number of rows reaches the ridge of {number(figure_of(n, 'ridge'))} FLOP/byte."
    )


def _batch_helps(n: Numbers) -> str:
    limit = {"kv cache": " (all that the KV cache holds)", "max running": " (the engine's own limit)"}
    to = f"{rows_of(n, 'to_batch')}{limit.get(text_of(n, 'limit'), '')}"
    return f"a larger batch helps: from {rows_of(n, 'batch')} to {to} at the same context {_batch_gain(n)}."


def _batch_gain(n: Numbers) -> str:
    return (
        f"the ceiling rises from {significant(figure_of(n, 'tok_s_ceiling_now'))} to "
        f"{significant(figure_of(n, 'tok_s_ceiling'))} tokens/s ({percent(figure_of(n, 'gain'))} more)"
    )


def _batch_limited(n: Numbers) -> str:
    limits = {
        "max running": f"the engine's limit of {number(figure_of(n, 'max_running'))} running requests",
        "kv cache": f"the KV cache of {number(figure_of(n, 'kv_cache_tokens'))} tokens",
    }
    names = [limits.get(name, name) for name in text_of(n, "limit").split(", ") if name]
    holds, limit = ("hold", "them") if len(names) > 1 else ("holds", "it")
    return (
        f"{listed(names)} {holds} the batch back: without {limit}, from {rows_of(n, 'batch')} to "
        f"{rows_of(n, 'to_batch')} at the same context {_batch_gain(n)}."
    )


def _batch_exhausted(n: Numbers) -> str:
    return (
        f"a larger batch would not help: twice as many at {number(figure_of(n, 'context'))} tokens of context would "
        f"buy {percent(figure_of(n, 'gain'))} more tokens/s."
    )


def _prefill_rides_free(n: Numbers) -> str:
    return (
        f"chunked prefill rides along: about {number(figure_of(n, 'free_rows'))} prompt tokens fit into each decode "
        "step before its GEMMs take a tenth longer."
    )


def _weights_8bit_help(n: Numbers) -> str:
    how = "measured fp8 kernels" if figure_of(n, "measured") else f"{share_of(n, 'of_bytes')} of the weight bytes"
    return f"8-bit weights help: {how} would take the step's ceiling {_from_to(n)}."


def _kv_8bit_helps(n: Numbers) -> str:
    return (
        f"an 8-bit KV cache helps: {share_of(n, 'of_bytes')} of the {ms_of(n, 'kv_ms')} of KV reads would take the "
        f"step's ceiling {_from_to(n)}."
    )


def _from_to(n: Numbers) -> str:
    return f"from {ms_of(n, 'step_ms_ceiling_now')} to {ms_of(n, 'step_ms_ceiling')} ({_gain(n)})"


def _prefill_at_limit(n: Numbers) -> str:
    fp8, link = figure_of(n, "fp8_gain"), _link(n)
    more = f"; fp8 arithmetic would allow up to {number(fp8, 2)}×" if fp8 else ""
    reached = f"{percent(figure_of(n, 'fraction'))} of {text_of(n, 'pi_name')} pi"
    beside = f", and {link} is the link between cards" if link else ""
    helps = ["fewer tokens (prefix caching)", "narrower arithmetic", *(["a faster link"] if link else [])]
    return f"{_prefill_row(n)} is at its limit ({reached}{beside}): only {listed(helps, 'or')} help{more}."


def _link(n: Numbers) -> str:
    """``at least 13 % of its step``; nothing without a link."""
    link = figure_of(n, "link_share")
    least = "at least " if figure_of(n, "link_lower_bound") else ""
    return f"{least}{percent(link)} of its step" if link and link >= 0.005 else ""


def _prefill_below_limit(n: Numbers) -> str:
    rest, pi, fraction = figure_of(n, "rest_gain"), figure_of(n, "pi_gain"), figure_of(n, "fraction")
    link = _link(n)
    stays = f"; {link} is the link between cards, which stays" if link else ""
    at_pi = f"at {text_of(n, 'pi_name')} pi throughout and not at {percent(fraction)} of it"
    if rest is None:
        return f"{_prefill_row(n)} would be at most {number(pi, 2)}× as fast {at_pi}{stays}."
    adds = "the engine and the link between cards add" if figure_of(n, "link_in_rest") else "the engine adds"
    more = f", and {number(pi, 2)}× if it also ran {at_pi}" if pi is not None and pi > rest * 1.02 else ""
    share = percent(figure_of(n, "rest_share"))
    return (
        f"{_prefill_row(n)} would be at most {number(rest, 2)}× as fast without what {adds} ({share} of its step)"
        f"{more}{stays}."
    )


_DECODE: dict[str, Callable[[Numbers], str]] = {
    "to_ridge": _to_ridge,
    "never_compute_bound": _never_compute_bound,
    "batch_helps": _batch_helps,
    "batch_limited": _batch_limited,
    "batch_exhausted": _batch_exhausted,
    "prefill_rides_free": _prefill_rides_free,
    "weights_8bit_help": _weights_8bit_help,
    "kv_8bit_helps": _kv_8bit_helps,
}
"""Sentences about a decode row, which goes before them."""


def _decode(code: str) -> Callable[[Numbers], str]:
    return lambda n: _of_row(n, _DECODE[code](n))


WORDS: dict[str, Callable[[Numbers], str]] = {
    **{code: _decode(code) for code in _DECODE},
    "prefill_at_limit": _prefill_at_limit,
    "prefill_below_limit": _prefill_below_limit,
}
