"""What is printed for a manifest without a deployment file is one that works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from fakes_manifests import endpoint

from hypertier.errors import ConfigError
from hypertier.spec.deployment import load_deployment


@pytest.mark.parametrize(
    ("spec", "num_nodes", "backend"),
    [
        pytest.param({"replicas": 3}, 3, "redis", id="replicas"),
        pytest.param({"replicas": None}, 1, "redis", id="one"),
        pytest.param(
            {"replicas": 2, "kvCacheSpec": {"l2CacheSpec": {"l2CacheBackend": "tieredstorage"}}},
            2,
            "tieredstorage",
            id="tiered-storage",
        ),
        pytest.param(
            {
                "replicas": None,
                "pdSpec": {"prefillSpec": {"replicas": 2}, "decodingSpec": {"replicas": 3}},
            },
            5,
            "redis",
            id="prefill-apart",
        ),
    ],
)
def test_a_manifest_alone_is_told_a_deployment_file_that_works(
    tmp_path: Path, spec: dict[str, Any], num_nodes: int, backend: str
) -> None:
    manifest = endpoint()
    manifest["spec"] |= spec
    manifest["spec"] = {key: value for key, value in manifest["spec"].items() if value is not None}
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(manifest))

    with pytest.raises(ConfigError) as refused:
        load_deployment(file)
    told = tmp_path / "deployment.yaml"
    told.write_text(str(refused.value).partition("\n\n")[2])

    deployment = load_deployment(told)
    assert [group.count for group in deployment.instance_groups] == [3, num_nodes]
    assert deployment.instance_groups[1].instance_type == manifest["spec"]["instanceType"]
    assert deployment.cache.l2.backend == backend
