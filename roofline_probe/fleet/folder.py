"""A folder of profiles: the measured cards side by side, and which of them lag behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from roofline_probe import plain_json, store
from roofline_probe.errors import UsageError
from roofline_probe.fleet.spread import stragglers
from roofline_probe.profile import Profile

_PARTIAL = ".partial.json"


CardKey = tuple[Path, int | None]
"""What tells a card of a folder from every other one."""


@dataclass(frozen=True, slots=True)
class Card:
    """One measured card. TFLOP/s, GB/s; None where not measured."""

    path: Path
    index: int | None
    """Which card of a machine's profile; None where the profile is one card's."""
    profile: Profile
    """Of this card alone."""
    dtype: str | None
    """The dtype of both peaks."""
    burst_tflops: float | None
    sustained_tflops: float | None
    beta_gbps: float | None
    read_beta_gbps: float | None

    @property
    def key(self) -> CardKey:
        """The file, and the card in it."""
        return self.path, self.index


FIGURES: dict[str, Callable[[Card], float | None]] = {
    "burst pi": lambda card: card.burst_tflops,
    "sustained pi": lambda card: card.sustained_tflops,
    "beta": lambda card: card.beta_gbps,
    "read beta": lambda card: card.read_beta_gbps,
}


@dataclass(frozen=True, slots=True)
class CardFolder:
    """All profiles of a folder."""

    folder: Path
    cards: list[Card]
    problems: list[str] = field(default_factory=list)
    """Sentences about files that are no profiles: named, and passed over."""
    profiles: list[Profile] = field(default_factory=list)
    """As stored: a machine's is one."""
    repeats: list[tuple[Card, Card]] = field(default_factory=list)
    """(left out, counted in its place): two measurements of one card."""

    def lagging(self) -> dict[CardKey, list[str]]:
        """Card -> the figures in which it is below 97 % of the median of its own model's cards."""
        found: dict[CardKey, list[str]] = {}
        for peers in self.by_model().values():
            for name, figure in FIGURES.items():
                values = {card.key: value for card in peers if (value := figure(card)) is not None}
                for key in stragglers(values):
                    found.setdefault(key, []).append(name)
        return found

    def by_model(self) -> dict[tuple[str, str | None, bool], list[Card]]:
        """Cards by (device name, dtype, quick): quick runs are shorter and are compared among themselves."""
        groups: dict[tuple[str, str | None, bool], list[Card]] = {}
        for card in self.cards:
            groups.setdefault((card.profile.device.name, card.dtype, card.profile.quick), []).append(card)
        return groups


def read_folder(folder: Path, dtype: str | None = None) -> CardFolder:
    """Every card of every profile in ``folder``, by name; unfinished ones (``*.partial.json``) are left out.

    Raises:
        UsageError: no profile there.
    """
    cards: list[Card] = []
    problems: list[str] = []
    profiles: list[Profile] = []
    for path in sorted(folder.glob("*.json")):
        if path.name.endswith(_PARTIAL):
            continue
        try:
            profile = store.load(str(path))[0]
        except UsageError as error:
            problems.append(str(error))
            continue
        profiles.append(profile)
        cards += cards_of(path, profile, dtype)
    if not cards:
        raise UsageError(
            f"There is no profile in the folder {folder}; write one with `probe measure --profile {folder}/NAME.json`."
        )
    counted, repeats = _each_once(cards)
    return CardFolder(folder, counted, problems, profiles, repeats)


def _each_once(cards: Sequence[Card]) -> tuple[list[Card], list[tuple[Card, Card]]]:
    """Of several measurements of one card (alone, and in its machine's profile) the fullest, then the newest counts.
    Only a uuid tells that it is one card; the slots of two machines have the same numbers."""
    best: dict[_Identity, Card] = {}
    for card in cards:
        if card.profile.device.uuid is not None:
            best[_identity(card)] = max(best.get(_identity(card), card), card, key=_worth)
    kept = [card for card in cards if best.get(_identity(card), card) is card]
    return kept, [(card, best[_identity(card)]) for card in cards if best.get(_identity(card), card) is not card]


_Identity = tuple[str | None, str, str | None, bool]


def _identity(card: Card) -> _Identity:
    device = card.profile.device
    return device.uuid, device.name, card.dtype, card.profile.quick


def _worth(card: Card) -> tuple[int, str]:
    return sum(figure(card) is not None for figure in FIGURES.values()), card.profile.created


def cards_of(path: Path, profile: Profile, dtype: str | None = None) -> list[Card]:
    """The rows of one profile, a machine's cards each alone; bf16 where it was measured, else its first dtype."""
    if not profile.parts:
        return [_card(path, None, profile, dtype)]
    return [_card(path, part.device.index, part, dtype) for part in profile.parts]


def _card(path: Path, index: int | None, profile: Profile, dtype: str | None) -> Card:
    chosen = dtype or ("bf16" if "bf16" in profile.dtypes else next(iter(profile.dtypes), None))
    return Card(
        path=path,
        index=index,
        profile=profile,
        dtype=chosen,
        burst_tflops=profile.pi_tflops(chosen, "burst") if chosen else None,
        sustained_tflops=profile.pi_tflops(chosen, "sustained") if chosen else None,
        beta_gbps=profile.beta_gbps,
        read_beta_gbps=profile.read_beta_gbps,
    )


def medians(cards: Sequence[Card]) -> dict[str, float | None]:
    """The median of each figure over cards that have it."""
    return {
        name: median(values) if (values := [v for card in cards if (v := figure(card)) is not None]) else None
        for name, figure in FIGURES.items()
    }


def to_json(found: CardFolder) -> bytes:
    """The table as one JSON object: ``cards`` with their figures and ``lags``, ``problems``."""
    lagging = found.lagging()
    cards = [
        {
            "path": str(card.path),
            "card": card.index,
            "device": card.profile.device,
            "created": card.profile.created,
            "quick": card.profile.quick,
            "complete": card.profile.complete,
            "dtype": card.dtype,
            "burst_tflops": card.burst_tflops,
            "sustained_tflops": card.sustained_tflops,
            "beta_gbps": card.beta_gbps,
            "read_beta_gbps": card.read_beta_gbps,
            "lags": lagging.get(card.key, []),
        }
        for card in found.cards
    ]
    repeats = [{"path": str(out.path), "card": out.index, "counted": str(kept.path)} for out, kept in found.repeats]
    return plain_json.document({"cards": cards, "repeats": repeats, "problems": found.problems})
