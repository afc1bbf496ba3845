"""Images of what runs on a new cluster's nodes, which must be named where nodes can't get the usual ones."""

from __future__ import annotations

from collections.abc import Iterator

from hypertier.catalog.node_images import NVIDIA_PLUGIN_IMAGE, health_agent_image
from hypertier.catalog.zones import REGION
from hypertier.spec.rules import sources
from hypertier.spec.rules.rule import DEPLOYMENT, Hit, hit, rule
from hypertier.spec.rules.subject import Subject, read_groups
from hypertier.spec.said import Said
from hypertier.spec.tree import path


@rule(
    "node-image-untold",
    "warning",
    kinds=(DEPLOYMENT,),
    source=sources.HYPERTIER,
    en="{path} is not set, and `cdk synth` needs it for nodes with GPUs: {why}; `hypertier render` does not",
    ko="{path} 값이 없습니다. GPU 노드를 만드는 `cdk synth`에 필요합니다: {why}. `hypertier "
    "render`에는 필요하지 않습니다",
)
def node_image_untold(subject: Subject) -> Iterator[Hit]:
    deployment = subject.manifest
    groups = [group for _, group in read_groups(deployment)]
    if deployment.has("cluster.existing") or not any(group.has_gpus for group in groups):
        return
    plugin, agent = path("images.nvidiaDevicePlugin"), path("images.healthAgent")
    if deployment.flag("cluster.closedNetwork") and not deployment.has(plugin):
        yield hit(
            plugin,
            why=Said(
                f"the network is closed, and {NVIDIA_PLUGIN_IMAGE} lies in the internet; name a copy in ECR",
                f"닫힌 네트워크에서는 {NVIDIA_PLUGIN_IMAGE} 이미지를 받을 수 없으니 ECR 사본을 지정하십시오",
            ),
        )
    region = deployment.text("region") or ""
    is_known = not REGION.fullmatch(region) or health_agent_image(region) is not None
    if not is_known and not deployment.has(agent):
        yield hit(
            agent,
            why=Said(
                f"where AWS keeps HyperPod's health monitoring agent for {region} is not known",
                f"{region} 리전의 HyperPod 상태 모니터링 에이전트 이미지 위치를 알 수 없습니다",
            ),
        )
