"""``probe plan``: what a step would take at another batch or context, and which batch meets an SLO."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from roofline_probe.cli._options import (
    DtypeOption,
    EngineOption,
    ModelOption,
    ProfileOption,
    Quiet,
    Verbose,
    is_quiet,
)
from roofline_probe.cli._targets import check_targets
from roofline_probe.errors import UsageError
from roofline_probe.report import files

if TYPE_CHECKING:
    from roofline_probe.plan.answer import Plan

app = typer.Typer(add_completion=False)

_EPILOG = """Examples:  probe plan vllm.log --batch 64 --context 4000  ·
probe plan vllm.log --slo tpot=10ms --context 1000  ·
probe plan --model llama-3.1-8b --profile h200 --batch 32 --context 2000

TTFT and queueing are not predicted: they depend on when requests arrive and on how the scheduler orders them, and a \
log of steps says neither."""


@app.command(epilog=_EPILOG)
def plan(
    logs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[LOG...]", help="Logs of one server; none for a bound without engine."),
    ] = None,
    batch: Annotated[int | None, typer.Option("--batch", min=1, help="Sequences decoding at once.")] = None,
    context: Annotated[
        int | None,
        typer.Option("--context", min=1, metavar="TOKENS", help="Mean context; the log's median if left out."),
    ] = None,
    slo: Annotated[
        str | None, typer.Option("--slo", metavar="tpot=TIME", help="Find the largest batch with this time per token.")
    ] = None,
    profile: ProfileOption = None,
    model: ModelOption = None,
    dtype: DtypeOption = None,
    tp: Annotated[
        int | None, typer.Option("--tp", min=1, help="Tensor parallelism, for a plan without a log; 1 if left out.")
    ] = None,
    engine: EngineOption = None,
    json: Annotated[
        str | None, typer.Option("--json", metavar="PATH|-", help="Write the plan as JSON; - prints it alone.")
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option("--plot", metavar="FILE", help="Draw step time over batch and context (.png .svg .html)."),
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Predict a decode step at another batch or context, or find the batch that meets a time per output token."""
    from roofline_probe.plan.answer import parse_slo

    tpot_ms = parse_slo(slo)
    check_targets({"--json": json, "--plot": plot}, [*(logs or ()), profile, model])
    if plot is not None:
        from roofline_probe.report import chart

        chart.check_plot_path(plot)
    if logs:
        if tp is not None:
            raise UsageError("--tp is for a plan without a log: a log says itself over how many GPUs the model lies.")
        answer = _from_logs(logs, profile, model, dtype, engine, batch, context, tpot_ms)
    else:
        if engine is not None:
            raise UsageError("--engine says how to read a log, and none is given; leave it out.")
        answer = _without_log(profile, model, dtype, tp or 1, batch, context, tpot_ms)
    if not is_quiet() and json != files.STDOUT:
        from roofline_probe.report.console import make_console
        from roofline_probe.report.plan_view import print_plan

        print_plan(answer, make_console())
    if json is not None:
        from roofline_probe.report.plan_json import encode

        files.write(json, [encode(answer)])
    if plot is not None:
        chart.save(chart.plan_figure(answer), plot)


def _from_logs(
    logs: list[str], profile: str | None, model: str | None, dtype: str | None, engine: str | None,
    batch: int | None, context: int | None, tpot_ms: float | None,
) -> Plan:  # fmt: skip
    from roofline_probe.comparison import compare
    from roofline_probe.plan.answer import plan_from_log
    from roofline_probe.plan.evidence import Collector, examine

    collected = Collector()
    result = compare(logs, profile, model=model, dtype=dtype, engine=engine, keep_points=False, sink=collected.add)
    return plan_from_log(examine(result.analysis.live.runs, collected), batch, context, tpot_ms)


def _without_log(
    profile: str | None, model: str | None, dtype: str | None, tp: int,
    batch: int | None, context: int | None, tpot_ms: float | None,
) -> Plan:  # fmt: skip
    from roofline_probe import store, workloads
    from roofline_probe.plan.answer import plan_without_log

    if model is None:
        raise UsageError("Nothing to plan from: give a log, or --model NAME for the bound that kernels alone allow.")
    if context is None:
        raise UsageError("A plan without a log needs --context TOKENS.")
    found = store.load(profile)[0] if profile is not None else store.find_default()[0]
    return plan_without_log(found, workloads.load_model(model), dtype, tp, batch, context, tpot_ms)
