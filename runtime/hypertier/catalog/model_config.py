"""A model's shape from its own `config.json`, for models that the table does not have.

Reads the fields that Hugging Face's configurations share
(https://huggingface.co/docs/transformers/main_classes/ configuration) and those of multi-head latent
attention, mixtures of experts, sliding windows and gated delta layers. Parameters are counted from the
shapes of the matrices; norms and biases, below 0.1 %, are left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypertier.catalog.models import ModelShape
from hypertier.errors import ConfigError, ManifestError

MAX_BYTES = 1024 * 1024
MAX_FIELD = 10**7


def load_model_config(path: Path | str) -> ModelShape:
    """The shape of the model whose `config.json` stands at `path`; its name is the folder's.

    Raises:
        ManifestError: the file can't be read or is no JSON mapping.
        ConfigError: a field is missing or no whole number.
    """
    file = Path(path)
    try:
        with file.open(encoding="utf-8") as opened:
            text = opened.read(MAX_BYTES + 1)
        config = json.loads(text) if len(text) <= MAX_BYTES else None
    except OSError as error:
        raise ManifestError(str(file), None, f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ManifestError(str(file), 1, f"is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise ManifestError(str(file), 1, "holds no mapping; expected a model's config.json")
    return shape_from_config(config, file.resolve().parent.name)


def shape_from_config(config: Mapping[str, Any], name: str) -> ModelShape:
    """The shape that a `config.json` describes.

    Raises:
        ConfigError: a field is missing or no whole number.
    """
    text = config.get("text_config")
    fields = _Fields(text if isinstance(text, Mapping) else config)
    layers = fields.whole("num_hidden_layers", least=1)
    full, windowed, linear = _layer_kinds(fields, layers)
    embedding = fields.whole("vocab_size", least=1) * fields.whole("hidden_size", least=1)
    tied = fields.config.get("tie_word_embeddings") is True
    always, routed, chosen = _feed_forward(fields, layers)
    total = embedding * (1 if tied else 2) + _attention_parameters(fields, full + windowed)
    total += _linear_parameters(fields, linear) + always + routed
    active = total - routed + chosen
    per_layer, kv_heads, width = _kv_per_layer(fields)
    return ModelShape(
        name=name,
        num_parameters=total,
        num_layers=layers,
        kv_elements_per_token=full * per_layer,
        num_active_parameters=active if routed else 0,
        attention_width=full * width,
        num_kv_heads=kv_heads,
        window_elements_per_token=windowed * per_layer,
        window_tokens=fields.whole("sliding_window", 0) if windowed else 0,
        state_elements=linear * _state_elements(fields) if linear else 0,
        weight_bytes_per_parameter=_weight_bytes(fields),
    )


class _Fields:
    """A config's whole numbers, each checked as it is read."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config

    def whole(self, name: str, default: int | None = None, least: int = 0) -> int:
        value = self.config.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MAX_FIELD:
            raise ConfigError(f"config.json: {name}", value, f"a whole number of {least} to {MAX_FIELD}")
        return value

    def head_dim(self) -> int:
        heads = self.whole("num_attention_heads", least=1)
        return self.whole("head_dim", self.whole("hidden_size") // heads)


def _layer_kinds(fields: _Fields, layers: int) -> tuple[int, int, int]:
    """Layers that see the whole context, a window of it, and none of it but a state."""
    kinds = fields.config.get("layer_types")
    if isinstance(kinds, list) and len(kinds) == layers:
        windowed = sum(kind == "sliding_attention" for kind in kinds)
        full = sum(kind == "full_attention" for kind in kinds)
        return full, windowed, layers - full - windowed
    interval = fields.whole("full_attention_interval", 0)
    if interval:
        return layers // interval, 0, layers - layers // interval
    return layers, 0, 0


def _kv_per_layer(fields: _Fields) -> tuple[int, int, int]:
    """KV elements of a token and layer, KV heads (0 for a latent), query heads times head dimension."""
    heads = fields.whole("num_attention_heads")
    rank = fields.whole("kv_lora_rank", 0)
    if rank:
        rope, nope = fields.whole("qk_rope_head_dim"), fields.whole("qk_nope_head_dim")
        return rank + rope, 0, heads * (nope + rope + fields.whole("v_head_dim")) // 2
    kv_heads = fields.whole("num_key_value_heads", heads)
    return 2 * kv_heads * fields.head_dim(), max(kv_heads, 1), heads * fields.head_dim()


def _attention_parameters(fields: _Fields, layers: int) -> int:
    hidden, heads = fields.whole("hidden_size"), fields.whole("num_attention_heads")
    rank = fields.whole("kv_lora_rank", 0)
    if rank:
        rope, nope = fields.whole("qk_rope_head_dim"), fields.whole("qk_nope_head_dim")
        value, query_rank = fields.whole("v_head_dim"), fields.whole("q_lora_rank", 0)
        query = (
            (hidden + heads * (nope + rope)) * query_rank if query_rank else hidden * heads * (nope + rope)
        )
        latent = hidden * (rank + rope) + rank * heads * (nope + value)
        return layers * (query + latent + heads * value * hidden)
    kv_heads = fields.whole("num_key_value_heads", heads)
    return layers * hidden * fields.head_dim() * 2 * (heads + kv_heads)


def _linear_parameters(fields: _Fields, layers: int) -> int:
    if not layers or "linear_num_value_heads" not in fields.config:
        return 0
    keys, values = _delta_widths(fields)
    return layers * fields.whole("hidden_size") * (2 * keys + 3 * values)


def _delta_widths(fields: _Fields) -> tuple[int, int]:
    keys = fields.whole("linear_num_key_heads", 0) * fields.whole("linear_key_head_dim", 0)
    return keys, fields.whole("linear_num_value_heads", 0) * fields.whole("linear_value_head_dim", 0)


def _state_elements(fields: _Fields) -> int:
    """State of one gated delta layer, or of one Mamba layer, for one sequence."""
    keys, values = _delta_widths(fields)
    if values:
        taps = max(fields.whole("linear_conv_kernel_dim", 1) - 1, 0)
        return values * fields.whole("linear_key_head_dim", 0) + taps * (2 * keys + values)
    inner = fields.whole("mamba_expand", 2) * fields.whole("hidden_size")
    return inner * (fields.whole("mamba_d_state", 16) + fields.whole("mamba_d_conv", 4) - 1)


def _feed_forward(fields: _Fields, layers: int) -> tuple[int, int, int]:
    """Parameters that every token passes, those of all routed experts, and of the experts that one token
    takes.
    """
    hidden = fields.whole("hidden_size")
    experts = max(fields.whole(name, 0) for name in ("num_experts", "n_routed_experts", "num_local_experts"))
    dense = 3 * hidden * fields.whole("intermediate_size")
    if not experts:
        return layers * dense, 0, 0
    expert = 3 * hidden * fields.whole("moe_intermediate_size", fields.whole("intermediate_size"))
    first_dense = min(fields.whole("first_k_dense_replace", 0), layers)
    mixed = layers - first_dense
    shared_width = fields.whole("shared_expert_intermediate_size", 0)
    shared = fields.whole("n_shared_experts", 0) * expert + 3 * hidden * shared_width + hidden * experts
    always = first_dense * dense + mixed * shared
    return always, mixed * experts * expert, mixed * fields.whole("num_experts_per_tok", 1) * expert


def _weight_bytes(fields: _Fields) -> float:
    quantization = fields.config.get("quantization_config")
    method = str(quantization.get("quant_method", "")) if isinstance(quantization, Mapping) else ""
    if method == "fp8":
        return 1.0
    if method in ("awq", "gptq", "mxfp4"):
        return 0.56  # 4 bits and their scales
    kind = fields.config.get("torch_dtype") or fields.config.get("dtype")
    return 4.0 if kind == "float32" else 2.0
