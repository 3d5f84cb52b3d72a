"""Most saved logs have no MFU lines: with theirs removed, the captures must say the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import log_parsers
from roofline_probe.analysis import Analysis, analyse
from roofline_probe.profile import Profile

VLLM = ["vllm/0.24.0-h200-graph-1s", "vllm/0.24.0-h200-steady-10s", "vllm/0.24.0-h200-tp2-2s"]
SGLANG = "sglang/0.5.16-h200"


def _stripped(logs: Path, name: str, folder: Path, profile: Profile) -> Analysis:
    lines = (logs / f"{name}.log").read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if " MFU: " not in line]
    cut = [line.split(", est. ")[0].rstrip("\n") + "\n" for line in kept]
    path = folder / "stripped.log"
    path.write_text("".join(cut), encoding="utf-8")
    return analyse(log_parsers.parse(str(path)), profile, keep_points=True)


@pytest.mark.parametrize("name", VLLM)
def test_vllm_recount_is_within_5_percent_of_the_engine_in_steady_decode(
    capture: Callable, logs: Path, tmp_path: Path, reference: Profile, name: str
) -> None:
    bare = _stripped(logs, name, tmp_path, reference)
    assert all(p.step.tflops is None for p in bare.points)
    engine = {p.step.time: p.step for p in capture(name).analysis.points}
    steady = [p for p in bare.points if p.step.status == "steady" and p.step.kind == "decode"]
    assert len(steady) >= 3
    for point in steady:
        counted = engine[point.step.time]
        # The engine prints TF/s to 0.1, which at batch 1 is 4 % by itself.
        assert point.recounted_tflops == pytest.approx(counted.tflops, rel=0.05, abs=0.05)
        assert point.recounted_gbps + activations(point) == pytest.approx(counted.gbps, rel=0.05)


def activations(point: object) -> float:
    """The engine's bytes hold activations, which the recount keeps beside weights and KV."""
    work = point.work  # type: ignore[attr-defined]
    return work.activation_bytes / work.window_s / 1e9


def test_sglang_recount_does_not_depend_on_its_estimates(
    capture: Callable, logs: Path, tmp_path: Path, reference: Profile
) -> None:
    bare = _stripped(logs, SGLANG, tmp_path, reference)
    full = capture(SGLANG).analysis.points
    assert [p.recounted_gbps for p in bare.points] == [p.recounted_gbps for p in full]
    assert all(p.step.tflops is None for p in bare.points)


@pytest.mark.parametrize("name", [*VLLM, SGLANG])
def test_the_report_says_that_rates_are_recounted_only(
    logs: Path, tmp_path: Path, reference: Profile, name: str
) -> None:
    found = {f.code for f in _stripped(logs, name, tmp_path, reference).findings}
    assert "recounted_only" in found
    assert not {"engine_counts_more", "engine_counts_less"} & found


def test_without_dimensions_too_the_log_is_refused_with_both_ways_out(
    logs: Path, tmp_path: Path, reference: Profile
) -> None:
    text = (logs / f"{VLLM[0]}.log").read_text(encoding="utf-8")
    kept = [line for line in text.splitlines(keepends=True) if "throughput" in line]
    (tmp_path / "throughput.log").write_text("".join(kept), encoding="utf-8")
    analysis = analyse(log_parsers.parse(str(tmp_path / "throughput.log")), reference)
    assert analysis.nothing_usable is not None
    assert "--enable-mfu-metrics" in analysis.nothing_usable
    assert "--model" in analysis.nothing_usable
