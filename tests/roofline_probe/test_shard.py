"""One GPU's share of a model: parameter counts, division over GPUs, storage sizes, experts, windows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_parsers.step import LogFacts
from roofline_probe.shard import Shard, find_shape, latent_attention, shard_of
from roofline_probe.workloads import MODELS, ModelShape, from_components

LLAMA = MODELS["llama-3.1-8b"]
MIXTURE = MODELS["qwen3-30b-a3b"]


def shard(shape: ModelShape = LLAMA, **facts: object) -> Shard:
    return shard_of(shape, "flag", LogFacts(**{"engine": "vllm", "dtype": "bf16", **facts}))  # type: ignore[arg-type]


def test_llama_on_one_gpu_by_hand() -> None:
    one = shard()
    assert one.linear_flops_per_token == 2 * 6_979_321_856
    assert one.lm_head_flops_per_row == 2 * 525_336_576
    assert one.attention_flops_per_pair == 4 * 32 * 128 * 32
    assert one.weight_bytes(1) == 2 * (6_979_321_856 + 525_336_576)
    assert one.kv_bytes_per_token == 131_072
    assert one.activation_bytes_per_token == 32 * 116_736 * 2  # as the engine's own breakdown of activations adds up


@pytest.mark.parametrize("tp", [2, 4, 8])
def test_tensor_parallelism_divides_everything_but_the_width(tp: int) -> None:
    one, part = shard(), shard(tp=tp)
    assert part.linear_flops_per_token * tp == one.linear_flops_per_token
    assert part.weight_bytes(1) * tp == one.weight_bytes(1)
    assert part.kv_bytes_per_token * tp == one.kv_bytes_per_token
    assert part.hidden_size == one.hidden_size


def test_more_gpus_than_kv_heads_copy_the_heads() -> None:
    assert shard(tp=16).kv_bytes_per_token == shard(tp=8).kv_bytes_per_token


def test_pipeline_parallelism_divides_layers() -> None:
    one, part = shard(), shard(pp=2)
    assert part.layers == 16
    assert part.linear_flops_per_token * 2 == one.linear_flops_per_token
    assert part.kv_bytes_per_token * 2 == one.kv_bytes_per_token


@pytest.mark.parametrize(
    ("facts", "b_weight"),
    [
        pytest.param({}, 2.0, id="bf16"),
        pytest.param({"dtype": "fp32"}, 4.0, id="fp32"),
        pytest.param({"quantization": "fp8"}, 1.0, id="fp8"),
        pytest.param({"quantization": "awq_marlin"}, 0.53, id="4-bit with scales"),
        pytest.param({"quantization": "mxfp4"}, 0.53, id="mxfp4"),
        pytest.param(
            {"quantization": "compressed-tensors", "weight_bytes": 6_979_321_856 + 4 * 525_336_576},
            1.0,
            id="the loader's bytes decide what a container format holds",
        ),
    ],
)
def test_stored_bytes_per_weight(facts: dict[str, object], b_weight: float) -> None:
    assert shard(**facts).b_weight == pytest.approx(b_weight, rel=0.01)


def test_quantized_layers_leave_the_lm_head_in_16_bits() -> None:
    fp8 = shard(quantization="fp8")
    assert fp8.dense_weight_bytes == 6_979_321_856
    assert fp8.lm_head_bytes == 2 * 525_336_576


@pytest.mark.parametrize(
    ("name", "bytes_each"),
    [("fp8", 65_536), ("fp8_e4m3", 65_536), ("bf16", 131_072), ("auto", 131_072), (None, 131_072)],
)
def test_kv_cache_dtype_sets_its_bytes(name: str | None, bytes_each: int) -> None:
    assert shard(kv_cache_dtype=name).kv_bytes_per_token == bytes_each


def test_experts_are_streamed_as_far_as_tokens_touch_them() -> None:
    mixture = shard(MIXTURE)
    one_token = mixture.dense_weight_bytes + mixture.lm_head_bytes + mixture.expert_bytes * 8 / 128
    assert mixture.weight_bytes(1) == pytest.approx(one_token)
    everything = mixture.dense_weight_bytes + mixture.lm_head_bytes + mixture.expert_bytes
    assert mixture.weight_bytes(4096) == pytest.approx(everything)
    assert mixture.linear_flops_per_token == 2 * MIXTURE.linear_parameters(active=True)


@given(rows=st.floats(1, 1e4), more=st.floats(0, 1e4))
def test_a_larger_step_never_streams_less(rows: float, more: float) -> None:
    mixture = shard(MIXTURE)
    assert mixture.weight_bytes(rows + more) >= mixture.weight_bytes(rows)


def test_data_parallel_engines_with_shared_experts_hold_a_part_each() -> None:
    alone, shared = shard(MIXTURE), shard(MIXTURE, dp=4, ep=4)
    assert shared.expert_bytes * 4 == alone.expert_bytes
    assert shared.weight_bytes(8) < alone.weight_bytes(8)
    assert shared.linear_flops_per_token == alone.linear_flops_per_token


@given(context=st.floats(0, 1e6))
def test_sliding_windows_see_no_more_than_their_window(context: float) -> None:
    shape = ModelShape("windowed", 32, 4096, 32, 8, 128, 14336, 128256, sliding_window=4096, sliding_layers=24)
    seen = shard(shape).attended(context)
    assert seen <= context
    assert seen == pytest.approx(0.25 * context + 0.75 * min(context, 4096))


COMPONENTS: dict[str, dict[str, int | None]] = {
    "attn": {
        "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "activation_byte_size": 2,
        "tp_size": 2, "pp_size": 1, "num_key_value_heads": 8, "head_dim": 128, "cache_byte_size": 2,
        "weight_byte_size": 2,
    },
    "ffn": {
        "num_hidden_layers": 32, "hidden_size": 4096, "ffn_tp_size": 2, "ffn_ep_size": 1,
        "intermediate_size": 14336, "num_experts": 0, "num_experts_per_tok": 0, "moe_intermediate_size": 14336,
        "num_shared_experts": 0, "num_moe_layers": 0, "weight_byte_size": 2,
    },
    "unembed": {"hidden_size": 4096, "vocab_size": 128256, "weight_byte_size": 2, "tp_size": 2},
}  # fmt: skip


def test_printed_dimensions_are_the_whole_models_and_name_it() -> None:
    shape = from_components(COMPONENTS, "/models/mine")
    assert shape == LLAMA


def test_printed_parallel_degree_counts_where_arguments_do_not_say() -> None:
    facts = LogFacts(engine="vllm", components=COMPONENTS, model="/models/mine")
    found = find_shape(facts, None)
    assert found is not None
    assert found[1] == "log"
    assert shard_of(*found, facts).tp == 2


@pytest.mark.parametrize(
    "missing", [pytest.param("ffn", id="dropped FFN"), pytest.param("attn", id="dropped attention")]
)
def test_a_dropped_component_is_no_shape(missing: str) -> None:
    components = {name: fields for name, fields in COMPONENTS.items() if name != missing}
    assert from_components(components, "x") is None


def test_a_known_name_fills_in_for_dropped_components() -> None:
    facts = LogFacts(engine="vllm", model="/models/Meta-Llama-3-8B-AWQ", components={"unembed": {"vocab_size": 128256}})
    assert find_shape(facts, None) == (LLAMA, "name")


def test_the_users_model_goes_before_everything() -> None:
    facts = LogFacts(engine="vllm", model="Meta-Llama-3-8B", components=COMPONENTS)
    assert find_shape(facts, MIXTURE) == (MIXTURE, "flag")


@pytest.mark.parametrize("name", ["deepseek-ai/DeepSeek-V3", "/models/DeepSeek-R1-0528", "moonshotai/Kimi-K2-Instruct"])
def test_latent_attention_is_recognised_and_not_recounted(name: str) -> None:
    facts = LogFacts(engine="vllm", model=name, components=COMPONENTS)
    assert latent_attention(facts)
    assert find_shape(facts, None) is None


def test_an_unknown_model_without_dimensions_has_no_shape() -> None:
    assert find_shape(LogFacts(engine="sglang", model="/models/ours-v7"), None) is None
