"""Record how a vLLM names blocks: run it in an environment with that vLLM, and keep what it prints.

PYTHONHASHSEED=0 python record_hashes.py > hashes-0.32.0.json
"""

from __future__ import annotations

import json
from types import SimpleNamespace

from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core import kv_cache_utils

TOKENS = [1, 23, 24, 255, 256, 65_535, 65_536, 128_255, 7, 8, 9, 10, 11, 12, 13, 14]
ADAPTER = SimpleNamespace(lora_name="legal", lora_path="/adapters/legal")
CASES = {
    "plain": (None, None),
    "salted": ("acme.Zm9v é", None),
    "adapter": (None, ADAPTER),
    "both": ("s", ADAPTER),
}


def hashes(algorithm: str, salt: str | None, adapter: SimpleNamespace | None) -> list[str]:
    """The names of two blocks of eight tokens."""
    request = SimpleNamespace(mm_features=[], prompt_embeds=None, cache_salt=salt, lora_request=adapter)
    parent, found = None, []
    for start in (0, 8):
        extra, _ = kv_cache_utils.generate_block_hash_extra_keys(request, start, start + 8, 0)
        tokens = TOKENS[start : start + 8]
        parent = kv_cache_utils.hash_block_tokens(get_hash_fn_by_name(algorithm), parent, tokens, extra)
        found.append(bytes(parent).hex())
    return found


recorded = {}
for name in ("sha256", "sha256_cbor", "xxhash", "xxhash_cbor"):
    kv_cache_utils.init_none_hash(get_hash_fn_by_name(name))
    recorded[name] = {case: hashes(name, *keys) for case, keys in CASES.items()}
    recorded[name]["root"] = bytes(kv_cache_utils.NONE_HASH).hex()
print(json.dumps(recorded, indent=1, sort_keys=True))
