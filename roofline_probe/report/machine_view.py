"""Several cards of one machine: each alone, all at once, and the link between them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from roofline_probe.profile import Dtype, Link, LinkPoint, Profile
from roofline_probe.report.rate_unit import RateUnit, rate_unit
from roofline_probe.report.tables import add_rows, heading, indented, make_table
from roofline_probe.report.text import clean, gigabytes, listed, number

_COLLECTIVES = ("all_reduce", "all_gather", "point_to_point")


def print_machine(profile: Profile, console: Console) -> None:
    """The per-card and the link table, where the profile has them; nothing for a single card without a link."""
    if profile.parts:
        heading(
            console,
            f"{len(profile.parts)} cards",
            f"each alone; the last row is the slowest with all running; pi in {rate_unit(profile).name}",
        )
        console.print(indented(add_rows(make_table(_card_headers(profile)), _card_rows(profile))))
    if profile.link is not None and profile.link.points:
        link = profile.link
        where = f", {clean(link.topology)}" if link.topology else ""
        heading(
            console, f"Link of {link.ranks} cards", f"{clean(link.backend)}{where}; µs and bus GB/s by message size"
        )
        console.print(indented(add_rows(make_table(_link_headers(link)), _link_rows(link))))
        if note := _timers_note(link):
            console.print(indented(Text(note, style="dim")))


def _card_headers(profile: Profile) -> list[str]:
    pis = [f"pi {dtype}\n{regime}" for dtype in profile.dtypes for regime in ("burst", "sustained")]
    return ["card", *pis, "copy\nGB/s", "triad\nGB/s", "read\nGB/s"]


def _card_rows(profile: Profile) -> list[list[str]]:
    unit = rate_unit(profile)
    rows = [[f"{part.device.index}", *_figures(part, profile.dtypes, unit)] for part in profile.parts]
    return [*rows, [f"{profile.device.index}, all running", *_figures(profile, profile.dtypes, unit)]]


def _figures(part: Profile, dtypes: Sequence[Dtype], unit: RateUnit) -> list[str]:
    pis = [unit.significant(part.pi_tflops(dtype, regime)) for dtype in dtypes for regime in ("burst", "sustained")]
    return [*pis, *(gigabytes(part.beta_of(pattern)) for pattern in ("copy", "triad", "read"))]


def _collectives(link: Link) -> list[str]:
    return [c for c in _COLLECTIVES if any(p.collective == c for p in link.points)]


def _link_headers(link: Link) -> list[str]:
    # On one line the names outgrow 80 columns.
    names = ["\n".join(c.replace("_", " ").rsplit(" ", 1)) for c in _collectives(link)]
    return ["message", *(f"{name}\n{unit}" for name in names for unit in ("µs", "GB/s"))]


def _timers_note(link: Link) -> str | None:
    """Two rows of one column, or two columns, may not be comparable: only one of them holds a launch."""
    replayed = [p for p in link.points if p.timer == "cuda-graph"]
    if not replayed or len(replayed) == len(link.points):
        return None
    names = listed(list(dict.fromkeys(p.collective.replace("_", " ") for p in replayed)))
    largest = _size(max(p.message_bytes for p in replayed))
    return f"{names} up to {largest} inside a CUDA graph, as engines run them; the others with a launch each"


def _link_rows(link: Link) -> list[list[str]]:
    present = _collectives(link)
    found: dict[tuple[str, int], LinkPoint] = {(p.collective, p.message_bytes): p for p in link.points}
    sizes = sorted({p.message_bytes for p in link.points})
    return [[_size(size), *(cell for c in present for cell in _link_cells(found.get((c, size))))] for size in sizes]


def _link_cells(point: LinkPoint | None) -> tuple[str, str]:
    if point is None:
        return number(None), number(None)
    return number(point.seconds * 1e6, 1), number(point.bus_gbps, 1)


def _size(size: int) -> str:
    for unit, bytes_each in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= bytes_each:
            return f"{size / bytes_each:g} {unit}"
    return f"{size} B"
