"""Serving steps from vLLM and SGLang logs, in any wrapping, without knowing anything of GPUs.

::

    import log_parsers

    log = log_parsers.parse("vllm.log")
    for step in log:
        print(step.time, step.kind, step.tflops, step.gbps)
    print(log.facts, log.report)
"""

from log_parsers.reading import ParsedLog, parse
from log_parsers.step import LogFacts, ScanReport, ServingStep
from log_parsers.stream import WARNINGS, LogStream

__all__ = ["WARNINGS", "LogFacts", "LogStream", "ParsedLog", "ScanReport", "ServingStep", "parse"]
