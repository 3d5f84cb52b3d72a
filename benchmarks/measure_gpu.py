"""Puts ``probe measure`` beside other harnesses on the same card; none of the code below is the tool's own.

    python -m benchmarks.measure_gpu PROFILE.json [SECOND.json] --out FOLDER

``PROFILE.json`` was written by ``probe measure`` on this card just before (``SECOND.json`` by a second run). Sections:
``search`` (a broad search of GEMM shapes, each after the same rest), ``soak`` (30 s of the best shape found),
``stream`` (a CUDA C++ program), ``small`` (M=1 in a hand-made CUDA graph), ``seed`` (event pairs around single calls),
``repeat``.
Needs a GPU, torch and, for ``stream``, nvcc.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

ONLY_BY_NAME = True
REST_S = 0.3
BLOCK_S = 5e-3
BLOCKS = 5
DIMENSIONS = (2048, 3072, 4096, 5120, 6144, 7168, 8192, 8448, 9472, 10240, 11264, 12288, 14336, 16384, 16896, 20480)
FLOP_RANGE = (3e11, 6e12)
SOAK_S = 30.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profiles", nargs="+", type=Path)
    parser.add_argument("--sections", default="repeat,stream,small,seed,search,soak")
    parser.add_argument("--shapes", type=int, default=510)
    parser.add_argument("--dtypes", default="bf16,fp8")
    parser.add_argument("--out", type=Path, default=Path("."))
    arguments = parser.parse_args()
    profiles = [json.loads(path.read_text()) for path in arguments.profiles]
    state: dict[str, Any] = {}
    rows: list[tuple[str, str, str, str]] = []
    for name in arguments.sections.split(","):
        begin = time.perf_counter()
        rows += SECTIONS[name](profiles, arguments, state)
        state.setdefault("seconds", {})[name] = round(time.perf_counter() - begin, 1)
        (arguments.out / "measure_gpu.json").write_text(json.dumps(state, indent=1))
        print_table(rows)


def print_table(rows: list[tuple[str, str, str, str]]) -> None:
    print("\n| what | probe measure | beside it | ratio |\n|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def peak(profile: Any, dtype: str, regime: str) -> float | None:
    found = [p["tflops"] for p in profile["peaks"] if p["dtype"] == dtype and p["regime"] == regime]
    return max(found, default=None)


def compared(what: str, ours: float | None, theirs: float, unit: str, harness: str) -> tuple[str, str, str, str]:
    if ours is None:
        return what, "not measured", f"{theirs:.4g} {unit} ({harness})", "–"
    return what, f"{ours:.4g} {unit}", f"{theirs:.4g} {unit} ({harness})", f"{ours / theirs:.4f}"


class Product:
    """A GEMM by hand: weights [N, K] (the layout engines use) or, for bf16, also [K, N]."""

    def __init__(self, dtype: str, m: int, n: int, k: int, transposed: bool = True) -> None:
        import torch

        self.flops = 2 * m * n * k
        a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        w = torch.randn(n, k, device="cuda", dtype=torch.bfloat16)
        out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        if dtype == "fp8":
            a8, w8 = a.to(torch.float8_e4m3fn), w.to(torch.float8_e4m3fn)
            one = torch.ones((), device="cuda")
            self.call = lambda: torch._scaled_mm(
                a8, w8.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True, out=out
            )
        else:
            b = w.t() if transposed else w.t().contiguous()
            self.call = lambda: torch.mm(a, b, out=out)

    def blocks(self, blocks: int, calls: int) -> list[float]:
        """Seconds of one call in each block, between events."""
        import torch

        marks = [torch.cuda.Event(enable_timing=True) for _ in range(blocks + 1)]
        marks[0].record()
        for mark in marks[1:]:
            for _ in range(calls):
                self.call()
            mark.record()
        torch.cuda.synchronize()
        return [a.elapsed_time(b) / 1e3 / calls for a, b in itertools.pairwise(marks)]

    def burst_tflops(self) -> float:
        once = min(self.blocks(2, 1))
        time.sleep(REST_S)
        return self.flops / min(self.blocks(BLOCKS, max(1, -int(-BLOCK_S // once)))) / 1e12


def broad_search(profiles: Any, arguments: Any, state: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Random order, so that heat is not mistaken for shape."""
    import torch

    grid = [
        s for s in itertools.product(DIMENSIONS, repeat=3) if FLOP_RANGE[0] <= 2 * s[0] * s[1] * s[2] <= FLOP_RANGE[1]
    ]
    rows = []
    for dtype in arguments.dtypes.split(","):
        chosen = random.Random(20090401).sample(grid, arguments.shapes)
        found = []
        for m, n, k in chosen:
            found.append((Product(dtype, m, n, k).burst_tflops(), (m, n, k)))
        found.sort(reverse=True)
        # The best ten again, for bf16 in both layouts of the weight: a broad search deserves its own best layout.
        again = [(Product(dtype, *s, transposed=t).burst_tflops(), s) for _, s in found[:10] for t in (True, False)]
        best = max(found[0], max(again))
        state[f"search_{dtype}"] = {"shapes": len(found), "best": best, "top": found[:20], "again": again}
        ours = peak(profiles[0], dtype, "burst")
        rows.append(compared(f"burst pi, {dtype}", ours, best[0], "TFLOP/s", f"best of {len(found)} shapes: {best[1]}"))
        torch.cuda.empty_cache()
    return rows


def soak(profiles: Any, arguments: Any, state: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """30 s without a pause of the best shape found; the mean of the last 20 s."""
    rows = []
    for dtype in arguments.dtypes.split(","):
        shape = state.get(f"search_{dtype}", {}).get("best", (0, (8192, 8192, 8192)))[1]
        product = Product(dtype, *shape)
        calls = max(1, round(0.25 / min(product.blocks(2, 1))))
        windows, begin = [], time.perf_counter()
        while time.perf_counter() - begin < SOAK_S:
            seconds = product.blocks(1, calls)[0]
            windows.append((time.perf_counter() - begin, seconds))
        late = [seconds for at, seconds in windows if at >= SOAK_S / 3]
        rate = product.flops * len(late) / sum(late) / 1e12
        state[f"soak_{dtype}"] = {"shape": shape, "tflops": rate, "windows": windows}
        ours = peak(profiles[0], dtype, "sustained")
        rows.append(compared(f"sustained pi, {dtype}", ours, rate, "TFLOP/s", f"30 s soak of {tuple(shape)}"))
    return rows


def stream(profiles: Any, arguments: Any, state: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """The CUDA C++ program at 1, 2 and 4 GiB an array; its best over all sizes and launch shapes."""
    source = Path(__file__).parent / "stream_c" / "stream.cu"
    program = arguments.out / "stream_cuda"
    subprocess.run(["nvcc", "-O3", "-arch=sm_90", "-o", str(program), str(source)], check=True)
    lines: list[dict[str, Any]] = []
    for mib in ("1024", "2048", "4096"):
        output = subprocess.run([str(program), mib, "25"], check=True, capture_output=True, text=True).stdout
        lines += [json.loads(line) for line in output.splitlines()]
    program.unlink()
    state["stream"] = lines
    rows = []
    for pattern in ("copy", "triad", "read", "write"):
        best = max((line for line in lines if line["kernel"] == pattern), key=lambda line: line["gbps"])
        ours = max((b["gbps"] for b in profiles[0]["betas"] if b["pattern"] == pattern), default=None)
        where = f"CUDA C++, {best['mib']} MiB, block {best['block']}"
        rows.append(compared(pattern, ours, best["gbps"], "GB/s", where))
    return rows


def small(profiles: Any, arguments: Any, state: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """M=1 through each projection: a CUDA graph by hand over eight weights, in turn."""
    import torch

    rows = []
    trials = [t for t in profiles[0]["trials"] if t["kernel"] == "gemm" and t.get("m") == 1 and t["dtype"] == "bf16"]
    for trial in trials:
        n, k = trial["n"], trial["k"]
        x = torch.randn(1, k, device="cuda", dtype=torch.bfloat16)
        weights = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16) for _ in range(8)]
        out = torch.empty(1, n, device="cuda", dtype=torch.bfloat16)
        torch.mm(x, weights[0].t(), out=out)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(25):
                for w in weights:
                    torch.mm(x, w.t(), out=out)
        graph.replay()
        seconds = []
        for _ in range(15):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            seconds.append(begin.elapsed_time(end) / 1e3 / 200)
        theirs = statistics.median(seconds)
        state.setdefault("small", []).append({"n": n, "k": k, "ours": trial["seconds_used"], "theirs": theirs})
        rows.append(compared(f"M=1 [{k}, {n}]", trial["seconds_used"] * 1e6, theirs * 1e6, "µs", "graph by hand"))
    return rows


def seed(profiles: Any, arguments: Any, state: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """The seed's method: one event pair a call, ten warm-ups, median of 25, best shape of its sweep."""
    import torch

    begin = time.perf_counter()
    layer = ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336))
    shapes = [(d, d, d) for d in (512, 1024, 2048, 4096, 8192, 16384)]
    shapes += [(m, n, k) for n, k in layer for m in (1, 8, 32, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)]
    rates = {}
    for shape in shapes:
        product = Product("bf16", *shape)
        product.blocks(1, 10)
        rates[shape] = product.flops / statistics.median(product.blocks(25, 1)) / 1e12
    arrays = [torch.randn(1 << 26, device="cuda") for _ in range(3)]
    copies = timed(lambda: arrays[1].copy_(arrays[0]), 2 * arrays[0].nbytes)
    triads = timed(lambda: torch.add(arrays[0], arrays[1], alpha=0.4, out=arrays[2]), 3 * arrays[0].nbytes)
    best = max(rates, key=lambda s: rates[s])
    took = time.perf_counter() - begin
    state["seed"] = {"best": best, "tflops": rates[best], "copy": copies, "triad": triads, "seconds": took}
    ours = peak(profiles[0], "bf16", "burst")
    row = compared("bf16, the seed's method", ours, rates[best], "TFLOP/s", f"event pairs, {best}, {took:.1f} s in all")
    beta = max(b["gbps"] for b in profiles[0]["betas"] if b["pattern"] == "copy")
    return [row, compared("copy, the seed's method", beta, copies, "GB/s", "event pairs, 256 MiB")]


def timed(call: Any, bytes_moved: int) -> float:
    import torch

    seconds = []
    for index in range(35):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        if index >= 10:
            seconds.append(begin.elapsed_time(end) / 1e3)
    return bytes_moved / statistics.median(seconds) / 1e9


def repeat(profiles: Any, arguments: Any, state: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Two runs of the tool on the same card."""
    if len(profiles) < 2:
        return []
    rows = []
    for dtype in ("bf16", "fp8"):
        for regime in ("burst", "sustained"):
            ours, again = (peak(p, dtype, regime) for p in profiles[:2])
            if ours and again:
                rows.append(compared(f"{regime} pi, {dtype}, run again", ours, again, "TFLOP/s", "second run"))
    return rows


SECTIONS = {"search": broad_search, "soak": soak, "stream": stream, "small": small, "seed": seed, "repeat": repeat}

if __name__ == "__main__":
    main()
