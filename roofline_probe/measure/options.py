"""What a measurement is asked to do, and what it tells while it runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from roofline_probe.errors import UsageError
from roofline_probe.workloads import DEFAULT_MODEL, MODELS, ModelShape, check_tp

Mode = Literal["gemm", "bandwidth", "all"]

SQUARES = (512, 1024, 2048, 4096, 8192, 16384)
M_SWEEP = (1, 8, 32, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
CEILING_M = tuple(2**power for power in range(15))
"""1, 2, 4 … 16384."""
USUAL_SOAK_S = 5.0
LONGEST_SOAK_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """One run of ``probe measure``. The defaults are the command's."""

    device: str = "auto"
    """``auto``, ``cpu``, ``cuda``, ``cuda:1``, ``xpu``, ``mps``."""
    mode: Mode = "all"
    dtypes: tuple[str, ...] | None = None
    """Short names; None: what the device is used for (bf16 and fp8 on a GPU that has them)."""
    squares: tuple[int, ...] | None = None
    """Sizes of the square GEMMs; None: ``SQUARES``, or none in a quick run."""
    m_sweep: tuple[int, ...] | None = None
    """Rows of the projection sweep; None: ``M_SWEEP``, or none in a quick run."""
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
    soak: bool | None = None
    """Whether sustained pi is measured; None: unless the run is quick."""
    soak_s: float = USUAL_SOAK_S
    """Seconds of the soak behind it."""
    ceiling: bool | None = None
    """Whether the model ceiling is measured; None: unless the run is quick."""
    model: ModelShape = MODELS[DEFAULT_MODEL]
    tp: int = 1
    force: bool = False
    """Measure although somebody else is on the device."""
    answers: tuple[str, str, str, str] | None = None
    """Predictions made before the run: percent of pi, percent of beta, triad and ridge ``higher`` or ``lower``."""
    command_line: str = "probe measure"

    def __post_init__(self) -> None:
        """Refuse what no clock, card or engine can have.

        Raises:
            UsageError: a soak or a published peak that is not a positive, finite number; a ``tp`` that does not divide
                the model.
        """
        check_tp(self.model, self.tp)
        if not 0 < self.soak_s <= LONGEST_SOAK_S:
            raise UsageError(
                f"--soak needs a length of more than 0 and at most {LONGEST_SOAK_S:,} seconds, not {self.soak_s:g}; "
                "use --no-soak to leave sustained pi unmeasured."
            )
        for dtype, tflops in self.peak_tflops.items():
            if not 0 < tflops < math.inf:
                raise UsageError(
                    f"--peak-tflops {dtype + '=' if dtype else ''}{tflops:g} is not a rate; "
                    "write it as 989.4 or bf16=989.4,fp8=1978.9."
                )
        if self.peak_gbps is not None and not 0 < self.peak_gbps < math.inf:
            raise UsageError(f"--peak-gbps {self.peak_gbps:g} is not a bandwidth; write it in GB/s, as 4814.")

    def swept(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Sizes of the squares and rows of the projections: those given, else the usual ones of such a run."""
        squares, rows = ((), ()) if self.quick else (SQUARES, M_SWEEP)
        return squares if self.squares is None else self.squares, rows if self.m_sweep is None else self.m_sweep

    def soaked_s(self) -> float | None:
        """Seconds of the soak; None: sustained pi is not measured."""
        return self.soak_s if self._wants(self.soak) else None

    def has_ceiling(self) -> bool:
        """Whether the model ceiling is measured."""
        return self._wants(self.ceiling)

    def _wants(self, asked: bool | None) -> bool:
        return not self.quick if asked is None else asked


@dataclass(frozen=True, slots=True)
class Event:
    """Something a watcher may want to know while a measurement runs."""

    kind: Literal["stage", "step", "note"]
    text: str
    done: int = 0
    total: int = 0
    """Steps of the stage, where they are known."""
