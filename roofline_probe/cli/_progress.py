"""A progress bar on stderr for long work; silent where stderr is no terminal or ``-q`` was given."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from roofline_probe.cli._options import detail, is_quiet, note

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from roofline_probe.measure import Event


class ProgressBar:
    """Takes a measurement's events; the bar is gone when it ends."""

    def __init__(self) -> None:
        """Nothing is drawn before the context is entered."""
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._stage = ""
        self._begin = time.monotonic()

    def __enter__(self) -> ProgressBar:
        """Begin to draw, where there is a terminal to draw on."""
        if sys.stderr.isatty() and not is_quiet():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[step]}", markup=False),
                TimeElapsedColumn(),
                console=Console(file=sys.stderr, markup=False, emoji=False, highlight=False),
                transient=True,
            )
            self._progress.start()
            self._task = self._progress.add_task("", step="", total=None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the bar away."""
        if self._progress is not None:
            self._progress.stop()

    def __call__(self, event: Event) -> None:
        """Show one event."""
        if event.kind == "note":
            note(event.text)
        if event.kind == "stage":
            self._stage = event.text
        if self._progress is None or self._task is None:
            detail(f"{time.monotonic() - self._begin:6.1f} s  {event.text}")
            return
        step = event.text if event.kind == "step" else ""
        self._progress.update(
            self._task, description=self._stage, step=step, completed=event.done, total=event.total or None
        )
