"""``probe plan`` as a process: answers, refusals, the JSON contract."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[2] / "fixtures"
PROFILE = str(FIXTURES / "profiles" / "h200-reference.json")
LOG = str(FIXTURES / "logs/vllm/0.24.0-h200-graph-1s.log")


def plan(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from roofline_probe.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-c", code, "plan", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_one_step_in_words() -> None:
    done = plan(LOG, "--profile", PROFILE, "--batch", "64", "--context", "4000")
    assert done.returncode == 0, done.stderr
    assert "64 sequences" in done.stdout
    assert "each of 11 regimes was left out" in " ".join(done.stdout.split()), (
        "the error measured by leaving regimes out stands beside the answer"
    )


def test_json_is_alone_on_stdout_and_its_parts_add_up() -> None:
    done = plan(LOG, "--profile", PROFILE, "--slo", "tpot=10ms", "--context", "1000", "--json", "-")
    document = json.loads(done.stdout)
    assert {"step_ms", "parts", "tok_s", "tok_s_per_user", "error", "caveats"} <= set(document)
    assert sum(document["parts"].values()) == pytest.approx(document["step_ms"])
    assert document["step_ms"] <= 10
    assert document["kind"] == "prediction"
    assert document["slo"]["admitted"] == document["batch"]
    assert (document["extrapolated"], document["fits"]) == (False, True)
    assert all(cell["extrapolated"] for cell in document["grid"] if cell["batch"] > 300)
    assert not any(cell["fits"] for cell in document["grid"] if cell["batch"] * cell["context"] > 840_016)


def test_a_batch_beside_an_slo_gets_its_own_sentence() -> None:
    done = plan(LOG, "--profile", PROFILE, "--batch", "4", "--slo", "tpot=10ms", "--context", "1000", "--json", "-")
    first, second, *_ = json.loads(done.stdout)["answers"]
    assert first.startswith("A decode step of 4 sequences at 1,000 tokens")
    assert second.startswith("10.0 ms a token at 1,000 tokens of context is met up to batch")


def test_a_batch_that_is_the_slos_own_is_told_once() -> None:
    slo = ("--slo", "tpot=10ms", "--context", "1000", "--json", "-")
    alone = json.loads(plan(LOG, "--profile", PROFILE, *slo).stdout)
    both = json.loads(plan(LOG, "--profile", PROFILE, "--batch", str(alone["batch"]), *slo).stdout)
    assert both["answers"] == alone["answers"]


def test_without_a_log_it_is_a_bound_and_says_so() -> None:
    done = plan("--model", "llama-3.1-8b", "--profile", PROFILE, "--batch", "32", "--context", "2000")
    assert done.returncode == 0, done.stderr
    shown = " ".join(done.stdout.split())
    assert "A BOUND, not a prediction" in shown
    assert "bf16 ASSUMED" in shown
    assert "--dtype says" not in shown
    assert "at least" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--slo", "ttft=1s"], 2, "cannot be planned"),
        (["--batch", "4"], 2, "give a log, or --model NAME"),
        (["--model", "llama-3.1-8b", "--profile", PROFILE], 2, "needs --context"),
        ([str(FIXTURES / "logs/vllm/0.24.0-h200-steady-10s.log"), "--profile", PROFILE], 3, "at least 3 regimes"),
        (["missing.log", "--profile", PROFILE], 2, "missing.log"),
        ([LOG, "--profile", PROFILE, "--tp", "2"], 2, "--tp is for a plan without a log"),
        (["--model", "llama-3.1-8b", "--context", "9", "--engine", "vllm"], 2, "--engine says how to read a log"),
    ],
    ids=["ttft", "nothing", "no-context", "one-regime", "missing-file", "tp-of-a-log", "engine-of-no-log"],
)
def test_refusals_are_one_sentence(arguments: list[str], code: int, sentence: str) -> None:
    done = plan(*arguments)
    assert done.returncode == code
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_the_help_says_why_ttft_is_not_predicted() -> None:
    text = " ".join(plan("--help").stdout.split())
    assert "TTFT and queueing are not predicted: they depend on when requests arrive" in text
