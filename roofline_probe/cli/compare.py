"""``probe compare``: saved logs under the roofs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

import log_parsers
from roofline_probe.cli._cluster import ClusterCommand, compare_fleet
from roofline_probe.cli._options import (
    BetaOption,
    DtypeOption,
    EngineOption,
    ModelOption,
    PiOption,
    ProfileOption,
    Quiet,
    RoofOption,
    Verbose,
    WhereOption,
    detail,
    is_quiet,
)
from roofline_probe.cli._targets import check_targets
from roofline_probe.errors import UsageError
from roofline_probe.report import files

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofline_probe.comparison import Comparison
    from roofline_probe.point import Point
    from roofline_probe.report.json_out import CsvSteps, JsonSteps

app = typer.Typer(add_completion=False)

_EPILOG = """Examples:  probe compare vllm.log  ·  zcat old.log.gz | probe compare - --profile h200  ·
probe compare vllm.log --json - | jq .summary  ·  probe compare vllm.log --fail-under decode=80,prefill=85"""


@app.command(cls=ClusterCommand, epilog=_EPILOG)
def compare(
    logs: Annotated[
        list[str], typer.Argument(metavar="LOG...", help="Log files, globs or folders of rotated parts; - is stdin.")
    ],
    profile: ProfileOption = None,
    roof: RoofOption = "auto",
    pi: PiOption = None,
    beta: BetaOption = None,
    model: ModelOption = None,
    dtype: DtypeOption = None,
    engine: EngineOption = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="From this time on (14:05, or 2026-11-29T14:05).")
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="TIME", help="Up to this time, inclusive: 14:27 to the end of that minute."),
    ] = None,
    where: WhereOption = None,
    steps: Annotated[bool, typer.Option("--steps", help="Show every step; with --cluster, every log.")] = False,
    json: Annotated[
        str | None, typer.Option("--json", metavar="PATH|-", help="Write the JSON document; - prints it alone.")
    ] = None,
    csv: Annotated[str | None, typer.Option("--csv", metavar="PATH|-", help="Write the steps as a table.")] = None,
    html: Annotated[
        str | None,
        typer.Option("--html", metavar="PATH", help="Write the whole report as one page that needs no network."),
    ] = None,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE.(png|svg|html)", help="Write the picture.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="[ADDRESS]",
            help="Every log for itself, many at once: on this machine's cores, or a Dask scheduler's workers.",
        ),
    ] = None,
    fail_under: Annotated[
        str | None,
        typer.Option(
            "--fail-under",
            metavar="KIND=PERCENT,...",
            help="Leave with 1 if decode's attained or prefill's share of pi is lower.",
        ),
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Put a saved vLLM or SGLang log under the measured roofs: how near, bound by what, where the time goes."""
    check_targets({"--json": json, "--csv": csv, "--html": html, "--plot": plot}, [*logs, profile, model])
    parsed = _begin(logs, engine) if cluster is None else None
    from roofline_probe.comparison import choose
    from roofline_probe.comparison import compare as run
    from roofline_probe.headline import check_gates, parse_gates

    gates = parse_gates(fail_under)
    if cluster is not None:
        choice = choose(roof, profile, pi, beta, model, dtype, since, until, where)
        refused = {"--fail-under": fail_under, "--html": html, "--plot": plot}
        compare_fleet(logs, cluster, choice, engine=engine, json=json, csv=csv, every_file=steps, refused=refused)
        return
    if html is not None or plot is not None:
        from roofline_probe.report import chart

        if html is not None:
            chart.check_page_path(html)
        if plot is not None:
            chart.check_plot_path(plot)
    outputs = _Outputs(json, csv)
    show = None if is_quiet() or files.STDOUT in (json, csv, html) else _printer()
    result = run(
        parsed or logs, profile, roof=roof, pi_tflops=pi, beta_gbps=beta, model=model, dtype=dtype, engine=engine,
        since=since, until=until, where=where, keep_points=steps or bool(html or plot), sink=outputs.sink,
    )  # fmt: skip
    _say_what_was_read(result)
    if show is not None:
        show(result, steps)
    outputs.write(result)
    _draw(result, html, plot)
    check_gates(gates, result.summary, result.roof)


def _begin(logs: list[str], engine: str | None) -> log_parsers.ParsedLog | None:
    """A long log is read in processes of its own, which begin before the rest of the program is even loaded."""
    try:
        return log_parsers.parse(*logs, engine=engine).start()
    except ValueError:  # no such engine: said where everything about the logs is
        return None


def _printer() -> Callable[[Comparison, bool], None]:
    """What prints the report; everything that it needs is loaded at once, while a long log is being read."""
    from roofline_probe.report.console import make_console
    from roofline_probe.report.terminal import print_report

    return lambda result, every_step: print_report(result, make_console(), all_steps=every_step)


class _Outputs:
    """The machine formats asked for: fed step by step, written when the summary is known."""

    def __init__(self, json: str | None, csv: str | None) -> None:
        if json == csv == files.STDOUT:
            raise UsageError("--json - and --csv - cannot share standard output; give one of them a file.")
        self._writers: list[tuple[str, JsonSteps | CsvSteps]] = []
        if json is not None or csv is not None:
            from roofline_probe.report import json_out

            self._writers += [(json, json_out.JsonSteps())] if json is not None else []
            self._writers += [(csv, json_out.CsvSteps())] if csv is not None else []

    @property
    def sink(self) -> Callable[[Point], None] | None:
        """Where each point goes; None if nothing was asked for."""
        if len(self._writers) == 1:
            return self._writers[0][1].add
        return self._feed_all if self._writers else None

    def _feed_all(self, point: Point) -> None:
        for _, writer in self._writers:
            writer.add(point)

    def write(self, result: Comparison) -> None:
        """Each format to its place."""
        for target, writer in self._writers:
            files.write(target, writer.pieces(result))


def _draw(result: Comparison, html: str | None, plot: str | None) -> None:
    if html is None and plot is None:
        return
    from roofline_probe.report import chart, report_page

    if html is not None:
        files.write(html, [report_page.report_page(result).encode()])
    if plot is not None:
        chart.save(report_page.figure_of(result), plot)


def _say_what_was_read(result: Comparison) -> None:
    report = result.report
    detail(
        f"{report.lines:,} lines ({report.bytes_read:,} bytes) read, {report.candidate_lines:,} looked at, "
        f"{report.steps:,} steps found; profile: {result.profile_name or 'none'}"
    )
