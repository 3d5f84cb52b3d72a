"""Which roof: compute dtype from the log, regime, bandwidth, stand-ins, contradictions, and none at all."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from log_parsers.step import LogFacts
from roofline_probe.errors import NoRoof, UsageError
from roofline_probe.profile import Datasheet, Profile
from roofline_probe.roof import choose_roof, compute_dtype, memory_caveat
from roofline_probe.shard import shard_of
from roofline_probe.workloads import MODELS


@pytest.mark.parametrize(
    ("facts", "flag", "expected"),
    [
        pytest.param({"dtype": "bf16"}, None, ("bf16", "log", ()), id="bf16 model"),
        pytest.param({"dtype": "fp16"}, None, ("fp16", "log", ()), id="fp16 model"),
        pytest.param({}, None, ("bf16", "assumed", ("dtype_assumed",)), id="nothing stated"),
        pytest.param({"dtype": "bf16", "quantization": "fp8"}, None, ("fp8", "log", ()), id="fp8 multiplies in fp8"),
        pytest.param(
            {"dtype": "bf16", "quantization": "awq_marlin"}, None, ("bf16", "log", ()), id="4-bit weights only"
        ),
        pytest.param({"dtype": "fp16", "quantization": "gptq"}, None, ("fp16", "log", ()), id="gptq"),
        pytest.param({"quantization": "w8a8_int8"}, None, ("int8", "log", ()), id="int8"),
        pytest.param(
            {"dtype": "bf16", "quantization": "compressed-tensors"},
            None,
            ("bf16", "assumed", ("quantization_unsettled",)),
            id="a container format settles nothing",
        ),
        pytest.param(
            {"dtype": "bf16", "quantization": "brand-new"},
            None,
            ("bf16", "assumed", ("quantization_unknown",)),
            id="new",
        ),
        pytest.param({"dtype": "bf16", "quantization": "fp8"}, "bf16", ("bf16", "flag", ()), id="the flag decides"),
        pytest.param(
            {"components": {"attn": {"weight_byte_size": 1}, "unembed": {"weight_byte_size": 2}}},
            None,
            ("fp8", "assumed", ("quantization_unsettled",)),
            id="printed byte sizes give a quantized model away",
        ),
    ],
)
def test_compute_dtype(facts: dict[str, object], flag: str | None, expected: tuple[object, ...]) -> None:
    assert compute_dtype(LogFacts(**facts), flag) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("choice", "pi", "name"),
    [("auto", 683.0, "sustained"), ("sustained", 683.0, "sustained"), ("burst", 808.0, "burst")],
)
def test_regime(reference: Profile, choice: str, pi: float, name: str) -> None:
    roof = choose_roof(reference, LogFacts(dtype="bf16"), choice)  # type: ignore[arg-type]
    assert (roof.pi_tflops, roof.pi_name) == (pi, name)
    assert (roof.beta_gbps, roof.read_beta_gbps) == (4385.0, 4580.0)
    assert roof.device == "NVIDIA H200"
    assert roof.date == "2026-11-29"


def test_an_fp8_model_is_judged_by_the_fp8_pi(reference: Profile) -> None:
    assert choose_roof(reference, LogFacts(dtype="bf16", quantization="fp8")).pi_tflops == 1250.0


def test_the_other_16_bit_pi_stands_in_and_is_named(reference: Profile) -> None:
    roof = choose_roof(reference, LogFacts(dtype="fp16"))
    assert roof.pi_tflops == 683.0
    assert "pi_of_other_16bit" in roof.caveats


def test_no_pi_of_a_dtype_is_no_pi(reference: Profile) -> None:
    roof = choose_roof(reference, LogFacts(dtype="fp32"))
    assert roof.pi_tflops is None
    assert "pi_missing" in roof.caveats


def test_given_figures_replace_the_profile(reference: Profile) -> None:
    roof = choose_roof(reference, LogFacts(dtype="bf16"), pi_tflops=900.0, beta_gbps=3000.0)
    assert (roof.origin, roof.pi_tflops, roof.beta_gbps, roof.read_beta_gbps) == ("given", 900.0, 3000.0, 3000.0)


@pytest.mark.parametrize(("pi", "beta", "code"), [(900.0, None, "beta_missing"), (None, 3000.0, "pi_missing")])
def test_half_a_roof_says_which_half_is_missing(pi: float | None, beta: float | None, code: str) -> None:
    assert code in choose_roof(None, LogFacts(), pi_tflops=pi, beta_gbps=beta).caveats


def test_a_profile_says_which_half_it_lacks_and_no_half_that_it_has(reference: Profile) -> None:
    soaked = [peak for peak in reference.peaks if peak.regime == "sustained"]
    only_soaked = choose_roof(msgspec.structs.replace(reference, peaks=soaked), LogFacts(dtype="bf16"))
    assert (only_soaked.pi_tflops, only_soaked.caveats) == (683.0, ())
    no_beta = choose_roof(msgspec.structs.replace(reference, betas=[]), LogFacts(dtype="bf16"))
    assert (no_beta.pi_tflops, no_beta.read_beta_gbps, no_beta.caveats) == (683.0, None, ("beta_missing",))


@pytest.mark.parametrize("figure", [0.0, -1.0, float("nan"), float("inf"), 1e-300, 1e300])
@pytest.mark.parametrize(("flag", "name"), [("--pi", "pi_tflops"), ("--beta", "beta_gbps")])
def test_a_figure_that_no_device_reaches_is_refused(flag: str, name: str, figure: float) -> None:
    with pytest.raises(UsageError, match=f"{flag} .* is not what a device reaches"):
        choose_roof(None, LogFacts(), **{name: figure})  # type: ignore[arg-type]


@pytest.mark.parametrize("spelling", ["fp8", "FP8", "torch.float8_e4m3fn"])
def test_the_dtype_flag_is_read_in_its_usual_spellings(reference: Profile, spelling: str) -> None:
    roof = choose_roof(reference, LogFacts(), dtype_flag=spelling)
    assert (roof.dtype, roof.pi_tflops) == ("fp8", reference.pi_tflops("fp8", "sustained"))


@pytest.mark.parametrize("flag", ["junk", "", "\x1b[31mX"], ids=["unknown", "empty", "escape"])
def test_a_dtype_flag_that_is_none_is_refused(flag: str) -> None:
    with pytest.raises(UsageError, match="not a compute dtype; choose from bf16"):
        compute_dtype(LogFacts(), flag)


def test_datasheet_of_the_profiles_device_or_of_the_one_given(reference: Profile) -> None:
    assert choose_roof(reference, LogFacts(dtype="bf16"), "datasheet").pi_tflops == 989.4
    sheet = Datasheet(card="H100 SXM", tflops={"bf16": 989.4}, gbps=3350.0)
    roof = choose_roof(None, LogFacts(dtype="bf16"), "datasheet", datasheet=sheet)
    assert (roof.origin, roof.pi_name, roof.beta_gbps) == ("datasheet", "datasheet", 3350.0)


@pytest.mark.parametrize("choice", ["auto", "datasheet"])
def test_nothing_to_compare_with_names_the_ways_out(choice: str) -> None:
    with pytest.raises(NoRoof, match="--pi TFLOPS --beta GBPS") as error:
        choose_roof(None, LogFacts(), choice)  # type: ignore[arg-type]
    assert error.value.exit_code == 4


@pytest.mark.parametrize(
    ("facts", "change", "code"),
    [
        pytest.param({"device_platform": "cpu"}, {}, "platform_conflict", id="CPU log under a GPU profile"),
        pytest.param(
            {"device_hints": ("NVIDIA_A100-SXM4-80GB",)}, {}, "device_hint_conflict", id="another card's kernels"
        ),
        pytest.param({}, {"quick": True}, "profile_quick", id="quick profile"),
        pytest.param({}, {"complete": False}, "profile_incomplete", id="interrupted profile"),
    ],
)
def test_what_speaks_against_the_roof(
    reference: Profile, facts: dict[str, object], change: dict[str, object], code: str
) -> None:
    profile = msgspec.structs.replace(reference, **change)
    assert code in choose_roof(profile, LogFacts(dtype="bf16", **facts)).caveats  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "facts",
    [{"device_platform": "cuda"}, {"device_hints": ("NVIDIA_H200",)}, {"device_hints": ("NVIDIA_A100", "NVIDIA_H200")}],
)
def test_what_agrees_with_the_roof_is_not_warned_of(reference: Profile, facts: dict[str, object]) -> None:
    assert choose_roof(reference, LogFacts(dtype="bf16", **facts)).caveats == ()  # type: ignore[arg-type]


@pytest.mark.parametrize(("tokens", "expected"), [(840_016, ()), (1_200_000, ("memory_conflict",))])
def test_a_cache_larger_than_the_card_is_another_card(
    reference: Profile, tokens: int, expected: tuple[str, ...]
) -> None:
    facts = LogFacts(engine="vllm", kv_cache_tokens=tokens, weight_bytes=16_063_177_687)
    assert memory_caveat(reference, facts, shard_of(MODELS["llama-3.1-8b"], "name", facts)) == expected


def test_the_log_of_the_captures_fits_its_card(capture: Callable) -> None:
    assert capture("vllm/0.24.0-h200-graph-1s").analysis.live.runs[-1].caveats == ()
