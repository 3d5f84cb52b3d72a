"""``probe export`` as a process: rules and dashboard on stdout or in a file, mistakes in one sentence."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

PROFILE = str(Path(__file__).parents[2] / "fixtures" / "profiles" / "h200-reference.json")


def export(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from roofline_probe.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", code, "export", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_rules_are_alone_on_stdout_and_rest_on_the_profile() -> None:
    done = export("prometheus", PROFILE)

    assert (done.returncode, done.stderr) == (0, "")
    groups = {group["name"]: group["rules"] for group in yaml.safe_load(done.stdout)["groups"]}
    assert list(groups) == ["probe NVIDIA H200", "probe alerts"]
    pi = next(rule for rule in groups["probe NVIDIA H200"] if rule.get("record") == "probe:pi_flops")
    assert pi["expr"] == "vector(6.83e+14)"


def test_rules_in_a_file_pass_promtool(tmp_path: Path) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not here; it comes with Debian's prometheus package")
    path = tmp_path / "probe.rules.yml"
    options = ("--model", "llama-3.1-8b", "--tp", "2", "--window", "5m", "--alert-below", "0.4")

    done = export("prometheus", PROFILE, *options, "-o", str(path))

    assert (done.returncode, done.stdout) == (0, "")
    assert "name it under rule_files" in done.stderr
    checked = subprocess.run(["promtool", "check", "rules", str(path)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "[5m]" in path.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["prometheus", "no-such-card"], "no profile no-such-card", id="unknown-profile"),
        pytest.param(["prometheus", PROFILE, "--window", "90"], "not a Prometheus duration", id="window"),
        pytest.param(["prometheus", PROFILE, "--label", "a-b"], "not a Prometheus label", id="label"),
        pytest.param(["prometheus", PROFILE, "--dtype", "int3"], "no measured peak for int3", id="dtype"),
        pytest.param(["prometheus", PROFILE, "--model", "gpt-9"], "gpt-9", id="model"),
        pytest.param(
            ["prometheus", PROFILE, "--model", "llama-3.1-8b", "--tp", "3"], "--tp 3 does not divide", id="tp"
        ),
        pytest.param(["prometheus", PROFILE, "-o", "/no/such/folder/x.yml"], "could not be written", id="output"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_2(arguments: list[str], words: str) -> None:
    done = export(*arguments)

    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


def test_dashboard_asks_only_for_what_the_rules_record() -> None:
    pytest.importorskip("grafana_foundation_sdk", reason="needs grafana-foundation-sdk (Python 3.11 or later)")
    board = json.loads(export("grafana", "--title", "Ours").stdout)
    rules = yaml.safe_load(export("prometheus", PROFILE, "--model", "llama-3.1-8b").stdout)
    recorded = {rule["record"] for group in rules["groups"] for rule in group["rules"] if "record" in rule}

    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    asked = {word for query in queries for word in recorded if word in query}

    assert board["title"] == "Ours"
    assert all(any(name in query for name in recorded) for query in queries)
    assert asked == recorded


def test_every_panel_of_the_dashboard_has_its_place() -> None:
    pytest.importorskip("grafana_foundation_sdk", reason="needs grafana-foundation-sdk (Python 3.11 or later)")
    panels = json.loads(export("grafana").stdout)["panels"]

    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells)), "panels overlap"
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)
