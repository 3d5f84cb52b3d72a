"""``probe export``: what was measured, in the form that a fleet's monitoring takes."""

from __future__ import annotations

from typing import Annotated

import typer

from roofline_probe.cli._options import Quiet, Verbose, note
from roofline_probe.cli._targets import check_targets

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Write Prometheus rules and a Grafana dashboard over measured roofs.",
    epilog="Example:  probe export prometheus h200 -o rules.yml",
)

Output = Annotated[str, typer.Option("--output", "-o", metavar="PATH|-", help="Where to write; - is standard output.")]


@app.command(epilog="Example:  probe export prometheus h200 --model llama-3.1-8b -o probe.rules.yml")
def prometheus(
    profiles: Annotated[
        list[str], typer.Argument(metavar="PROFILE...", help="Names or paths of profiles, or folders of them.")
    ],
    output: Output = "-",
    dtype: Annotated[
        str | None, typer.Option("--dtype", help="Compute dtype whose pi applies; bf16 where measured.")
    ] = None,
    window: Annotated[
        str, typer.Option("--window", metavar="DURATION", help="Range of rates: at least four scrape intervals.")
    ] = "1m",
    label: Annotated[
        str, typer.Option("--label", help="Target label that names the card; used with several card models.")
    ] = "gpu",
    alert_below: Annotated[
        float, typer.Option("--alert-below", min=0.0, help="Alert under this fraction of the roof while requests wait.")
    ] = 0.3,
    model: Annotated[
        str | None,
        typer.Option("--model", help="What SGLang serves (name or config.json): corrects its byte counters."),
    ] = None,
    tp: Annotated[int, typer.Option("--tp", min=1, help="SGLang's tensor-parallel degree.")] = 1,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write recording and alerting rules: fractions of the measured pi, beta and roof per engine and GPU."""
    from roofline_probe.errors import UsageError
    from roofline_probe.fleet import roofs, rules
    from roofline_probe.report import files
    from roofline_probe.workloads import check_tp, load_model

    if not rules.is_duration(window):
        raise UsageError(f"--window {window} is not a Prometheus duration; give one like 1m, 90s or 5m.")
    if not rules.is_label(label):
        raise UsageError(f"--label {label} is not a Prometheus label name; give one like gpu.")
    check_targets({"--output": output}, [*profiles, model])
    shape = load_model(model) if model is not None else None
    if shape is not None:
        check_tp(shape, tp)
    cards = roofs.card_roofs(roofs.load_profiles(profiles), dtype)
    written = rules.rule_file(cards, window=window, label=label, alert_below=alert_below, model=shape, tp=tp)
    files.write(output, [rules.to_yaml(written, cards, label=label, has_model=shape is not None).encode()])
    if output != files.STDOUT:
        note(f"wrote {sum(len(group.rules) for group in written.groups)} rules to {output}; name it under rule_files.")


@app.command(epilog="Example:  probe export grafana -o dashboard.json")
def grafana(
    output: Output = "-",
    title: Annotated[str, typer.Option("--title", help="The dashboard's title.")] = "Fraction of the measured roofline",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write one dashboard over what the Prometheus rules record."""
    from roofline_probe.fleet.dashboard import dashboard_json
    from roofline_probe.report import files

    files.write(output, [dashboard_json(title).encode()])
    if output != files.STDOUT:
        note(f"wrote the dashboard to {output}; import it in Grafana, with the rules of `probe export prometheus`.")
