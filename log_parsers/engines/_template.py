"""How to teach the parsers a new engine: copy this file to ``<name>.py`` in this folder and change what it says.

Nothing else needs an edit: the folder is the list of engines, and the tests check the samples below, that no other
engine claims them, and that none of the known decoys passes. For an engine called ``example`` that prints ::

    [2026-03-01 12:00:00 TP0] throughput: 1234.5 tok/s, batch: 32, compute: 98.7 TFLOPS, memory: 2345.6 GB/s

1. ``needles``: literals that stand in every line you want, rare elsewhere: they are searched with SIMD in gigabytes
of log.
   Start-up lines go into ``local``, searched only near the beginning and behind a (re)start's banner.
2. ``parse_line``: from one bare line (colours, JSON and carriage returns are gone) to an event, or None. Find your
body by a
   literal, then ask ``head_of`` whether a record's head stands before it: where it returns None, the text is somebody's
   prompt. Return a ``broken`` event for a line that is yours but torn or cut, never a guess.
3. ``tracker``: ``EachLine`` where every line is a step of its own; its event values are fields of ``ServingStep``. An
engine
   whose steps need several lines, or whose windows only the past explains, brings a tracker (``_vllm_ticks.py``).
4. ``samples``: lines as the engine prints them, and the fields that they must yield. Take them from a real log.
"""

from __future__ import annotations

import regex

from log_parsers.engines import Engine, Event, Sample
from log_parsers.engines._each_line import EachLine
from log_parsers.wrappers import Bare, head_of

_LINE = regex.compile(
    r"throughput: (?P<gen>[0-9]{1,9}\.[0-9]) tok/s, batch: (?P<batch>[0-9]{1,9}), "
    r"compute: (?P<tflops>[0-9]{1,9}\.[0-9]) TFLOPS, memory: (?P<gbps>[0-9]{1,9}\.[0-9]) GB/s\Z"
)


def parse_line(bare: Bare) -> Event | None:
    """The event of one bare line; None if it is not this engine's."""
    start = bare.text.rfind("throughput: ")
    if start < 0 or "TFLOPS, memory: " not in bare.text:
        return None
    head = head_of(bare, start)
    if head is None or head.stamp is None:
        return None
    match = _LINE.match(bare.text, start)
    if match is None:
        return Event("broken", head, {"reason": "throughput line torn or cut"})
    return Event(
        "step",
        head,
        {
            "kind": "decode",
            "gen_tok_s": float(match["gen"]),
            "running": int(match["batch"]),
            "tflops": float(match["tflops"]),
            "gbps": float(match["gbps"]),
        },
    )


ENGINE = Engine(
    name="example",
    needles=(b"TFLOPS, memory: ",),
    local=(),
    parse_line=parse_line,
    tracker=EachLine,
    samples=(
        Sample(
            "[2026-03-01 12:00:00 TP0] throughput: 1234.5 tok/s, batch: 32, "
            "compute: 98.7 TFLOPS, memory: 2345.6 GB/s\n",
            {"rank": "TP0", "kind": "decode", "gen_tok_s": 1234.5, "running": 32, "tflops": 98.7, "gbps": 2345.6},
        ),
    ),
)
