"""What to look at while nothing usable arrives: one sentence, from what has been seen so far."""

from __future__ import annotations

from log_parsers.step import LogFacts, ScanReport

PATIENCE_S = 30.0


def hint(elapsed_s: float, report: ScanReport, facts: LogFacts | None) -> str | None:
    """Why no step has come, or None while it is too early to say or steps have come."""
    if report.steps or elapsed_s < PATIENCE_S:
        return None
    if not report.lines:
        return (
            f"Nothing has been logged in {elapsed_s:.0f} s; is the server's output piped in? "
            "SGLang logs to stderr: use 2>&1."
        )
    seen = f"no MFU lines in {elapsed_s:.0f} s; {report.lines:,} lines seen"
    return f"{seen}; {_cause(elapsed_s, report, facts)}"


def _cause(elapsed_s: float, report: ScanReport, facts: LogFacts | None) -> str:
    flags = facts.flags if facts is not None else {}
    warnings = facts.warnings if facts is not None else ()
    if flags.get("disable_log_stats") or any(code.startswith("stats_disabled") for code in warnings):
        return "the server runs without statistics (--disable-log-stats, or more than one API server)."
    if "aggregated_engines" in warnings:
        return "engines are aggregated into one line: leave --aggregate-engine-logging out."
    if facts is not None and facts.engine == "sglang" and flags.get("enable_metrics") is False:
        return "SGLang needs --enable-metrics beside --enable-mfu-metrics."
    if flags.get("enable_mfu_metrics"):
        return "--enable-mfu-metrics is on: figures come once requests do."
    if report.only_engine is not None and (facts is None or facts.engine is None):
        return f"--engine {report.only_engine} leaves other engines' lines out: is it the right one?"
    if facts is not None and facts.engine == "vllm":
        return "is --enable-mfu-metrics on?"
    return "is --enable-mfu-metrics on? SGLang logs to stderr: use 2>&1."
