"""Where profiles live, and which one is meant when none or only a name is given.

Measured profiles go into the platform's data folder, one file per device: two cards of one model differ by a few
percent, so that neither may overwrite the other's. A run that measured less than the file of its device holds goes
beside it, named by what it measured. Reference profiles of measured cards are shipped inside the package
and found by name (``h200``), so that a log can be read on a laptop.
"""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import platformdirs

from roofline_probe import profile_file
from roofline_probe.errors import NoRoof, UsageError
from roofline_probe.profile import DeviceInfo, Profile

_PARTIAL = ".partial.json"


def data_folder() -> Path:
    """The folder of this user's measured profiles (it may not exist yet)."""
    return platformdirs.user_data_path("roofline-probe", appauthor=False) / "profiles"


def path_for(device: DeviceInfo, *, quick: bool = False, machine: bool = False) -> Path:
    """This device's own file. A quick run has a file beside it: it must not replace ceilings and sustained peaks."""
    if machine:
        name = _slug(f"machine {device.count} x {device.name}")
    else:
        identity = (device.uuid or device.pci_bus_id or "").removeprefix("GPU-")[:13]
        name = _slug(f"{device.name} {identity or (device.index if device.kind != 'cpu' else '')}")
    return data_folder() / f"{name}{'.quick' if quick else ''}.json"


def path_for_result(target: Path, *, complete: bool) -> Path:
    """Where to save: an interrupted run never replaces a finished profile, it goes into a file beside it."""
    return target if complete or not target.exists() else partial_path(target)


def path_beside_fuller(target: Path, found: Profile) -> Path:
    """``target``, unless the profile there holds a figure that ``found`` lacks: then a file beside it, so that a run
    of one dtype, model or mode loses nothing (``h200.bandwidth.json``, ``h200.fp8-bandwidth.json``)."""
    try:
        there = _read(target)
    except UsageError:  # nothing there, or nothing that could still be read
        return target
    if _figures(there) <= _figures(found):
        return target
    return target.with_name(f"{target.name.removesuffix('.json')}.{_slug(_what(found))}.json")


def partial_path(target: Path) -> Path:
    """The file beside ``target`` that holds what a run has measured so far."""
    return target.with_name(target.name.removesuffix(".json") + _PARTIAL)


def stored() -> list[Path]:
    """Paths of this user's finished profiles, oldest name order."""
    folder = data_folder()
    return sorted(p for p in folder.glob("*.json") if not p.name.endswith(_PARTIAL)) if folder.is_dir() else []


def shipped() -> list[str]:
    """Names of the profiles inside the package."""
    folder = files("roofline_probe") / "profiles"
    return sorted(entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json"))


def load(name_or_path: str) -> tuple[Profile, str]:
    """The profile at a path, or the shipped or stored one of that name; with the name to show for it.

    Raises:
        UsageError: nothing of that name or path, or not a profile.
    """
    path = Path(name_or_path)
    if path.is_file():
        return _read(path), path.stem
    if path.is_dir():
        raise UsageError(f"{name_or_path} is a folder; give the path of one profile in it.")
    key = name_or_path.lower().removesuffix(".json")
    if key in shipped():
        entry = files("roofline_probe") / "profiles" / f"{key}.json"
        return profile_file.decode(entry.read_bytes(), f"the shipped profile {key}"), key
    for candidate in stored():
        if candidate.stem == key:
            return _read(candidate), candidate.stem
    names = ", ".join([*shipped(), *(p.stem for p in stored())]) or "none yet"
    raise UsageError(f"There is no profile {name_or_path}: neither a file nor a known name (known: {names}).")


def find_default() -> tuple[Profile, Path]:
    """The profile a command without ``--profile`` uses: an accelerator's before the CPU's, one with both roofs before
    one with half of them, a full run before a quick one, then the newest; of that device the one with most figures.
    A file that cannot be read is passed over while another one can be.

    Raises:
        NoRoof: nothing was measured here yet; the sentence names the shipped profiles and the other ways out.
        UsageError: the only stored profiles are damaged.
    """
    found: list[tuple[Profile, Path]] = []
    problem: UsageError | None = None
    for path in stored():
        try:
            found.append((_read(path), path))
        except UsageError as error:
            problem = error
    if not found and problem is not None:
        raise problem
    if not found:
        names = " or ".join(f"--profile {name}" for name in shipped())
        raise NoRoof(
            "No device was measured here yet: run `probe measure` on the machine that served, or give "
            f"{names + ', ' if names else ''}--roof datasheet, or --pi and --beta."
        )
    newest = max((profile for profile, _ in found), key=_preference)
    alike = [item for item in found if _own_file(item[0]) == _own_file(newest)]
    return max(alike, key=lambda item: (*_preference(item[0])[:-1], len(_figures(item[0])), item[0].created))


def _preference(profile: Profile) -> tuple[bool, bool, bool, bool, str]:
    both = bool(profile.peaks and profile.betas)
    return profile.device.kind != "cpu", both, not profile.quick, profile.complete, profile.created


def _own_file(profile: Profile) -> Path:
    return path_for(profile.device, quick=profile.quick, machine=bool(profile.parts))


def _figures(profile: Profile) -> set[tuple[object, ...]]:
    """What was measured, by name, without the values."""
    return {
        *(("pi", peak.dtype, peak.regime) for peak in profile.peaks),
        *(("beta", beta.pattern) for beta in profile.betas),
        *(("ceiling", ceiling.model, ceiling.dtype, ceiling.tp) for ceiling in profile.ceilings),
        *(("link",) for _ in (profile.link,) if profile.link is not None),
    }


def _what(profile: Profile) -> str:
    """In words for a file's name: ``bf16 fp8 bandwidth llama-3.1-70b tp8``."""
    unsoaked = profile.peaks and not profile.quick and all(peak.regime == "burst" for peak in profile.peaks)
    models = dict.fromkeys(f"{ceiling.model} tp{ceiling.tp}" for ceiling in profile.ceilings)
    parts = [*profile.dtypes, "burst" if unsoaked else "", "bandwidth" if profile.betas else "", *models]
    return " ".join(part for part in parts if part) or "nothing"


def _read(path: Path) -> Profile:
    try:
        with path.open("rb") as file:
            data = file.read(profile_file.LARGEST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"The profile {path} could not be read ({error.strerror}).") from None
    return profile_file.decode(data, str(path))


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
