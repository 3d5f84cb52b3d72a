"""``probe tail URL...`` against small servers on the loopback."""

from __future__ import annotations

import http.server
import json
import signal
import subprocess
import sys
import threading
import time

import pytest

pytest.importorskip("prometheus_client", reason="the extra `fleet` is not installed")

TAIL = [sys.executable, "-c", "import sys; from roofline_probe.cli import main; sys.exit(main())"]
TAIL += ["tail", "--pi", "700", "--beta", "4500", "--json", "--interval", "0.2"]


class Engine:
    """Counters that grow by the clock: 200 TFLOP/s, 2,000 GB/s, 1,000 tokens/s."""

    def __init__(self):
        self.began = time.monotonic()
        self.paths = []
        engine = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                engine.paths.append((self.command, self.path))
                page = engine.page().encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/metrics"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def page(self):
        seconds = time.monotonic() - self.began
        labels = '{engine="0",model_name="llama-3.1-8b"}'
        values = {
            "vllm:estimated_flops_per_gpu_total": seconds * 200e12,
            "vllm:estimated_read_bytes_per_gpu_total": seconds * 1900e9,
            "vllm:estimated_write_bytes_per_gpu_total": seconds * 100e9,
            "vllm:generation_tokens_total": seconds * 1000,
            "vllm:prompt_tokens_total": 0.0,
            "vllm:num_requests_running": 8.0,
            "vllm:num_requests_waiting": 0.0,
            "vllm:kv_cache_usage_perc": 0.4,
        }
        return "".join(f"{name}{labels} {value}\n" for name, value in values.items())

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def engines():
    both = [Engine(), Engine()]
    yield both
    for engine in both:
        engine.close()


def start(*urls):
    return subprocess.Popen([*TAIL, *urls], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)


def test_counters_of_several_addresses_give_steps_and_one_summary(engines):
    urls = [engine.url for engine in engines]
    process = start(*urls)
    steps = [json.loads(process.stdout.readline()) for _ in range(6)]
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert {step["source"] for step in steps} == set(urls)
    for step in steps:
        assert step["kind"] == "decode"
        assert step["gbps"] == pytest.approx(10 * step["tflops"])  # of one window, whatever its length
        assert step["gen_tok_s"] == pytest.approx(5 * step["tflops"])
        assert step["batch"] == 8
    assert "summary" in json.loads(output.splitlines()[-1])
    assert errors == b""


def test_nothing_but_gets_go_to_the_given_path(engines):
    process = start(engines[0].url)
    json.loads(process.stdout.readline())
    process.terminate()
    process.communicate(timeout=60)
    assert set(engines[0].paths) == {("GET", "/metrics")}


def test_a_dead_address_is_named_and_does_not_stop_the_other(engines):
    dead = engines[1].url
    engines[1].server.server_close()
    process = start(engines[0].url, dead)
    said = process.stderr.readline().decode()
    json.loads(process.stdout.readline())
    process.terminate()
    process.communicate(timeout=60)
    assert said.startswith(f"probe: {dead}: ")


def test_an_address_that_never_answers_ends_with_3_or_130_and_a_sentence():
    process = start("http://127.0.0.1:9/metrics")
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.count(b"\n") == 1


def test_tee_has_nothing_to_keep_there(tmp_path):
    result = subprocess.run(
        [*TAIL, "http://127.0.0.1:9/metrics", "--tee", str(tmp_path / "x")], capture_output=True, timeout=60
    )
    assert result.returncode == 2
    assert b"counters have none" in result.stderr
