"""What the fleet side costs: scraping many engines, reading many logs on more than one core, and memory meanwhile.

    python -m benchmarks.fleet [scrape] [workers] [memory] [--logs 12] [--megabytes 100] [--pairs 5] [--files 1000]

Everything is on this machine. Figures of a busy machine mean little; pairs are run alternately and their median counts.
"""

from __future__ import annotations

import argparse
import gzip
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.make_log import write_log
from roofline_probe.analysis import Options
from roofline_probe.fleet.cluster import Fleet, compare_many
from roofline_probe.fleet.metrics import MetricsSource

PAGE = Path(__file__).parent.parent / "fixtures/metrics/vllm/0.24.0-h200-graph-1s-after-batch-256.prom"
OPTIONS = Options(pi_tflops=683.0, beta_gbps=4590.0)
SERVER = """
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
page = open(sys.argv[1], "rb").read()
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)
    def log_message(self, *_): pass
class Server(ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 512
server = Server(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


def scrape(targets: int = 200, times: int = 5) -> None:
    """Seconds to ask and parse ``targets`` pages as large as a real vLLM's; limit 5 s."""
    with subprocess.Popen([sys.executable, "-c", SERVER, str(PAGE)], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        urls = [f"http://127.0.0.1:{port}/metrics?target={i}" for i in range(targets)]
        seconds = []
        with MetricsSource(urls, interval_s=30, timeout_s=30) as source:
            for _ in range(times):
                began = time.perf_counter()
                readings = source.scrape()
                seconds.append(time.perf_counter() - began)
                assert all(reading.problem is None for reading in readings), readings
        server.terminate()
    first, *later = seconds
    print(
        f"scrape: {targets} targets of {PAGE.stat().st_size:,} bytes: {first:.2f} s with connecting, "
        f"then {statistics.median(later):.2f} s (limit 5 s)"
    )


def workers(logs: int, megabytes: float, pairs: int) -> None:
    """How much faster two workers are than one on ``.gz`` logs, cluster start apart; limit 1.7 x."""
    with tempfile.TemporaryDirectory(prefix="probe-bench-") as name:
        folder = Path(name)
        write_log(folder / "plain", megabytes)
        packed = gzip.compress((folder / "plain").read_bytes(), 6)
        (folder / "plain").unlink()
        for i in range(logs):
            (folder / f"node{i:02d}.log.gz").write_bytes(packed)
        ratios = []
        for _ in range(pairs):
            one, two = (_timed(folder, n) for n in (1, 2))
            ratios.append(one.read_s / two.read_s)
            print(
                f"workers: 1: {one.read_s:.2f} s, 2: {two.read_s:.2f} s, ratio {ratios[-1]:.2f}; "
                f"cluster start {one.start_s:.2f} and {two.start_s:.2f} s"
            )
    print(f"workers: {logs} logs of {megabytes:g} MB, median ratio {statistics.median(ratios):.2f} (limit 1.7)")


def _timed(folder: Path, count: int) -> Fleet:
    return compare_many([str(folder / "*.log.gz")], None, OPTIONS, workers=count)


def memory(files: int, megabytes: float = 10.0, distinct: int = 10) -> None:
    """Largest resident set of the client and of its workers while ``files`` logs are read, early and late."""
    with tempfile.TemporaryDirectory(prefix="probe-bench-") as name:
        folder = Path(name)
        for i in range(distinct):
            write_log(folder / f"log{i:05d}.log", megabytes, seed=i)
        for i in range(distinct, files):  # the same bytes under another name: a thousand files cost no disk
            os.link(folder / f"log{i % distinct:05d}.log", folder / f"log{i:05d}.log")
        watch = _Watch()
        fleet = compare_many([str(folder / "*.log")], None, OPTIONS, workers=2, progress=watch.progress)
        watch.stop()
    early, late = watch.peaks(0.0, 0.2), watch.peaks(0.8, 1.0)
    print(
        f"memory: {len(fleet.rows):,} rows of {files:,} logs x {megabytes:g} MB in {fleet.read_s:.1f} s; "
        f"largest process {early[0]:.0f} MB in the first fifth, {late[0]:.0f} MB in the last; "
        f"all processes together {early[1]:.0f} and {late[1]:.0f} MB"
    )


class _Watch:
    """Resident memory of this process and its children, sampled while the work goes on."""

    def __init__(self) -> None:
        self._done = 0.0
        self._samples: list[tuple[float, float, float]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def progress(self, done: int, total: int) -> None:
        self._done = done / total

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def peaks(self, low: float, high: float) -> tuple[float, float]:
        """(largest process, all processes) in MB while between ``low`` and ``high`` of the work was done."""
        chosen = [(one, together) for done, one, together in self._samples if low <= done <= high]
        return max(one for one, _ in chosen), max(together for _, together in chosen)

    def _run(self) -> None:
        import psutil

        me = psutil.Process()
        while not self._ended.wait(0.1):
            sizes = []
            for process in [me, *me.children(recursive=True)]:
                try:
                    sizes.append(process.memory_info().rss / 1e6)
                except psutil.NoSuchProcess:
                    continue
            self._samples.append((self._done, max(sizes), sum(sizes)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", choices=["scrape", "workers", "memory", []], default=[])
    parser.add_argument("--logs", type=int, default=12)
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--files", type=int, default=1000)
    given = parser.parse_args()
    wanted = given.what or ["scrape", "workers", "memory"]
    if "scrape" in wanted:
        scrape()
    if "workers" in wanted:
        workers(given.logs, given.megabytes, given.pairs)
    if "memory" in wanted:
        memory(given.files)


if __name__ == "__main__":
    main()
