"""What kernels declare, and that the real ones compute it: torch on the CPU, small shapes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from roofline_probe.errors import UsageError
from roofline_probe.measure import shapes
from roofline_probe.measure.bench import Bench
from roofline_probe.measure.ceiling import Part, Projections, layers_that_fit
from roofline_probe.measure.dtypes import DTYPES, parse_dtypes
from roofline_probe.measure.gemm import Gemm
from roofline_probe.measure.linear import decode_fp4, encode_fp4, linear, pack_fp4
from roofline_probe.measure.stream import PATTERNS, TORCH_IMPLEMENTATIONS, Stream
from roofline_probe.workloads import MODELS, ModelShape

torch = pytest.importorskip("torch")
TINY = ModelShape("tiny", 2, 64, 4, 2, 16, 128, 256)
TINY_MOE = replace(TINY, name="tiny-moe", experts=4, experts_per_token=2, moe_intermediate_size=32, moe_layers=2)


@pytest.fixture
def bench() -> Bench:
    return Bench(torch, "cpu", 1 << 16)


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "int8", "fp8"])
def test_a_product_is_verified_against_float64(bench: Bench, dtype: str) -> None:
    gemm = Gemm(dtype, 32, 64, 48)
    try:
        work = gemm.build(bench)
        work.calls[0]()
    except (RuntimeError, NotImplementedError) as error:
        pytest.skip(f"torch has no {dtype} product on this CPU: {str(error)[:60]}")
    assert work.verify() <= DTYPES[dtype].tolerance


@pytest.mark.parametrize(("dtype", "precision"), [("fp32", "highest"), ("tf32", "high")])
def test_fp32_and_tf32_products_alive_together_each_keep_their_precision(
    bench: Bench, dtype: str, precision: str
) -> None:
    work = {name: Gemm(name, 8, 16, 32).build(bench) for name in ("fp32", "tf32")}
    for name in ("fp32", "tf32", dtype):
        work[name].verify()
    assert bench.torch.get_float32_matmul_precision() == precision


def test_a_product_that_skips_rows_or_is_slightly_wrong_is_found_out(bench: Bench) -> None:
    from roofline_probe.measure.linear import check

    product = linear(bench, "fp32")
    x, weight, out = product.operand(16, 32), product.operand(8, 32), product.output(16, 8)
    unwritten = check(bench, product, x, weight, out, lambda: torch.mm(x[:8], weight.t(), out=out[:8]), out)
    wrong = check(bench, product, x, weight, out, lambda: out.copy_(x @ weight.t() * 1.01), out)
    assert unwritten == math.inf
    assert wrong == pytest.approx(0.01, rel=0.1)


def test_weights_rotate_over_more_than_the_cache_and_small_activations_are_shared(bench: Bench) -> None:
    gemm = Gemm("fp32", 1, 64, 64)
    work = gemm.build(bench)
    assert len(work.calls) * 64 * 64 * 4 >= 4 * bench.cache_bytes
    operands = [call.args for call in work.calls]  # type: ignore[attr-defined]
    assert len({w.data_ptr() for _, w, _ in operands}) == len(operands)
    assert len({x.data_ptr() for x, _, _ in operands}) == 1


def test_large_operands_need_no_copies(bench: Bench) -> None:
    assert len(Gemm("fp32", 8, 512, 512).build(bench).calls) == 1


def test_inputs_are_normally_distributed(bench: Bench) -> None:
    values = linear(bench, "fp32").operand(256, 256)
    assert abs(float(values.mean())) < 0.02
    assert float(values.std()) == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize(
    ("pattern", "name"), [(p, n) for p in PATTERNS for n in TORCH_IMPLEMENTATIONS[p]], ids=lambda value: value
)
def test_a_streaming_kernel_does_what_it_says_and_declares_its_bytes(bench: Bench, pattern: Any, name: str) -> None:
    stream = Stream(pattern, name, 1 << 20)
    assert stream.bytes_moved == {"copy": 2, "triad": 3, "read": 1, "write": 1}[pattern] << 20
    assert stream.build(bench).verify() <= stream.tolerance


def test_a_read_that_leaves_out_half_of_the_array_is_found_out(bench: Bench) -> None:
    """A dot product over 16 GiB did just that, and reported twice the bandwidth."""
    stream = Stream("read", "torch.sum", 1 << 20)
    source = [bench.normal(1 << 18, dtype=torch.float32) + 1]
    out = torch.empty(1)
    error = stream._error(bench, lambda: torch.sum(source[0][: 1 << 17], 0, keepdim=True, out=out), source, out)
    assert error > 0.4


def test_a_large_copy_is_not_captured_where_a_graph_would_take_another_path(bench: Bench) -> None:
    assert not Stream("copy", "torch.copy_", 1 << 20).build(bench).capturable
    assert Stream("copy", "torch.mul", 1 << 20).build(bench).capturable


def test_fp4_codes_are_the_nearest_values_and_survive_packing() -> None:
    values = torch.tensor([[0.0, 0.24, 0.26, -0.6, 1.2, 2.6, -5.1, 99.0]])
    codes = encode_fp4(torch, values)
    decoded = decode_fp4(torch, pack_fp4(codes))
    assert decoded.tolist() == [[0.0, 0.0, 0.5, -0.5, 1.0, 3.0, -6.0, 6.0]]


@pytest.mark.parametrize("model", [TINY, TINY_MOE], ids=lambda model: model.name)
@pytest.mark.parametrize("m", [1, 3, 16])
@pytest.mark.parametrize("part", ["all", "layers", "head"])
def test_all_projections_of_a_model_run_as_one_and_are_verified(
    bench: Bench, model: ModelShape, m: int, part: Part
) -> None:
    kernel = Projections(model, "fp32", 1, m, 2, part)
    assert kernel.build(bench).verify() <= kernel.tolerance


def test_the_weights_are_allocated_once_for_every_m(bench: Bench) -> None:
    first = Projections(TINY, "fp32", 1, 1, 2).build(bench)
    second = Projections(TINY, "fp32", 1, 8, 2).build(bench)
    del first, second
    assert len(bench._kept) == 1


def test_the_ceiling_counts_what_the_capture_counted() -> None:
    """Llama-3.1-8B in bf16: 15.01 GB and 15.01 GFLOP a token; in fp8 the LM head stays in 16 bit: 8.03 GB."""
    kernel = Projections(MODELS["llama-3.1-8b"], "bf16", 1, 1, 32)
    assert kernel.flops == 2 * (6_979_321_856 + 525_336_576)
    assert kernel.bytes_moved == 2 * (6_979_321_856 + 525_336_576)
    assert replace(kernel, dtype="fp8").bytes_moved == 6_979_321_856 + 2 * 525_336_576
    assert replace(kernel, tp=2).bytes_moved == kernel.bytes_moved // 2
    assert replace(kernel, part="head").bytes_moved == 2 * 525_336_576
    layers = replace(kernel, part="layers")
    assert layers.flops == kernel.flops - replace(kernel, part="head").flops
    assert layers.bytes_moved == 2 * 6_979_321_856


def test_a_mixture_streams_only_the_experts_its_tokens_use() -> None:
    kernel = Projections(MODELS["qwen3-30b-a3b"], "bf16", 1, 1, 48)
    one, many = kernel.bytes_moved, replace(kernel, m=1024).bytes_moved
    experts = 48 * 2 * (2 * 768 * 2048 + 768 * 2048)
    assert many - one == experts * (128 - 8)


def test_a_model_that_does_not_fit_is_measured_on_fewer_layers() -> None:
    kernel = Projections(MODELS["llama-3.1-70b"], "bf16", 1, 1, 1)
    assert layers_that_fit(kernel, 80_000_000_000) == 36
    assert layers_that_fit(replace(kernel, tp=8), 80_000_000_000) == 80
    assert layers_that_fit(kernel, 1_000_000_000) == 1
    assert layers_that_fit(kernel, None) == 80


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["bf16"], ("bf16",)),
        (["torch.bfloat16,float8_e4m3fn"], ("bf16", "fp8")),
        (["half", "FP16"], ("fp16",)),
        (["all"], tuple(DTYPES)),
    ],
    ids=["short", "torch-names", "twice", "all"],
)
def test_dtypes_in_any_spelling(given: list[str], names: tuple[str, ...]) -> None:
    assert parse_dtypes(given) == names


def test_an_unknown_dtype_is_refused_with_the_list() -> None:
    with pytest.raises(UsageError, match="bf16, fp8"):
        parse_dtypes(["bf17"])


def test_burst_candidates_fill_every_wave_of_the_cards_multiprocessors() -> None:
    found = shapes.candidates("bf16", 132, quick=False)
    assert (found[0].m, found[0].n, found[0].k) == (132 * 128, 2048, 20480)
    assert len(shapes.candidates("bf16", 132, quick=True)) < len(found)


def test_neighbours_change_one_dimension_and_repeat_nothing() -> None:
    best = Gemm("bf16", 8192, 8192, 8192)
    found = shapes.neighbours(best, [best, Gemm("bf16", 8192, 10240, 8192)])
    assert len(found) == 3
    assert all(sum(a != b for a, b in zip((g.m, g.n, g.k), (8192,) * 3, strict=True)) == 1 for g in found)
