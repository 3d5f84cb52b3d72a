"""``probe measure`` as a command, in this process and on a scripted device: what is saved, printed and refused."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import threading
from pathlib import Path

import pytest

from roofline_probe import profile_file, store
from roofline_probe.cli import main
from roofline_probe.measure.device import Surroundings
from roofline_probe.measure.fake import FakeDevice
from roofline_probe.profile import Profile

BRIEF = ["measure", "--dtype", "bf16", "--square", "1024,8192", "--m-sweep", "1,4096"]


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeDevice:
    """The device that every run of this file finds."""
    pytest.importorskip("torch")
    fake = FakeDevice()
    monkeypatch.setattr("roofline_probe.measure.sweep.open_device", lambda name: fake)
    monkeypatch.setattr(store, "data_folder", lambda: tmp_path / "profiles")
    return fake


def read(path: Path) -> Profile:
    return profile_file.decode(path.read_bytes(), str(path))


def test_a_run_is_saved_where_the_next_command_finds_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(BRIEF) == 0
    found, path = store.find_default()
    assert found.complete
    assert found.pi_tflops("bf16", "sustained") is not None
    assert os.listdir(path.parent) == [path.name]
    shown = capsys.readouterr().out
    assert "power-capped: 1470 of 1980 MHz at 692 of 700 W" in " ".join(shown.split())


@pytest.mark.parametrize(
    "less", [["--mode", "bandwidth"], ["--dtype", "fp8"]], ids=["bandwidth only", "one dtype only"]
)
def test_a_run_of_less_is_saved_beside_the_fuller_profile_and_says_so(
    less: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["measure", "--quick"]) == 0
    _, full = store.find_default()
    before = full.read_bytes()
    assert main(["measure", "--quick", *less]) == 0
    said = " ".join(capsys.readouterr().err.split())
    (beside,) = set(full.parent.iterdir()) - {full}
    assert f"{full.stem} holds figures that this run did not measure" in said
    assert f"--profile {beside.stem}." in said
    assert full.read_bytes() == before
    assert store.find_default()[1] == full
    assert main(["show", beside.stem]) == 0


def test_the_place_that_was_asked_for_is_taken_by_a_run_of_less_too(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    assert main([*BRIEF, "--profile", str(path)]) == 0
    assert main(["measure", "--mode", "bandwidth", "--profile", str(path)]) == 0
    assert read(path).peaks == []


def test_interrupted_at_once_is_one_sentence_and_no_profile(
    device: FakeDevice, capsys: pytest.CaptureFixture[str]
) -> None:
    device.faults = {"gemm bf16 2048x2048x2048": KeyboardInterrupt()}
    assert main(BRIEF) == 130
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == ["probe: interrupted before anything was measured; nothing is saved."]
    assert store.stored() == []


def test_an_interrupted_first_run_names_the_file_it_is_in(
    device: FakeDevice, capsys: pytest.CaptureFixture[str]
) -> None:
    device.faults = {"gemm bf16 1x4096x4096": KeyboardInterrupt()}
    assert main(BRIEF) == 130
    (saved,) = store.stored()
    assert saved.name in "".join(capsys.readouterr().out.split())
    assert [(t.m, t.n, t.k, t.status) for t in read(saved).trials] == [(1, 6144, 4096, "ok")]


@pytest.mark.parametrize(
    ("flags", "sustained", "ceiling"),
    [
        ([], [], []),
        (["--soak", "2"], ["sustained"], []),
        (["--model", "llama-3.1-8b"], [], [1]),
        (["--tp", "2"], [], [2]),
        (["--tp", "2", "--no-soak"], [], [2]),
    ],
)
def test_a_quick_run_also_does_what_its_other_flags_ask_for(
    tmp_path: Path, flags: list[str], sustained: list[str], ceiling: list[int]
) -> None:
    path = tmp_path / "own.json"
    assert main(["measure", "--quick", "--dtype", "bf16", *flags, "--profile", str(path)]) == 0
    found = profile_file.decode(path.read_bytes(), path.name)
    assert [p.regime for p in found.peaks] == ["burst", *sustained]
    assert [c.tp for c in found.ceilings] == ceiling


@pytest.mark.parametrize(
    ("mode", "idle", "named"),
    [
        ("bandwidth", ["--square", "512"], "--square"),
        ("bandwidth", ["--m-sweep", "512"], "--m-sweep"),
        ("bandwidth", ["--model", "llama-3.1-70b"], "--model"),
        ("bandwidth", ["--tp", "1"], "--tp"),
        ("bandwidth", ["--soak", "5"], "--soak"),
        ("bandwidth", ["--no-soak"], "--no-soak"),
        ("bandwidth", ["--dtype", "fp8"], "--dtype"),
        ("bandwidth", ["--tp", "2", "--dtype", "fp8"], "--dtype and --tp"),
        ("gemm", ["--buffer-mib", "64"], "--buffer-mib"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_an_option_that_the_mode_never_looks_at_is_refused(
    mode: str, idle: list[str], named: str, device: FakeDevice, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["measure", "--mode", mode, *idle]) == 2
    (sentence,) = capsys.readouterr().err.splitlines()
    assert f"--mode {mode} " in sentence
    assert f"so {named} would have no effect" in sentence
    assert device.now() == 0
    assert store.stored() == []


@pytest.mark.parametrize(
    "arguments",
    [["--mode", "bandwidth", "--buffer-mib", "64"], ["--mode", "gemm", "--tp", "2", "--no-soak", "--square", "512"]],
    ids=["bandwidth", "gemm"],
)
def test_an_option_of_the_mode_is_obeyed(arguments: list[str]) -> None:
    assert main(["measure", "--quick", *arguments]) == 0


def test_json_on_stdout_is_alone_there(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main([*BRIEF, "--json", "-"]) == 0
    assert json.loads(capsysbinary.readouterr().out)["device"]["name"] == "NVIDIA H200"


def test_csv_has_a_row_for_every_trial_and_empty_cells_for_what_was_not_measured(tmp_path: Path) -> None:
    out = tmp_path / "trials.csv"
    assert main([*BRIEF, "--csv", str(out), "--profile", str(tmp_path / "p.json")]) == 0
    rows = out.read_text().splitlines()
    assert len(rows) == 1 + len(read(tmp_path / "p.json").trials)
    assert rows[0].startswith("kernel,dtype,regime,label,m,n,k")
    assert "None" not in out.read_text()


def test_hidden_size_and_gqa_group_travel_with_the_profile(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    assert main([*BRIEF, "--hidden-size", "8192", "--gqa-group", "8", "--profile", str(path)]) == 0
    assert (read(path).hidden_size, read(path).gqa_group) == (8192, 8)


def test_ctrl_c_saves_beside_a_finished_profile_reports_it_and_exits_130(
    device: FakeDevice, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.json"
    assert main([*BRIEF, "--profile", str(path)]) == 0
    before = path.read_bytes()
    device.faults = {"gemm bf16 4096x4096x14336": KeyboardInterrupt()}
    capsys.readouterr()
    assert main([*BRIEF, "--profile", str(path)]) == 130
    assert path.read_bytes() == before
    partial = read(tmp_path / "p.partial.json")
    assert not partial.complete
    assert partial.betas
    assert "p.partial.json" in "".join(capsys.readouterr().out.split())


def test_a_finished_run_takes_the_partial_file_away(device: FakeDevice, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    assert main([*BRIEF, "--profile", str(path)]) == 0
    device.faults = {"gemm bf16 4096x4096x14336": KeyboardInterrupt()}
    main([*BRIEF, "--profile", str(path)])
    device.faults = {}
    assert main([*BRIEF, "--profile", str(path)]) == 0
    assert sorted(p.name for p in tmp_path.iterdir() if p.suffix == ".json") == ["p.json"]


def test_a_full_disk_is_said_the_report_is_still_shown_and_the_old_profile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.json"
    assert main([*BRIEF, "--profile", str(path)]) == 0
    before = path.read_bytes()
    capsys.readouterr()

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(profile_file.os, "fsync", full)
    assert main([*BRIEF, "--profile", str(path)]) == 2
    said = capsys.readouterr()
    assert "No space left on device" in said.err
    assert "pi" in said.out
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["p.json"]


def test_a_full_disk_for_profile_and_output_alike_still_shows_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(path: Path, pieces: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(profile_file.os, "fsync", lambda descriptor: full(tmp_path, ()))
    monkeypatch.setattr("roofline_probe.report.files._replace", full)
    assert main([*BRIEF, "--profile", str(tmp_path / "p.json"), "--json", str(tmp_path / "x.json")]) == 2
    said = capsys.readouterr()
    assert "power-capped: 1470 of 1980 MHz" in " ".join(said.out.split())
    last = said.err.splitlines()[-1]
    assert "p.json (No space left on device)" in last
    assert "x.json could not be written" in last
    assert "there before" not in last


def test_a_symbolic_link_stays_one_and_its_target_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    target.write_text("before")
    link.symlink_to(target.name)
    assert main([*BRIEF, "--profile", str(link)]) == 0
    assert link.is_symlink()
    assert read(target).complete


def test_a_link_to_itself_is_refused_and_stays(device: FakeDevice, tmp_path: Path) -> None:
    loop = tmp_path / "loop.json"
    loop.symlink_to("loop.json")
    assert main([*BRIEF, "--profile", str(loop)]) == 2
    assert loop.is_symlink()
    assert device.log == []


@pytest.mark.parametrize("named", [True, False], ids=["named", "the device's own"])
def test_a_run_that_measured_nothing_replaces_nothing(
    named: bool, device: FakeDevice, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--profile", str(tmp_path / "p.json")] if named else []
    assert main([*BRIEF, *where]) == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    capsys.readouterr()
    assert main(["measure", "--mode", "gemm", "--dtype", "fp4", *where]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("probe: Nothing was measured (fp4: ")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.json")} == before


def test_a_second_interrupt_while_saving_loses_nothing(
    device: FakeDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = profile_file.save

    def impatient(profile: Profile, path: Path) -> None:
        if profile.trials and not profile.peaks:
            os.kill(os.getpid(), signal.SIGINT)
        save(profile, path)

    device.faults = {"gemm bf16 4096x4096x14336": KeyboardInterrupt()}
    monkeypatch.setattr(device, "release", lambda: os.kill(os.getpid(), signal.SIGINT))
    real = device.sleep

    def interrupted(seconds: float) -> None:
        monkeypatch.setattr(device, "sleep", real)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(device, "sleep", interrupted)
    monkeypatch.setattr(profile_file, "save", impatient)
    assert main([*BRIEF, "--profile", str(tmp_path / "p.json")]) == 130
    assert read(tmp_path / "p.json").trials
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_that_torchs_import_swallows_still_ends_the_run(
    device: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swallowing() -> None:
        with contextlib.suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("roofline_probe.measure.device.require_torch", swallowing)
    assert main(BRIEF) == 130
    assert device.log == []
    assert store.stored() == []


def test_a_busy_device_is_refused_and_force_measures_it(
    device: FakeDevice, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    device.around = Surroundings(users=("python3 (pid 17, 65.0 GiB)",))
    assert main([*BRIEF, "--profile", str(tmp_path / "p.json")]) == 2
    assert "pid 17" in capsys.readouterr().err
    assert main([*BRIEF, "--force", "--profile", str(tmp_path / "p.json")]) == 0
    assert "busy_device" in {w.code for w in read(tmp_path / "p.json").warnings}


def test_predictions_are_scored_unattended_and_never_asked_without_the_flag(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    assert main([*BRIEF, "--profile", str(path)]) == 0
    assert read(path).predictions == []
    assert main([*BRIEF, "--predictions", "70,90,higher,lower", "--profile", str(path)]) == 0
    assert [p.correct is not None for p in read(path).predictions] == [True] * 4


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--mode", "everything"], "gemm, bandwidth or all"),
        (["--tp", "3"], "give 1, 2, 4, 8, 16 or 32"),
        (["--square", "4096,10000000"], "above 1,048,576, the largest size"),
        (["--soak", "0"], "--no-soak"),
        (["--soak", "5", "--no-soak"], "exclude each other"),
        (["--soak", "nan"], "not nan"),
        (["--soak", "inf"], "not inf"),
        (["--soak", "1e400"], "not inf"),
        (["--peak-gbps", "nan"], "--peak-gbps nan"),
        (["--peak-gbps", "inf"], "--peak-gbps inf"),
        (["--peak-gbps", "-1"], "--peak-gbps -1"),
        (["--peak-tflops", "nan"], "--peak-tflops nan"),
        (["--peak-tflops", "bf16=989,fp8=inf"], "fp8=inf"),
        (["--reps", "9" * 30], "--reps"),
        (["--buffer-mib", "9" * 30], "--buffer-mib"),
        (["--m-sweep", "9" * 30], "--m-sweep"),
        (["--dtype", "bf17"], "bf16, fp8"),
        (["--square", "big"], "4096,8192"),
        (["--m-sweep", "0"], "--m-sweep"),
        (["--peak-tflops", "lots"], "989.4"),
        (["--peak-tflops", "1979"], "2:4 sparsity"),
        (["--predict"], "--predictions 80,90,higher,lower"),
        (["--predictions", "80"], "four answers"),
        (["--model", "gpt-99"], "llama-3.1-8b"),
        (["--csv", "-", "--json", "-"], "standard output"),
        (["--profile", "."], "is a folder"),
        (["--profile", os.devnull], "a device or pipe"),
        (["--profile", "/dev/stdout"], "a device or pipe"),
        (["--profile", "/etc/passwd/x.json"], "not to be reached (Not a directory)"),
        (["--dtype", "bf16,"], "missing beside a comma"),
        (["--dtype", "all,xx"], "xx is not a dtype"),
        (["--peak-tflops", "=5"], "989.4"),
        (["--peak-tflops", "bf16=1,bfloat16=2"], "two rates for bf16"),
        (["--peak-tflops", "1,2"], "two rates"),
        (["--plot", "x.jpg"], "x.jpg"),
        (["--csv", "no/such/folder/x.csv"], "no folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_on_the_command_line_is_one_sentence_before_anything_runs(
    arguments: list[str], says: str, device: FakeDevice, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["measure", *arguments]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1
    assert device.log == []


def test_signals_of_two_kinds_at_once_are_one_interrupt(
    device: FakeDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a terminal that closes sends them."""
    both, sleep = [signal.SIGHUP, signal.SIGTERM], device.sleep

    def closing_terminal(seconds: float) -> None:
        monkeypatch.setattr(device, "sleep", sleep)
        signal.pthread_sigmask(signal.SIG_BLOCK, both)
        try:
            for number in both:
                signal.pthread_kill(threading.get_ident(), number)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, both)

    monkeypatch.setattr(device, "sleep", closing_terminal)
    assert main([*BRIEF, "--profile", str(tmp_path / "p.json")]) == 130
    assert read(tmp_path / "p.json").trials
    assert "ignored" not in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
