"""Hand-made documents for the views: figures of roofline.md §2, so that a wrong one is seen."""

from __future__ import annotations

import msgspec
import pytest

from roofline_probe.profile import (
    Beta,
    CeilingPoint,
    Datasheet,
    DeviceInfo,
    Environment,
    ModelCeiling,
    Peak,
    Prediction,
    Profile,
    ProfileWarning,
    Trial,
)


@pytest.fixture
def h200_profile() -> Profile:
    return Profile(
        schema_version=1,
        method_version=1,
        created="2026-11-29T14:03:11+00:00",
        device=DeviceInfo(
            kind="cuda",
            name="NVIDIA H200",
            memory_bytes=150_754_820_096,
            last_level_cache_bytes=60 * 2**20,
            multiprocessors=132,
            sm_clock_max_mhz=1980,
            power_limit_w=700,
            driver="580.95.05",
        ),
        environment=Environment(
            probe_version="0.1.0",
            command_line="probe measure",
            python="3.12.3",
            platform="Linux",
            torch="2.11.0+cu130",
            runtime="CUDA 13.0",
            triton="3.6.0",
        ),
        peaks=[
            Peak(dtype="bf16", regime="burst", tflops=820.4, implementation="torch.mm", m=10240, n=16384, k=7168),
            Peak(
                dtype="bf16",
                regime="sustained",
                tflops=683.1,
                implementation="torch.mm",
                m=4096,
                n=14336,
                k=4096,
                settled=True,
                seconds=5,
                explanation="power-capped: 1470 of 1980 MHz at 692 of 700 W",
            ),
            Peak(dtype="fp8", regime="burst", tflops=1585, implementation="scaled_mm", m=10240, n=16384, k=7168),
        ],
        betas=[
            Beta(pattern="copy", gbps=4270, implementation="triton_copy", array_bytes=2**30),
            Beta(pattern="triad", gbps=4405, implementation="triton_triad", array_bytes=2**30),
            Beta(pattern="read", gbps=4618, implementation="triton_read", array_bytes=2**30),
        ],
        ceilings=[
            ModelCeiling(
                model="llama-3.1-8b",
                dtype="bf16",
                tp=1,
                weight_bytes=15_009_317_060,
                flops_per_token=15_009_316_864,
                points=[
                    CeilingPoint(m=1, ms_burst=4.08, weight_gbps=3679, tflops=3.68),
                    CeilingPoint(m=256, ms_burst=7.20, weight_gbps=2085, tflops=534),
                    CeilingPoint(m=8192, ms_burst=171.0, ms_sustained=182.4, tflops=674),
                ],
            )
        ],
        datasheet=Datasheet(card="H200 SXM", tflops={"bf16": 989.4, "fp8": 1978.9}, gbps=4800, source="vendor"),
        trials=[
            _gemm(4096, 4096, 4096, 778.0, "square"),
            _gemm(8192, 8192, 8192, 785.0, "square"),
            _gemm(1, 6144, 4096, 3.1, "qkv", "launch_bound"),
            _gemm(2048, 6144, 4096, 701.0, "qkv"),
            _gemm(2048, 4096, 14336, 733.0, "down_proj"),
            _stream("copy", "triton_copy", 4270),
            _stream("copy", "torch.clone", 3610),
            _stream("triad", "triton_triad", 4405),
            _stream("read", "triton_read", 4618),
            Trial(
                kernel="gemm", dtype="bf16", regime="burst", implementation="torch.mm", m=16384, n=65536, k=65536,
                status="skipped", reason="out of memory",
            ),
        ],
        warnings=[ProfileWarning(code="other_process", message="Another process used the GPU; stop it and repeat.")],
        predictions=[
            Prediction(
                question="What fraction of the published bf16 peak will the largest square GEMM reach?",
                answer="90 %",
                measured="79 %",
                correct=False,
                error_points=-11,
                comment="The power cap bites before the tensor cores do.",
            )
        ],
        unsupported={"fp4": "needs a Blackwell card"},
    )  # fmt: skip


def _gemm(m: int, n: int, k: int, tflops: float, label: str, status: str = "ok") -> Trial:
    return msgspec.structs.replace(
        Trial(kernel="gemm", dtype="bf16", regime="burst", implementation="torch.mm", timer="cuda-graph"),
        m=m, n=n, k=k, tflops=tflops, label=label, status=status,
    )  # fmt: skip


def _stream(kernel: str, implementation: str, gbps: float) -> Trial:
    return Trial(
        kernel=kernel, dtype="fp32", regime="median", implementation=implementation, gbps=gbps, array_bytes=2**30
    )
