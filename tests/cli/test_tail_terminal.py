"""``probe tail`` on a terminal: a pty, its size, its signals, and a terminal that stops."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

import pytest

FIXTURES = Path(__file__).parents[2] / "fixtures"
PROFILE = str(FIXTURES / "profiles" / "h200-reference.json")
TAIL = [sys.executable, "-c", "import sys; from roofline_probe.cli import main; sys.exit(main())"]
TAIL += ["tail", "--profile", PROFILE]
VLLM = FIXTURES / "logs" / "vllm" / "0.24.0-h200-graph-1s.log"
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A process whose stdout and stderr are a terminal of a size, its stdin a pipe."""

    def __init__(self, *arguments, rows=24, columns=80, command=TAIL, **environment):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        known = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.PIPE,
            stdout=slave,
            stderr=slave,
            bufsize=0,
            env={**known, "TERM": "xterm-256color", **environment},
            start_new_session=True,
        )
        os.close(slave)
        self.text = ""

    def read_until(self, wanted, seconds=30.0):
        end = time.monotonic() + seconds
        while wanted not in CONTROL.sub("", self.text):
            assert time.monotonic() < end, f"{wanted!r} never came:\n{self.text[-3000:]}"
            self.read(0.2)
        return self.text

    def read(self, seconds):
        if select.select([self.master], [], [], seconds)[0]:
            try:
                self.text += os.read(self.master, 1 << 16).decode("utf-8", "replace")
            except OSError:  # the other side is closed
                return False
        return True

    def end(self):
        """Close the input, read everything, return the exit code."""
        self.process.stdin.close()
        while self.process.poll() is None or select.select([self.master], [], [], 0)[0]:
            if not self.read(0.1):
                break
        return self.process.wait(30)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)
        if not self.process.stdin.closed:
            self.process.stdin.close()
        os.close(self.master)


@pytest.fixture
def terminal():
    opened = []

    def make(*arguments, **options):
        opened.append(Terminal(*arguments, **options))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def test_the_view_is_drawn_while_the_input_is_open_and_the_report_at_its_end(terminal):
    screen = terminal()
    screen.process.stdin.write(VLLM.read_bytes())
    screen.read_until("attained")
    text = screen.read_until("windows ·")
    assert "NOW" in text
    assert screen.end() == 0
    assert "By kind" in screen.text


def test_the_engine_s_warnings_show_above_and_other_lines_do_not(terminal):
    screen = terminal(columns=200)
    screen.process.stdin.write(VLLM.read_bytes())
    screen.end()
    assert "Default vLLM sampling parameters" in screen.text
    assert "Starting vLLM server" not in screen.text


def test_pass_shows_the_engine_s_other_lines_too(terminal):
    screen = terminal("--pass")
    screen.process.stdin.write(b"a line of the engine\n" + VLLM.read_bytes()[:1000])
    screen.read_until("a line of the engine")


def test_no_color_leaves_the_colours_out(terminal):
    screen = terminal(NO_COLOR="1")
    screen.process.stdin.write(VLLM.read_bytes())
    screen.end()
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", screen.text)


def test_a_dumb_terminal_gets_plain_lines(terminal):
    screen = terminal(TERM="dumb")
    screen.process.stdin.write(VLLM.read_bytes())
    screen.end()
    assert "\x1b" not in screen.text
    assert "generated" in screen.text


def test_nothing_in_a_log_reaches_the_terminal_as_a_command(terminal):
    """A title, a hyperlink, a bell, markup and a right-to-left override, in a warning and in the model's name."""
    hostile = "\x1b]0;owned\x07 \x1b]8;;http://x\x1b\\here \x07 [bold]m[/bold] \u202eabc \x9b2J"
    warning = f"(APIServer pid=1) WARNING 11-29 14:25:00 [x.py:1] {hostile}\n"
    log = VLLM.read_bytes().decode().replace("Meta-Llama-3-8B-Instruct", "[bold]Llama-3-8B")
    screen = terminal("--pass", columns=200)
    screen.process.stdin.write((warning + log + warning).encode())
    screen.end()
    assert "\x1b]" not in screen.text
    assert "\x07" not in screen.text
    assert "\u202e" not in screen.text
    assert "\x9b" not in screen.text
    assert "[bold]m[/bold]" in screen.text
    assert "[bold]Llama-3-8B" in screen.text


def test_after_a_resize_the_view_is_drawn_anew_for_the_new_size(terminal):
    screen = terminal(rows=40, columns=150)
    screen.process.stdin.write(VLLM.read_bytes())
    screen.read_until("windows ·")
    fcntl.ioctl(screen.master, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 60, 0, 0))
    screen.text = ""
    screen.read_until("requests")
    widest = max(len(line.rstrip()) for line in CONTROL.sub("", screen.text).splitlines()[-10:])
    assert widest <= 60


def test_a_stopped_terminal_does_not_stop_the_engine(terminal, tmp_path):
    """Nobody reads the terminal while far more than it holds is drawn; the writer gets all of it out."""
    kept = tmp_path / "kept.log"
    screen = terminal("--pass", "--tee", str(kept))
    log = VLLM.read_bytes() * 100
    writer = threading.Thread(target=lambda: screen.process.stdin.write(log))
    writer.start()
    writer.join(30)
    assert not writer.is_alive()
    assert screen.end() == 0
    assert kept.stat().st_size == len(log)
    windows = re.search(r"([\d,]+) windows, ", screen.text)
    assert windows is not None
    assert int(windows[1].replace(",", "")) >= log.count(b"MFU: ")


def test_a_stopped_terminal_does_not_hold_a_user_who_leaves(terminal):
    screen = terminal("--pass")
    screen.process.stdin.write(VLLM.read_bytes() * 40)
    for _ in range(2):
        time.sleep(0.3)
        screen.process.send_signal(signal.SIGINT)
    assert screen.process.wait(20) == 130


def test_ctrl_c_at_the_keyboard_reaches_a_server_of_ours_once(terminal):
    script = f"trap 'echo WARNING 11-29 14:25:00 caught; exit 4' INT; cat {VLLM}; while :; do sleep 0.05; done"
    launcher = [sys.executable, "-c", LAUNCH, *TAIL]
    screen = terminal("--", "sh", "-c", script, command=launcher)
    screen.read_until("windows ·")
    os.write(screen.master, b"\x03")
    assert screen.end() == 4
    assert "By kind" in screen.text


LAUNCH = """
import fcntl, os, sys, termios
fcntl.ioctl(1, termios.TIOCSCTTY, 0)  # the terminal's keys send signals to this session
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_terminal_as_input_is_refused():
    master, slave = pty.openpty()
    result = subprocess.run(TAIL, stdin=slave, capture_output=True, timeout=60)
    os.close(master)
    os.close(slave)
    assert result.returncode == 2
    assert b"Nothing is piped in" in result.stderr


MODULES = """
import json, os, sys
from roofline_probe.cli import main
code = main(sys.argv[2:])
with open(sys.argv[1], "w") as file:
    json.dump(sorted({name.split(".")[0] for name in sys.modules}), file)
sys.exit(code)
"""


@pytest.mark.parametrize(
    ("drawn", "arguments"),
    [(False, ["--json"]), (False, []), (True, [])],
    ids=["json", "text", "live-view"],
)
def test_torch_numpy_and_pandas_are_never_loaded_and_rich_only_to_draw(terminal, tmp_path, drawn, arguments):
    """``text`` prints its report with rich, at the very end; so its modules are looked at under ``-q``, steps alone."""
    listed = tmp_path / "modules.json"
    command = [sys.executable, "-c", MODULES, str(listed), "tail", "--profile", PROFILE, *arguments]
    if drawn:
        screen = terminal(command=command)
        screen.process.stdin.write(VLLM.read_bytes())
        assert screen.end() == 0
    else:
        quiet = [] if arguments else ["-q"]
        subprocess.run([*command, *quiet], input=VLLM.read_bytes(), capture_output=True, timeout=60, check=True)
    modules = set(json.loads(listed.read_text()))
    assert not modules & {"torch", "numpy", "pandas", "altair", "dask", "prometheus_client"}
    assert ("rich" in modules) is drawn
