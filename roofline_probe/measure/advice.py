"""Warnings: what happened, the likely cause, what to try. Pure: facts in, sentences out, each with a stable code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from roofline_probe.measure import telemetry
from roofline_probe.measure.device import Surroundings
from roofline_probe.profile import Beta, Datasheet, DeviceInfo, Peak, ProfileWarning, Telemetry, Trial
from roofline_probe.report.text import count

_LOWERED = 0.98
_FULL_CLOCK = 0.95
_DISTURBED = 1.03
_BUSY_LOAD = 0.1
_MIB = 1 << 20


def of_surroundings(info: DeviceInfo, around: Surroundings) -> list[ProfileWarning]:
    """Who else was there."""
    found = [
        (around.users, "busy_device", _busy(around.users)),
        (
            info.mig,
            "mig",
            "The card is partitioned (MIG): these are the slice's peaks, not the card's, and no datasheet applies; "
            "measure on the slice that serves, or on an unpartitioned card.",
        ),
        (
            around.wsl,
            "wsl",
            "Under WSL the desktop shares the card and most sensors are hidden, so that peaks may be low for a reason "
            "that cannot be named; close what draws on the screen, or measure under Linux itself.",
        ),
        (_power_lowered(info), "power_limit_lowered", _power_text(info)),
        (
            around.laptop and info.kind != "cpu",
            "laptop",
            "This is a laptop: its card runs at a fraction of the desktop card's power; plug it in and choose the "
            "performance mode before comparing with any datasheet.",
        ),
        (
            around.uncorrected_ecc_errors,
            "ecc_errors",
            f"The card reports {around.uncorrected_ecc_errors} uncorrected memory errors since the driver was loaded: "
            "its memory may be failing; look at nvidia-smi -q -d ECC,ROW_REMAPPER.",
        ),
        (
            info.kind == "cpu" and (around.load or 0.0) > _BUSY_LOAD,
            "cpu_load",
            f"Other programs kept {100 * (around.load or 0.0):.0f} % of the cores busy meanwhile, so these peaks are "
            "too low; stop them and measure again.",
        ),
    ]
    return [ProfileWarning(code=code, message=message) for true, code, message in found if true]


def of_results(
    info: DeviceInfo,
    trials: Sequence[Trial],
    peaks: Sequence[Peak],
    betas: Sequence[Beta],
    seen: Sequence[Telemetry],
    datasheet: Datasheet | None,
) -> list[ProfileWarning]:
    """What the measurement itself showed."""
    return [
        *_exceeded(peaks, betas, datasheet),
        *_clocks(info, seen),
        *_small_buffer(trials, info),
        *_unsettled(peaks),
        *_disturbed(peaks, trials),
        *_trials(trials),
    ]


def _busy(users: Iterable[str]) -> str:
    return (
        f"The device was in use by {', '.join(users)} while it was measured (--force): the peaks are what was "
        "left over; stop it and measure again."
    )


def _power_lowered(info: DeviceInfo) -> bool:
    limit, default = info.power_limit_w, info.power_limit_default_w
    return bool(limit and default and limit < _LOWERED * default)


def _power_text(info: DeviceInfo) -> str:
    if not _power_lowered(info):
        return ""
    return (
        f"The power limit is set to {info.power_limit_w:.0f} W, below the card's default of "
        f"{info.power_limit_default_w:.0f} W, so sustained peaks are low; "
        "raise it (nvidia-smi -pl) if that is not meant."
    )


def _exceeded(peaks: Sequence[Peak], betas: Sequence[Beta], datasheet: Datasheet | None) -> list[ProfileWarning]:
    """More than 100 % can be real (boost above the rated clock): it is shown and explained, never clamped."""
    if datasheet is None:
        return []
    over = [
        f"{p.dtype} {p.tflops:.0f} of {datasheet.tflops[p.dtype]:g} TFLOP/s"
        for p in peaks
        if p.dtype in datasheet.tflops and p.tflops > datasheet.tflops[p.dtype]
    ]
    over += [
        f"{b.pattern} {b.gbps:.0f} of {datasheet.gbps:g} GB/s"
        for b in betas
        if datasheet.gbps and b.gbps > datasheet.gbps
    ]
    if not over:
        return []
    return [
        ProfileWarning(
            code="datasheet_exceeded",
            message=f"More than the datasheet was reached ({'; '.join(over)}): the card boosts above its rated clock, "
            "or the datasheet is another card's; compare the device's name with the card's.",
        )
    ]


def _clocks(info: DeviceInfo, seen: Sequence[Telemetry]) -> list[ProfileWarning]:
    found = []
    hot = [t for t in seen if set(t.throttle_reasons) & set(telemetry.THERMAL_REASONS)]
    if hot:
        found.append(
            ProfileWarning(
                code="thermal",
                message=f"Heat held the clocks down during {hot[0].during} ({hot[0].temperature_c_max or 0:.0f} °C): "
                "look at the fans and the airflow, then measure again.",
            )
        )
    bursts = [t for t in seen if t.during.startswith("burst") and t.sm_clock_mhz_max is not None]
    top = max((t.sm_clock_mhz_max or 0.0 for t in bursts), default=0.0)
    if bursts and info.sm_clock_max_mhz and top < _FULL_CLOCK * info.sm_clock_max_mhz:
        found.append(
            ProfileWarning(
                code="low_clocks",
                message=f"Even after a rest the clock reached {top:.0f} of {info.sm_clock_max_mhz} MHz only, so burst "
                "peaks are low: a locked application clock, a lowered power limit or heat; see nvidia-smi -q -d CLOCK.",
            )
        )
    return found


def _small_buffer(trials: Sequence[Trial], info: DeviceInfo) -> list[ProfileWarning]:
    """How much a buffer that the cache holds flatters, against the same pattern over large arrays."""
    streams = [t for t in trials if t.array_bytes and t.status in ("ok", "launch_bound") and t.gbps]
    sizes = sorted({t.array_bytes or 0 for t in streams})
    if len(sizes) < 2:
        return []
    small, large = (
        max(t.gbps or 0.0 for t in streams if t.array_bytes == size and t.kernel in ("copy", "triad"))
        for size in (sizes[0], sizes[-1])
    )
    cache = (
        f", and the last-level cache holds {info.last_level_cache_bytes / _MIB:.0f} MiB"
        if info.last_level_cache_bytes
        else ""
    )
    return [
        ProfileWarning(
            code="small_buffer",
            message=f"Arrays of {sizes[0] / _MIB:.0f} MiB gave {small:.0f} GB/s, {100 * small / large:.0f} % of the "
            f"{large:.0f} GB/s of {sizes[-1] / _MIB:.0f} MiB arrays{cache}: beta is taken from the large ones; "
            "leave out --buffer-mib.",
        )
    ]


def _unsettled(peaks: Sequence[Peak]) -> list[ProfileWarning]:
    wandering = [p for p in peaks if p.settled is False]
    if not wandering:
        return []
    names = ", ".join(p.dtype for p in wandering)
    return [
        ProfileWarning(
            code="unsettled",
            message=f"The sustained rate of {names} was still moving after {wandering[0].seconds:.0f} s: clocks or "
            "heat had not settled, or somebody else ran; soak longer, for example --soak 30.",
        )
    ]


def _disturbed(peaks: Sequence[Peak], trials: Sequence[Trial]) -> list[ProfileWarning]:
    """Neither a soak nor a median can beat the best block after a rest: else something else ran during the bursts."""
    bursts: dict[str, float] = {}
    for p in peaks:
        if p.regime == "burst":
            bursts[p.dtype] = max(p.tflops, bursts.get(p.dtype, 0.0))
    longer = [("soak", p.dtype, p.tflops) for p in peaks if p.regime == "sustained"]
    longer += [
        ("sweep", t.dtype, t.tflops or 0.0)
        for t in trials
        if t.kernel == "gemm" and t.regime == "median" and t.status == "ok"
    ]
    beaten = [(what, d) for what, d, tflops in longer if d in bursts and tflops > _DISTURBED * bursts[d]]
    if not beaten:
        return []
    stages = " and ".join(dict.fromkeys(what for what, _ in beaten))
    dtypes = ", ".join(dict.fromkeys(d for _, d in beaten))
    return [
        ProfileWarning(
            code="disturbed",
            message=f"The {stages} of {dtypes} ran faster than its best short block, so burst pi is too low: another "
            "program must have taken the device during the bursts; stop it and measure again.",
        )
    ]


def _trials(trials: Sequence[Trial]) -> list[ProfileWarning]:
    found = []
    glitches = sum(t.glitches for t in trials)
    if glitches:
        found.append(
            ProfileWarning(
                code="glitches",
                message=f"{count(glitches, 'sample')} {_was(glitches)} faster than physically possible and left out: "
                "the timer is unreliable here (a virtual machine, a clock change); figures are medians of the rest.",
            )
        )
    wrong = [t for t in trials if t.status == "unverified"]
    if wrong:
        found.append(
            ProfileWarning(
                code="unverified",
                message=f"{count(len(wrong), 'kernel')} gave a wrong result and no figure (first: {wrong[0].kernel} "
                f"{wrong[0].dtype} {wrong[0].implementation}: {wrong[0].reason}): a broken library or failing memory.",
            )
        )
    too_large = [t for t in trials if t.status == "skipped" and t.reason and "memory" in t.reason]
    if too_large:
        found.append(
            ProfileWarning(
                code="out_of_memory",
                message=f"{count(len(too_large), 'shape')} did not fit into memory and {_was(len(too_large))} skipped; "
                "the others stand.",
            )
        )
    return found


def _was(number: int) -> str:
    return "was" if number == 1 else "were"
