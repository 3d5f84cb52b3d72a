"""The built wheel in an empty environment, without extras: what a person gets from ``pip install``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COMMANDS = sorted(p.stem for p in (ROOT / "roofline_probe" / "cli").glob("*.py") if not p.stem.startswith("_"))
LOG = ROOT / "fixtures" / "logs" / "vllm" / "0.24.0-h200-graph-1s.log"
PROFILE = ROOT / "fixtures" / "profiles" / "h200-reference.json"

pytestmark = pytest.mark.slow


def run(command: Sequence[str | Path], **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(command), capture_output=True, text=True, check=False, timeout=300, **options)  # type: ignore[call-overload,no-any-return]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    built = run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT])
    assert built.returncode == 0, built.stdout + built.stderr
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of scripts of an environment that holds the wheel and what it depends on, nothing else."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=True)
    scripts = folder / "bin"
    pip = [scripts / "python", "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    reachable = run([*pip, "--dry-run", "--no-deps", "--ignore-installed", "rich"])
    if reachable.returncode != 0:
        pytest.skip(f"no package index can be reached: {reachable.stderr.strip().splitlines()[-1:]}")
    result = run([*pip, wheel])
    assert result.returncode == 0, result.stderr
    return scripts


@pytest.fixture
def clean_environment(tmp_path: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "XDG"))}
    return {**kept, "HOME": str(tmp_path), "COLUMNS": "100"}


def test_wheel_carries_its_data_and_nothing_of_the_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {"roofline_probe/datasheet.csv", "roofline_probe/py.typed", "log_parsers/py.typed"} <= set(names)
    assert any(name.startswith("roofline_probe/profiles/") and name.endswith(".json") for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"roofline_probe", "log_parsers"}


def test_nothing_heavy_is_installed_without_extras(installed: Path) -> None:
    heavy = ("torch", "numpy", "pandas", "altair", "dask")
    code = f"import importlib.util as u; print([m for m in {heavy} if u.find_spec(m)])"
    assert run([installed / "python", "-c", code]).stdout == "[]\n"


@pytest.mark.parametrize("command", [None, *COMMANDS], ids=lambda c: c or "probe")
def test_help_works_without_extras(installed: Path, clean_environment: dict[str, str], command: str | None) -> None:
    result = run([installed / "probe", *([command] if command else []), "--help"], env=clean_environment)
    assert result.returncode == 0, result.stderr
    assert "Usage" in result.stdout


@pytest.mark.parametrize("script", ["probe", "roofline-probe"])
def test_a_log_is_compared_without_extras(
    installed: Path, clean_environment: dict[str, str], script: str, tmp_path: Path
) -> None:
    command = [installed / script, "compare", LOG, "--profile", PROFILE, "--json", tmp_path / "out.json"]
    result = run(command, env=clean_environment)
    assert (result.returncode, result.stderr) == (0, "")
    assert "attained" in result.stdout
    assert json.loads((tmp_path / "out.json").read_bytes())["summary"]["steps"] > 100


def test_a_shipped_profile_is_found_by_name(installed: Path, clean_environment: dict[str, str]) -> None:
    listed = zipped_profiles(installed)
    assert listed
    result = run([installed / "probe", "show", listed[0], "--no-sweeps"], env=clean_environment)
    assert result.returncode == 0, result.stderr


def zipped_profiles(installed: Path) -> list[str]:
    code = "from roofline_probe import store; print(*store.shipped())"
    return run([installed / "python", "-c", code]).stdout.split()


def test_measuring_without_torch_says_how_to_get_it(installed: Path, clean_environment: dict[str, str]) -> None:
    result = run([installed / "probe", "measure", "--quick"], env=clean_environment)
    assert result.returncode == 2
    assert "roofline-probe[measure]" in result.stderr
    assert result.stderr.count("\n") == 1


def test_pictures_without_the_plot_extra_say_how_to_get_it(
    installed: Path, clean_environment: dict[str, str], tmp_path: Path
) -> None:
    result = run(
        [installed / "probe", "compare", LOG, "--profile", PROFILE, "--plot", tmp_path / "x.svg"], env=clean_environment
    )
    assert result.returncode == 2
    assert "roofline-probe[plot]" in result.stderr
