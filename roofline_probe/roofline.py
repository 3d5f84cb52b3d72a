"""The roofline's formulas and nothing else: pure functions, no I/O, no torch, no rounding, no clamping.

Symbols and units, used throughout:

* ``pi_flops``: peak rate of arithmetic, FLOP/s; ``beta_bytes``: peak rate of memory traffic, B/s;
* ``b_a``, ``b_w``, ``b_o``: bytes per element of a GEMM's input A [M, K], weight B [K, N] and output C [M, N];
* ``m``, ``n``, ``k``: GEMM dimensions; M is the number of tokens (rows) a step feeds through a projection.

Source of the model: Williams, Waterman, Patterson, "Roofline: an insightful visual performance model for multicore
architectures", CACM 52(4), 2009. The GEMM traffic is the compulsory one: every operand crosses the memory bus once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


def gemm_flops(m: int, n: int, k: int) -> int:
    """FLOP of C[m, n] = A[m, k] B[k, n]: one multiply and one add per MAC."""
    return 2 * m * n * k


def gemm_bytes(m: int, n: int, k: int, b_a: float, b_w: float | None = None, b_o: float | None = None) -> float:
    """Compulsory bytes of the same GEMM: read A, read B, write C, once each. Sizes left out equal ``b_a``."""
    b_w = b_a if b_w is None else b_w
    b_o = b_a if b_o is None else b_o
    return b_a * m * k + b_w * k * n + b_o * m * n


def stream_bytes(pattern: Literal["copy", "triad", "read", "write"], array_bytes: int) -> int:
    """Bytes a streaming kernel moves: copy 1R+1W, triad 2R+1W, read 1R, write 1W, in arrays of ``array_bytes``."""
    return {"copy": 2, "triad": 3, "read": 1, "write": 1}[pattern] * array_bytes


def ridge(pi_flops: float, beta_bytes: float) -> float:
    """Intensity I* (FLOP/byte) at which the two roofs meet."""
    return pi_flops / beta_bytes


def attainable_flops(intensity: float, pi_flops: float, beta_bytes: float) -> float:
    """min(pi, beta·I), FLOP/s."""
    return min(pi_flops, beta_bytes * intensity)


def bound_of(intensity: float, pi_flops: float, beta_bytes: float) -> Literal["compute", "memory"]:
    """Which roof lies over this intensity; exactly at the ridge both do, and ``compute`` is said."""
    return "compute" if intensity >= ridge(pi_flops, beta_bytes) else "memory"


def t_star(
    intensity: float, n: int, k: int, b_a: float, b_w: float | None = None, b_o: float | None = None
) -> float | None:
    """Tokens T* at which a [K, N] projection reaches ``intensity``, or None if no number of tokens does.

    From 2·T·K·N = I·(b_a·T·K + b_w·K·N + b_o·T·N), solved for T. With ``intensity`` = the ridge this is the batch where
    the projection stops being memory-bound. For one element size b and a square d it is b·I·d / (2·(d − b·I)); the
    often-quoted I·d / (d − b·I) is that for b = 2 only.
    """
    b_w = b_a if b_w is None else b_w
    b_o = b_a if b_o is None else b_o
    slack = 2 * k * n - intensity * (b_a * k + b_o * n)
    return intensity * b_w * k * n / slack if slack > 0 else None


def t_star_of_layer(
    intensity: float, shapes: Sequence[tuple[int, int]], b_a: float, b_w: float | None = None, b_o: float | None = None
) -> float | None:
    """T* of several [K, N] projections run one after the other, judged by their summed work and traffic."""
    b_w = b_a if b_w is None else b_w
    b_o = b_a if b_o is None else b_o
    kn = sum(k * n for k, n in shapes)
    slack = 2 * kn - intensity * sum(b_a * k + b_o * n for k, n in shapes)
    return intensity * b_w * kn / slack if slack > 0 else None


def decode_floor_s(weight_bytes: float, beta_bytes: float) -> float:
    """Seconds that a decode step needs at least: every streamed weight byte once. The input embedding is a look-up."""
    return weight_bytes / beta_bytes


def batch1_ceiling_tok_s(weight_bytes: float, beta_bytes: float) -> float:
    """Tokens/s that no batch-1 decode can exceed: 1 / decode floor."""
    return beta_bytes / weight_bytes


def kv_bytes_per_token(layers: int, kv_heads: int, head_dim: int, b_kv: float) -> float:
    """Bytes of K and V that one token occupies in all layers, and that attention reads per cached token."""
    return 2 * layers * kv_heads * head_dim * b_kv


def gemv_intensity(b: float) -> float:
    """Batch-1 decode weight GEMV: 2 FLOP per weight element of ``b`` bytes."""
    return 2 / b


def gqa_attention_intensity(gqa_group: int, b: float) -> float:
    """Decode attention: every cached element serves ``gqa_group`` query heads; the context length cancels."""
    return 2 * gqa_group / b


def square_gemm_intensity(tokens: int, d: int, b: float) -> float:
    """[T, d] x [d, d] with one element size: 2·T·d / (b·(2·T + d))."""
    return 2 * tokens * d / (b * (2 * tokens + d))


@dataclass(frozen=True, slots=True)
class Fractions:
    """A window's rates over the roofs. 0 to 1 and above: never clamped."""

    compute: float | None
    """F / pi."""
    bandwidth: float | None
    """B / beta."""
    roof: float | None
    """max of both: achieved / attainable when F and B come from the same window."""
    serial_upper: float | None
    """min(1, F/pi + B/beta): where memory-bound and compute-bound parts cannot overlap, the true fraction lies between
    ``roof`` and this."""


def fractions(
    flops: float | None, bytes_per_s: float | None, pi_flops: float | None, beta_bytes: float | None
) -> Fractions:
    """Rates over roofs (FLOP/s over FLOP/s, B/s over B/s); a part that is unknown stays None."""
    compute = None if flops is None or not pi_flops else flops / pi_flops
    bandwidth = None if bytes_per_s is None or not beta_bytes else bytes_per_s / beta_bytes
    known = [f for f in (compute, bandwidth) if f is not None]
    both = None if compute is None or bandwidth is None else min(1.0, compute + bandwidth)
    return Fractions(compute, bandwidth, max(known) if known else None, both)


def ring_all_reduce_bytes(message_bytes: float, ranks: int) -> float:
    """Bytes one rank sends (and receives) in a ring all-reduce: 2·(n−1)/n of the message; the "bus bandwidth" base."""
    return 2 * (ranks - 1) / ranks * message_bytes
