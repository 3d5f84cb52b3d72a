"""Figures and stable codes turned into sentences. What happened, the likely cause, what to try."""

from __future__ import annotations

from roofline_probe import kpi
from roofline_probe.profile import Prediction, Profile
from roofline_probe.report.text import clean, listed, significant, tera


def profile_headline(profile: Profile) -> str:
    """``NVIDIA H200: pi 820 TFLOP/s bf16 (683 sustained) · beta 4.41 TB/s, reads 4.62 TB/s``."""
    dtype = kpi.main_dtype(profile)
    parts = []
    if dtype is not None:
        burst, sustained = profile.pi_tflops(dtype), profile.pi_tflops(dtype, "sustained")
        best = kpi.measured_roofs(profile, dtype).pi_tflops
        note = f" ({significant(sustained)} sustained)" if burst and sustained else ""
        parts.append(f"pi {significant(best)} TFLOP/s {dtype}{note}")
    if profile.beta_gbps is not None:
        reads = f" (reads {tera(profile.read_beta_gbps).split()[0]})" if profile.read_beta_gbps else ""
        parts.append(f"beta {tera(profile.beta_gbps)}{reads}")
    return f"{clean(profile.device.name)}: {' · '.join(parts) or 'nothing was measured'}"


def profile_warnings(profile: Profile) -> list[str]:
    """The profile's own warnings, and what its shape implies."""
    sentences = [clean(warning.message, 600) for warning in profile.warnings]
    if not profile.complete:
        sentences.insert(0, "The run was interrupted; run `probe measure` again for the missing figures.")
    unsettled = [p.dtype for p in profile.peaks if p.regime == "sustained" and p.settled is False]
    if unsettled:
        sentences.append(
            f"The {listed(unsettled)} soak had not settled: its sustained pi may still be too high; "
            "a longer --soak would tell."
        )
    return sentences


def prediction_sentence(prediction: Prediction) -> str:
    """Question, answer, what came out."""
    verdict = {True: "right", False: "wrong", None: "not measured"}[prediction.correct]
    off = f", off by {prediction.error_points:+.1f} points" if prediction.error_points is not None else ""
    measured = f"; measured {clean(prediction.measured)}" if prediction.measured else ""
    comment = f" {clean(prediction.comment, 400)}" if prediction.comment else ""
    return f"{clean(prediction.question)} You said {clean(prediction.answer)}{measured}: {verdict}{off}.{comment}"
