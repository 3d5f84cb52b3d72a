"""What a kernel needs of torch to build itself: the module, the place, random operands and cache-defeating copies."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SEED = 20090401
_SAMPLE = 64
"""Rows and columns that verification computes again in float64."""
_CACHES = 4
"""Operands rotate over this many last-level caches, so that no call finds its own in it."""


@dataclass(frozen=True, slots=True)
class Work:
    """A kernel ready on a device."""

    calls: list[Callable[[], object]]
    """One execution each, over another copy of the operands; equal work, so that any number of them can be averaged."""
    verify: Callable[[], float]
    """Relative error of the first call's output against float64; infinite if part of it was not written."""
    implementation: str
    capturable: bool = True
    """False where a CUDA graph would replay another code path than the plain stream takes."""


class Bench:
    """Torch on one device."""

    def __init__(self, torch: Any, where: str, last_level_cache_bytes: int | None) -> None:
        """``where`` as torch names it: ``cuda:0``, ``cpu``."""
        self.torch = torch
        self.where = where
        self.cache_bytes = last_level_cache_bytes or 0
        self.generator = torch.Generator(device=where)
        self.generator.manual_seed(SEED)
        self._kept: dict[object, Any] = {}

    def keep(self, key: object, make: Callable[[], Any]) -> Any:
        """Operands that several kernels share (a model's weights); one such set at a time."""
        if key not in self._kept:
            self.forget()
            self._kept[key] = make()
        return self._kept[key]

    def forget(self) -> None:
        """Free what ``keep`` holds."""
        self._kept.clear()

    def copies(self, set_bytes: float) -> int:
        """Sets of operands so that all together are several caches large; one is enough for large operands."""
        return max(1, math.ceil(_CACHES * self.cache_bytes / max(1.0, set_bytes)))

    def stays_cached(self, size: float) -> bool:
        """Whether something of that size is still in the cache after the kernel that wrote it."""
        return size <= self.cache_bytes / 8

    def normal(self, *shape: int, dtype: Any) -> Any:
        """Normally distributed values. Zeros, ones or small integers toggle fewer bits and draw less power: on an H200
        zeros flatter a sustained GEMM by 17 %."""
        return self.torch.randn(*shape, dtype=dtype, device=self.where, generator=self.generator)

    def poison(self, out: Any) -> None:
        """Fill an output so that an element that a kernel does not write shows."""
        if out.dtype.is_floating_point:
            out.fill_(math.nan)
        else:
            out.fill_(self.torch.iinfo(out.dtype).min)

    def all_written(self, out: Any) -> bool:
        """Whether no poison is left. int32 sums of int8 products cannot reach the poison for any K below 2**17."""
        if out.dtype.is_floating_point:
            return bool(self.torch.isfinite(out).all().item())
        return not bool((out == self.torch.iinfo(out.dtype).min).any().item())

    def sample(self, size: int) -> Any:
        """Up to 64 sorted random indices below ``size``."""
        torch = self.torch
        chosen = torch.randperm(size, generator=self.generator, device=self.where)[:_SAMPLE]
        return torch.sort(chosen).values

    def relative_error(self, out: Any, reference: Any) -> float:
        """‖out − ref‖ / ‖ref‖ in float64 on the CPU."""
        torch = self.torch
        got = out.detach().to("cpu", torch.float64)
        wanted = reference.to("cpu", torch.float64)
        norm = float(torch.linalg.vector_norm(wanted))
        difference = float(torch.linalg.vector_norm(got - wanted))
        return difference / norm if norm else difference
