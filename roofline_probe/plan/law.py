"""The law of a decode step, and how far it can be trusted: pure functions, milliseconds.

    step(B, C) = GEMMs(B) + a · KV bytes(B, C) / read beta + c0 + c1 · B

GEMMs(B) is the profile's model ceiling and KV bytes follow from the dimensions, so three numbers are left for the
engine: ``a`` (attention reads the cache more slowly than a plain read kernel), ``c0`` (launches, scheduling, sampling
set-up) and ``c1`` (what each further sequence adds: norms, sampling, block tables). They are fitted to the steady
decode windows of a log, and the fit is judged by leaving each regime (batch and context bin) out and predicting it
from the others.

The coefficients are held at a >= 1, c0 >= 0, c1 >= 0: no engine beats the kernels it is made of, so a prediction is
never under its floor, and it never falls when batch or context grow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

MIN_REGIMES = 3
"""Three unknowns: fewer regimes than this and the log cannot tell them apart."""

_LOWER = (1.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Observation:
    """One steady decode window: what the kernels need by themselves, and what the engine took."""

    batch: float
    context: float
    gemm_ms: float
    kv_ms: float
    """KV bytes / read beta."""
    step_ms: float
    regime: Hashable
    link_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class StepLaw:
    """The three engine coefficients."""

    kv_factor: float
    """a: time of the attention over a plain read of the same bytes, at least 1."""
    base_ms: float
    """c0."""
    per_sequence_ms: float
    """c1."""

    def engine_ms(self, batch: float) -> float:
        """What the engine adds to its kernels at this batch."""
        return self.base_ms + self.per_sequence_ms * batch

    def step_ms(self, gemm_ms: float, kv_ms: float, batch: float, link_ms: float = 0.0) -> float:
        """Predicted step time."""
        return gemm_ms + link_ms + self.kv_factor * kv_ms + self.engine_ms(batch)


BOUND_ONLY = StepLaw(1.0, 0.0, 0.0)
"""No engine at all: what profile and dimensions alone allow. A bound, not a prediction."""


@dataclass(frozen=True, slots=True)
class RegimeError:
    """One regime, predicted by a law that has not seen it. Fractions: (predicted − measured) / measured."""

    regime: Hashable
    batch: float
    """Mean over the regime's windows, as is ``context``."""
    context: float
    windows: int
    mean_error: float
    worst_error: float
    """The window with the largest absolute error."""


def fit(observations: Sequence[Observation]) -> StepLaw:
    """Least squares of the *relative* error, every regime weighing the same, coefficients at or above their bounds.

    Relative, because 0.3 ms matter at a 5 ms step and vanish at 50; by regime, because a log that decodes at batch 1
    for an hour must not drown its one minute at batch 256. With three coefficients the bounded optimum is found
    exactly, by trying every set of coefficients that may rest on its bound.

    Raises:
        ValueError: no observations.
    """
    if not observations:
        raise ValueError("no observations to fit")
    rows = _weighted_rows(observations)
    candidates = [
        solution
        for free_count in range(len(_LOWER) + 1)
        for free in combinations(range(len(_LOWER)), free_count)
        if (solution := _solve_free(rows, free)) is not None
    ]
    return StepLaw(*min(candidates, key=lambda solution: _loss(rows, solution)))


def leave_one_regime_out(observations: Sequence[Observation]) -> list[RegimeError]:
    """Each regime predicted from all others, in order of first appearance; empty below ``MIN_REGIMES``."""
    regimes = list(dict.fromkeys(o.regime for o in observations))
    if len(regimes) < MIN_REGIMES:
        return []
    return [_held_out(observations, regime) for regime in regimes]


def errors_of(law: StepLaw, observations: Iterable[Observation]) -> list[float]:
    """(predicted − measured) / measured of each observation."""
    return [law.step_ms(o.gemm_ms, o.kv_ms, o.batch, o.link_ms) / o.step_ms - 1 for o in observations]


def _held_out(observations: Sequence[Observation], regime: Hashable) -> RegimeError:
    law = fit([o for o in observations if o.regime != regime])
    held_out = [o for o in observations if o.regime == regime]
    errors = errors_of(law, held_out)
    return RegimeError(
        regime=regime,
        batch=fmean(o.batch for o in held_out),
        context=fmean(o.context for o in held_out),
        windows=len(held_out),
        mean_error=fmean(errors),
        worst_error=max(errors, key=abs),
    )


_Row = tuple[tuple[float, float, float], float]


def _weighted_rows(observations: Sequence[Observation]) -> list[_Row]:
    """Design rows (kv, 1, B) and target (step − GEMMs − link), scaled so that residuals are relative errors."""
    counts = Counter(o.regime for o in observations)
    rows = []
    for o in observations:
        scale = 1 / (o.step_ms * counts[o.regime] ** 0.5)
        rows.append(((o.kv_ms * scale, scale, o.batch * scale), (o.step_ms - o.gemm_ms - o.link_ms) * scale))
    return rows


def _loss(rows: Sequence[_Row], solution: Sequence[float]) -> float:
    return sum((sum(x * c for x, c in zip(xs, solution, strict=True)) - y) ** 2 for xs, y in rows)


def _solve_free(rows: Sequence[_Row], free: tuple[int, ...]) -> tuple[float, ...] | None:
    """Normal equations in the free coefficients, the others on their bounds; None if singular or out of bounds."""
    solution = list(_LOWER)
    if free:
        shifted = [(xs, y - sum(xs[j] * _LOWER[j] for j in range(len(_LOWER)) if j not in free)) for xs, y in rows]
        matrix = [[sum(xs[i] * xs[j] for xs, _ in shifted) for j in free] for i in free]
        target = [sum(xs[i] * y for xs, y in shifted) for i in free]
        values = _gauss(matrix, target)
        if values is None or any(v < _LOWER[i] for i, v in zip(free, values, strict=True)):
            return None
        for i, v in zip(free, values, strict=True):
            solution[i] = v
    return tuple(solution)


def _gauss(matrix: list[list[float]], target: list[float]) -> list[float] | None:
    """Solve a system of at most three equations; None if it is singular to working precision."""
    size = len(target)
    rows = [[*row, value] for row, value in zip(matrix, target, strict=True)]
    scale = max((abs(v) for row in matrix for v in row), default=0.0)
    for column in range(size):
        pivot = max(range(column, size), key=lambda r: abs(rows[r][column]))
        if abs(rows[pivot][column]) <= 1e-12 * scale:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for r in range(size):
            if r != column:
                factor = rows[r][column] / rows[column][column]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[column], strict=True)]
    return [rows[i][size] / rows[i][i] for i in range(size)]
