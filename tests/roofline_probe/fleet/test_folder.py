"""A folder of profiles: many cards never clobber each other, and those that lag are named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from roofline_probe import profile_file, store
from roofline_probe.errors import UsageError
from roofline_probe.fleet.folder import read_folder, to_json
from roofline_probe.fleet.roofs import card_roofs, load_profiles
from roofline_probe.fleet.rules import _measured
from roofline_probe.profile import Profile
from roofline_probe.report.console import make_console
from roofline_probe.report.fleet_view import print_cards

MakeProfile = Callable[..., Profile]


@pytest.fixture
def folder(tmp_path: Path, make_profile: MakeProfile) -> Path:
    """Eight H200s, the sixth power-limited, and one H100."""
    for index, pi in enumerate((683.0, 681.0, 684.0, 680.0, 682.0, 640.0, 679.0, 683.0)):
        profile_file.save(make_profile("NVIDIA H200", pi=pi, index=index), tmp_path / f"h200-{index}.json")
    profile_file.save(make_profile("NVIDIA H100", pi=600.0), tmp_path / "h100.json")
    return tmp_path


def test_the_card_below_97_percent_is_named_with_what_it_lags_in(folder: Path) -> None:
    assert read_folder(folder).lagging() == {(folder / "h200-5.json", None): ["sustained pi"]}


def test_another_card_model_is_not_compared_with(folder: Path) -> None:
    found = read_folder(folder)

    assert [(name, len(cards)) for (name, _, _), cards in found.by_model().items()] == [
        ("NVIDIA H100", 1),
        ("NVIDIA H200", 8),
    ]


def test_quick_runs_are_compared_among_themselves(folder: Path, make_profile: MakeProfile) -> None:
    quick = msgspec.structs.replace(make_profile("NVIDIA H200", pi=500.0), quick=True)
    profile_file.save(quick, folder / "h200-0.quick.json")

    assert (folder / "h200-0.quick.json", None) not in read_folder(folder).lagging()


@pytest.fixture
def machine(tmp_path: Path, make_profile: MakeProfile) -> Path:
    """Four H200s in one profile, the third power-limited; with all running each reaches less."""
    parts = [make_profile("NVIDIA H200", pi=pi, index=i) for i, pi in enumerate((683.0, 681.0, 640.0, 684.0))]
    whole = msgspec.structs.replace(make_profile("NVIDIA H200", pi=630.0, index=2), parts=parts)
    profile_file.save(whole, tmp_path / "machine.json")
    return tmp_path


def test_every_card_of_a_machine_is_a_row_with_its_own_figures(machine: Path) -> None:
    found = read_folder(machine)

    assert [(card.index, card.sustained_tflops) for card in found.cards] == [(0, 683), (1, 681), (2, 640), (3, 684)]
    assert found.lagging() == {(machine / "machine.json", 2): ["sustained pi"]}


def test_view_names_the_straggler_of_a_machine_and_says_what_its_figures_are(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_cards(read_folder(machine), make_console(width=80))

    shown = " ".join(capsys.readouterr().out.split())
    assert "4 measured cards" in shown
    assert "machine card 2 lags in sustained pi" in shown
    assert "each was measured alone" in shown
    assert "630" not in shown


def test_only_machines_need_to_be_told_that_their_cards_were_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_cards(read_folder(folder), make_console(width=80))

    assert "measured alone" not in capsys.readouterr().out


def test_json_names_the_card_of_a_machine(machine: Path, make_profile: MakeProfile) -> None:
    profile_file.save(make_profile("NVIDIA H100"), machine / "h100.json")

    cards = json.loads(to_json(read_folder(machine)))["cards"]

    assert [card["card"] for card in cards] == [None, 0, 1, 2, 3]
    assert [card["lags"] for card in cards] == [[], [], [], ["sustained pi"], []]


def test_a_machines_roof_is_that_of_its_slowest_card_with_all_running(machine: Path) -> None:
    for name in (machine, machine / "machine.json"):
        (roof,) = card_roofs(load_profiles([str(name)]))
        assert (roof.pi_flops, roof.cards, roof.together, roof.machines) == (630e12, 4, 4, 1)
        assert _measured(roof) == "slowest of 4 measured cards with all running, 2026-11-29"


def test_a_card_stored_alone_and_in_its_machines_profile_counts_once(
    machine: Path, make_profile: MakeProfile, capsys: pytest.CaptureFixture[str]
) -> None:
    profile_file.save(make_profile("NVIDIA H200", pi=683.5, index=0), machine / "alone.json")

    found = read_folder(machine)

    assert len(found.cards) == 4
    (roof,) = card_roofs(load_profiles([str(machine)]))
    assert (roof.pi_flops, roof.cards) == (630e12, 4)
    print_cards(found, make_console(width=120))
    assert "is a second measurement of the card in" in capsys.readouterr().out


def test_a_card_of_another_machine_is_counted_beside_a_machine(machine: Path, make_profile: MakeProfile) -> None:
    profile_file.save(make_profile("NVIDIA H200", pi=683.5, index=9), machine / "other.json")

    (roof,) = card_roofs(load_profiles([str(machine)]))

    assert (roof.pi_flops, roof.cards, roof.together) == (630e12, 5, 4)
    assert _measured(roof).startswith("median of 5 measured cards, 4 of them with all running")


def test_cards_without_a_uuid_are_never_taken_for_one(machine: Path, make_profile: MakeProfile) -> None:
    for name in ("a", "b"):
        card = make_profile("NVIDIA H100")
        nameless = msgspec.structs.replace(card, device=msgspec.structs.replace(card.device, uuid=None))
        profile_file.save(nameless, machine / f"{name}.json")

    assert len(read_folder(machine).cards) == 6
    assert [roof.cards for roof in card_roofs(load_profiles([str(machine)]))] == [2, 4]


def test_unfinished_and_damaged_files_do_not_hide_the_others(folder: Path) -> None:
    (folder / "h200-9.partial.json").write_text("{}")
    (folder / "notes.json").write_text("{")

    found = read_folder(folder)

    assert len(found.cards) == 9
    assert len(found.problems) == 1
    assert "notes.json" in found.problems[0]


def test_a_damaged_profile_is_an_error_where_its_figures_are_needed(folder: Path) -> None:
    (folder / "notes.json").write_text("{")

    with pytest.raises(UsageError, match=r"notes\.json"):
        load_profiles([str(folder)])


def test_folder_without_a_profile_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="write one with `probe measure"):
        read_folder(tmp_path)


def test_eight_cards_of_one_machine_get_eight_files(
    make_profile: MakeProfile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(store, "data_folder", lambda: tmp_path)
    profiles = [make_profile("NVIDIA H200", index=index) for index in range(8)]

    for profile in profiles:
        profile_file.save(profile, store.path_for(profile.device))

    assert len(read_folder(tmp_path).cards) == 8


@pytest.mark.parametrize("width", [80, 140])
def test_view_names_the_straggler_and_fits(folder: Path, width: int, capsys: pytest.CaptureFixture[str]) -> None:
    print_cards(read_folder(folder), make_console(width=width))

    shown = capsys.readouterr().out
    (line,) = [line for line in shown.splitlines() if "h200-5 " in line and "straggler" in line]
    assert "640" in line
    assert "h200-5 lags in sustained pi" in shown
    assert max(map(len, shown.splitlines())) <= width


def test_json_holds_figures_and_lags(folder: Path) -> None:
    cards = {card["path"]: card for card in json.loads(to_json(read_folder(folder)))["cards"]}

    assert cards[str(folder / "h200-5.json")]["lags"] == ["sustained pi"]
    assert cards[str(folder / "h200-0.json")]["sustained_tflops"] == 683.0
