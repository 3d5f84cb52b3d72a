"""One Grafana dashboard over the series that ``rules`` records, built with Grafana's own typed builder.

It asks for recorded names only, so that both engines and every engine version look the same in it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from roofline_probe.errors import UsageError
from roofline_probe.fleet import rules

_CHOSEN = '{gpu=~"$gpu",instance=~"$instance"}'
_ENGINE = "{{instance}} {{engine}}{{dp_rank}}"


@dataclass(frozen=True, slots=True)
class View:
    """One panel: what it asks, in which unit, and what a reader should know."""

    title: str
    queries: tuple[tuple[str, str], ...]
    """(PromQL, legend)."""
    unit: str
    text: str
    kind: Literal["timeseries", "stat"] = "timeseries"
    width: int = 12


def _each(name: str, legend: str = _ENGINE) -> tuple[tuple[str, str], ...]:
    return ((f"{name}{_CHOSEN}", legend),)


_VIEWS: Sequence[tuple[str, Sequence[View]]] = (
    (
        "Under the measured roofs",
        (
            View(
                "Fleet: median and lowest engine",
                (
                    (f"quantile(0.5, {rules.ROOF_FRACTION}{_CHOSEN})", "median"),
                    (f"min({rules.ROOF_FRACTION}{_CHOSEN})", "lowest"),
                ),
                "percentunit",
                "Fraction of the measured roof: the larger of FLOP/s over pi and bytes/s over beta. Not clamped.",
                kind="stat",
                width=8,
            ),
            View(
                "Measured pi",
                ((f'{rules.PI}{{gpu=~"$gpu"}}', "{{gpu}} {{dtype}} {{regime}}"),),
                "flops",
                "What `probe measure` reached on this card: the denominator of the compute fraction.",
                kind="stat",
                width=8,
            ),
            View(
                "Measured beta",
                ((f'{rules.BETA}{{gpu=~"$gpu"}}', "{{gpu}} {{pattern}}"),),
                "Bps",
                "What `probe measure` reached on this card: the denominator of the bandwidth fraction.",
                kind="stat",
                width=8,
            ),
            View(
                "Fraction of the roof",
                _each(rules.ROOF_FRACTION),
                "percentunit",
                "As the engine counts its work. Above 100 %: another card, another dtype, or an estimator's fault.",
                width=24,
            ),
            View("Fraction of pi", _each(rules.PI_FRACTION), "percentunit", "FLOP/s over the measured peak."),
            View("Fraction of beta", _each(rules.BETA_FRACTION), "percentunit", "Bytes read over the measured rate."),
        ),
    ),
    (
        "What one GPU does",
        (
            View("FLOP/s", _each(rules.FLOPS), "flops", "Per GPU, as the engine counts it."),
            View("Bytes read per second", _each(rules.READ_BYTES), "Bps", "Per GPU; SGLang's corrected per step."),
            View(
                "Intensity and ridge",
                (
                    (f"{rules.FLOPS}{_CHOSEN} / {rules.READ_BYTES}{_CHOSEN}", _ENGINE),
                    (f'{rules.PI}{{gpu=~"$gpu"}} / on (gpu) {rules.BETA}{{gpu=~"$gpu"}}', "ridge {{gpu}}"),
                ),
                "none",
                "FLOP per byte. Under the ridge memory is the limit, over it arithmetic.",
                width=24,
            ),
        ),
    ),
    (
        "Load",
        (
            View("Generated tokens", _each(rules.GEN_TOKENS), "ops", "Tokens per second."),
            View(
                "Computed prompt tokens", _each(rules.PROMPT_TOKENS), "ops", "Tokens per second, cache hits left out."
            ),
            View(
                "Requests",
                (
                    (f"{rules.RUNNING}{_CHOSEN}", f"running {_ENGINE}"),
                    (f"{rules.WAITING}{_CHOSEN}", f"waiting {_ENGINE}"),
                ),
                "none",
                "Waiting requests under a low fraction of the roof: the card is not what holds them up.",
            ),
            View("KV cache in use", _each(rules.KV_USAGE), "percentunit", "Share of the KV cache that is taken."),
        ),
    ),
)


def dashboard_json(title: str = "Fraction of the measured roofline") -> str:
    """The dashboard as JSON, ready for Grafana's import page or a provisioning folder.

    Raises:
        UsageError: grafana-foundation-sdk is missing, or this Python is too old for it.
    """
    try:
        from grafana_foundation_sdk.builders import dashboard as builder
        from grafana_foundation_sdk.cog.encoder import JSONEncoder
    except (ImportError, AttributeError):  # the package needs Python 3.11 and fails with AttributeError before it
        raise UsageError(
            "The dashboard needs the package grafana-foundation-sdk (Python 3.11 or later); "
            "install it with `pip install 'roofline-probe[fleet]'`."
        ) from None
    board = builder.Dashboard(title).uid("roofline-probe").tags(["roofline", "vllm", "sglang"])
    board = board.readonly().refresh("30s").time("now-1h", "now")
    for variable in _variables():
        board = board.with_variable(variable)
    numbers = itertools.count(1)
    for row, views in _VIEWS:
        board = board.with_row(builder.Row(row).id(next(numbers)))
        for view in views:
            board = board.with_panel(_panel(view, next(numbers)))
    return json.dumps(board.build(), cls=JSONEncoder, indent=2) + "\n"


def _variables() -> list[Any]:
    from grafana_foundation_sdk.builders import dashboard as builder
    from grafana_foundation_sdk.models.dashboard import VariableOption, VariableRefresh

    def choice(label: str) -> Any:
        return (
            builder.QueryVariable(label)
            .datasource(_source())
            .query(f"label_values({rules.PI_FRACTION}, {label})")
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .multi(True)
            .include_all(True)
            .all_value(".*")
            .current(VariableOption(selected=True, text="All", value="$__all"))
        )

    return [builder.DatasourceVariable("datasource").type("prometheus"), choice("gpu"), choice("instance")]


def _panel(view: View, number: int) -> Any:
    from grafana_foundation_sdk.builders import common, prometheus, stat, timeseries

    if view.kind == "stat":
        panel = stat.Panel().height(4).reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    else:
        panel = timeseries.Panel().height(8).legend(common.VizLegendOptions().calcs(["mean", "last"]).show_legend(True))
    panel = panel.id(number).title(view.title).description(view.text).unit(view.unit).min(0)
    panel = panel.span(view.width).datasource(_source())
    for letter, (expr, legend) in zip("ABCDEF", view.queries, strict=False):
        query = prometheus.Dataquery().expr(expr).legend_format(legend).ref_id(letter)
        panel = panel.with_target(query.instant() if view.kind == "stat" else query.range())
    return panel


def _source() -> Any:
    from grafana_foundation_sdk.models.dashboard import DataSourceRef

    return DataSourceRef(type_val="prometheus", uid="${datasource}")
