"""What a profile's peaks mean: ridge, T*, three reference workloads, decode floor and batch-1 ceiling. Pure.

Every figure computed from a datasheet has its twin computed from the measured pi and beta; that substitution, and how
far each peak misses its datasheet, is the result of measuring. Rates in TFLOP/s and GB/s; None: a part is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from roofline_probe import roofline
from roofline_probe.profile import Profile, Regime
from roofline_probe.workloads import DEFAULT_MODEL, MODELS

ELEMENT_BYTES = {"fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5}
"""Bytes of one stored element of a compute dtype."""
OUTPUT_BYTES = {"fp32": 4.0, "tf32": 4.0, "int8": 4.0}
"""Bytes of one output element; every other dtype writes 16 bits."""
_REGIMES: tuple[Regime, ...] = ("burst", "median", "sustained")


@dataclass(frozen=True, slots=True)
class Roofs:
    """One pair of peaks and where they meet."""

    pi_tflops: float | None
    beta_gbps: float | None

    @property
    def ridge(self) -> float | None:
        """I* in FLOP/byte."""
        if not self.pi_tflops or not self.beta_gbps:
            return None
        return roofline.ridge(self.pi_tflops * 1e12, self.beta_gbps * 1e9)

    def t_star(self, hidden_size: int, dtype: str) -> float | None:
        """Tokens at which a square [d, d] projection turns compute-bound; None also if no number of tokens does."""
        if self.ridge is None:
            return None
        b, out = element_bytes(dtype), OUTPUT_BYTES.get(dtype, 2.0)
        return roofline.t_star(self.ridge, hidden_size, hidden_size, b, b, out)

    def attainable_tflops(self, intensity: float) -> float | None:
        """min(pi, beta·I)."""
        if self.pi_tflops is None or self.beta_gbps is None:
            return None
        return roofline.attainable_flops(intensity, self.pi_tflops * 1e12, self.beta_gbps * 1e9) / 1e12

    def bound(self, intensity: float) -> Literal["compute", "memory"] | None:
        """Which of the two roofs lies over this intensity."""
        return None if self.ridge is None else "compute" if intensity >= self.ridge else "memory"


@dataclass(frozen=True, slots=True)
class Workload:
    """One reference workload under the measured roofs and under the datasheet's."""

    name: str
    intensity: float
    measured_tflops: float | None
    datasheet_tflops: float | None
    bound: Literal["compute", "memory"] | None
    """Under the measured roofs; None where one of them is missing."""


@dataclass(frozen=True, slots=True)
class DecodeLimit:
    """The least time of a batch-1 decode step of a model: every streamed weight byte once."""

    model: str
    dtype: str
    tp: int
    weight_bytes: float
    """On one GPU."""
    beta_gbps: float | None

    @property
    def floor_ms(self) -> float | None:
        """Weight bytes / beta."""
        return roofline.decode_floor_s(self.weight_bytes, self.beta_gbps * 1e9) * 1e3 if self.beta_gbps else None

    @property
    def ceiling_tok_s(self) -> float | None:
        """1 / decode floor."""
        return roofline.batch1_ceiling_tok_s(self.weight_bytes, self.beta_gbps * 1e9) if self.beta_gbps else None


def element_bytes(dtype: str) -> float:
    """Bytes per stored element; an unknown dtype counts as 16 bits."""
    return ELEMENT_BYTES.get(dtype, 2.0)


def main_dtype(profile: Profile) -> str | None:
    """The dtype that headlines speak of: a 16-bit one if measured, else the first measured; None without peaks."""
    return next((d for d in ("bf16", "fp16") if d in profile.dtypes), next(iter(profile.dtypes), None))


def measured_roofs(profile: Profile, dtype: str | None) -> Roofs:
    """Burst pi and beta, the pair a datasheet speaks of; whatever pi there is if no burst was measured."""
    if dtype is None:
        return Roofs(None, profile.beta_gbps)
    peaks = (profile.pi_tflops(dtype, regime) for regime in _REGIMES)
    return Roofs(next((pi for pi in peaks if pi is not None), None), profile.beta_gbps)


def sustained_roofs(profile: Profile, dtype: str | None) -> Roofs:
    """What holds under load, and what logs are judged by; empty where no soak was measured."""
    pi = profile.pi_tflops(dtype, "sustained") if dtype else None
    return Roofs(pi, profile.beta_gbps if pi else None)


def datasheet_roofs(profile: Profile, dtype: str | None) -> Roofs:
    """The published pair; empty for a card that is not in the table."""
    sheet = profile.datasheet
    return Roofs(sheet.tflops.get(dtype or ""), sheet.gbps) if sheet else Roofs(None, None)


def reference_workloads(
    measured: Roofs, datasheet: Roofs, dtype: str, hidden_size: int = 4096, gqa_group: int = 4, tokens: int = 2048
) -> list[Workload]:
    """Batch-1 weight GEMV, decode attention with grouped queries, and a prefill GEMM."""
    b = element_bytes(dtype)
    rows = [
        ("batch-1 decode, weights (GEMV)", roofline.gemv_intensity(b)),
        (f"decode attention, {gqa_group} queries a KV head", roofline.gqa_attention_intensity(gqa_group, b)),
        (
            f"prefill GEMM, {tokens:,} tokens, d = {hidden_size:,}",
            roofline.square_gemm_intensity(tokens, hidden_size, b),
        ),
    ]
    return [
        Workload(
            name,
            intensity,
            measured.attainable_tflops(intensity),
            datasheet.attainable_tflops(intensity),
            measured.bound(intensity),
        )
        for name, intensity in rows
    ]


def decode_limits(profile: Profile, betas: Sequence[float | None]) -> list[tuple[DecodeLimit, ...]]:
    """One tuple per measured model ceiling (or the default model), with a limit for each of ``betas``."""
    rows = []
    for model, dtype, tp, weight_bytes in _models(profile):
        rows.append(tuple(DecodeLimit(model, dtype, tp, weight_bytes, beta) for beta in betas))
    return rows


def _models(profile: Profile) -> list[tuple[str, str, int, float]]:
    if profile.ceilings:
        return [(c.model, c.dtype, c.tp, c.weight_bytes) for c in profile.ceilings]
    dtype = main_dtype(profile) or "bf16"
    return [(DEFAULT_MODEL, dtype, 1, MODELS[DEFAULT_MODEL].streamed_parameters * element_bytes(dtype))]
