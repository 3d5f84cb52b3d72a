"""Profiles -> Prometheus rules: the fraction of the measured pi, beta and roof that every engine reaches, and alerts.

Recorded names are the same for both engines; the label ``server`` says which one it is. vLLM's counters are used as
they are. SGLang's need the model's dimensions, because of how it counts (0.5.10 to 0.5.23):

* it charges the weights once per token instead of once per step, so its bytes are no rate of this world at batch > 1.
  Corrected: counted − W_charged · tokens + W_streamed · decode steps, with steps = decode tokens / running requests.
  Weights read by prefill steps are left out, which is little: they serve thousands of tokens each;
* with tensor parallelism it divides the attention heads only, so the FFN's FLOPs are taken down to this GPU's share.

Without a model no bandwidth and no roof is recorded for SGLang, rather than a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from roofline_probe.errors import UsageError
from roofline_probe.fleet.roofs import CardRoof
from roofline_probe.report.text import clean, count
from roofline_probe.workloads import ModelShape

PI_FRACTION = "probe:pi_fraction:rate"
BETA_FRACTION = "probe:beta_fraction:rate"
ROOF_FRACTION = "probe:roof_fraction:rate"
FLOPS = "probe:flops_per_gpu:rate"
READ_BYTES = "probe:read_bytes_per_gpu:rate"
GEN_TOKENS = "probe:gen_tokens:rate"
PROMPT_TOKENS = "probe:prompt_tokens:rate"
RUNNING = "probe:running_requests"
WAITING = "probe:waiting_requests"
KV_USAGE = "probe:kv_usage"
PI = "probe:pi_flops"
BETA = "probe:beta_bytes"

_STRAGGLER = 0.8
_IMPOSSIBLE = 1.05


def is_duration(text: str) -> bool:
    """Whether Prometheus reads ``text`` as a range: ``30s``, ``1m``, ``1h30m``."""
    return re.fullmatch(r"(?:[1-9]\d*(?:ms|[smhdwy]))+", text) is not None


def is_label(text: str) -> bool:
    """Whether ``text`` can be a label's name."""
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text) is not None


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"for_": "for"}):
    """A recording rule (``record``) or an alerting rule (``alert``), in the words of Prometheus' own format."""

    record: str = ""
    alert: str = ""
    expr: str
    for_: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Group(msgspec.Struct, frozen=True):
    """Rules that Prometheus evaluates in order: later ones see what earlier ones recorded."""

    name: str
    rules: list[Rule]


class RuleFile(msgspec.Struct, frozen=True):
    """The whole file."""

    groups: list[Group]


def rule_file(
    roofs: Sequence[CardRoof],
    *,
    window: str = "1m",
    label: str = "gpu",
    alert_below: float = 0.3,
    model: ModelShape | None = None,
    tp: int = 1,
    weight_element_bytes: float = 2,
) -> RuleFile:
    """Recording rules per card model, then the alerts.

    Args:
        roofs: one per card model. With several, targets are told apart by their ``label``, whose value must be the
            device's name as the profile has it; with one, every engine is taken to run on that card.
        window: range that rates are taken over; at least four scrape intervals.
        label: name of that label.
        alert_below: fraction of the roof under which an engine with waiting requests raises an alert.
        model: the model that SGLang serves, see the module's text.
        tp: its tensor-parallel degree.
        weight_element_bytes: bytes per element SGLang counts, which is the model's dtype.

    Raises:
        UsageError: ``alert_below`` is no fraction.
    """
    if not 0 <= alert_below <= 1:
        raise UsageError(f"--alert-below is a fraction of the roof from 0 to 1, not {alert_below:g}; try 0.3.")
    groups = []
    for roof in roofs:
        matcher = f'{label}="{_quoted(roof.gpu)}"' if len(roofs) > 1 else ""
        rules = _roof_rules(roof) + _vllm_rules(matcher, window)
        rules += _sglang_rules(matcher, window, model, tp, weight_element_bytes)
        rules += _fraction_rules(roof, ["vllm", "sglang"] if model is not None else ["vllm"])
        groups.append(Group(f"probe {roof.gpu}", [_on(roof, rule) for rule in rules]))
    groups.append(Group("probe alerts", _alerts(alert_below)))
    return RuleFile(groups)


def to_yaml(rules: RuleFile, roofs: Sequence[CardRoof], *, label: str, has_model: bool) -> str:
    """The file, with a head that says what it rests on.

    Raises:
        UsageError: PyYAML is not installed.
    """
    try:
        import yaml
    except ImportError:
        raise UsageError(
            "Writing rules needs the package pyyaml; install it with `pip install 'roofline-probe[fleet]'`."
        ) from None
    # Unfolded: an expression in one piece can be searched for and pasted into Prometheus' own page.
    body = yaml.safe_dump(msgspec.to_builtins(rules), sort_keys=False, width=1 << 20)
    return "".join(f"# {clean(line, 400)}\n" for line in _head(roofs, label, has_model)) + str(body)


def _head(roofs: Sequence[CardRoof], label: str, has_model: bool) -> list[str]:
    lines = ["Written by `probe export prometheus`. Fractions are of measured roofs, 0 to 1 and never clamped:"]
    lines += [
        f"  {roof.gpu}: pi {roof.pi_flops / 1e12:,.0f} TFLOP/s ({roof.dtype}, {roof.regime}), beta "
        f"{roof.beta_bytes / 1e9:,.0f} GB/s ({roof.pattern}); {_measured(roof)}."
        for roof in roofs
    ]
    if len(roofs) > 1:
        lines.append(f"Give every target the label {label} with its card's name as above (scrape_configs, labels).")
    else:
        lines.append("Every engine is taken to run on this card: no engine's metrics name theirs.")
    if not has_model:
        lines.append("SGLang: FLOPs only. Its byte counters charge the weights per token; --model corrects them.")
    return lines


def _measured(roof: CardRoof) -> str:
    """``median of 8 measured cards, 2026-11-28 to 2026-11-29; quick runs of 2 cards left out``; of a machine
    ``slowest of 8 measured cards with all running``."""
    days = " to ".join(dict.fromkeys((roof.dates[0], roof.dates[-1])))
    cards = f"{_which(roof)}{count(roof.cards, 'measured card')}"
    if roof.together:
        cards += " with all running" if roof.together == roof.cards else f", {roof.together} of them with all running"
    left_out = f"; quick runs of {count(roof.quick_left_out, 'card')} left out" if roof.quick_left_out else ""
    return f"{cards}{', quick runs' if roof.quick else ''}, {days}{left_out}"


def _which(roof: CardRoof) -> str:
    if roof.cards == 1:
        return ""
    return "slowest of " if roof.machines == 1 and roof.together == roof.cards else "median of "


def _roof_rules(roof: CardRoof) -> list[Rule]:
    return [
        _record(PI, f"vector({roof.pi_flops:.6g})", dtype=roof.dtype, regime=roof.regime),
        _record(BETA, f"vector({roof.beta_bytes:.6g})", pattern=roof.pattern),
    ]


def _vllm_rules(matcher: str, window: str) -> list[Rule]:
    def rate(name: str, *more: str) -> str:
        return f"rate({_series(f'vllm:{name}', matcher, *more)}[{window}])"

    computed = rate("prompt_tokens_by_source_total", 'source="local_compute"')
    return _of(
        "vllm",
        {
            FLOPS: rate("estimated_flops_per_gpu_total"),
            READ_BYTES: rate("estimated_read_bytes_per_gpu_total"),
            GEN_TOKENS: rate("generation_tokens_total"),
            PROMPT_TOKENS: f"sum without (source) ({computed})",
            RUNNING: _series("vllm:num_requests_running", matcher),
            WAITING: _series("vllm:num_requests_waiting", matcher),
            KV_USAGE: _series("vllm:kv_cache_usage_perc", matcher),
        },
    )


def _sglang_rules(matcher: str, window: str, model: ModelShape | None, tp: int, element_bytes: float) -> list[Rule]:
    def tokens(modes: str) -> str:
        return f"sum without (mode) (rate({_series('sglang:realtime_tokens_total', matcher, modes)}[{window}]))"

    def rate(name: str) -> str:
        return f"rate({_series(f'sglang:{name}', matcher)}[{window}])"

    # With priority scheduling the total stands under priority="" beside one series per priority.
    def total(name: str) -> str:
        return "sum without (priority) (" + _series(f"sglang:{name}", matcher, 'priority=""') + ")"

    running, decode = total("num_running_reqs"), tokens('mode="decode"')
    flops, reads = rate("estimated_flops_per_gpu_total"), None
    if model is not None:
        computed = tokens('mode=~"prefill_compute|decode"')
        attention = model.layers * sum(p.k * p.n for p in model.attention_projections())
        other = model.linear_parameters() - attention
        surplus = 2 * other * (1 - 1 / tp)
        flops = f"{flops} - {surplus:.12g} * {computed}" if surplus else flops
        charged = (attention / tp + other) * element_bytes
        streamed = (model.linear_parameters() + model.lm_head_parameters) / tp * element_bytes
        busy = f"avg_over_time(({running} > 0)[{window}:])"
        steps = f"{decode} / {busy}"
        reads = (
            f"{rate('estimated_read_bytes_per_gpu_total')} - {charged:.12g} * {computed} + {streamed:.12g} * {steps}"
        )
    return _of(
        "sglang",
        {
            FLOPS: flops,
            **({READ_BYTES: reads} if reads is not None else {}),
            GEN_TOKENS: decode,
            PROMPT_TOKENS: tokens('mode="prefill_compute"'),
            RUNNING: running,
            WAITING: total("num_queue_reqs"),
            KV_USAGE: _series("sglang:token_usage", matcher),
        },
    )


def _fraction_rules(roof: CardRoof, servers: Sequence[str]) -> list[Rule]:
    gpu = f'gpu="{_quoted(roof.gpu)}"'
    counted = 'server=~"' + "|".join(servers) + '"'
    pi, beta = _series(PI_FRACTION, gpu, counted), _series(BETA_FRACTION, gpu, counted)
    return [
        _record(PI_FRACTION, f"{_series(FLOPS, gpu)} / on (gpu) group_left () {_series(PI, gpu)}"),
        _record(BETA_FRACTION, f"{_series(READ_BYTES, gpu)} / on (gpu) group_left () {_series(BETA, gpu)}"),
        # The fraction of the roof is the larger of both: max(F/pi, B/beta) = achieved / attainable.
        _record(ROOF_FRACTION, f"{pi} >= {beta} or {beta} or {pi}"),
    ]


def _alerts(alert_below: float) -> list[Rule]:
    same = "on (job, instance, server, engine, dp_rank, pp_rank, tp_rank)"
    peers = "gpu, server, model_name"
    where = "{{ $labels.instance }} (engine {{ $labels.engine }}{{ $labels.dp_rank }})"
    value = "{{ $value | humanizePercentage }}"
    return [
        _alert(
            "ProbeEngineBelowRoof",
            f"{ROOF_FRACTION} < {alert_below:g} and {same} {WAITING} > 0",
            "10m",
            f"{where} reaches {value} of the {{{{ $labels.gpu }}}}'s measured roof while requests wait.",
            "Requests queue and the card is not used up: look at batch limits, KV cache size and host load.",
        ),
        _alert(
            "ProbeEngineStraggler",
            f"{ROOF_FRACTION} < on ({peers}) group_left () ({_STRAGGLER} * "
            f"(quantile by ({peers}) (0.5, {ROOF_FRACTION}) and count by ({peers}) ({ROOF_FRACTION}) >= 3)) "
            f"and {same} {WAITING} > 0",
            "15m",
            f"{where} is at {value} of its roof, under {_STRAGGLER:.0%} of the median of its peers.",
            "Same model, same card, requests waiting: measure this card with `probe measure` and compare.",
        ),
        _alert(
            "ProbeEngineAboveRoof",
            f"{ROOF_FRACTION} > {_IMPOSSIBLE:g}",
            "5m",
            f"{where} shows {value} of the {{{{ $labels.gpu }}}}'s measured roof.",
            "Another card, another dtype (fp8 under a bf16 roof) or a fault of the engine's estimate.",
        ),
        _alert(
            "ProbeEngineNotCounted",
            f"{GEN_TOKENS} > 0 unless {same} {FLOPS} > 0",
            "5m",
            f"{where} makes tokens but counts no FLOPs.",
            "Start vLLM 0.17 or later with --enable-mfu-metrics, SGLang 0.5.10 or later with --enable-metrics "
            "--enable-mfu-metrics.",
        ),
    ]


def _alert(name: str, expr: str, duration: str, summary: str, description: str) -> Rule:
    notes = {"summary": summary, "description": description}
    return Rule(alert=name, expr=expr, for_=duration, labels={"severity": "warning"}, annotations=notes)


def _record(name: str, expr: str, **labels: str) -> Rule:
    return Rule(record=name, expr=expr, labels=labels)


def _of(server: str, recorded: dict[str, str]) -> list[Rule]:
    return [_record(name, expr, server=server) for name, expr in recorded.items()]


def _on(roof: CardRoof, rule: Rule) -> Rule:
    return msgspec.structs.replace(rule, labels={**rule.labels, "gpu": roof.gpu})


def _series(name: str, *matchers: str) -> str:
    given = ",".join(matcher for matcher in matchers if matcher)
    return f"{name}{{{given}}}" if given else name


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
