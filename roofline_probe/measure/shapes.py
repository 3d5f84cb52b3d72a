"""Which GEMMs are measured: the sweep's squares and projections, the burst candidates, and the search around the best.

The candidates cover the ways a large product can fill a card: squares, a layer's own shapes at prefill, and rectangles
whose tiles divide evenly among the multiprocessors (a last, part-filled wave is what the worst shapes lose by).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from roofline_probe import roofline
from roofline_probe.measure.dtypes import DTYPES
from roofline_probe.measure.gemm import Gemm
from roofline_probe.workloads import ModelShape

BURST_CANDIDATES = (
    (8192, 8192, 8192),
    (12288, 8192, 12288),
    (7168, 14336, 10240),
    (4096, 4096, 14336),
)
"""(m, n, k) for any device."""
WAVE_CANDIDATES = (
    (128, 2048, 20480),
    (64, 2048, 20480),
    (64, 4096, 16384),
    (64, 7168, 12288),
    (128, 7168, 12288),
)
"""(rows per multiprocessor, n, k): tiles of 128 or 256 rows then fill every wave to the last multiprocessor. The first
was the best of 510 random shapes on an H200 in bf16 and in fp8."""
QUICK_CANDIDATES = 2
"""So many of the wave candidates, and the first square, in a quick run."""
SMALL_CANDIDATES = ((1024, 1024, 1024), (2048, 2048, 2048), (1024, 4096, 4096), (512, 4096, 4096))
"""For devices so slow that the others would take seconds a call: CPUs."""
_STEP = 1024
_USUAL_MULTIPROCESSORS = 128


def squares(dtype: str, sizes: Iterable[int]) -> list[Gemm]:
    """Square products."""
    return [Gemm(dtype, d, d, d, "square") for d in sizes]


def projections(dtype: str, model: ModelShape, tp: int, m_sweep: Iterable[int], intensity: float | None) -> list[Gemm]:
    """A layer's projections on one rank at each M, with the point at T*, where it crosses the ridge ``intensity``."""
    traits = DTYPES[dtype]
    ffn = model.moe_projections() if model.moe_layers else model.dense_projections()
    found = []
    for projection in model.attention_projections() + ffn:
        n, k = projection.per_rank(tp)
        crossing = intensity and roofline.t_star(intensity, n, k, traits.input_bytes, None, traits.output_bytes)
        points = sorted({*m_sweep, *([round(crossing)] if crossing else [])})
        found += [Gemm(dtype, m, n, k, projection.name) for m in points]
    return found


def candidates(dtype: str, multiprocessors: int | None, *, quick: bool) -> list[Gemm]:
    """Shapes that are each given a burst, likeliest first."""
    units = multiprocessors or _USUAL_MULTIPROCESSORS
    waves = [(rows * units, n, k) for rows, n, k in WAVE_CANDIDATES]
    chosen = [*waves[:QUICK_CANDIDATES], BURST_CANDIDATES[0]] if quick else [*waves, *BURST_CANDIDATES]
    return [Gemm(dtype, *shape, "candidate") for shape in chosen]


def small_candidates(dtype: str, *, quick: bool) -> list[Gemm]:
    """The same for a device on which none of those ends in time."""
    return [Gemm(dtype, *shape, "candidate") for shape in (SMALL_CANDIDATES[:2] if quick else SMALL_CANDIDATES)]


def neighbours(best: Gemm, tried: Sequence[Gemm]) -> list[Gemm]:
    """The best shape with N or K a quarter longer or shorter, in whole tiles; M already fills whole waves."""
    seen = {(g.m, g.n, g.k) for g in tried}
    found = []
    for axis in (1, 2):
        for factor in (1.25, 0.75):
            shape = [best.m, best.n, best.k]
            step = _STEP if min(shape) >= 4 * _STEP else 256
            shape[axis] = max(step, round(shape[axis] * factor / step) * step)
            if tuple(shape) not in seen:
                found.append(Gemm(best.dtype, shape[0], shape[1], shape[2], "search"))
    return found
