"""Measure a device's own roofline, then put vLLM's and SGLang's serving steps under it."""

from __future__ import annotations

__version__ = "0.1.0"
