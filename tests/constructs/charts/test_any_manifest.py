"""Whatever stands in a manifest: it is refused by name, or what is rendered passes the gate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from fakes_charts import MANIFEST, deployment, endpoint
from hypothesis import given, settings
from hypothesis import strategies as st
from kubernetes_gate import findings

from hypertier.errors import HypertierError
from hypertier.spec.deployment import Scaling
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier_cdk.charts.inputs import ChartInputs
from hypertier_cdk.charts.objects import endpoint_objects, namespace_objects


def paths_in(fields: Mapping[str, Any], parent: str = "") -> Iterator[str]:
    for key, value in fields.items():
        path = f"{parent}.{key}" if parent else key
        yield path
        if isinstance(value, dict):
            yield from paths_in(value, path)


OTHER_PATHS = (
    "spec.autoScalingSpec",
    "spec.autoScalingSpec.cloudWatchTrigger",
    "spec.autoScalingSpec.minReplicaCount",
    "spec.intelligentRoutingSpec.autoScalingSpec.maxReplicaCount",
    "spec.kubernetes",
    "spec.kubernetes.initContainers",
    "spec.kubernetes.podTemplateAnnotations",
    "spec.kubernetes.schedulerName",
    "spec.kubernetes.tolerations",
    "spec.modelSourceConfig.fsxStorage",
    "spec.modelSourceConfig.huggingFaceModel",
    "spec.pdSpec",
    "spec.pdSpec.decodingSpec.args",
    "spec.pdSpec.prefillSpec.nodeSelector",
    "spec.pdSpec.routingThreshold",
    "spec.tags",
    "spec.tlsConfig.customCertificateConfig",
    "spec.worker.command",
    "spec.worker.probes.livenessProbe",
    "spec.worker.resources.claims",
    "spec.worker.workingDir",
)
PATHS = sorted({*paths_in(MANIFEST), *OTHER_PATHS} - {"apiVersion", "kind"})
VALUES = (
    *(None, "", 0, -1, 1, True, False, 1.5, math.nan, 10**12),
    *("x", "a b", "\n", "é", "8", "8Gi", "1e3", "x" * 300, "$(HOME)", "{{ x }}"),
    *([], {}, ["x"], [{}], [None], [["a"]], {"a": 1}, {"name": "x"}, [{"name": "x"}]),
)


def changed(changes: Mapping[str, Any]) -> InferenceEndpointConfig | None:
    """The endpoint; None where it is refused, or a path leads through what another change put there."""
    try:
        return endpoint(changes)
    except HypertierError:
        return None
    except (AttributeError, TypeError):
        if any(longer.startswith(f"{path}.") for path in changes for longer in changes):
            return None
        raise


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.dictionaries(st.sampled_from(PATHS), st.sampled_from(VALUES), min_size=1, max_size=3))
def test_a_manifest_is_refused_by_name_or_renders_to_what_passes_the_gate(changes: dict[str, Any]) -> None:
    wanted = changed(changes)
    if wanted is None:
        return
    whole = deployment(endpoints=(wanted,), scaling=Scaling())

    try:
        objects = [*namespace_objects(whole), *endpoint_objects(whole, wanted, ChartInputs())]
    except HypertierError:
        return

    assert findings(objects, whole.cluster.kubernetes_version) == []
