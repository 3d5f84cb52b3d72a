"""Two profiles, before and after: what is called a change of the card, and what is not judged."""

from __future__ import annotations

from typing import Any

import pytest

from roofline_probe.diff.profiles import diff_profiles
from roofline_probe.diff.profiles import over as worse_figures
from roofline_probe.errors import UsageError
from roofline_probe.profile import Beta, DeviceInfo, Environment, Link, LinkPoint, Peak, Profile
from roofline_probe.report import diff_view, diff_words


def card(**changes: Any) -> Profile:
    fields: dict[str, Any] = {
        "schema_version": 1,
        "method_version": 1,
        "created": "2026-11-29T13:00:00+00:00",
        "device": DeviceInfo(kind="cuda", name="NVIDIA H200", uuid="GPU-1", driver="580"),
        "environment": Environment(probe_version="0.1.0", command_line="probe measure", python="3.11", platform="L"),
        "peaks": [
            Peak(dtype="bf16", regime=regime, tflops=tflops, implementation="torch.mm", m=1, n=1, k=1)  # type: ignore[arg-type]
            for regime, tflops in (("burst", 820.0), ("sustained", 683.0))
        ],
        "betas": [Beta(pattern="read", gbps=4580.0, implementation="x", array_bytes=2**30)],
    }
    return Profile(**(fields | changes))


def slower_card() -> Profile:
    peak = Peak(dtype="bf16", regime="sustained", tflops=630.0, implementation="torch.mm", m=1, n=1, k=1)
    return card(
        device=DeviceInfo(kind="cuda", name="NVIDIA H200", uuid="GPU-1", driver="590"),
        peaks=[card().peaks[0], peak],
        betas=[Beta(pattern="read", gbps=4600.0, implementation="x", array_bytes=2**30)],
    )


def test_profiles_tell_figures_and_facts_that_changed() -> None:
    found = diff_profiles(card(), slower_card(), ("a", "b"))
    verdicts = {f"{f.group} {f.name}": f.verdict for f in found.figures}
    assert verdicts == {"pi bf16 burst": "unchanged", "pi bf16 sustained": "worse", "beta read": "unchanged"}
    assert [(f.name, f.before, f.after) for f in found.facts] == [("driver", "580", "590")]
    (worse,) = worse_figures(found, 5.0)
    assert diff_words.figure_words(worse) == "pi bf16 sustained 683 -> 630 TFLOP/s: 7.8 % worse"
    assert worse_figures(found, 8.0) == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        pytest.param({"method_version": 2}, "different_method", id="method"),
        pytest.param({"quick": True}, "quick", id="quick"),
        pytest.param({"complete": False}, "incomplete", id="interrupted"),
        pytest.param({"device": DeviceInfo(kind="cuda", name="NVIDIA H100")}, "different_card", id="card"),
        pytest.param(
            {"device": DeviceInfo(kind="cuda", name="NVIDIA H200", uuid="GPU-2")}, "other_card_of_this_kind", id="unit"
        ),
    ],
)
def test_what_stands_between_two_profiles_is_told(changes: dict[str, Any], code: str) -> None:
    found = diff_profiles(card(), card(**changes), ("a", "b"))
    assert found.caveats == (code,)
    assert len(diff_words.profile_caveats(found)) == 1


def test_figure_of_one_profile_only_is_no_change() -> None:
    found = diff_profiles(card(), card(betas=[]), ("a", "b"))
    beta = next(f for f in found.figures if f.group == "beta")
    assert beta.verdict == "only before"
    assert worse_figures(found, 0.0) == []
    assert diff_words.figure_words(beta) == "beta read 4,580 GB/s: measured only before"


def test_collectives_timed_differently_are_shown_and_not_judged() -> None:
    def linked(timer: str, seconds: float) -> Profile:
        points = [
            LinkPoint(collective="all_reduce", message_bytes=size, seconds=seconds, timer=timer)
            for size in (8192, 64 << 20)
        ]
        return card(link=Link(backend="nccl", ranks=2, points=points))

    found = diff_profiles(linked("cuda-graph", 11e-6), linked("host", 34e-6), ("a", "b"))
    links = [f for f in found.figures if f.group == "link"]
    assert [(f.verdict, f.gated, f.relative) for f in links] == [("timed differently", False, None)] * 2
    assert found.caveats == ("different_timers",)
    assert worse_figures(found, 0.0) == []
    assert diff_words.profile_sentences(found) == []
    text = diff_view.markdown(found)
    assert "all reduce 8,192 B, graph/host | 11.00 | 34.00" in text
    assert "they are shown and not judged" in text
    same = diff_profiles(linked("host", 11e-6), linked("host", 34e-6), ("a", "b"))
    assert [f.verdict for f in same.figures if f.gated and f.group == "link"] == ["worse"]
    assert diff_words.profile_sentences(same) == ["link all reduce 67,108,864 B 11.0 -> 34.0 µs: 3.1x worse"]


@pytest.mark.parametrize("percent", [float("nan"), float("inf"), -1.0])
def test_a_gate_that_nothing_can_fail_is_refused(percent: float) -> None:
    with pytest.raises(UsageError, match="is not a percentage"):
        worse_figures(diff_profiles(card(), slower_card(), ("a", "b")), percent)
