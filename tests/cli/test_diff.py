"""``probe diff`` as a process: two real logs, two profiles, gates and refusals."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from roofline_probe import profile_file
from roofline_probe.profile import Profile

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def slower_log(vllm_log: Path, tmp_path: Path) -> Path:
    """The captured run with 6 % less throughput: the same load on a slower engine."""
    text = vllm_log.read_text(encoding="utf-8")
    path = tmp_path / "slower.log"
    path.write_text(
        re.sub(r"(?<=throughput: )[\d.]+", lambda match: f"{float(match[0]) * 0.94:.1f}", text), encoding="utf-8"
    )
    return path


@pytest.fixture
def slower_card(h200: Path, tmp_path: Path) -> Path:
    """The reference card after its sustained pi fell by 8 % and its driver changed."""
    found = profile_file.decode(h200.read_bytes(), "reference")
    peaks = [msgspec.structs.replace(p, tflops=p.tflops * 0.92) if p.regime == "sustained" else p for p in found.peaks]
    changed: Profile = msgspec.structs.replace(
        found, peaks=peaks, device=msgspec.structs.replace(found.device, driver="590")
    )
    path = tmp_path / "after.json"
    profile_file.save(changed, path)
    return path


def test_slower_engine_fails_the_gate_and_is_named(probe: Run, vllm_log: Path, slower_log: Path, h200: Path) -> None:
    done = probe("diff", vllm_log, slower_log, "--profile", h200, "--fail-over", "5")
    assert done.returncode == 1
    said = " ".join(done.stdout.decode().split())
    assert re.search(r"decode 6(\.\d)? % slower \(\d(\.\d)? to \d(\.\d)?\) at the same batch and context", said)
    assert re.search(r"batch 256, context \S+: engine rest \d\.\d\d -> \d\.\d\d ms; kernels unchanged; decode 6", said)
    sentence = done.stderr.decode()
    assert sentence.startswith("probe: Over the 5 % that --fail-over allows: decode 6.")
    assert sentence.count("\n") == 1


def test_gate_that_is_met_is_silent(probe: Run, vllm_log: Path, slower_log: Path, h200: Path) -> None:
    done = probe("diff", vllm_log, slower_log, "--profile", h200, "--fail-over", "9")
    assert done.returncode == 0
    assert done.stderr == b""


def test_log_against_itself(probe: Run, vllm_log: Path, h200: Path) -> None:
    done = probe("diff", vllm_log, vllm_log, "--profile", h200, "--fail-over", "0")
    assert done.returncode == 0
    assert b"decode unchanged" in done.stdout
    assert b"too thin: under 10 windows on a side" in done.stdout
    assert b"\xe2\x80\xa2 nothing in batch " in done.stdout


@pytest.fixture
def context_halves(sglang_log: Path, tmp_path: Path) -> tuple[Path, Path]:
    """One captured run as two logs: of each batch's decode lines the early half, of short contexts, and the late."""
    rest: list[str] = []
    decodes: dict[int, list[str]] = {}
    for line in sglang_log.read_text(encoding="utf-8").splitlines(keepends=True):
        found = re.search(r"Decode batch, #running-req: (\d+), #token: (\d+)", line)
        if found is None:
            rest.append(line)
        elif 0 < int(found[2]) < 1024 * int(found[1]):
            decodes.setdefault(int(found[1]), []).append(line)
    halves = tmp_path / "early.log", tmp_path / "late.log"
    for path, half in zip(halves, (lambda n: slice(0, n // 2), lambda n: slice(n // 2, n)), strict=True):
        kept = [line for lines in decodes.values() for line in lines[half(len(lines))]]
        path.write_text("".join(rest + kept), encoding="utf-8")
    return halves


@pytest.mark.parametrize("swapped", [False, True], ids=["grew", "shrank"])
def test_longer_contexts_of_one_run_are_no_regression(
    probe: Run, context_halves: tuple[Path, Path], h200: Path, swapped: bool
) -> None:
    before, after = context_halves[::-1] if swapped else context_halves
    done = probe("diff", before, after, "--profile", h200, "--json", "-")
    bins = [b for b in json.loads(done.stdout)["bins"] if b["kind"] == "decode"]
    assert {b["batch_low"] for b in bins if b["verdict"] == "not alike"} >= {1, 8, 32, 128, 256}
    assert {b["verdict"] for b in bins} <= {"not alike", "too thin", "unchanged"}
    shown = " ".join(probe("diff", before, after, "--profile", h200).stdout.decode().split())
    assert "decode: nothing compared, no bin has 10 windows on each side at the same batch and context" in shown
    gated = probe("diff", before, after, "--profile", h200, "--fail-over", "1", "--where", "kind == 'decode'")
    assert gated.returncode == 3
    assert b"--fail-over has nothing to judge" in gated.stderr


def test_two_engines_are_compared_in_recounted_figures(
    probe: Run, vllm_log: Path, sglang_log: Path, h200: Path
) -> None:
    done = probe("diff", vllm_log, sglang_log, "--profile", h200, "--json", "-")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["caveats"] == ["different_engine"]
    assert all("engine_tflops" not in b["changes"] for b in found["bins"])
    assert {k["kind"] for k in found["kinds"]} >= {"decode", "prefill"}


def test_markdown_is_a_table_for_a_pull_request(probe: Run, vllm_log: Path, slower_log: Path, h200: Path) -> None:
    done = probe("diff", vllm_log, slower_log, "--profile", h200, "--markdown")
    lines = done.stdout.decode().splitlines()
    assert lines[0].startswith("### ")
    table = [line for line in lines if line.startswith("|")]
    assert len(table) >= 5
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1, "every row has as many cells"


def test_json_goes_beside_the_report_when_given_a_path(
    probe: Run, vllm_log: Path, slower_log: Path, h200: Path, tmp_path: Path
) -> None:
    done = probe("diff", vllm_log, slower_log, "--profile", h200, "--json", tmp_path / "diff.json")
    assert b"What changed" in done.stdout
    assert json.loads((tmp_path / "diff.json").read_bytes())["schema_version"] == 1


def test_two_profiles_tell_what_changed_on_the_card(probe: Run, h200: Path, slower_card: Path) -> None:
    done = probe("diff", h200, slower_card, "--fail-over", "5")
    assert done.returncode == 1
    said = " ".join(done.stdout.decode().split())
    assert "pi bf16 sustained 683 -> 628 TFLOP/s: 8.0 % worse" in said
    assert "driver 580 590" in said
    assert b"pi bf16 sustained 683 -> 628 TFLOP/s: 8.0 % worse" in done.stderr


def test_profile_markdown(probe: Run, h200: Path, slower_card: Path) -> None:
    said = probe("diff", h200, slower_card, "--markdown").stdout.decode()
    assert "| pi | bf16 sustained | 683.0 | 628.4 | TFLOP/s | -8.0 |" in said


def test_profile_against_log_is_refused(probe: Run, h200: Path, vllm_log: Path) -> None:
    done = probe("diff", h200, vllm_log)
    assert done.returncode == 2
    assert b"is a profile and" in done.stderr


def test_missing_file_is_one_sentence(probe: Run, vllm_log: Path) -> None:
    done = probe("diff", "nowhere.log", vllm_log)
    assert done.returncode == 2
    assert done.stderr == b"probe: nowhere.log is neither a file nor the name of a profile; check the path.\n"


def test_gate_with_nothing_to_judge_does_not_pass(probe: Run, vllm_log: Path, h200: Path) -> None:
    few = ("--where", "batch==32 and context<1000")
    done = probe("diff", vllm_log, vllm_log, "--profile", h200, "--fail-over", "5", *few)
    assert done.returncode == 3
    assert b"--fail-over has nothing to judge" in done.stderr


@pytest.mark.parametrize("width", [pytest.param(w, id=f"{w}-columns") for w in (80, 120, 200)])
def test_report_fits_its_width(probe: Run, vllm_log: Path, sglang_log: Path, h200: Path, width: int) -> None:
    done = probe("diff", vllm_log, sglang_log, "--profile", h200, env={"COLUMNS": str(width)})
    lines = [line for line in done.stdout.decode().splitlines() if not line.startswith(("before ", "after "))]
    assert max(map(len, lines)) <= width, "all but the paths, which are not broken"


def test_neither_torch_nor_pandas_nor_altair_is_loaded(
    environment: dict[str, str], vllm_log: Path, h200: Path, script: Path
) -> None:
    code = (
        "import sys; from roofline_probe.cli import main; "
        f"main(['diff', {str(vllm_log)!r}, {str(vllm_log)!r}, '--profile', {str(h200)!r}, '-q']); "
        "print([m for m in ('torch', 'pandas', 'numpy', 'altair') if m in sys.modules])"
    )
    python = script.parent / "python"
    done = subprocess.run([str(python), "-c", code], capture_output=True, env=environment, timeout=60, check=True)
    assert done.stdout == b"[]\n"


def test_the_workflows_commands_run_as_written(
    environment: dict[str, str], script: Path, vllm_log: Path, slower_log: Path, h200: Path, tmp_path: Path
) -> None:
    workflow = (Path(__file__).parents[2] / ".github/workflows/performance-gate.yml").read_text(encoding="utf-8")
    commands = re.findall(r"run: (probe diff .*)", workflow)
    inputs = {"BEFORE": str(vllm_log), "AFTER": str(slower_log), "PROFILE": str(h200), "FAIL_OVER": "5"}
    settings = {**environment, **inputs, "PATH": f"{script.parent}:{environment['PATH']}"}
    codes = [
        subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=settings, capture_output=True, timeout=60, check=False
        ).returncode
        for command in commands
    ]
    assert codes == [0, 1], "the first posts, the second is the gate"
    assert (tmp_path / "diff.md").read_text(encoding="utf-8").startswith("### ")


def test_names_that_are_not_utf_8_can_be_written(probe: Run, vllm_log: Path, h200: Path, tmp_path: Path) -> None:
    log, profile = (os.fsdecode(os.fsencode(tmp_path) + name) for name in (b"/s\xff.log", b"/p\xff.json"))
    Path(log).symlink_to(vllm_log)
    Path(profile).symlink_to(h200)
    logs = json.loads(probe("diff", log, vllm_log, "--profile", h200, "--json", "-").stdout)
    assert logs["before"]["name"] == f"{tmp_path}/s\\xff.log"
    profiles = json.loads(probe("diff", profile, h200, "--json", "-").stdout)
    assert profiles["before"] == f"{tmp_path}/p\\xff.json"
    compared = json.loads(probe("compare", log, "--profile", h200, "--html", "report.html", "--json", "-").stdout)
    assert {step["source"] for step in compared["steps"]} == {f"{tmp_path}/s\\xff.log"}
    assert b"s\\xff.log" in (tmp_path / "report.html").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        (["--where", "batch>=32"], "--where"),
        (["--roof", "burst"], "--roof"),
        (["--after-profile", "h200"], "--after-profile"),
        (["--markdown", "--json", "-"], "--markdown"),
        (["--fail-over", "nan"], "--fail-over"),
    ],
    ids=["where", "roof", "profile", "two-on-stdout", "gate-of-nan"],
)
def test_a_flag_that_could_do_nothing_is_refused_before_anything_is_printed(
    probe: Run, h200: Path, arguments: list[str], flag: str
) -> None:
    result = probe("diff", h200, "h200", *arguments)
    assert (result.returncode, result.stdout, result.stderr.count(b"\n")) == (2, b"", 1)
    assert result.stderr.decode().startswith(f"probe: {flag} ")
