"""The rendered endpoint as its neighbours see it: apply order, and what the lab makes of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fakes_charts import KINDS_OF_DEPLOYMENT

from hypertier.lab.plan import LabSettings, plan_lab
from hypertier.lab.translate import read_endpoint, served_model_name
from hypertier.spec.deployment import load_deployment
from hypertier_cdk.charts.render import render

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def reference() -> list[dict[str, Any]]:
    return render(load_deployment(EXAMPLES / "reference" / "deployment.yaml"))


def test_the_reference_is_applied_namespace_first_and_workloads_last(reference: list[dict[str, Any]]) -> None:
    kinds = [entry["kind"] for entry in reference]

    assert list(dict.fromkeys(kinds)) == [
        "Namespace",
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "NetworkPolicy",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Service",
        "PodDisruptionBudget",
        "DaemonSet",
        "Deployment",
    ]


def test_the_lab_finds_one_engine_one_router_and_leaves_the_rest(reference: list[dict[str, Any]]) -> None:
    endpoint = read_endpoint(reference)

    assert endpoint.engine.replicas == 7
    assert served_model_name(endpoint.engine) == "Llama-3.1-70B-Instruct"
    assert endpoint.router.arguments[:2] == ("--listen", "0.0.0.0:8080")
    assert endpoint.left_out == ("llama-70b-exporter/exporter", "llama-70b-prepull")


@pytest.mark.parametrize("component", ["engine", "router", "exporter"])
def test_a_selector_is_what_it_has_always_been(reference: list[dict[str, Any]], component: str) -> None:
    """Kubernetes refuses to change the selector of a Deployment: an upgrade would have to delete the pods."""
    name = f"llama-70b-{component}"

    workload = next(e for e in reference if e["kind"] == "Deployment" and e["metadata"]["name"] == name)

    assert workload["spec"]["selector"] == {
        "matchLabels": {
            "app.kubernetes.io/name": "hypertier",
            "app.kubernetes.io/instance": "llama-70b",
            "app.kubernetes.io/component": component,
        }
    }


def test_rendering_twice_gives_the_same(reference: list[dict[str, Any]]) -> None:
    assert render(load_deployment(EXAMPLES / "reference" / "deployment.yaml")) == reference


# one endpoint is what the lab runs, and there is no HyperPod daemon here
ONE_ENDPOINT = [
    kind
    for kind, make in KINDS_OF_DEPLOYMENT.items()
    if len(make().endpoints) == 1 and make().serving == "selfhosted" and "tiered" not in kind
]


@pytest.mark.parametrize("kind", ONE_ENDPOINT)
def test_the_lab_understands_every_argument_and_variable_that_is_rendered(kind: str) -> None:
    endpoint = read_endpoint(render(KINDS_OF_DEPLOYMENT[kind]()))
    settings = LabSettings(
        engine="vllm",
        replicas=2,
        ports=(8101, 8102, 8103, 8104, 8105, 8106, 8108),
        model_directory=Path("model"),
        engine_command=("python3", "-m", "hypertier.tier.launch"),
        router_command=("hypertier",),
    )

    plan = plan_lab(endpoint, settings, {})

    assert [spec.name for spec in plan.engines] == ["engine-0", "engine-1"]


@pytest.mark.cli
def test_rendering_does_not_depend_on_the_order_of_sets() -> None:
    devices = {f"example.com/{name}": 1 for name in ("a", "b", "c", "d", "e")} | {"nvidia.com/gpu": 8}
    code = (
        "import json\n"
        "from fakes_charts import deployment\n"
        "from hypertier_cdk.charts.render import render\n"
        f"wanted = deployment({{'spec.worker.resources': {{'limits': {devices!r}}}}})\n"
        "print(json.dumps(render(wanted)))"
    )

    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(EXAMPLES.parent / "tests")},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }

    assert len(texts) == 1
