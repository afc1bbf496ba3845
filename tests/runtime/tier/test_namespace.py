"""Engines share blocks exactly when everything that shapes them agrees."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypertier.errors import TierUnavailableError
from hypertier.tier.namespace import (
    SAMPLE_BYTES,
    Namespace,
    facts_digest,
    find_model,
    model_fingerprint,
    weights_fingerprint,
)

FACTS = {"dtype": "bfloat16", "groups": [[16, ["layers.0", "layers.1"]]], "epoch": 0}


def digest(facts: dict[str, object] | None = None, weights: str = "w", root: bytes = b"r") -> bytes:
    return Namespace(facts or FACTS, lambda: weights, lambda: root).digest()


def test_the_same_facts_give_the_same_digest_in_any_order() -> None:
    backwards = dict(reversed(FACTS.items()))

    assert digest() == digest(backwards)
    assert len(digest()) == 16


@pytest.mark.parametrize(
    "other",
    [
        digest({**FACTS, "dtype": "float16"}),
        digest({**FACTS, "epoch": 1}),
        digest({**FACTS, "groups": [[16, ["layers.0"]]]}),
        digest({**FACTS, "more": None}),
        digest(weights="v"),
        digest(root=b"s"),
    ],
    ids=["dtype", "epoch", "layers", "more facts", "weights", "hash seed"],
)
def test_any_other_fact_gives_another_digest(other: bytes) -> None:
    assert other != digest()


def test_weights_are_read_once_and_the_hash_root_only_when_needed() -> None:
    reads: list[str] = []
    roots = iter([TierUnavailableError("not yet"), b"root"])

    def weights() -> str:
        reads.append("weights")
        return "w"

    def root() -> bytes:
        value = next(roots)
        if isinstance(value, Exception):
            raise value
        return value

    namespace = Namespace(FACTS, weights, root)
    namespace.prepare()

    with pytest.raises(TierUnavailableError):
        namespace.digest()
    assert namespace.digest() == namespace.digest()
    assert reads == ["weights"]


def model(directory: Path, config: str = "{}", weights: bytes = b"w" * 100) -> Path:
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(config)
    (directory / "model.safetensors").write_bytes(weights)
    (directory / "README.md").write_text("not part of it")
    return directory


def test_a_copy_of_a_model_has_its_fingerprint(tmp_path: Path) -> None:
    first, second = model(tmp_path / "a"), model(tmp_path / "b")
    (second / "README.md").write_text("something else")

    assert weights_fingerprint(first) == weights_fingerprint(second)


@pytest.mark.parametrize(
    ("config", "weights"),
    [("{ }", b"w" * 100), ("{}", b"w" * 99), ("{}", b"w" * 99 + b"x")],
    ids=["config", "size", "content"],
)
def test_another_model_has_another_fingerprint(tmp_path: Path, config: str, weights: bytes) -> None:
    first, second = model(tmp_path / "a"), model(tmp_path / "b", config, weights)

    assert weights_fingerprint(first) != weights_fingerprint(second)


def test_large_weights_are_sampled_from_beginning_to_end(tmp_path: Path) -> None:
    size = 40 * SAMPLE_BYTES
    plain = model(tmp_path / "a", weights=bytes(size))
    at_the_end = model(tmp_path / "b", weights=bytes(size - 1) + b"x")
    retrained = model(tmp_path / "c", weights=b"\1" * size)

    assert len({weights_fingerprint(directory) for directory in (plain, at_the_end, retrained)}) == 3


def hub(tmp_path: Path) -> dict[str, str]:
    repository = tmp_path / "hub" / "models--org--name"
    blob = repository / "blobs" / ("ab" * 32)
    blob.parent.mkdir(parents=True)
    blob.write_bytes(b"weights")
    for commit in ("c1", "c2"):
        snapshot = repository / "snapshots" / commit
        snapshot.mkdir(parents=True)
        (snapshot / "model.safetensors").symlink_to(blob)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("c1")
    return {"HF_HUB_CACHE": str(tmp_path / "hub")}


def test_a_model_of_the_hub_is_found_in_its_cache(tmp_path: Path) -> None:
    environ = hub(tmp_path)
    snapshots = tmp_path / "hub" / "models--org--name" / "snapshots"

    assert find_model("org/name", "", environ) == snapshots / "c1"
    assert find_model("org/name", "c2", environ) == snapshots / "c2"
    assert find_model("org/name", "c3", environ) is None
    assert find_model("org/other", "", environ) is None


def test_a_file_of_the_hubs_cache_is_known_by_its_name(tmp_path: Path) -> None:
    environ = hub(tmp_path)
    before = model_fingerprint("org/name", "", environ)
    blob = tmp_path / "hub" / "models--org--name" / "blobs" / ("ab" * 32)
    blob.write_bytes(b"WEIGHTS")

    assert model_fingerprint("org/name", "", environ) == before


def test_a_model_that_cannot_be_found_is_known_by_name_and_revision(tmp_path: Path) -> None:
    fingerprint = model_fingerprint("org/absent", "v2", {"HF_HUB_CACHE": str(tmp_path)})

    assert fingerprint == "org/absent@v2"


def test_a_directory_without_weights_is_known_by_name_and_revision(tmp_path: Path) -> None:
    """As that of an engine which streams its weights from elsewhere."""
    for name in ("a", "b"):
        model(tmp_path / name)
        (tmp_path / name / "model.safetensors").unlink()

    fingerprints = {model_fingerprint(str(tmp_path / name), "", {}) for name in ("a", "b")}

    assert fingerprints == {f"{tmp_path / 'a'}@", f"{tmp_path / 'b'}@"}


def test_a_model_that_is_one_file_is_known_by_what_is_in_it(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    fingerprints = []
    for weights in (b"old", b"new", b"old"):
        file.write_bytes(weights)
        fingerprints.append(model_fingerprint(str(file), "", {}))

    assert fingerprints[0] == fingerprints[2] != fingerprints[1]


def test_digests_do_not_depend_on_the_process() -> None:
    assert facts_digest({"a": 1, "b": [2, "x"]}).hex() == "454597f51f0e5988dd7d0864f82e826d"
