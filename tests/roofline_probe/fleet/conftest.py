"""A small server that answers GETs from a table, and pages in the engines' own words."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from roofline_probe.profile import Beta, DeviceInfo, Environment, Peak, Profile

METRICS = Path(__file__).resolve().parents[3] / "fixtures" / "metrics"

Respond = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class Replay:
    """A server whose pages a test sets while it runs; it records what it was asked."""

    server: ThreadingHTTPServer
    pages: dict[str, bytes | Respond] = field(default_factory=dict)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/metrics"


def _handler(replay: Callable[[], Replay]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            replay().requests.append((self.command, self.path, dict(self.headers)))
            answer = replay().pages.get(self.path)
            if answer is None:
                self.send_error(404)
            elif callable(answer):
                answer(self)
            else:
                send(self, answer)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def send(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
    handler.send_header("Content-Length", str(len(body)))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up in the middle are what some tests are about."""


@contextmanager
def _servers() -> Iterator[Callable[[], Replay]]:
    servers: list[ThreadingHTTPServer] = []

    def start() -> Replay:
        holder: list[Replay] = []
        server = _QuietServer(("127.0.0.1", 0), _handler(lambda: holder[0]))
        holder.append(Replay(server))
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return holder[0]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def new_server() -> Iterator[Callable[[], Replay]]:
    with _servers() as start:
        yield start


@pytest.fixture(scope="module")
def module_server() -> Iterator[Callable[[], Replay]]:
    with _servers() as start:
        yield start


@pytest.fixture
def replay(new_server: Callable[[], Replay]) -> Replay:
    return new_server()


@pytest.fixture
def respond() -> Callable[..., None]:
    return send


@pytest.fixture(scope="session")
def captured() -> Callable[[str], bytes]:
    def read(name: str) -> bytes:
        return (METRICS / name).read_bytes()

    return read


@pytest.fixture
def vllm_page() -> Callable[..., bytes]:
    return _vllm_page


@pytest.fixture
def sglang_page() -> Callable[..., bytes]:
    return _sglang_page


def _vllm_page(
    engine: str = "0", model: str = "m", born: float | None = None, drop: tuple[str, ...] = (), **values: float
) -> bytes:
    """One engine's series; ``values`` by short name (``flops=1e12``), everything else 0."""
    names = {
        "flops": "estimated_flops_per_gpu_total",
        "read": "estimated_read_bytes_per_gpu_total",
        "write": "estimated_write_bytes_per_gpu_total",
        "prompt": "prompt_tokens_total",
        "gen": "generation_tokens_total",
        "first": "time_to_first_token_seconds_count",
        "steps": "iteration_tokens_total_count",
        "queries": "prefix_cache_queries_total",
        "hits": "prefix_cache_hits_total",
        "running": "num_requests_running",
        "waiting": "num_requests_waiting",
        "kv": "kv_cache_usage_perc",
    }
    labels = f'{{engine="{engine}",model_name="{model}"}}'
    lines = [f"vllm:{long}{labels} {values.get(short, 0.0)}" for short, long in names.items() if short not in drop]
    if born is not None:
        lines.append(f"process_start_time_seconds {born}")
    return ("\n".join(lines) + "\n").encode()


def _sglang_page(labels: str = 'tp_rank="0",pp_rank="0",moe_ep_rank="0"', **values: float) -> bytes:
    names = {
        "flops": "estimated_flops_per_gpu_total",
        "read": "estimated_read_bytes_per_gpu_total",
        "write": "estimated_write_bytes_per_gpu_total",
        "running": "num_running_reqs",
        "queue": "num_queue_reqs",
        "kv": "token_usage",
        "context": "num_used_tokens",
    }
    base = f'engine_type="unified",model_name="m",{labels}'
    lines = [f"sglang:{long}{{{base}}} {values.get(short, 0.0)}" for short, long in names.items()]
    for short, mode in (("computed", "prefill_compute"), ("cached", "prefill_cache"), ("gen", "decode")):
        lines.append(f'sglang:realtime_tokens_total{{{base},mode="{mode}"}} {values.get(short, 0.0)}')
    return ("\n".join(lines) + "\n").encode()


@pytest.fixture(scope="session")
def make_profile() -> Callable[..., Profile]:
    return _make_profile


def _make_profile(
    name: str, *, pi: float = 683.0, read: float = 4650.0, index: int = 0, sustained: bool = True, betas: bool = True
) -> Profile:
    """A measured card: burst pi 820, sustained ``pi`` TFLOP/s, read ``read`` and triad 4,400 GB/s."""
    peaks = [Peak(dtype="bf16", regime="burst", tflops=820.0, implementation="torch.mm", m=8192, n=8192, k=8192)]
    if sustained:
        peaks.append(
            Peak(dtype="bf16", regime="sustained", tflops=pi, implementation="torch.mm", m=8192, n=8192, k=8192)
        )
    return Profile(
        schema_version=1,
        method_version=1,
        created="2026-11-29T14:00:00+00:00",
        device=DeviceInfo(kind="cuda", name=name, index=index, uuid=f"GPU-{index:08x}"),
        environment=Environment(probe_version="0.1.0", command_line="probe measure", python="3.11", platform="Linux"),
        peaks=peaks,
        betas=[
            Beta(pattern="triad", gbps=4400.0, implementation="triton", array_bytes=1 << 30),
            Beta(pattern="read", gbps=read, implementation="triton", array_bytes=1 << 30),
        ]
        if betas
        else [],
    )
