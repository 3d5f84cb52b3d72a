"""Everything ``probe tail`` needs, put together: what to read, how to show it, how to end."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from log_parsers.scan import Scanner
from log_parsers.stream import LogStream
from roofline_probe.analysis import Analysis, LiveAnalysis, Options
from roofline_probe.comparison import Comparison
from roofline_probe.errors import EXIT_INTERRUPTED, EXIT_OK, NothingUsable, ProbeError, UsageError
from roofline_probe.profile import Profile
from roofline_probe.tail.forked import InlineSource, reading
from roofline_probe.tail.intake import Intake
from roofline_probe.tail.lines import LineView, is_drawable
from roofline_probe.tail.notices import LineWatch
from roofline_probe.tail.pump import LogPump, Pump
from roofline_probe.tail.reader import Source, standard_input
from roofline_probe.tail.runner import Child
from roofline_probe.tail.session import End, Session, View
from roofline_probe.tail.snapshot import Camera
from roofline_probe.tail.tee import Tee

if TYPE_CHECKING:
    from roofline_probe.tail.card import CardWatch

EXIT_READER_GONE = 141
"""What a shell reports for a command whose reader left (``| head``)."""
LEAVE_S = 1.0
"""How long the summary may take to print once the user has asked twice to leave."""


@dataclass(frozen=True)
class Request:
    """What the command line asked for."""

    follow: Path | None = None
    urls: Sequence[str] = ()
    command: Sequence[str] = ()
    last: int = 10
    interval_s: float = 5.0
    tee: Path | None = None
    pass_lines: bool = False
    json: bool = False
    engine: str | None = None
    quiet: bool = False


def run(request: Request, profile: Profile | None, profile_name: str | None, options: Options) -> int:
    """Tail until the input ends or the user leaves; the exit code.

    Raises:
        UsageError: something cannot be read, written or started. Where that is found out while reading, the summary of
            what was read is printed first.
        NothingUsable: the input ended without a step that can be judged.
    """
    judge = LiveAnalysis(profile, options)
    card = _card(request)
    camera = Camera(_name(request), card)
    view = _view(request, camera)
    pump, source, child = _input(request, judge, view)  # forks, so no thread may run before it
    if card is not None:
        card.start()
    session = Session(source, pump, view, keeps=request.tee is not None, child=child)
    end = session.watch()
    conclude = Conclusion(request, session, judge, profile, profile_name)
    if session.reader.failure is not None:
        if view.failure is None and end is not End.NOBODY_READS:
            with contextlib.suppress(Exception):  # the failure is what must be told, and comes last
                conclude()
        raise session.reader.failure
    if view.failure is not None:
        raise view.failure
    if end is End.NOBODY_READS:
        return EXIT_READER_GONE
    if end is End.LEFT:
        _leave(conclude)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # everything is read: from here on Ctrl-C simply ends
    return conclude()


def _card(request: Request) -> CardWatch | None:
    """Only where somebody can see it."""
    if not _drawn(request):
        return None
    from roofline_probe.tail.card import CardWatch

    return CardWatch()


def _drawn(request: Request) -> bool:
    return not request.json and not request.quiet and is_drawable(1)


def _name(request: Request) -> str:
    if request.command:
        return " ".join(request.command)
    if request.urls:
        return request.urls[0] if len(request.urls) == 1 else f"{len(request.urls)} addresses"
    return str(request.follow) if request.follow is not None else "standard input"


def _view(request: Request, camera: Camera) -> View:
    if _drawn(request):
        from roofline_probe.report.live_screen import Screen

        return Screen(camera, quiet=request.quiet)
    from roofline_probe.report.step_line import step_json, step_text

    encode = step_json if request.json else step_text
    mute = request.quiet and not request.json
    if request.urls:  # a target's trouble is said when it begins
        return LineView(encode, mute=mute, quiet=request.quiet)
    return LineView(encode, mute=mute, quiet=request.quiet, pass_lines=request.pass_lines, hint=camera.hint)


def _input(request: Request, judge: LiveAnalysis, view: View) -> tuple[Pump[Any], Source[Any], Child | None]:
    _refuse_tee(request)
    if request.urls:
        from roofline_probe.fleet.metrics import MetricsSource
        from roofline_probe.tail.counters import CounterPump, CounterSource

        return CounterPump(judge, view), CounterSource(MetricsSource(request.urls, request.interval_s)), None
    name = str(request.follow) if request.follow is not None else "-"
    stream = LogStream(name, request.engine)
    pump = LogPump(stream, judge, view)
    intake = _intake(request, stream.scanner, name)
    if request.follow is not None:
        from roofline_probe.tail.following import FollowSource, open_pipe

        pipe = open_pipe(request.follow)
        if pipe is not None:
            return pump, InlineSource(pipe, intake), None
        pump.hold(request.last)
        return pump, InlineSource(FollowSource(request.follow, pump.report, view.say), intake), None
    if request.command:
        child = Child(request.command)
        return pump, reading(child.source, intake), child
    return pump, reading(standard_input(), intake), None


def _intake(request: Request, scanner: Scanner, name: str) -> Intake:
    watch = LineWatch(request.pass_lines) if _drawn(request) or request.pass_lines else None
    tee = Tee(request.tee, lambda sentence: intake.say(sentence)) if request.tee is not None else None
    intake = Intake(scanner, "standard input" if name == "-" else name, watch, tee)
    return intake


def _refuse_tee(request: Request) -> None:
    if request.tee is None:
        return
    if request.urls:
        raise UsageError("--tee keeps a log's bytes; counters have none. Leave it out, or use --json > FILE.")
    follow = request.follow
    if follow is not None and follow.exists() and request.tee.exists() and os.path.samefile(follow, request.tee):
        raise UsageError(f"--tee {request.tee} is the file that is followed; choose another one.")


@dataclass
class Conclusion:
    """The last words: the same summary as ``probe compare`` gives for the same bytes, and the exit code."""

    request: Request
    session: Session
    judge: LiveAnalysis
    profile: Profile | None
    profile_name: str | None

    def __call__(self) -> int:
        """Print the summary; the server's exit code, else 130 after an interrupt, else 0.

        Raises:
            NothingUsable: there is nothing to sum up, and no other exit code to tell.
        """
        analysis = self._analysis()
        reason = analysis.nothing_usable
        if reason is None and analysis.roof is None:
            reason = "Nothing came that is a line of vLLM's or SGLang's statistics."
        code = self._code()
        if reason is not None:
            if code == EXIT_OK:
                raise NothingUsable(reason)
            self._say(reason)
            return code
        self._print(Comparison(analysis, self.profile, self.profile_name, tuple(analysis.report.problems)))
        return code

    def _analysis(self) -> Analysis:
        pump = self.session.pump
        with pump.lock:
            return Analysis(self.judge, pump.facts, pump.report, self.judge.summary(), [])

    def _code(self) -> int:
        if self.session.child is not None:
            code = self.session.child.wait(LEAVE_S)
            if code is not None:
                return code
        return EXIT_INTERRUPTED if self.session.interrupts.count else EXIT_OK

    def _print(self, result: Comparison) -> None:
        if self.request.json:
            from roofline_probe.report import files
            from roofline_probe.report.step_line import summary_json

            files.write(files.STDOUT, [summary_json(result)])
        elif not self.request.quiet:
            from roofline_probe.report.console import make_console
            from roofline_probe.report.terminal import print_report

            console = make_console()
            console.print()  # between the last step, or the last frame, and the report
            print_report(result, console)

    def _say(self, sentence: str) -> None:
        from roofline_probe.notes import note

        note(sentence)


def _leave(conclude: Callable[[], int]) -> None:
    """Asked twice: the summary if it can be had at once (a stopped terminal may hold it), and out."""

    def attempt() -> None:
        try:
            conclude()
        except (ProbeError, BrokenPipeError):
            return

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(LEAVE_S)
    os._exit(EXIT_INTERRUPTED)
