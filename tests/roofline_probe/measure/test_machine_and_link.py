"""Several cards: who is slowest and why, all at once, and the link (two processes over gloo)."""

from __future__ import annotations

import msgspec
import pytest

from roofline_probe.errors import UsageError
from roofline_probe.measure import MeasureOptions, machine, run
from roofline_probe.measure.fake import FAKE_INFO, FakeDevice
from roofline_probe.measure.link import CPU_SIZES, bus_gbps, measure_link
from roofline_probe.profile import DeviceInfo, Profile


def alone(index: int, capped: float = 0.85, **identity: object) -> Profile:
    info: DeviceInfo = msgspec.structs.replace(FAKE_INFO, index=index, **identity)
    options = machine.of_one_card(MeasureOptions(dtypes=("bf16",), soak_s=2.0))
    return run(options, device=FakeDevice(capped=capped, identity=info))


def together(index: int, profile: Profile, capped: float) -> machine.Together:
    info = msgspec.structs.replace(FAKE_INFO, index=index)
    return machine.load_one(FakeDevice(capped=capped, identity=info), profile, 2.0, lambda: None)


def test_each_card_of_a_machine_is_asked_for_its_peaks_alone() -> None:
    part = alone(0)
    assert part.pi_tflops("bf16", "sustained") is not None
    assert part.ceilings == []
    assert not {t.label for t in part.trials} & {"qkv", "o_proj", "gate_up", "down"}


def test_each_card_is_swept_and_given_a_ceiling_when_asked() -> None:
    asked = machine.of_one_card(MeasureOptions(dtypes=("bf16",), squares=(1024,), ceiling=True))
    part = run(asked, device=FakeDevice())
    assert {t.m for t in part.trials if t.label == "square"} == {1024}
    assert len(part.ceilings) == 1


def test_the_machines_figures_are_the_slowest_cards_with_all_running() -> None:
    parts = [alone(0), alone(1)]
    loaded = [together(0, parts[0], 0.85), together(1, parts[1], 0.75)]
    found = machine.assemble(parts, loaded, complete=True)
    assert found.device.index == 1
    assert found.device.count == 2
    assert found.pi_tflops("bf16", "sustained") == pytest.approx(600, rel=0.01)
    assert [p.device.index for p in found.parts] == [0, 1]
    assert [w.code for w in found.warnings] == ["slower_together"]


def test_a_card_whose_process_died_is_named_and_every_figure_is_then_of_a_card_alone() -> None:
    parts = [alone(0), alone(1)]
    found = machine.assemble(parts, [together(0, parts[0], 0.6)], complete=True)
    assert found.complete
    assert [w.code for w in found.warnings] == ["not_together"]
    assert "card 1 gave no figure" in found.warnings[0].message
    assert "--device fake:1" in found.warnings[0].message
    assert found.pi_tflops("bf16", "sustained") == pytest.approx(680, rel=0.01)


def test_ctrl_c_while_the_link_is_measured_keeps_what_all_cards_reached_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = [alone(0), alone(1)]
    cards = [FakeDevice(identity=p.device) for p in parts]

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(machine, "accelerators", lambda: ("fake", 2))
    monkeypatch.setattr("roofline_probe.measure.sweep.open_device", lambda name: cards[int(name[-1])])
    monkeypatch.setattr(machine, "measure_together", lambda *_: [together(i, p, 0.6) for i, p in enumerate(parts)])
    monkeypatch.setattr(machine, "measure_link", interrupted)
    found = run(MeasureOptions(device="all", dtypes=("bf16",), soak_s=2.0))
    assert not found.complete
    assert found.pi_tflops("bf16", "sustained") == pytest.approx(480, rel=0.01)


@pytest.mark.parametrize(
    ("identity", "reason"),
    [
        ({"power_limit_w": 500.0}, "power limit is 500 W against 700 W"),
        ({"sm_clock_max_mhz": 1755}, "clock ends at 1755 MHz against 1980 MHz"),
        ({"ecc": True}, "ECC"),
        ({}, "for no reason that the driver names"),
    ],
    ids=["power", "clock", "ecc", "unknown"],
)
def test_the_slow_card_is_named_with_the_likely_reason(identity: dict[str, object], reason: str) -> None:
    warnings = machine.slow_card([alone(0), alone(1, capped=0.7, **identity)])
    assert [w.code for w in warnings] == ["slow_card"]
    assert "Card 1 is 18 % slower than card 0" in warnings[0].message
    assert reason in warnings[0].message


def test_cards_that_differ_by_a_percent_are_alike() -> None:
    assert machine.slow_card([alone(0), alone(1, capped=0.845)]) == []
    assert machine.slow_card([alone(0)]) == []


def test_a_part_survives_the_document() -> None:
    from roofline_probe import profile_file

    found = machine.assemble([alone(0), alone(1)], [], complete=True)
    again = profile_file.decode(profile_file.encode(found), "a machine")
    assert len(again.parts) == 2


def test_all_devices_need_an_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = msgspec.structs.replace(FAKE_INFO, kind="cpu")
    monkeypatch.setattr(machine, "open_device", lambda name: FakeDevice(identity=cpu))
    with pytest.raises(UsageError, match="needs a GPU"):
        run(MeasureOptions(device="all"))


def test_ctrl_c_between_cards_keeps_those_that_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_device(name: str) -> FakeDevice:
        index = int(name.partition(":")[2] or 0)
        faults = {"copy torch.mul 4096 MiB": KeyboardInterrupt()} if index == 1 else {}
        return FakeDevice(identity=msgspec.structs.replace(FAKE_INFO, index=index, count=3), faults=faults)

    monkeypatch.setattr(machine, "open_device", open_device)
    monkeypatch.setattr("roofline_probe.measure.sweep.open_device", open_device)
    found = run(MeasureOptions(device="all", dtypes=("bf16",)))
    assert not found.complete
    assert len(found.parts) == 2


@pytest.mark.parametrize(
    ("collective", "ranks", "gbps"),
    [("all_reduce", 2, 1.0), ("all_reduce", 8, 1.75), ("all_gather", 2, 0.5), ("point_to_point", 2, 1.0)],
)
def test_bus_bandwidth_counts_what_one_rank_must_send(collective: str, ranks: int, gbps: float) -> None:
    assert bus_gbps(collective, 10**9, 1.0, ranks) == pytest.approx(gbps)


@pytest.mark.slow
def test_a_card_that_fails_among_others_ends_the_common_run_instead_of_hanging() -> None:
    """There is no second CPU: its process dies, and the first one waits at the barrier in vain."""
    pytest.importorskip("torch")
    parts = [alone(0), alone(1)]
    assert machine.measure_together("cpu", parts, 1.0) == []


@pytest.mark.slow
def test_two_processes_measure_their_link_over_gloo() -> None:
    pytest.importorskip("torch")
    link = measure_link("cpu", 2)
    assert (link.backend, link.ranks) == ("gloo", 2)
    measured = [(p.collective, p.message_bytes) for p in link.points]
    assert measured == [(c, size) for c in ("all_reduce", "all_gather", "point_to_point") for size in CPU_SIZES]
    assert all(p.seconds > 0 and p.bus_gbps for p in link.points)
