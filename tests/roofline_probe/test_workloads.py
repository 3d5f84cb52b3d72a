"""Model shapes: published parameter counts, names in logs, config files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roofline_probe.errors import UsageError
from roofline_probe.workloads import MODELS, check_tp, find_model, from_config, load_model

LLAMA_CONFIG = {
    "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "intermediate_size": 14336, "vocab_size": 128256, "tie_word_embeddings": False,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "total"),
    [
        # Published counts; Qwen3's per-head norms (under 1e-6 of it) are not counted.
        ("llama-3.1-8b", 8_030_261_248),
        ("llama-3.1-70b", 70_553_706_496),
        ("qwen3-8b", 8_190_735_360 - 2 * 36 * 128),
        ("qwen3-32b", 32_762_123_264 - 2 * 64 * 128),
        ("qwen3-30b-a3b", 30_532_122_624 - 2 * 48 * 128),
    ],
)
def test_parameters_as_published(name: str, total: int) -> None:
    assert MODELS[name].total_parameters == total


def test_decode_streams_all_but_the_input_embedding() -> None:
    assert MODELS["llama-3.1-8b"].streamed_parameters == 7_504_924_672


def test_projections_of_llama_split_as_tensor_parallelism_does() -> None:
    llama = MODELS["llama-3.1-8b"]
    shapes = [(p.k, p.n, p.split) for p in (*llama.attention_projections(), *llama.dense_projections())]
    assert shapes == [
        (4096, 6144, "columns"), (4096, 4096, "rows"), (4096, 28672, "columns"), (14336, 4096, "rows"),
    ]  # fmt: skip
    assert llama.attention_projections()[0].per_rank(2) == (3072, 4096)
    assert llama.attention_projections()[1].per_rank(2) == (4096, 2048)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("/models/Meta-Llama-3-8B-Instruct", "llama-3.1-8b"),
        ("/models/Meta-Llama-3-8B-Instruct/", "llama-3.1-8b"),
        ("C:\\models\\Llama-3.3-70B", "llama-3.1-70b"),
        ("Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"),
        ("Qwen/Qwen3-8B-FP8", "qwen3-8b"),
        ("meta-llama/Llama-3.2-1B", None),
        ("Qwen/Qwen2.5-7B", None),
        ("llama", None),
        ("", None),
    ],
)
def test_names_are_known_by_whole_tokens(name: str, model: str | None) -> None:
    found = find_model(name)
    assert (found.name if found else None) == model


def test_a_config_gives_the_shape_of_its_model() -> None:
    shape = from_config(LLAMA_CONFIG, "llama-3.1-8b")
    assert shape == MODELS["llama-3.1-8b"]


@pytest.mark.parametrize(
    ("more", "window", "layers"),
    [
        pytest.param({}, None, 0, id="none"),
        pytest.param({"sliding_window": 4096}, 4096, 32, id="every layer"),
        pytest.param({"sliding_window": 4096, "use_sliding_window": False}, None, 0, id="named and switched off"),
        pytest.param(
            {"sliding_window": 512, "layer_types": ["sliding_attention", "full_attention"] * 16},
            512,
            16,
            id="every other",
        ),
    ],
)
def test_sliding_windows_in_configs(more: dict[str, object], window: int | None, layers: int) -> None:
    shape = from_config({**LLAMA_CONFIG, **more}, "x")
    assert (shape.sliding_window, shape.sliding_layers) == (window, layers)


def test_mixtures_in_configs() -> None:
    shape = from_config(
        {**LLAMA_CONFIG, "num_experts": 64, "num_experts_per_tok": 4, "moe_intermediate_size": 512,
         "first_k_dense_replace": 1, "n_shared_experts": 2}, "x",
    )  # fmt: skip
    assert (shape.experts, shape.experts_per_token, shape.moe_layers, shape.shared_experts) == (64, 4, 31, 2)
    assert shape.linear_parameters(active=True) < shape.linear_parameters()
    assert shape.routed_parameters == 31 * 64 * 3 * 4096 * 512


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        pytest.param({"hidden_size": 4096}, "not a usable model config", id="fields missing"),
        pytest.param({**LLAMA_CONFIG, "hidden_size": "wide"}, "not a usable model config", id="not a number"),
        pytest.param({**LLAMA_CONFIG, "hidden_size": 0}, "hidden_size is 0", id="no width"),
        pytest.param({**LLAMA_CONFIG, "hidden_size": -4096}, "hidden_size is -4096", id="negative width"),
        pytest.param({**LLAMA_CONFIG, "hidden_size": 1e30}, r"hidden_size is 1e\+30", id="absurd width"),
        pytest.param({**LLAMA_CONFIG, "num_attention_heads": 0}, "num_attention_heads is 0", id="no heads"),
        pytest.param({**LLAMA_CONFIG, "num_hidden_layers": 0}, "num_hidden_layers is 0", id="no layers"),
        pytest.param({**LLAMA_CONFIG, "num_hidden_layers": 2.5}, "num_hidden_layers is 2.5", id="half a layer"),
        pytest.param({**LLAMA_CONFIG, "vocab_size": True}, "vocab_size is True", id="a truth value"),
        pytest.param({**LLAMA_CONFIG, "num_experts": -1}, "num_experts is -1", id="negative experts"),
        pytest.param({**LLAMA_CONFIG, "hidden_size": "4096"}, "hidden_size is '4096'", id="a word"),
        pytest.param({**LLAMA_CONFIG, "hidden_size": None}, "hidden_size is None", id="nothing"),
        pytest.param({**LLAMA_CONFIG, "num_key_value_heads": []}, r"num_key_value_heads is \[\]", id="an empty list"),
        pytest.param({**LLAMA_CONFIG, "num_experts": 8}, "num_experts_per_tok' is missing", id="experts for no token"),
        pytest.param(
            {**LLAMA_CONFIG, "num_experts": 8, "num_experts_per_tok": 9}, "9 experts a token", id="more than there are"
        ),
        pytest.param({**LLAMA_CONFIG, "sliding_window": -1}, "sliding_window is -1", id="negative window"),
        pytest.param({**LLAMA_CONFIG, "num_attention_heads": 3}, "do not go together", id="heads and KV heads"),
        pytest.param(
            {**LLAMA_CONFIG, "layer_types": ["sliding_attention"] * 33}, "do not go together", id="layer types"
        ),
        pytest.param({**LLAMA_CONFIG, "kv_lora_rank": 512}, "multi-head latent attention", id="MLA"),
    ],
)
def test_a_config_that_cannot_be_counted_is_refused(config: dict[str, object], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        from_config(config, "x")


def test_text_part_of_a_multimodal_config_counts() -> None:
    assert from_config({"text_config": LLAMA_CONFIG}, "llama-3.1-8b") == MODELS["llama-3.1-8b"]


def test_models_are_loaded_by_name_file_or_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_CONFIG), encoding="utf-8")
    for place in (str(tmp_path), str(tmp_path / "config.json")):
        assert load_model(place).layers == 32
    assert load_model("Llama-3.1-8B") == MODELS["llama-3.1-8b"]


@pytest.mark.parametrize(
    "content",
    ["not json", "[]", '{"a":' * 9999 + "1" + "}" * 9999],
    ids=["not JSON", "not an object", "nested without end"],
)
def test_a_file_that_is_no_config_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match="model config"):
        load_model(str(tmp_path / "config.json"))


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"known are llama-3\.1-8b"):
        load_model("gpt-17")


NARROW = {**LLAMA_CONFIG, "num_attention_heads": 24, "num_key_value_heads": 4, "intermediate_size": 9216}
NARROW_MOE = {
    **NARROW,
    "num_key_value_heads": 24,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 20,
}


@pytest.mark.parametrize(
    ("config", "tp", "says"),
    [
        pytest.param(LLAMA_CONFIG, 3, "32 query heads of x.*; give 1, 2, 4, 8, 16 or 32", id="query heads"),
        pytest.param(LLAMA_CONFIG, 64, "32 query heads of x", id="more ranks than heads"),
        pytest.param(NARROW, 6, "4 KV heads of x.*; give 1, 2, 4, 8, 12 or 24", id="KV heads neither way"),
        pytest.param({**NARROW, "intermediate_size": 20}, 8, "FFN width 20 of x.*; give 1, 2 or 4", id="FFN"),
        pytest.param(NARROW_MOE, 8, "expert width 20 of x.*; give 1, 2 or 4", id="experts"),
        pytest.param(
            {**NARROW_MOE, "intermediate_size": 18, "first_k_dense_replace": 1}, 4, "FFN width 18 of x",
            id="dense first layers",
        ),
    ],
)  # fmt: skip
def test_a_degree_that_no_engine_splits_a_model_by_is_refused_with_those_that_work(
    config: dict[str, object], tp: int, says: str
) -> None:
    with pytest.raises(UsageError, match=rf"--tp {tp} does not divide the {says}"):
        check_tp(from_config(config, "x"), tp)


@pytest.mark.parametrize(
    ("config", "tp"),
    [
        pytest.param(LLAMA_CONFIG, 32, id="KV heads copied to more ranks"),
        pytest.param({**NARROW_MOE, "intermediate_size": 7}, 2, id="a dense width that no layer has"),
    ],
)
def test_a_degree_that_engines_split_by_is_taken(config: dict[str, object], tp: int) -> None:
    check_tp(from_config(config, "x"), tp)
