"""The third roof: what the link between cards carries, through torch.distributed, one process a card.

Tensor parallelism runs two all-reduces a layer; at decode their messages are small and their time is latency. Engines
replay them inside a CUDA graph, so that small ones are timed in one where the backend allows it (``cuda-graph``), and
by the host's clock around a block of calls (``host``) where it does not. Each collective's result is checked before it
is timed.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from roofline_probe import roofline
from roofline_probe.measure.device import require_torch
from roofline_probe.profile import Link, LinkPoint

SIZES = tuple(1 << power for power in (13, 14, 16, 18, 20, 22, 24, 26, 28, 30))
"""8 KiB to 1 GiB."""
CPU_SIZES = SIZES[:6]
_GRAPH_BYTES = 16 << 20
_BLOCKS = 5
_BLOCK_S = 4e-3
_PATIENCE_S = 150.0
COLLECTIVES = ("all_reduce", "all_gather", "point_to_point")


def measure_link(kind: str, ranks: int, say: Callable[[str], None] = lambda text: None) -> Link:
    """Latency and bus bandwidth over message sizes. ``kind`` is ``cuda``, ``rocm`` or ``cpu`` (gloo).

    A rank that hangs or dies ends the measurement after a while; what was measured by then is returned.
    """
    require_torch()
    backend = "gloo" if kind == "cpu" else "nccl"
    context = multiprocessing.get_context("spawn")
    results: Any = context.Queue()
    with tempfile.TemporaryDirectory(prefix="roofline-probe-") as folder:
        meeting = (Path(folder) / "ranks").as_uri()
        processes = [
            context.Process(target=_rank, args=(rank, ranks, backend, meeting, results), daemon=True)
            for rank in range(ranks)
        ]
        for process in processes:
            process.start()
        points = _collect(results, processes, say)
        for process in processes:
            process.join(timeout=5)
            if process.is_alive():
                process.terminate()
    return Link(backend=backend, ranks=ranks, topology=topology(kind, ranks), points=points)


def _collect(results: Any, processes: Any, say: Callable[[str], None]) -> list[LinkPoint]:
    found: dict[tuple[str, int], LinkPoint] = {}
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        try:
            item = results.get(timeout=0.5)
        except queue.Empty:
            if not any(process.is_alive() for process in processes):
                break
            continue
        if item is None:
            break
        point = LinkPoint(**item)
        say(f"{point.collective} {point.message_bytes} B, {point.timer}")
        key = point.collective, point.message_bytes
        # A graph replay leaves the launches out, as an engine does; it stands in for the eager time.
        found[key] = point
    return sorted(found.values(), key=lambda p: (COLLECTIVES.index(p.collective), p.message_bytes))


def bus_gbps(collective: str, message_bytes: int, seconds: float, ranks: int) -> float:
    """Bytes that one rank must send, over time: comparable across collectives and numbers of ranks."""
    sent = {
        "all_reduce": roofline.ring_all_reduce_bytes(message_bytes, ranks),
        "all_gather": message_bytes * (ranks - 1) / ranks,
        "point_to_point": float(message_bytes),
    }[collective]
    return sent / seconds / 1e9


def topology(kind: str, ranks: int) -> str | None:
    """How the cards are joined, in words; None where nothing tells."""
    if kind == "cpu":
        return "host memory"
    torch = require_torch()
    peers = all(torch.cuda.can_device_access_peer(0, other) for other in range(1, ranks))
    links = _nvlinks() if kind == "cuda" else 0
    if links:
        return f"NVLink, {links} links a card"
    return "PCIe, peer to peer" if peers else "PCIe, through the host"


def _nvlinks() -> int:
    """Active NVLinks of the first card."""
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    except Exception:  # absent or forbidden: the topology is then told without it
        return 0
    active = 0
    for index in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            active += int(pynvml.nvmlDeviceGetNvLinkState(handle, index) == pynvml.NVML_FEATURE_ENABLED)
        except pynvml.NVMLError:
            break
    return active


class _Rank:
    """One process of the group."""

    def __init__(self, rank: int, ranks: int, backend: str) -> None:
        self.torch = require_torch()
        self.dist = __import__("torch.distributed", fromlist=["distributed"])
        self.rank, self.ranks = rank, ranks
        self.on_card = backend == "nccl"
        self.where = f"cuda:{rank}" if self.on_card else "cpu"
        if self.on_card:
            self.torch.cuda.set_device(rank)

    def operation(self, collective: str, message_bytes: int) -> tuple[Callable[[], object], Callable[[], bool]]:
        """A call of the collective, and whether its first result was right."""
        torch, dist = self.torch, self.dist
        count = message_bytes // 2
        if collective == "all_reduce":
            data = torch.full((count,), float(self.rank + 1), dtype=torch.bfloat16, device=self.where)
            wanted = self.ranks * (self.ranks + 1) / 2
            return lambda: dist.all_reduce(data), lambda: bool((data == wanted).all())
        if collective == "all_gather":
            part = torch.full((count // self.ranks,), float(self.rank + 1), dtype=torch.bfloat16, device=self.where)
            whole = torch.zeros(count // self.ranks * self.ranks, dtype=torch.bfloat16, device=self.where)
            gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # renamed in torch 2.13
            return lambda: gather(whole, part), lambda: float(whole[-1]) == self.ranks
        data = torch.full((count,), float(self.rank + 1), dtype=torch.bfloat16, device=self.where)
        if self.rank > 1:
            return lambda: None, lambda: True
        if self.rank == 0:
            return lambda: dist.send(data, 1), lambda: True
        return lambda: dist.recv(data, 0), lambda: float(data[-1]) == 1.0

    def wait(self) -> None:
        if self.on_card:
            self.torch.cuda.synchronize()

    def seconds(self, replay: Callable[[], object], calls: int) -> float:
        """Median seconds of one call over blocks of ``calls`` calls."""
        found = []
        for _ in range(_BLOCKS):
            self.dist.barrier()
            self.wait()
            begin = time.perf_counter()
            for _ in range(calls):
                replay()
            self.wait()
            found.append((time.perf_counter() - begin) / calls)
        return statistics.median(found)


def _rank(rank: int, ranks: int, backend: str, meeting: str, results: Any) -> None:
    """A process of the group: eager times of everything first, then graph replays of the small messages."""
    # Point to point here is meant to run alone; torch 2.11 would say on stderr that it does.
    os.environ.setdefault("TORCH_NCCL_SHOW_EAGER_INIT_P2P_SERIALIZATION_WARNING", "false")
    me = _Rank(rank, ranks, backend)
    extra = {"device_id": me.torch.device(me.where)} if me.on_card else {}
    me.dist.init_process_group(backend, init_method=meeting, rank=rank, world_size=ranks, **extra)
    try:
        for collective in COLLECTIVES:
            for size in SIZES if me.on_card else CPU_SIZES:
                _tell(results, me, collective, size, _eager(me, collective, size), "host")
        for collective in COLLECTIVES[:2] if me.on_card else ():
            for size in SIZES:
                if size <= _GRAPH_BYTES:
                    _tell(results, me, collective, size, _in_graph(me, collective, size), "cuda-graph")
        me.dist.barrier()
    finally:
        if rank == 0:
            results.put(None)
    me.dist.destroy_process_group()


def _tell(results: Any, me: _Rank, collective: str, size: int, seconds: float | None, timer: str) -> None:
    if me.rank == 0 and seconds is not None:
        bus = bus_gbps(collective, size, seconds, me.ranks)
        results.put(
            {"collective": collective, "message_bytes": size, "seconds": seconds, "bus_gbps": bus, "timer": timer}
        )


def _eager(me: _Rank, collective: str, size: int) -> float | None:
    call, is_right = me.operation(collective, size)
    call()
    me.wait()
    if not _all_agree(me, is_right()):
        return None
    calls = _calls(me, me.seconds(call, 2))
    return me.seconds(call, calls)


def _in_graph(me: _Rank, collective: str, size: int) -> float | None:
    """A graph of twenty calls, replayed: the launches of twenty are then one."""
    call, is_right = me.operation(collective, size)
    call()
    me.wait()
    if not _all_agree(me, is_right()):
        return None
    graph = me.torch.cuda.CUDAGraph()
    # The group's watchdog thread may query events meanwhile, which a capture in the default mode forbids all threads.
    with me.torch.cuda.graph(graph, capture_error_mode="thread_local"):
        for _ in range(20):
            call()
    graph.replay()
    me.wait()
    replays = _calls(me, me.seconds(graph.replay, 2))
    return me.seconds(graph.replay, replays) / 20


def _calls(me: _Rank, once: float) -> int:
    """How many calls fill a block; rank 0 decides, for all must make equally many."""
    count = me.torch.tensor([max(2, min(200, round(_BLOCK_S / max(once, 1e-7))))], device=me.where)
    me.dist.broadcast(count, 0)
    return int(count.item())


def _all_agree(me: _Rank, right: bool) -> bool:
    flag = me.torch.tensor([int(right)], device=me.where)
    me.dist.all_reduce(flag, op=me.dist.ReduceOp.MIN)
    return bool(flag.item())
