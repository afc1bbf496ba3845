"""Model shapes: from the table, from a config.json, and the arithmetic on both."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertier.catalog.model_config import load_model_config, shape_from_config
from hypertier.catalog.models import MODELS, ModelShape, find_model
from hypertier.errors import ConfigError, ManifestError

# The fields of each model's config.json that shapes are made of.
LLAMA = {
    "vocab_size": 128256,
    "num_key_value_heads": 8,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama-3.1-8b": {
        **LLAMA,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
    },
    "llama-3.1-70b": {
        **LLAMA,
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
    },
    "llama-3.1-405b": {
        **LLAMA,
        "hidden_size": 16384,
        "intermediate_size": 53248,
        "num_hidden_layers": 126,
        "num_attention_heads": 128,
    },
    "qwen3-32b": {
        "vocab_size": 151936,
        "hidden_size": 5120,
        "intermediate_size": 25600,
        "num_hidden_layers": 64,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "tie_word_embeddings": False,
    },
    "mistral-7b-instruct-v0.3": {
        "vocab_size": 32768,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
    },
    **{
        name: {
            "vocab_size": vocabulary,
            "hidden_size": hidden,
            "intermediate_size": between,
            "num_hidden_layers": layers,
            "num_attention_heads": hidden // 128,
            "num_key_value_heads": kv_heads,
            "tie_word_embeddings": False,
        }
        for name, vocabulary, hidden, between, layers, kv_heads in (
            ("qwen2-7b", 152064, 3584, 18944, 28, 4),
            ("qwen2.5-7b", 152064, 3584, 18944, 28, 4),
            ("qwen2.5-14b", 152064, 5120, 13824, 48, 8),
            ("qwen2.5-32b", 152064, 5120, 27648, 64, 8),
            ("qwen2.5-72b", 152064, 8192, 29568, 80, 8),
            ("r1-distill-qwen-1.5b", 151936, 1536, 8960, 28, 2),
            ("r1-distill-qwen-7b", 152064, 3584, 18944, 28, 4),
            ("r1-distill-qwen-14b", 152064, 5120, 13824, 48, 8),
            ("r1-distill-qwen-32b", 152064, 5120, 27648, 64, 8),
        )
    },
    "qwen3-235b-a22b": {
        "vocab_size": 151936,
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_hidden_layers": 94,
        "num_attention_heads": 64,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 1536,
    },
    "deepseek-v3": {
        "vocab_size": 129280,
        "hidden_size": 7168,
        "intermediate_size": 18432,
        "num_hidden_layers": 61,
        "num_attention_heads": 128,
        "num_key_value_heads": 128,
        "kv_lora_rank": 512,
        "q_lora_rank": 1536,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "n_routed_experts": 256,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 2048,
        "first_k_dense_replace": 3,
        "quantization_config": {"quant_method": "fp8"},
    },
    "qwen3-next-80b-a3b": {
        "vocab_size": 151936,
        "hidden_size": 2048,
        "intermediate_size": 5120,
        "num_hidden_layers": 48,
        "full_attention_interval": 4,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "linear_value_head_dim": 128,
        "num_experts": 512,
        "num_experts_per_tok": 10,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
    },
    "gpt-oss-120b": {
        "vocab_size": 201088,
        "hidden_size": 2880,
        "intermediate_size": 2880,
        "num_hidden_layers": 36,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "num_local_experts": 128,
        "num_experts_per_tok": 4,
        "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention"] * 18,
        "quantization_config": {"quant_method": "mxfp4"},
    },
}


def row(name: str) -> ModelShape:
    return next(model for model in MODELS if model.name == name)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_gives_the_row_of_the_table(name: str) -> None:
    shape, expected = shape_from_config(CONFIGS[name], name), row(name)

    assert shape.num_parameters == pytest.approx(expected.num_parameters, rel=0.02)
    assert shape.active_parameters == pytest.approx(expected.active_parameters, rel=0.3)
    for field in ModelShape.__slots__:
        if field not in ("num_parameters", "num_active_parameters"):
            assert getattr(shape, field) == getattr(expected, field), field


@pytest.mark.parametrize(
    ("name", "kibibytes"),
    [
        ("llama-3.1-8b", 128),
        ("llama-3.1-70b", 320),
        ("llama-3.1-405b", 504),
        ("qwen3-32b", 256),
        ("deepseek-v3", 68.625),
        ("qwen3-next-80b-a3b", 24),
        ("gpt-oss-120b", 36),
    ],
)
def test_kv_bytes_of_a_token_are_the_published_ones(name: str, kibibytes: float) -> None:
    assert row(name).kv_bytes_per_token() == kibibytes * 1024


def test_fp8_halves_kv() -> None:
    assert row("llama-3.1-8b").kv_bytes_per_token(1) == row("llama-3.1-8b").kv_bytes_per_token() / 2


@pytest.mark.parametrize(
    ("name", "ranks", "copies"),
    [
        pytest.param("llama-3.1-70b", 8, 1.0, id="a-head-a-rank"),
        pytest.param("llama-3.1-70b", 4, 1.0, id="heads-to-spare"),
        pytest.param("qwen3-next-80b-a3b", 8, 4.0, id="more-ranks-than-heads"),
        pytest.param("deepseek-v3", 8, 8.0, id="latent-on-every-rank"),
    ],
)
def test_tensor_parallelism_copies_kv_where_heads_run_out(name: str, ranks: int, copies: float) -> None:
    assert row(name).kv_copies(ranks) == copies


def test_a_window_stops_growing_and_a_state_never_grows() -> None:
    windowed, hybrid = row("gpt-oss-120b"), row("qwen3-next-80b-a3b")

    assert windowed.kv_bytes(256) - windowed.kv_bytes(128) == 128 * windowed.kv_bytes_per_token()
    assert hybrid.kv_bytes(0) == 2 * hybrid.state_elements


def test_a_long_prefill_costs_more_than_its_share() -> None:
    model = row("llama-3.1-70b")

    assert model.prefill_operations(65536) > 8 * model.prefill_operations(8192)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        pytest.param(["meta-llama/Llama-3.1-70B-Instruct"], "llama-3.1-70b", id="hub"),
        pytest.param(["meta-llama/Meta-Llama-3.1-8B"], "llama-3.1-8b", id="old-hub-name"),
        pytest.param([None, "s3://models/llama-3-1-405b/"], "llama-3.1-405b", id="second-name"),
        pytest.param(["deepseek-ai/DeepSeek-R1-Distill-Llama-8B"], "llama-3.1-8b", id="distilled"),
        pytest.param(["deepseek-ai/DeepSeek-V3"], "deepseek-v3", id="mla"),
        pytest.param(["llama-3.1-700b"], None, id="longer-number"),
        pytest.param(["my-model"], None, id="unknown"),
        pytest.param([], None, id="nothing"),
    ],
)
def test_a_model_is_found_by_the_names_people_give_it(names: list[str | None], found: str | None) -> None:
    model = find_model(*names)

    assert (model.name if model else None) == found


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        pytest.param({"num_hidden_layers": "32"}, "num_hidden_layers", id="text"),
        pytest.param({"hidden_size": -1}, "hidden_size", id="negative"),
        pytest.param({"num_attention_heads": 0}, "num_attention_heads", id="zero-heads"),
        pytest.param({"num_hidden_layers": 0}, "num_hidden_layers", id="zero-layers"),
        pytest.param({"vocab_size": None}, "vocab_size", id="missing"),
        pytest.param({"intermediate_size": 10**12}, "intermediate_size", id="absurd"),
    ],
)
def test_a_config_that_cannot_be_is_refused_by_its_field(changes: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigError, match=setting):
        shape_from_config({**CONFIGS["llama-3.1-8b"], **changes}, "x")


@given(st.fixed_dictionaries({name: st.sampled_from([0, 1, 32]) for name in CONFIGS["llama-3.1-8b"]}))
def test_a_config_of_odd_numbers_is_refused_or_is_of_a_model_that_computes(config: dict[str, int]) -> None:
    shape = None

    with suppress(ConfigError):
        shape = shape_from_config(config, "x")

    assert shape is None or shape.prefill_operations(1) > 0


def test_a_config_file_is_named_after_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "my-model" / "config.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"text_config": CONFIGS["llama-3.1-8b"]}), encoding="utf-8")

    assert load_model_config(file).name == "my-model"


@pytest.mark.parametrize("text", ["", "[1]", "{", "[" * 100_000], ids=["empty", "list", "open", "deep"])
def test_a_config_file_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text, encoding="utf-8")

    with pytest.raises(ManifestError):
        load_model_config(tmp_path / "config.json")
