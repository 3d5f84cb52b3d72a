"""Every card of a machine: each alone, all at once, and the link between them. One profile with a part per card.

The machine's own figures are the slowest card's with all of them running: under tensor parallelism the others wait for
it. Each card is measured in this process when alone, and in a process of its own when all run at once; so where a
sweep was asked for (``--m-sweep``), the small products of every card but the first come after checks
(``measure_medians_first``).
"""

from __future__ import annotations

import multiprocessing
import queue
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from roofline_probe.errors import UsageError
from roofline_probe.measure import telemetry, verdict
from roofline_probe.measure.device import Device, open_device
from roofline_probe.measure.gemm import Gemm
from roofline_probe.measure.link import measure_link
from roofline_probe.measure.options import Event, MeasureOptions
from roofline_probe.measure.soak import Soak
from roofline_probe.measure.stream import Stream
from roofline_probe.measure.sweep import OnEvent, Save, run
from roofline_probe.measure.timing import Limits, measure_burst, measure_median, measure_soaked
from roofline_probe.profile import Beta, Peak, Profile, ProfileWarning, Telemetry, Trial

_SLOWER = 0.02
"""Cards of one model differ by a percent or so; more has a reason."""
_TOGETHER_S = 300.0
"""For everything but the soaks, which may each take twice their length to settle."""


@dataclass(frozen=True, slots=True)
class Together:
    """What one card reached while all of them ran."""

    index: int
    peaks: list[Peak]
    betas: list[Beta]
    telemetry: list[Telemetry]


def run_machine(options: MeasureOptions, on_event: OnEvent, save: Save) -> Profile:
    """Every accelerator of the machine, alone and together.

    Raises:
        UsageError: there is no accelerator, or one of them is in use.
    """
    kind, count = accelerators()
    parts: list[Profile] = []
    of_each = of_one_card(options)
    for index in range(count):
        on_event(Event("stage", f"card {index} alone"))
        alone = run(replace(of_each, device=f"{kind}:{index}"), on_event)
        parts.append(alone)
        save(assemble(parts, [], complete=False))
        if not alone.complete:
            return assemble(parts, [], complete=False)
    together: list[Together] = []
    try:
        on_event(Event("stage", f"{count} cards at once"))
        together = measure_together(kind, parts, options.soaked_s())
        found = assemble(parts, together, complete=True)
        save(msgspec.structs.replace(found, complete=False))
        if count > 1:
            on_event(Event("stage", "the link between the cards"))
            link = measure_link(parts[0].device.kind, count, lambda text: on_event(Event("step", text, 0, 1)))
            found = msgspec.structs.replace(found, link=link)
    except KeyboardInterrupt:
        return assemble(parts, together, complete=False)
    return found


def of_one_card(options: MeasureOptions) -> MeasureOptions:
    """Peaks alone, unless a sweep or a ceiling was asked for: they would take minutes on a machine of eight."""
    return replace(
        options, squares=options.squares or (), m_sweep=options.m_sweep or (), ceiling=options.ceiling or False
    )


def accelerators() -> tuple[str, int]:
    """Kind and number of the machine's accelerators.

    Raises:
        UsageError: there is none.
    """
    info = open_device("auto").info()
    if info.kind == "cpu":
        raise UsageError("--device all needs a GPU, and none was found here; measure the CPU with --device cpu.")
    return ("cuda" if info.kind == "rocm" else info.kind), info.count


def measure_together(kind: str, parts: Sequence[Profile], soak_s: float | None) -> list[Together]:
    """Load all cards at once, each in a process of its own, on the shapes that were best when alone."""
    context = multiprocessing.get_context("spawn")
    patience_s = _TOGETHER_S + 2 * (soak_s or 0.0) * len(parts[0].peaks)
    start: Any = context.Barrier(len(parts), timeout=patience_s)
    results: Any = context.Queue()
    processes = [
        context.Process(target=_one_of_many, args=(f"{kind}:{index}", part, soak_s, start, results), daemon=True)
        for index, part in enumerate(parts)
    ]
    for process in processes:
        process.start()
    found = _gather(results, processes, patience_s)
    for process in processes:
        process.join(timeout=10 if len(found) == len(processes) else 0)
        if process.is_alive():
            process.terminate()
    return sorted(found, key=lambda one: one.index)


def _gather(results: Any, processes: Sequence[Any], patience_s: float) -> list[Together]:
    """What the cards report; ends early when one of them died, for the others then wait at the barrier in vain."""
    found: list[Together] = []
    deadline = time.monotonic() + patience_s
    while len(found) < len(processes) and time.monotonic() < deadline:
        died = any(process.exitcode not in (None, 0) for process in processes)
        try:
            found.append(msgspec.convert(results.get(timeout=0.5), Together))
        except queue.Empty:
            if died:
                break
    return found


def _one_of_many(name: str, alone: Profile, soak_s: float | None, start: Any, results: Any) -> None:
    device = open_device(name)
    found = load_one(device, alone, soak_s, start.wait)
    results.put(msgspec.to_builtins(found))


def load_one(device: Device, alone: Profile, soak_s: float | None, wait: Callable[[], object]) -> Together:
    """One card's part of it: ``wait`` before each stage keeps the cards in step."""
    info = device.info()
    limits = Limits(alone.datasheet, info.last_level_cache_bytes or 0)
    peaks: list[Peak] = []
    seen: list[Telemetry] = []
    for known in alone.peaks:
        wait()
        gemm = Gemm(known.dtype, known.m, known.n, known.k, "together")
        if known.regime == "burst":
            with device.watch() as readings:
                trial = measure_burst(device, gemm, limits)
            peak = verdict.burst_peak(known.dtype, [trial], telemetry.summarize(f"burst {known.dtype}", readings), info)
        else:
            soak = Soak(f"{gemm.key}, all cards", soak_s or 1.0, min(1.0, (soak_s or 1.0) / 3))
            trial = measure_soaked(device, gemm, limits, soak)
            peak = verdict.sustained_peak(known.dtype, trial, soak, info)
            seen += [soak.telemetry] if soak.telemetry else []
        peaks += [peak] if peak else []
    trials: list[Trial] = []
    for beta in alone.betas:
        wait()
        stream = Stream(beta.pattern, beta.implementation, beta.array_bytes)
        trials.append(measure_median(device, stream, limits, warmup=3, reps=25, budget_s=0.5))
    return Together(info.index, peaks, verdict.betas(trials), seen)


def assemble(parts: Sequence[Profile], together: Sequence[Together], *, complete: bool) -> Profile:
    """The machine's profile: of all cards running, or where one of them gave no figure then, of each alone. Pure."""
    missing = sorted({part.device.index for part in parts} - {one.index for one in together})
    if missing:
        together = []
    first = parts[slowest_card(parts, together)]
    of_all = next((t for t in together if t.index == first.device.index), None)
    return msgspec.structs.replace(
        first,
        complete=complete,
        device=msgspec.structs.replace(first.device, count=max(first.device.count, len(parts))),
        peaks=of_all.peaks if of_all else first.peaks,
        betas=of_all.betas if of_all else first.betas,
        telemetry=[t for one in together for t in one.telemetry],
        trials=[],
        warnings=[
            *first.warnings,
            *slow_card(parts),
            *slower_together(parts, together),
            *(_not_together(first.device.kind, missing) if complete else ()),
        ],
        parts=list(parts),
    )


def slowest_card(parts: Sequence[Profile], together: Sequence[Together]) -> int:
    """Position of the card with the lowest sustained rate (burst where that was not measured), all running if known."""
    by_index = {one.index: one.peaks for one in together}
    rates = [_rate(by_index.get(part.device.index, part.peaks)) for part in parts]
    return min(range(len(parts)), key=lambda position: rates[position])


def _rate(peaks: Sequence[Peak]) -> float:
    sustained = [p.tflops for p in peaks if p.regime == "sustained"]
    return sum(sustained) if sustained else sum(p.tflops for p in peaks)


def slow_card(parts: Sequence[Profile]) -> list[ProfileWarning]:
    """Names the card that is slower than the best by more than cards differ, and the likely reason."""
    if len(parts) < 2:
        return []
    rates = [_rate(part.peaks) for part in parts]
    slowest = min(range(len(parts)), key=lambda position: rates[position])
    behind = 1 - rates[slowest] / max(rates) if max(rates) else 0.0
    if behind <= _SLOWER:
        return []
    best = parts[max(range(len(parts)), key=lambda position: rates[position])]
    return [
        ProfileWarning(
            code="slow_card",
            message=f"Card {parts[slowest].device.index} is {100 * behind:.0f} % slower than card {best.device.index} "
            f"when each runs alone ({_why(parts[slowest], best)}); with tensor parallelism every step waits for it.",
        )
    ]


def _why(slow: Profile, best: Profile) -> str:
    """The likely reason, from what the driver says of both."""
    one, other = slow.device, best.device
    if _less(one.power_limit_w, other.power_limit_w):
        return f"its power limit is {one.power_limit_w:.0f} W against {other.power_limit_w:.0f} W"
    if _less(one.sm_clock_max_mhz, other.sm_clock_max_mhz):
        return f"its clock ends at {one.sm_clock_max_mhz} MHz against {other.sm_clock_max_mhz} MHz"
    if one.ecc != other.ecc:
        return "ECC is on for one of them only"
    codes = {w.code: w for w in slow.warnings}
    for code, words in (("busy_device", "another process used it"), ("thermal", "it was held back by heat")):
        if code in codes:
            return words
    clocks = [_soak_clock(p) for p in (slow, best)]
    if clocks[0] and clocks[1] and clocks[0] < clocks[1]:
        return f"under load it held {clocks[0]:.0f} MHz against {clocks[1]:.0f} MHz: a hotter or leakier chip"
    return "for no reason that the driver names"


def _less(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and one < 0.99 * other


def _soak_clock(part: Profile) -> float | None:
    clocks = [t.sm_clock_mhz_median for t in part.telemetry if t.during.startswith("soak") and t.sm_clock_mhz_median]
    return max(clocks, default=None)


def _not_together(kind: str, missing: Sequence[int]) -> list[ProfileWarning]:
    if not missing:
        return []
    cards = f"card{'s' * (len(missing) > 1)} {', '.join(map(str, missing))}"
    name = "cuda" if kind == "rocm" else kind
    return [
        ProfileWarning(
            code="not_together",
            message=f"With all cards running, {cards} gave no figure in time (what its process said is on stderr); all "
            f"figures here are of cards alone. Measure it with --device {name}:{missing[0]}, then try again.",
        )
    ]


def slower_together(parts: Sequence[Profile], together: Sequence[Together]) -> list[ProfileWarning]:
    """Cards that lose more than a little when all run: power or cooling that they share."""
    alone = {part.device.index: _rate(part.peaks) for part in parts}
    losses = {one.index: 1 - _rate(one.peaks) / alone[one.index] for one in together if alone.get(one.index)}
    worst = max(losses, key=lambda index: losses[index], default=None)
    if worst is None or losses[worst] <= _SLOWER:
        return []
    return [
        ProfileWarning(
            code="slower_together",
            message=f"With all cards running, card {worst} loses {100 * losses[worst]:.0f} % of its rate: they share "
            "power or cooling; plan with the figures of all at once.",
        )
    ]
