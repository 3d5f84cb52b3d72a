"""The order of a run and what it leaves behind, on a scripted device."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from roofline_probe.errors import UsageError
from roofline_probe.measure import MeasureOptions, run
from roofline_probe.measure.device import NotEnoughMemory, NotSupportedHere, Surroundings
from roofline_probe.measure.fake import FAKE_TRAITS, FakeDevice
from roofline_probe.measure.options import CEILING_M, Event
from roofline_probe.profile import DeviceInfo, Profile

BRIEF = MeasureOptions(squares=(1024, 8192), m_sweep=(1, 4096), dtypes=("bf16",))
WARM_UP = {"copy torch.mul 0.00390625 MiB", "gemm bf16 2048x2048x2048"}
LAYER = ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336))
"""(n, k) of Llama-3.1-8B's projections."""
UNKNOWN = DeviceInfo(kind="fake", name="Some new card", multiprocessors=100)


def gemms(profile: Profile, regime: str = "median") -> list[tuple[int | None, int | None, int | None]]:
    return [(t.m, t.n, t.k) for t in profile.trials if t.kernel == "gemm" and t.regime == regime]


def test_a_whole_run_finds_both_pis_every_beta_and_the_ceiling() -> None:
    profile = run(MeasureOptions(), device=FakeDevice())
    assert profile.complete
    assert profile.pi_tflops("bf16", "burst") == pytest.approx(800, rel=0.01)
    assert profile.pi_tflops("bf16", "sustained") == pytest.approx(680, rel=0.01)
    assert profile.pi_tflops("fp8", "sustained") == pytest.approx(0.85 * 1550, rel=0.01)
    assert [b.pattern for b in profile.betas] == ["copy", "triad", "read", "write"]
    assert [(c.dtype, len(c.points)) for c in profile.ceilings] == [("bf16", 15), ("fp8", 15)]
    assert profile.warnings == []


def test_the_sweep_holds_squares_projections_and_the_point_at_t_star() -> None:
    """The datasheet's ridge, 206.1 FLOP/byte on an H200, is crossed at 229 tokens by [4096, 4096]."""
    found = gemms(run(BRIEF, device=FakeDevice()))
    assert (8192, 8192, 8192) in found
    assert (4096, 6144, 4096) in found
    assert (229, 4096, 4096) in found


def test_tensor_parallelism_splits_the_projections() -> None:
    found = gemms(run(replace(BRIEF, tp=4), device=FakeDevice()))
    assert {(n, k) for m, n, k in found if m == 1} == {(1536, 4096), (4096, 1024), (7168, 4096), (4096, 3584)}


def test_the_smallest_products_are_timed_after_the_warm_up_alone_and_before_any_check() -> None:
    """A clock still held down makes an M=1 product look slow, and so does what a check leaves behind in the process."""
    device = FakeDevice()
    run(BRIEF, device=device)
    events = [(what, key) for what, key, _ in device.log]
    first_check = next(i for i, (what, _) in enumerate(events) if what == "verify")
    timed = {key for what, key in events[:first_check] if what == "run"}
    assert {f"gemm bf16 1x{n}x{k}" for n, k in LAYER} <= timed
    assert events.index(("prepare", "gemm bf16 8192x8192x8192")) > first_check
    assert {key for what, key in events if what == "verify"} >= timed - WARM_UP


def test_small_products_that_do_not_fit_together_are_checked_and_freed_in_between() -> None:
    class Narrow(FakeDevice):
        alive = 0

        def prepare(self, kernel):  # type: ignore[no-untyped-def]
            gone = sum(what == "close" for what, _, _ in self.log)
            if self.alive - gone >= 3:
                raise NotEnoughMemory("its operands do not fit into memory")
            self.alive += 1
            return super().prepare(kernel)

    profile = run(replace(BRIEF, mode="gemm"), device=Narrow())
    assert {t.status for t in profile.trials if t.kernel == "gemm"} == {"ok"}


def test_a_wrong_small_product_gives_no_figure() -> None:
    profile = run(BRIEF, device=FakeDevice(faults={"gemm bf16 1x4096x4096": 0.5}))
    wrong = [t for t in profile.trials if (t.m, t.n, t.k) == (1, 4096, 4096)]
    assert [(t.status, t.tflops) for t in wrong] == [("unverified", None)]


def test_bandwidth_comes_first_because_an_unknown_card_has_no_other_ridge() -> None:
    device = FakeDevice(identity=UNKNOWN)
    profile = run(BRIEF, device=device)
    assert profile.datasheet is None
    measured_ridge = 0.85 * 800e12 / 4.3e12
    stars = [m for m, n, k in gemms(profile) if (n, k) == (4096, 4096) and m not in (1, 4096)]
    assert stars
    assert stars[0] == pytest.approx(measured_ridge * 4096 / (4096 - 2 * measured_ridge), rel=0.1)


@pytest.mark.parametrize(
    ("mode", "kernels"),
    [("gemm", {"gemm", "projections"}), ("bandwidth", {"copy", "triad", "read", "write"})],
    ids=["gemm", "bandwidth"],
)
def test_a_mode_measures_its_half_alone(mode: str, kernels: set[str]) -> None:
    profile = run(replace(BRIEF, mode=mode), device=FakeDevice())  # type: ignore[arg-type]
    assert {t.kernel for t in profile.trials} == kernels


def test_a_quick_run_has_bursts_and_betas_within_three_percent_and_claims_nothing_else() -> None:
    full = run(MeasureOptions(), device=FakeDevice())
    quick = run(MeasureOptions(quick=True), device=FakeDevice())
    assert quick.quick
    assert quick.pi_tflops("bf16") == pytest.approx(full.pi_tflops("bf16"), rel=0.03)
    assert quick.beta_gbps == pytest.approx(full.beta_gbps, rel=0.03)
    assert quick.pi_tflops("bf16", "sustained") is None
    assert quick.ceilings == []


@pytest.mark.parametrize(
    ("asked", "swept"),
    [
        ({"squares": (1024, 8192)}, {(1024, 1024, 1024), (8192, 8192, 8192)}),
        ({"m_sweep": (1,)}, {(1, 4096, 4096), (229, 4096, 4096)}),
    ],
    ids=["square", "m-sweep"],
)
def test_a_quick_run_sweeps_what_it_was_asked_for_and_nothing_else(
    asked: dict[str, tuple[int, ...]], swept: set[tuple[int, int, int]]
) -> None:
    profile = run(MeasureOptions(quick=True, dtypes=("bf16",), **asked), device=FakeDevice())  # type: ignore[arg-type]
    found = gemms(profile)
    assert swept <= set(found)
    assert {t.m for t in profile.trials if t.label == "square"} == set(asked.get("squares", ()))
    assert bool({(n, k) for m, n, k in found if n != m}) == ("m_sweep" in asked)


@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_burst_candidates_are_not_left_out_for_the_rate_of_memory_bound_products(dtype: str) -> None:
    """An M=1 product runs at a hundredth of pi, at which no candidate would seem to end in time."""
    asked = MeasureOptions(quick=True, dtypes=(dtype,), m_sweep=(1,), mode="gemm")
    profile = run(asked, device=FakeDevice(identity=UNKNOWN))
    burst = [t for t in profile.trials if t.regime == "burst"]
    assert max((t.flops or 0) for t in burst) > 1e12
    assert profile.pi_tflops(dtype, "burst") == pytest.approx(FakeDevice().pi[dtype] / 1e12, rel=0.01)


def test_a_dtype_refused_at_few_rows_only_is_still_measured() -> None:
    class NeedsRows(FakeDevice):
        def prepare(self, kernel):  # type: ignore[no-untyped-def]
            if getattr(kernel, "m", 99) <= 16:
                raise NotSupportedHere("torch._int_mm takes more than 16 rows")
            return super().prepare(kernel)

    asked = MeasureOptions(quick=True, dtypes=("bf16",), m_sweep=(1, 8), mode="gemm")
    profile = run(asked, device=NeedsRows(identity=UNKNOWN))
    assert profile.unsupported == {}
    assert profile.pi_tflops("bf16", "burst") is not None
    assert {t.status for t in profile.trials if t.m in (1, 8)} == {"unsupported"}


@pytest.mark.parametrize(
    ("asked", "sustained", "ceilings"),
    [({}, False, 0), ({"soak": True, "soak_s": 2.0}, True, 0), ({"ceiling": True}, False, 1)],
    ids=["neither", "soak", "ceiling"],
)
def test_a_quick_run_soaks_and_measures_a_ceiling_when_asked(
    asked: dict[str, bool], sustained: bool, ceilings: int
) -> None:
    profile = run(MeasureOptions(quick=True, dtypes=("bf16",), **asked), device=FakeDevice())  # type: ignore[arg-type]
    assert (profile.pi_tflops("bf16", "sustained") is not None) == sustained
    assert len(profile.ceilings) == ceilings


def test_without_a_soak_sustained_is_not_measured_rather_than_guessed() -> None:
    profile = run(replace(BRIEF, soak=False), device=FakeDevice())
    assert profile.pi_tflops("bf16", "sustained") is None
    assert all(point.ms_sustained is None for point in profile.ceilings[0].points)


def test_a_dtype_without_units_is_unsupported_with_its_reason_and_has_no_figure() -> None:
    profile = run(MeasureOptions(dtypes=("fp4",), mode="gemm"), device=FakeDevice())
    assert profile.unsupported == {"fp4": "this fake has no such units"}
    assert profile.peaks == []


def test_a_dtype_that_torch_refuses_on_every_shape_is_unsupported_with_torchs_words() -> None:
    class Refusing(FakeDevice):
        def prepare(self, kernel):  # type: ignore[no-untyped-def]
            if kernel.dtype == "fp8":
                raise NotSupportedHere("no kernel for float8 here")
            return super().prepare(kernel)

    profile = run(MeasureOptions(), device=Refusing())
    assert profile.unsupported == {"fp8": "no kernel for float8 here"}
    assert profile.pi_tflops("bf16") is not None


def test_one_shape_without_memory_is_skipped_and_the_sweep_goes_on() -> None:
    device = FakeDevice(faults={"gemm bf16 8192x8192x8192": NotEnoughMemory("its operands do not fit into memory")})
    profile = run(BRIEF, device=device)
    assert [t.status for t in profile.trials if (t.m, t.n, t.k) == (8192, 8192, 8192) and t.regime == "median"] == [
        "skipped"
    ]
    assert profile.pi_tflops("bf16") is not None
    assert "out_of_memory" in {w.code for w in profile.warnings}


def test_a_wrong_kernel_never_becomes_a_peak() -> None:
    """The fastest shape of all gives a wrong result: the peak is the next one's."""
    key = "gemm bf16 8192x8192x8192"
    profile = run(BRIEF, device=FakeDevice(rates={key: 3.0}, faults={key: 0.5}))
    assert profile.pi_tflops("bf16") == pytest.approx(800, rel=0.01)
    assert "unverified" in {w.code for w in profile.warnings}


def test_a_wrong_streaming_kernel_never_becomes_beta() -> None:
    key = "copy torch.mul 4096 MiB"
    profile = run(replace(BRIEF, mode="bandwidth"), device=FakeDevice(rates={key: 2.0}, faults={key: 0.5}))
    assert profile.beta_of("copy") == pytest.approx(4300, rel=0.01)


def test_the_best_implementation_of_a_pattern_is_the_beta() -> None:
    profile = run(replace(BRIEF, mode="bandwidth"), device=FakeDevice(rates={"copy torch.mul 4096 MiB": 1.05}))
    best = next(b for b in profile.betas if b.pattern == "copy")
    assert best.implementation == "torch.mul"
    assert best.gbps == pytest.approx(1.05 * 4300, rel=0.002)


def test_a_busy_device_is_refused_before_anything_runs() -> None:
    device = FakeDevice(around=Surroundings(users=("python (pid 17, 65.0 GiB)",)))
    with pytest.raises(UsageError, match=r"pid 17.*--force"):
        run(BRIEF, device=device)
    assert device.log == []


def test_force_measures_a_busy_device_and_says_so_in_the_profile() -> None:
    device = FakeDevice(around=Surroundings(users=("python (pid 17, 65.0 GiB)",)))
    profile = run(replace(BRIEF, force=True), device=device)
    assert "busy_device" in {w.code for w in profile.warnings}


def test_ctrl_c_keeps_what_was_measured() -> None:
    device = FakeDevice(faults={"gemm bf16 4096x4096x14336": KeyboardInterrupt()})
    profile = run(BRIEF, device=device)
    assert not profile.complete
    assert profile.beta_gbps is not None
    assert gemms(profile)
    assert profile.ceilings == []
    assert device.log[-1][0] == "release"


def test_what_is_measured_is_handed_over_after_every_stage_marked_incomplete() -> None:
    saved: list[Profile] = []
    final = run(BRIEF, save=saved.append, device=FakeDevice())
    assert [len(p.trials) for p in saved] == sorted(len(p.trials) for p in saved)
    assert len(saved) >= 4
    assert not any(p.complete for p in saved)
    assert final.complete


def test_a_small_buffer_is_shown_but_beta_comes_from_large_arrays() -> None:
    profile = run(
        replace(BRIEF, mode="bandwidth", buffer_mib=16),
        device=FakeDevice(
            rates={
                f"{pattern} {name} 16 MiB": 1.4
                for pattern, name in (("copy", "torch.mul"), ("copy", "torch.copy_"), ("triad", "torch.add"))
            }
        ),
    )
    assert profile.beta_of("copy") == pytest.approx(4300, rel=0.01)
    warning = next(w for w in profile.warnings if w.code == "small_buffer")
    assert "16 MiB" in warning.message
    assert "60 MiB" in warning.message


def test_shapes_that_would_take_too_long_are_left_out_with_the_time_they_would_take() -> None:
    slow = FakeDevice(
        pi={"fp32": 1e11},
        traits=replace(
            FAKE_TRAITS,
            default_dtypes=("fp32",),
            longest_call_s=0.3,
            longest_burst_call_s=0.3,
            rest_s=0.0,
            ceiling_layers=1,
        ),
    )
    profile = run(MeasureOptions(squares=(512, 4096, 16384)), device=slow)
    reasons = [t.reason for t in profile.trials if t.m == 16384 and t.kernel == "gemm"]
    assert reasons
    assert all(reason and "would take" in reason for reason in reasons)
    assert profile.pi_tflops("fp32") is not None


def test_every_stage_ends_when_its_time_is_used_up_and_still_has_its_figure() -> None:
    device = FakeDevice(
        pi={"fp32": 1e12},
        traits=replace(FAKE_TRAITS, default_dtypes=("fp32",), rest_s=0.0, ceiling_layers=1, stage_s=3.0),
    )
    stages: list[tuple[str, float]] = []

    def watch(event: Event) -> None:
        if event.kind == "stage":
            stages.append((event.text, device.clock))

    profile = run(MeasureOptions(), watch, device=device)
    stages.append(("end", device.clock))
    lengths = {text: after - begin for (text, begin), (_, after) in itertools.pairwise(stages)}
    longest_shape_s = 10.0  # of at most 2 s a call, executed a few times
    assert lengths["fp32 sweep"] < 3.0 + longest_shape_s
    assert lengths["fp32 burst peak"] < 3.0 + longest_shape_s
    assert lengths["fp32 ceiling of llama-3.1-8b"] < 3.0 + longest_shape_s
    assert any("used up" in (t.reason or "") for t in profile.trials)
    assert profile.pi_tflops("fp32") is not None
    assert profile.ceilings[0].points


def test_given_peaks_belong_to_the_first_dtype_and_a_sparse_one_is_refused() -> None:
    profile = run(replace(BRIEF, mode="bandwidth", peak_tflops={"": 900.0}), device=FakeDevice())
    assert profile.datasheet is not None
    assert profile.datasheet.tflops["bf16"] == 900.0
    with pytest.raises(UsageError, match="2:4 sparsity"):
        run(replace(BRIEF, peak_tflops={"": 1979.0}), device=FakeDevice())


def test_progress_tells_stages_and_counted_steps() -> None:
    events: list[Event] = []
    run(BRIEF, events.append, device=FakeDevice())
    assert {"bandwidth", "bf16 sweep", "bf16 burst peak", "bf16 sustained peak"} <= {
        e.text for e in events if e.kind == "stage"
    }
    assert all(0 <= e.done < e.total for e in events if e.kind == "step")


def test_predictions_are_scored_against_this_run() -> None:
    profile = run(replace(BRIEF, answers=("80", "90", "higher", "lower")), device=FakeDevice())
    assert [p.answer for p in profile.predictions] == ["80", "90", "higher", "lower"]
    assert profile.predictions[0].measured is not None


@pytest.mark.parametrize("head_rate", [1.0, 0.1], ids=["quiet", "the LM head measured ten times too slow"])
def test_a_ceiling_of_one_layer_scales_the_layer_and_never_the_noise_of_the_lm_head(head_rate: float) -> None:
    """The difference of two times, thirty-two times over, once gave steps shorter than their own LM head."""
    few = replace(FAKE_TRAITS, ceiling_layers=1)
    head = {f"lm head llama-3.1-8b bf16 tp1 m{m}": head_rate for m in CEILING_M}
    options = MeasureOptions(dtypes=("bf16",), mode="gemm", squares=(), m_sweep=(), soak=False)
    (whole,) = run(options, device=FakeDevice()).ceilings
    (scaled,) = run(options, device=FakeDevice(traits=few, rates=head)).ceilings
    assert scaled.layers_measured == 1
    for full, point in zip(whole.points, scaled.points, strict=True):
        layers = (full.ms_burst or 0) - (full.lm_head_ms or 0)
        assert (point.ms_burst or 0) - (point.lm_head_ms or 0) == pytest.approx(layers, rel=0.05)
