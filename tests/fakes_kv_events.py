"""KV events that a real engine published."""

from __future__ import annotations

import json
from pathlib import Path

# vLLM 0.32 on CPUs with L1, blocks of 32 tokens: the prompts are tokens 10 to 109; 10 to 73 and 150 to 219;
# 10 to 73 under a salt; then /reset_prefix_cache; 10 to 49; and longer ones until the GPU is full
BATCHES = [
    bytes.fromhex(text)
    for text in json.loads(Path(__file__).with_name("kv_events.json").read_text(encoding="utf-8"))["batches"]
]
