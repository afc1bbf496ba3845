"""Shapes of models: what decides their weights, their KV cache and the work of a prefill.

Source: each model's published `config.json`; parameter counts from its model card.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

BFLOAT16_BYTES = 2


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What decides a model's memory and speed; amounts are elements, not bytes, where a dtype decides.

    `kv_elements_per_token` is what every further token adds over all layers that keep the whole context. A
    layer with a sliding window adds `window_elements_per_token` for the last `window_tokens` alone. A
    linear-attention or state-space layer keeps `state_elements` a sequence, however long. `attention_width`
    is query heads times head dimension (of keys and values on average) over the layers that attend to the
    whole context: it scales the part of a prefill that grows with the square of the prompt.
    """

    name: str
    num_parameters: int
    num_layers: int
    kv_elements_per_token: int
    num_active_parameters: int = 0
    attention_width: int = 0
    num_kv_heads: int = 0
    window_elements_per_token: int = 0
    window_tokens: int = 0
    state_elements: int = 0
    weight_bytes_per_parameter: float = BFLOAT16_BYTES

    @property
    def active_parameters(self) -> int:
        """Parameters that one token passes through: all, but for a mixture of experts."""
        return self.num_active_parameters or self.num_parameters

    @property
    def has_latent_kv(self) -> bool:
        """Whether KV is one latent for all heads (MLA), of which every tensor-parallel rank keeps a copy."""
        return self.num_kv_heads == 0

    def kv_bytes_per_token(self, bytes_per_element: int = BFLOAT16_BYTES) -> int:
        """Bytes of KV cache that one more token adds, over all layers, one copy."""
        return self.kv_elements_per_token * bytes_per_element

    def kv_bytes(self, num_tokens: int, bytes_per_element: int = BFLOAT16_BYTES) -> int:
        """Bytes of one sequence of `num_tokens`: what grows, the window, and the fixed state."""
        windowed = min(num_tokens, self.window_tokens) * self.window_elements_per_token
        elements = num_tokens * self.kv_elements_per_token + windowed + self.state_elements
        return elements * bytes_per_element

    def kv_copies(self, tensor_parallel_size: int) -> float:
        """How often tensor parallelism keeps each KV byte: 1 unless there are more ranks than KV heads."""
        if self.has_latent_kv:
            return float(tensor_parallel_size)
        return max(tensor_parallel_size / self.num_kv_heads, 1.0)

    def weights_bytes(self, bytes_per_parameter: float | None = None) -> int:
        """Bytes of the weights, in the type they are published in unless another is given."""
        return int(self.num_parameters * (bytes_per_parameter or self.weight_bytes_per_parameter))

    def prefill_operations(self, num_tokens: int) -> float:
        """Operations of a prefill: 2 for each parameter and token, and 2 * width * n^2 of attention."""
        return 2.0 * self.active_parameters * num_tokens + 2.0 * self.attention_width * num_tokens**2


def _gqa(
    name: str,
    billions: float,
    layers: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    *,
    active_billions: float = 0,
    weight_bytes: float = BFLOAT16_BYTES,
) -> ModelShape:
    return ModelShape(
        name,
        round(billions * 1e9),
        layers,
        2 * layers * kv_heads * head_dim,
        round(active_billions * 1e9),
        layers * heads * head_dim,
        kv_heads,
        weight_bytes_per_parameter=weight_bytes,
    )


def _mla(
    name: str, billions: float, active_billions: float, layers: int, heads: int, *, weight_bytes: float
) -> ModelShape:
    kv_lora_rank, rope_head_dim, key_dim, value_dim = 512, 64, 192, 128
    return ModelShape(
        name,
        round(billions * 1e9),
        layers,
        layers * (kv_lora_rank + rope_head_dim),
        round(active_billions * 1e9),
        layers * heads * (key_dim + value_dim) // 2,
        weight_bytes_per_parameter=weight_bytes,
    )


# Every fourth layer attends; the others keep a gated delta state of value heads * key dim * value dim, and
# the last three inputs of a convolution over keys, queries and values.
_QWEN3_NEXT = ModelShape(
    name="qwen3-next-80b-a3b",
    num_parameters=80_000_000_000,
    num_layers=48,
    kv_elements_per_token=2 * 12 * 2 * 256,
    num_active_parameters=3_000_000_000,
    attention_width=12 * 16 * 256,
    num_kv_heads=2,
    state_elements=36 * (32 * 128 * 128 + 3 * (2 * 16 * 128 + 32 * 128)),
)

# Alternate layers see the last 128 tokens only; weights are published in MXFP4, 4.25 bits for most of them.
_GPT_OSS_120B = ModelShape(
    name="gpt-oss-120b",
    num_parameters=117_000_000_000,
    num_layers=36,
    kv_elements_per_token=2 * 18 * 8 * 64,
    num_active_parameters=5_100_000_000,
    attention_width=18 * 64 * 64,
    num_kv_heads=8,
    window_elements_per_token=2 * 18 * 8 * 64,
    window_tokens=128,
    weight_bytes_per_parameter=0.56,
)

MODELS = (
    _gqa("llama-3.1-8b", 8.03, 32, 32, 8, 128),
    _gqa("llama-3.1-70b", 70.6, 80, 64, 8, 128),
    _gqa("llama-3.3-70b", 70.6, 80, 64, 8, 128),
    _gqa("llama-3.1-405b", 405.9, 126, 128, 8, 128),
    _gqa("qwen3-32b", 32.8, 64, 64, 8, 128),
    _gqa("qwen3-8b", 8.19, 36, 32, 8, 128),
    _gqa("qwen3-30b-a3b", 30.5, 48, 32, 4, 128, active_billions=3.3),
    _gqa("qwen3-235b-a22b", 235.0, 94, 64, 4, 128, active_billions=22.0),
    _gqa("qwen2-7b", 7.62, 28, 28, 4, 128),
    _gqa("qwen2.5-7b", 7.62, 28, 28, 4, 128),
    _gqa("qwen2.5-14b", 14.8, 48, 40, 8, 128),
    _gqa("qwen2.5-32b", 32.8, 64, 40, 8, 128),
    _gqa("qwen2.5-72b", 72.7, 80, 64, 8, 128),
    _gqa("r1-distill-qwen-1.5b", 1.78, 28, 12, 2, 128),
    _gqa("r1-distill-qwen-7b", 7.62, 28, 28, 4, 128),
    _gqa("r1-distill-qwen-14b", 14.8, 48, 40, 8, 128),
    _gqa("r1-distill-qwen-32b", 32.8, 64, 40, 8, 128),
    _gqa("mistral-7b-instruct-v0.3", 7.25, 32, 32, 8, 128),
    _gqa("mixtral-8x7b", 46.7, 32, 32, 8, 128, active_billions=12.9),
    _gqa("tinyllama-1.1b", 1.1, 22, 32, 4, 64),
    _mla("deepseek-v3", 671.0, 37.0, 61, 128, weight_bytes=1),
    _mla("deepseek-r1", 671.0, 37.0, 61, 128, weight_bytes=1),
    _QWEN3_NEXT,
    _GPT_OSS_120B,
)


def find_model(*names: str | None) -> ModelShape | None:
    """The shape of the first name that is, or contains, a model of the table.

    `meta-llama/Llama-3.1-70B-Instruct`, `Llama-3-1-70b` and `s3://…/llama-3.1-70b/` all mean Llama 3.1 70B. A
    distillation (`DeepSeek-R1-Distill-Llama-8B`) has the shape of the model that it was distilled into.
    """
    return next((model for name in names if name and (model := _find(name)) is not None), None)


@cache
def _find(name: str) -> ModelShape | None:
    words = _normal(name)
    found = [model for model in MODELS if _contains(words, _normal(model.name))]
    return max(found, key=lambda model: words.rfind(_normal(model.name)), default=None)


def _contains(words: str, name: str) -> bool:
    match = re.search(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])", words)
    return match is not None and not words[match.end() :].startswith("-distill")


@cache
def _normal(name: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", name.lower().replace("meta-llama-", "llama-"))
    return re.sub(r"-distill-llama-(8b|70b)", r"-distill-llama-3-1-\1", words)
