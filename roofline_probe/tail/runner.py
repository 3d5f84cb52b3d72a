"""``probe tail -- CMD``: start the server, read both its streams, pass signals on and its exit code back."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence

from roofline_probe.errors import UsageError
from roofline_probe.tail.reader import FdSource


class Child:
    """A server in a session of its own, both streams on one pipe so that their lines keep their order.

    The session matters for Ctrl-C: a terminal sends it to every process of the foreground group, so a server in ours
    would get it twice, once from the terminal and once passed on, and engines take the second as "stop at once".
    """

    def __init__(self, command: Sequence[str]) -> None:
        """Start ``command``.

        Raises:
            UsageError: it cannot be started.
        """
        stdin = subprocess.DEVNULL if os.isatty(0) else None  # a background session may not read the terminal
        read_fd, write_fd = os.pipe()
        try:
            self._process = subprocess.Popen(
                list(command), stdin=stdin, stdout=write_fd, stderr=write_fd, start_new_session=True
            )
        except OSError as error:
            os.close(read_fd)
            raise UsageError(
                f"{command[0]} cannot be started ({error.strerror}); give the server's command after `--`."
            ) from None
        finally:
            os.close(write_fd)
        self.source = FdSource(read_fd)

    @property
    def pid(self) -> int:
        """Of the server's first process, which leads its group."""
        return self._process.pid

    def pass_on(self, signum: int) -> None:
        """Send a signal to the server: to its whole group where a terminal would, else to its first process."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if signum == signal.SIGTERM:
                self._process.send_signal(signum)
            else:
                os.killpg(self.pid, signum)

    def kill(self) -> None:
        """End whatever of the group is left: a server that nobody watches would go on holding its GPU."""
        self.pass_on(signal.SIGKILL)

    def poll(self) -> int | None:
        """The exit code as a shell gives it (128 + signal), or None while the first process runs."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def wait(self, timeout_s: float) -> int | None:
        """``poll`` after waiting for at most ``timeout_s``."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        return self.poll()
