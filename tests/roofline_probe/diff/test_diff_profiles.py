"""Two profiles, before and after: what is called a change of the card, and what is not judged."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from roofline_probe.diff.profiles import diff_profiles
from roofline_probe.diff.profiles import over as worse_figures
from roofline_probe.errors import UsageError
from roofline_probe.profile import (
    Beta,
    CeilingPoint,
    DeviceInfo,
    Environment,
    Link,
    LinkPoint,
    ModelCeiling,
    Peak,
    Profile,
    Telemetry,
)
from roofline_probe.report import diff_profile_words, diff_view


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
    assert diff_profile_words.figure_words(worse) == "pi bf16 sustained 683 -> 630 TFLOP/s: 7.8 % worse"
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
    assert len(diff_profile_words.profile_caveats(found)) == 1


def test_figure_of_one_profile_only_is_no_change() -> None:
    found = diff_profiles(card(), card(betas=[]), ("a", "b"))
    beta = next(f for f in found.figures if f.group == "beta")
    assert beta.verdict == "only before"
    assert worse_figures(found, 0.0) == []
    assert diff_profile_words.figure_words(beta) == "beta read 4,580 GB/s: measured only before"


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
    assert diff_profile_words.profile_sentences(found) == []
    text = diff_view.markdown(found)
    assert "all reduce 8,192 B, graph/host | 11.00 | 34.00" in text
    assert "they are shown and not judged" in text
    same = diff_profiles(linked("host", 11e-6), linked("host", 34e-6), ("a", "b"))
    assert [f.verdict for f in same.figures if f.gated and f.group == "link"] == ["worse"]
    assert [diff_profile_words.figure_cell(f) for f in same.figures if f.group == "link"] == ["(3.1x)", "3.1x"]
    assert diff_profile_words.profile_headline(same) == "1 figure worse, 0 better, 3 unchanged, 1 not judged."
    assert diff_profile_words.unjudged_note(same) == (
        "not judged: 1 small message timed by the host, which is mostly its launch (in brackets)"
    )
    assert diff_profile_words.profile_sentences(same) == ["link all reduce 67,108,864 B 11.0 -> 34.0 µs: 3.1x worse"]


def test_every_figure_shown_is_counted() -> None:
    found = diff_profiles(card(), card(betas=[], telemetry=[]), ("a", "b"))
    assert diff_profile_words.profile_headline(found) == "0 figures worse, 0 better, 2 unchanged, 1 not judged."
    assert diff_profile_words.unjudged_note(found) == "not judged: 1 figure in one profile only"


def test_a_change_just_under_what_counts_is_shown_as_such() -> None:
    nearly = [msgspec.structs.replace(peak, tflops=peak.tflops * 0.9902) for peak in card().peaks]
    found = diff_profiles(card(), card(peaks=nearly), ("a", "b"))
    assert [diff_profile_words.figure_cell(f) for f in found.figures if f.group == "pi"] == ["-0.98", "-0.98"]


def test_a_clock_is_lower_and_not_worse() -> None:
    def clocked(mhz: int) -> Profile:
        return card(telemetry=[Telemetry(during="soak bf16", samples=9, sm_clock_mhz_median=mhz)])

    found = diff_profiles(clocked(1500), clocked(1400), ("a", "b"))
    assert diff_profile_words.profile_sentences(found) == ["clock soak bf16 1,500 -> 1,400 MHz: 6.7 % lower"]
    assert diff_profile_words.profile_headline(found).startswith("0 figures worse")


def test_facts_are_words_with_units() -> None:
    device = DeviceInfo(
        kind="cuda", name="NVIDIA H200", uuid="GPU-1", driver="580", memory_clock_max_mhz=3201, power_limit_w=700.0,
        memory_bytes=150_109_880_320, ecc=True, mig=False,
    )  # fmt: skip
    told = {diff_profile_words.fact_words(f) for f in diff_profiles(card(), card(device=device), ("a", "b")).facts}
    assert told == {
        ("highest memory clock", "–", "3,201 MHz"),
        ("power limit", "–", "700 W"),
        ("memory", "–", "150.11 GB"),
        ("ECC", "–", "on"),
        ("MIG", "–", "off"),
    }


def test_what_one_profile_lacks_whole_is_named() -> None:
    points = [LinkPoint(collective="all_gather", message_bytes=size, seconds=1e-5) for size in (8192, 16384)]
    ceiling = ModelCeiling(
        model="llama-3.1-8b", dtype="bf16", tp=1, weight_bytes=1, flops_per_token=1,
        points=[CeilingPoint(m=1, ms_burst=4.0)],
    )  # fmt: skip
    found = diff_profiles(
        card(), card(ceilings=[ceiling], link=Link(backend="nccl", ranks=2, points=points)), ("a", "b")
    )
    assert diff_profile_words.profile_caveats(found) == [
        "Only after holds ceiling llama-3.1-8b bf16 tp1 and link all gather."
    ]
    assert diff_profiles(card(ceilings=[ceiling]), card(ceilings=[ceiling]), ("a", "b")).only_after == ()
    (figure,) = [f for f in diff_profiles(card(ceilings=[ceiling]), card(ceilings=[ceiling]), ("a", "b")).figures
                 if f.group == "ceiling"]  # fmt: skip
    assert figure.name == "llama-3.1-8b bf16 tp1, 1 token"


@pytest.mark.parametrize("percent", [float("nan"), float("inf"), -1.0])
def test_a_gate_that_nothing_can_fail_is_refused(percent: float) -> None:
    with pytest.raises(UsageError, match="is not a percentage"):
        worse_figures(diff_profiles(card(), slower_card(), ("a", "b")), percent)


def with_ceiling(soaked: float | None) -> Profile:
    point = CeilingPoint(m=256, ms_burst=6.0, ms_sustained=soaked)
    ceiling = ModelCeiling(model="x", dtype="bf16", tp=1, weight_bytes=1, flops_per_token=1, points=[point])
    return card(ceilings=[ceiling])


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [(7.0, 7.5, (7.0, 7.5)), (None, 7.0, (6.0, 6.0)), (7.0, None, (6.0, 6.0))],
    ids=["both soaked", "soaked after only", "soaked before only"],
)
def test_a_soaked_ceiling_is_compared_with_a_soaked_one(
    before: float | None, after: float | None, shown: tuple[float, float]
) -> None:
    found = diff_profiles(with_ceiling(before), with_ceiling(after), ("a", "b"))
    (figure,) = (f for f in found.figures if f.group == "ceiling")
    assert (figure.before, figure.after) == shown


def test_the_gate_does_not_fail_over_what_one_card_does_not_repeat() -> None:
    almost = [msgspec.structs.replace(peak, tflops=peak.tflops * 0.992) for peak in card().peaks]
    assert worse_figures(diff_profiles(card(), card(peaks=almost), ("a", "b")), 0.5) == []
