"""What must agree for one engine to use another's keys and values: a digest of all of it.

vLLM's block hash covers the tokens, the adapter's name, multi-modal inputs and the tenant's salt, but not the
model, its weights, their layout, or the engine. Those are digested here, and part of every key and header.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hypertier.tier.block_hashes import algorithm_of

DIGEST_BYTES = 16
NUM_SAMPLES = 16
SAMPLE_BYTES = 64 * 1024
_SHA256_NAME = re.compile(r"[0-9a-f]{64}")


class Namespace:
    """The digest of one engine's facts, found out step by step, by any thread.

    `weights` reads the fingerprint of the weights, which may take a while; `hash_root` tells where the chain
    of block hashes begins, which vLLM knows only once it serves; `key_id` tells keys of encryption apart, and
    may have to ask AWS for the key. `labels` are described, not digested, and so
    is the algorithm of block hashes, which `hash_seed`, vLLM's `PYTHONHASHSEED`, gives away.
    """

    def __init__(
        self,
        facts: Mapping[str, Any],
        weights: Callable[[], str],
        hash_root: Callable[[], bytes],
        labels: Mapping[str, Any] | None = None,
        hash_seed: str | None = None,
        key_id: Callable[[], str] = lambda: "",
    ) -> None:
        self._key_id = key_id
        self._hash_seed = hash_seed
        self._labels = dict(labels or {})
        self._facts = dict(facts)
        self._weights = weights
        self._hash_root = hash_root
        self._lock = threading.Lock()
        self._fingerprint: str | None = None
        self._digest: bytes | None = None

    def prepare(self) -> None:
        """Do the slow part, once: read the weights' fingerprint, and have the key of encryption fetched."""
        with self._lock:
            if self._fingerprint is None:
                self._fingerprint = self._weights()
        self._key_id()

    def digest(self) -> bytes:
        """Return `DIGEST_BYTES` bytes, the same in every process with the same facts."""
        if self._digest is None:
            self._digest = facts_digest(self._all_facts())
        return self._digest

    def describe(self) -> bytes:
        """Return what was digested, and the labels, as JSON, for people to read."""
        algorithm = {"hash_algorithm": algorithm_of(self._hash_root(), self._hash_seed)}
        return json.dumps(self._labels | algorithm | self._all_facts(), sort_keys=True).encode()

    def _all_facts(self) -> dict[str, Any]:
        self.prepare()
        found = {"weights": self._fingerprint, "hash_root": self._hash_root().hex(), "key": self._key_id()}
        return self._facts | found


def facts_digest(facts: Mapping[str, Any]) -> bytes:
    """Digest facts made of numbers, texts, lists and mappings; their order does not matter."""
    canonical = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).digest()[:DIGEST_BYTES]


def model_fingerprint(name: str, revision: str, environ: Mapping[str, str]) -> str:
    """Tell models apart by their files, or, where these cannot be found, by name and revision."""
    found = find_model(name, revision, environ)
    return f"{name}@{revision}" if found is None else weights_fingerprint(found)


def find_model(name: str, revision: str, environ: Mapping[str, str]) -> Path | None:
    """Find a model with weights: a directory, a file, or a repository in the cache of Hugging Face's hub.

    The cache's layout: https://huggingface.co/docs/huggingface_hub/guides/manage-cache (read 2026-12-01).
    """
    found = Path(name) if Path(name).exists() else find_snapshot(name, revision, environ)
    if found is None or (found.is_dir() and not any(is_weights(path.name) for path in found.iterdir())):
        return None
    return found


def find_snapshot(name: str, revision: str, environ: Mapping[str, str]) -> Path | None:
    """Find a revision of a repository in the hub's cache."""
    home = environ.get("HF_HOME") or str(Path(environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    cache = Path(environ.get("HF_HUB_CACHE") or str(Path(home) / "hub")).expanduser()
    repository = cache / f"models--{name.replace('/', '--')}"
    reference = repository / "refs" / (revision or "main")
    commit = reference.read_text().strip() if reference.is_file() else revision
    snapshot = repository / "snapshots" / commit
    return snapshot if commit and snapshot.is_dir() else None


def weights_fingerprint(model: Path) -> str:
    """Digest the configuration and the weights of a model, without reading all of them.

    A file in the hub's cache is named by its SHA-256. Of other weights, the header and `NUM_SAMPLES` evenly
    spread samples are read: another training run changes them all, a change of a few numbers may go unseen
    and asks for another `epoch`.
    """
    digest = hashlib.sha256()
    files = [path for path in model.iterdir() if is_part_of_model(path.name)] if model.is_dir() else [model]
    for path in sorted(files):
        digest.update(f"\0{path.name}\0{path.stat().st_size}\0".encode())
        blob = path.resolve().name
        if path.is_symlink() and _SHA256_NAME.fullmatch(blob):
            digest.update(blob.encode())
            continue
        for sample in samples(path):
            digest.update(sample)
    return digest.hexdigest()


def is_part_of_model(name: str) -> bool:
    """Whether a file of this name decides what keys and values the model computes."""
    return name == "config.json" or name.endswith(".safetensors.index.json") or is_weights(name)


def is_weights(name: str) -> bool:
    """Whether a file of this name holds weights."""
    return name.endswith((".safetensors", ".bin", ".gguf", ".pt", ".pth", ".tensors"))


def samples(path: Path) -> Iterator[bytes]:
    """Yield the beginning of a file, its end, and samples in between; a small file is yielded whole."""
    size = path.stat().st_size
    last = max(0, size - SAMPLE_BYTES)
    with path.open("rb") as file:
        for offset in sorted({last * i // (NUM_SAMPLES - 1) for i in range(NUM_SAMPLES)}):
            file.seek(offset, os.SEEK_SET)
            yield file.read(SAMPLE_BYTES)
