"""``roofline_probe.compare``: the command as a library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import roofline_probe
from roofline_probe.errors import NoRoof, NothingUsable, UsageError

FIXTURES = Path(__file__).parents[2] / "fixtures"
LOG = FIXTURES / "logs" / "vllm" / "0.24.0-h200-graph-1s.log"
PROFILE = FIXTURES / "profiles" / "h200-reference.json"


@pytest.fixture(autouse=True)
def no_stored_profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))


def test_one_call_gives_summary_findings_and_steps() -> None:
    result = roofline_probe.compare(LOG, PROFILE)
    assert [row.kind for row in result.summary.kinds] == ["decode", "mixed", "prefill"]
    assert result.findings[0].code == "bound"
    assert len(result.steps) == result.summary.steps == len(result.points)


def test_steps_table_agrees_with_the_summary() -> None:
    frame = roofline_probe.compare(str(LOG), str(PROFILE)).steps
    steady = frame[(frame.status == "steady") & (frame.kind == "decode")]
    assert steady.attained_fraction.between(0.7, 1.0).all()
    assert frame.loc[frame.status == "idle", "tflops"].isna().all()


def test_points_can_be_streamed_instead_of_kept() -> None:
    seen: list[object] = []
    result = roofline_probe.compare(LOG, PROFILE, keep_points=False, sink=seen.append)
    assert result.points == []
    assert len(seen) == result.summary.steps


def test_rotated_parts_are_read_as_one_run(tmp_path: Path) -> None:
    lines = LOG.read_bytes().splitlines(keepends=True)
    older, newer = tmp_path / "server.log.1", tmp_path / "server.log"
    older.write_bytes(b"".join(lines[:200]))
    newer.write_bytes(b"".join(lines[200:]))
    once = roofline_probe.compare(LOG, PROFILE)
    parts = roofline_probe.compare([older, newer], PROFILE)
    assert parts.summary.steps == once.summary.steps
    assert {point.step.source for point in parts.points} == {str(older), str(newer)}


def test_mistakes_are_raised_with_the_sentence_of_the_command(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nope\.log"):
        roofline_probe.compare("nope.log", PROFILE)
    with pytest.raises(UsageError, match="roof 'x'"):
        roofline_probe.compare(LOG, PROFILE, roof="x")
    (tmp_path / "empty.log").touch()
    with pytest.raises(NothingUsable, match="empty"):
        roofline_probe.compare(tmp_path / "empty.log", PROFILE)


def test_datasheet_of_a_named_card_needs_no_profile() -> None:
    result = roofline_probe.compare(LOG, "NVIDIA H200", roof="datasheet")
    assert (result.roof.origin, result.roof.pi_tflops, result.profile) == ("datasheet", 989.4, None)


def test_unknown_card_is_refused_also_for_its_datasheet() -> None:
    with pytest.raises(UsageError, match="voodoo"):
        roofline_probe.compare(LOG, "voodoo", roof="datasheet")


def test_nothing_measured_and_nothing_named_is_no_roof() -> None:
    with pytest.raises(NoRoof, match="probe measure"):
        roofline_probe.compare(LOG)


def test_importing_the_package_loads_no_command_line_and_no_pandas() -> None:
    code = "import sys, roofline_probe; print([m for m in ('typer', 'rich', 'pandas', 'msgspec') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
