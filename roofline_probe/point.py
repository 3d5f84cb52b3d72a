"""A serving step under the roofs: the types that ``correlate`` fills, ``summary`` adds up and ``report`` draws."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from log_parsers.step import ServingStep
from roofline_probe.recount import Work

Bound = Literal["compute", "memory", "link", "host"]
RoofChoice = Literal["auto", "burst", "sustained", "datasheet"]


@dataclass(frozen=True, slots=True)
class Roof:
    """The denominators, chosen once per run of a log. Rates are per GPU, decimal."""

    origin: Literal["measured", "datasheet", "given"]
    """A profile, a published datasheet, or ``--pi``/``--beta``."""
    device: str
    """Always *assumed*: no log names its GPU."""
    choice: RoofChoice
    dtype: str
    """Compute dtype whose pi applies."""
    dtype_source: Literal["log", "flag", "assumed"]
    date: str | None = None
    """Day the profile was measured, ISO-8601."""
    profile_name: str | None = None
    pi_burst_tflops: float | None = None
    pi_sustained_tflops: float | None = None
    beta_gbps: float | None = None
    """Better of copy and triad."""
    read_beta_gbps: float | None = None
    caveats: tuple[str, ...] = ()
    device_kind: str | None = None
    """``cuda``, ``cpu``, ...: of the profile; None for figures that are no profile's."""

    @property
    def pi_tflops(self) -> float | None:
        """The pi that percentages divide by: sustained under ``auto`` where it was measured, else burst."""
        if self.choice == "burst" or self.pi_sustained_tflops is None:
            return self.pi_burst_tflops
        return self.pi_sustained_tflops

    @property
    def pi_name(self) -> str:
        """``sustained`` or ``burst`` (or the origin, where there is only one figure)."""
        if self.origin != "measured":
            return self.origin
        return "burst" if self.choice == "burst" or self.pi_sustained_tflops is None else "sustained"


def flags_of(pi_tflops: float | None, beta_gbps: float | None) -> str:
    """``--pi and --beta``, or the one of them that was given."""
    given = (("--pi", pi_tflops), ("--beta", beta_gbps))
    return " and ".join(flag for flag, figure in given if figure is not None)


@dataclass(frozen=True, slots=True)
class Point:
    """One step with what it achieved of what is attainable. Fractions are 0 to 1 and above, never clamped."""

    step: ServingStep
    recounted_tflops: float | None
    recounted_gbps: float | None
    """Weights and KV only, one accounting for both engines; activations are not in it."""
    basis: Literal["engine", "recounted"] | None
    """Which count the fractions divide; None when neither is usable."""
    batch: float | None
    """Decode and mixed: sequences per engine step. Prefill: prompt tokens per engine step."""
    context: float | None
    """Mean context length in tokens of a running sequence."""
    intensity: float | None
    """FLOP/byte."""
    compute_fraction: float | None
    bandwidth_fraction: float | None
    roof_fraction: float | None
    """The larger of both; None where one of the roofs is missing, and for a decode whose bytes are not known."""
    beta_name: Literal["read", "beta"] | None
    """Which bandwidth ``bandwidth_fraction`` divides by."""
    step_ms: float | None
    gemm_ms: float | None
    kv_ms: float | None
    link_ms: float | None
    rest_ms: float | None
    """step − (gemm + kv + link): what the engine adds. May be negative: shown, with a caveat."""
    attained_fraction: float | None
    """(gemm + kv + link) / step: how much of the step no engine could have avoided with these kernels."""
    estimated: bool
    """True where gemm_ms comes from the roofs, not from a measured ceiling of this model."""
    bound: Bound | None
    caveats: tuple[str, ...] = ()
    """Stable codes; ``report.words`` turns them into sentences."""
    work: Work | None = None
    """The recount behind ``recounted_*``: totals of the window, tokens, steps, activation bytes."""

    @property
    def undiluted_roof_fraction(self) -> float | None:
        """``roof_fraction`` of the busy part of a diluted window; None where the log does not tell how much that is."""
        dilution = self.step.dilution
        return None if self.roof_fraction is None or dilution is None else self.roof_fraction * dilution


@dataclass(frozen=True, slots=True)
class Bin:
    """One row of the answer: steady steps of one kind, batch bin and context bin. Work over time, not medians."""

    kind: str
    batch_low: int | None
    batch_high: int | None
    """Smallest and largest ``Point.batch`` of the row; for prefill these are prompt tokens per step."""
    context_low: int | None
    context_high: int | None
    engine: str
    rank: str | None
    windows: int
    seconds: float
    tok_s: float | None
    engine_tflops: float | None
    engine_gbps: float | None
    """The engine's own count, over the windows that were recounted too where any was, so that the two have a ratio."""
    recounted_tflops: float | None
    recounted_gbps: float | None
    intensity: float | None
    compute_fraction: float | None
    bandwidth_fraction: float | None
    roof_fraction: float | None
    attained_fraction: float | None
    step_ms: float | None
    gemm_ms: float | None
    kv_ms: float | None
    link_ms: float | None
    rest_ms: float | None
    estimated: bool
    bound: Bound | None
    caveats: tuple[str, ...] = ()
    batch_mean: float | None = None
    context_mean: float | None = None
    """Means over engine steps, of the context over their sequences; decode and mixed only."""
    above_windows: int = 0
    above_seconds: float = 0.0
    above_highest: float | None = None
    """Windows that read more than their whole step or their roof, their time, and the highest such fraction."""
    compute_fraction_without: float | None = None
    attained_fraction_without: float | None = None
    """What ``compute_fraction`` and ``attained_fraction`` would be without those windows."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a report says about a whole log; the same for ``compare`` and for the end of ``tail``."""

    kinds: tuple[Bin, ...]
    """One row per kind (all batches together), decode first; of the windows that can be taken apart, where any can."""
    bins: tuple[Bin, ...]
    """Per kind, batch and context bin, in that order; windows that cannot be taken apart in rows of their own."""
    ranks: tuple[Bin, ...]
    """Per kind and rank, only where there is more than one rank."""
    excluded: dict[str, int] = field(default_factory=dict)
    """Status (idle, diluted, partial, noise, unsupported), or ``untimed`` for a steady step whose window has no known
    length and so no weight -> number of steps left out of everything above."""
    steps: int = 0
    first_time: str | None = None
    last_time: str | None = None
    queued: int = 0
    """Steady steps in which requests were waiting."""
    queued_running_max: int | None = None
    queued_kv_usage_max: float | None = None
    """Most requests running, and the fullest KV cache, in those steps: which limit held the others back."""
    kv_usage_max: float | None = None
    caveats: tuple[str, ...] = ()
    judged: int = 0
    """Steps with a rate to judge, whatever their status."""
    running_max: int | None = None
