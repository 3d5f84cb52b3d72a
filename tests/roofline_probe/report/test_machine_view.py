"""Several cards and their link on a terminal, from a profile that two H200s gave."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec

from roofline_probe import profile_file
from roofline_probe.profile import Profile
from roofline_probe.report.console import make_console
from roofline_probe.report.machine_view import print_machine

TWO_CARDS = Path(__file__).parents[3] / "fixtures" / "profiles" / "2xh200.json"


def drawn(profile: Profile, width: int = 100) -> str:
    out = io.StringIO()
    print_machine(profile, make_console(out, width, color=False))
    return out.getvalue()


def two_cards() -> Profile:
    return profile_file.decode(TWO_CARDS.read_bytes(), "two cards")


def test_every_card_has_a_row_and_the_last_one_is_all_running() -> None:
    lines = drawn(two_cards()).splitlines()
    assert any(line.split()[:2] == ["0", "852"] for line in lines)
    assert any(line.split()[:2] == ["1", "847"] for line in lines)
    assert any(line.strip().startswith("0, all running") for line in lines)


def test_the_link_shows_time_and_bus_bandwidth_by_message_size() -> None:
    shown = drawn(two_cards())
    assert "nccl, NVLink, 18 links a card" in shown
    row = next(line.split() for line in shown.splitlines() if line.strip().startswith("1 GiB"))
    assert row == ["1", "GiB", "3,258.9", "329.5", "2,036.5", "263.6", "2,926.3", "366.9"]


def test_the_link_table_fits_80_columns_with_nothing_cut() -> None:
    shown = drawn(msgspec.structs.replace(two_cards(), parts=[]), width=80)
    assert "…" not in shown
    assert "256 MiB" in shown


def test_what_was_not_measured_is_a_dash() -> None:
    profile = two_cards()
    link = profile.link
    assert link is not None
    some = [p for p in link.points if p.collective != "all_gather" or p.message_bytes > 1 << 20]
    row = next(
        line.split()
        for line in drawn(
            msgspec.structs.replace(profile, link=msgspec.structs.replace(link, points=some))
        ).splitlines()
        if line.strip().startswith("8 KiB")
    )
    assert row == ["8", "KiB", "12.2", "0.7", "–", "–", "35.6", "0.2"]


def test_one_card_without_a_link_draws_nothing() -> None:
    assert drawn(msgspec.structs.replace(two_cards(), parts=[], link=None)) == ""


def test_the_link_says_which_times_hold_a_launch() -> None:
    shown = " ".join(drawn(two_cards()).split())
    assert "all reduce and all gather up to 16 MiB inside a CUDA graph" in shown
    link = two_cards().link
    assert link is not None
    host = [msgspec.structs.replace(p, timer="host") for p in link.points]
    alike = msgspec.structs.replace(two_cards(), link=msgspec.structs.replace(link, points=host))
    assert "CUDA graph" not in drawn(alike)
