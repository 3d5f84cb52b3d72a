"""The model ceiling: all projections of a model, one after the other, as one replay.

What a perfect engine built from these kernels would reach before attention: no norms, no sampling, no launch gaps. The
LM head is in it, for M rows; it is also timed alone, because a prefill computes logits for a few of its tokens only.
Layers are alike, so where not all of them fit (or on a CPU, would take minutes) fewer are measured and scaled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from roofline_probe.measure.bench import Bench, Work
from roofline_probe.measure.device import NotSupportedHere
from roofline_probe.measure.dtypes import DTYPES
from roofline_probe.measure.linear import check, linear
from roofline_probe.workloads import ModelShape, Projection

Part = Literal["all", "layers", "head"]
HEAD_DTYPE = {"fp8": "bf16", "int8": "bf16", "fp4": "bf16"}
"""Quantized checkpoints keep the LM head in 16 bit, and engines run it so."""


@dataclass(frozen=True, slots=True)
class Projections:
    """All projections of ``layers`` layers, the LM head, or both, on one rank of ``tp``, for ``m`` tokens."""

    model: ModelShape
    dtype: str
    tp: int
    m: int
    layers: int
    part: Part = "all"

    kernel = "projections"
    inputs = "normal"
    label = None

    @property
    def head_dtype(self) -> str:
        """Compute type of the LM head."""
        return HEAD_DTYPE.get(self.dtype, self.dtype)

    @property
    def flops(self) -> int:
        """2 FLOP per active weight and token."""
        layers = self._layers() * self._layer_parameters(active=True)
        return 2 * self.m * (layers + self._heads() * self._head_parameters())

    @property
    def bytes_moved(self) -> int:
        """Weights that the step streams: of experts only those that the tokens are routed to, spread evenly."""
        streamed = self._layers() * sum(self._streamed(p) for p in self.layer_projections())
        head = self._heads() * self._head_parameters()
        return int(DTYPES[self.dtype].input_bytes * streamed + DTYPES[self.head_dtype].input_bytes * head)

    @property
    def tolerance(self) -> float:
        """The larger of the two types' errors."""
        return max(DTYPES[self.dtype].tolerance, DTYPES[self.head_dtype].tolerance)

    @property
    def key(self) -> str:
        """``projections llama-3.1-8b bf16 tp1 m256``."""
        what = {"all": "projections", "layers": "layers", "head": "lm head"}[self.part]
        return f"{what} {self.model.name} {self.dtype} tp{self.tp} m{self.m}"

    def layer_projections(self) -> list[Projection]:
        """One layer's weights; in a mixture, the mixture layer's (the dense ones differ little and are few)."""
        ffn = self.model.moe_projections() if self.model.moe_layers else self.model.dense_projections()
        return self.model.attention_projections() + ffn

    def layer_weight_bytes(self) -> float:
        """Memory that one layer's weights take on one rank."""
        return DTYPES[self.dtype].input_bytes * self._layer_parameters(active=False)

    def active(self, projection: Projection) -> int:
        """Copies of a weight that M tokens use, routed as evenly as can be."""
        return min(projection.copies, self.m * projection.active)

    def build(self, bench: Bench) -> Work:
        """Own weights for every layer, as a model has (larger than any cache), shared by the kernels of every M."""
        stack: Stack = bench.keep(
            ("stack", self.model.name, self.dtype, self.tp, self.layers), lambda: Stack(bench, self)
        )
        return stack.work(self)

    def _layers(self) -> int:
        return 0 if self.part == "head" else self.layers

    def _heads(self) -> int:
        return 0 if self.part == "layers" else 1

    def _streamed(self, projection: Projection) -> int:
        n, k = projection.per_rank(self.tp)
        return n * k * self.active(projection)

    def _layer_parameters(self, *, active: bool) -> int:
        shapes = [(p, *p.per_rank(self.tp)) for p in self.layer_projections()]
        return sum(n * k * (p.active if active else p.copies) for p, n, k in shapes)

    def _head_parameters(self) -> int:
        n, k = self.model.lm_head().per_rank(self.tp)
        return n * k


class Stack:
    """Weights of a model on a device, allocated once and used at every M."""

    def __init__(self, bench: Bench, kernel: Projections) -> None:
        """Allocate the weights of ``kernel.layers`` layers and the LM head."""
        if kernel.model.moe_layers and kernel.dtype not in ("bf16", "fp16", "fp32"):
            raise NotSupportedHere("torch has no batched product of this type for experts")
        self._bench = bench
        self._product = linear(bench, kernel.dtype)
        self._head_product = linear(bench, kernel.head_dtype)
        self._layers = [[self._weights(p, kernel.tp) for p in kernel.layer_projections()] for _ in range(kernel.layers)]
        n, k = kernel.model.lm_head().per_rank(kernel.tp)
        self._head = self._head_product.operand(n, k)

    def work(self, kernel: Projections) -> Work:
        """One step of ``kernel.m`` tokens over these weights."""
        calls: list[Callable[[], object]] = []
        checks: list[Callable[[], float]] = []
        if kernel.part != "head":
            calls, checks = self._layer_calls(kernel)
        if kernel.part != "layers":
            head_x = self._head_product.operand(kernel.m, self._head.shape[-1])
            head_out = self._head_product.output(kernel.m, self._head.shape[0])
            calls.append(partial(self._head_product.multiply, head_x, self._head, head_out))
            checks.append(lambda: check(self._bench, self._head_product, head_x, self._head, head_out))

        def step() -> None:
            for call in calls:
                call()

        return Work(
            calls=[step],
            verify=lambda: max(measure() for measure in checks),
            implementation=self._product.implementation,
        )

    def _layer_calls(self, kernel: Projections) -> tuple[list[Callable[[], object]], list[Callable[[], float]]]:
        buffers: dict[tuple[int, int, int], Any] = {}
        calls: list[Callable[[], object]] = []
        checks: list[Callable[[], float]] = []
        for depth, layer in enumerate(self._layers):
            for projection, weight in zip(kernel.layer_projections(), layer, strict=True):
                call, measure = self._projection(kernel, projection, weight, buffers)
                calls.append(call)
                checks += [measure] if depth == 0 else []
        return calls, checks

    def _projection(
        self, kernel: Projections, projection: Projection, weight: Any, buffers: dict[tuple[int, int, int], Any]
    ) -> tuple[Callable[[], object], Callable[[], float]]:
        n, k = projection.per_rank(kernel.tp)
        if projection.copies == 1:
            x = _cached(buffers, (0, kernel.m, k), lambda: self._product.operand(kernel.m, k))
            out = _cached(buffers, (1, kernel.m, n), lambda: self._product.output(kernel.m, n))
            return (
                partial(self._product.multiply, x, weight, out),
                lambda: check(self._bench, self._product, x, weight, out),
            )
        return self._experts(kernel, projection, weight, buffers)

    def _experts(
        self, kernel: Projections, projection: Projection, weight: Any, buffers: dict[tuple[int, int, int], Any]
    ) -> tuple[Callable[[], object], Callable[[], float]]:
        """All experts in use as one batched product, each with its even share of the tokens."""
        torch = self._bench.torch
        n, k = projection.per_rank(kernel.tp)
        used = kernel.active(projection)
        rows = -(-kernel.m * projection.active // used)
        x = _cached(buffers, (2, used * rows, k), lambda: self._product.operand(used * rows, k)).view(used, rows, k)
        out = _cached(buffers, (3, used * rows, n), lambda: self._product.output(used * rows, n)).view(used, rows, n)
        chosen = weight.view(projection.copies, n, k)[:used].transpose(1, 2)

        def call() -> object:  # in the precision that the attention's projections before it have set
            return torch.bmm(x, chosen, out=out)

        return call, lambda: check(self._bench, self._product, x[0], weight[:n], out[0], call, out)

    def _weights(self, projection: Projection, tp: int) -> Any:
        n, k = projection.per_rank(tp)
        return self._product.operand(n * projection.copies, k)


def _cached(buffers: dict[tuple[int, int, int], Any], key: tuple[int, int, int], make: Callable[[], Any]) -> Any:
    if key not in buffers:
        buffers[key] = make()
    return buffers[key]


def layers_that_fit(kernel: Projections, memory_bytes: int | None) -> int:
    """All layers if their weights take less than 80 % of the memory beside the LM head, else as many as do (or 1)."""
    if memory_bytes is None:
        return kernel.model.layers
    head = DTYPES[kernel.head_dtype].input_bytes * kernel.model.lm_head_parameters / kernel.tp
    room = 0.8 * memory_bytes - head
    return max(1, min(kernel.model.layers, int(room / kernel.layer_weight_bytes())))
