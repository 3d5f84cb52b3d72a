"""A headless Chromium spoken to over a pipe (its DevTools protocol): what a page logs, asks for and draws."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-sync",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip


def find_chromium() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page at a time; ``events`` holds everything the protocol told about it."""

    def __init__(self, write_fd: int, read_fd: int) -> None:
        self.write_fd, self.read_fd = write_fd, read_fd
        self.buffer = b""
        self.number = 0
        self.session: str | None = None
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, timeout: float = 60.0, **params: Any) -> dict[str, Any]:
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.write_fd, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + timeout
        while True:
            answer = self.receive(deadline)
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return dict(answer["result"])
            self.events.append(answer)

    def receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            if not select.select([self.read_fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError("Chromium did not answer")
            chunk = os.read(self.read_fd, 1 << 20)
            if not chunk:
                raise EOFError("Chromium has gone")
            self.buffer += chunk
        message, self.buffer = self.buffer.split(b"\0", 1)
        return dict(json.loads(message))

    def open(self, url: str, width: int = 1200, height: int = 800, dark: bool = False) -> None:
        self.events.clear()
        if self.session is None:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)  # fmt: skip
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[feature])
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def wait(self, condition: str, seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not self.evaluate(condition):
            assert time.monotonic() < deadline, f"never true: {condition}"
            time.sleep(0.05)

    def evaluate(self, expression: str) -> Any:
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def screenshot(self, path: Path) -> None:
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def complaints(self) -> list[str]:
        """Console errors, uncaught exceptions and policy violations of the page opened last."""
        found = []
        for event in self.events:
            params = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
            elif event.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(str(params["entry"]["text"]))
            elif event.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
                found.append(str(params["args"]))
        return found

    def requests(self) -> list[str]:
        """Addresses asked for, the page's own file among them."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]


@contextlib.contextmanager
def chromium(path: str) -> Iterator[Browser]:
    to_browser, from_us = os.pipe()
    from_browser, to_us = os.pipe()

    def arrange() -> None:  # the protocol's pipe is file descriptors 3 (in) and 4 (out)
        os.dup2(to_browser, 30)
        os.dup2(to_us, 31)
        os.dup2(30, 3)
        os.dup2(31, 4)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [path, *FLAGS, f"--user-data-dir={profile}"], close_fds=False, preexec_fn=arrange,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(to_us)
        try:
            yield Browser(from_us, from_browser)
        finally:
            os.close(from_us)
            process.terminate()
            process.wait(30)
            os.close(from_browser)
