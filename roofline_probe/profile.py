"""The measured document: what ``probe measure`` writes and everything else reads.

The document is the product: versioned, self-describing, with the raw times kept, so that a figure can be computed again
and an older document still be read. Units are in the field names (decimal: 1 TFLOP/s = 1e12 FLOP/s, 1 GB/s = 1e9 B/s).
``None`` means "not measured", never 0.

Validation is msgspec's: a wrong type, a missing field, a rate or size that no device has is refused with the path to it
(``$.peaks[0].tflops``), so that nothing that divides by it needs to doubt it; fields that this version does not know
are ignored, so that a later addition does not lock an older reader out.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

SCHEMA_VERSION = 1
"""Raised when a field changes its meaning or goes away; added optional fields do not raise it."""

METHOD_VERSION = 2
"""Raised when the way of measuring changes, so that figures of different methods are never compared unaware.

1: the sweep goes from one projection to the next. 2: products of few rows come before everything else and before any
check, which makes those at M=1 up to 15 % faster; soaks of the model ceiling are shorter.
"""

Dtype = Annotated[str, Meta(pattern=r"^[a-z0-9_]{1,24}\Z")]
"""Short torch-like names: ``bf16 fp16 fp32 tf32 fp8 int8 fp4``."""
Created = Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\d(T[0-9:.]{5,15}(Z|[+-]\d\d:\d\d)?)?\Z")]
Rate = Annotated[float, Meta(ge=1e-9, le=1e9)]
"""TFLOP/s or GB/s: wide enough for a microcontroller and for a hall of racks."""
Time = Annotated[float, Meta(ge=1e-12, le=1e9)]
"""Seconds or ms."""
Count = Annotated[int, Meta(ge=1, le=1 << 62)]
Total = Annotated[int, Meta(ge=0, le=1 << 62)]
Regime = Literal["burst", "sustained", "median"]
Pattern = Literal["copy", "triad", "read", "write"]
TrialStatus = Literal["ok", "launch_bound", "unverified", "skipped", "unsupported"]


class DeviceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured."""

    kind: Literal["cuda", "rocm", "xpu", "mps", "cpu", "fake"]
    name: str
    index: Total = 0
    count: Count = 1
    """Devices of this kind in the machine."""
    uuid: str | None = None
    pci_bus_id: str | None = None
    memory_bytes: Count | None = None
    last_level_cache_bytes: Count | None = None
    multiprocessors: Count | None = None
    threads: Count | None = None
    """CPU: threads the measurement ran on."""
    compute_capability: str | None = None
    sm_clock_max_mhz: int | None = None
    memory_clock_max_mhz: int | None = None
    power_limit_w: float | None = None
    power_limit_default_w: float | None = None
    driver: str | None = None
    ecc: bool | None = None
    mig: bool | None = None


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """What measured it."""

    probe_version: str
    command_line: str
    python: str
    platform: str
    torch: str | None = None
    runtime: str | None = None
    """``CUDA 13.0``, ``ROCm 7.0`` …"""
    triton: str | None = None
    blas: str | None = None
    """CPU: whose GEMM this is (``MKL``, ``OpenBLAS`` …)."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel on one shape: raw times first, everything else derived from them."""

    kernel: str
    """``gemm``, ``copy``, ``triad``, ``read``, ``write``, ``projections``, ``all_reduce`` …"""
    dtype: Dtype
    regime: Regime
    implementation: str
    """``torch.mm``, ``torch.clone``, ``triton_read`` … : whose code it was."""
    label: str | None = None
    """``square``, ``qkv``, ``o_proj`` …"""
    m: Count | None = None
    n: Count | None = None
    k: Count | None = None
    array_bytes: Count | None = None
    flops: Total = 0
    bytes_moved: Total = 0
    seconds: list[float] = []
    """Raw times of one execution each (a block of graph replays divided by its length), in order, glitches included."""
    calls_per_sample: Count = 1
    seconds_used: Time | None = None
    """The time that the rates below divide by, glitches left out: the best block (burst), the median, or the mean of
    what follows the lead-in (sustained)."""
    lead_in_samples: int | None = None
    """Sustained: how many of ``seconds``, at its start, are left out; None in profiles older than this field."""
    glitches: int = 0
    """Samples faster than physically possible: kept in ``seconds``, left out of ``seconds_used``."""
    tflops: Rate | None = None
    gbps: Rate | None = None
    timer: str | None = None
    """``cuda-graph``, ``events``, ``host``."""
    inputs: str | None = None
    """``normal``: the distribution matters (zeros flatter by 17 % on an H200)."""
    verified: bool | None = None
    relative_error: float | None = None
    status: TrialStatus = "ok"
    reason: str | None = None


class Telemetry(msgspec.Struct, frozen=True, kw_only=True):
    """Clocks, power and temperature sampled while something ran."""

    during: str
    """``soak gemm bf16 8192x8192x8192`` …"""
    samples: int
    sm_clock_mhz_median: float | None = None
    sm_clock_mhz_min: float | None = None
    sm_clock_mhz_max: float | None = None
    power_w_median: float | None = None
    power_w_max: float | None = None
    temperature_c_max: float | None = None
    throttle_reasons: list[str] = []
    """Plain words: ``software power cap``, ``thermal slowdown`` …"""


class Peak(msgspec.Struct, frozen=True, kw_only=True):
    """Achieved pi for one dtype in one regime."""

    dtype: Dtype
    regime: Regime
    tflops: Rate
    implementation: str
    m: Count
    n: Count
    k: Count
    settled: bool | None = None
    """Sustained: whether the soak's last seconds agree with each other."""
    seconds: Time | None = None
    """Sustained: length of the soak."""
    explanation: str | None = None
    """``power-capped: 1470 of 1980 MHz at 692 of 700 W``."""


class Beta(msgspec.Struct, frozen=True, kw_only=True):
    """Achieved bandwidth of one access pattern."""

    pattern: Pattern
    gbps: Rate
    implementation: str
    array_bytes: Count


class CeilingPoint(msgspec.Struct, frozen=True, kw_only=True):
    """All projections of a model at M tokens: what a perfect engine of these kernels reaches before attention."""

    m: Count
    ms_burst: Time | None = None
    """Unsoaked: at whatever clock a short run holds."""
    ms_sustained: Time | None = None
    """Soaked, where power bites; None where it was not soaked."""
    weight_gbps: Rate | None = None
    tflops: Rate | None = None
    lm_head_ms: Time | None = None
    """The LM head alone at M rows (unsoaked). It is part of the times above; a prefill runs it for its last tokens
    only, so that its projections take ms − lm_head_ms."""

    @property
    def ms(self) -> float | None:
        """The time a long serving run can reach: sustained where measured, else the unsoaked one."""
        return self.ms_sustained if self.ms_sustained is not None else self.ms_burst


class ModelCeiling(msgspec.Struct, frozen=True, kw_only=True):
    """The ceiling of one model, dtype and tensor-parallel degree (per GPU)."""

    model: str
    """Name in ``roofline_probe.workloads``, or the config file's."""
    dtype: Dtype
    tp: Count
    weight_bytes: Count
    """Bytes of the projections and the LM head that one step streams on one GPU."""
    flops_per_token: Count
    points: list[CeilingPoint]
    layers: Count | None = None
    hidden_size: Count | None = None
    layers_measured: Count | None = None
    """Fewer than ``layers`` where not all of them fit: the times are then scaled from these."""
    lm_head_flops_per_token: Total | None = None
    """Part of ``flops_per_token``."""


class LinkPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One collective at one message size."""

    collective: Literal["all_reduce", "all_gather", "point_to_point"]
    message_bytes: Count
    seconds: Time
    bus_gbps: Rate | None = None
    timer: str | None = None
    """``cuda-graph`` (as an engine replays it) or ``host``, which pays a launch of some 30 us at every small size."""


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """The third roof: what tensor parallelism moves between cards."""

    backend: str
    ranks: Annotated[int, Meta(ge=2, le=1 << 20)]
    topology: str | None = None
    """``NVLink``, ``PCIe`` …"""
    points: list[LinkPoint] = []


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """One question answered before the run, scored after it."""

    question: str
    answer: str
    measured: str | None = None
    correct: bool | None = None
    error_points: float | None = None
    """Measured minus predicted, in percentage points, where the answer is a number."""
    comment: str | None = None


class Datasheet(msgspec.Struct, frozen=True, kw_only=True):
    """Published peaks of the card that the name matched, or those the user gave with ``--peak-*``."""

    card: str
    tflops: dict[Dtype, Rate] = {}
    """Dense, by dtype."""
    gbps: Rate | None = None
    source: str = ""
    """The vendor's document, or ``given on the command line``."""


class ProfileWarning(msgspec.Struct, frozen=True, kw_only=True):
    """What happened, the likely cause, what to try."""

    code: str
    message: str


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one run of ``probe measure`` learned about one device (or, with ``parts``, one machine)."""

    schema_version: int
    method_version: int
    created: Created
    """ISO-8601 with offset."""
    device: DeviceInfo
    environment: Environment
    quick: bool = False
    complete: bool = True
    """False if the run was interrupted: what had been measured by then is here."""
    peaks: list[Peak] = []
    betas: list[Beta] = []
    ceilings: list[ModelCeiling] = []
    link: Link | None = None
    datasheet: Datasheet | None = None
    trials: list[Trial] = []
    telemetry: list[Telemetry] = []
    warnings: list[ProfileWarning] = []
    predictions: list[Prediction] = []
    parts: list[Profile] = []
    """One per card for a whole machine; the figures above are then the slowest card's with all of them running."""
    unsupported: dict[Dtype, str] = {}
    """dtype -> why it could not be measured here."""
    hidden_size: Count = 4096
    """Of the square projection whose T* the report places (``--hidden-size``)."""
    gqa_group: Count = 4
    """Of the decode attention that the report places (``--gqa-group``)."""

    def pi_tflops(self, dtype: Dtype, regime: Regime = "burst") -> float | None:
        """Measured peak, TFLOP/s, or None if that dtype or regime was not measured."""
        return max((p.tflops for p in self.peaks if p.dtype == dtype and p.regime == regime), default=None)

    def beta_of(self, pattern: Pattern) -> float | None:
        """Measured bandwidth of one pattern, GB/s."""
        return max((b.gbps for b in self.betas if b.pattern == pattern), default=None)

    @property
    def beta_gbps(self) -> float | None:
        """The headline beta: the better of copy and triad, GB/s."""
        return max((b.gbps for b in self.betas if b.pattern in ("copy", "triad")), default=None)

    @property
    def read_beta_gbps(self) -> float | None:
        """The roof of decode, which is almost all reads, GB/s."""
        return self.beta_of("read")

    @property
    def dtypes(self) -> list[Dtype]:
        """Dtypes with a measured peak, in the order measured."""
        return list(dict.fromkeys(p.dtype for p in self.peaks))
