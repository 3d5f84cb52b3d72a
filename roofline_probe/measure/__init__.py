"""Measures a device's own roofs. The only folder that imports torch, and only once a device is opened.

``run`` is the whole of it: options in, a ``Profile`` out, progress through a callback. Start reading at ``sweep``.
"""

from __future__ import annotations

from roofline_probe.measure.options import Event, MeasureOptions
from roofline_probe.measure.sweep import run

__all__ = ["Event", "MeasureOptions", "run"]
