"""``probe measure`` on this CPU beside a STREAM-style C program, a hand-made torch.mm loop and numpy's BLAS.

    python -m benchmarks.measure_cpu

Each pair is measured in turn, several rounds; a round's figure is the best of its samples, as STREAM's is, and what is
compared is the median of the rounds' ratios: the memory of a shared machine changes by a quarter from one second to the
next. Needs a C compiler with OpenMP for the first part. The load is printed.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROUNDS = 9
MIB = 512
SIZE = 2048


def main() -> None:
    from roofline_probe.measure.device import open_device

    device = open_device("cpu")
    info = device.info()
    print(f"{info.name}, {info.threads} threads, load {os.getloadavg()[0]:.1f}, {device.environment('').blas}\n")
    print("| what | probe measure | beside it | ratio |\n|---|---|---|---|")
    streams(device)
    products(device)


def row(what: str, ours: list[float], theirs: list[float], unit: str, harness: str) -> None:
    """Medians of the rounds, and the median, the lowest and the highest of their ratios."""
    ratios = sorted(a / b for a, b in zip(ours, theirs, strict=True))
    ratio = f"{statistics.median(ratios):.3f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    mine, other = statistics.median(ours), statistics.median(theirs)
    print(f"| {what} | {mine:.1f} {unit} | {other:.1f} {unit} ({harness}) | {ratio} |", flush=True)


def streams(device: object) -> None:
    """Copy and triad, float32, 512 MiB an array: sixteen times this kind of CPU's last-level cache."""
    from roofline_probe.measure.stream import TORCH_IMPLEMENTATIONS, Stream
    from roofline_probe.measure.timing import Limits, measure_median

    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "stream_c"
        source = Path(__file__).parent / "stream_c" / "stream.c"
        build = ["cc", "-O3", "-march=native", "-fopenmp", "-o", str(program), str(source), "-lm"]
        subprocess.run(build, check=True)
        ours: dict[str, list[float]] = {"copy": [], "triad": []}
        theirs: dict[str, list[float]] = {"copy": [], "triad": []}
        for _ in range(ROUNDS):
            output = subprocess.run([str(program), str(MIB), "20"], check=True, capture_output=True, text=True).stdout
            for line in map(json.loads, output.splitlines()):
                theirs[line["kernel"]].append(line["best_gbps"])
            for pattern in ("copy", "triad"):
                trials = [
                    measure_median(
                        device,  # type: ignore[arg-type]
                        Stream(pattern, name, MIB << 20),  # type: ignore[arg-type]
                        Limits(),
                        warmup=1,
                        reps=12,
                    )
                    for name in TORCH_IMPLEMENTATIONS[pattern]
                ]
                ours[pattern].append(max(t.bytes_moved / min(t.seconds) / 1e9 for t in trials))
    for pattern in ("copy", "triad"):
        row(pattern, ours[pattern], theirs[pattern], "GB/s", "C, -O3 -march=native -fopenmp")


def products(device: object) -> None:
    """fp32, 2048 x 2048 x 2048."""
    import numpy
    import torch

    from roofline_probe.measure.gemm import Gemm
    from roofline_probe.measure.timing import Limits, measure_burst

    a, w, out = torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE), torch.empty(SIZE, SIZE)
    x, y, z = a.numpy(), w.numpy().T, numpy.empty((SIZE, SIZE), dtype=numpy.float32)
    gflop = 2 * SIZE**3 / 1e9
    ours, loop, blas = [], [], []
    for _ in range(ROUNDS):
        ours.append(1e3 * (measure_burst(device, Gemm("fp32", SIZE, SIZE, SIZE), Limits()).tflops or 0.0))  # type: ignore[arg-type]
        loop.append(gflop / best_seconds(lambda: torch.mm(a, w.t(), out=out)))
        blas.append(gflop / best_seconds(lambda: numpy.matmul(x, y, out=z)))
    row(f"fp32 GEMM, {SIZE}³", ours, loop, "GFLOP/s", "torch.mm in a loop")
    library = numpy.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"]  # type: ignore[index]
    row(f"fp32 GEMM, {SIZE}³", ours, blas, "GFLOP/s", f"numpy with {library}")


def best_seconds(call: Callable[[], object]) -> float:
    call()
    seconds = []
    for _ in range(6):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


if __name__ == "__main__":
    main()
