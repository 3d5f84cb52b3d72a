"""x [M, K] times a weight stored as [N, K], the way serving engines hold it, in every compute type.

One class a family of types; each says what it calls, so that a profile tells whose peak it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from roofline_probe.measure.bench import Bench
from roofline_probe.measure.device import NotSupportedHere
from roofline_probe.measure.dtypes import DTYPES

FP4_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Magnitudes of e2m1; the fourth bit is the sign."""


class Linear(Protocol):
    """Operands and the product of one compute type. ``operand`` tensors are [rows, K]; N counts the weight's rows."""

    implementation: str

    def operand(self, rows: int, k: int) -> Any:
        """Normally distributed [rows, k], in this type."""

    def output(self, m: int, n: int) -> Any:
        """Memory for [m, n]."""

    def multiply(self, x: Any, weight: Any, out: Any) -> None:
        """out = x · weightᵀ."""

    def exact(self, operand: Any, rows: Any) -> Any:
        """Those rows of an operand as float64."""


def linear(bench: Bench, dtype: str) -> Linear:
    """The product of that dtype on this device."""
    if dtype == "fp8":
        return _Fp8(bench)
    if dtype == "int8":
        return _Int8(bench)
    if dtype == "fp4":
        return _Fp4(bench)
    return _Dense(bench, dtype)


def check(
    bench: Bench,
    product: Linear,
    x: Any,
    weight: Any,
    out: Any,
    call: Callable[[], object] | None = None,
    whole: Any = None,
) -> float:
    """Run once on a poisoned output; relative error on a sample of rows and columns, infinite if poison is left.

    ``call`` where the product is part of a larger execution, which writes all of ``whole``.
    """
    written = out if whole is None else whole
    bench.poison(written)
    if call is None:
        product.multiply(x, weight, out)
    else:
        call()
    if not bench.all_written(written):
        return float("inf")
    rows, columns = bench.sample(out.shape[0]), bench.sample(out.shape[1])
    reference = product.exact(x, rows).cpu() @ product.exact(weight, columns).cpu().T
    return bench.relative_error(out[rows][:, columns], reference)


class _Dense:
    """bf16, fp16, fp32, tf32 through ``torch.mm``."""

    def __init__(self, bench: Bench, dtype: str) -> None:
        self._bench = bench
        self._type = getattr(bench.torch, DTYPES[dtype].aliases[0] if dtype != "tf32" else "float32")
        self.implementation = "torch.mm"
        self._precision = {"fp32": "highest", "tf32": "high"}.get(dtype)

    def operand(self, rows: int, k: int) -> Any:
        return self._bench.normal(rows, k, dtype=self._type)

    def output(self, m: int, n: int) -> Any:
        return self._bench.torch.empty(m, n, dtype=self._type, device=self._bench.where)

    def multiply(self, x: Any, weight: Any, out: Any) -> None:
        if self._precision:  # a process-wide switch, and kernels of both types may be alive
            self._bench.torch.set_float32_matmul_precision(self._precision)
        self._bench.torch.mm(x, weight.t(), out=out)

    def exact(self, operand: Any, rows: Any) -> Any:
        return operand[rows].double()


class _Fp8:
    """e4m3 operands, bf16 output, fast accumulation: what serving engines run."""

    implementation = "torch._scaled_mm"

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._one = bench.torch.ones((), dtype=bench.torch.float32, device=bench.where)

    def operand(self, rows: int, k: int) -> Any:
        return self._bench.normal(rows, k, dtype=self._bench.torch.bfloat16).to(self._bench.torch.float8_e4m3fn)

    def output(self, m: int, n: int) -> Any:
        return self._bench.torch.empty(m, n, dtype=self._bench.torch.bfloat16, device=self._bench.where)

    def multiply(self, x: Any, weight: Any, out: Any) -> None:
        self._bench.torch._scaled_mm(
            x, weight.t(), self._one, self._one, out_dtype=out.dtype, use_fast_accum=True, out=out
        )

    def exact(self, operand: Any, rows: Any) -> Any:
        return operand.view(self._bench.torch.uint8)[rows].view(operand.dtype).to(self._bench.torch.float64)


class _Int8:
    """Symmetric int8, int32 output."""

    implementation = "torch._int_mm"

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def operand(self, rows: int, k: int) -> Any:
        torch = self._bench.torch
        # Three standard deviations fill the range, as a quantizer would.
        return (self._bench.normal(rows, k, dtype=torch.float32) * 42).round_().clamp_(-127, 127).to(torch.int8)

    def output(self, m: int, n: int) -> Any:
        if m <= 16:
            raise NotSupportedHere("torch._int_mm takes more than 16 rows")
        return self._bench.torch.empty(m, n, dtype=self._bench.torch.int32, device=self._bench.where)

    def multiply(self, x: Any, weight: Any, out: Any) -> None:
        self._bench.torch._int_mm(x, weight.t(), out=out)

    def exact(self, operand: Any, rows: Any) -> Any:
        return operand[rows].double()


class _Fp4:
    """e2m1 pairs with one e4m3 scale of 1 per 16 values (nvfp4), bf16 output.

    Written from the published interface; it was never run on a card that has the type, and its result is verified like
    any other before a figure is reported.
    """

    implementation = "torch._scaled_mm"

    def __init__(self, bench: Bench) -> None:
        if not hasattr(bench.torch, "float4_e2m1fn_x2"):
            raise NotSupportedHere("this torch has no float4_e2m1fn_x2")
        self._bench = bench

    def operand(self, rows: int, k: int) -> Any:
        torch = self._bench.torch
        codes = encode_fp4(torch, self._bench.normal(rows, k, dtype=torch.float32))
        return pack_fp4(codes).view(torch.float4_e2m1fn_x2)

    def output(self, m: int, n: int) -> Any:
        return self._bench.torch.empty(m, n, dtype=self._bench.torch.bfloat16, device=self._bench.where)

    def multiply(self, x: Any, weight: Any, out: Any) -> None:
        self._bench.torch._scaled_mm(x, weight.t(), self._scales(x), self._scales(weight), out_dtype=out.dtype, out=out)

    def exact(self, operand: Any, rows: Any) -> Any:
        return decode_fp4(self._bench.torch, operand.view(self._bench.torch.uint8)[rows])

    def _scales(self, operand: Any) -> Any:
        """Scales in tiles of 128 rows by 4 blocks, as the tensor cores read them; all ones, so the order is free."""
        torch = self._bench.torch
        rows, blocks = -(-operand.shape[0] // 128) * 128, -(-(operand.shape[1] * 2 // 16) // 4) * 4
        return torch.ones(rows * blocks, device=self._bench.where).to(torch.float8_e4m3fn)


def encode_fp4(torch: Any, values: Any) -> Any:
    """uint8 codes 0 to 15 of the nearest e2m1 value, saturating."""
    steps = torch.tensor(FP4_VALUES, device=values.device)
    nearest = torch.bucketize(values.abs(), (steps[1:] + steps[:-1]) / 2)
    return (nearest + 8 * (values < 0)).to(torch.uint8)


def pack_fp4(codes: Any) -> Any:
    """Two codes a byte, the even column in the low half."""
    return codes[:, ::2] | (codes[:, 1::2] << 4)


def decode_fp4(torch: Any, packed: Any) -> Any:
    """float64 values [rows, 2 x bytes] of packed codes."""
    codes = torch.stack((packed & 15, packed >> 4), dim=-1).flatten(-2).long()
    values = torch.tensor([*FP4_VALUES, *(-v for v in FP4_VALUES)], dtype=torch.float64, device=packed.device)
    return values[codes]
