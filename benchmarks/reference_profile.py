"""Writes a profile to ship: a full ``probe measure`` plus the ceilings of further models and tensor-parallel degrees.

    python -m benchmarks.reference_profile OUT.json --peaks fp16 --also llama-3.1-8b:2 --link TWO.json

The link between two such cards comes from a profile of ``probe measure --device all``. What identifies one card
(serial number, place on the bus) is left out: another card of that model differs by a few percent, and the shipped one
stands for the model.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import msgspec

from roofline_probe import profile as document
from roofline_probe import profile_file
from roofline_probe.measure.ceiling_run import measure_ceiling
from roofline_probe.measure.device import open_device
from roofline_probe.measure.dtypes import parse_dtypes
from roofline_probe.measure.options import Event, MeasureOptions
from roofline_probe.measure.peak_run import find_burst, find_sustained
from roofline_probe.measure.sweep import Measurement
from roofline_probe.workloads import load_model

ONLY_BY_NAME = True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--dtype", default="bf16,fp8")
    parser.add_argument("--peaks", default="", help="further dtypes whose peaks, and nothing else, are measured")
    parser.add_argument("--also", default="", help="MODEL:TP,… in the first two dtypes")
    parser.add_argument("--link", type=Path, help="a profile of several cards, whose link is taken over")
    arguments = parser.parse_args()
    link = profile_file.decode(arguments.link.read_bytes(), str(arguments.link)).link if arguments.link else None
    options = MeasureOptions(dtypes=parse_dtypes([arguments.dtype]))

    def tell(event: Event) -> None:
        if event.kind == "stage":
            print(event.text, file=sys.stderr, flush=True)

    run = Measurement(options, tell, lambda profile: None, open_device("auto"))
    run.go()
    state = run.state
    for dtype in parse_dtypes([arguments.peaks]):
        find_burst(state, dtype)
        find_sustained(state, dtype, options.soak_s)
    for item in filter(None, arguments.also.split(",")):
        model, _, tp = item.partition(":")
        state.options = replace(options, model=load_model(model), tp=int(tp or 1))
        for dtype in run.dtypes[:2]:
            tell(Event("stage", f"{dtype} ceiling of {model}, tp {tp}"))
            measure_ceiling(state, dtype)
    profile_file.save(anonymous(msgspec.structs.replace(run.profile(), link=link)), arguments.out)


def anonymous(profile: document.Profile) -> document.Profile:
    """Without serial number, bus address and the command's own paths."""
    return msgspec.structs.replace(
        profile,
        device=msgspec.structs.replace(profile.device, uuid=None, pci_bus_id=None),
        environment=msgspec.structs.replace(profile.environment, command_line="probe measure"),
    )


if __name__ == "__main__":
    main()
