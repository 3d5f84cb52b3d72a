"""A decoder's dimensions and what follows from them: weights, how tensor parallelism splits them, the KV cache's cost.

Parameter counts follow the architecture's own tensors: fused QKV, output, gate+up and down projections, two norms a
layer and one at the end, the input embedding (a look-up, never streamed) and the LM head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from roofline_probe import roofline

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
