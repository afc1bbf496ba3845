"""A LoRA adapter of random weights for the lab's model, and the reference deployment with room for it."""

from __future__ import annotations

import json
import random
import struct
import urllib.request
from array import array
from pathlib import Path

from fakes_lab import write_reference

from hypertier.lab.model import ModelShape

ADAPTER, RANK = "terse", 8
_FLAGS = ("--enable-lora", "--max-lora-rank", f'"{RANK}"')
_LOADS = '      - {name: VLLM_ALLOW_RUNTIME_LORA_UPDATING, value: "True"}\n'
_FIRST = "      - name: PYTHONHASHSEED\n"


def write_with_adapters(folder: Path, *arguments: str) -> Path:
    """Write the reference deployment, its engines with further arguments and room for adapters; its path."""
    file = write_reference(folder, *arguments, *_FLAGS)
    manifest = file.with_name("llama-70b.yaml")
    manifest.write_text(manifest.read_text("utf-8").replace(_FIRST, _LOADS + _FIRST), "utf-8")
    return file


def write_adapter(folder: Path) -> Path:
    """Write the adapter into the folder, as PEFT has it; the folder."""
    shape, header, data = ModelShape(), {}, b""
    sizes = {"q_proj": shape.num_heads * shape.head_dim, "v_proj": shape.num_kv_heads * shape.head_dim}
    rng = random.Random(7)
    for layer in range(shape.num_layers):
        for name, size in sizes.items():
            for half, form in (("A", (RANK, shape.hidden_size)), ("B", (size, RANK))):
                values = array("f", [rng.uniform(-0.1, 0.1) for _ in range(form[0] * form[1])]).tobytes()
                key = f"base_model.model.model.layers.{layer}.self_attn.{name}.lora_{half}.weight"
                header[key] = {
                    "dtype": "F32",
                    "shape": list(form),
                    "data_offsets": [len(data), len(data) + len(values)],
                }
                data += values
    encoded = json.dumps(header).encode()
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(encoded)) + encoded + data)
    config = {"peft_type": "LORA", "r": RANK, "lora_alpha": 16, "target_modules": list(sizes), "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


def load_adapter(url: str, folder: Path) -> None:
    """Have the engine there serve the adapter under its name."""
    body = json.dumps({"lora_name": ADAPTER, "lora_path": str(folder)}).encode()
    asked = urllib.request.Request(f"{url}/v1/load_lora_adapter", body, {"content-type": "application/json"})
    urllib.request.urlopen(asked, timeout=300).close()
