"""``probe show``: stored and shipped profiles again."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


def test_a_profile_is_shown_with_its_kpi_table(probe: Run, h200: Path) -> None:
    shown = probe("show", h200).stdout.decode()
    assert "NVIDIA H200" in shown
    assert "decode floor" in shown
    assert "ridge" in shown


def test_the_newest_stored_profile_is_shown_without_a_name(probe: Run, h200: Path, environment: dict[str, str]) -> None:
    folder = Path(environment["XDG_DATA_HOME"]) / "roofline-probe" / "profiles"
    folder.mkdir(parents=True)
    (folder / "my-card.json").write_bytes(h200.read_bytes())
    result = probe("show")
    assert result.returncode == 0
    assert b"NVIDIA H200" in result.stdout


def test_json_is_the_document_itself(probe: Run, h200: Path) -> None:
    result = probe("show", h200, "--json", "-")
    assert json.loads(result.stdout)["device"]["name"] == "NVIDIA H200"


def test_nothing_stored_is_exit_4_with_the_way_out(probe: Run) -> None:
    result = probe("show")
    assert result.returncode == 4
    assert b"probe measure" in result.stderr


def test_unknown_name_is_exit_2(probe: Run) -> None:
    result = probe("show", "nothing-of-that-name")
    assert result.returncode == 2
    assert b"nothing-of-that-name" in result.stderr


def test_a_shipped_profile_is_not_called_saved_and_a_file_of_its_name_is(probe: Run, h200: Path) -> None:
    assert b"shipped profile  h200" in probe("show", "h200").stdout
    assert b"saved  " in probe("show", h200).stdout


def test_a_folder_has_no_picture_and_says_so(probe: Run, tmp_path: Path, h200: Path) -> None:
    (tmp_path / "cards").mkdir()
    (tmp_path / "cards" / "one.json").write_bytes(h200.read_bytes())
    result = probe("show", "cards", "--plot", "cards.svg")
    assert (result.returncode, result.stdout, result.stderr.count(b"\n")) == (2, b"", 1)
    assert b"--plot" in result.stderr


def test_what_is_piped_ends_where_its_text_ends(probe: Run, h200: Path) -> None:
    lines = probe("show", h200).stdout.decode().splitlines()
    assert [line for line in lines if line.endswith(" ")] == []
