"""Which roof a log is judged under: compute dtype from the log, burst or sustained, what contradicts it.

No log names its GPU, so the device is always the profile's and always *assumed*; hints in the log can only contradict.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from log_parsers.step import LogFacts
from roofline_probe.errors import NoRoof, UsageError
from roofline_probe.point import Roof, RoofChoice, flags_of
from roofline_probe.profile import Datasheet, Profile
from roofline_probe.shard import Shard

_SIXTEEN_BIT = ("bf16", "fp16")
# Formats that shrink what is stored and read; their kernels expand to the model's dtype before they multiply.
_WEIGHT_ONLY = ("awq", "gptq", "bitsandbytes", "gguf", "marlin", "aqlm", "int4", "w4a16", "w8a16", "experts_int8")
# What the name does not settle: the checkpoint may hold 4- or 8-bit, integer or float activations.
_UNSETTLED = ("compressed-tensors", "modelopt", "quark", "torchao", "mxfp4", "nvfp4", "fp4")


def compute_dtype(facts: LogFacts, flag: str | None) -> tuple[str, str, tuple[str, ...]]:
    """(dtype whose pi applies, ``log`` | ``flag`` | ``assumed``, caveat codes).

    The compute type and not the storage type decides: a weight-only 4-bit model multiplies in bf16, an fp8 one in fp8.

    Raises:
        UsageError: ``flag`` is no dtype.
    """
    if flag is not None:
        return named_dtype(flag), "flag", ()
    model_dtype = facts.dtype if facts.dtype not in (None, "auto") else None
    quantization = (facts.quantization or "").lower()
    if quantization in ("", "none", "auto"):
        if _eight_bit_components(facts):
            return "fp8", "assumed", ("quantization_unsettled",)
        return (model_dtype, "log", ()) if model_dtype else ("bf16", "assumed", ("dtype_assumed",))
    if any(name in quantization for name in _WEIGHT_ONLY):
        return model_dtype or "bf16", "log" if model_dtype else "assumed", ()
    if "fp8" in quantization:
        return "fp8", "log", ()
    if "int8" in quantization or "w8a8" in quantization:
        return "int8", "log", ()
    if any(name in quantization for name in _UNSETTLED):
        return model_dtype or "bf16", "assumed", ("quantization_unsettled",)
    return model_dtype or "bf16", "assumed", ("quantization_unknown",)


def named_dtype(flag: str) -> str:
    """The short name of what ``--dtype`` says, in whatever usual spelling (``torch.bfloat16``, ``FP8``).

    Raises:
        UsageError: no dtype that a pi can be measured for.
    """
    from roofline_probe.measure.dtypes import DTYPES, dtype_name  # only where the flag is used: it loads much else

    try:
        return dtype_name(flag)
    except UsageError:
        raise UsageError(f"--dtype {flag} is not a compute dtype; choose from {', '.join(DTYPES)}.") from None


def _eight_bit_components(facts: LogFacts) -> bool:
    """vLLM printed layers of one byte a weight beside an LM head of more: quantized, though no line says how."""
    attn, unembed = facts.components.get("attn", {}), facts.components.get("unembed", {})
    return attn.get("weight_byte_size") == 1 and (unembed.get("weight_byte_size") or 0) > 1


def choose_roof(
    profile: Profile | None,
    facts: LogFacts,
    choice: RoofChoice = "auto",
    dtype_flag: str | None = None,
    pi_tflops: float | None = None,
    beta_gbps: float | None = None,
    datasheet: Datasheet | None = None,
) -> Roof:
    """The denominators for one run of a log.

    ``pi_tflops`` (TFLOP/s) and ``beta_gbps`` (GB/s) given by the user replace everything; ``datasheet`` serves
    ``--roof datasheet`` where there is no profile or its device has none.

    Raises:
        NoRoof: nothing to compare with.
        UsageError: a figure or dtype given by the user that no device has.
    """
    dtype, source, caveats = compute_dtype(facts, dtype_flag)
    if pi_tflops is not None or beta_gbps is not None:
        return _given(dtype, source, caveats, choice, pi_tflops, beta_gbps)
    if choice == "datasheet":
        return _published(datasheet or (profile.datasheet if profile else None), dtype, source, caveats)
    if profile is None:
        raise NoRoof(
            "There is no roof to compare with: run `probe measure` on the card, name a shipped profile with "
            "`--profile`, or use `--roof datasheet` or `--pi TFLOPS --beta GBPS`."
        )
    return _measured(profile, dtype, source, caveats + _profile_caveats(profile, facts), choice)


def without_figures(roof: Roof) -> Roof:
    """Nothing to divide by: better than the peaks of another kind of device."""
    return replace(roof, pi_burst_tflops=None, pi_sustained_tflops=None, beta_gbps=None, read_beta_gbps=None)


def of_another_kind(facts: LogFacts, profile: Profile) -> bool:
    """Whether the log says that a device of another kind served than the one measured."""
    return bool(facts.device_platform) and _platform(facts.device_platform or "") != _platform(profile.device.kind)


def _given(
    dtype: str, source: str, caveats: tuple[str, ...], choice: RoofChoice, pi: float | None, beta: float | None
) -> Roof:
    _check_given("--pi", pi, "TFLOP/s")
    _check_given("--beta", beta, "GB/s")
    missing = (("pi_missing",) if pi is None else ()) + (("beta_missing",) if beta is None else ())
    return Roof(
        origin="given",
        device=f"the card of {flags_of(pi, beta)}",
        choice=choice,
        dtype=dtype,
        dtype_source=source,  # type: ignore[arg-type]
        pi_burst_tflops=pi,
        beta_gbps=beta,
        read_beta_gbps=beta,
        caveats=caveats + missing,
    )


def _check_given(flag: str, value: float | None, unit: str) -> None:
    """Zero, a negative figure and NaN divide into nonsense; the limits are far outside of any device."""
    if value is not None and not 1e-6 <= value <= 1e9:
        raise UsageError(f"{flag} {value:g} is not what a device reaches; give its {unit}, a number above 0.")


def _published(sheet: Datasheet | None, dtype: str, source: str, caveats: tuple[str, ...]) -> Roof:
    if sheet is None:
        raise NoRoof(
            "No published figures are known for this device: measure it with `probe measure`, or give them with "
            "`--pi TFLOPS --beta GBPS`."
        )
    pi, stand_in = _pi(dtype, sheet.tflops.get)
    return Roof(
        origin="datasheet",
        device=sheet.card,
        choice="datasheet",
        dtype=dtype,
        dtype_source=source,  # type: ignore[arg-type]
        pi_burst_tflops=pi,
        beta_gbps=sheet.gbps,
        read_beta_gbps=sheet.gbps,
        caveats=caveats + stand_in,
    )


def _measured(profile: Profile, dtype: str, source: str, caveats: tuple[str, ...], choice: RoofChoice) -> Roof:
    burst, stand_in = _pi(dtype, lambda name: profile.pi_tflops(name, "burst") or profile.pi_tflops(name, "median"))
    sustained, sustained_stand_in = _pi(dtype, lambda name: profile.pi_tflops(name, "sustained"))
    missing = stand_in if burst is not None else sustained_stand_in
    if profile.beta_gbps is None:
        missing += ("beta_missing",)
    if choice == "sustained" and sustained is None:
        caveats += ("not_soaked",)
    return Roof(
        origin="measured",
        device=profile.device.name,
        choice=choice,
        dtype=dtype,
        dtype_source=source,  # type: ignore[arg-type]
        date=profile.created[:10],
        pi_burst_tflops=burst if burst is not None else sustained,
        pi_sustained_tflops=sustained,
        beta_gbps=profile.beta_gbps,
        read_beta_gbps=profile.read_beta_gbps or profile.beta_gbps,
        caveats=caveats + missing,
        device_kind=profile.device.kind,
    )


def _pi(dtype: str, look_up: Callable[[str], float | None]) -> tuple[float | None, tuple[str, ...]]:
    """Pi of ``dtype``; bf16 and fp16 run at one rate on every card with both, so one stands in for the other."""
    pi = look_up(dtype)
    if pi is not None:
        return pi, ()
    if dtype in _SIXTEEN_BIT:
        other = _SIXTEEN_BIT[1 - _SIXTEEN_BIT.index(dtype)]
        pi = look_up(other)
        if pi is not None:
            return pi, ("pi_of_other_16bit",)
    return None, ("pi_missing",)


def _profile_caveats(profile: Profile, facts: LogFacts) -> tuple[str, ...]:
    """What the profile or the log says against trusting this roof."""
    found = []
    if profile.quick:
        found.append("profile_quick")
    if not profile.complete:
        found.append("profile_incomplete")
    if of_another_kind(facts, profile):
        found.append("platform_conflict")
    if facts.device_hints and not any(_same_card(hint, profile.device.name) for hint in facts.device_hints):
        found.append("device_hint_conflict")
    return tuple(found)


def _platform(name: str) -> str:
    return "gpu" if name.lower() in ("cuda", "rocm", "gpu") else name.lower()


def _same_card(hint: str, device: str) -> bool:
    """Kernel-config names read like ``NVIDIA_H100_80GB_HBM3``: the model token (letters with digits) must be shared."""
    return bool(_model_tokens(hint) & _model_tokens(device))


def _model_tokens(name: str) -> set[str]:
    tokens = re.findall(r"[a-z0-9]+", name.lower())
    return {t for t in tokens if re.fullmatch(r"[a-z]+\d+[a-z]*|\d{4}", t) and not t.startswith(("hbm", "sxm"))}


def memory_caveat(profile: Profile | None, facts: LogFacts, shard: Shard | None) -> tuple[str, ...]:
    """Weights and KV cache that the log says it holds cannot exceed the assumed device's memory."""
    if profile is None or shard is None or not profile.device.memory_bytes or not facts.kv_cache_tokens:
        return ()
    held = facts.kv_cache_tokens * shard.kv_bytes_per_token + (facts.weight_bytes or 0)
    return ("memory_conflict",) if held > profile.device.memory_bytes else ()
