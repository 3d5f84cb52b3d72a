"""Streaming kernels: copy, triad, read and write over arrays that no cache holds, in several implementations.

``copy_`` can take another path than a kernel copy (and does inside a CUDA graph), a plain sum reads slower than a
tuned kernel, a dot product silently covers half of a 16 GiB array: so several are measured, each verifies what it did,
and the best median counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from roofline_probe import roofline
from roofline_probe.measure import triton_kernels
from roofline_probe.measure.bench import Bench, Work
from roofline_probe.profile import Pattern

PATTERNS: tuple[Pattern, ...] = ("copy", "triad", "read", "write")
SCALE = 0.4
_ELEMENT = 4
_TILE = 1 << 22
"""Random elements generated once and repeated: filling gigabytes with fresh ones takes longer than measuring them."""

TORCH_IMPLEMENTATIONS: dict[str, tuple[str, ...]] = {
    "copy": ("torch.copy_", "torch.mul"),
    "triad": ("torch.add",),
    "read": ("torch.sum",),
    "write": ("torch.fill_",),
}


def triton_implementations(pattern: str) -> list[str]:
    """Names of the tuned Triton variants, ``triton 1024/8`` (elements a program / warps); none without Triton."""
    if triton_kernels.kernels() is None:
        return []
    return [f"triton {block}/{warps}" for block, warps in triton_kernels.CONFIGS[pattern]]


@dataclass(frozen=True, slots=True)
class Stream:
    """One pattern over float32 arrays of ``array_bytes`` each."""

    pattern: Pattern
    implementation: str
    array_bytes: int

    inputs = "normal"
    dtype = "fp32"
    label = None
    flops = 0
    tolerance = 1e-5

    @property
    def kernel(self) -> str:
        """The pattern's name."""
        return self.pattern

    @property
    def bytes_moved(self) -> int:
        """Every array counted once per pass: a copy moves two."""
        return roofline.stream_bytes(self.pattern, self.array_bytes)

    @property
    def key(self) -> str:
        """``copy torch.mul 1024 MiB``."""
        return f"{self.pattern} {self.implementation} {self.array_bytes / 2**20:g} MiB"

    def build(self, bench: Bench) -> Work:
        """Arrays of that size, once: a buffer that fits the cache is then measured as what it is."""
        n = self.array_bytes // _ELEMENT
        sources = {"copy": 1, "triad": 2, "read": 1, "write": 0}[self.pattern]
        inputs = [filled(bench, n) for _ in range(sources)]
        if self.implementation.startswith("triton "):
            call, out = self._triton(bench, inputs, n)
        else:
            call, out = self._torch(bench, inputs, n)
        return Work(
            calls=[call],
            verify=lambda: self._error(bench, call, inputs, out),
            implementation=self.implementation,
            # Inside a CUDA graph a large copy_ becomes a memcpy node, which reached 2754 instead of 4250 GB/s.
            capturable=self.implementation != "torch.copy_",
        )

    def _torch(self, bench: Bench, inputs: list[Any], n: int) -> tuple[Callable[[], object], Any]:
        torch = bench.torch
        out = torch.empty(1 if self.pattern == "read" else n, dtype=torch.float32, device=bench.where)
        calls: dict[str, Callable[[], object]] = {
            "torch.copy_": lambda: out.copy_(inputs[0]),
            "torch.mul": lambda: torch.mul(inputs[0], SCALE, out=out),
            "torch.add": lambda: torch.add(inputs[0], inputs[1], alpha=SCALE, out=out),
            "torch.sum": lambda: torch.sum(inputs[0], 0, keepdim=True, out=out),
            "torch.fill_": lambda: out.fill_(SCALE),
        }
        return calls[self.implementation], out

    def _triton(self, bench: Bench, inputs: list[Any], n: int) -> tuple[Callable[[], object], Any]:
        block, warps = (int(part) for part in self.implementation.removeprefix("triton ").split("/"))
        size = -(-n // block) if self.pattern == "read" else n
        out = bench.torch.empty(size, dtype=bench.torch.float32, device=bench.where)
        return triton_kernels.launcher(self.pattern, block, warps, [*inputs, out], SCALE), out

    def _error(self, bench: Bench, call: Callable[[], object], inputs: list[Any], out: Any) -> float:
        bench.poison(out)
        call()
        if not bench.all_written(out):
            return float("inf")
        if self.pattern == "read":
            return self._read_error(bench, inputs[0], out)
        index = bench.torch.randint(out.numel(), (4096,), device=bench.where, generator=bench.generator)
        a, b = ([*(x[index].double() for x in inputs), None, None])[:2]
        wanted = {
            "copy": lambda: a * SCALE if self.implementation == "torch.mul" else a,
            "triad": lambda: a + SCALE * b,
            "write": lambda: bench.torch.full_like(out[index], SCALE, dtype=bench.torch.float64),
        }[self.pattern]()
        return bench.relative_error(out[index], wanted)

    def _read_error(self, bench: Bench, source: Any, out: Any) -> float:
        """A sum that left out half of the array would be wrong by far more than float32 rounding of a sum."""
        torch = bench.torch
        wanted = source.sum(dtype=torch.float64)
        return float((out.double().sum() - wanted).abs() / wanted.abs())


def filled(bench: Bench, n: int) -> Any:
    """n normally distributed float32 values with a mean of 1, so that a sum of them grows with what was read."""
    torch = bench.torch
    tile = bench.normal(min(n, _TILE), dtype=torch.float32) + 1
    out = torch.empty(n, dtype=torch.float32, device=bench.where)
    for start in range(0, n, _TILE):
        out[start : start + _TILE] = tile[: min(_TILE, n - start)]
    return out
