"""One GET: credentials, TLS, redirects, time-outs, and a sentence for everything that can go wrong."""

from __future__ import annotations

import base64
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from roofline_probe.errors import UsageError
from roofline_probe.fleet import scrape
from roofline_probe.fleet.scrape import ScrapeFailed, Scraper, authorization, metrics_address


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        pytest.param("http://host:8000", "http://host:8000/metrics", id="no-path"),
        pytest.param("http://host:8000/", "http://host:8000/metrics", id="slash"),
        pytest.param("https://host/vllm/metrics?x=1", "https://host/vllm/metrics?x=1", id="own-path"),
        pytest.param("http://[::1]:8000", "http://[::1]:8000/metrics", id="ipv6"),
    ],
)
def test_address_gets_the_usual_path_only_where_it_has_none(given: str, asked: str) -> None:
    assert metrics_address(given) == asked


@pytest.mark.parametrize(
    "given",
    ["file:///etc/passwd", "host:8000", "ftp://host/metrics", "http://", "http://host:port/", "http://host:99999/"],
)
def test_what_is_no_http_address_is_refused(given: str) -> None:
    with pytest.raises(UsageError, match="is not a metrics address"):
        metrics_address(given)


def test_a_password_in_the_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError, match="PROBE_METRICS_USER") as refusal:
        metrics_address("http://me:hunter2@host/metrics")
    assert "hunter2" not in str(refusal.value)


def test_bearer_token_wins_over_user_and_password() -> None:
    basic = {"PROBE_METRICS_USER": "me", "PROBE_METRICS_PASSWORD": "pä:ss"}

    assert authorization({}) is None
    assert authorization({**basic, "PROBE_METRICS_BEARER_TOKEN": "t0ken\n"}) == "Bearer t0ken"
    header = authorization(basic)
    assert header is not None
    assert base64.b64decode(header.removeprefix("Basic ")).decode() == "me:pä:ss"


def test_only_a_get_with_the_given_credentials_is_sent_over_one_connection(replay: Any) -> None:
    connections: set[Any] = set()

    def page(handler: BaseHTTPRequestHandler) -> None:
        connections.add(handler.client_address)
        handler.send_response(200)
        handler.send_header("Content-Length", "2")
        handler.end_headers()
        handler.wfile.write(b"ok")

    replay.pages["/metrics"] = page
    scraper = Scraper(replay.url, "Bearer abc")

    assert [scraper.get(5)[0] for _ in range(3)] == [b"ok"] * 3

    assert len(connections) == 1
    assert {(method, path) for method, path, _ in replay.requests} == {("GET", "/metrics")}
    assert all(headers["Authorization"] == "Bearer abc" for _, _, headers in replay.requests)
    assert all("gzip" not in headers.get("Accept-Encoding", "") for _, _, headers in replay.requests)


def test_an_idle_connection_that_the_server_closed_is_no_failure(replay: Any, respond: Callable[..., None]) -> None:
    def once(handler: BaseHTTPRequestHandler) -> None:
        respond(handler, b"ok")
        handler.close_connection = True  # without having said "Connection: close"

    replay.pages["/metrics"] = once
    scraper = Scraper(replay.url)

    assert scraper.get(5)[0] == b"ok"
    time.sleep(0.05)
    assert scraper.get(5)[0] == b"ok"


def test_proxy_variables_are_ignored(replay: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    replay.pages["/metrics"] = b"ok"

    assert Scraper(replay.url).get(5)[0] == b"ok"


def test_redirect_on_the_same_host_is_followed(replay: Any, respond: Callable[..., None]) -> None:
    replay.pages["/metrics"] = lambda handler: respond(handler, b"", 307, Location="/metrics/")
    replay.pages["/metrics/"] = b"ok"

    assert Scraper(replay.url).get(5)[0] == b"ok"


def test_redirect_to_another_host_is_not_followed_and_leaks_no_token(
    new_server: Any, respond: Callable[..., None]
) -> None:
    here, elsewhere = new_server(), new_server()
    elsewhere.pages["/metrics"] = b"ok"
    here.pages["/metrics"] = lambda handler: respond(handler, b"", 302, Location=elsewhere.url)

    with pytest.raises(ScrapeFailed, match="redirects to another host"):
        Scraper(here.url, "Bearer secret").get(5)

    assert elsewhere.requests == []


def test_redirects_in_a_circle_end(replay: Any, respond: Callable[..., None]) -> None:
    replay.pages["/metrics"] = lambda handler: respond(handler, b"", 302, Location="/metrics")

    with pytest.raises(ScrapeFailed, match="in a circle"):
        Scraper(replay.url).get(5)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        pytest.param(401, "PROBE_METRICS_BEARER_TOKEN", id="unauthorized"),
        pytest.param(403, "PROBE_METRICS_BEARER_TOKEN", id="forbidden"),
        pytest.param(404, "--enable-metrics", id="missing"),
        pytest.param(503, "answered 503", id="unhealthy"),
    ],
)
def test_other_answers_are_one_sentence(replay: Any, respond: Callable[..., None], status: int, words: str) -> None:
    replay.pages["/metrics"] = lambda handler: respond(handler, b"no", status)

    with pytest.raises(ScrapeFailed, match=words):
        Scraper(replay.url).get(5)


def test_nobody_there_is_one_sentence() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    with pytest.raises(ScrapeFailed, match="refuses connections"):
        Scraper(f"http://127.0.0.1:{port}/metrics").get(5)


def test_a_silent_target_times_out(replay: Any) -> None:
    release = threading.Event()
    replay.pages["/metrics"] = lambda handler: release.wait(10)

    with pytest.raises(ScrapeFailed, match=r"did not answer within 0\.2 s"):
        Scraper(replay.url).get(0.2)
    release.set()


def test_a_body_that_trickles_is_cut_at_the_total_time(replay: Any) -> None:
    def trickle(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        for _ in range(200):
            handler.wfile.write(b"x")
            time.sleep(0.05)

    replay.pages["/metrics"] = trickle

    with pytest.raises(ScrapeFailed, match="did not answer within"):
        Scraper(replay.url).get(0.3)


def test_half_a_page_does_not_pass_for_a_whole_one(replay: Any) -> None:
    def cut(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"vllm:num_requests_running 1\n")
        handler.close_connection = True

    replay.pages["/metrics"] = cut

    with pytest.raises(ScrapeFailed, match="broke off"):
        Scraper(replay.url).get(5)


def test_an_endless_page_is_refused(replay: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrape, "MAX_BODY_BYTES", 1 << 20)
    replay.pages["/metrics"] = b"#" * (1 << 21)

    with pytest.raises(ScrapeFailed, match="larger than 1 MiB"):
        Scraper(replay.url).get(5)


def test_something_that_is_not_http_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            connection, _ = server.accept()
            connection.recv(1000)
            connection.sendall(b"220 mail ESMTP\r\n")
            connection.close()

        threading.Thread(target=greet, daemon=True).start()
        with pytest.raises(ScrapeFailed, match="does not speak HTTP"):
            Scraper(f"http://127.0.0.1:{server.getsockname()[1]}/metrics").get(5)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("makes a certificate with the openssl command, which is not here")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
         "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


def test_tls_is_verified_and_ssl_cert_file_is_how_a_private_authority_is_trusted(
    replay: Any, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(*map(str, certificate))
    replay.server.socket = server_side.wrap_socket(replay.server.socket, server_side=True)
    replay.pages["/metrics"] = b"ok"
    url = replay.url.replace("http:", "https:")

    with pytest.raises(ScrapeFailed, match=r"not trusted .* set SSL_CERT_FILE"):
        Scraper(url, tls=ssl.create_default_context()).get(5)
    with pytest.raises(ScrapeFailed):
        Scraper(replay.url).get(5)  # plain HTTP spoken to a TLS port

    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    assert Scraper(url, tls=ssl.create_default_context()).get(5)[0] == b"ok"
