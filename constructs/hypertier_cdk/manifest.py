"""Kubernetes objects that a stack applies: by the CDK's `KubernetesManifest`, or with less work for the same.

The CDK's own class is handed every value of every object one by one, in another process, and resolves each of
them twice. A text is one value. It says the same as long as no token in it brings a quotation mark along.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

# As the CDK encodes them in texts; those of lists and numbers have no place there, and null it leaves out.
_TOKEN = re.compile(r"\$\{Token\[[^]]*\]\}")
_NO_TEXT = re.compile(r"#\{Token\[|-1\.88\d*e\+289|(?:: |, |\[)null[,\]}]")
# What the CDK's kubectl handler removes objects by, once they are no longer in the manifest.
PRUNE_LABEL = "aws.cdk.eks/prune-"


def new_manifest(
    scope: Construct,
    construct_id: str,
    *,
    cluster: eks.ICluster,
    objects: Sequence[Mapping[str, Any]],
    overwrite: bool,
    plain: Sequence[str | None] = (),
) -> Construct:
    """Apply `objects`; without `overwrite` a deployment fails where one of them exists.

    `plain` are texts with tokens whose values hold nothing that JSON escapes: ARNs, names, addresses. Objects
    with tokens beside these are the CDK's to write.
    """
    text = json.dumps(objects)
    known = set(_TOKEN.findall(" ".join(filter(None, plain))))
    if set(_TOKEN.findall(text)) <= known and not _NO_TEXT.search(text):
        return _Manifest(scope, construct_id, cluster=cluster, objects=objects, overwrite=overwrite)
    return eks.KubernetesManifest(
        scope, construct_id, cluster=cluster, manifest=[dict(entry) for entry in objects], overwrite=overwrite
    )


class _Manifest(Construct):
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster,
        objects: Sequence[Mapping[str, Any]],
        overwrite: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        provider = eks.KubectlProvider.get_kubectl_provider(self, cluster)
        assert provider is not None  # every cluster of ours has one
        label = f"{PRUNE_LABEL}{self.node.addr}"
        cdk.CustomResource(
            self,
            "Resource",
            service_token=provider.service_token,
            resource_type=eks.KubernetesManifest.RESOURCE_TYPE,
            properties={
                "Manifest": json.dumps(
                    [_labelled(entry, label) for entry in objects], separators=(",", ":"), ensure_ascii=False
                ),
                "ClusterName": cluster.cluster_name,
                "PruneLabel": label,
                "Overwrite": overwrite,
            },
        )


def _labelled(entry: Mapping[str, Any], label: str) -> dict[str, Any]:
    metadata = entry.get("metadata") or {}
    return {**entry, "metadata": {**metadata, "labels": {label: "", **metadata.get("labels", {})}}}
