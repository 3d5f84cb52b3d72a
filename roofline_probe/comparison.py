"""Saved logs under the roofs: what ``probe compare`` prints, as an object.

import roofline_probe
result = roofline_probe.compare("vllm.log", "h200")
result.summary.kinds, result.findings
result.steps, result.bins   # pandas DataFrames, made when asked for
result.chart                # an altair chart
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import log_parsers
from log_parsers import ParsedLog
from log_parsers.step import LogFacts, ScanReport
from roofline_probe import datasheet, select, store, workloads
from roofline_probe.analysis import Analysis, Options, analyse
from roofline_probe.diagnose import Finding
from roofline_probe.errors import NoRoof, NothingUsable, UsageError
from roofline_probe.point import Point, Roof, RoofChoice, Summary
from roofline_probe.profile import Datasheet, Profile

if TYPE_CHECKING:
    import pandas

ROOF_CHOICES: tuple[RoofChoice, ...] = ("auto", "burst", "sustained", "datasheet")


@dataclass(frozen=True)
class Comparison:
    """Everything a view of a comparison needs; plain data but for ``steps``, which needs pandas."""

    analysis: Analysis
    profile: Profile | None = None
    profile_name: str | None = None
    problems: tuple[str, ...] = field(default=())
    """Sentences about the input: files that could not be read, archives that were cut."""

    @property
    def roof(self) -> Roof:
        """The denominators of the latest run."""
        roof = self.analysis.roof
        assert roof is not None, "a comparison holds at least one step"
        return roof

    @property
    def facts(self) -> list[LogFacts]:
        """What the log states, one entry per source and run."""
        return self.analysis.facts

    @property
    def report(self) -> ScanReport:
        """What reading did: lines, candidates, what was dropped."""
        return self.analysis.report

    @property
    def points(self) -> list[Point]:
        """Every step under the roof; empty if they were streamed to a sink instead of kept."""
        return self.analysis.points

    @property
    def summary(self) -> Summary:
        """Figures per kind, batch and context bin, and rank."""
        return self.analysis.summary

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the figures mean, most important first."""
        return self.analysis.findings

    @property
    def steps(self) -> pandas.DataFrame:
        """One row a step, columns as in the JSON document; missing is NA, never 0.

        Raises:
            UsageError: pandas is not installed.
        """
        from roofline_probe.report.frames import steps_frame

        return steps_frame(self.points)

    @property
    def bins(self) -> pandas.DataFrame:
        """One row per kind, batch and context bin; missing is NA.

        Raises:
            UsageError: pandas is not installed.
        """
        from roofline_probe.report.frames import bins_frame

        return bins_frame(self.summary)

    @property
    def chart(self) -> Any:
        """The picture of ``--plot`` as an altair chart, which a notebook draws.

        Raises:
            UsageError: the ``plot`` extra is not installed.
        """
        from roofline_probe.report.chart import notebook_chart
        from roofline_probe.report.report_page import figure_of

        return notebook_chart(figure_of(self))

    def _repr_html_(self) -> str:
        from roofline_probe.report.notebook import report_html

        return report_html(self)


def compare(
    logs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | ParsedLog,
    profile: Profile | str | os.PathLike[str] | None = None,
    *,
    roof: str = "auto",
    pi_tflops: float | None = None,
    beta_gbps: float | None = None,
    model: str | None = None,
    dtype: str | None = None,
    engine: str | None = None,
    since: str | None = None,
    until: str | None = None,
    where: str | None = None,
    keep_points: bool = True,
    sink: Callable[[Point], None] | None = None,
) -> Comparison:
    """Read logs and put every step under the roof.

    Args:
        logs: path or paths (several = rotated parts or ranks of one run); ``-`` is standard input. Or what
            ``log_parsers.parse`` made of them, which may have begun to read.
        profile: a ``Profile``, the path of one, a shipped or stored name; the newest measured here if None.
        roof: which roof, one of ``ROOF_CHOICES``; ``datasheet`` takes published figures (of the profile's device, or
            of a card named by ``profile``).
        pi_tflops: TFLOP/s that replace the roof's pi (as does ``beta_gbps``, GB/s, its beta).
        model: a known model's name or a ``config.json``, where the log does not tell the dimensions.
        dtype: compute dtype whose pi applies, where the log does not tell.
        engine: ``vllm`` or ``sglang``, where the text should not decide (and ``logs`` is not yet a ``ParsedLog``).
        since, until: times of day or ISO-8601, inclusive.
        where: comparisons of step fields, ``batch>=32 and kind==decode``.
        keep_points: keep every point for ``steps``; a long log read for its summary needs no such memory.
        sink: called with every point as it is found.

    Raises:
        UsageError: a missing file, a bad profile, a flag that was not understood.
        NothingUsable: the log holds nothing that can be judged; the sentence says why.
        NoRoof: there is nothing to compare with.
    """
    try:
        parsed = logs if isinstance(logs, ParsedLog) else _parse(logs, engine)
        parsed.check()  # a missing log is worth more words than a missing profile
        options, found, name = choose(roof, profile, pi_tflops, beta_gbps, model, dtype, since, until, where)
        analysis = analyse(parsed, found, options, keep_points=keep_points, sink=sink)
    except ValueError as error:
        raise UsageError(_sentence(str(error))) from None
    except OSError as error:
        raise UsageError(_unreadable(error)) from None
    _require_steps(analysis)
    _require_platform(analysis, found)
    return Comparison(analysis, found, name, tuple(analysis.report.problems))


def _parse(logs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], engine: str | None) -> ParsedLog:
    paths = [logs] if isinstance(logs, (str, os.PathLike)) else list(logs)
    return log_parsers.parse(*paths, engine=engine)


def choose(
    roof: str = "auto", profile: Any = None, pi: float | None = None, beta: float | None = None,
    model: str | None = None, dtype: str | None = None,
    since: str | None = None, until: str | None = None, where: str | None = None,
) -> tuple[Options, Profile | None, str | None]:  # fmt: skip
    """What the flags of ``compare`` and ``tail`` mean: options, the profile, and the name to show for it.

    Raises:
        UsageError, NoRoof: as ``compare``.
    """
    choice = next((known for known in ROOF_CHOICES if known == roof), None)
    if choice is None:
        raise UsageError(f"There is no roof {roof!r}: choose one of {', '.join(ROOF_CHOICES)}.")
    found, name, sheet = _choose_profile(profile, choice, pi is not None or beta is not None)
    options = Options(
        roof=choice,
        profile_named=profile is not None,
        dtype=dtype,
        pi_tflops=pi,
        beta_gbps=beta,
        datasheet=sheet,
        model=workloads.load_model(model) if model is not None else None,
        selection=select.selection(since, until, where),
    )
    return options, found, name


def _choose_profile(
    profile: Profile | str | os.PathLike[str] | None, roof: RoofChoice, given: bool
) -> tuple[Profile | None, str | None, Datasheet | None]:
    """(profile, its name, published figures); a card's name will do where only its datasheet is wanted."""
    if isinstance(profile, Profile):
        return profile, profile.device.name, profile.datasheet
    if profile is not None:
        try:
            found, name = store.load(os.fspath(profile))
        except UsageError:
            sheet = datasheet.named(os.fspath(profile))
            if sheet is None:
                raise
            if roof != "datasheet":
                raise NoRoof(
                    f"No measured profile of {sheet.card} is here: run `probe measure` on one, or add --roof datasheet "
                    "to compare with its published figures."
                ) from None
            return None, None, sheet
        return found, name, found.datasheet
    if given:
        return None, None, None
    try:
        found, path = store.find_default()
    except NoRoof:
        if roof != "datasheet":
            raise
        cards = ", ".join(card.name for card in datasheet.cards())
        raise NoRoof(
            f"--roof datasheet needs to know the card, which no log names: add --profile 'NAME' with one of {cards}."
        ) from None
    return found, path.stem, found.datasheet


def _require_steps(analysis: Analysis) -> None:
    if analysis.summary.steps == 0 and analysis.report.steps > 0:
        raise NothingUsable(
            f"None of the log's {analysis.report.steps:,} steps is left by --since, --until and --where; widen them."
        )
    reason = analysis.nothing_usable
    if reason is None and analysis.roof is None:
        reason = "The log holds no line of vLLM's or SGLang's statistics."
    if reason is not None:
        raise NothingUsable(reason)


def other_kind_sentence(facts: LogFacts, profile: Profile) -> str:
    """What to do where a profile of another kind of device was not even asked for."""
    return (
        f"The log comes from a {facts.device_platform} device and what was measured here is a {profile.device.kind} "
        f"device ({profile.device.name}), so that no percentage would mean anything; name the profile of the device "
        f"that served with --profile (shipped: {', '.join(store.shipped())}), or give --pi and --beta."
    )


def _require_platform(analysis: Analysis, found: Profile | None) -> None:
    """A profile that nobody named must at least be of the kind of device that served."""
    doubt = analysis.live.doubt
    if doubt is None or found is None or analysis.roof is None or "platform_conflict" not in analysis.roof.caveats:
        return
    raise NoRoof(other_kind_sentence(doubt, found))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."


def _unreadable(error: OSError) -> str:
    if isinstance(error, ChildProcessError):
        return f"The log could not be read: {error} (was it killed for want of memory?); try again."
    what = error.strerror or str(error)
    return f"{error.filename or 'The log'} could not be read ({what}); check the path."
