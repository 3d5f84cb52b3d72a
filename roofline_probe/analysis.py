"""The one way from steps to an answer, used by ``compare``, ``tail``, ``diff``, ``plan`` and as a library.

    analysis = analyse(log_parsers.parse("server.log"), profile)
    analysis.summary.kinds, analysis.findings, analysis.roof

    live = LiveAnalysis(profile)
    point = live.feed(step, facts)      # one point per step, at once
    live.summary()

``analyse`` is ``LiveAnalysis`` fed to the end, so a saved log and the same log read live give equal figures. Nothing
needs a second pass: the one thing that is learned on the way, SGLang's weights where the model is not known (``fit``),
is used from the line on at which it is certain, in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from log_parsers.step import LogFacts, ScanReport, ServingStep
from roofline_probe import diagnose, findings
from roofline_probe.ceiling import Ceiling, build_ceiling
from roofline_probe.correlate import correlate
from roofline_probe.diagnose import Finding
from roofline_probe.fit import SglangFit
from roofline_probe.point import Point, Roof, RoofChoice, Summary
from roofline_probe.profile import Datasheet, Profile
from roofline_probe.recount import Recounter
from roofline_probe.roof import choose_roof, memory_caveat, without_figures
from roofline_probe.select import Selection
from roofline_probe.shard import ShapeSource, Shard, find_shape, shard_of
from roofline_probe.summary import SummaryBuilder
from roofline_probe.workloads import ModelShape


class ParsedLog(Protocol):
    """What ``log_parsers.parse`` returns: steps, and beside them what was learned while reading."""

    @property
    def facts(self) -> list[LogFacts]:
        """One entry per log and run, as far as read."""

    def facts_of(self, step: ServingStep) -> LogFacts | None:
        """What had been stated about the run of the step just yielded."""

    @property
    def report(self) -> ScanReport:
        """Counts of what has been read."""

    def __iter__(self) -> Iterator[ServingStep]:
        """Steps in order of arrival."""


@dataclass(frozen=True)
class Options:
    """What the user asked for; every field is optional."""

    roof: RoofChoice = "auto"
    profile_named: bool = True
    """False for the one that happened to be stored: it must then be of the kind of device that served."""
    dtype: str | None = None
    pi_tflops: float | None = None
    beta_gbps: float | None = None
    datasheet: Datasheet | None = None
    model: ModelShape | None = None
    selection: Selection = field(default_factory=Selection)


@dataclass
class RunContext:
    """One server run under its roof: everything that does not change from step to step."""

    facts: LogFacts
    roof: Roof
    shard: Shard | None
    """One GPU's share of the model; None while its dimensions are not known."""
    ceiling: Ceiling | None
    caveats: tuple[str, ...]
    """Codes to be said beside the run's figures: what contradicts the roof, miscounts that nothing makes good."""
    counting: tuple[str, ...]
    """All codes for how its engine counts (``diagnose.engine_caveats``)."""
    engine_usable: bool
    fit: SglangFit | None
    place: int
    """Its position among the runs: a cluster's log holds too many of them to look for it."""
    recounters: dict[str | None, Recounter] = field(default_factory=dict)
    engine_counted: bool = False
    """Whether a line of the run carried the engine's own count, of whatever window."""

    def recounter(self, rank: str | None) -> Recounter | None:
        """The recount of one rank, which holds that rank's previous snapshot."""
        if self.shard is None:
            return None
        found = self.recounters.get(rank)
        if found is None:
            found = self.recounters[rank] = Recounter(self.shard, self.facts)
        return found

    def adopt(self, shard: Shard, profile: Profile | None) -> None:
        """Take the fitted dimensions."""
        self.shard = shard
        self.ceiling = build_ceiling(profile, self.roof, shard)
        self.recounters.clear()


class LiveAnalysis:
    """Steps in, points out, a summary at any time."""

    def __init__(self, profile: Profile | None = None, options: Options | None = None) -> None:
        self.profile = profile
        self.options = options or Options()
        self.runs: list[RunContext] = []
        """One per set of facts seen, in order."""
        self.doubt: LogFacts | None = None
        """What says that another kind of device served than that of the profile, which nobody named."""
        self._current: RunContext | None = None
        self._by_run: dict[tuple[str, int], RunContext] = {}
        self._summary = SummaryBuilder()

    def feed(self, step: ServingStep, facts: LogFacts | None = None) -> Point | None:
        """Place one step; None if the selection leaves it out.

        ``facts`` is what the log has said about the step's run so far; the object may be replaced by a fuller one.

        Raises:
            NoRoof: there is nothing to compare with.
        """
        run = self._run_of(step, facts)
        run.engine_counted = run.engine_counted or step.tflops is not None or step.gbps is not None
        recounter = run.recounter(step.rank)
        # Steps that the selection leaves out still carry the snapshots that the next one's averages need.
        work = recounter.count(step) if recounter is not None else None
        if run.fit is not None:
            self._learn(run, step)
        if not self.options.selection.in_time(step):
            return None
        point = correlate(step, work, run.roof, run.ceiling, run.engine_usable)
        if not self.options.selection.accepts(point):
            return None
        self._summary.add(point)
        return point

    def _learn(self, run: RunContext, step: ServingStep) -> None:
        assert run.fit is not None
        run.fit.add(step)
        if run.shard is None:
            shard = run.fit.shard()
            if shard is not None:
                run.adopt(shard, self.profile)
                run.fit = None

    def _run_of(self, step: ServingStep, facts: LogFacts | None) -> RunContext:
        current = self._current
        if current is not None and (facts is None or current.facts is facts):
            return current
        key = (facts.source, facts.run) if facts is not None else (step.source, step.run)
        known = self._by_run.get(key)
        if known is None or (facts is not None and known.facts is not facts and known.facts != facts):
            known = self._open(facts or LogFacts(source=step.source, run=step.run, engine=step.engine), known)
            self._by_run[key] = known
        elif facts is not None:
            known.facts = facts
        self._current = known
        return known

    def _open(self, facts: LogFacts, before: RunContext | None) -> RunContext:
        """A context for new facts; a later, fuller statement about the same run replaces the earlier context."""
        options = self.options
        roof = choose_roof(
            self.profile, facts, options.roof, options.dtype, options.pi_tflops, options.beta_gbps, options.datasheet
        )
        profile = self.profile
        if not options.profile_named and profile is not None and "platform_conflict" in roof.caveats:
            profile, roof, self.doubt = None, without_figures(roof), facts
        found = find_shape(facts, options.model)
        shard, fit = self._share(facts, found, before)
        counting = diagnose.engine_caveats(facts, found)
        run = RunContext(
            facts=facts,
            roof=roof,
            shard=shard,
            ceiling=build_ceiling(profile, roof, shard) if shard else None,
            caveats=roof.caveats
            + memory_caveat(profile, facts, shard)
            + diagnose.run_caveats(counting, recounted=shard is not None),
            counting=counting,
            engine_usable=diagnose.engine_usable(facts, found),
            fit=fit,
            place=before.place if before is not None else len(self.runs),
        )
        if before is None:
            self.runs.append(run)
            return run
        run.engine_counted = before.engine_counted
        if before.shard == shard:
            run.recounters = before.recounters
            for recounter in run.recounters.values():
                recounter.learn(facts)
        self.runs[run.place] = run
        return run

    @staticmethod
    def _share(
        facts: LogFacts, found: tuple[ModelShape, ShapeSource] | None, before: RunContext | None
    ) -> tuple[Shard | None, SglangFit | None]:
        """One GPU's share of the model, or the fit that may still find it; what was fitted before is kept."""
        if found is not None:
            return shard_of(*found, facts), None
        if before is not None and before.shard is not None and before.shard.source == "fit":
            return before.shard, None
        fit = before.fit if before is not None and before.fit is not None else SglangFit(facts)
        return None, fit if fit.possible else None

    @property
    def roof(self) -> Roof | None:
        """The roof of the latest run, None before the first step."""
        return self.runs[-1].roof if self.runs else None

    @property
    def shard(self) -> Shard | None:
        """The latest run's model share, None if its dimensions are unknown."""
        return self.runs[-1].shard if self.runs else None

    @property
    def ceiling(self) -> Ceiling | None:
        """Times of the latest run's parts."""
        return self.runs[-1].ceiling if self.runs else None

    def summary(self) -> Summary:
        """The figures so far."""
        return self._summary.build(tuple(dict.fromkeys(code for run in self.runs for code in run.caveats)))

    def findings(self) -> tuple[Finding, ...]:
        """What the figures mean so far, most important first."""
        return findings.find(self.summary(), self.runs, self.profile)


@dataclass
class Analysis:
    """A whole log under its roof."""

    live: LiveAnalysis
    facts: list[LogFacts]
    report: ScanReport
    summary: Summary
    points: list[Point]
    """Empty unless asked for."""

    @property
    def roof(self) -> Roof | None:
        """The roof of the latest run; ``live.runs`` has them all."""
        return self.live.roof

    @property
    def shard(self) -> Shard | None:
        """The latest run's model share on one GPU."""
        return self.live.shard

    @property
    def ceiling(self) -> Ceiling | None:
        """Times of the latest run's parts."""
        return self.live.ceiling

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What it means, most important first."""
        return findings.find(self.summary, self.live.runs, self.live.profile)

    @property
    def nothing_usable(self) -> str | None:
        """Why the log holds nothing that can be judged, in one sentence (exit 3); None if it does."""
        return diagnose.nothing_usable(self.facts, self.report, self.summary)


def analyse(
    parsed: ParsedLog,
    profile: Profile | None = None,
    options: Options | None = None,
    *,
    keep_points: bool = False,
    sink: Callable[[Point], None] | None = None,
) -> Analysis:
    """Read a log to its end.

    Args:
        parsed: what ``log_parsers.parse`` returned.
        profile: the measured device; None with ``--pi``/``--beta`` or a datasheet in ``options``.
        options: the user's choices.
        keep_points: keep every point in ``Analysis.points`` (memory grows with the log).
        sink: called with every point, for output that streams.

    Raises:
        NoRoof: nothing to compare with.
    """
    live = LiveAnalysis(profile, options)
    points: list[Point] = []
    for step, facts in steps_with_facts(parsed):
        point = live.feed(step, facts)
        if point is None:
            continue
        if keep_points:
            points.append(point)
        if sink is not None:
            sink(point)
    return Analysis(live, list(parsed.facts), parsed.report, live.summary(), points)


def steps_with_facts(parsed: ParsedLog) -> Iterable[tuple[ServingStep, LogFacts | None]]:
    """Every step with what the log had said by then: what ``LiveAnalysis.feed`` takes."""
    for step in parsed:
        yield step, parsed.facts_of(step)
