"""Serving steps from vLLM and SGLang logs, in any wrapping, without knowing anything of GPUs.

::

    import log_parsers

    log = log_parsers.parse("vllm.log")
    for step in log:
        print(step.time, step.kind, step.tflops, step.gbps)
    print(log.facts, log.report)
"""

from typing import TYPE_CHECKING, Any

from log_parsers.reading import ParsedLog, parse
from log_parsers.step import WARNINGS, LogFacts, ScanReport, ServingStep

if TYPE_CHECKING:
    from log_parsers.stream import LogStream

__all__ = ["WARNINGS", "LogFacts", "LogStream", "ParsedLog", "ScanReport", "ServingStep", "parse"]


def __getattr__(name: str) -> Any:
    """``LogStream`` with its grammars is loaded when it is asked for: a long log's are loaded where it is parsed."""
    if name == "LogStream":
        from log_parsers.stream import LogStream

        return LogStream
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
