"""An iterator in a process of its own, so that the work behind it and the use of its items go on at the same time.

Python threads cannot do that: searching holds the interpreter's lock. A forked child starts in a millisecond and needs
no second import. Only where forking is safe: not beside other threads, whose locks the child would inherit.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pickle
import signal
import stat
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, TypeVar

Item = TypeVar("Item")

_owner: int | None = None
"""In a child: the process that wants its items. Killed, that says nothing, and a log without steps leaves the child
nothing to hand over by which it would notice."""
PIPE_BYTES = 1 << 20
"""Linux lets an unprivileged process widen a pipe to this. It is how far a child may be ahead (with the usual 64 KiB
the two would wait for each other all the time), and 20 ms of an engine that logs 50 MB/s instead of one."""


def can_fork() -> bool:
    """Whether a child would run beside this process: a second core, no other threads, a system that forks."""
    return hasattr(os, "fork") and _cores() > 1 and threading.active_count() == 1 and sys.platform != "darwin"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def widen_pipe(fd: int) -> None:
    """Give a pipe the most room the system allows; where that is refused, the usual 64 KiB do."""
    with contextlib.suppress(OSError, AttributeError):
        if stat.S_ISFIFO(os.fstat(fd).st_mode):
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def apart(items: Iterable[Item]) -> Iterator[Item]:
    """The same items, made by a forked child that begins at once; an exception there is raised here.

    Iterating raises ChildProcessError if the child ends without having said that it was done (killed for want of
    memory). The child of an iterator that is dropped, begun or not, is ended.
    """
    reading, writing = os.pipe()
    widen_pipe(writing)
    owner = os.getpid()
    # Ctrl-C between the fork and the first statement that looks after the child would leave it without an owner.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        try:
            child = os.fork()
        except OSError:  # no more processes allowed: then here, one thing after the other
            os.close(reading)
            os.close(writing)
            return iter(items)
        if child == 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.close(reading)
            _serve(items, writing, owner)
        os.close(writing)
        handed_over = _handed_over(child, reading)
        next(handed_over)
        return handed_over
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _handed_over(child: int, reading: int) -> Iterator[Any]:
    """The child's items behind a first one that says nothing: from there on, whatever happens, the child is ended."""
    done = False
    try:
        with open(reading, "rb") as pipe:
            yield None
            yield from _received(pipe)
        done = True
    finally:
        if not done:  # it would notice only when it has something to hand over
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):  # where SIGCHLD is ignored, the system has reaped it
            os.waitpid(child, 0)


def _serve(items: Iterable[Item], writing: int, owner: int) -> None:
    """The child's whole life. It ends without clean-up: everything it inherited belongs to its parent."""
    global _owner
    _owner = owner
    try:
        with open(writing, "wb") as pipe:
            try:
                for item in items:
                    pickle.dump((item, None), pipe, pickle.HIGHEST_PROTOCOL)
                    pipe.flush()
                pickle.dump(None, pipe)
            except Exception as error:
                pickle.dump((None, error), pipe)
    except BaseException:  # the parent is gone, or Ctrl-C, which it gets as well
        os._exit(1)
    os._exit(0)


def _received(pipe: BinaryIO) -> Iterator[Item]:
    try:
        while (message := pickle.load(pipe)) is not None:
            if _owner is not None and os.getppid() != _owner:
                os._exit(1)
            item, error = message
            if error is not None:
                raise error
            yield item
    except (EOFError, pickle.UnpicklingError):
        raise ChildProcessError("the process that read the log ended before it was done") from None
