"""The document refuses what no device has, by name, so that nothing that divides by it needs to doubt it."""

from __future__ import annotations

import copy
import json
import statistics
from pathlib import Path
from typing import Any

import pytest

from roofline_probe import profile as document
from roofline_probe import profile_file
from roofline_probe.errors import UsageError

SHIPPED = json.loads((Path(document.__file__).parent / "profiles" / "h200.json").read_bytes())
IMPOSSIBLE = [
    ("schema_version", 0),
    ("created", "\x1b]0;title\x07"),
    ("created", "yesterday"),
    ("peaks.0.dtype", "bf16\x1b[31m"),
    ("peaks.0.dtype", "bf16\n"),
    ("peaks.0.tflops", 0),
    ("peaks.0.tflops", -1.0),
    ("peaks.0.tflops", 5e-324),
    ("betas.0.gbps", 0),
    ("betas.0.gbps", 1e308),
    ("ceilings.0.weight_bytes", 0),
    ("ceilings.0.flops_per_token", 0),
    ("ceilings.0.tp", 0),
    ("ceilings.0.dtype", "b f"),
    ("ceilings.0.points.0.m", 0),
    ("ceilings.0.points.0.ms_burst", 0.0),
    ("link.ranks", 0),
    ("link.points.0.seconds", 0.0),
    ("link.points.0.message_bytes", -8),
    ("trials.0.tflops", -1.0),
    ("trials.0.dtype", ""),
    ("device.memory_bytes", 0),
    ("hidden_size", 0),
    ("gqa_group", -4),
    ("unsupported", {"\x1b[31m": "no"}),
    ("datasheet.tflops", {"bf\u202e16": 1.0}),
]


def changed(path: str, value: object) -> bytes:
    profile: Any = copy.deepcopy(SHIPPED)
    *parents, last = (int(part) if part.isdigit() else part for part in path.split("."))
    place = profile
    for part in parents:
        place = place[part]
    place[last] = value
    return json.dumps(profile).encode()


@pytest.mark.parametrize(("path", "value"), IMPOSSIBLE, ids=[f"{path}={value!r:.20}" for path, value in IMPOSSIBLE])
def test_an_impossible_figure_or_a_word_that_is_none_is_refused_with_its_place(path: str, value: object) -> None:
    with pytest.raises(UsageError, match=r"p\.json is (a damaged|not a) p") as error:
        profile_file.decode(changed(path, value), "p.json")
    assert str(error.value).count("\n") == 0
    assert "\x1b" not in str(error.value)
    assert path.split(".", maxsplit=1)[0] in str(error.value)


def test_what_was_measured_is_taken() -> None:
    assert profile_file.decode(json.dumps(SHIPPED).encode(), "p.json").complete


def test_a_file_far_too_large_is_not_even_read_as_one() -> None:
    with pytest.raises(UsageError, match="too large"):
        profile_file.decode(b" " * (33 << 20), "p.json")


def test_every_figure_of_the_shipped_profile_follows_from_its_raw_times() -> None:
    """As the document's own words say: the best block, the median, or the mean after the lead-in."""
    trials = [t for t in profile_file.decode(json.dumps(SHIPPED).encode(), "h200").trials if t.seconds_used is not None]
    assert {t.regime for t in trials} == {"burst", "median", "sustained"}
    for trial in trials:
        assert trial.glitches == 0, "else they would have to be left out below"
        kept = trial.seconds[trial.lead_in_samples or 0 :]
        used = {"burst": min, "median": statistics.median, "sustained": statistics.fmean}[trial.regime](kept)
        assert trial.seconds_used == pytest.approx(used, rel=1e-9)
        if trial.tflops is not None:
            assert trial.tflops == pytest.approx(trial.flops / used / 1e12, rel=1e-9)
        if trial.gbps is not None:
            assert trial.gbps == pytest.approx(trial.bytes_moved / used / 1e9, rel=1e-9)
