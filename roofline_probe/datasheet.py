"""Published peaks by device name: dense figures only, matched on whole tokens, and no guess for a card not listed.

``datasheet.csv`` holds the cards whose vendor document was read. A name matches a row when it holds all of the row's
``tokens`` and none of its ``without``: "A10" is not "A100", and "H100" alone does not tell SXM from PCIe, so that it
matches nothing.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from roofline_probe.errors import UsageError
from roofline_probe.profile import Datasheet

GIVEN = "given on the command line"
_SIXTEEN_BIT = ("bf16", "fp16")
# A slice of a card has a part of its units, so the whole card's figures are not its own.
_SLICE = "mig"


@dataclass(frozen=True, slots=True)
class Card:
    """One row: dense TFLOP/s by dtype, GB/s, and the 2:4-sparse headline that is not to be taken for a 16-bit peak."""

    name: str
    tokens: frozenset[str]
    without: frozenset[str]
    tflops: Mapping[str, float]
    gbps: float
    sparse_16bit_tflops: float | None
    source: str

    def matches(self, tokens: frozenset[str]) -> bool:
        """Whether a device name of these tokens is this card."""
        return self.tokens <= tokens and not self.without & tokens and _SLICE not in tokens

    def datasheet(self) -> Datasheet:
        """The row as it goes into a profile."""
        return Datasheet(card=self.name, tflops=dict(self.tflops), gbps=self.gbps, source=self.source)


@cache
def cards() -> tuple[Card, ...]:
    """Every listed card."""
    text = (files("roofline_probe") / "datasheet.csv").read_text(encoding="utf-8")
    return tuple(_card(row) for row in csv.DictReader(text.splitlines()))


def find_card(device_name: str) -> Card | None:
    """The listed card of that name; None if it is not listed or the name does not tell which variant it is.

    Where two rows match, the more specific one is meant ("H200 NVL" also holds the token "H200").
    """
    tokens = frozenset(re.findall(r"[a-z0-9]+", device_name.lower()))
    matches = [card for card in cards() if card.matches(tokens)]
    return max(matches, key=lambda card: len(card.tokens), default=None)


def find(device_name: str) -> Datasheet | None:
    """Published peaks of the device, or None."""
    card = find_card(device_name)
    return card.datasheet() if card else None


def named(name: str) -> Datasheet | None:
    """Published peaks of the card that somebody typed the name of: ``h100 sxm``, ``4090``, or as the driver says it.

    None where no card fits, several do, or no word names a model (``h100`` does, ``h`` does not).
    """
    typed = re.findall(r"[a-z0-9]+", name.lower())
    if not any(re.fullmatch(r"(?=.*\d)\w{3,}|t4|v100", word) for word in typed):
        return None

    def fits(card: Card) -> bool:
        tokens = re.findall(r"[a-z0-9]+", card.name.lower())
        return all(any(token.startswith(word) for token in tokens) for word in typed)

    fitting = [card for card in cards() if typed and fits(card)]
    return fitting[0].datasheet() if len(fitting) == 1 else find(name)


def with_given(
    device_name: str, peak_tflops: Mapping[str, float], peak_gbps: float | None
) -> tuple[Datasheet | None, Card | None]:
    """Published peaks with ``--peak-tflops`` (by dtype) and ``--peak-gbps`` in place of the listed ones.

    Raises:
        UsageError: a 16-bit figure is the card's 2:4-sparse headline.
    """
    card = find_card(device_name)
    for dtype, tflops in peak_tflops.items():
        _refuse_sparse(card, dtype, tflops)
    if not peak_tflops and peak_gbps is None:
        return (card.datasheet() if card else None), card
    listed = card.datasheet() if card else Datasheet(card=device_name)
    return (
        Datasheet(
            card=listed.card,
            tflops={**listed.tflops, **peak_tflops},
            gbps=listed.gbps if peak_gbps is None else peak_gbps,
            source=GIVEN if card is None else f"{GIVEN}; the rest: {listed.source}",
        ),
        card,
    )


def _refuse_sparse(card: Card | None, dtype: str, tflops: float) -> None:
    if card is None or card.sparse_16bit_tflops is None or dtype not in _SIXTEEN_BIT:
        return
    if abs(tflops / card.sparse_16bit_tflops - 1) < 0.005:
        raise UsageError(
            f"--peak-tflops {tflops:g} is the {card.name}'s figure with 2:4 sparsity, which skips half of the "
            f"multiplications and which no dense {dtype} product can reach; "
            f"give the dense {card.tflops[dtype]:g} or leave it out."
        )


def _card(row: Mapping[str, str]) -> Card:
    dtypes = ("bf16", "fp16", "fp8")
    return Card(
        name=row["card"],
        tokens=frozenset(row["tokens"].split()),
        without=frozenset(row["without"].split()),
        tflops={dtype: float(row[dtype]) for dtype in dtypes if row[dtype]},
        gbps=float(row["gbps"]),
        sparse_16bit_tflops=float(row["sparse_16bit"]) if row["sparse_16bit"] else None,
        source=row["source"],
    )
