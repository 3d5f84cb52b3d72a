"""Where a model's shape comes from: a known name, a Hugging Face ``config.json``, or the dimensions vLLM prints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from roofline_probe.errors import UsageError
from roofline_probe.model_shape import ModelShape, Projection

__all__ = [
    "DEFAULT_MODEL",
    "MODELS",
    "ModelShape",
    "Projection",
    "check_tp",
    "find_model",
    "from_components",
    "from_config",
    "load_model",
]

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


def from_config(config: Mapping[str, Any], name: str, origin: str | None = None) -> ModelShape:
    """Shape from a Hugging Face ``config.json`` already parsed; ``origin`` is the file to name in a complaint.

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
        return _shape(fields, name, tied=bool(config.get("tie_word_embeddings", False)))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise UsageError(
            f"{origin or name} is not a usable model config ({reason}); give a decoder's config.json."
        ) from None


def _shape(fields: Mapping[str, Any], name: str, tied: bool) -> ModelShape:
    heads, hidden = _count(fields, "num_attention_heads"), _count(fields, "hidden_size")
    layers, inner = _count(fields, "num_hidden_layers"), _count(fields, "intermediate_size")
    experts = next(
        (_count(fields, key) for key in ("num_experts", "num_local_experts", "n_routed_experts") if fields.get(key)), 0
    )
    dense = _count(fields, "first_k_dense_replace", 0)
    kv_heads = _count(fields, "num_key_value_heads", heads)
    head_dim = _count(fields, "head_dim", hidden // heads)
    sliding = _sliding_layers(fields, layers)
    per_token = _count(fields, "num_experts_per_tok") if experts else 0
    if heads % kv_heads or not head_dim or max(dense, sliding) > layers:
        raise ValueError(
            f"{heads} heads, {kv_heads} KV heads, hidden size {hidden}, {layers} layers do not go together"
        )
    if per_token > experts:
        raise ValueError(f"{per_token} experts a token are more than the {experts} that there are")
    return ModelShape(
        name=name,
        layers=layers,
        hidden_size=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate_size=inner,
        vocab_size=_count(fields, "vocab_size"),
        tied_embeddings=tied,
        experts=experts,
        experts_per_token=per_token,
        moe_intermediate_size=_count(fields, "moe_intermediate_size", inner if experts else 0),
        shared_experts=_count(fields, "n_shared_experts", 0),
        moe_layers=layers - dense if experts else 0,
        sliding_window=_window(fields),
        sliding_layers=sliding,
    )


_LARGEST = 1 << 31
"""Of any one dimension: above it products of dimensions say nothing of a model that exists."""


def _count(fields: Mapping[str, Any], key: str, default: int | None = None) -> int:
    """A dimension, a whole number above 0; null and 0 mean ``default`` where there is one.

    Raises:
        KeyError: missing, with no default.
        ValueError, OverflowError: not such a number.
    """
    value: object = fields[key] if default is None else fields.get(key)
    if default is not None and (value is None or value == 0):
        return default
    if not isinstance(value, (int, float)) or isinstance(value, bool) or value != int(value):
        raise ValueError(f"{key} is {value!r:.40}")
    if not 1 <= value <= _LARGEST:
        raise ValueError(f"{key} is {value:g}")
    return int(value)


def _window(fields: Mapping[str, Any]) -> int | None:
    """Qwen configs name a window and switch it off in the next field."""
    return (
        _count(fields, "sliding_window")
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
        if experts and not 1 <= (ffn.get("num_experts_per_tok") or 0) <= experts:
            return None
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


_LARGEST_CONFIG_BYTES = 16 << 20


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
            with path.open("rb") as file:
                text = file.read(_LARGEST_CONFIG_BYTES + 1)
            if len(text) > _LARGEST_CONFIG_BYTES:
                raise UsageError(f"{path} is too large for a model config; give a decoder's config.json.")
            parsed = msgspec.json.decode(text)
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            raise UsageError(
                f"{path} could not be read as a model config ({error}); give a decoder's config.json."
            ) from None
        if not isinstance(parsed, dict):
            raise UsageError(f"{path} is not a model config (a JSON object is needed); give a decoder's config.json.")
        return from_config(parsed, path.parent.name or path.stem, origin=str(path))
    shape = MODELS.get(name_or_path.lower()) or find_model(name_or_path)
    if shape is None:
        raise UsageError(f"{name_or_path} is neither a config.json nor a known model; known are {', '.join(MODELS)}.")
    return shape


_LARGEST_TP = 1024
"""Of the degrees that a refusal lists."""


def check_tp(shape: ModelShape, tp: int) -> None:
    """Refuse a tensor-parallel degree that no engine can split ``shape`` by.

    For what a user asks for, never for what a log states: that server ran, whatever this counts.

    Raises:
        UsageError: the sentence names what does not divide and the degrees that work.
    """
    undivided = _undivided(shape, tp)
    if undivided is None:
        return
    *most, last = (str(degree) for degree in range(1, _LARGEST_TP + 1) if _undivided(shape, degree) is None)
    degrees = f"{', '.join(most)} or {last}" if most else last
    raise UsageError(
        f"--tp {tp} does not divide {undivided} of {shape.name}, so no engine splits the model so; give {degrees}."
    )


def _undivided(shape: ModelShape, tp: int) -> str | None:
    """The first dimension that keeps engines from ``tp`` equal ranks. KV heads may be fewer: each is then copied."""
    if shape.heads % tp:
        return f"the {shape.heads:,} query heads"
    if shape.kv_heads % tp and tp % shape.kv_heads:
        return f"the {shape.kv_heads:,} KV heads"
    if shape.dense_layers and shape.intermediate_size % tp:
        return f"the FFN width {shape.intermediate_size:,}"
    if shape.moe_layers and shape.moe_intermediate_size % tp:
        return f"the expert width {shape.moe_intermediate_size:,}"
    return None
