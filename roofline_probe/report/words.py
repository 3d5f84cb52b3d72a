"""Figures and stable codes turned into sentences. What happened, the likely cause, what to try."""

from __future__ import annotations

from typing import TYPE_CHECKING

from log_parsers import WARNINGS
from log_parsers.step import LogFacts
from roofline_probe import kpi
from roofline_probe.headline import ATTAINED, headline
from roofline_probe.point import Bin, Roof, Summary, flags_of
from roofline_probe.profile import Prediction, Profile
from roofline_probe.report import answer, caveats, finding_words
from roofline_probe.report.text import clean, count, flops, listed, model_name, percent, significant, tera

if TYPE_CHECKING:
    from roofline_probe.comparison import Comparison


def profile_headline(profile: Profile) -> str:
    """``NVIDIA H200: pi 820 TFLOP/s bf16 (683 sustained) · beta 4.41 TB/s (reads 4.62)``."""
    dtype = kpi.main_dtype(profile)
    parts = []
    if dtype is not None:
        burst, sustained = profile.pi_tflops(dtype), profile.pi_tflops(dtype, "sustained")
        best = kpi.measured_roofs(profile, dtype).pi_tflops
        note = f" ({_in_the_unit_of(best, sustained)} sustained)" if burst and sustained else ""
        parts.append(f"pi {flops(best)} {dtype}{note}")
    if profile.beta_gbps is not None:
        beta, reads = tera(profile.beta_gbps), tera(profile.read_beta_gbps)
        figure, _, unit = reads.partition(" ")
        note = f" (reads {figure if beta.endswith(unit) else reads})" if profile.read_beta_gbps else ""
        parts.append(f"beta {beta}{note}")
    return f"{clean(profile.device.name)}: {' · '.join(parts) or 'nothing was measured'}"


def profile_warnings(profile: Profile) -> list[str]:
    """The profile's own warnings, and what its shape implies."""
    sentences = [clean(warning.message, 600) for warning in profile.warnings]
    if not profile.complete:
        sentences.insert(0, "The run was interrupted; run `probe measure` again for the missing figures.")
    unsettled = [p.dtype for p in profile.peaks if p.regime == "sustained" and p.settled is False]
    if unsettled and all(warning.code != "unsettled" for warning in profile.warnings):
        sentences.append(
            f"The {listed(unsettled)} soak had not settled: its sustained pi may still be too high; "
            "a longer --soak would tell."
        )
    return sentences


def prediction_sentence(prediction: Prediction) -> str:
    """Question, answer, what came out."""
    verdict = {True: "right", False: "wrong", None: "not scored"}[prediction.correct]
    off = f", off by {prediction.error_points:+.1f} points" if prediction.error_points is not None else ""
    measured = f"; measured {clean(prediction.measured)}" if prediction.measured else ""
    comment = f" {clean(prediction.comment, 400)}" if prediction.comment else ""
    return f"{clean(prediction.question)} You said {clean(prediction.answer)}{measured}: {verdict}{off}.{comment}"


def roof_origin(roof: Roof) -> str:
    """``NVIDIA H200 (assumed: no log names its GPU), measured 2026-11-29, bf16 as the log says``."""
    device = "CPU" if roof.device_kind == "cpu" else "GPU"
    where = {
        "measured": f"{clean(roof.device)} (assumed: no log names its {device}), measured{_on(roof.date)}",
        "datasheet": f"{clean(roof.device)} (assumed), as PUBLISHED, not measured: no real kernel reaches it",
        "given": f"as given with {flags_of(roof.pi_tflops, roof.beta_gbps)}",
    }[roof.origin]
    dtype = {"log": "as the log says", "flag": "as --dtype says", "assumed": "ASSUMED"}[roof.dtype_source]
    return f"{where}, {roof.dtype} {dtype}"


def _on(date: str | None) -> str:
    return f" {clean(date, 20)}" if date else ""


def roof_figures(roof: Roof) -> str:
    """``sustained pi 683 TFLOP/s (burst 820) · read beta 4.62 TB/s for decode, beta 4.41 TB/s for the rest``."""
    parts = []
    if roof.pi_tflops is not None:
        name = f"{roof.pi_name} " if roof.origin == "measured" else ""
        other = _other_pi(roof)
        parts.append(f"{name}pi {flops(roof.pi_tflops)}{other}")
    if roof.beta_gbps is not None and roof.beta_gbps == roof.read_beta_gbps:
        parts.append(f"beta {tera(roof.beta_gbps)}")
    elif roof.beta_gbps is not None:
        parts.append(f"read beta {tera(roof.read_beta_gbps)} for decode, beta {tera(roof.beta_gbps)} for the rest")
    return " · ".join(parts) or "no figures"


def denominators(roof: Roof) -> str:
    """What the table's percentages divide by, in one line."""
    known = [
        name for name, figure in (("of pi", roof.pi_tflops), ("of beta", roof.read_beta_gbps)) if figure is not None
    ]
    figures = f"{', '.join(known)}: the {{}}figure{'s' if len(known) > 1 else ''}"
    if roof.origin == "given":
        return f"{figures.format('')} given with {flags_of(roof.pi_tflops, roof.beta_gbps)}"
    if roof.origin == "datasheet":
        return f"{figures.format('published ')} of {clean(roof.device, 40)}"
    parts = []
    if roof.read_beta_gbps is not None:
        same = roof.read_beta_gbps == roof.beta_gbps
        parts.append("of beta: beta" if same else "of beta: read beta in decode, else beta")
    if roof.pi_tflops is not None:
        parts.append(f"of pi: {roof.pi_name}")
    return "; ".join([*parts, f"measured{_on(roof.date)}"])


def _other_pi(roof: Roof) -> str:
    if roof.origin != "measured":
        return ""
    if roof.pi_name == "sustained":
        return f" (burst {_in_the_unit_of(roof.pi_tflops, roof.pi_burst_tflops)})" if roof.pi_burst_tflops else ""
    other = roof.pi_sustained_tflops
    return f" (sustained {_in_the_unit_of(roof.pi_tflops, other)})" if other else ""


def _in_the_unit_of(first: float | None, second: float) -> str:
    """The bare number of a second pi, in the unit in which the first was written."""
    return significant(second if first is None or first >= 1 else second * 1000)


def log_line(facts: LogFacts) -> str:
    """``vllm 0.24.0 · Meta-Llama-3-8B · bf16 · TP 2 · 1,024,000 tokens of KV cache``."""
    sizes = [("TP", facts.tp), ("PP", facts.pp), ("DP", facts.dp), ("EP", facts.ep)]
    parts = [
        " ".join(part for part in (facts.engine, facts.engine_version) if part) or "engine not stated",
        model_name(facts.model) or "model not stated",
        facts.dtype or "",
        facts.quantization or "",
        *(f"{name} {size}" for name, size in sizes if size and size > 1),
        f"{facts.kv_cache_tokens:,} tokens of KV cache" if facts.kv_cache_tokens else "",
    ]
    return " · ".join(clean(part, 80) for part in parts if part)


def span_line(summary: Summary) -> str:
    """``402 windows, 14:31:02 to 14:37:44 on 2026-11-29``."""
    text = count(summary.steps, "window")
    if summary.first_time is None or summary.last_time is None:
        return text
    (day, _, start), (last_day, _, end) = (t.partition("T") for t in (summary.first_time, summary.last_time))
    if day == last_day:
        return clean(f"{text}, {start[:8]} to {end[:8]} on {day}")
    return clean(f"{text}, {day} {start[:8]} to {last_day} {end[:8]}")


_STATUS_REASONS = {
    "idle": "nothing ran",
    "diluted": "part of the window was idle, so its rates are too low",
    "partial": "work began or ended inside the window",
    "noise": "health probes",
    "unsupported": "the engine left components out of its own count",
    "untimed": "how long it was is not known (its line bears no time stamp, or that of the line before)",
}


def excluded_sentence(status: str, n: int) -> str:
    """``12 diluted windows: part of the window was idle, so its rates are too low``."""
    reason = _STATUS_REASONS.get(status)
    return f"{count(n, f'{clean(status)} window')}" + (f": {reason}" if reason else "")


def headline_words(row: Bin, roof: Roof) -> tuple[float | None, str]:
    """The fraction for the bar, and ``86 % attained`` (``~`` where it is estimated from the roofs)."""
    fraction, denominator = headline(row, roof)
    mark = "~" if row.estimated and denominator == ATTAINED else ""
    return fraction, f"{mark}{percent(fraction)} {denominator}"


def rate_words(row: Bin, roof: Roof, *, short: bool = False) -> str:
    """``7,804 tok/s, bound by memory``."""
    rate = f"{significant(row.tok_s)} tok/s"
    if short or row.bound is None:
        return rate
    own = row.bound == "host" and roof.device_kind == "cpu"  # where the device is the host
    return f"{rate}, bound by {'the engine' if own else finding_words.BOUND_WORDS[row.bound]}"


def left_out(result: Comparison) -> list[str]:
    """Steps that count nowhere, and lines that gave no step, each with the reason."""
    sentences = [excluded_sentence(status, n) for status, n in result.summary.excluded.items()]
    for reason, n in sorted(result.report.dropped.items(), key=lambda item: -item[1]):
        sentences.append(f"{count(n, 'line')} gave no step: {clean(reason)}")
    return sentences


def warnings(result: Comparison) -> list[dict[str, str]]:
    """What to be careful about, as ``code`` and ``message``: the log's, the roof's, the profile's and the input's."""
    found = [("input", clean(problem, 400)) for problem in result.problems]
    found += [(f.code, finding_words.sentence(f)) for f in result.findings if f.weight == "warning"]
    found += [(code, WARNINGS[code]) for facts in result.facts for code in facts.warnings if code in WARNINGS]
    told = {code for code, _ in found}
    codes = [code for code in (*result.roof.caveats, *result.summary.caveats) if code not in told]
    found += [(code, text) for code in codes if (text := caveats.sentence(code)) is not None]
    if result.profile is not None:
        found += [(w.code, f"Profile: {clean(w.message, 400)}") for w in result.profile.warnings]
    return [{"code": code, "message": message} for code, message in dict.fromkeys(found)]


def warning_sentences(result: Comparison) -> list[str]:
    """The same for the screen, without those that the answer at its top tells."""
    told = answer.told(result.findings)
    return [warning["message"] for warning in warnings(result) if warning["code"] not in told]
