"""One GET of one ``/metrics`` address: total time-out, TLS, credentials from the environment, no other host ever asked.

The standard library's client does this in few lines, and its connection can be kept open between scrapes. Proxy
variables are ignored on purpose, as Prometheus ignores them: nothing but the given addresses is contacted.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import socket
import ssl
import time
from collections.abc import Mapping
from urllib.parse import SplitResult, urljoin, urlsplit

from roofline_probe.errors import UsageError

BEARER_VARIABLE = "PROBE_METRICS_BEARER_TOKEN"
USER_VARIABLE = "PROBE_METRICS_USER"
PASSWORD_VARIABLE = "PROBE_METRICS_PASSWORD"

MAX_BODY_BYTES = 64 << 20
"""A vLLM page is about 60 kB; a page a thousand times that is not an engine's."""
_MAX_REDIRECTS = 3
_REDIRECTS = (301, 302, 303, 307, 308)
_PIECE_BYTES = 1 << 16
_DEFAULT_PORTS = {"http": 80, "https": 443}


class ScrapeFailed(Exception):
    """One sentence about one target: what happened and what to try. Never stops the other targets."""


def metrics_address(url: str) -> str:
    """``url`` as it is asked for: ``http(s)`` only, ``/metrics`` where no path is given.

    Raises:
        UsageError: no such address, or one that carries a password, which would show in process lists and reports.
    """
    try:
        parts = urlsplit(url)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        port_is_valid, parts = False, SplitResult("", "", "", "", "")
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or not port_is_valid:
        raise UsageError(f"{url!r} is not a metrics address; give one like http://host:8000/metrics.")
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            f"The address of {parts.hostname} carries a user name or password; "
            f"set {USER_VARIABLE} and {PASSWORD_VARIABLE} (or {BEARER_VARIABLE}) in the environment instead."
        )
    return parts._replace(path=parts.path if parts.path not in ("", "/") else "/metrics", fragment="").geturl()


def authorization(environ: Mapping[str, str]) -> str | None:
    """The ``Authorization`` header that the environment asks for: a bearer token, else user and password, else None."""
    if token := environ.get(BEARER_VARIABLE):
        return f"Bearer {token.strip()}"
    if (user := environ.get(USER_VARIABLE)) is not None:
        pair = f"{user}:{environ.get(PASSWORD_VARIABLE, '')}"
        return "Basic " + base64.b64encode(pair.encode()).decode("ascii")
    return None


class Scraper:
    """The connection to one target, kept open between scrapes. Used by one thread at a time.

    ``abort`` may be called from another thread: a target that trickles its answer byte by byte restarts every socket
    time-out, and only closing its socket ends that.
    """

    def __init__(self, address: str, authorization: str | None = None, *, tls: ssl.SSLContext | None = None) -> None:
        self.address = address
        self._authorization = authorization
        self._tls = tls
        self._connection: http.client.HTTPConnection | None = None

    def get(self, timeout_s: float) -> tuple[bytes, float]:
        """The body, and the monotonic second at which the answer began (when the server had its figures ready).

        Raises:
            ScrapeFailed: unreachable, refused, too slow, too large, not trusted, redirected elsewhere, or not a 200.
        """
        deadline = time.monotonic() + timeout_s
        try:
            return self._follow(deadline)
        except ScrapeFailed:
            self.close()
            raise
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise ScrapeFailed(_sentence(error, timeout_s)) from None

    def abort(self) -> None:
        """End a read that is under way in another thread."""
        connection = self._connection
        sock = None if connection is None else connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection; the next ``get`` opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _follow(self, deadline: float) -> tuple[bytes, float]:
        address = self.address
        for _ in range(_MAX_REDIRECTS + 1):
            response = self._request(address, deadline)
            began = time.monotonic()
            body = _read(response, self._connection, deadline)
            if response.status == http.client.OK:
                return body, began
            if response.status not in _REDIRECTS:
                raise ScrapeFailed(_status_sentence(response.status))
            address = _same_origin(address, response.headers.get("Location", ""))
        raise ScrapeFailed("It redirects in a circle; give the final address.")

    def _request(self, address: str, deadline: float) -> http.client.HTTPResponse:
        reused = self._connection is not None
        try:
            return self._send(address, deadline)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            if not reused:
                raise
            self.close()  # the server had closed the idle connection: that is no failure of the target
            return self._send(address, deadline)

    def _send(self, address: str, deadline: float) -> http.client.HTTPResponse:
        parts = urlsplit(address)
        remaining = _remaining(deadline)
        if self._connection is None:
            self._connection = self._connect(parts, remaining)
        elif self._connection.sock is not None:
            self._connection.sock.settimeout(remaining)
        headers = {"Accept": "text/plain;version=0.0.4", "User-Agent": "roofline-probe"}
        if self._authorization is not None:
            headers["Authorization"] = self._authorization
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._connection.request("GET", target, headers=headers)
        return self._connection.getresponse()

    def _connect(self, parts: SplitResult, timeout_s: float) -> http.client.HTTPConnection:
        host = parts.hostname or ""
        if parts.scheme == "https":
            return http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=self._tls)
        return http.client.HTTPConnection(host, parts.port, timeout=timeout_s)


def _remaining(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _read(response: http.client.HTTPResponse, connection: http.client.HTTPConnection | None, deadline: float) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := response.read1(_PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_BODY_BYTES:
            raise ScrapeFailed(f"Its answer is larger than {MAX_BODY_BYTES >> 20} MiB; is this an engine's /metrics?")
        if connection is not None and connection.sock is not None:
            connection.sock.settimeout(_remaining(deadline))
    if response.length:  # read1 ends quietly at a lost connection; half a page must not pass for a whole one
        raise http.client.IncompleteRead(b"", response.length)
    response.close()  # frees the connection for the next request
    return b"".join(pieces)


def _same_origin(address: str, location: str) -> str:
    target = urljoin(address, location)
    if not location or _origin(target) != _origin(address):
        raise ScrapeFailed("It redirects to another host, which is not asked; give the final address yourself.")
    return target


def _origin(address: str) -> tuple[str, str | None, int | None]:
    try:
        parts = urlsplit(address)
        return parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return "", None, None


def _status_sentence(status: int) -> str:
    if status in (401, 403):
        return (
            f"It answered {status} (not authorized); set {BEARER_VARIABLE}, or {USER_VARIABLE} and {PASSWORD_VARIABLE}."
        )
    if status == http.client.NOT_FOUND:
        return "It answered 404 (nothing there); check the path, and start SGLang with --enable-metrics."
    return f"It answered {status}; is the engine healthy?"


def _sentence(error: Exception, timeout_s: float) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message
        return f"Its certificate is not trusted ({reason}); set SSL_CERT_FILE to your authority's certificates."
    if isinstance(error, ssl.SSLError):
        return "TLS could not be set up; is this address http instead of https?"
    if isinstance(error, TimeoutError):
        return f"It did not answer within {timeout_s:g} s; is it overloaded, or behind a firewall?"
    if isinstance(error, socket.gaierror):
        return "Its host name is not known; check the address."
    if isinstance(error, ConnectionRefusedError):
        return "It refuses connections; is the server running on that port?"
    if isinstance(error, http.client.IncompleteRead):
        return "Its answer broke off; the next scrape tries again."
    if isinstance(error, http.client.HTTPException):
        return "It does not speak HTTP as expected; is this address https instead of http?"
    detail = error.strerror if isinstance(error, OSError) and error.strerror else "connection lost"
    return f"It could not be read ({detail}); the next scrape tries again."
