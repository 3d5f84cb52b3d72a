"""What would help, in words: each sentence about one row of the table, which it names."""

from __future__ import annotations

from collections.abc import Callable

from roofline_probe.report.finding_numbers import Numbers, capital, figure_of, ms_of, text_of, whole_of
from roofline_probe.report.text import DASH, count, number, percent, significant, span, tokens_span


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
    row = "" if high is None else f" of {tokens_span(low, high)} tokens a step"
    return f"Prefill{row}{_time_share(n, 'its time')}"


def _to_ridge(n: Numbers) -> str:
    rows, needed, missing = figure_of(n, "rows"), figure_of(n, "t_star"), figure_of(n, "missing") or 0.0
    where = f"T* of this model in {text_of(n, 'dtype')}" + (
        f", TP {text_of(n, 'tp')}" if (figure_of(n, "tp") or 1) > 1 else ""
    )
    if missing <= 0:
        return _of_row(
            n,
            f"the step's GEMMs are compute-bound ({number(rows)} rows are past {where}, {number(needed)}), its KV "
            "reads memory-bound.",
        )
    return _of_row(
        n,
        f"the step is {count(round(missing), 'row')} short of {where} ({number(needed)}): until there, more sequences "
        "share the same weight reads.",
    )


def _never_compute_bound(n: Numbers) -> str:
    return _of_row(
        n,
        f"the GEMMs are memory-bound, and with these shapes in {text_of(n, 'dtype')} they stay so at any batch: no "
        f"number of rows reaches the ridge of {number(figure_of(n, 'ridge'))} FLOP/byte.",
    )


def _batch_helps(n: Numbers) -> str:
    limit = {"kv cache": " (all that the KV cache holds)", "max running": " (the engine's own limit)"}
    to = f"{number(figure_of(n, 'to_batch'))}{limit.get(text_of(n, 'limit'), '')}"
    return _of_row(
        n,
        f"a larger batch helps: from {number(figure_of(n, 'batch'))} to {to} at the same context the ceiling rises "
        f"from {significant(figure_of(n, 'tok_s_ceiling_now'))} to {significant(figure_of(n, 'tok_s_ceiling'))} "
        f"tokens/s ({percent(figure_of(n, 'gain'))} more).",
    )


def _batch_exhausted(n: Numbers) -> str:
    return _of_row(
        n,
        f"a larger batch would not help: twice as many at {number(figure_of(n, 'context'))} tokens of context buy "
        f"{percent(figure_of(n, 'gain'))} more tokens/s.",
    )


def _prefill_rides_free(n: Numbers) -> str:
    return _of_row(
        n,
        f"chunked prefill rides along: about {number(figure_of(n, 'free_rows'))} prompt tokens fit into each decode "
        "step before its GEMMs take a tenth longer.",
    )


def _weights_8bit_help(n: Numbers) -> str:
    how = "measured fp8 kernels" if figure_of(n, "measured") else "half the weight bytes"
    return _of_row(n, f"8-bit weights help: {how} would take the step's ceiling {_from_to(n)}.")


def _kv_8bit_helps(n: Numbers) -> str:
    return _of_row(
        n, f"an 8-bit KV cache helps: half of {ms_of(n, 'kv_ms')} of KV reads, the step's ceiling {_from_to(n)}."
    )


def _from_to(n: Numbers) -> str:
    return f"from {ms_of(n, 'step_ms_ceiling_now')} to {ms_of(n, 'step_ms_ceiling')} ({_gain(n)})"


def _prefill_at_limit(n: Numbers) -> str:
    fp8 = figure_of(n, "fp8_gain")
    more = f"; fp8 arithmetic would allow up to {number(fp8, 2)}×" if fp8 else ""
    return (
        f"{_prefill_row(n)} is at its limit ({percent(figure_of(n, 'fraction'))} of {text_of(n, 'pi_name')} pi): "
        f"only fewer tokens (prefix caching) or narrower arithmetic help{more}."
    )


def _prefill_below_limit(n: Numbers) -> str:
    rest = figure_of(n, "rest_share")
    adds = f"; the engine adds {percent(rest)} of its step" if rest is not None and rest > 0 else ""
    fraction = figure_of(n, "fraction")
    faster = number(1 / fraction if fraction else None, 2)
    name = text_of(n, "pi_name")
    now = f" and not at {percent(fraction)} of it" if fraction else ""
    return f"{_prefill_row(n)} could be up to {faster}× as fast, if all of it ran at {name} pi{now}{adds}."


WORDS: dict[str, Callable[[Numbers], str]] = {
    "to_ridge": _to_ridge,
    "never_compute_bound": _never_compute_bound,
    "batch_helps": _batch_helps,
    "batch_exhausted": _batch_exhausted,
    "prefill_rides_free": _prefill_rides_free,
    "weights_8bit_help": _weights_8bit_help,
    "kv_8bit_helps": _kv_8bit_helps,
    "prefill_at_limit": _prefill_at_limit,
    "prefill_below_limit": _prefill_below_limit,
}
