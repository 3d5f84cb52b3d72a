"""One GPU's share of a model: the FLOPs and bytes that a recount multiplies by tokens, steps and context.

One accounting for every engine:

* projections: 2 FLOP per weight and token; every weight byte crosses the memory bus once per engine step;
* experts: FLOPs by the experts a token goes through, bytes by the distinct experts that a step's tokens touch;
* LM head: FLOPs for the rows whose logits are computed, bytes once per step;
* attention: 4 FLOP per query head, head dimension, layer and (query, key) pair, causal pairs only; decode reads every
  cached K and V once per step;
* norms, embeddings look-ups, rotary and sampling are left out (under 1 % of either count).

Division over GPUs: tensor parallelism divides heads, FFN columns and vocabulary (a GPU holds at least one KV head, so
they are copied beyond that); pipeline parallelism divides layers; expert parallelism spreads whole experts over tp·dp
GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from log_parsers.step import LogFacts
from roofline_probe import workloads
from roofline_probe.workloads import ModelShape

ShapeSource = Literal["flag", "log", "name", "fit"]
"""``--model``; the dimensions vLLM prints; the model name in the log; fitted from SGLang's own lines."""

_DTYPE_BYTES = {"bf16": 2.0, "fp16": 2.0, "fp32": 4.0, "fp8": 1.0, "fp8_e4m3": 1.0, "fp8_e5m2": 1.0, "int8": 1.0}
_QUANT_BYTES: tuple[tuple[str, float], ...] = (
    # Bytes per weight as stored, scales included where the format fixes them (one per 32 or 16 elements).
    ("mxfp4", 0.53),
    ("nvfp4", 0.5625),
    ("modelopt_fp4", 0.5625),
    ("fp4", 0.53),
    ("awq", 0.53),
    ("gptq", 0.53),
    ("bitsandbytes", 0.53),
    ("marlin", 0.53),
    ("fp8", 1.0),
    ("modelopt", 1.0),
    ("int8", 1.0),
    ("w8a8", 1.0),
)


def dtype_bytes(dtype: str | None, default: float = 2.0) -> float:
    """Bytes of one element; unknown names count as ``default`` (serving runs in 16 bits unless it says otherwise)."""
    return _DTYPE_BYTES.get(dtype or "", default)


@dataclass(frozen=True, slots=True)
class Shard:
    """One GPU's constants. FLOPs and bytes are per GPU; ``rows`` are the tokens one engine step feeds through."""

    name: str
    source: ShapeSource
    tp: int
    pp: int
    layers: float
    """On this GPU."""
    hidden_size: int
    dense_weight_bytes: float
    """Attention, dense and shared FFN, router: streamed by every step."""
    lm_head_bytes: float
    linear_flops_per_token: float
    lm_head_flops_per_row: float
    attention_flops_per_pair: float
    kv_bytes_per_token: float
    activation_bytes_per_token: float
    b_act: float = 2.0
    b_weight: float = 2.0
    projections: tuple[tuple[int, int], ...] = ()
    """[K, N] of one dense layer's weights on this GPU; empty for mixtures and fitted models."""
    expert_bytes: float = 0.0
    """All routed experts this GPU holds, all layers."""
    experts: int = 0
    experts_per_token: int = 0
    expert_token_factor: int = 1
    """Engines whose tokens meet at this GPU's experts (data parallelism with shared experts' weights)."""
    embedding_bytes: float = 0.0
    """The input embedding: held and never streamed; 0 where it is the LM head's own (tied) or, fitted, not known."""
    sliding_window: int | None = None
    sliding_fraction: float = 0.0
    """Share of layers whose attention sees the window only."""

    def weight_bytes(self, rows: float) -> float:
        """Bytes of weights that one step of ``rows`` tokens reads.

        Under uniform routing, T tokens that each choose k of E experts touch E·(1 − (1 − k/E)^T) of them.
        """
        fixed = self.dense_weight_bytes + self.lm_head_bytes
        if not self.experts:
            return fixed
        missed: float = (1 - self.experts_per_token / self.experts) ** max(rows * self.expert_token_factor, 0.0)
        return fixed + self.expert_bytes * (1 - missed)

    def attended(self, context: float) -> float:
        """Tokens that attention reads of a context, averaged over layers (sliding windows see their window only)."""
        if not self.sliding_window or context <= self.sliding_window:
            return context
        return context * (1 - self.sliding_fraction) + self.sliding_window * self.sliding_fraction


_MLA_NAMES = ("deepseek-v2", "deepseek-v3", "deepseek-r1", "kimi-k2", "deepseek_v2", "deepseek_v3", "glm-5")


def latent_attention(facts: LogFacts) -> bool:
    """Whether the model compresses K and V into a latent (MLA), which this accounting does not cover."""
    name = (facts.model or "").lower()
    return "mla_attn" in facts.components or any(known in name for known in _MLA_NAMES)


def find_shape(facts: LogFacts, model: ModelShape | None) -> tuple[ModelShape, ShapeSource] | None:
    """The model's dimensions: the user's, else the log's own, else those of the name in the log."""
    if model is not None:
        return model, "flag"
    if latent_attention(facts):
        return None
    printed = workloads.from_components(facts.components, facts.model or "the log's model")
    if printed is not None:
        return printed, "log"
    named = workloads.find_model(facts.model) if facts.model else None
    return (named, "name") if named is not None else None


def shard_of(shape: ModelShape, source: ShapeSource, facts: LogFacts) -> Shard:
    """One GPU's share of ``shape`` under the parallelism and the byte sizes that the log states."""
    attn, ffn, unembed = (facts.components.get(name, {}) for name in ("attn", "ffn", "unembed"))
    tp = facts.tp or attn.get("tp_size") or 1
    pp = facts.pp or attn.get("pp_size") or 1
    dp = facts.dp or 1
    b_act = dtype_bytes(facts.dtype, float(attn.get("activation_byte_size") or 2))
    b_head = dtype_bytes(facts.dtype, float(unembed.get("weight_byte_size") or 2))
    b_w = weight_element_bytes(shape, facts, tp, pp, b_head)
    b_kv = kv_element_bytes(facts, b_act)
    expert_gpus = _expert_gpus(facts, ffn, tp, dp)
    return _divide(shape, source, tp, pp, b_w, b_head, b_kv, b_act, expert_gpus, dp if shape.experts else 1)


def _divide(
    shape: ModelShape, source: ShapeSource, tp: int, pp: int, b_w: float, b_head: float, b_kv: float, b_act: float,
    expert_gpus: int, dp: int,
) -> Shard:  # fmt: skip
    dense = shape.dense_parameters / tp / pp
    routed = shape.routed_parameters / pp
    routed_flops = 2 * shape.routed_parameters_active / tp / pp  # tokens of dp engines over tp·dp GPUs
    head = shape.lm_head_parameters / tp / pp
    return Shard(
        name=shape.name,
        source=source,
        tp=tp,
        pp=pp,
        layers=shape.layers / pp,
        hidden_size=shape.hidden_size,
        dense_weight_bytes=dense * b_w,
        lm_head_bytes=head * b_head,
        linear_flops_per_token=2 * dense + routed_flops,
        lm_head_flops_per_row=2 * head,
        attention_flops_per_pair=4 * shape.heads * shape.head_dim * shape.layers / tp / pp,
        kv_bytes_per_token=shape.kv_bytes_per_token(b_kv, tp) / pp,
        activation_bytes_per_token=shape.activation_elements_per_token(tp) / pp * b_act,
        b_act=b_act,
        b_weight=b_w,
        projections=() if shape.experts else _layer_projections(shape, tp),
        expert_bytes=routed / expert_gpus * b_w,
        experts=shape.experts,
        experts_per_token=shape.experts_per_token,
        expert_token_factor=dp,
        embedding_bytes=0.0 if shape.tied_embeddings else head * b_head,
        sliding_window=shape.sliding_window,
        sliding_fraction=shape.sliding_layers / shape.layers,
    )


def _layer_projections(shape: ModelShape, tp: int) -> tuple[tuple[int, int], ...]:
    parts = (p.per_rank(tp) for p in (*shape.attention_projections(), *shape.dense_projections()))
    return tuple((k, n) for n, k in parts)


def _expert_gpus(facts: LogFacts, ffn: object, tp: int, dp: int) -> int:
    """GPUs over which one layer's experts are spread, by columns (tp) or whole (ep)."""
    if isinstance(ffn, dict) and ffn.get("ffn_tp_size"):
        return max(1, int(ffn["ffn_tp_size"]) * int(ffn.get("ffn_ep_size") or 1))
    return max(tp * dp if facts.engine == "vllm" else tp, facts.ep or 1)


def weight_element_bytes(shape: ModelShape, facts: LogFacts, tp: int, pp: int, b_head: float) -> float:
    """Bytes per weight of the quantized layers as stored.

    The loader's own figure decides where there is one (engines count by the method's name: 0.5 for any
    ``compressed-tensors``, 8-bit ones too); embedding and LM head stay in the model's dtype. Otherwise the name does.
    """
    printed = facts.components.get("attn", {}).get("weight_byte_size")
    if not facts.quantization or facts.quantization.lower() in ("none", "auto"):
        return float(printed) if printed else dtype_bytes(facts.dtype, b_head)
    layers = (shape.dense_parameters + shape.routed_parameters) / tp / pp
    if facts.weight_bytes and layers:
        outside = (2 - shape.tied_embeddings) * shape.lm_head_parameters * b_head / tp / pp
        measured = (facts.weight_bytes - outside) / layers
        if 0.4 <= measured <= 4.5:
            return measured
    name = facts.quantization.lower()
    return next((size for key, size in _QUANT_BYTES if key in name), float(printed or 2))


def kv_element_bytes(facts: LogFacts, b_act: float) -> float:
    """Bytes of one cached element of K or V; ``b_act`` is what ``auto`` stands for."""
    printed = facts.components.get("attn", {}).get("cache_byte_size")
    name = (facts.kv_cache_dtype or "auto").lower()
    if name.startswith("fp8") or name == "int8":
        return 1.0
    if printed:
        return float(printed)
    return dtype_bytes(name, b_act)
