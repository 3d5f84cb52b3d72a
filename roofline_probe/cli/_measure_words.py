"""What the words behind ``probe measure``'s options mean: lists of sizes, rates by dtype, answers, modes."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from roofline_probe.errors import UsageError

if TYPE_CHECKING:
    from roofline_probe.measure.predict import Answers

_LARGEST_SIZE = 1 << 20
_MODES = ("gemm", "bandwidth", "all")
_IDLE_IN = {
    "bandwidth": ("--dtype", "--square", "--m-sweep", "--model", "--tp", "--soak", "--no-soak"),
    "gemm": ("--buffer-mib",),
}
"""Options that a mode never looks at."""


def asked(*flags: object) -> bool | None:
    """True if one of the flags was given; None leaves it to the kind of run."""
    return True if any(flag is not None for flag in flags) else None


def check_mode(mode: str, given: Mapping[str, object]) -> None:
    """One of the modes, and no option that it leaves without effect: the figure would not be the one asked for."""
    from roofline_probe.report.text import listed

    if mode not in _MODES:
        raise UsageError(f"--mode {mode} is not a mode; choose gemm, bandwidth or all.")
    idle = [flag for flag in _IDLE_IN.get(mode, ()) if given[flag] is not None]
    if idle:
        left_out = "arithmetic" if mode == "bandwidth" else "bandwidth"
        raise UsageError(
            f"--mode {mode} measures no {left_out}, so {listed(idle)} would have no effect; "
            f"leave {'it' if len(idle) == 1 else 'them'} out or choose --mode all."
        )


def sizes(flag: str, text: str | None) -> tuple[int, ...] | None:
    """``4096,8192``, each once and in order; None if the flag was not given."""
    if text is None:
        return None
    try:
        found = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        found = ()
    if not found or found[0] < 1:
        raise UsageError(f"{flag} {text} is not a list of sizes; write it as 4096,8192.")
    if found[-1] > _LARGEST_SIZE:
        raise UsageError(f"{flag} {found[-1]} is above {_LARGEST_SIZE:,}, the largest size that is measured.")
    return found


def peaks(text: str | None) -> dict[str, float]:
    """By dtype; the empty name means the first dtype that is measured."""
    from roofline_probe.measure.dtypes import dtype_name

    found = {}
    for part in text.split(",") if text else ():
        name, equals, number = part.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            value = 0.0
        if not 0 < value < math.inf or (equals and not name.strip()):
            raise UsageError(f"--peak-tflops {text} is not a rate; write it as 989.4 or bf16=989.4,fp8=1978.9.")
        key = dtype_name(name) if equals else ""
        if key in found:
            raise UsageError(f"--peak-tflops {text} gives two rates for {key or 'one dtype'}; give one for each.")
        found[key] = value
    return found


def answers(predict: bool, predictions: str | None) -> Answers | None:
    """What the user expects: as given, asked for, or None."""
    from roofline_probe.measure import predict as questions

    if predictions is not None:
        return questions.parse_answers(predictions)
    if not predict:
        return None
    if not sys.stdin.isatty():
        raise UsageError("--predict asks on a terminal; unattended, give --predictions 80,90,higher,lower.")
    try:
        return questions.ask(lambda question: str(typer.prompt(question, err=True)))
    except typer.Abort:  # Ctrl-C or Ctrl-D at a question: nothing has run yet
        raise KeyboardInterrupt from None
