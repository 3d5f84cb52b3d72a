"""``probe compare`` on captured logs: what is printed where, and with which exit code."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.mark.parametrize("columns", ["80", "120", "200"])
def test_report_of_a_real_log_fits_the_window(probe: Run, vllm_log: Path, h200: Path, columns: str) -> None:
    result = probe("compare", vllm_log, "--profile", h200, env={"COLUMNS": columns})
    lines = result.stdout.decode().splitlines()
    assert result.returncode == 0
    assert result.stderr == b""
    assert max(map(len, lines)) <= int(columns)
    assert "…" not in result.stdout.decode()


def test_report_names_the_roof_and_attains_what_the_capture_attains(probe: Run, vllm_log: Path, h200: Path) -> None:
    parsed = json.loads(probe("compare", vllm_log, "--profile", h200, "--json", "-").stdout)
    decode = next(row for row in parsed["summary"]["kinds"] if row["kind"] == "decode")
    assert parsed["roof"]["device"] == "NVIDIA H200"
    assert parsed["roof"]["profile_name"] == "h200-reference"
    assert 0.75 <= decode["attained_fraction"] <= 0.95
    parts = decode["gemm_ms"] + decode["kv_ms"] + decode["link_ms"] + decode["rest_ms"]
    assert parts == pytest.approx(decode["step_ms"])


def test_json_dash_is_json_alone(probe: Run, vllm_log: Path, h200: Path) -> None:
    result = probe("compare", vllm_log, "--profile", h200, "--json", "-")
    parsed = json.loads(result.stdout)
    assert next(iter(parsed)) == "schema_version"
    assert len(parsed["steps"]) == parsed["summary"]["steps"]
    assert result.stderr == b""


def test_json_to_a_file_leaves_the_report_on_the_screen(probe: Run, vllm_log: Path, h200: Path, tmp_path: Path) -> None:
    result = probe("compare", vllm_log, "--profile", h200, "--json", "out.json", "--csv", "out.csv")
    assert b"attained" in result.stdout
    steps = json.loads((tmp_path / "out.json").read_bytes())["steps"]
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text())))
    assert [step["line_no"] for step in steps] == [int(row["line_no"]) for row in rows]


def test_json_to_a_pipe_is_written_in_place(probe: Run, vllm_log: Path, h200: Path, tmp_path: Path) -> None:
    fifo, copy = tmp_path / "fifo", tmp_path / "copy"
    os.mkfifo(fifo)
    with copy.open("wb") as file, subprocess.Popen(["cat", str(fifo)], stdout=file):
        assert probe("compare", vllm_log, "--profile", h200, "-q", "--json", fifo).returncode == 0
    assert json.loads(copy.read_bytes())["schema_version"] == 1
    assert fifo.is_fifo()


def test_standard_input_gives_the_same_steps_as_the_file(probe: Run, vllm_log: Path, h200: Path) -> None:
    from_file = json.loads(probe("compare", vllm_log, "--profile", h200, "--json", "-").stdout)
    data = vllm_log.read_bytes()
    from_pipe = json.loads(probe("compare", "-", "--profile", h200, "--json", "-", stdin=data).stdout)
    for step in (*from_file["steps"], *from_pipe["steps"]):
        step["source"] = "same"
    assert from_pipe["steps"] == from_file["steps"]
    assert from_pipe["summary"] == from_file["summary"]


def test_compressed_log_gives_the_same_summary(probe: Run, vllm_log: Path, h200: Path, tmp_path: Path) -> None:
    (tmp_path / "log.gz").write_bytes(gzip.compress(vllm_log.read_bytes()))
    plain = json.loads(probe("compare", vllm_log, "--profile", h200, "--json", "-").stdout)
    packed = json.loads(probe("compare", "log.gz", "--profile", h200, "--json", "-").stdout)
    assert packed["summary"] == plain["summary"]


def test_quiet_says_nothing_and_still_writes_files(probe: Run, vllm_log: Path, h200: Path, tmp_path: Path) -> None:
    result = probe("compare", "-q", vllm_log, "--profile", h200, "--json", "out.json")
    assert (result.stdout, result.stderr) == (b"", b"")
    assert (tmp_path / "out.json").stat().st_size > 1000


def test_quiet_before_the_command_means_the_same(probe: Run, vllm_log: Path, h200: Path) -> None:
    assert probe("-q", "compare", vllm_log, "--profile", h200).stdout == b""


def test_verbose_says_on_stderr_what_was_read(probe: Run, vllm_log: Path, h200: Path) -> None:
    result = probe("compare", "-v", vllm_log, "--profile", h200)
    assert b"steps found; profile: h200-reference" in result.stderr


def test_every_step_is_listed_on_request(probe: Run, vllm_log: Path, h200: Path) -> None:
    parsed = json.loads(probe("compare", vllm_log, "--profile", h200, "--json", "-").stdout)
    shown = probe("compare", vllm_log, "--profile", h200, "--steps").stdout.decode()
    listed = shown.split("Every step")[1].split("\n\n")[0].splitlines()[2:]
    assert len(listed) == parsed["summary"]["steps"]


def test_selection_narrows_the_summary(probe: Run, vllm_log: Path, h200: Path) -> None:
    where = "kind==decode and batch>=32"
    parsed = json.loads(probe("compare", vllm_log, "--profile", h200, "--where", where, "--json", "-").stdout)
    assert {row["kind"] for row in parsed["summary"]["kinds"]} == {"decode"}
    assert min(row["batch_low"] for row in parsed["summary"]["bins"]) >= 32


def test_given_roof_needs_no_profile(probe: Run, vllm_log: Path) -> None:
    result = probe("compare", vllm_log, "--pi", "683", "--beta", "4400")
    assert result.returncode == 0
    assert b"as given with --pi and --beta" in result.stdout


def test_half_a_given_roof_is_named_alone_and_concludes_nothing(probe: Run, vllm_log: Path) -> None:
    result = probe("compare", vllm_log, "--beta", "4400", "--fail-under", "decode=10")
    shown = " ".join(result.stdout.decode().split())
    assert "as given with --beta, bf16 as the log says" in shown
    assert "There is no pi" in shown
    assert "waits for the host" not in shown
    assert "bound by" not in shown
    assert result.returncode == 1
    assert b"decode cannot be judged under this roof" in result.stderr


def test_a_log_that_engine_leaves_out_names_that_flag(probe: Run, vllm_log: Path, h200: Path) -> None:
    result = probe("compare", vllm_log, "--profile", h200, "--engine", "sglang")
    assert result.returncode == 3
    assert b"--engine sglang leaves other engines' lines out: drop that flag." in result.stderr


def test_datasheet_roof_of_a_named_card_is_labelled_as_published(probe: Run, vllm_log: Path) -> None:
    result = probe("compare", vllm_log, "--roof", "datasheet", "--profile", "H200 SXM")
    assert result.returncode == 0
    assert b"as PUBLISHED, not measured" in result.stdout


def test_sglang_is_read_the_same_way(probe: Run, sglang_log: Path, h200: Path) -> None:
    parsed = json.loads(probe("compare", sglang_log, "--profile", h200, "--json", "-").stdout)
    assert {row["engine"] for row in parsed["summary"]["kinds"]} == {"sglang"}
    assert parsed["summary"]["excluded"]["noise"] > 0


def test_output_into_a_file_or_pipe_holds_no_escape_sequences(probe: Run, vllm_log: Path, h200: Path) -> None:
    assert b"\x1b" not in probe("compare", vllm_log, "--profile", h200).stdout


@pytest.mark.parametrize(("extra", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)], ids=["colours", "no-color"])
def test_a_terminal_gets_colours_unless_told_otherwise(
    script: Path, environment: dict[str, str], vllm_log: Path, h200: Path, extra: dict[str, str], coloured: bool
) -> None:
    shown = run_in_terminal([str(script), "compare", str(vllm_log), "--profile", str(h200)], {**environment, **extra})
    assert b"attained" in shown
    assert (b"\x1b[1;3" in shown or b"\x1b[3" in shown) == coloured


def run_in_terminal(arguments: list[str], environment: dict[str, str]) -> bytes:
    master, slave = pty.openpty()
    with subprocess.Popen(arguments, stdout=slave, stdin=slave, env=environment):
        os.close(slave)
        shown = b""
        try:
            while block := os.read(master, 65536):
                shown += block
        except OSError:  # EIO: the process has gone and the terminal with it
            pass
    os.close(master)
    return shown


def test_gate_that_is_met_leaves_with_0(probe: Run, vllm_log: Path, h200: Path) -> None:
    result = probe("compare", vllm_log, "--profile", h200, "--fail-under", "decode=50,prefill=50")
    assert (result.returncode, result.stderr) == (0, b"")


def test_gate_that_is_not_met_leaves_with_1_and_says_by_how_much(probe: Run, vllm_log: Path, h200: Path) -> None:
    result = probe("compare", vllm_log, "--profile", h200, "-q", "--fail-under", "decode=99,prefill=50")
    assert result.returncode == 1
    assert b"Gate not met: decode at " in result.stderr
    assert b"points below 99 %." in result.stderr
    assert b"prefill" not in result.stderr


def test_results_are_written_before_the_gate_speaks(probe: Run, vllm_log: Path, h200: Path, tmp_path: Path) -> None:
    arguments = ("compare", vllm_log, "--profile", h200, "--json", "out.json", "--fail-under", "decode=99")
    assert probe(*arguments).returncode == 1
    assert json.loads((tmp_path / "out.json").read_bytes())["steps"]


def test_a_laptops_own_profile_is_no_roof_for_a_gpus_log(probe: Run, vllm_log: Path, cpu_profile: Path) -> None:
    done = probe("compare", vllm_log, "--json", "out.json")
    assert done.returncode == 4
    assert done.stdout == b""
    said = done.stderr.decode()
    assert said.count("\n") == 1
    assert "comes from a cuda device" in said
    assert "Some CPU" in said
    assert "--profile (shipped: h200)" in said


def test_a_profile_of_another_kind_of_device_that_was_named_is_doubted_first_of_all(
    probe: Run, vllm_log: Path, cpu_profile: Path
) -> None:
    done = probe("compare", vllm_log, "--profile", cpu_profile)
    assert done.returncode == 0
    lines = done.stdout.decode().splitlines()
    at = [number for number, line in enumerate(lines) if "percentages mean nothing" in line]
    assert len(at) == 1
    assert at[0] <= 3


def test_a_card_known_by_its_datasheet_only_names_the_way(probe: Run, vllm_log: Path) -> None:
    done = probe("compare", vllm_log, "--profile", "H100 SXM")
    assert done.returncode == 4
    assert b"--roof datasheet" in done.stderr
    assert probe("compare", vllm_log, "--profile", "H100 SXM", "--roof", "datasheet").returncode == 0
