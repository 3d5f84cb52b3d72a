"""What the log says about itself: how its engine counts, and why a log may hold nothing that can be judged.

Codes are stable; ``report`` words them. The only text made here is the one sentence of exit code 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from log_parsers.step import LogFacts, ScanReport
from roofline_probe.point import Summary
from roofline_probe.releases import before, version_of
from roofline_probe.shard import ShapeSource, latent_attention
from roofline_probe.workloads import ModelShape

Number = float | int | str | None


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing the log says: a stable code with its numbers (see ``findings``)."""

    code: str
    weight: Literal["headline", "advice", "note", "warning"]
    numbers: Mapping[str, Number] = field(default_factory=dict)


_FIX = {
    "vllm": "--enable-mfu-metrics (vLLM 0.14 or newer)",
    "sglang": "--enable-metrics --enable-mfu-metrics (SGLang 0.5.10 or newer)",
}
_NAMES = {"vllm": "vLLM", "sglang": "SGLang"}
_NO_LINES: tuple[tuple[str, str], ...] = (
    ("stats_disabled", "its statistics are switched off (--disable-log-stats): serve without that flag and with {fix}"),
    (
        "stats_disabled_api_servers",
        "vLLM switches statistics off with more than one API server: serve with --api-server-count 1 and {fix}",
    ),
    (
        "aggregated_engines",
        "its engines are aggregated into one line, for which vLLM prints no MFU: serve without "
        "--aggregate-engine-logging and with {fix}",
    ),
    (
        "log_level_hides_stats",
        "its log level hides the statistics lines: serve at level INFO "
        "(VLLM_LOGGING_LEVEL=INFO, SGLang --log-level info)",
    ),
    (
        "mfu_needs_enable_metrics",
        "SGLang's --enable-mfu-metrics does nothing without --enable-metrics: serve with both",
    ),
    (
        "mfu_debug_type_error",
        "VLLM_DEBUG_MFU_METRICS breaks the statistics of vLLM 0.30 to 0.33: serve without that variable",
    ),
    ("engine_crashed", "the engine crashed before it printed statistics: read the error in the log and serve again"),
)


def lm_head_only(facts: LogFacts) -> bool:
    """vLLM dropped attention or FFN from its count: a quantization it does not know."""
    parts = set(facts.components)
    return facts.engine == "vllm" and bool(parts) and not ({"ffn"} <= parts and parts & {"attn", "mla_attn"})


def engine_usable(facts: LogFacts, found: tuple[ModelShape, ShapeSource] | None = None) -> bool:
    """False where the engine's own rates are not those of this model, whatever its lines say."""
    return not set(engine_caveats(facts, found)) & _MISCOUNTS


def run_caveats(codes: tuple[str, ...], *, recounted: bool) -> tuple[str, ...]:
    """Of ``engine_caveats``, those to be said beside every figure: miscounts that no recount makes good."""
    spoken = _MISCOUNTS - _MADE_GOOD if recounted else _MISCOUNTS | {"mla_not_recounted"}
    return tuple(code for code in codes if code in spoken)


_MADE_GOOD = frozenset({"sglang_tp_mlp", "sglang_pp_whole_model", "sglang_moe_uncounted"})
_MISCOUNTS = _MADE_GOOD | {"lm_head_only", "mla_miscounted", "swa_full_context"}


def engine_caveats(facts: LogFacts, found: tuple[ModelShape, ShapeSource] | None) -> tuple[str, ...]:
    """How this engine's count departs from the work done.

    ``lm_head_only``, ``mla_miscounted``, ``mla_not_recounted``, ``swa_full_context``, ``vllm_full_square``,
    ``vllm_speculative_as_prefill``, ``vllm_lm_head_every_token``, ``sglang_weights_per_token``, ``sglang_tp_mlp``,
    ``sglang_pp_whole_model``, ``sglang_quantization_ignored``, ``sglang_moe_uncounted``, ``sglang_summed_triangle``,
    ``sglang_lm_head_missing``.
    """
    shape = found[0] if found else None
    if facts.engine == "sglang":
        return tuple(_sglang_caveats(facts, shape))
    return tuple(_vllm_caveats(facts, shape)) if facts.engine == "vllm" else ()


def _vllm_caveats(facts: LogFacts, shape: ModelShape | None) -> list[str]:
    codes = []
    if lm_head_only(facts):
        codes.append("lm_head_only")
    if latent_attention(facts):
        codes.append("mla_miscounted" if before(facts, 0, 24) else "mla_not_recounted")
    if shape is not None and shape.sliding_window and shape.sliding_layers and before(facts, 0, 30):
        codes.append("swa_full_context")
    if _counted(facts):
        codes.append("vllm_full_square")
        if before(facts, 0, 16):
            codes.append("vllm_lm_head_every_token")
        if facts.speculative:
            codes.append("vllm_speculative_as_prefill")
    return codes


def _sglang_caveats(facts: LogFacts, shape: ModelShape | None) -> list[str]:
    codes = ["mla_miscounted"] if latent_attention(facts) else []
    if not _counted(facts):
        return codes
    codes += ["sglang_weights_per_token", "sglang_lm_head_missing"]
    if (facts.tp or 1) > 1:
        codes.append("sglang_tp_mlp")
    if (facts.pp or 1) > 1:
        codes.append("sglang_pp_whole_model")
    if facts.quantization:
        codes.append("sglang_quantization_ignored")
    if shape is not None and shape.experts:
        codes.append("sglang_moe_uncounted")
    if not version_of(facts.engine_version) or before(facts, 0, 5, 18):  # most releases print no version
        codes.append("sglang_summed_triangle")
    return codes


def _counted(facts: LogFacts) -> bool:
    """Whether the engine was asked for its own count, as far as the log tells."""
    return facts.flags.get("enable_mfu_metrics", True)


def nothing_usable(facts: Sequence[LogFacts], report: ScanReport, summary: Summary) -> str | None:
    """Why nothing in the log can be judged, and what would change that: one sentence, or None if something can."""
    if summary.judged:
        return None
    if not report.problems:
        return _reason(facts, report, summary)
    others = f" (and {len(report.problems) - 1:,} more such troubles)" if len(report.problems) > 1 else ""
    problem = report.problems[0] + others
    if report.bytes_read == 0:
        return f"Nothing could be read: {problem}; give an intact copy of the log."
    reason = _reason(facts, report, summary)
    return (
        f"{problem}; what was read is not enough: {reason.replace('The ', 'the ', 1) if reason[0] == 'T' else reason}"
    )


def _reason(facts: Sequence[LogFacts], report: ScanReport, summary: Summary) -> str:
    latest = next((f for f in reversed(facts) if f.engine), None)
    if summary.steps == 0 and not report.throughput_lines and not report.mfu_lines:
        return _no_lines(latest, facts, report)
    if latest is not None and lm_head_only(latest):
        return (
            "vLLM left attention and FFN out of its count (it does not know this quantization), and the model's "
            "dimensions are not known: name the model with --model."
        )
    if summary.excluded and summary.steps == sum(summary.excluded.get(s, 0) for s in ("idle", "noise")):
        return f"All {summary.steps} windows are idle or health probes: log the server while it serves requests."
    return _no_dimensions(latest)


def _no_lines(latest: LogFacts | None, facts: Sequence[LogFacts], report: ScanReport) -> str:
    if report.bytes_read == 0:
        return "The log is empty: redirect the server's output into it (SGLang logs to stderr: 2>&1)."
    said = {code for f in facts for code in f.warnings}
    fix = _FIX.get(latest.engine or "", _FIX["vllm"]) if latest else _FIX["vllm"]
    for code, sentence in _NO_LINES:
        if code in said:
            return f"The log holds no statistics lines: {sentence.format(fix=fix)}."
    if latest is None and report.only_engine is not None:
        name = _NAMES.get(report.only_engine, report.only_engine)
        return (
            f"The log holds no line of {name}, and --engine {report.only_engine} leaves other engines' lines out: "
            "drop that flag."
        )
    if latest is None:
        return (
            "The log holds no line of vLLM or SGLang: give the server's own log "
            "(SGLang writes it to stderr: redirect with 2>&1)."
        )
    if latest.flags.get("disable_log_stats"):
        return f"The log holds no statistics lines: {_NO_LINES[0][1].format(fix=fix)}."
    return (
        "The log holds a server's start-up but no statistics line: statistics are printed only while requests run "
        "(vLLM every 10 s), so serve for longer or check that the level is INFO."
    )


def _no_dimensions(latest: LogFacts | None) -> str:
    """Throughput lines alone, and no model to recount them with."""
    engine = (latest.engine if latest else None) or "vllm"
    if latest is not None and "mfu_needs_enable_metrics" in latest.warnings:
        return (
            "SGLang's --enable-mfu-metrics does nothing without --enable-metrics, and the model's dimensions are not "
            "known: serve with both, or name the model with --model."
        )
    if latest is not None and "aggregated_engines" in latest.warnings:
        return (
            "vLLM prints no MFU lines for aggregated engines, and the model's dimensions are not known: serve without "
            "--aggregate-engine-logging, or name the model with --model."
        )
    return (
        "The log holds throughput lines but no MFU lines, and the model's dimensions are not known: "
        f"serve with {_FIX.get(engine, _FIX['vllm'])}, or name the model with --model (a known name or a config.json)."
    )
