"""Shapes of models whose KV cache can be computed from a table.

Source: each model's `config.json`, read 2026-12-01. KV bytes per token are 2 * layers * KV heads * head
dimension * bytes per element for GQA and MHA; for MLA layers * (kv_lora_rank + qk_rope_head_dim) * bytes
(https://arxiv.org/abs/2412.19437).
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What decides a model's memory: parameters, and the KV cache of one token in elements."""

    name: str
    num_parameters: int
    num_layers: int
    kv_elements_per_token: int

    def kv_bytes_per_token(self, bytes_per_element: int = 2) -> int:
        """Bytes of KV cache of one token over all layers and tensor-parallel ranks."""
        return self.kv_elements_per_token * bytes_per_element


def _gqa(name: str, billions: float, layers: int, kv_heads: int, head_dim: int) -> ModelShape:
    return ModelShape(name, int(billions * 1e9), layers, 2 * layers * kv_heads * head_dim)


def _mla(name: str, billions: float, layers: int, kv_lora_rank: int, rope_head_dim: int) -> ModelShape:
    return ModelShape(name, int(billions * 1e9), layers, layers * (kv_lora_rank + rope_head_dim))


MODELS = (
    _gqa("llama-3.1-8b", 8.03, 32, 8, 128),
    _gqa("llama-3.1-70b", 70.6, 80, 8, 128),
    _gqa("llama-3.3-70b", 70.6, 80, 8, 128),
    _gqa("llama-3.1-405b", 405.9, 126, 8, 128),
    _gqa("qwen3-32b", 32.8, 64, 8, 128),
    _gqa("qwen3-8b", 8.19, 36, 8, 128),
    _gqa("tinyllama-1.1b", 1.1, 22, 4, 64),
    _mla("deepseek-v3", 671.0, 61, 512, 64),
    _mla("deepseek-r1", 671.0, 61, 512, 64),
)


def find_model(*names: str | None) -> ModelShape | None:
    """The shape of the first name that is, or contains, a model of the table.

    `meta-llama/Llama-3.1-70B-Instruct`, `Llama-3-1-70b` and `s3://…/llama-3.1-70b/` all mean Llama 3.1 70B.
    """
    for name in names:
        if not name:
            continue
        words = _normal(name)
        for model in MODELS:
            if re.search(rf"(?<![a-z0-9]){re.escape(_normal(model.name))}(?![a-z0-9])", words):
                return model
    return None


def _normal(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower().replace("meta-llama-", "llama-"))
