"""``probe compare --cluster`` and ``probe show FOLDER`` as processes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from roofline_probe.cli._cluster import with_value

FIXTURES = Path(__file__).parents[2] / "fixtures"
PROFILE = str(FIXTURES / "profiles" / "h200-reference.json")
LOG = FIXTURES / "logs/vllm/0.24.0-h200-steady-10s.log"


def probe(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from roofline_probe.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize(
    ("given", "understood"),
    [
        pytest.param(["a.log", "--cluster"], ["a.log", "--cluster=local"], id="last"),
        pytest.param(["--cluster", "a.log"], ["--cluster=local", "a.log"], id="before-a-log"),
        pytest.param(["--cluster", "--json", "-"], ["--cluster=local", "--json", "-"], id="before-a-flag"),
        pytest.param(["--cluster", "tcp://h:8786", "a.log"], ["--cluster", "tcp://h:8786", "a.log"], id="address"),
        pytest.param(["--cluster=h:8786"], ["--cluster=h:8786"], id="equals-sign"),
        pytest.param(["a.log"], ["a.log"], id="not-given"),
    ],
)
def test_cluster_takes_an_address_but_never_a_log(given: list[str], understood: list[str]) -> None:
    assert with_value(given) == understood


def test_cluster_writes_json_alone_and_names_the_bad_file_on_stderr(tmp_path: Path) -> None:
    shutil.copy(LOG, tmp_path / "good.log")
    (tmp_path / "bad.log").write_text("nothing\n")

    done = probe("compare", str(tmp_path / "*.log"), "--cluster", "--profile", PROFILE, "--json", "-")

    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["kinds"]["decode"]["distribution"]["count"] == 1
    assert document["cluster"]["start_s"] > 0
    (complaint,) = done.stderr.strip().splitlines()
    assert "bad.log" in complaint


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        pytest.param(["nowhere/*.log"], 2, "No such file", id="no-match"),
        pytest.param([str(LOG), "--fail-under", "decode=80"], 2, "--fail-under is about one run", id="gate"),
        pytest.param([str(LOG), "--plot", "x.png"], 2, "--plot is about one run", id="plot"),
        pytest.param([str(LOG), "--json", "-", "--csv", "-"], 2, "cannot share standard output", id="two-on-stdout"),
    ],
)
def test_mistakes_with_cluster_are_one_sentence(arguments: list[str], code: int, words: str) -> None:
    done = probe("compare", *arguments, "--cluster", "--profile", PROFILE)

    assert done.returncode == code
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_single_log_never_loads_dask() -> None:
    code = (
        "import sys; from roofline_probe.cli import main; "
        f"main(['compare', {str(LOG)!r}, '--profile', {PROFILE!r}, '--json', '/dev/null', '-q']); "
        "print([m for m in ('dask', 'distributed', 'fsspec', 'prometheus_client') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.strip() == "[]"


def test_show_a_folder_is_the_table_of_its_cards(tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copy(PROFILE, tmp_path / f"{name}.json")

    shown, data = probe("show", str(tmp_path)), probe("show", str(tmp_path), "--json", "-")

    assert shown.returncode == 0, shown.stderr
    assert "2 measured cards" in shown.stdout
    assert [Path(card["path"]).stem for card in json.loads(data.stdout)["cards"]] == ["one", "two"]


def test_show_an_empty_folder_says_what_to_do(tmp_path: Path) -> None:
    done = probe("show", str(tmp_path))

    assert done.returncode == 2
    assert "There is no profile in the folder" in done.stderr
