"""Model shapes: which weights a step streams, how tensor parallelism splits them, and what the KV cache costs.

A shape comes from a name (``MODELS``), a Hugging Face ``config.json``, or the dimensions vLLM prints at start-up.
Parameter counts follow the architecture's own tensors: fused QKV, output, gate+up and down projections, two norms a
layer and one at the end, the input embedding (a look-up, never streamed) and the LM head.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from roofline_probe import roofline
from roofline_probe.errors import UsageError

Split = Literal["columns", "rows"]


@dataclass(frozen=True, slots=True)
class Projection:
    """One weight [k, n] of a layer, whole (not yet split by tensor parallelism)."""

    name: str
    k: int
    n: int
    split: Split
    """``columns``: N is divided among the ranks; ``rows``: K is, and an all-reduce follows."""
    copies: int = 1
    """Experts: how many of this weight a layer holds."""
    active: int = 1
    """Experts: through how many of them each token goes."""

    def per_rank(self, tp: int) -> tuple[int, int]:
        """(n, k) of one rank's part."""
        return (self.n // tp, self.k) if self.split == "columns" else (self.n, self.k // tp)


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder-only transformer's dimensions. Counts are of the whole model unless a method takes ``tp``."""

    name: str
    layers: int
    hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    tied_embeddings: bool = False
    experts: int = 0
    experts_per_token: int = 0
    moe_intermediate_size: int = 0
    shared_experts: int = 0
    moe_layers: int = 0
    """Layers whose FFN is a mixture; the others are dense with ``intermediate_size``."""
    sliding_window: int | None = None
    sliding_layers: int = 0
    """Layers whose attention sees the last ``sliding_window`` tokens only."""

    @property
    def gqa_group(self) -> int:
        """Query heads per KV head."""
        return self.heads // self.kv_heads

    def attention_projections(self) -> list[Projection]:
        """Fused QKV and the output projection of one layer."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return [
            Projection("qkv", self.hidden_size, q + 2 * kv, "columns"),
            Projection("o_proj", q, self.hidden_size, "rows"),
        ]

    def dense_projections(self) -> list[Projection]:
        """Gate+up and down of one dense FFN layer."""
        return _ffn(self.hidden_size, self.intermediate_size, "")

    def moe_projections(self) -> list[Projection]:
        """Router, routed and shared experts of one mixture layer."""
        router = [Projection("router", self.hidden_size, self.experts, "columns")]
        routed = _ffn(self.hidden_size, self.moe_intermediate_size, "expert_", self.experts, self.experts_per_token)
        shared = self.shared_experts
        return (
            router
            + routed
            + (_ffn(self.hidden_size, self.moe_intermediate_size, "shared_", shared, shared) if shared else [])
        )

    def lm_head(self) -> Projection:
        """The unembedding; computed for the tokens whose logits are needed only."""
        return Projection("lm_head", self.hidden_size, self.vocab_size, "columns")

    def linear_parameters(self, *, active: bool = False) -> int:
        """Parameters of all layers' projections; ``active`` counts only the experts one token goes through."""
        dense = _parameters(self.attention_projections(), active) * self.layers
        dense += _parameters(self.dense_projections(), active) * (self.layers - self.moe_layers)
        return dense + (_parameters(self.moe_projections(), active) * self.moe_layers if self.moe_layers else 0)

    @property
    def routed_parameters(self) -> int:
        """Routed experts of all layers: the part that a step streams only as far as its tokens touch it."""
        return self.moe_layers * self.experts * self._expert_parameters

    @property
    def routed_parameters_active(self) -> int:
        """Routed experts that one token goes through, all layers."""
        return self.moe_layers * self.experts_per_token * self._expert_parameters

    @property
    def _expert_parameters(self) -> int:
        return 3 * self.hidden_size * self.moe_intermediate_size

    @property
    def dense_parameters(self) -> int:
        """All projections but the routed experts: what every step streams whole."""
        return self.linear_parameters() - self.routed_parameters

    def activation_elements_per_token(self, tp: int = 1) -> float:
        """Elements that the projections, attention and the FFN's non-linearity read and write per token on one rank.

        Per layer: input and output of each projection, attention's own reading of Q, the activation function's input
        and output. Kernels may fuse some of it away, which is why reports keep it beside weights and KV.
        """
        width = 4 * self.hidden_size + (2 * self.heads * self.head_dim + self._qkv_width) / tp
        inner = self.dense_layers * self.intermediate_size + self.moe_layers * self._active_moe_width
        return self.layers * width + 6 * inner / tp

    @property
    def dense_layers(self) -> int:
        """Layers with one dense FFN."""
        return self.layers - self.moe_layers

    @property
    def _qkv_width(self) -> int:
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    @property
    def _active_moe_width(self) -> int:
        return (self.experts_per_token + self.shared_experts) * self.moe_intermediate_size

    @property
    def lm_head_parameters(self) -> int:
        """Parameters of the unembedding."""
        return self.hidden_size * self.vocab_size

    @property
    def norm_parameters(self) -> int:
        """RMS norms: two a layer and a final one (QK norms are left out: under 1e-6 of the total)."""
        return (2 * self.layers + 1) * self.hidden_size

    @property
    def streamed_parameters(self) -> int:
        """What a large-batch decode step reads: everything but the input embedding. Llama-3-8B: 7,504,924,672."""
        return self.linear_parameters() + self.norm_parameters + self.lm_head_parameters

    @property
    def total_parameters(self) -> int:
        """As published: with the input embedding, which a tied model shares with its LM head."""
        return self.streamed_parameters + (0 if self.tied_embeddings else self.lm_head_parameters)

    def kv_bytes_per_token(self, b_kv: float = 2, tp: int = 1) -> float:
        """Bytes on one rank; heads that do not divide are replicated (at least one a rank)."""
        return roofline.kv_bytes_per_token(self.layers, max(1, self.kv_heads // tp), self.head_dim, b_kv)


def _ffn(hidden: int, inner: int, prefix: str, copies: int = 1, active: int = 1) -> list[Projection]:
    return [
        Projection(f"{prefix}gate_up", hidden, 2 * inner, "columns", copies, active),
        Projection(f"{prefix}down", inner, hidden, "rows", copies, active),
    ]


def _parameters(projections: list[Projection], active: bool) -> int:
    return sum(p.k * p.n * (p.active if active else p.copies) for p in projections)


MODELS: Mapping[str, ModelShape] = {
    shape.name: shape
    for shape in (
        ModelShape("llama-3.1-8b", 32, 4096, 32, 8, 128, 14336, 128256),
        ModelShape("llama-3.1-70b", 80, 8192, 64, 8, 128, 28672, 128256),
        ModelShape("qwen3-8b", 36, 4096, 32, 8, 128, 12288, 151936),
        ModelShape("qwen3-32b", 64, 5120, 64, 8, 128, 25600, 151936),
        ModelShape(
            "qwen3-30b-a3b", 48, 2048, 32, 4, 128, 6144, 151936,
            experts=128, experts_per_token=8, moe_intermediate_size=768, moe_layers=48,
        ),
    )
}  # fmt: skip
DEFAULT_MODEL = "llama-3.1-8b"


def find_model(name: str) -> ModelShape | None:
    """The built-in shape whose name stands, as whole tokens, in ``name`` (a hub name or path), or None.

    ``/models/Meta-Llama-3-8B-Instruct`` is llama-3.1-8b (3, 3.1 share their shape); ``Llama-3.2-1B`` is nothing known.
    """
    tokens = set(_tokens(name))
    for key, aliases in _ALIASES.items():
        if any(set(alias) <= tokens for alias in aliases):
            return MODELS[key]
    return None


_ALIASES: dict[str, tuple[tuple[str, ...], ...]] = {
    "llama-3.1-8b": (("llama", "3", "8b"), ("llama", "3.1", "8b"), ("llama3", "8b"), ("llama3.1", "8b")),
    "llama-3.1-70b": tuple(
        (*family, "70b") for family in (("llama", "3"), ("llama", "3.1"), ("llama", "3.3"), ("llama3",))
    ),
    "qwen3-30b-a3b": (("qwen3", "30b", "a3b"),),
    "qwen3-8b": (("qwen3", "8b"),),
    "qwen3-32b": (("qwen3", "32b"),),
}


def _tokens(name: str) -> list[str]:
    last = name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    return last.lower().replace("_", "-").split("-")


def from_config(config: Mapping[str, Any], name: str) -> ModelShape:
    """Shape from a Hugging Face ``config.json`` already parsed.

    Raises:
        UsageError: a needed dimension is missing, or the architecture (MLA, encoder) is not one this counts.
    """
    text = config.get("text_config")
    fields: Mapping[str, Any] = text if isinstance(text, Mapping) else config
    if fields.get("kv_lora_rank"):
        raise UsageError(
            f"{name} uses multi-head latent attention, whose traffic this version does not count; leave --model out."
        )
    try:
        heads = int(fields["num_attention_heads"])
        hidden = int(fields["hidden_size"])
        layers = int(fields["num_hidden_layers"])
        experts = int(
            fields.get("num_experts") or fields.get("num_local_experts") or fields.get("n_routed_experts") or 0
        )
        sparse = layers - int(fields.get("first_k_dense_replace") or 0) if experts else 0
        inner = int(fields["intermediate_size"])
        return ModelShape(
            name=name,
            layers=layers,
            hidden_size=hidden,
            heads=heads,
            kv_heads=int(fields.get("num_key_value_heads") or heads),
            head_dim=int(fields.get("head_dim") or hidden // heads),
            intermediate_size=inner,
            vocab_size=int(fields["vocab_size"]),
            tied_embeddings=bool(config.get("tie_word_embeddings", False)),
            experts=experts,
            experts_per_token=int(fields.get("num_experts_per_tok") or 0),
            moe_intermediate_size=int(fields.get("moe_intermediate_size") or (inner if experts else 0)),
            shared_experts=int(fields.get("n_shared_experts") or 0),
            moe_layers=sparse,
            sliding_window=_window(fields),
            sliding_layers=_sliding_layers(fields, layers),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"{name} is not a usable model config ({error} is missing or not a number); give a decoder's config.json."
        ) from None


def _window(fields: Mapping[str, Any]) -> int | None:
    """Qwen configs name a window and switch it off in the next field."""
    return (
        int(fields["sliding_window"])
        if fields.get("sliding_window") and fields.get("use_sliding_window", True)
        else None
    )


def _sliding_layers(fields: Mapping[str, Any], layers: int) -> int:
    kinds = fields.get("layer_types")
    if isinstance(kinds, list):
        return sum(kind == "sliding_attention" for kind in kinds)
    return layers if _window(fields) else 0


def from_components(components: Mapping[str, Mapping[str, int | None]], name: str) -> ModelShape | None:
    """Shape from the dimensions vLLM prints at start-up, or None where a needed component is missing.

    ``components`` maps ``attn``, ``ffn`` and ``unembed`` to their printed fields (whole-model counts; the parallel
    degrees stand beside them). Multi-head latent attention (``mla_attn``) is not counted.
    """
    try:
        attn, ffn, unembed = (components[part] for part in ("attn", "ffn", "unembed"))
        hidden, layers = _whole(attn, "hidden_size"), _whole(attn, "num_hidden_layers")
        heads = _whole(attn, "num_attention_heads")
        experts = ffn.get("num_experts") or 0
        return ModelShape(
            name=_name_of_dimensions(layers, hidden, _whole(ffn, "intermediate_size")) or name,
            layers=layers,
            hidden_size=hidden,
            heads=heads,
            kv_heads=attn.get("num_key_value_heads") or heads,
            head_dim=attn.get("head_dim") or hidden // heads,
            intermediate_size=_whole(ffn, "intermediate_size"),
            vocab_size=_whole(unembed, "vocab_size"),
            experts=experts,
            experts_per_token=ffn.get("num_experts_per_tok") or 0,
            moe_intermediate_size=(ffn.get("moe_intermediate_size") or 0) if experts else 0,
            shared_experts=ffn.get("num_shared_experts") or 0,
            moe_layers=(ffn.get("num_moe_layers") or 0) if experts else 0,
            sliding_window=attn.get("sliding_window"),
            sliding_layers=attn.get("num_swa_layers") or 0,
        )
    except (KeyError, TypeError, ZeroDivisionError):
        return None


def _whole(fields: Mapping[str, int | None], key: str) -> int:
    value = fields[key]
    if not value:
        raise KeyError(key)
    return int(value)


def _name_of_dimensions(layers: int, hidden: int, inner: int) -> str | None:
    """A local path says little; the same dimensions under a known name say which ceiling applies."""
    same = (m for m in MODELS.values() if (m.layers, m.hidden_size, m.intermediate_size) == (layers, hidden, inner))
    return next((m.name for m in same), None)


def load_model(name_or_path: str) -> ModelShape:
    """A built-in name, or the path of a ``config.json`` (or of the folder that holds one).

    Raises:
        UsageError: neither; the sentence lists the names.
    """
    path = Path(name_or_path)
    if path.is_dir():
        path = path / "config.json"
    if path.is_file():
        try:
            parsed = msgspec.json.decode(path.read_bytes())
        except (OSError, msgspec.DecodeError) as error:
            raise UsageError(
                f"{path} could not be read as a model config ({error}); give a decoder's config.json."
            ) from None
        if not isinstance(parsed, dict):
            raise UsageError(f"{path} is not a model config (a JSON object is needed); give a decoder's config.json.")
        return from_config(parsed, path.parent.name or path.stem)
    shape = MODELS.get(name_or_path.lower()) or find_model(name_or_path)
    if shape is None:
        raise UsageError(f"{name_or_path} is neither a config.json nor a known model; known are {', '.join(MODELS)}.")
    return shape
