"""The deployment file: defaults, refusals, and the manifests it brings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from fakes_manifests import REMOVED, changed, deployment, endpoint

from hypertier.errors import ConfigError, HypertierError, ManifestError
from hypertier.spec.deployment import Deployment, load_deployment
from hypertier.spec.lifecycle import LifecycleScript
from hypertier.spec.lint import lint_files

ROOT = Path(__file__).parents[3]
SECRET = "arn:aws:secretsmanager:us-west-2:123456789012:secret:store-a1b2c3"
STORE = {"url": "rediss://store.internal:6379", "secretArn": SECRET}


def load(folder: Path, data: Any, manifest: Any = None) -> Deployment:
    (folder / "endpoint.yaml").write_text(yaml.safe_dump(manifest or endpoint()), encoding="utf-8")
    file = folder / "deployment.yaml"
    file.write_text(data if isinstance(data, str) else yaml.safe_dump(data), encoding="utf-8")
    return load_deployment(file)


def tenants(*entries: dict[str, str]) -> dict[str, Any]:
    return {"cache": {"l2": {"tenants": list(entries)}}}


def test_the_reference_loads() -> None:
    loaded = load_deployment(ROOT / "examples" / "reference" / "deployment.yaml")

    assert loaded.name == "reference"
    assert [endpoint.name for endpoint in loaded.endpoints] == ["llama-70b"]
    assert loaded.cache.l1.size_bytes == 800 * 2**30
    assert loaded.cache.l2.bandwidth_bytes_per_second == 8 * 10**9


def test_every_key_but_endpoints_has_a_default(tmp_path: Path) -> None:
    bare = {"apiVersion": "hypertier.dev/v1", "kind": "Deployment", "endpoints": ["endpoint.yaml"]}

    loaded = load(tmp_path, bare)

    assert (loaded.region, loaded.serving, loaded.cache.l2.ttl_seconds) == ("us-west-2", "selfhosted", 86400)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        pytest.param({"endpoints": []}, "endpoints", id="no-endpoint"),
        pytest.param({"endpoints": REMOVED}, "endpoints", id="endpoints-missing"),
        pytest.param({"servnig": "operator"}, "servnig", id="unknown-key"),
        pytest.param({"cache": {"l2": {"bandwith": "8GB/s"}}}, "cache.l2.bandwith", id="unknown-key-deep"),
        pytest.param({"instanceGroups.0.cuont": 3}, "instanceGroups[0].cuont", id="unknown-key-in-a-list"),
        pytest.param({"serving": "both"}, "serving", id="serving"),
        pytest.param({"apiVersion": "apps/v1"}, "apiVersion", id="kubernetes-deployment"),
        pytest.param({"cache": {"l2": {"bandwidth": "8"}}}, "cache.l2.bandwidth", id="bandwidth"),
        pytest.param({"cache": {"l2": {"size": "2 TB"}}}, "cache.l2.size", id="size"),
        pytest.param({"cache": {"l2": {"ttl": "1 day"}}}, "cache.l2.ttl", id="ttl"),
        pytest.param({"cache": {"l2": {"backend": "valkey"}}}, "cache.l2.backend", id="backend"),
        pytest.param({"cache": {"l2": {"memoryPercent": 120}}}, "cache.l2.memoryPercent", id="percent"),
        pytest.param({"cache": {"l2": {"memory": "0"}}}, "cache.l2.memory", id="no-memory"),
        pytest.param(
            {"cache": {"l2": {"memory": "1Gi", "memoryPercent": 30}}}, "cache.l2.memory", id="two-sizes"
        ),
        pytest.param({"cache": {"l2": {"memory": "9Ti"}}}, "cache.l2.memory", id="more-than-a-node"),
        pytest.param(tenants({"name": ""}), "cache.l2.tenants.name", id="tenant-name"),
        pytest.param(tenants({"name": "a", "quota": "1"}), "cache.l2.tenants.a.quota", id="quota"),
        pytest.param(tenants({"name": "a", "quota": "ten"}), "cache.l2.tenants.a.quota", id="quota-words"),
        pytest.param(tenants({"name": "a", "ttl": "0s"}), "cache.l2.tenants.a.ttl", id="tenant-ttl"),
        pytest.param(tenants({"name": "a", "ttl": "87601h"}), "cache.l2.tenants.a.ttl", id="tenant-endless"),
        pytest.param(tenants({"name": "a"}, {"name": "a"}), "cache.l2.tenants", id="tenant-twice"),
        pytest.param(
            {"cache": {"l2": {"backend": "tieredstorage", "tenants": [{"name": "a"}]}}},
            "cache.l2.tenants",
            id="tenants-in-tiered-storage",
        ),
        pytest.param(
            {**tenants({"name": "a"}), "serving": "operator"}, "cache.l2.tenants", id="tenants-by-operator"
        ),
        pytest.param(
            {"cache": {"l2": {"kvEvents": True}}, "serving": "operator"},
            "cache.l2.kvEvents",
            id="events-by-operator",
        ),
        pytest.param(
            {**tenants({"name": "a"}), "access": {"secretName": "s", "sharedCache": True}},
            "cache.l2.tenants",
            id="tenants-of-a-shared-cache",
        ),
        pytest.param(
            {"cache": {"l2": {"encryptionSecret": "A b"}}},
            "cache.l2.encryptionSecret",
            id="encryption-secret",
        ),
        pytest.param(
            {"cache": {"l2": {"existing": {"url": "http://a:1", "secretArn": SECRET}}}},
            "cache.l2.existing.url",
            id="a-store-of-another-kind",
        ),
        pytest.param(
            {"cache": {"l2": {"existing": {"url": "rediss://a:1", "secretArn": "store"}}}},
            "cache.l2.existing.secretArn",
            id="a-secret-s-name",
        ),
        pytest.param(
            {"cache": {"l2": {"existing": {**STORE, "keyArn": "alias/a"}}}},
            "cache.l2.existing.keyArn",
            id="an-alias",
        ),
        pytest.param(
            {"cache": {"l2": {"backend": "tieredstorage", "existing": STORE}}},
            "cache.l2.existing",
            id="a-store-beside-tiered-storage",
        ),
        pytest.param(
            {"cache": {"l2": {"existing": STORE}}, "serving": "operator"},
            "cache.l2.existing",
            id="a-store-by-operator",
        ),
        pytest.param({"cache": {"l1": {"size": "much"}}}, "cache.l1.size", id="l1-size"),
        pytest.param({"scaling": {"min": -1}}, "scaling.min", id="scaling-min"),
        pytest.param({"scaling": {"min": 3, "max": 2}}, "scaling.max", id="scaling-max"),
        pytest.param({"instanceGroups.1.instanceType": "p5"}, "instanceGroups.gpu.instanceType", id="type"),
        pytest.param({"instanceGroups.1.count": -1}, "instanceGroups.gpu.count", id="count"),
        pytest.param({"instanceGroups.1.name": "system"}, "instanceGroups", id="two-of-a-name"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_by_name(
    tmp_path: Path, changes: dict[str, Any], names: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, changed(deployment(), changes))

    assert names in refused.value.setting
    assert refused.value.expected


GPU_GROUP = "instanceGroups[1]"
FIRST = "scaling.schedules[0]"
DAY = {"name": "day", "cron": "cron(0 8 ? * MON-FRI *)", "minReplicas": 1}


@pytest.mark.parametrize(
    ("where", "value", "setting"),
    [
        pytest.param("name", "a--b", "name", id="name-no-stack-can-have"),
        pytest.param("name", "5a", "name", id="name-that-begins-with-a-digit"),
        pytest.param("name", "A", "name", id="name-in-capitals"),
        pytest.param("region", "nonsense", "region", id="region"),
        pytest.param("region", "", "region", id="region-without-a-name"),
        pytest.param("region", "us-west-2 ", "region", id="region-and-a-space"),
        pytest.param("operator.version", "latest", "operator.version", id="operator"),
        pytest.param("cluster.kubernetesVersion", "latest", "cluster.kubernetesVersion", id="kubernetes"),
        pytest.param("cluster.existing", "", "cluster.existing", id="existing-cluster-without-a-name"),
        pytest.param("instanceGroups.1.name", "g u", f"{GPU_GROUP}.name", id="group"),
        pytest.param("instanceGroups.1.name", "", f"{GPU_GROUP}.name", id="group-without-a-name"),
        pytest.param(
            "instanceGroups.1.availabilityZoneId",
            "us-west-2a",
            f"{GPU_GROUP}.availabilityZoneId",
            id="zone-name",
        ),
        pytest.param(
            "instanceGroups.1.availabilityZoneId",
            "use1-az1",
            f"{GPU_GROUP}.availabilityZoneId",
            id="far-zone",
        ),
        pytest.param("instanceGroups.1.trainingPlanArn", "p5", f"{GPU_GROUP}.trainingPlanArn", id="plan"),
        pytest.param(
            "instanceGroups.1.lifecycle",
            {"source": "s3://mine/x", "file": "a.sh"},
            f"{GPU_GROUP}.lifecycle.source",
            id="script-in-a-bucket-of-another-name",
        ),
        pytest.param("instanceGroups", [], "instanceGroups", id="no-groups"),
        pytest.param("cache.l1.size", "0", "cache.l1.size", id="no-l1"),
        pytest.param("cache.l2.size", "0", "cache.l2.size", id="no-l2"),
        pytest.param("cache.l2.bandwidth", "0GB/s", "cache.l2.bandwidth", id="no-bandwidth"),
        pytest.param("cache.l2.ttl", "0s", "cache.l2.ttl", id="no-ttl"),
        pytest.param("cache.l2.ttl", "87601h", "cache.l2.ttl", id="endless-ttl"),
        pytest.param("images.engine", "", "images.engine", id="no-image"),
        pytest.param("images.router", "a b", "images.router", id="image-with-a-space"),
        pytest.param("scaling.schedules", [{**DAY, "name": "A"}], f"{FIRST}.name", id="schedule's-name"),
        pytest.param("scaling.schedules", [{**DAY, "cron": "0 8"}], f"{FIRST}.cron", id="schedule's-cron"),
        pytest.param("scaling.schedules", [{**DAY, "at": "now"}], f"{FIRST}.cron", id="cron-and-at"),
        pytest.param("scaling.schedules", [{**DAY, "timeZone": "CEST"}], f"{FIRST}.timeZone", id="zone"),
        pytest.param("scaling.schedules", [{**DAY, "minReplicas": -1}], f"{FIRST}.minReplicas", id="rest"),
        pytest.param(
            "scaling.schedules", [{**DAY, "minReplicas": 9}], f"{FIRST}.minReplicas", id="above-max"
        ),
        pytest.param("scaling.schedules", [DAY, DAY], "scaling.schedules", id="schedule-twice"),
        pytest.param(
            "scaling.schedules",
            [DAY, {**DAY, "name": "other"}],
            "scaling.schedules[1].cron",
            id="schedules-for-the-same-moments",
        ),
        pytest.param("cache", {"l2": {"memory": "9Ti"}}, "cache.l2.memory", id="more-than-a-node"),
        pytest.param("scaling.monthlyBudgetUsd", -1, "scaling.monthlyBudgetUsd", id="budget"),
        pytest.param("scaling.monthlyBudgetUsd", float("nan"), "scaling.monthlyBudgetUsd", id="budget-nan"),
    ],
)
def test_what_load_refuses_lint_refuses_at_the_same_place(
    where: str, value: Any, setting: str, tmp_path: Path
) -> None:
    data = changed(deployment(), {where: value})

    with pytest.raises(ConfigError) as refused:
        load(tmp_path, data)
    found = lint_files([str(tmp_path / "deployment.yaml")]).findings

    assert refused.value.setting.rpartition(".")[2] == setting.rpartition(".")[2]
    assert setting in {finding.path for finding in found if finding.severity == "error"}


def test_a_lifecycle_script_is_looked_for_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "on_create.sh").write_text("#!/bin/bash\n")
    data = changed(deployment(), {"instanceGroups.0.lifecycle": {"source": "on_create.sh"}})

    script = load(tmp_path, data).instance_groups[0].lifecycle

    assert script == LifecycleScript(source=str(tmp_path.resolve() / "on_create.sh"))


def test_a_lifecycle_script_that_is_not_there_is_named_by_its_group(tmp_path: Path) -> None:
    data = changed(deployment(), {"instanceGroups.0.lifecycle": {"source": "on_create.sh"}})

    with pytest.raises(ConfigError, match=r"instanceGroups\.system\.lifecycle\.source is 'on_create\.sh'"):
        load(tmp_path, data)


@pytest.mark.parametrize("where", ["instanceGroups.0.count", "scaling.max", "cache.l2.memoryPercent"])
def test_a_value_of_a_wrong_kind_is_shown_as_written_and_not_its_default(where: str, tmp_path: Path) -> None:
    data = changed(deployment(), {"scaling.min": 2, "scaling.max": 3})

    with pytest.raises(ConfigError, match=r" is '12 '; expected a whole number"):
        load(tmp_path, changed(data, {where: "12 "}))


def test_two_endpoints_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="one manifest of the name llama-8b in inference"):
        load(tmp_path, {**deployment(), "endpoints": ["endpoint.yaml", "endpoint.yaml"]})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("a: [", "is not YAML", id="not-yaml"),
        pytest.param("", "holds 0 documents", id="empty"),
        pytest.param("a: 1\n---\nb: 2\n", "holds 2 documents", id="two-documents"),
    ],
)
def test_a_file_that_is_no_deployment_is_refused_with_its_line(
    tmp_path: Path, text: str, problem: str
) -> None:
    with pytest.raises(ManifestError, match=problem):
        load(tmp_path, text)


@pytest.mark.parametrize(
    "where",
    [
        "unheardOf",
        "operator.unheardOf",
        "cluster.unheardOf",
        "instanceGroups.1.unheardOf",
        "cache.unheardOf",
        "cache.l1.unheardOf",
        "cache.l2.unheardOf",
        "images.unheardOf",
        "scaling.unheardOf",
    ],
)
def test_a_key_that_no_section_has_is_refused_by_lint_and_load(where: str, tmp_path: Path) -> None:
    data = changed(deployment(), {where: {"x": [None]}})

    with pytest.raises(ConfigError, match=r"unheardOf is .*expected one of the keys "):
        load(tmp_path, data)
    found = lint_files([str(tmp_path / "deployment.yaml")]).findings

    assert [(finding.rule, finding.path) for finding in found] == [
        ("unknown-field", where.replace(".1.", "[1]."))
    ]


def test_a_manifest_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(HypertierError, match=r"nowhere\.yaml"):
        load(tmp_path, {**deployment(), "endpoints": ["nowhere.yaml"]})


def test_an_endpoint_finds_its_group_by_its_instance_type(tmp_path: Path) -> None:
    loaded = load(tmp_path, deployment())

    assert loaded.group_for(loaded.endpoints[0]).name == "gpu"


def test_an_endpoint_without_a_group_says_which_there_are(tmp_path: Path) -> None:
    loaded = load(tmp_path, deployment(), changed(endpoint(), {"spec.instanceType": "ml.p5.48xlarge"}))

    with pytest.raises(ConfigError, match=r"gpu \(ml\.g5\.12xlarge\)"):
        loaded.group_for(loaded.endpoints[0])


def test_an_endpoint_may_come_as_the_list_that_kubectl_prints(tmp_path: Path) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [endpoint()]}

    assert load(tmp_path, deployment(), listed).endpoints == load(tmp_path, deployment()).endpoints
