"""``probe tail`` as a process of its own: real pipes, real signals."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from log_parsers.apart import can_fork

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]

FIXTURES = Path(__file__).parents[2] / "fixtures"
LOGS = FIXTURES / "logs"
PROFILE = str(FIXTURES / "profiles" / "h200-reference.json")
PROBE = [sys.executable, "-c", "import sys; from roofline_probe.cli import main; sys.exit(main())"]
TAIL = [*PROBE, "tail", "--profile", PROFILE]
VLLM = LOGS / "vllm" / "0.24.0-h200-graph-1s.log"
SGLANG = LOGS / "sglang" / "0.5.16-h200.log"


def tail(*arguments, stdin=b"", **options):
    return subprocess.run([*TAIL, *arguments], input=stdin, capture_output=True, timeout=60, **options)


def start(*arguments, **options):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*TAIL, *arguments], bufsize=0, **{**pipes, **options})


def objects(output):
    *steps, summary = [json.loads(line) for line in output.splitlines()]
    assert "summary" in summary
    return steps, summary


def lines_of(data):
    """By newline bytes alone: engines end some lines in ``\\r\\n``."""
    return [line + b"\n" for line in data.split(b"\n")[:-1]]


def pieces(data, size):
    return [data[start : start + size] for start in range(0, len(data), size)]


@pytest.mark.parametrize(
    "log",
    [VLLM, LOGS / "vllm" / "0.24.0-h200-tp2-2s.log", SGLANG, LOGS / "wrapped" / "restart.log"],
    ids=["vllm", "vllm-tp2", "sglang", "restart"],
)
def test_steps_and_summary_equal_those_of_compare_on_the_same_bytes(log):
    """However the pipe cuts them."""
    arguments = [*PROBE, "compare", str(log), "--profile", PROFILE, "--json", "-"]
    compared = json.loads(subprocess.run(arguments, capture_output=True, timeout=60, check=True).stdout)
    process = start("--json")
    reader = threading.Thread(target=lambda: [process.stdin.write(p) for p in pieces(log.read_bytes(), 4999)])
    reader.start()
    reader.join(60)
    output, _ = process.communicate(timeout=60)
    steps, summary = objects(output)
    for step in [*steps, *compared["steps"]]:
        del step["source"]
    assert steps == compared["steps"]
    assert summary["summary"] == compared["summary"]
    assert summary["roof"] == compared["roof"]
    assert summary["excluded"] == compared["excluded"]


def test_each_step_is_one_line_of_text_and_the_report_follows():
    result = tail(stdin=VLLM.read_bytes())
    assert result.returncode == 0
    lines = result.stdout.decode().splitlines()
    assert lines[40].split()[1] in ("decode", "prefill", "mixed", "unknown")
    assert any("By kind" in line for line in lines)
    report = next(i for i, line in enumerate(lines) if line.startswith("roof "))
    assert lines[report - 1] == "", "the report stands apart from the last step"
    assert b"\x1b" not in result.stdout


def test_a_step_comes_out_as_soon_as_its_line_is_complete():
    """The input stays open: nothing may wait for its end."""
    process = start("--json")
    lines = lines_of(SGLANG.read_bytes())
    decode = next(i for i, line in enumerate(lines) if b"Decode batch" in line)
    process.stdin.write(b"".join(lines[: decode + 1]))
    process.stdin.flush()
    seen = [json.loads(process.stdout.readline())]
    while seen[-1]["kind"] != "decode":
        seen.append(json.loads(process.stdout.readline()))
    process.stdin.close()
    process.wait(60)
    process.stdout.close()
    process.stderr.close()


def test_a_number_cut_by_the_pipe_waits_for_its_rest():
    log = VLLM.read_bytes()
    cut = log.index(b" TF/s/GPU", len(log) // 2) - 2  # inside "123.4"
    process = start("--json")
    process.stdin.write(log[:cut])
    process.stdin.flush()
    time.sleep(0.3)
    output, _ = process.communicate(log[cut:], timeout=60)
    whole = tail("--json", stdin=log)
    assert output == whole.stdout


def test_the_file_of_tee_holds_the_raw_bytes(tmp_path):
    raw = b"\xff\x00 not text\r\n" + VLLM.read_bytes() + b"no newline"
    kept = tmp_path / "kept.log"
    assert tail("--json", "--tee", str(kept), stdin=raw).returncode == 0
    assert kept.read_bytes() == raw


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system does not bind processes to cores")
def test_on_one_core_it_reads_without_a_second_process_and_says_the_same(tmp_path):
    kept = tmp_path / "kept.log"
    core = min(os.sched_getaffinity(0))
    bound = tail(
        "--json", "--tee", str(kept), stdin=VLLM.read_bytes(), preexec_fn=lambda: os.sched_setaffinity(0, {core})
    )
    assert bound.stdout == tail("--json", stdin=VLLM.read_bytes()).stdout
    assert kept.read_bytes() == VLLM.read_bytes()


def test_a_log_without_a_usable_line_ends_with_3_and_says_why():
    result = tail(stdin=b"hello\nworld\n")
    assert result.returncode == 3
    assert result.stderr.count(b"\n") == 1
    assert result.stdout == b""


def test_a_log_that_engine_leaves_out_names_that_flag():
    result = tail("--engine", "sglang", stdin=VLLM.read_bytes())
    assert result.returncode == 3
    assert b"no line of SGLang, and --engine sglang leaves other engines' lines out: drop that flag." in result.stderr


def test_without_any_profile_it_ends_with_4_before_it_reads(tmp_path):
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path)}
    result = subprocess.run([*PROBE, "tail"], input=b"", capture_output=True, timeout=60, env=environment)
    assert result.returncode == 4
    assert b"probe measure" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["server.log"], "-f server.log"),
        (["--"], "No command stands behind"),
        (["-f", "a.log", "--", "true"], "one input"),
        (["--", "no-such-server-here"], "cannot be started"),
        (["--tee", "no/such/folder/x.log"], "cannot be written"),
        (["--roof", "best"], "no roof 'best'"),
    ],
    ids=["a-file-without-f", "nothing-to-start", "two-inputs", "unknown-command", "tee-nowhere", "unknown-roof"],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(arguments, sentence):
    result = tail(*arguments)
    assert result.returncode == 2
    assert sentence in result.stderr.decode()
    assert result.stderr.count(b"\n") == 1


def test_following_a_folder_is_a_mistake_of_one_sentence(tmp_path):
    result = tail("-f", str(tmp_path))
    assert result.returncode == 2
    assert result.stderr.count(b"\n") == 1


def test_tee_onto_the_followed_file_is_refused(tmp_path):
    log = tmp_path / "server.log"
    log.write_bytes(b"")
    result = tail("-f", str(log), "--tee", str(log))
    assert result.returncode == 2
    assert b"is the file that is followed" in result.stderr


class TestOwnServer:
    """``-- COMMAND``."""

    def test_both_streams_are_read_and_the_exit_code_is_passed_on(self, tmp_path):
        kept = tmp_path / "kept.log"
        script = f"head -c 100000 {VLLM}; echo to stderr >&2; tail -c +100001 {VLLM}; exit 7"
        result = tail("--json", "--tee", str(kept), "--", "sh", "-c", script)
        assert result.returncode == 7
        steps, _ = objects(result.stdout)
        assert len(steps) > 100
        log = VLLM.read_bytes()
        assert kept.read_bytes() == log[:100000] + b"to stderr\n" + log[100000:]

    def test_a_server_that_fails_to_start_passes_its_code_on_with_the_reason(self):
        result = tail("--", "sh", "-c", "echo cannot open the model; exit 9")
        assert result.returncode == 9
        assert result.stderr.count(b"\n") == 1

    def test_options_behind_the_dashes_belong_to_the_server(self):
        result = tail("--json", "--", "sh", "-c", 'test "$1 $2" = "--json --tee" && exit 5', "sh", "--json", "--tee")
        assert result.returncode == 5

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
    def test_a_signal_is_passed_on_once_and_the_goodbye_is_read(self, number):
        script = f"trap 'echo bye; exit 6' INT TERM; cat {VLLM}; echo ready; while :; do sleep 0.05; done"
        process = start("--pass", "--json", "--", "sh", "-c", script, stdin=subprocess.DEVNULL)
        errors = b""
        while b"ready" not in errors:
            errors += os.read(process.stderr.fileno(), 1 << 16)
        process.send_signal(number)
        output, rest = process.communicate(timeout=60)
        assert process.returncode == 6
        assert (errors + rest).count(b"bye\n") == 1
        objects(output)


class TestEnding:
    """Ctrl-C, and a reader of our output that leaves."""

    def test_ctrl_c_drains_what_the_server_still_prints_and_sums_up(self):
        log = VLLM.read_bytes()
        half = log.index(b"\n", len(log) // 2) + 1
        process = start("--json")
        process.stdin.write(log[:half])
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        said = process.stderr.readline()
        assert b"Once more leaves at once" in said
        output, _ = process.communicate(log[half:], timeout=60)
        assert process.returncode == 130
        steps, summary = objects(output)
        whole, whole_summary = objects(tail("--json", stdin=log).stdout)
        assert steps == whole[1:]
        assert summary["summary"] == whole_summary["summary"]

    def test_a_second_ctrl_c_leaves_with_the_summary_so_far_though_the_pipe_is_held_open(self):
        process = start("--json")
        process.stdin.write(VLLM.read_bytes())
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        output = process.stdout.read()
        assert process.wait(60) == 130
        objects(output)
        process.stdin.close()
        process.stdout.close()
        process.stderr.close()

    @pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="this system does not list a process's children")
    @pytest.mark.skipif(not can_fork(), reason="on one core there is no second process")
    def test_whatever_ends_the_reading_the_summary_of_what_was_read_comes_first(self):
        process = start("--json")
        process.stdin.write(VLLM.read_bytes())
        process.stdin.flush()
        process.stdout.readline()
        (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGKILL)
        output, said = process.communicate(timeout=60)
        assert process.returncode == 2
        assert said.count(b"\n") == 1
        assert b"was killed" in said
        objects(output)

    def test_a_reader_that_leaves_ends_it_quietly(self):
        process = start("--json")
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr.read() == b""
        process.stdin.close()
        process.stderr.close()

    def test_with_tee_it_goes_on_though_the_reader_left(self, tmp_path):
        kept = tmp_path / "kept.log"
        process = start("--json", "--tee", str(kept))
        process.stdout.close()
        time.sleep(0.6)
        process.stdin.write(VLLM.read_bytes())
        process.stdin.close()
        process.wait(60)
        assert kept.read_bytes() == VLLM.read_bytes()
        process.stderr.close()

    def test_a_reader_that_stops_does_not_stop_the_engine(self):
        """Nobody reads our output until all of the input has been taken: more than any pipe holds."""
        process = start("--json")
        process.stdin.write(VLLM.read_bytes() * 40)
        process.stdin.close()
        output = process.stdout.read()
        assert process.wait(60) == 0
        assert len(output) > 4 << 20
        objects(output)
        process.stdout.close()
        process.stderr.close()


class TestFollowing:
    """``-f FILE``."""

    @pytest.fixture
    def log(self, tmp_path):
        path = tmp_path / "server.log"
        path.write_bytes(VLLM.read_bytes())
        return path

    def test_it_begins_with_the_last_steps_goes_on_and_sums_up_the_whole_file(self, log):
        process = start("--json", "-n", "3", "-f", str(log), stdin=subprocess.DEVNULL)
        first = [json.loads(process.stdout.readline()) for _ in range(3)]
        lines = lines_of(VLLM.read_bytes())
        last = max(i for i, line in enumerate(lines) if b"MFU: " in line)
        with log.open("ab") as file:
            file.writelines(lines[last - 1 : last + 1])
        new = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        output, said = process.communicate(timeout=60)
        _, summary = objects(output)
        assert b"Not shown: 140 earlier windows of this file; the summary is of all of it." in said
        whole, _ = objects(tail("--json", stdin=VLLM.read_bytes()).stdout)
        assert [step["line_no"] for step in first] == [step["line_no"] for step in whole[-3:]]
        assert new["line_no"] == len(lines) + 2
        assert summary["summary"]["steps"] == len(whole) + 1
        assert process.returncode == 130

    def test_it_waits_for_a_file_that_comes_late(self, tmp_path):
        path = tmp_path / "late.log"
        process = start("--json", "-f", str(path), stdin=subprocess.DEVNULL)
        assert b"does not exist yet" in process.stderr.readline()
        path.write_bytes(VLLM.read_bytes())
        json.loads(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
        objects(output)

    def test_a_pipe_by_its_name_is_read_like_standard_input(self):
        reading_end, writing_end = os.pipe()
        process = start("--json", "-f", f"/dev/fd/{reading_end}", stdin=subprocess.DEVNULL, pass_fds=[reading_end])
        os.close(reading_end)
        with open(writing_end, "wb") as pipe:
            pipe.write(VLLM.read_bytes())
        output, said = process.communicate(timeout=60)
        assert (process.returncode, said) == (0, b"")
        assert strip_source(output) == strip_source(tail("--json", stdin=VLLM.read_bytes()).stdout)

    def test_a_fifo_waits_for_its_writer_loses_nothing_and_ends_with_it(self, tmp_path):
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)
        process = start("--json", "-f", str(fifo), stdin=subprocess.DEVNULL)
        time.sleep(0.5)
        fifo.write_bytes(VLLM.read_bytes())
        output, said = process.communicate(timeout=60)
        assert (process.returncode, said) == (0, b"")
        assert len(objects(output)[0]) == len(objects(tail("--json", stdin=VLLM.read_bytes()).stdout)[0])

    def test_one_ctrl_c_leaves_a_fifo_with_the_summary_though_its_writer_stays(self, tmp_path):
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)
        process = start("--json", "-f", str(fifo), stdin=subprocess.DEVNULL)
        with fifo.open("wb") as writer:
            writer.write(VLLM.read_bytes())
            writer.flush()
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            output, said = process.communicate(timeout=60)
        assert (process.returncode, said) == (130, b"")
        objects(output)

    def test_without_a_writer_ctrl_c_leaves_a_fifo_too(self, tmp_path):
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)
        process = start("-f", str(fifo), "--pass", stdin=subprocess.DEVNULL)
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 130
        assert said.count(b"\n") == 1

    @pytest.mark.parametrize("trouble", ["directory", "fifo", "loop", "parent"])
    def test_what_takes_the_files_name_is_said_once_and_the_summary_still_comes(self, tmp_path, trouble):
        log = tmp_path / "logs" / "server.log"
        log.parent.mkdir()
        log.write_bytes(VLLM.read_bytes())
        process = start("--json", "-n", "1", "-f", str(log), stdin=subprocess.DEVNULL)
        process.stdout.readline()
        assert b"Not shown" in process.stderr.readline()
        take_the_name(log, trouble)
        assert b"at the moment" in process.stderr.readline()
        time.sleep(0.7)
        process.send_signal(signal.SIGINT)
        output, said = process.communicate(timeout=60)
        assert (process.returncode, said) == (130, b"")
        assert json.loads(output)["summary"]["steps"] > 100

    def test_a_link_to_itself_is_refused_in_one_sentence(self, tmp_path):
        (tmp_path / "loop.log").symlink_to("loop.log")
        result = tail("-f", str(tmp_path / "loop.log"))
        assert (result.returncode, result.stderr.count(b"\n")) == (2, 1)


def take_the_name(log, trouble):
    if trouble == "parent":
        log.parent.rename(log.parent.with_name("moved"))
        log.parent.touch()
        return
    log.unlink()
    if trouble == "directory":
        log.mkdir()
    elif trouble == "fifo":
        os.mkfifo(log)
    else:
        log.symlink_to(log.name)


def strip_source(output):
    return re.sub(rb'"source":"[^"]*"', b"", output)


def test_a_laptops_own_profile_gives_no_percentage_of_a_gpus_log_and_the_server_is_not_stopped(
    probe: Run, vllm_log: Path, cpu_profile: Path
) -> None:
    done = probe("tail", stdin=vllm_log.read_bytes())
    assert done.returncode == 0
    said = done.stderr.decode()
    assert said.count("no percentage would mean anything") == 1
    assert "Some CPU" in said
    live = [line for line in done.stdout.decode().splitlines() if re.match(r"\d\d:\d\d:\d\d ", line)]
    assert len(live) == 143
    assert not any(" of pi" in line or "attained" in line for line in live)
    assert any("step 4.88 ms" in line for line in live)


def test_a_profile_of_another_kind_that_was_named_is_obeyed(probe: Run, vllm_log: Path, cpu_profile: Path) -> None:
    done = probe("tail", "--profile", cpu_profile, stdin=vllm_log.read_bytes())
    assert b"attained" in done.stdout
    assert done.stderr == b""
