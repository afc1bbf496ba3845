"""A small Llama made on the spot: random weights from a seed, a tokenizer of bytes, a chat template.

Nothing is downloaded and nothing but the standard library is needed. Same seed, same bytes, everywhere.
A token is a byte, so a prompt's length in tokens can be read off its text. The model says nothing
sensible, but what it says depends on the whole prompt: keys and values of another prompt give another answer.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NUM_BYTES = 256
SPECIAL_TOKENS = ("<|begin|>", "<|end|>", "<|turn|>", "<|pad|>")
BEGIN_ID, END_ID, TURN_ID, PAD_ID = range(NUM_BYTES, NUM_BYTES + len(SPECIAL_TOKENS))
CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% if tools %}<|turn|>tools\n{{ tools | tojson }}{% endif %}"
    "{% for document in documents or [] %}<|turn|>document\n{{ document['text'] }}{% endfor %}"
    "{% for message in messages %}<|turn|>{{ message['role'] }}\n{{ message['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|turn|>assistant\n{% endif %}"
)


@dataclass(frozen=True)
class ModelShape:
    """The sizes of the Llama; with the defaults, 4 KiB of keys and values per token."""

    hidden_size: int = 256
    num_layers: int = 4
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 64
    intermediate_size: int = 768
    vocab_size: int = 512
    max_position_embeddings: int = 131_072

    @property
    def kv_bytes_per_token(self) -> int:
        """Keys and values of one token in all layers, in float32."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * 4


def build_model(directory: Path, seed: int = 0, shape: ModelShape | None = None) -> Path:
    """Write config, weights and tokenizer into `directory`, over those of an earlier run, and return it.

    The weights are written last, under their final name only when they are whole.
    """
    shape = shape or ModelShape()
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in (
        ("config.json", model_config(shape)),
        (
            "generation_config.json",
            {"bos_token_id": BEGIN_ID, "eos_token_id": END_ID, "pad_token_id": PAD_ID},
        ),
        ("tokenizer.json", tokenizer()),
        ("tokenizer_config.json", tokenizer_config(shape)),
    ):
        (directory / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    part = directory / f".model.safetensors.{os.getpid()}"
    write_safetensors(part, shape, random.Random(seed))
    part.replace(directory / "model.safetensors")
    return directory


def model_config(shape: ModelShape) -> dict[str, object]:
    """The `config.json` of the model, as transformers reads it."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "num_hidden_layers": shape.num_layers,
        "num_attention_heads": shape.num_heads,
        "num_key_value_heads": shape.num_kv_heads,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocab_size,
        "max_position_embeddings": shape.max_position_embeddings,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000.0,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": BEGIN_ID,
        "eos_token_id": END_ID,
        "pad_token_id": PAD_ID,
        "torch_dtype": "float32",
    }


def byte_alphabet() -> list[str]:
    """One printable character per byte, in the order of the bytes: what `tokenizers` calls ByteLevel."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(NUM_BYTES, 2 * NUM_BYTES))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(NUM_BYTES)]


def tokenizer() -> dict[str, object]:
    """The `tokenizer.json`: token id n is the byte n; the special tokens follow."""
    vocab = {character: byte for byte, character in enumerate(byte_alphabet())}
    special = [
        {"id": NUM_BYTES + i, "content": token, "special": True, "normalized": False}
        | {"single_word": False, "lstrip": False, "rstrip": False}
        for i, token in enumerate(SPECIAL_TOKENS)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": vocab,
            "merges": [],
        },
    }


def tokenizer_config(shape: ModelShape) -> dict[str, object]:
    """The `tokenizer_config.json`, with the chat template."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIAL_TOKENS[0],
        "eos_token": SPECIAL_TOKENS[1],
        "pad_token": SPECIAL_TOKENS[3],
        "model_max_length": shape.max_position_embeddings,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }


def tensors(shape: ModelShape) -> Iterator[tuple[str, tuple[int, ...], float]]:
    """Yield every tensor's name, its shape, and the standard deviation of its values; 0.0 means all ones."""
    hidden, inter = shape.hidden_size, shape.intermediate_size
    q_size, kv_size = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    unit = 1 / math.sqrt(hidden)
    sharp = 1.5 * unit  # queries and keys: attention picks tokens out, so the answer depends on each of them
    yield "model.embed_tokens.weight", (shape.vocab_size, hidden), 1.0
    for layer in range(shape.num_layers):
        prefix = f"model.layers.{layer}"
        yield f"{prefix}.input_layernorm.weight", (hidden,), 0.0
        yield f"{prefix}.self_attn.q_proj.weight", (q_size, hidden), sharp
        yield f"{prefix}.self_attn.k_proj.weight", (kv_size, hidden), sharp
        yield f"{prefix}.self_attn.v_proj.weight", (kv_size, hidden), unit
        yield f"{prefix}.self_attn.o_proj.weight", (hidden, q_size), unit
        yield f"{prefix}.post_attention_layernorm.weight", (hidden,), 0.0
        yield f"{prefix}.mlp.gate_proj.weight", (inter, hidden), unit
        yield f"{prefix}.mlp.up_proj.weight", (inter, hidden), unit
        yield f"{prefix}.mlp.down_proj.weight", (hidden, inter), 1 / math.sqrt(inter)
    yield "model.norm.weight", (hidden,), 0.0
    yield "lm_head.weight", (shape.vocab_size, hidden), unit


def tensor_values(name: str, size: tuple[int, ...], deviation: float, rng: random.Random) -> array[float]:
    """Return a tensor's values: ones, or uniform ones of the given standard deviation.

    The last layer is zero for all but printable ASCII, so greedy answers are text and never end early.
    """
    count = math.prod(size)
    if deviation == 0.0:
        return array("f", [1.0]) * count
    raw = array("H")
    raw.frombytes(rng.randbytes(2 * count))
    scale = 2 * math.sqrt(3) * deviation / 65_535
    values = array("f", [(number - 32_767.5) * scale for number in raw])
    if name == "lm_head.weight":
        nothing = array("f", [0.0]) * size[1]
        for token in range(size[0]):
            if not 0x20 <= token < 0x7F:
                values[token * size[1] : (token + 1) * size[1]] = nothing
    return values


def write_safetensors(path: Path, shape: ModelShape, rng: random.Random) -> None:
    """Write all tensors as float32, little endian.

    The format: https://huggingface.co/docs/safetensors (read 2026-12-01).
    """
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, size, _ in tensors(shape):
        end = offset + 4 * math.prod(size)
        header[name] = {"dtype": "F32", "shape": list(size), "data_offsets": [offset, end]}
        offset = end
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-len(encoded) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(encoded)) + encoded)
        for name, size, deviation in tensors(shape):
            tensor_values(name, size, deviation, rng).tofile(file)


def main(arguments: list[str] | None = None) -> None:
    """Build the model in the directory named on the command line and print its path."""
    parser = argparse.ArgumentParser(prog="python -m hypertier.lab.model", description=__doc__)
    parser.add_argument("directory", type=Path, help="where the model's files go")
    parser.add_argument("--seed", type=int, default=0, help="another seed makes another model (default 0)")
    options = parser.parse_args(arguments)
    print(build_model(options.directory, options.seed))


if __name__ == "__main__":
    main()
