"""A real Prometheus scrapes recorded counters, runs the rules, and answers every query of the dashboard."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("grafana_foundation_sdk", reason="needs grafana-foundation-sdk (Python 3.11 or later)")

from roofline_probe.fleet.dashboard import dashboard_json
from roofline_probe.fleet.roofs import card_roofs
from roofline_probe.fleet.rules import rule_file, to_yaml
from roofline_probe.workloads import MODELS

pytestmark = [
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not here (Debian's package has it)"),
    pytest.mark.slow,
]

REPLAY_S = 60.0
"""How long it takes to go from one recorded page to the next one, about as long as it took the servers."""
RUNNING = 128.0
FULL_WINDOW = " and on () (min(count_over_time(up[6s])) >= 11)"
"""A rate over a range that scrapes do not fill yet is too low."""


@dataclass(frozen=True)
class Prometheus:
    url: str

    def get(self, path: str, **query: str) -> Any:
        with urllib.request.urlopen(f"{self.url}{path}?{urllib.parse.urlencode(query)}", timeout=10) as answer:
            return json.load(answer)["data"]

    def value(self, query: str) -> list[dict[str, Any]]:
        result: list[dict[str, Any]] = self.get("/api/v1/query", query=query)["result"]
        return result

    def wait_for(self, query: str, seconds: float = 60) -> list[dict[str, Any]]:
        deadline = time.monotonic() + seconds
        while not (result := self.value(query)):
            assert time.monotonic() < deadline, f"Prometheus has no data for {query}"
            time.sleep(0.2)
        return result


def in_between(before: bytes, after: bytes, busy: dict[str, float]) -> Callable[[Any], None]:
    """A page that moves from one recorded page to the next at a steady pace.

    The recorded gauges are those of a server that had just finished; ``busy`` gives what they were while it ran.
    """
    began = time.monotonic()
    old = dict(line.rsplit(" ", 1) for line in before.decode().splitlines() if not line.startswith("#"))

    def moved(line: str, share: float) -> str:
        series, _, value = line.rpartition(" ")
        name = series.split("{", 1)[0]
        if name in busy:
            return f"{series} {busy[name]}"
        if line.startswith("#") or not name.endswith(("_total", "_count", "_sum", "_bucket")):
            return line
        start = float(old.get(series, 0.0))
        return f"{series} {start + share * (float(value) - start)!r}"

    def page(handler: Any) -> None:
        share = (time.monotonic() - began) / REPLAY_S
        body = "\n".join(moved(line, share) for line in after.decode().splitlines() if line) + "\n"
        handler.send_response(200)
        handler.send_header("Content-Type", "text/plain; version=0.0.4")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body.encode())

    return page


@pytest.fixture(scope="module")
def prometheus(
    tmp_path_factory: pytest.TempPathFactory,
    module_server: Callable[[], Any],
    captured: Callable[[str], bytes],
    make_profile: Callable[..., Any],
) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    vllm, sglang = module_server(), module_server()
    vllm.pages["/metrics"] = in_between(
        captured("vllm/0.24.0-h200-graph-1s-after-batch-1.prom"),
        captured("vllm/0.24.0-h200-graph-1s-after-batch-256.prom"),
        {"vllm:num_requests_running": RUNNING},
    )
    sglang.pages["/metrics"] = in_between(
        captured("sglang/0.5.16-h200-bf16-after-batch-8.prom"),
        captured("sglang/0.5.16-h200-bf16-after-batch-256.prom"),
        {"sglang:num_running_reqs": RUNNING},
    )
    roofs = card_roofs([make_profile("NVIDIA H200")])
    rules = rule_file(roofs, window="5s", model=MODELS["llama-3.1-8b"])
    (folder / "probe.rules.yml").write_text(to_yaml(rules, roofs, label="gpu", has_model=True))
    jobs = [
        {"job_name": name, "static_configs": [{"targets": [f"127.0.0.1:{server.port}"]}]}
        for name, server in (("vllm", vllm), ("sglang", sglang))
    ]
    (folder / "prometheus.yml").write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
                "rule_files": ["probe.rules.yml"],
                "scrape_configs": jobs,
            }
        )
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with open(folder / "prometheus.log", "wb") as log:
        process = subprocess.Popen(
            ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
             f"--web.listen-address=127.0.0.1:{port}"],
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        server = Prometheus(f"http://127.0.0.1:{port}")
        _wait_until_ready(server, process, folder / "prometheus.log")
        yield server
    finally:
        process.terminate()
        process.wait(20)


def _wait_until_ready(server: Prometheus, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(f"{server.url}/-/ready", timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)


def dashboard_queries() -> list[str]:
    panels = json.loads(dashboard_json())["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    assert len(queries) > 10
    return [query.replace("$gpu", ".*").replace("$instance", ".*") for query in queries]


@pytest.mark.parametrize("query", dashboard_queries())
def test_every_query_of_the_dashboard_has_data(prometheus: Prometheus, query: str) -> None:
    assert prometheus.wait_for(query)


def test_dashboard_choices_are_filled_from_recorded_series(prometheus: Prometheus) -> None:
    variables = json.loads(dashboard_json())["templating"]["list"]
    asked = [re.fullmatch(r"label_values\((\S+), (\w+)\)", v["query"]) for v in variables if v["type"] == "query"]

    for match in asked:
        assert match is not None
        prometheus.wait_for(match[1])
        assert prometheus.get(f"/api/v1/label/{match[2]}/values", **{"match[]": match[1]})


def gained(captured: Callable[[str], bytes], engine: str, before: str, after: str, series: str) -> float:
    """What a recorded counter gained from one page to the other."""
    first, last = (
        next(float(line.rsplit(" ", 1)[1]) for line in page.decode().splitlines() if re.match(series, line))
        for page in (captured(f"{engine}/{before}"), captured(f"{engine}/{after}"))
    )
    return last - first


def test_vllm_fraction_is_what_the_recorded_counters_say(
    prometheus: Prometheus, captured: Callable[[str], bytes]
) -> None:
    pages = ("0.24.0-h200-graph-1s-after-batch-1.prom", "0.24.0-h200-graph-1s-after-batch-256.prom")
    read = gained(captured, "vllm", *pages, "vllm:estimated_read_bytes_per_gpu_total")

    (series,) = prometheus.wait_for('probe:beta_fraction:rate{server="vllm"}' + FULL_WINDOW)

    assert series["metric"]["gpu"] == "NVIDIA H200"
    assert float(series["value"][1]) == pytest.approx(read / REPLAY_S / 4.65e12, rel=0.25)


def test_sglang_fraction_charges_the_weights_per_step(prometheus: Prometheus, captured: Callable[[str], bytes]) -> None:
    pages = ("0.5.16-h200-bf16-after-batch-8.prom", "0.5.16-h200-bf16-after-batch-256.prom")
    read = gained(captured, "sglang", *pages, "sglang:estimated_read_bytes_per_gpu_total")
    decoded = gained(captured, "sglang", *pages, "sglang:realtime_tokens_total.*decode")
    prefilled = gained(captured, "sglang", *pages, "sglang:realtime_tokens_total.*prefill_compute")
    linear, head = 6_979_321_856, 525_336_576
    true = read - 2 * linear * (decoded + prefilled) + 2 * (linear + head) * decoded / RUNNING

    (series,) = prometheus.wait_for('probe:beta_fraction:rate{server="sglang"}' + FULL_WINDOW)

    assert float(series["value"][1]) == pytest.approx(true / REPLAY_S / 4.65e12, rel=0.25)


def test_every_rule_is_healthy(prometheus: Prometheus) -> None:
    prometheus.wait_for("probe:roof_fraction:rate")

    rules = [rule for group in prometheus.get("/api/v1/rules")["groups"] for rule in group["rules"]]

    assert [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] == "err"] == []
    assert sum(rule["health"] == "ok" for rule in rules) == len(rules)
