"""One matrix product: its work and traffic declared, its operands rotated, its result verified."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from roofline_probe import roofline
from roofline_probe.measure.bench import Bench, Work
from roofline_probe.measure.dtypes import DTYPES
from roofline_probe.measure.linear import check, linear


@dataclass(frozen=True, slots=True)
class Gemm:
    """C[m, n] = A[m, k] · W[n, k]ᵀ."""

    dtype: str
    m: int
    n: int
    k: int
    label: str | None = None

    kernel = "gemm"
    inputs = "normal"

    @property
    def flops(self) -> int:
        """2·m·n·k."""
        return roofline.gemm_flops(self.m, self.n, self.k)

    @property
    def bytes_moved(self) -> int:
        """Compulsory traffic: A, W and C once."""
        traits = DTYPES[self.dtype]
        return int(roofline.gemm_bytes(self.m, self.n, self.k, traits.input_bytes, None, traits.output_bytes))

    @property
    def tolerance(self) -> float:
        """Relative error that its type explains."""
        return DTYPES[self.dtype].tolerance

    @property
    def key(self) -> str:
        """``gemm bf16 8192x8192x8192`` (m x n x k)."""
        return f"gemm {self.dtype} {self.m}x{self.n}x{self.k}"

    def build(self, bench: Bench) -> Work:
        """Weights in as many copies as defeat the cache. Activations that are small are shared: in an engine the kernel
        before has just written them, so that they are read from the cache."""
        product = linear(bench, self.dtype)
        weight_bytes = DTYPES[self.dtype].input_bytes * self.n * self.k
        x, out = product.operand(self.m, self.k), product.output(self.m, self.n)
        alike = bench.stays_cached(DTYPES[self.dtype].input_bytes * self.m * self.k)
        sets = [(x, product.operand(self.n, self.k), out)]
        for _ in range(bench.copies(weight_bytes) - 1):
            own_x, own_out = (x, out) if alike else (product.operand(self.m, self.k), product.output(self.m, self.n))
            sets.append((own_x, product.operand(self.n, self.k), own_out))
        return Work(
            calls=[partial(product.multiply, *operands) for operands in sets],
            verify=lambda: check(bench, product, *sets[0]),
            implementation=product.implementation,
        )
