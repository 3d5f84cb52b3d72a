"""How fast ``probe compare`` reads a long log, beside grep, ripgrep and zgrep, as whole processes.

    python -m benchmarks.logs [--gigabytes 1] [--longer 4] [--pairs 5] [--only vllm sglang slope gz rotated]

Ours and the peer run alternately on files in the page cache; the figure is the median of the pairs' ratios. The machine
should have nothing else to do.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks import report
from benchmarks.make_log import write_log

PROFILE = Path(__file__).parent.parent / "fixtures/profiles/h200-reference.json"
PROBE = str(Path(sys.executable).with_name("probe"))
NEEDLE = {"vllm": "MFU: ", "sglang": "Decode batch"}
UTF8 = {**os.environ, "LC_ALL": "C.UTF-8"}


class Run(NamedTuple):
    """What one process took."""

    seconds: float
    peak_mb: float


def run(command: list[str]) -> Run:
    """Run a command to its end, which must be a good one."""
    with tempfile.TemporaryFile() as out:  # not /dev/null: there grep stops at the first match
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, env=UTF8)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return Run(seconds, usage.ru_maxrss / 1000)


def compare(*logs: Path) -> list[str]:
    out = str(logs[0].parent / "out.json")
    return [PROBE, "compare", *map(str, logs), "--profile", str(PROFILE), "--json", out]


def peers(log: Path, engine: str) -> dict[str, list[str]]:
    """The searches that count the statistics lines, as far as they are installed."""
    commands = {
        "grep": ["grep", "-c", NEEDLE[engine], str(log)],
        "rg": ["rg", "-c", NEEDLE[engine], str(log)],
        "zgrep": ["zgrep", "-c", NEEDLE[engine], str(log)],
    }
    wanted = ["zgrep"] if log.suffix == ".gz" else ["grep", "rg"]
    for name in wanted:
        if shutil.which(name) is None:
            print(f"skip {name} is not installed, so nothing is compared with it", flush=True)
    return {name: commands[name] for name in wanted if shutil.which(name)}


def ratios(ours: list[str], theirs: list[str], pairs: int) -> tuple[float, float, float]:
    """Median of ours/theirs, and the medians of both, in seconds; one pair before them fills the caches."""
    run(theirs), run(ours)
    taken = [(run(ours).seconds, run(theirs).seconds) for _ in range(pairs)]
    return tuple(statistics.median(column) for column in zip(*((a / b, a, b) for a, b in taken), strict=True))  # type: ignore[return-value]


def against(what: str, ours: list[str], theirs: list[str], pairs: int, limit: float) -> None:
    ratio, our_s, their_s = ratios(ours, theirs, pairs)
    report(f"{what} ({our_s:.3f} s / {their_s:.3f} s)", ratio, "x", limit)


def one_file(engine: str, folder: Path, gigabytes: float, pairs: int) -> None:
    log = folder / f"{engine}.log"
    write_log(log, gigabytes * 1000, engine)
    for name, command in peers(log, engine).items():
        limit = {"grep": 1.0, "rg": 4.0}[name]
        against(f"{engine}, {gigabytes:g} GB: compare / {name} -c", compare(log), command, pairs, limit)
    report(f"{engine}, {gigabytes:g} GB: peak memory", run(compare(log)).peak_mb, "MB", 250)
    log.unlink()


def slope(folder: Path, short: float, long: float, pairs: int) -> None:
    """Seconds that each further gigabyte takes."""
    logs = {size: folder / f"{size:g}.log" for size in (short, long)}
    for size, log in logs.items():
        write_log(log, size * 1000)
    if "rg" in peers(logs[short], "vllm"):
        per_gb = []
        for _ in range(pairs):
            ours, theirs = (
                [run(command).seconds for command in commands]
                for commands in (
                    [compare(log) for log in logs.values()],
                    [peers(log, "vllm")["rg"] for log in logs.values()],
                )
            )
            per_gb.append(((ours[1] - ours[0]) / (long - short), (theirs[1] - theirs[0]) / (long - short)))
        our_s, their_s = (statistics.median(column) for column in zip(*per_gb, strict=True))
        what = f"slope {short:g} to {long:g} GB: compare / rg -c ({our_s:.3f} / {their_s:.3f} s/GB)"
        report(what, our_s / their_s, "x", 2.0)
    report(f"{long:g} GB: peak memory", run(compare(logs[long])).peak_mb, "MB", 250)
    for log in logs.values():
        log.unlink()


def packed(folder: Path, gigabytes: float, pairs: int) -> None:
    log, archive = folder / "plain.log", folder / "server.log.gz"
    write_log(log, gigabytes * 1000)
    with log.open("rb") as plain, gzip.open(archive, "wb", compresslevel=6) as out:
        shutil.copyfileobj(plain, out, 1 << 20)
    log.unlink()
    for name, command in peers(archive, "vllm").items():
        against(f"gz, {gigabytes:g} GB: compare / {name} -c", compare(archive), command, min(pairs, 3), 0.5)
    report(f"gz, {gigabytes:g} GB: peak memory", run(compare(archive)).peak_mb, "MB", 250)
    archive.unlink()


def rotated(folder: Path, gigabytes: float, pairs: int, count: int = 100) -> None:
    """The same bytes as one file and as a hundred rotated ones."""
    log, parts = folder / "whole.log", folder / "rotated"
    parts.mkdir()
    write_log(log, gigabytes * 1000)
    size = log.stat().st_size // count + 1
    with log.open("rb") as whole:
        for number in reversed(range(count)):
            text = whole.read(size) + whole.readline()
            (parts / ("server.log" + (f".{number}" if number else ""))).write_bytes(text)
    against(f"{count} rotated files / one of the same size", compare(parts), compare(log), pairs, 1.05)
    shutil.rmtree(parts)
    log.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1)
    parser.add_argument("--longer", type=float, default=4)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=["vllm", "sglang", "slope", "gz", "rotated"])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        everything: dict[str, Callable[[], None]] = {
            "vllm": lambda: one_file("vllm", folder, given.gigabytes, given.pairs),
            "sglang": lambda: one_file("sglang", folder, given.gigabytes, given.pairs),
            "slope": lambda: slope(folder, given.gigabytes, given.longer, min(given.pairs, 3)),
            "gz": lambda: packed(folder, given.gigabytes, given.pairs),
            "rotated": lambda: rotated(folder, given.gigabytes, given.pairs),
        }
        for what in given.only or everything:
            everything[what]()


if __name__ == "__main__":
    main()
