"""Soaks, what the sensors say in words, warnings: pure functions of scripted readings."""

from __future__ import annotations

import msgspec
import pytest

from roofline_probe.measure import advice, telemetry, verdict
from roofline_probe.measure.device import Reading, Surroundings
from roofline_probe.measure.fake import FAKE_INFO, FakeDevice
from roofline_probe.measure.gemm import Gemm
from roofline_probe.measure.soak import Soak
from roofline_probe.measure.timing import Limits, measure_soaked
from roofline_probe.profile import Beta, Datasheet, DeviceInfo, Peak, Telemetry, Trial

LARGE = Gemm("bf16", 8192, 8192, 8192)


def soaked(device: FakeDevice, seconds: float = 5.0, **more: object) -> tuple[Trial, Soak]:
    soak = Soak(LARGE.key, seconds, 1.0, **more)  # type: ignore[arg-type]
    return measure_soaked(device, LARGE, Limits(), soak), soak


def test_a_soak_reports_the_rate_it_settles_at_not_the_burst_it_began_with() -> None:
    trial, soak = soaked(FakeDevice(boost_s=0.5))
    assert trial.regime == "sustained"
    assert trial.tflops == pytest.approx(680, rel=0.005)
    assert soak.settled
    assert soak.length_s >= 5.0


def test_a_soak_that_has_not_settled_goes_on_and_then_says_so() -> None:
    """A card that slows down all the time: no end of the asked length is a settled rate."""

    class Fading(FakeDevice):
        def spend(self, seconds: float, capped: bool) -> None:
            super().spend(seconds, capped)
            self.capped = 0.9 / (1 + self.clock / 10)

    trial, soak = soaked(Fading())
    assert not soak.settled
    assert soak.length_s == pytest.approx(10.0, abs=0.6)
    peak = verdict.sustained_peak("bf16", trial, soak, FAKE_INFO)
    assert peak is not None
    assert peak.settled is False
    warnings = advice.of_results(FAKE_INFO, [trial], [peak], [], [], None)
    assert [w.code for w in warnings] == ["unsettled"]


def test_a_soak_without_one_possible_sample_ends_and_has_no_figure() -> None:
    device = FakeDevice(glitches={LARGE.key: frozenset(range(200))})
    limits = Limits(Datasheet(card="H200 SXM", tflops={"bf16": 989.4}, gbps=4800.0))
    soak = Soak(LARGE.key, 5.0, 1.0)
    trial = measure_soaked(device, LARGE, limits, soak)
    assert (trial.status, trial.tflops) == ("skipped", None)
    assert soak.length_s < 11


def test_a_screening_soak_is_never_extended() -> None:
    assert soaked(FakeDevice(), 1.0, extend=False)[1].length_s < 1.6


def test_the_sensors_are_watched_after_the_lead_in_only() -> None:
    _, soak = soaked(FakeDevice(boost_s=0.5))
    assert soak.telemetry is not None
    assert soak.telemetry.sm_clock_mhz_max == 1470


def test_a_power_cap_is_named_in_plain_words() -> None:
    _, soak = soaked(FakeDevice())
    assert soak.telemetry is not None
    assert telemetry.explain(soak.telemetry, FAKE_INFO) == "power-capped: 1470 of 1980 MHz at 692 of 700 W, 60 °C"


@pytest.mark.parametrize(
    ("reasons", "clock", "words"),
    [
        (("software thermal slowdown", "software power cap"), 1400, "held back by heat"),
        (("hardware power brake",), 1400, "power-capped"),
        (("application clock setting",), 1400, "held back by application clock setting"),
        ((), 1975, "at full clock"),
        ((), 1400, "below full clock for a reason the driver does not name"),
    ],
    ids=["heat", "power-brake", "application-clock", "full", "unnamed"],
)
def test_every_cause_has_its_words(reasons: tuple[str, ...], clock: float, words: str) -> None:
    seen = telemetry.summarize("soak", [Reading(clock, 600.0, 85.0, reasons)])
    explained = telemetry.explain(seen, FAKE_INFO)
    assert explained is not None
    assert explained.startswith(f"{words}: {clock} of 1980 MHz at 600 of 700 W")


def test_without_sensors_nothing_is_explained() -> None:
    _, soak = soaked(FakeDevice(sensors=False))
    assert soak.telemetry is not None
    assert telemetry.explain(soak.telemetry, FAKE_INFO) is None


def test_launch_bound_trials_are_no_peaks() -> None:
    trial = measure_soaked(FakeDevice(), LARGE, Limits(), Soak("x", 1.0, 0.1))
    burst = msgspec.structs.replace(trial, regime="burst")
    assert verdict.best_gemm("bf16", [burst]) == burst
    assert verdict.best_gemm("bf16", [msgspec.structs.replace(burst, status="launch_bound")]) is None


def test_beta_is_taken_from_the_largest_arrays_that_were_measured() -> None:
    def stream(size: int, gbps: float) -> Trial:
        return Trial(
            kernel="copy", dtype="fp32", regime="median", implementation="torch.mul", array_bytes=size, gbps=gbps
        )

    assert [b.gbps for b in verdict.betas([stream(16 << 20, 6000.0), stream(4 << 30, 4270.0)])] == [4270.0]


def info(**more: object) -> DeviceInfo:
    return msgspec.structs.replace(FAKE_INFO, **more)


@pytest.mark.parametrize(
    ("device", "around", "code", "says"),
    [
        (info(mig=True), Surroundings(), "mig", "slice"),
        (info(), Surroundings(wsl=True), "wsl", "WSL"),
        (info(power_limit_w=500.0), Surroundings(), "power_limit_lowered", "500 W"),
        (info(), Surroundings(laptop=True), "laptop", "plug it in"),
        (info(), Surroundings(uncorrected_ecc_errors=3), "ecc_errors", "3 uncorrected"),
        (info(kind="cpu"), Surroundings(load=0.5), "cpu_load", "50 %"),
        (info(), Surroundings(users=("vllm (pid 9)",)), "busy_device", "pid 9"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_circumstance_has_its_warning(device: DeviceInfo, around: Surroundings, code: str, says: str) -> None:
    found = {w.code: w.message for w in advice.of_surroundings(device, around)}
    assert list(found) == [code]
    assert says in found[code]


def test_an_ordinary_card_has_no_warning() -> None:
    assert advice.of_surroundings(FAKE_INFO, Surroundings(load=0.9, uncorrected_ecc_errors=0)) == []


def peak(tflops: float, **more: object) -> Peak:
    return msgspec.structs.replace(
        Peak(dtype="bf16", regime="burst", tflops=tflops, implementation="torch.mm", m=1, n=1, k=1), **more
    )


def test_more_than_the_datasheet_is_explained_and_not_clamped() -> None:
    sheet = Datasheet(card="RTX 5090", tflops={"bf16": 209.5}, gbps=1792.0)
    beta = Beta(pattern="read", gbps=1800.0, implementation="x", array_bytes=1)
    found = advice.of_results(FAKE_INFO, [], [peak(240.0)], [beta], [], sheet)
    assert [w.code for w in found] == ["datasheet_exceeded"]
    assert "240 of 209.5" in found[0].message
    assert "1800 of 1792" in found[0].message


def test_a_clock_that_stays_low_after_a_rest_is_warned_about() -> None:
    seen = Telemetry(during="burst bf16", samples=5, sm_clock_mhz_max=1400.0)
    assert [w.code for w in advice.of_results(FAKE_INFO, [], [], [], [seen], None)] == ["low_clocks"]


def test_a_soak_faster_than_the_burst_means_that_something_else_ran() -> None:
    slow, fast = peak(500.0), peak(680.0, regime="sustained")
    assert [w.code for w in advice.of_results(FAKE_INFO, [], [slow, fast], [], [], None)] == ["disturbed"]
    assert advice.of_results(FAKE_INFO, [], [peak(700.0), fast], [], [], None) == []


def test_a_sweep_faster_than_the_burst_means_the_same_and_noise_or_a_launch_bound_point_does_not() -> None:
    def swept(tflops: float, **more: object) -> Trial:
        point = Trial(kernel="gemm", dtype="bf16", regime="median", implementation="torch.mm", tflops=tflops)
        return msgspec.structs.replace(point, **more)

    def warned(*trials: Trial) -> list[str]:
        return [w.message for w in advice.of_results(FAKE_INFO, trials, [peak(500.0)], [], [], None)]

    (message,) = warned(swept(690.0), swept(680.0))
    assert message.startswith("The sweep of bf16 ran faster than its best short block")
    assert warned(swept(510.0), swept(690.0, status="launch_bound"), swept(690.0, dtype="fp8")) == []


@pytest.mark.parametrize(
    ("trial", "one", "two"),
    [
        pytest.param({"glitches": 1}, "1 sample was faster", "2 samples were faster", id="glitches"),
        pytest.param({"status": "unverified"}, "1 kernel gave a wrong", "2 kernels gave a wrong", id="unverified"),
        pytest.param(
            {"status": "skipped", "reason": "out of memory"},
            "1 shape did not fit into memory and was skipped",
            "2 shapes did not fit into memory and were skipped",
            id="memory",
        ),
    ],
)
def test_one_of_a_kind_is_spoken_of_as_one(trial: dict[str, object], one: str, two: str) -> None:
    found = msgspec.structs.replace(
        Trial(kernel="gemm", dtype="bf16", regime="median", implementation="torch.mm"), **trial
    )
    for trials, says in (([found], one), ([found] * 2, two)):
        (warning,) = advice.of_results(FAKE_INFO, trials, [], [], [], None)
        assert warning.message.startswith(says)


def test_heat_is_warned_about_with_the_temperature() -> None:
    seen = telemetry.summarize("soak", [Reading(1500.0, 500.0, 92.0, ("hardware thermal slowdown",))])
    found = advice.of_results(FAKE_INFO, [], [], [], [seen], None)
    assert [w.code for w in found] == ["thermal"]
    assert "92 °C" in found[0].message
