"""Ctrl-C, a job's end or a closed terminal: stop measuring, once, and let what was measured be saved in peace."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = [s for s in (getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP")) if s is not None]


@contextmanager
def interrupted_once() -> Iterator[Callable[..., None]]:
    """Within it, the first signal raises KeyboardInterrupt and every later one is ignored: a second Ctrl-C a moment
    after the first would lose what the first one wanted kept. A signal that was ignored from the start (``nohup``)
    stays so.

    Yields:
        A call that raises where code in C, like torch's import, has swallowed the exception; after ``check(last=True)``
        no signal interrupts any more.
    """
    arrived: list[int] = []
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    taken = [number for number, handler in before.items() if handler not in (signal.SIG_IGN, None)]

    def stop(number: int, frame: FrameType | None) -> None:
        arrived.append(number)
        if len(arrived) == 1:
            raise KeyboardInterrupt

    def check(*, last: bool = False) -> None:
        if last:
            arrived.append(0)
        elif arrived:
            raise KeyboardInterrupt

    for number in taken:
        signal.signal(number, stop)
    try:
        yield check
    finally:
        for number in taken:
            signal.signal(number, before[number])
