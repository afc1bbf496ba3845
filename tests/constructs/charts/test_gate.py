"""Every kind of deployment passes the gate, and the gate catches what it says."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from fakes_charts import KINDS_OF_DEPLOYMENT, deployment
from kubernetes_gate import findings, load_strictly

from hypertier.errors import ConfigError
from hypertier.spec.cluster import Cluster
from hypertier_cdk.charts.inputs import ChartInputs
from hypertier_cdk.charts.render import render

INPUTS = ChartInputs(
    l2_url="rediss://master.l2.abc.usw2.cache.amazonaws.com:6379",
    l2_secret_arn="arn:aws:secretsmanager:us-west-2:123456789012:secret:l2",
    engine_image="123456789012.dkr.ecr.us-west-2.amazonaws.com/hypertier@sha256:" + "a" * 64,
    router_image="123456789012.dkr.ecr.us-west-2.amazonaws.com/hypertier@sha256:" + "b" * 64,
    engine_role_arn="arn:aws:iam::123456789012:role/engine",
    exporter_role_arn="arn:aws:iam::123456789012:role/exporter",
    verify_role_arn="arn:aws:iam::123456789012:role/verify",
    vpc_cidrs=("10.0.0.0/16", "100.64.0.0/16"),
)


@pytest.mark.parametrize("kind", KINDS_OF_DEPLOYMENT)
def test_every_kind_of_deployment_passes_the_gate(kind: str) -> None:
    wanted = KINDS_OF_DEPLOYMENT[kind]()

    objects = render(wanted)

    assert findings(objects, wanted.cluster.kubernetes_version) == []


@pytest.mark.parametrize("version", ["1.30", "1.31", "1.32", "1.33", "1.34", "1.35"])
def test_every_version_that_hyperpod_runs_takes_the_objects(version: str) -> None:
    objects = render(deployment(cluster=Cluster(existing="prod", kubernetes_version=version)), INPUTS)

    assert findings(objects, version) == []


Fault = tuple[str, str, str, Any]
SHORT = {"pod": "spec/template/spec", "container": "spec/template/spec/containers/0"}

# the rule that catches it, the object, the path that is set there, the value; None takes out what is there
FAULTS: dict[str, Fault] = {
    "an unknown field": ("schema", "Deployment engine", "spec/replica", 3),
    "a wrong type": ("schema", "Deployment engine", "spec/replicas", "seven"),
    "a missing selector": ("schema", "Deployment engine", "spec/selector", None),
    "a removed apiVersion": ("schema", "PodDisruptionBudget engine", "apiVersion", "policy/v1beta1"),
    "a quantity in MiB": ("quantities", "Deployment engine", "container/resources/requests/memory", "512MiB"),
    "a size in GB": ("quantities", "Deployment engine", "pod/volumes/0/emptyDir/sizeLimit", "2GB"),
    "an enum": ("enums", "Deployment engine", "container/imagePullPolicy", "Sometimes"),
    "a listed enum": ("enums", "PersistentVolumeClaim", "spec/accessModes", ["ReadMany"]),
    "a type": ("enums", "Service router", "spec/type", "Balancer"),
    "no image": ("containers", "Deployment router", "container/image", None),
    "an image without a tag": ("containers", "Deployment router", "container/image", "router"),
    "no containers": ("containers", "Deployment router", "pod/containers", []),
    "memory over its limit": ("requests", "Deployment engine", "container/resources/requests/memory", "2Ti"),
    "fewer GPUs than the limit": (
        "requests",
        "Deployment engine",
        "container/resources/requests/nvidia.com|gpu",
        4,
    ),
    "shared memory over the limit": (
        "memory",
        "Deployment engine",
        "pod/volumes/0/emptyDir/sizeLimit",
        "3Ti",
    ),
    "a selector that misses its pods": ("workloads", "Deployment router", "spec/selector/matchLabels/x", "y"),
    "a service without pods": ("services", "Service engine", "spec/selector/x", "y"),
    "a service of a port nobody has": ("services", "Service router", "spec/ports/0/targetPort", "web"),
    "a probe of a port nobody has": (
        "probes",
        "Deployment router",
        "container/readinessProbe/httpGet/port",
        81,
    ),
    "a container without a readiness probe": (
        "probes",
        "Deployment router",
        "container/readinessProbe",
        None,
    ),
    "a budget without pods": ("budgets", "PodDisruptionBudget router", "spec/selector/matchLabels/x", "y"),
    "a budget that blocks every drain": ("budgets", "PodDisruptionBudget router", "spec/maxUnavailable", 0),
    "a policy without pods": ("policies", "NetworkPolicy router", "spec/podSelector/matchLabels/x", "y"),
    "a policy whose peer is nobody": (
        "policies",
        "NetworkPolicy engine",
        "spec/ingress/0/from/0/podSelector/matchLabels/x",
        "y",
    ),
    "a pod that may be reached by all": ("every_pod", "NetworkPolicy engine", "spec/policyTypes", ["Egress"]),
    "a claim that is not there": (
        "references",
        "Deployment engine",
        "pod/volumes/2/persistentVolumeClaim/claimName",
        "x",
    ),
    "a service account that is not there": ("references", "Deployment engine", "pod/serviceAccountName", "x"),
    "a volume that is not mounted": ("references", "Deployment router", "container/volumeMounts", []),
    "a volume for another claim": ("references", "PersistentVolume", "spec/claimRef/name", "x"),
    "root": ("pods", "Deployment engine", "pod/securityContext/runAsNonRoot", False),
    "no seccomp": ("pods", "Deployment engine", "pod/securityContext/seccompProfile", None),
    "capabilities": ("pods", "Deployment engine", "container/securityContext/capabilities/drop", []),
    "a host path": ("pods", "Deployment engine", "pod/volumes/0", {"name": "shm", "hostPath": {"path": "/"}}),
    "a token": ("pods", "Deployment engine", "pod/automountServiceAccountToken", True),
    "a token that is good for more": ("pods", "Role router", "rules/0/verbs", ["list", "delete"]),
    "a grace that the hook sleeps away": (
        "grace",
        "Deployment engine",
        "pod/terminationGracePeriodSeconds",
        5,
    ),
    "a variable twice": ("environments", "Deployment engine", "container/env/1/name", "PYTHONHASHSEED"),
    "a namespace that is not there": ("namespaces", "Service router", "metadata/namespace", "elsewhere"),
    "a label of 64 letters": (
        "labels",
        "Service router",
        "metadata/labels/x",
        "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy",
    ),
    "a name in capitals": ("names", "NetworkPolicy router", "metadata/name", "Router"),
}


@pytest.mark.parametrize("version", ["1.29", "1.9", "0.30"])
def test_a_kubernetes_that_would_drop_part_of_it_is_refused(version: str) -> None:
    with pytest.raises(ConfigError, match=r"cluster\.kubernetesVersion is '.*'; expected 1\.30 or newer"):
        render(deployment(cluster=Cluster(existing="prod", kubernetes_version=version)))


@pytest.mark.parametrize("version", ["latest", "1.35.1", "v1.35", ""])
def test_what_is_no_version_of_kubernetes_is_refused(version: str) -> None:
    with pytest.raises(ConfigError, match=r"cluster\.kubernetesVersion is ('.+'|empty); expected a version"):
        Cluster(existing="prod", kubernetes_version=version)


def spoil(objects: list[Any], kind_and_name: str, path: str, value: Any) -> None:
    kind, _, name = kind_and_name.partition(" ")
    place: Any = next(
        entry for entry in objects if entry["kind"] == kind and entry["metadata"]["name"].endswith(name)
    )
    head, _, rest = path.partition("/")
    *parents, last = [
        int(key) if key.isdecimal() else key.replace("|", "/")
        for key in f"{SHORT.get(head, head)}/{rest}".strip("/").split("/")
    ]
    for key in parents:
        place = place[key]
    if value is None:
        del place[last]
    else:
        place[last] = value


@pytest.mark.parametrize("fault", FAULTS)
def test_the_gate_catches(fault: str) -> None:
    objects = copy.deepcopy(render(deployment()))
    rule, kind_and_name, path, value = FAULTS[fault]

    spoil(objects, kind_and_name, path, value)

    assert [finding for finding in findings(objects, "1.35") if finding.startswith(rule)]


def test_the_gate_catches_a_thing_that_stands_twice() -> None:
    objects = render(deployment())

    found = findings([*objects, objects[-1]], "1.35")

    assert found == ["names_are_unique_and_legal: Deployment llama-70b-exporter stands twice"]


def test_a_key_that_stands_twice_is_refused() -> None:
    with pytest.raises(yaml.YAMLError, match="key 'a' twice"):
        load_strictly("a: 1\na: 2\n")
