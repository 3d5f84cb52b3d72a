"""Turn any vLLM or SGLang log into a stream of serving steps. Knows the engines' text and nothing of GPUs.

>>> for step in log_parsers.parse("vllm.log"):     # doctest: +SKIP
...     print(step.time, step.kind, step.tflops, step.gbps)
"""

from __future__ import annotations

from log_parsers.step import LogFacts, ScanReport, ServingStep

__all__ = ["LogFacts", "ScanReport", "ServingStep"]
