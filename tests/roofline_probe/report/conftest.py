"""Hand-made documents for the views: figures of roofline.md §2, so that a wrong one is seen."""

from __future__ import annotations

import dataclasses
import io
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from log_parsers.step import LogFacts, ScanReport, ServingStep
from roofline_probe.comparison import Comparison
from roofline_probe.diagnose import Finding
from roofline_probe.point import Bin, Point, Roof, Summary
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
from roofline_probe.report.console import make_console


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
            _gemm(10240, 16384, 7168, 820.4, "search", regime="burst"),
            _gemm(4096, 14336, 4096, 807.0, "candidate", regime="burst"),
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


def _gemm(m: int, n: int, k: int, tflops: float, label: str, status: str = "ok", regime: str = "median") -> Trial:
    return msgspec.structs.replace(
        Trial(kernel="gemm", dtype="bf16", regime="median", implementation="torch.mm", timer="cuda-graph"),
        m=m, n=n, k=k, tflops=tflops, label=label, status=status, regime=regime,
    )  # fmt: skip


def _stream(kernel: str, implementation: str, gbps: float) -> Trial:
    return Trial(
        kernel=kernel, dtype="fp32", regime="median", implementation=implementation, gbps=gbps, array_bytes=2**30
    )


GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare with ``golden/NAME.txt``; ``PROBE_UPDATE_GOLDEN=1`` writes it instead, to be looked at in the diff."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / f"{name}.txt"
        shown = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
        if os.environ.get("PROBE_UPDATE_GOLDEN"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(shown, encoding="utf-8")
        assert shown == path.read_text(encoding="utf-8")

    return check


@pytest.fixture
def draw() -> Callable[..., str]:
    """What a view prints on a console of that width, without colour."""

    def drawn(view: Callable[..., None], *arguments: object, width: int = 80, **options: object) -> str:
        file = io.StringIO()
        console = make_console(file, width)
        view(*arguments, console, **options)
        return file.getvalue()

    return drawn


@pytest.fixture
def roof() -> Roof:
    return Roof(
        origin="measured",
        device="NVIDIA H200",
        choice="auto",
        dtype="bf16",
        dtype_source="log",
        date="2026-11-29",
        pi_burst_tflops=820.4,
        pi_sustained_tflops=683.1,
        beta_gbps=4405,
        read_beta_gbps=4618,
    )


def make_bin(kind: str, **given: object) -> Bin:
    """A bin in which everything that is not given is unknown."""
    unknown = dict.fromkeys((f.name for f in dataclasses.fields(Bin)), None)
    known = {"kind": kind, "engine": "vllm", "windows": 10, "seconds": 10.0, "estimated": False, "caveats": ()}
    return Bin(**{**unknown, **known, **given})  # type: ignore[arg-type]


@pytest.fixture
def new_bin() -> Callable[..., Bin]:
    return make_bin


DECODE_1 = make_bin(
    "decode", batch_low=1, batch_high=1, context_low=1253, context_high=2513, windows=12, seconds=12.0, tok_s=202.4,
    engine_tflops=3.2, engine_gbps=3082, recounted_tflops=3.23, recounted_gbps=3081, intensity=1.05,
    compute_fraction=0.0047, bandwidth_fraction=0.667, roof_fraction=0.667, attained_fraction=0.834, step_ms=4.95,
    gemm_ms=4.08, kv_ms=0.05, link_ms=0.0, rest_ms=0.82, bound="memory",
)  # fmt: skip
DECODE_256 = make_bin(
    "decode", batch_low=256, batch_high=256, context_low=201, context_high=992, windows=12, seconds=12.0,
    tok_s=18_488.0, engine_tflops=283.0, engine_gbps=2652, recounted_tflops=283.0, recounted_gbps=2508,
    intensity=112.8, compute_fraction=0.414, bandwidth_fraction=0.543, roof_fraction=0.543, attained_fraction=0.828,
    step_ms=13.85, gemm_ms=7.2, kv_ms=4.26, link_ms=0.0, rest_ms=2.39, bound="memory",
)  # fmt: skip
DECODE_ALL = make_bin(
    "decode", batch_low=1, batch_high=256, windows=24, seconds=24.0, tok_s=9_345.0, engine_tflops=143.0,
    engine_gbps=2867, recounted_tflops=143.1, recounted_gbps=2794, intensity=51.2, compute_fraction=0.209,
    bandwidth_fraction=0.605, roof_fraction=0.605, attained_fraction=0.831, step_ms=6.9, gemm_ms=4.7, kv_ms=1.1,
    link_ms=0.0, rest_ms=1.1, bound="memory",
)  # fmt: skip
PREFILL = make_bin(
    "prefill", batch_low=8192, batch_high=8192, windows=18, seconds=18.0, tok_s=39_761.0, engine_tflops=669.0,
    engine_gbps=390, recounted_tflops=616.0, recounted_gbps=83, intensity=7400.0, compute_fraction=0.902,
    bandwidth_fraction=0.019, roof_fraction=0.902, attained_fraction=0.975, step_ms=206.0, gemm_ms=200.9, kv_ms=0.2,
    link_ms=0.0, rest_ms=4.9, bound="compute",
)  # fmt: skip


@pytest.fixture
def summary() -> Summary:
    return Summary(
        kinds=(DECODE_ALL, PREFILL),
        bins=(DECODE_1, DECODE_256, PREFILL),
        ranks=(),
        excluded={"idle": 9, "diluted": 1},
        steps=52,
        first_time="2026-11-29T14:25:19",
        last_time="2026-11-29T14:27:56",
        kv_usage_max=0.31,
        caveats=("cached_prefix_unseen", "vllm_full_square"),
    )


BOUND = {"kind": "decode", "bound": "memory", "roof_fraction": 0.605, "of": "read beta", "share": 0.571}
PARTS = {"kind": "decode", "step_ms": 6.9, "gemm_ms": 4.7, "kv_ms": 1.1, "link_ms": 0.0, "rest_ms": 1.1, "estimated": 0}
RIDGE = {"rows": 128, "t_star": 163.2, "missing": 35.2, "ridge": 155, "dtype": "bf16", "tp": 1}
RIDGE |= {"batch_low": 128, "batch_high": 128, "share": 0.5}
MORE = {"kind": "prefill", "quantity": "FLOPs", "ratio": 1.086, "why": "vllm_full_square"}
FINDINGS = (
    Finding("bound", "headline", BOUND),
    Finding("parts", "headline", PARTS),
    Finding("no_overhead", "advice", {"kind": "decode", "rest_ms": 1.1, "speedup": 1.19}),
    Finding("bound", "headline", {"kind": "prefill", "bound": "compute", "roof_fraction": 0.902, "of": "sustained pi"}),
    Finding("to_ridge", "advice", RIDGE),
    Finding("engine_counts_more", "note", MORE),
    Finding("cannot_say", "note", {"what": "device"}),
)


def make_step(line_no: int, **given: object) -> ServingStep:
    """A steady decode step at batch 8 unless told otherwise."""
    known = {
        "source": "vllm.log", "run": 0, "line_no": line_no, "engine": "vllm", "engine_version": "0.24.0", "rank": "0",
        "kind": "decode", "status": "steady", "time": f"2026-11-29T14:25:{line_no:02d}", "window_s": 1.0,
        "tflops": 24.0, "gbps": 3088.0, "running": 8, "waiting": 0, "prompt_tok_s": 0.0, "gen_tok_s": 1572.0,
    }  # fmt: skip
    return ServingStep(**{**known, **given})  # type: ignore[arg-type]


def make_point(step: ServingStep, **given: object) -> Point:
    known = {
        "step": step, "recounted_tflops": 24.1, "recounted_gbps": 3077.0, "basis": "recounted", "batch": 8.0,
        "context": 600.0, "intensity": 7.83, "compute_fraction": 0.035, "bandwidth_fraction": 0.666,
        "roof_fraction": 0.666, "beta_name": "read", "step_ms": 5.09, "gemm_ms": 4.17, "kv_ms": 0.14, "link_ms": 0.0,
        "rest_ms": 0.78, "attained_fraction": 0.847, "estimated": False, "bound": "memory",
    }  # fmt: skip
    return Point(**{**known, **given})  # type: ignore[arg-type]


@pytest.fixture
def points() -> list[Point]:
    nothing = dict.fromkeys(
        ("recounted_tflops", "recounted_gbps", "basis", "batch", "context", "intensity", "compute_fraction"), None
    )
    nothing |= dict.fromkeys(("bandwidth_fraction", "roof_fraction", "beta_name", "step_ms", "gemm_ms"), None)
    nothing |= dict.fromkeys(("kv_ms", "link_ms", "rest_ms", "attained_fraction", "bound"), None)
    idle = make_step(
        3, kind="unknown", status="idle", status_reason="nothing ran", tflops=None, gbps=None, running=0, gen_tok_s=0.0
    )
    return [make_point(make_step(1)), make_point(make_step(2), caveats=("above_roof",)), make_point(idle, **nothing)]


@pytest.fixture
def comparison(roof: Roof, summary: Summary, points: list[Point], h200_profile: Profile) -> Comparison:
    facts = LogFacts(
        source="vllm.log", engine="vllm", engine_version="0.24.0", model="/models/Meta-Llama-3-8B-Instruct",
        dtype="bf16", tp=1, kv_cache_tokens=840_016,
    )  # fmt: skip
    analysis = SimpleNamespace(
        roof=roof, facts=[facts], report=ScanReport(dropped={"torn line": 2}), points=points, summary=summary,
        findings=FINDINGS,
    )  # fmt: skip
    return Comparison(analysis, h200_profile, "h200")  # type: ignore[arg-type]
