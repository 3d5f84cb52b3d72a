"""Many logs at once: the same figures as one by one, bad files named, nothing else stopped."""

from __future__ import annotations

import builtins
import csv
import io
import json
import logging
import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import log_parsers
from roofline_probe import store
from roofline_probe.analysis import Options, analyse
from roofline_probe.errors import NothingUsable, UsageError
from roofline_probe.fleet import cluster, document
from roofline_probe.fleet.cluster import FileResult, Fleet, Headline, Job, compare_many, expand, is_address, read_log
from roofline_probe.headline import headline
from roofline_probe.profile import Profile
from roofline_probe.report.console import make_console
from roofline_probe.report.fleet_view import print_fleet
from roofline_probe.select import Selection

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
GRAPH = FIXTURES / "logs/vllm/0.24.0-h200-graph-1s.log"
STEADY = FIXTURES / "logs/vllm/0.24.0-h200-steady-10s.log"
DP2 = FIXTURES / "logs/vllm/0.32.0-cpu-dp2.log"
SGLANG = FIXTURES / "logs/sglang/0.5.16-h200.log"


@pytest.fixture(scope="module")
def h200() -> Profile:
    return store.load(str(FIXTURES / "profiles/h200-reference.json"))[0]


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    distributed = pytest.importorskip("distributed", reason="needs dask")
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=2,
        processes=False,  # starting processes takes seconds; the tests of the local cluster do that
        protocol="tcp",
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    ) as running:
        yield running.scheduler_address


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three good logs in two subfolders, one without statistics, one whose file is gone."""
    root = tmp_path_factory.mktemp("logs")
    for name, log in {"a/graph.log": GRAPH, "a/steady.log": STEADY, "b/sglang.log": SGLANG}.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(log.read_bytes())
    (root / "b/empty.log").write_text("INFO nothing of interest\n")
    (root / "b/gone.log").symlink_to(root / "b/nowhere")
    return root


@pytest.fixture(scope="module")
def fleet(scheduler: str, folder: Path, h200: Profile) -> Fleet:
    return compare_many([str(folder / "**/*.log")], h200, cluster=scheduler)


def test_rows_are_those_of_each_log_read_alone(fleet: Fleet, h200: Profile, folder: Path) -> None:
    alone = analyse(log_parsers.parse(str(folder / "a/graph.log")), h200)
    assert alone.roof is not None

    (row,) = [row for row in fleet.rows if row.path.endswith("graph.log")]

    assert row.kinds == alone.summary.kinds
    assert row.headlines["decode"].fraction == headline(alone.summary.kinds[0], alone.roof)[0]
    assert (row.engine, row.model) == ("vllm", "/models/Meta-Llama-3-8B-Instruct")


def test_files_without_statistics_are_named_and_stop_nothing(fleet: Fleet) -> None:
    failures = {os.path.basename(file.path): file.failure for file in fleet.failures}

    assert failures.keys() == {"empty.log", "gone.log"}
    assert failures["gone.log"] == "It could not be read (No such file or directory)."
    assert {os.path.basename(row.path) for row in fleet.rows} == {"graph.log", "steady.log", "sglang.log"}


def test_ranks_get_a_row_each(h200: Profile) -> None:
    result = read_log(Job(h200, Options(), None), (str(DP2),))

    assert [row.rank for row in result.rows] == ["0", "1"]


def test_a_log_behind_a_url_is_streamed_from_its_file_system(h200: Profile) -> None:
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://fleet/node1.log", "wb") as file:
        file.write(STEADY.read_bytes())

    (parts,) = expand(["memory://fleet/*.log"])
    result = read_log(Job(h200, Options(), None), parts)

    local = read_log(Job(h200, Options(), None), (str(STEADY),))
    assert result.failure is None
    assert [row.kinds for row in result.rows] == [row.kinds for row in local.rows]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(lambda path: path.mkdir(), "could not be read", id="directory"),
        pytest.param(lambda path: None, "could not be read", id="gone-meanwhile"),
        pytest.param(lambda path: path.write_bytes(os.urandom(5000)), "", id="random-bytes"),
    ],
)
def test_whatever_is_wrong_with_a_file_is_a_sentence(tmp_path: Path, h200: Profile, make: Any, words: str) -> None:
    path = tmp_path / "x.log"
    make(path)

    result = read_log(Job(h200, Options(), None), (str(path),))

    assert result.rows == ()
    assert result.failure is not None
    assert words in result.failure


def test_a_fault_of_ours_in_one_file_becomes_its_failure(monkeypatch: pytest.MonkeyPatch, h200: Profile) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(cluster, "analyse", broken)

    assert read_log(Job(h200, Options(), None), (str(STEADY),)).failure == (
        "It could not be judged (ZeroDivisionError: division by zero)."
    )


def test_a_worker_that_dies_costs_its_own_file_only(h200: Profile, tmp_path: Path) -> None:
    """One file's task ends its process, as the kernel does when memory is out."""
    names = ["a.log", "b.log", "deadly.log", "c.log", "d.log"]
    for name in names:
        (tmp_path / name).write_bytes(STEADY.read_bytes())

    def kill(point: Any) -> bool:
        if point.step.source.endswith("deadly.log"):
            os._exit(1)
        return True

    options = Options(selection=Selection(where=kill))
    fleet = compare_many([str(tmp_path / name) for name in names], h200, options, workers=2)

    assert [os.path.basename(file.path) for file in fleet.failures] == ["deadly.log"]
    assert "Its worker ended" in str(fleet.failures[0].failure)
    assert [os.path.basename(row.path) for row in fleet.rows] == ["a.log", "b.log", "c.log", "d.log"]


def test_nothing_usable_at_all_is_said_with_the_first_reason(scheduler: str, folder: Path, h200: Profile) -> None:
    with pytest.raises(NothingUsable, match=r"None of the 1 logs could be judged; the first, .*empty\.log"):
        compare_many([str(folder / "b/empty.log")], h200, cluster=scheduler)


def test_nobody_at_the_scheduler_address_is_one_sentence(
    h200: Profile, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setattr(cluster, "CONNECT_S", 0.5)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"

    with pytest.raises(UsageError, match="does not answer"):
        compare_many([str(folder / "a/*.log")], h200, cluster=address)


@pytest.mark.parametrize("address", ["junk://x", "scheduler", ""])
def test_what_is_no_scheduler_address_is_refused_at_once(h200: Profile, folder: Path, address: str) -> None:
    with pytest.raises(UsageError, match="not the address of a Dask scheduler"):
        compare_many([str(folder / "a/*.log")], h200, cluster=address)


def test_without_dask_one_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch, h200: Profile) -> None:
    real_import = builtins.__import__

    def missing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name in ("distributed", "dask"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)

    with pytest.raises(UsageError, match=r"roofline-probe\[fleet\]"):
        compare_many([str(STEADY)], h200)


@pytest.mark.parametrize(
    ("patterns", "words"),
    [
        pytest.param(["nowhere/**/*.log"], "No such file", id="no-match"),
        pytest.param(["-"], "leave --cluster out", id="stdin"),
        pytest.param(["memory://nothing/*.log"], "nothing matches", id="no-url-match"),
        pytest.param(["warp://x/*.log"], "warp", id="unknown-scheme"),
    ],
)
def test_patterns_that_name_nothing_are_refused(patterns: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        expand(patterns)


def test_a_url_whose_package_is_missing_names_it() -> None:
    fsspec = pytest.importorskip("fsspec")
    error = "Install no_such_package"
    fsspec.register_implementation("needy", "no_such_package.FileSystem", clobber=True, errtxt=error)

    with pytest.raises(UsageError, match=r"needs a package that is not installed .*no_such_package"):
        expand(["needy://bucket/*.log"])


def test_rotated_parts_are_one_log(tmp_path: Path) -> None:
    for name in ("server.log", "server.log.1", "server.log.2.gz", "other.log"):
        (tmp_path / name).write_text("")

    logs = [tuple(os.path.basename(part) for part in parts) for parts in expand([str(tmp_path)])]

    assert sorted(logs) == [("other.log",), ("server.log.2.gz", "server.log.1", "server.log")]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("tcp://10.0.0.1:8786", True),
        ("scheduler.example:8786", True),
        ("logs/a.log", False),
        ("s3://bucket/a.log", False),
        ("vllm.log", False),
    ],
)
def test_scheduler_addresses_are_told_from_logs(text: str, address: bool) -> None:
    assert is_address(text) is address


def test_json_has_distribution_rows_and_failures(fleet: Fleet) -> None:
    parsed = json.loads(document.to_json(fleet, "h200"))

    assert parsed["kinds"]["decode"]["distribution"]["count"] == 3
    assert parsed["kinds"]["decode"]["slowest"][0]["fraction"] == parsed["kinds"]["decode"]["distribution"]["low"]
    assert {os.path.basename(file["path"]) for file in parsed["files"] if file["failure"]} == {
        "empty.log",
        "gone.log",
    }


def test_csv_has_one_line_a_log_rank_and_kind(fleet: Fleet) -> None:
    rows = list(csv.DictReader(io.StringIO(b"".join(document.csv_pieces(fleet)).decode())))

    assert len(rows) == sum(len(row.kinds) for row in fleet.rows)
    assert {row["kind"] for row in rows} >= {"decode", "prefill"}


@pytest.mark.parametrize("width", [80, 140])
def test_view_shows_the_fleet_and_what_could_not_be_judged(
    fleet: Fleet, width: int, capsys: pytest.CaptureFixture[str]
) -> None:
    print_fleet(fleet, make_console(width=width), profile_name="h200")

    shown = capsys.readouterr().out
    assert "median" in shown
    assert "a/graph.log" in shown
    assert "empty.log" in shown
    assert max(map(len, shown.splitlines())) <= width


def test_view_names_relative_and_absolute_paths_side_by_side(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    row = fleet.rows[0]
    files = tuple(FileResult(path, rows=(replace(row, path=path),)) for path in ("a.log", "/logs/b.log"))

    print_fleet(Fleet(files, workers=1, start_s=1.0, read_s=1.0), make_console(width=100), profile_name="h200")

    shown = capsys.readouterr().out
    assert "a.log" in shown
    assert "/logs/b.log" in shown


def test_of_two_rows_no_spread_is_made_up_and_the_size_has_a_fitting_unit(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    files = tuple(FileResult(path, rows=(fleet.rows[0],), bytes_read=273_500) for path in ("a.log", "b.log"))

    print_fleet(Fleet(files, workers=1, start_s=1.0, read_s=1.0), make_console(width=100), profile_name="h200")

    shown = capsys.readouterr().out
    assert "lowest" in shown
    assert "median" not in shown
    assert "10 %" not in shown
    assert "547 kB of text" in shown


def test_of_many_logs_only_the_slowest_and_the_odd_are_shown(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    """Sixty copies of one row, one of them at half and one above every roof."""
    model = next(row for row in fleet.rows if row.path.endswith("steady.log"))

    def node(i: int, fraction: float) -> FileResult:
        path = f"/logs/rack{i % 6}/node{i:02d}.log"
        row = replace(model, path=path, headlines={"decode": Headline(fraction, "attained")})
        return FileResult(path, rows=(row,))

    usual = [node(i, 0.85 + i / 10_000) for i in range(58)]
    many = Fleet((*usual, node(58, 0.43), node(59, 1.31)), workers=2, start_s=1.0, read_s=10.0)

    print_fleet(many, make_console(width=100), profile_name="h200")

    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in shown if line.strip().startswith("odd")] == [
        "rack5/node59.log",
        "rack4/node58.log",
    ]
    assert [line.split()[1] for line in shown if line.strip().startswith("slowest")][:2] == [
        "rack4/node58.log",
        "rack0/node00.log",
    ]
    assert not any(line.strip().startswith("rack") for line in shown), "rows are not listed one by one"
