"""A profile and a handful of points with round figures, so that a picture's numbers can be checked by eye."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from log_parsers.step import ServingStep
from roofline_probe.point import Bin, Point, Roof, Summary
from roofline_probe.profile import (
    Beta,
    CeilingPoint,
    Datasheet,
    DeviceInfo,
    Environment,
    ModelCeiling,
    Peak,
    Profile,
    ProfileWarning,
    Telemetry,
    Trial,
)
from roofline_probe.recount import Work

MS = {1: 4.07, 8: 4.10, 32: 4.25, 128: 4.94, 256: 7.20, 512: 11.9, 2048: 43.6, 8192: 170.2}
FLOPS_PER_TOKEN, WEIGHT_BYTES = 2 * 7_504_658_432, 15_009_316_864


def gemm(m: int, n: int, k: int, tflops: float, label: str, dtype: str = "bf16") -> Trial:
    flops = 2 * m * n * k
    return Trial(
        kernel="gemm", dtype=dtype, regime="median", implementation="torch.mm", label=label, m=m, n=n, k=k, flops=flops,
        bytes_moved=2 * (m * k + k * n + m * n), seconds=[flops / tflops / 1e12], tflops=tflops, verified=True,
    )  # fmt: skip


def make_profile() -> Profile:
    trials = [gemm(m, m, m, t, "square") for m, t in ((1024, 232.0), (4096, 778.0), (8192, 785.0), (12288, 808.0))]
    trials += [
        gemm(m, 6144, 4096, t, "qkv")
        for m, t in ((1, 3.1), (8, 24.9), (32, 96.0), (128, 330.0), (512, 560.0), (2048, 700.0), (8192, 760.0))
    ]
    trials += [
        gemm(m, 4096, 14336, t, "down_proj")
        for m, t in ((1, 3.4), (8, 27.0), (32, 105.0), (128, 390.0), (512, 610.0), (2048, 745.0), (8192, 807.0))
    ]
    trials.append(gemm(4096, 4096, 4096, 390.0, "square", "tf32"))
    trials.append(msgspec.structs.replace(gemm(10240, 16384, 7168, 820.0, "candidate"), regime="burst"))
    return Profile(
        schema_version=1,
        method_version=1,
        created="2026-11-29T13:00:00+00:00",
        device=DeviceInfo(kind="cuda", name="NVIDIA H200", driver="580.95", power_limit_w=700.0, sm_clock_max_mhz=1980),
        environment=Environment(
            probe_version="0.1.0", command_line="probe measure", python="3.11", platform="Linux", torch="2.11"
        ),
        peaks=[
            Peak(dtype="bf16", regime="burst", tflops=820.0, implementation="torch.mm", m=10240, n=16384, k=7168),
            Peak(dtype="bf16", regime="sustained", tflops=683.0, implementation="torch.mm", m=4096, n=14336, k=4096,
                 settled=True, explanation="power-capped: 1470 of 1980 MHz at 692 of 700 W"),
            Peak(dtype="fp8", regime="burst", tflops=1585.0, implementation="torch._scaled_mm", m=10240, n=16384,
                 k=7168),
        ],
        betas=[
            Beta(pattern="copy", gbps=4280.0, implementation="torch.clone", array_bytes=2**30),
            Beta(pattern="triad", gbps=4390.0, implementation="torch.add", array_bytes=2**30),
            Beta(pattern="read", gbps=4580.0, implementation="triton_read", array_bytes=2**30),
            Beta(pattern="write", gbps=4650.0, implementation="torch.fill_", array_bytes=2**30),
        ],
        ceilings=[
            ModelCeiling(
                model="llama-3.1-8b", dtype="bf16", tp=1, weight_bytes=WEIGHT_BYTES, flops_per_token=FLOPS_PER_TOKEN,
                points=[
                    CeilingPoint(m=m, ms_sustained=ms, tflops=FLOPS_PER_TOKEN * m / ms / 1e9,
                                 weight_gbps=WEIGHT_BYTES / ms / 1e6)
                    for m, ms in MS.items()
                ],
            )
        ],
        datasheet=Datasheet(card="H200 SXM", tflops={"bf16": 989.4, "fp8": 1978.9}, gbps=4800.0, source="datasheet"),
        trials=trials,
        telemetry=[Telemetry(during="soak gemm bf16", samples=50, sm_clock_mhz_median=1470.0, power_w_median=692.0)],
        warnings=[ProfileWarning(code="power_capped", message="The card ran at its power limit.")],
    )  # fmt: skip


def make_roof(profile: Profile) -> Roof:
    return Roof(
        origin="measured", device=profile.device.name, choice="auto", dtype="bf16", dtype_source="log",
        date="2026-11-29", profile_name="h200", pi_burst_tflops=820.0, pi_sustained_tflops=683.0, beta_gbps=4390.0,
        read_beta_gbps=4580.0,
    )  # fmt: skip


def decode_point(line: int, batch: int, context: int, rest_ms: float, **step: object) -> Point:
    """A decode window of one second: Llama-3-8B's work at this batch and context, plus ``rest_ms``."""
    gemm_ms = MS[batch]
    kv_ms = batch * context * 131072 / 4.58e9
    step_ms = gemm_ms + kv_ms + rest_ms
    flops, moved = FLOPS_PER_TOKEN * batch + 524288 * batch * context, WEIGHT_BYTES + batch * context * 131072
    tflops, gbps = flops / step_ms / 1e9, moved / step_ms / 1e6
    fields: dict[str, object] = {
        "source": "vllm.log", "run": 0, "line_no": line, "engine": "vllm", "engine_version": "0.24.0", "rank": "0",
        "kind": "decode", "status": "steady", "time": f"2026-11-29T14:{line // 60 % 60:02d}:{line % 60:02d}",
        "window_s": 1.0, "tflops": round(tflops, 1), "gbps": round(gbps, 1), "running": batch, "waiting": 0,
        "prompt_tok_s": 0.0, "gen_tok_s": batch / step_ms * 1e3,
    } | step  # fmt: skip
    return Point(
        step=ServingStep(**fields),  # type: ignore[arg-type]
        recounted_tflops=tflops, recounted_gbps=gbps, basis="recounted", batch=float(batch), context=float(context),
        intensity=flops / moved, compute_fraction=tflops / 683, bandwidth_fraction=gbps / 4580,
        roof_fraction=max(tflops / 683, gbps / 4580), beta_name="read", step_ms=step_ms, gemm_ms=gemm_ms, kv_ms=kv_ms,
        link_ms=None, rest_ms=rest_ms, attained_fraction=(gemm_ms + kv_ms) / step_ms, estimated=False, bound="memory",
        work=Work(
            window_s=1.0, busy_s=1.0, steps=1e3 / step_ms, batch=float(batch), context=float(context),
            decode_tokens=batch * 1e3 / step_ms, prompt_tokens=0.0, prefill_steps=0.0, flops=tflops * 1e12,
            attention_flops=0.0, weight_bytes=WEIGHT_BYTES * 1e3 / step_ms, kv_read_bytes=0.0, kv_write_bytes=0.0,
            activation_bytes=0.0,
        ),
    )  # fmt: skip


def prefill_point(line: int, tflops: float, intensity: float = 2400.0) -> Point:
    return Point(
        step=ServingStep(
            source="vllm.log", run=0, line_no=line, engine="vllm", engine_version="0.24.0", rank="0", kind="prefill",
            status="steady", time=f"2026-11-29T14:{line // 60 % 60:02d}:{line % 60:02d}", window_s=1.0, tflops=tflops,
            gbps=250.0, running=16, waiting=3, prompt_tok_s=tflops / 0.0152, gen_tok_s=7.0,
        ),
        recounted_tflops=tflops / 1.08, recounted_gbps=240.0, basis="recounted", batch=None, context=None,
        intensity=intensity, compute_fraction=tflops / 1.08 / 683, bandwidth_fraction=0.05,
        roof_fraction=tflops / 1.08 / 683, beta_name="beta", step_ms=None, gemm_ms=None, kv_ms=None, link_ms=None,
        rest_ms=None, attained_fraction=None, estimated=False, bound="compute",
    )  # fmt: skip


def make_points() -> list[Point]:
    points, line = [], 0
    for batch, context in ((1, 1400), (8, 900), (32, 900), (128, 750), (256, 700)):
        for tick in range(12):
            line += 1
            points.append(decode_point(line, batch, context + 8 * tick, 0.7 + batch * 0.004 + 0.02 * (tick % 3)))
        line += 4
        points.append(decode_point(line, 1, 100, 400.0, status="idle", running=0, gen_tok_s=0.0))
    for tick in range(20):
        line += 1
        points.append(prefill_point(line, 560.0 + 7 * (tick % 5)))
    return points


def bin_of(points: list[Point], low: int | None, high: int | None) -> Bin:
    n = len(points)

    def average(name: str) -> float | None:
        values = [getattr(p, name) for p in points]
        return None if None in values else sum(values) / n

    def of_step(name: str) -> float:
        return sum(getattr(p.step, name) or 0.0 for p in points) / n

    kind = points[0].step.kind
    return Bin(
        kind=kind, batch_low=low, batch_high=high, context_low=None, context_high=None, engine="vllm",
        rank=None, windows=n, seconds=float(n), tok_s=of_step("gen_tok_s" if kind == "decode" else "prompt_tok_s"),
        engine_tflops=of_step("tflops"), engine_gbps=of_step("gbps"), recounted_tflops=average("recounted_tflops"),
        recounted_gbps=average("recounted_gbps"), intensity=average("intensity"),
        compute_fraction=average("compute_fraction"), bandwidth_fraction=average("bandwidth_fraction"),
        roof_fraction=average("roof_fraction"), attained_fraction=average("attained_fraction"),
        step_ms=average("step_ms"), gemm_ms=average("gemm_ms"), kv_ms=average("kv_ms"), link_ms=None,
        rest_ms=average("rest_ms"), estimated=False, bound="memory" if kind == "decode" else "compute",
    )  # fmt: skip


def make_summary(points: list[Point]) -> Summary:
    steady = [p for p in points if p.step.status == "steady"]
    decode = [p for p in steady if p.step.kind == "decode"]
    prefill = [p for p in steady if p.step.kind == "prefill"]
    bins = [bin_of([p for p in decode if p.batch == b], b, b) for b in (1, 8, 32, 128, 256)]
    return Summary(
        kinds=(bin_of(decode, None, None), bin_of(prefill, None, None)),
        bins=(*bins, bin_of(prefill, None, None)),
        ranks=(),
        excluded={"idle": len(points) - len(steady)},
        steps=len(points),
        first_time=points[0].step.time,
        last_time=points[-1].step.time,
    )


@pytest.fixture(scope="session")
def profile() -> Profile:
    return make_profile()


@pytest.fixture(scope="session")
def roof(profile: Profile) -> Roof:
    return make_roof(profile)


@pytest.fixture(scope="session")
def points() -> list[Point]:
    return make_points()


@pytest.fixture(scope="session")
def summary(points: list[Point]) -> Summary:
    return make_summary(points)


@pytest.fixture
def same_as_golden() -> Callable[[str, Any], None]:
    """Compare with ``golden/NAME.json``; ``PROBE_UPDATE_GOLDEN=1`` writes it instead, to be looked at in the diff."""

    def check(name: str, value: Any) -> None:
        path = Path(__file__).parent / "golden" / f"{name}.json"
        if os.environ.get("PROBE_UPDATE_GOLDEN"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        assert value == json.loads(path.read_text(encoding="utf-8"))

    return check


def _browser_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("probe_test_browser", Path(__file__).with_name("browser.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium for the whole session."""
    module = _browser_module()
    path = module.find_chromium()
    if path is None:
        pytest.skip("no Chromium here (Debian: apt-get install chromium): pages are not opened")
    with module.chromium(path) as running:
        yield running
