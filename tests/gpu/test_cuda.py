"""On a real GPU: what a scripted device cannot show. Skipped, with the reason, where there is none."""

from __future__ import annotations

from typing import Any

import pytest

from roofline_probe.measure.ceiling import Projections
from roofline_probe.measure.gemm import Gemm
from roofline_probe.measure.stream import PATTERNS, Stream
from roofline_probe.measure.timing import Limits, measure_burst, measure_median
from roofline_probe.workloads import MODELS

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA or ROCm device here"),
]
NO_LIMITS = Limits()


@pytest.fixture(scope="module")
def device() -> Any:
    from roofline_probe.measure.adapters.cuda import CudaDevice

    return CudaDevice(torch, 0)


@pytest.mark.parametrize("dtype", ["bf16", "fp8", "fp16", "tf32", "fp32", "int8"])
def test_every_supported_dtype_multiplies_right_and_gives_a_rate(device: Any, dtype: str) -> None:
    if device.why_unsupported(dtype):
        pytest.skip(device.why_unsupported(dtype))
    trial = measure_median(device, Gemm(dtype, 1024, 2048, 4096), NO_LIMITS, warmup=1, reps=3)
    assert trial.status == "ok", trial.reason
    assert trial.verified
    assert trial.tflops
    assert trial.tflops > 1


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_streaming_implementation_is_verified(device: Any, pattern: Any) -> None:
    names = device.stream_implementations(pattern, quick=False)
    trials = [
        measure_median(device, Stream(pattern, name, 256 << 20), NO_LIMITS, warmup=1, reps=3, budget_s=0.1)
        for name in names
    ]
    assert {t.implementation: t.reason for t in trials if t.status != "ok"} == {}


def test_a_short_kernel_is_timed_by_graph_replay_over_operands_larger_than_the_cache(device: Any) -> None:
    timed = device.prepare(Gemm("bf16", 1, 4096, 4096))
    copies = device.bench.copies(Gemm("bf16", 1, 4096, 4096).bytes_moved)
    assert timed.timer in ("cuda-graph", "events")
    assert copies * Gemm("bf16", 1, 4096, 4096).bytes_moved >= 4 * device.info().last_level_cache_bytes
    assert timed.calls_per_replay % copies == 0
    timed.close()


def test_a_cache_sized_buffer_reports_more_than_the_memory_gives(device: Any) -> None:
    small, large = (
        measure_median(device, Stream("copy", "torch.mul", size), NO_LIMITS, warmup=3, reps=9)
        for size in (8 << 20, 1 << 30)
    )
    assert small.gbps is not None
    assert large.gbps is not None
    assert small.gbps > 1.1 * large.gbps


def test_a_burst_repeats(device: Any) -> None:
    first, second = (measure_burst(device, Gemm("bf16", 8192, 8192, 8192), NO_LIMITS) for _ in range(2))
    assert first.tflops == pytest.approx(second.tflops, rel=0.02)


def test_a_wrong_kernel_gives_no_figure(device: Any) -> None:
    class Wrong(Gemm):
        def build(self, bench: Any) -> Any:
            import dataclasses

            return dataclasses.replace(super().build(bench), verify=lambda: 0.5)

    trial = measure_median(device, Wrong("bf16", 256, 256, 256), NO_LIMITS, warmup=1, reps=3)
    assert (trial.status, trial.tflops) == ("unverified", None)


def test_out_of_memory_skips_the_shape_and_leaves_the_device_usable(device: Any) -> None:
    size = int((device.info().memory_bytes * 0.9) ** 0.5)
    assert measure_median(device, Gemm("bf16", size, size, 4096), NO_LIMITS, warmup=1, reps=3).status == "skipped"
    assert measure_median(device, Gemm("bf16", 512, 512, 512), NO_LIMITS, warmup=1, reps=3).status in (
        "ok",
        "launch_bound",
    )


@pytest.mark.parametrize(
    ("model", "dtype"), [("llama-3.1-8b", "bf16"), ("llama-3.1-8b", "fp8"), ("qwen3-30b-a3b", "bf16")]
)
def test_two_layers_of_a_model_run_as_one_verified_replay(device: Any, model: str, dtype: str) -> None:
    if device.why_unsupported(dtype):
        pytest.skip(device.why_unsupported(dtype))
    trial = measure_median(device, Projections(MODELS[model], dtype, 1, 8, 2), NO_LIMITS, warmup=1, reps=3)
    device.bench.forget()
    assert trial.status == "ok", trial.reason


def test_the_sensors_answer_while_a_kernel_runs(device: Any) -> None:
    if device.read() is None:
        pytest.skip("no sensors: nvidia-ml-py is absent or the driver hides them")
    with device.watch() as readings:
        measure_median(device, Gemm("bf16", 8192, 8192, 8192), NO_LIMITS, warmup=1, reps=9)
        device.sleep(0.2)
    assert readings
    assert readings[-1].sm_clock_mhz
