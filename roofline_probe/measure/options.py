"""What a measurement is asked to do, and what it tells while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from roofline_probe.workloads import DEFAULT_MODEL, MODELS, ModelShape

Mode = Literal["gemm", "bandwidth", "all"]

SQUARES = (512, 1024, 2048, 4096, 8192, 16384)
M_SWEEP = (1, 8, 32, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
CEILING_M = tuple(2**power for power in range(15))
"""1, 2, 4 … 16384."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """One run of ``probe measure``. The defaults are the command's."""

    device: str = "auto"
    """``auto``, ``cpu``, ``cuda``, ``cuda:1``, ``xpu``, ``mps``."""
    mode: Mode = "all"
    dtypes: tuple[str, ...] | None = None
    """Short names; None: what the device is used for (bf16 and fp8 on a GPU that has them)."""
    squares: tuple[int, ...] = SQUARES
    m_sweep: tuple[int, ...] = M_SWEEP
    buffer_mib: int | None = None
    """MiB of one streaming array; None: large enough that no cache can help."""
    warmup: int = 10
    reps: int = 25
    peak_tflops: Mapping[str, float] = field(default_factory=dict)
    """Published TFLOP/s by dtype, in place of the listed datasheet's."""
    peak_gbps: float | None = None
    hidden_size: int = 4096
    gqa_group: int = 4
    quick: bool = False
    peaks_only: bool = False
    """Bursts, soaks and bandwidth without the sweep and the model ceiling: what is asked of each card of a machine."""
    soak_s: float | None = 5.0
    """Seconds of the soak behind sustained pi; None: not measured."""
    model: ModelShape = MODELS[DEFAULT_MODEL]
    tp: int = 1
    force: bool = False
    """Measure although somebody else is on the device."""
    answers: tuple[str, str, str, str] | None = None
    """Predictions made before the run: percent of pi, percent of beta, triad and ridge ``higher`` or ``lower``."""
    command_line: str = "probe measure"


@dataclass(frozen=True, slots=True)
class Event:
    """Something a watcher may want to know while a measurement runs."""

    kind: Literal["stage", "step", "note"]
    text: str
    done: int = 0
    total: int = 0
    """Steps of the stage, where they are known."""
