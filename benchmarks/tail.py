"""What ``probe tail`` costs the engine beside it, each figure with the limit that it is held to.

    python -m benchmarks.tail [--megabytes 1000] [--gigabytes 10] [--pairs 5] [--seconds 10]

Nothing here needs a GPU. Figures of a busy machine mean little: everything is a process beside another one.
"""

from __future__ import annotations

import argparse
import array
import fcntl
import os
import pty
import statistics
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import make_log

PROBE = [str(Path(sys.executable).with_name("probe")), "tail", "--pi", "683", "--beta", "4590"]
DECODE = (
    "[2026-03-01 12:{:02d}:{:02d}] Decode batch, #running-req: 32, #token: 48000, token usage: 0.12, cuda graph: True, "
    "gen throughput (token/s): 2911.22, #queue-req: 0, est. decode TFLOPS/s (per GPU): 46.31, "
    "est. read BW (GB/s per GPU): 41000.07, est. write BW (GB/s per GPU): 0.43\n"
)
WRITER = """
import os, sys, time
rate, seconds, block = float(sys.argv[1]), float(sys.argv[2]), open(sys.argv[3], "rb").read(1 << 20)
time.sleep(1)  # what an engine meets while probe itself starts is the first figure above
piece, longest, sent, began = 1 << 16, 0.0, 0, time.perf_counter()
while (now := time.perf_counter()) - began < seconds:
    if sent > (now - began) * rate:
        time.sleep(0.0005)
        continue
    start = sent % (len(block) - piece)
    data = memoryview(block)[start : start + piece]
    while data:
        before = time.perf_counter()
        data = data[os.write(1, data):]
        longest = max(longest, time.perf_counter() - before)
    sent += piece
print(longest, sent / seconds, file=sys.stderr)
"""
REPEATER = """
import os, sys
block, wanted = open(sys.argv[1], "rb").read(), float(sys.argv[2])
while wanted > 0:
    data = memoryview(block)
    while data:
        data = data[os.write(1, data):]
    wanted -= len(block)
"""


def report(what: str, value: float, unit: str, limit: float) -> None:
    """One line, one figure."""
    mark = "ok  " if value <= limit else "OVER"
    print(f"{mark} {what:58} {value:10.3f} {unit:5} limit {limit:g}", flush=True)


def first_byte(runs: int) -> None:
    """From exec until the byte that waits in the pipe is gone."""
    seconds = []
    for _ in range(runs):
        read, write = os.pipe()
        os.write(write, b"x")
        began = time.perf_counter()
        process = subprocess.Popen([*PROBE, "--json"], stdin=read, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(read)
        waiting = array.array("i", [1])
        while waiting[0]:
            time.sleep(0.0005)
            fcntl.ioctl(write, termios.FIONREAD, waiting)
        seconds.append(time.perf_counter() - began)
        os.close(write)
        process.wait()
    report(f"first byte consumed after exec, median of {runs}", statistics.median(seconds), "s", 0.35)


def latency(seconds: float, lines_per_s: int = 1000) -> None:
    """From a complete line on stdin to its JSON line on stdout."""
    process = subprocess.Popen([*PROBE, "--json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert process.stdin is not None
    assert process.stdout is not None
    sent: list[float] = []
    taken: list[float] = []
    reader = threading.Thread(target=_take, args=(process.stdout.fileno(), taken))
    reader.start()
    time.sleep(0.5)
    began = time.perf_counter()
    for number in range(int(seconds * lines_per_s)):
        while time.perf_counter() - began < number / lines_per_s:
            time.sleep(0.0002)
        line = DECODE.format(number // 60 % 60, number % 60).encode()
        sent.append(time.perf_counter())
        process.stdin.write(line)
    process.stdin.close()
    reader.join()
    process.wait()
    late = sorted((end - start) * 1e3 for start, end in zip(sent, taken[: len(sent)], strict=True))
    report(f"line in to JSON out at {lines_per_s:,} lines/s, median", statistics.median(late), "ms", 5)
    report(f"line in to JSON out at {lines_per_s:,} lines/s, 99th percentile", late[int(len(late) * 0.99)], "ms", 50)


def _take(fd: int, taken: list[float]) -> None:
    while block := os.read(fd, 1 << 16):
        taken += [time.perf_counter()] * block.count(b"\n")


def through_the_pipe(log: Path, pairs: int) -> None:
    """Against the smallest thing that finds the lines."""
    grep = f"cat {log} | grep --line-buffered 'MFU: ' | cat > /dev/null"
    probe = f"cat {log} | {' '.join(PROBE)} --json > /dev/null"
    ratios = []
    for pair in range(pairs + 1):
        times = [_wall(grep), _wall(probe)] if pair % 2 else [_wall(probe), _wall(grep)][::-1]
        if pair:  # the first warms the page cache
            ratios.append(times[1] / times[0])
            print(f"     grep {times[0]:.3f} s, probe tail {times[1]:.3f} s", flush=True)
    report(
        f"wall time / grep's, {log.stat().st_size / 1e9:.2g} GB, median of {pairs} pairs",
        statistics.median(ratios),
        "x",
        1.25,
    )


def _wall(command: str) -> float:
    began = time.perf_counter()
    subprocess.run(["bash", "-c", command], check=True)
    return time.perf_counter() - began


def memory(log: Path, gigabytes: float) -> None:
    """Peak memory over a long stream, of both processes: what they share is counted once."""
    writer = subprocess.Popen([sys.executable, "-c", REPEATER, str(log), str(gigabytes * 1e9)], stdout=subprocess.PIPE)
    process = subprocess.Popen([*PROBE, "--json"], stdin=writer.stdout, stdout=subprocess.DEVNULL)
    assert writer.stdout is not None
    writer.stdout.close()
    peaks: list[float] = []
    while process.poll() is None:
        peaks.append(sum(_memory_mb(pid) for pid in [process.pid, *_children(process.pid)]))
        time.sleep(0.1)
    writer.wait()
    tenth = len(peaks) // 10
    print(f"     after a tenth of it {max(peaks[: tenth + 1]):.1f} MB, at its end {max(peaks[-tenth - 1 :]):.1f} MB")
    report(f"peak memory over {gigabytes:g} GB", max(peaks), "MB", 60)


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _memory_mb(pid: int) -> float:
    """Proportional set size."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1e3 for line in lines if line.startswith("Pss:")), 0.0)


def stopped_terminal(log: Path, seconds: float) -> None:
    """A terminal that nobody reads; the longest that one write of the engine takes."""
    master, slave = pty.openpty()
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, "50e6", str(seconds), str(log)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process = subprocess.Popen(
        [*PROBE, "--pass"], stdin=writer.stdout, stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm"}
    )
    os.close(slave)
    assert writer.stdout is not None
    assert writer.stderr is not None
    writer.stdout.close()
    longest, rate = (float(word) for word in writer.stderr.read().split())
    threading.Thread(target=_drain, args=(master,), daemon=True).start()
    process.wait()
    report(
        f"longest write of an engine at {rate / 1e6:.0f} MB/s, terminal stopped {seconds:g} s", longest * 1e3, "ms", 50
    )


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 1 << 16):
            pass
    except OSError:
        return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=1000, help="length of the log for the pipe")
    parser.add_argument("--gigabytes", type=float, default=10, help="length of the stream for memory")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log, block = Path(folder) / "server.log", Path(folder) / "block.log"
        make_log.write_log(log, given.megabytes)
        make_log.write_log(block, 64)
        steps: list[Callable[[], None]] = [
            lambda: first_byte(9),
            lambda: latency(given.seconds),
            lambda: through_the_pipe(log, given.pairs),
            lambda: memory(block, given.gigabytes),
            lambda: stopped_terminal(block, given.seconds),
        ]
        for step in steps:
            step()


if __name__ == "__main__":
    main()
