"""A folder of profiles: many cards never clobber each other, and those that lag are named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from roofline_probe import profile as document
from roofline_probe import store
from roofline_probe.errors import UsageError
from roofline_probe.fleet.folder import read_folder, to_json
from roofline_probe.fleet.roofs import load_profiles
from roofline_probe.profile import Profile
from roofline_probe.report.console import make_console
from roofline_probe.report.fleet_view import print_cards

MakeProfile = Callable[..., Profile]


@pytest.fixture
def folder(tmp_path: Path, make_profile: MakeProfile) -> Path:
    """Eight H200s, the sixth power-limited, and one H100."""
    for index, pi in enumerate((683.0, 681.0, 684.0, 680.0, 682.0, 640.0, 679.0, 683.0)):
        document.save(make_profile("NVIDIA H200", pi=pi, index=index), tmp_path / f"h200-{index}.json")
    document.save(make_profile("NVIDIA H100", pi=600.0), tmp_path / "h100.json")
    return tmp_path


def test_the_card_below_97_percent_is_named_with_what_it_lags_in(folder: Path) -> None:
    assert read_folder(folder).lagging() == {folder / "h200-5.json": ["sustained pi"]}


def test_another_card_model_is_not_compared_with(folder: Path) -> None:
    found = read_folder(folder)

    assert [(name, len(cards)) for (name, _, _), cards in found.by_model().items()] == [
        ("NVIDIA H100", 1),
        ("NVIDIA H200", 8),
    ]


def test_quick_runs_are_compared_among_themselves(folder: Path, make_profile: MakeProfile) -> None:
    quick = msgspec.structs.replace(make_profile("NVIDIA H200", pi=500.0), quick=True)
    document.save(quick, folder / "h200-0.quick.json")

    assert folder / "h200-0.quick.json" not in read_folder(folder).lagging()


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
        document.save(profile, store.path_for(profile.device))

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
