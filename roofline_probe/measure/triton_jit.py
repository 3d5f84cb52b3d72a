"""The Triton source of the streaming kernels. Imported only where Triton is installed (see ``triton_kernels``).

Triton resolves names through a function's module, so these stand at module level.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def copy(a, out, n, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """out = a."""
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < n
    tl.store(out + at, tl.load(a + at, mask=inside), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def triad(b, c, out, scale, n, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """out = b + scale·c."""
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = at < n
    tl.store(out + at, tl.load(b + at, mask=inside) + scale * tl.load(c + at, mask=inside), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def read(a, out, n, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """One partial sum a program: 4 B written for 4·block read, so that the loads cannot be left out."""
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    tl.store(out + tl.program_id(0), tl.sum(tl.load(a + at, mask=at < n, other=0.0), axis=0))


@triton.jit  # type: ignore[untyped-decorator]
def write(out, value, n, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """out = value."""
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    tl.store(out + at, tl.full((block,), 0.0, tl.float32) + value, mask=at < n)
