"""What a deployment comes onto: clusters that exist, and what must be told of them."""

from __future__ import annotations

from collections.abc import Iterator

from hypertier.catalog.addons import INFERENCE_OPERATOR, OPERATOR_PREREQUISITES, existing_with
from hypertier.spec.cluster import KUBERNETES_VERSIONS
from hypertier.spec.rules import sources
from hypertier.spec.rules.rule import DEPLOYMENT, Hit, hit, rule, suggested
from hypertier.spec.rules.subject import Subject
from hypertier.spec.tree import path


@rule(
    "kubernetes-version",
    "warning",
    kinds=(DEPLOYMENT,),
    source=sources.EKS_PREREQUISITES,
    en="{path} is {got}; HyperPod is documented for Kubernetes 1.30 to 1.35",
    ko="{path} 값이 {got}입니다. HyperPod 문서는 Kubernetes 1.30부터 1.35까지 지원합니다",
)
def kubernetes_version(subject: Subject) -> Iterator[Hit]:
    """Of a cluster that exists; a new one of another version is an error."""
    version = subject.manifest.text("cluster.kubernetesVersion")
    if version and _eks_exists(subject) and version not in KUBERNETES_VERSIONS:
        yield suggested(path("cluster.kubernetesVersion"), KUBERNETES_VERSIONS[-1])


@rule(
    "existing-cluster-untold",
    "warning",
    kinds=(DEPLOYMENT,),
    source=sources.HYPERTIER,
    en="{path} is not set but cluster.existing is: `cdk synth` asks nothing of AWS, so it needs to be told; "
    "`hypertier render` does not",
    ko="cluster.existing을 지정했는데 {path} 값이 없습니다. `cdk synth`는 AWS에 묻지 않으므로 필요합니다. "
    "`hypertier render`에는 필요하지 않습니다",
)
def existing_cluster_untold(subject: Subject) -> Iterator[Hit]:
    if subject.manifest.text("cluster.existing") and not subject.manifest.has("cluster.attributes"):
        yield hit(path("cluster.attributes"))


@rule(
    "existing-cluster-addons",
    "warning",
    kinds=(DEPLOYMENT,),
    source=sources.SETUP,
    en="{path} does not name {missing}, so with serving: operator they are made; the deployment fails where "
    "one of them exists after all, under whatever installs it",
    ko="{path}에 {missing}이(가) 없으므로 serving: operator에서는 새로 만듭니다. 이미 있으면(무엇으로 "
    "설치했든) 배포가 실패합니다",
)
def existing_cluster_addons(subject: Subject) -> Iterator[Hit]:
    addons = existing_with(subject.manifest.texts("cluster.attributes.addons"))
    missing = [name for name in (*OPERATOR_PREREQUISITES, INFERENCE_OPERATOR) if name not in addons]
    if missing and _eks_exists(subject) and subject.manifest.text("serving") == "operator":
        yield hit(path("cluster.attributes.addons"), missing=", ".join(missing))


def _eks_exists(subject: Subject) -> bool:
    return any(map(subject.manifest.has, ("cluster.existing", "cluster.attributes.eksClusterName")))
