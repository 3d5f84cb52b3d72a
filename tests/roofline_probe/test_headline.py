"""The fraction that stands for a kind, and the gate on it."""

from __future__ import annotations

import dataclasses

import pytest

from roofline_probe.errors import GateNotMet, UsageError
from roofline_probe.headline import check_gates, headline, parse_gates
from roofline_probe.point import Bin, Roof, Summary

ROOF = Roof(
    origin="measured", device="card", choice="auto", dtype="bf16", dtype_source="log", pi_sustained_tflops=683.0
)  # fmt: skip


def row(kind: str, **given: float | None) -> Bin:
    known = {field.name: None for field in dataclasses.fields(Bin)}
    known |= {"kind": kind, "engine": "vllm", "windows": 1, "seconds": 1.0, "estimated": False, "caveats": ()}
    return Bin(**{**known, **given})  # type: ignore[arg-type]


def summary(*rows: Bin) -> Summary:
    return Summary(kinds=rows, bins=(), ranks=())


def test_decode_is_judged_by_its_step_even_where_a_roof_is_nearer() -> None:
    assert headline(row("decode", attained_fraction=0.83, roof_fraction=0.61), ROOF) == (0.83, "attained")


def test_prefill_is_judged_against_pi() -> None:
    assert headline(row("prefill", compute_fraction=0.9, attained_fraction=0.98), ROOF) == (0.9, "of sustained pi")


def test_roof_fraction_stands_in_where_the_step_cannot_be_taken_apart() -> None:
    assert headline(row("decode", roof_fraction=0.61), ROOF) == (0.61, "of the roof")


@pytest.mark.parametrize(
    ("text", "gates"),
    [
        (None, {}),
        ("decode=80", {"decode": 0.8}),
        ("decode=80,prefill=85", {"decode": 0.8, "prefill": 0.85}),
        (" decode = 82.5% , mixed=0", {"decode": 0.825, "mixed": 0.0}),
    ],
    ids=["none", "one", "two", "spaces-and-percent-signs"],
)
def test_gates_are_read(text: str | None, gates: dict[str, float]) -> None:
    assert parse_gates(text) == pytest.approx(gates)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "decode",
        "decode=",
        "decode=x",
        "decode=-1",
        "decode=nan",
        "decode=inf",
        "lunch=3",
        "decode=１２",
        "decode=1_0",
        "decode=1e1",
        "decode=+5",
        "decode=5%%",
        "decode=9999999",
    ],
)
def test_gates_that_are_not_understood_show_the_form(text: str) -> None:
    with pytest.raises(UsageError, match="decode=80,prefill=85"):
        parse_gates(text)


def test_met_gates_pass_exactly_at_their_value() -> None:
    check_gates({"decode": 0.83}, summary(row("decode", attained_fraction=0.83)), ROOF)


def test_missed_gate_says_by_how_much_and_of_what() -> None:
    rows = summary(row("decode", attained_fraction=0.764), row("prefill", compute_fraction=0.9))
    with pytest.raises(GateNotMet) as caught:
        check_gates({"decode": 0.8, "prefill": 0.85}, rows, ROOF)
    assert str(caught.value) == "Gate not met: decode at 76.4 % attained, 3.6 points below 80 %."
    assert caught.value.exit_code == 1


def test_gate_without_anything_to_judge_fails_instead_of_passing() -> None:
    with pytest.raises(GateNotMet, match="no steady prefill window"):
        check_gates({"prefill": 0.1}, summary(row("decode", attained_fraction=0.9)), ROOF)
    with pytest.raises(GateNotMet, match="cannot be judged under this roof"):
        check_gates({"decode": 0.1}, summary(row("decode")), ROOF)


def test_two_thresholds_for_one_kind_are_refused() -> None:
    with pytest.raises(UsageError, match="two thresholds for decode"):
        parse_gates("decode=90,decode=10")
