"""Stable codes as sentences: what happened, why it matters, what to try. One place, so that a code is worded once."""

from __future__ import annotations

WRONG_ROOF = "platform_conflict"
"""Told above everything else, and once."""

SENTENCES: dict[str, str] = {
    # The roof.
    "dtype_assumed": "No dtype is stated, so bf16 is assumed; say otherwise with --dtype.",
    "quantization_unsettled": (
        "The log does not settle in which type this quantized model multiplies, so the roof's dtype is assumed; "
        "--dtype bf16, fp8 or int8 settles it."
    ),
    "quantization_unknown": (
        "This quantization is not known here; the model's dtype is assumed for the arithmetic. --dtype sets it."
    ),
    "pi_missing": (
        "There is no pi for this dtype under this roof, so no percentage of pi is given, and what bounds the work is "
        "not said: `probe measure --dtype ...` would measure it, --pi gives it."
    ),
    "beta_missing": (
        "There is no beta, so no percentage of bandwidth is given, and what bounds the work is not said: "
        "a whole `probe measure` would measure it, --beta GBPS gives it."
    ),
    "not_soaked": (
        "Sustained pi was not measured, so burst pi is used: a long prefill cannot reach it under the power cap. "
        "`probe measure` with a soak would tell."
    ),
    "pi_of_other_16bit": "pi was measured for the other 16-bit dtype; both run at one rate on this kind of card.",
    "profile_quick": (
        "The profile is a quick one, without a soak: on a quiet H200 its burst pi and beta read 0.5 to 1.3 % lower "
        "than a whole run's."
    ),
    "profile_incomplete": "The profile's run was interrupted: what it had not reached is missing.",
    "platform_conflict": (
        "The log comes from another kind of device than the profile: its percentages mean nothing. "
        "Give a profile of the device that served."
    ),
    "device_hint_conflict": (
        "File names of kernel configurations in the log name another card than the profile's: "
        "check --profile before trusting a percentage."
    ),
    "memory_conflict": (
        "Weights and KV cache in this log exceed the assumed card's memory: it ran on another card. Check --profile."
    ),
    # The recount.
    "token_budget_assumed": "The log does not state its token budget per step; 8,192 is assumed for prefill steps.",
    "cached_prefix_unseen": (
        "Prompts share cached prefixes whose length the log does not print: prefill attention is counted without them."
    ),
    "context_unknown": (
        "The context length cannot be told (no KV cache size in the log), so KV traffic is missing from the bytes "
        "and from the parts of a step, and the rest is a dash."
    ),
    "prompt_length_assumed": (
        "The log does not tell how long single prompts are; prefill attention is counted for their mean length."
    ),
    "steps_unknown": (
        "Where the log does not tell how many engine steps a window held, its bytes and the parts of its step are "
        "dashes."
    ),
    "speculative": (
        "Speculative decoding: vLLM counts rejected drafts too, SGLang accepted tokens only; "
        "the draft model's own work is in neither count."
    ),
    # How the engine counts, where that makes its own figures unusable.
    "lm_head_only": (
        "vLLM left attention and FFN out of its own count (it does not know this quantization): its MFU figures are "
        "not this model's; only recounted ones are used."
    ),
    "mla_miscounted": (
        "The engine counts this model's latent attention as if it cached every head: its own bytes are far too high "
        "(vLLM before 0.24: about 57×)."
    ),
    "mla_not_recounted": ("This model's latent attention is not recounted here: the figures are the engine's own."),
    "swa_full_context": (
        "vLLM before 0.30 counts sliding-window layers as if they saw the whole context: its own attention figures are "
        "8 to 30× too high at long context."
    ),
    "sglang_moe_uncounted": (
        "SGLang counts one dense MLP in place of the experts: its own figures are not this model's."
    ),
    # The ceiling.
    "ceiling_from_roofs": (
        "The profile holds no ceiling for this model, so GEMM time is estimated from the roofs (marked ~) and real "
        "kernels take longer: `probe measure --model NAME --tp N` measures it."
    ),
    "ceiling_from_given": (
        "GEMM time is estimated from peaks that were given or published, not measured (marked ~), and real kernels "
        "take longer: under the card's own profile its model ceiling counts."
    ),
    "ceiling_of_other_tp": (
        "The profile's ceiling was measured at another tensor-parallel degree and scaled; "
        "`probe measure --tp N` measures this one."
    ),
    "link_unmeasured": (
        "Tensor parallelism also waits for the link between cards, of which nothing is known here: its time is in "
        "the rest. `probe measure --device all` measures it."
    ),
    "link_lower_bound": "All-reduce time is taken from isolated messages: the least it can be.",
    # The result.
    "above_roof": (
        "Some windows lie above the roof: a window that holds one long step more, a card that boosts above the "
        "measured one, or another card than the profile's. Nothing is clamped."
    ),
    "rest_negative": (
        "In some windows the kernels measured alone take longer than the step did: another card or clock than the "
        "profile's, or a step counted wrong."
    ),
    # The plan.
    "no_engine_term": (
        "No log, so no engine term: real engines take longer than this bound (on an H200 capture of vLLM about "
        "0.9 ms a step and 6 µs a sequence longer)."
    ),
    "batch_outside_log": (
        "The batch lies outside what the log shows: the law is extrapolated there, and its error is not known."
    ),
    "context_outside_log": (
        "The context lies outside what the log shows: the law is extrapolated there, and its error is not known."
    ),
    "kv_outside_log": (
        "The step reads more KV (batch times context) than any that the log shows: the law is extrapolated there, and "
        "its error is not known."
    ),
    "batch_outside_ceiling": (
        "The batch is above the largest M of the profile's model ceiling, whose last point is scaled in proportion."
    ),
    "kv_cache_too_small": "The KV cache of this server does not hold that batch at that context.",
    "card_too_small": "The card's memory does not hold that batch at that context beside the weights.",
    "above_max_running": "The server's own limit on running requests is below that batch: it would have to be raised.",
}
"""Code -> sentence."""

CAUSES: dict[str, str] = {
    "steps_estimated": "the recount takes a window's steps from the requests running at its two ends, which is rough",
    "activations": "it adds activations, which are shown beside the recount and not in it",
    "vllm_full_square": "vLLM counts prefill attention as a full square, the recount as the causal triangle",
    "vllm_lm_head_every_token": "this vLLM counts the LM head for every prompt token",
    "vllm_speculative_as_prefill": "vLLM counts speculative steps as prefill, rejected drafts included",
    "swa_full_context": "it counts sliding-window layers over the whole context",
    "lm_head_only": "it counts the LM head alone",
    "mla_miscounted": "it counts latent attention as if every head were cached",
    "sglang_weights_per_token": "SGLang charges the weights once per generated token, not once per step",
    "sglang_lm_head_missing": "SGLang leaves the LM head out",
    "sglang_tp_mlp": "SGLang divides only heads by TP, not the MLP",
    "sglang_pp_whole_model": "SGLang counts the whole model on every pipeline stage",
    "sglang_quantization_ignored": "SGLang counts bytes in the model's dtype whatever the quantization",
    "sglang_moe_uncounted": "SGLang counts one dense MLP in place of the experts",
    "sglang_summed_triangle": "this SGLang counts one triangle over all prompts of a batch together",
}
"""Code -> clause: why an engine's count differs from the recount."""


def sentence(code: str) -> str | None:
    """The sentence of ``code``; None for a cause, which is told where the two counts are compared.

    A code that is neither shows itself, so that nothing is dropped silently.
    """
    if code in SENTENCES:
        return SENTENCES[code]
    return None if code in CAUSES else code.replace("_", " ") + "."


def cause(code: str) -> str:
    """The clause of ``code``."""
    return CAUSES.get(code, code.replace("_", " "))
