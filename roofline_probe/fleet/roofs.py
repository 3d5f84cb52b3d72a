"""Measured profiles -> one roof per card model: the constants that rules divide by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from roofline_probe import store
from roofline_probe.errors import UsageError
from roofline_probe.fleet.folder import read_folder
from roofline_probe.profile import Profile


@dataclass(frozen=True, slots=True)
class CardRoof:
    """The roof of one card model: the median card's figures where several were measured. FLOP/s and B/s."""

    gpu: str
    """Device name as the profile has it."""
    dtype: str
    pi_flops: float
    regime: str
    """``sustained`` where it was measured: a long window of serving cannot reach the burst figure."""
    beta_bytes: float
    pattern: str
    """``read`` where it was measured (decode is almost all reads), else ``copy or triad``."""
    cards: int
    together: int
    """How many of the cards were measured with all of their machine running; each counts with its slowest's figures,
    which is what an engine over all of them gets."""
    machines: int
    dates: tuple[str, ...]
    """Days of measurement, oldest first."""
    quick: bool
    """Whether all of them are quick runs."""
    quick_left_out: int
    """Cards whose quick runs are not among them, because there are full ones."""


def load_profiles(names: Sequence[str]) -> list[Profile]:
    """Profiles of cards and of machines, by name, path, or folder (every finished profile in it), each card once.

    Raises:
        UsageError: one of them is nothing of that kind, or a folder without a profile.
    """
    profiles: list[Profile] = []
    for name in names:
        if Path(name).is_dir():
            found = read_folder(Path(name))
            if found.problems:
                raise UsageError(found.problems[0])
            profiles += found.profiles
        else:
            profiles.append(store.load(name)[0])
    return _each_card_once(profiles)


def _each_card_once(profiles: Sequence[Profile]) -> list[Profile]:
    """A machine's profile in place of those of its cards, the newer of two of one card; quick ones for themselves."""
    seen: set[tuple[str, str, bool]] = set()
    kept = []
    for profile in sorted(profiles, key=lambda p: (bool(p.parts), _both(p), p.created), reverse=True):
        parts = profile.parts or [profile]
        cards = {(uuid, p.device.name, p.quick) for p in parts if (uuid := p.device.uuid) is not None}
        if not cards or cards - seen:
            kept.append(profile)
        seen |= cards
    return [profile for profile in profiles if any(profile is one for one in kept)]


def _both(profile: Profile) -> bool:
    return bool(profile.peaks and profile.betas)


def card_roofs(profiles: Iterable[Profile], dtype: str | None = None) -> list[CardRoof]:
    """One roof per device name, in the order given; quick runs, which are shorter, only where there are no others.

    Raises:
        UsageError: a profile lacks ``dtype``, or a bandwidth (an interrupted run).
    """
    by_name: dict[str, list[Profile]] = {}
    for profile in profiles:
        by_name.setdefault(profile.device.name, []).append(profile)
    return [_roof(name, cards, dtype) for name, cards in by_name.items()]


def _roof(name: str, measured: list[Profile], dtype: str | None) -> CardRoof:
    cards = [card for card in measured if not card.quick] or measured
    chosen = dtype or _usual_dtype(name, cards)
    cards = [card for card in cards for _ in card.parts or [card]]
    sustained = [pi for card in cards if (pi := card.pi_tflops(chosen, "sustained")) is not None]
    burst = [pi for card in cards if (pi := card.pi_tflops(chosen, "burst")) is not None]
    regime, pis = ("sustained", sustained) if len(sustained) == len(cards) else ("burst", burst)
    if len(pis) < len(cards):
        known = ", ".join(dict.fromkeys(d for card in cards for d in card.dtypes)) or "none"
        raise UsageError(f"A profile of {name} has no measured peak for {chosen} (measured: {known}); choose --dtype.")
    reads = [card.read_beta_gbps for card in cards if card.read_beta_gbps is not None]
    betas = [card.beta_gbps for card in cards if card.beta_gbps is not None]
    pattern, figures = ("read", reads) if len(reads) == len(cards) else ("copy or triad", betas)
    if len(figures) < len(cards):
        raise UsageError(f"A profile of {name} has no measured bandwidth; run `probe measure` to its end there.")
    return CardRoof(
        gpu=name,
        dtype=chosen,
        pi_flops=median(pis) * 1e12,
        regime=regime,
        beta_bytes=median(figures) * 1e9,
        pattern=pattern,
        cards=len(cards),
        together=sum(bool(card.parts) for card in cards),
        machines=len({id(card) for card in cards if card.parts}),
        dates=tuple(sorted({card.created[:10] for card in cards})),
        quick=cards[0].quick,
        quick_left_out=sum(len(card.parts) or 1 for card in measured) - len(cards),
    )


def _usual_dtype(name: str, cards: list[Profile]) -> str:
    """bf16, which most models are served in, else the first one measured."""
    measured = cards[0].dtypes
    if not measured:
        raise UsageError(f"A profile of {name} holds no measured peak; run `probe measure` to its end there.")
    return "bf16" if "bf16" in measured else measured[0]
