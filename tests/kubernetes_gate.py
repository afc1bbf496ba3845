"""What an API server, a scheduler or a reviewer would refuse in Kubernetes objects, found without a cluster.

Schemas catch unknown fields and wrong types; the rules below what no schema holds: quantities, enums, images,
requests above limits, selectors that select nothing, references to what is not there, pods that Kubernetes'
`restricted` standard forbids. It is no API server: passing here is necessary, not sufficient.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import kubernetes_validate
import yaml
from kubernetes_validate import utils

Object = Mapping[str, Any]
Rule = Callable[[Sequence[Object]], Iterator[str]]

# kubernetes-validate reads a file of megabytes anew for every object
utils.schema_contents = functools.cache(utils.schema_contents)

QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei)?")
FACTORS = {"m": 1e-3, "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18} | {
    f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", start=1)
}
DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
DNS_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
QUALIFIED_NAME = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
CLUSTER_WIDE = {"Namespace", "PersistentVolume", "PriorityClass", "ClusterRole", "ClusterRoleBinding"}
UNASKED = {"CronJob", "DaemonSet"}  # of ours: nobody sends them anything
ENUMS = {
    "imagePullPolicy": {"Always", "IfNotPresent", "Never"},
    "protocol": {"TCP", "UDP", "SCTP"},
    "whenUnsatisfiable": {"DoNotSchedule", "ScheduleAnyway"},
    "effect": {"NoSchedule", "PreferNoSchedule", "NoExecute"},
    "medium": {"", "Memory"},
    "fsGroupChangePolicy": {"OnRootMismatch", "Always"},
    "persistentVolumeReclaimPolicy": {"Retain", "Delete"},
    "unhealthyPodEvictionPolicy": {"IfHealthyBudget", "AlwaysAllow"},
    "concurrencyPolicy": {"Allow", "Forbid", "Replace"},
    "restartPolicy": {"Always", "OnFailure", "Never"},
    "externalTrafficPolicy": {"Cluster", "Local"},
    "internalTrafficPolicy": {"Cluster", "Local"},
    "scheme": {"HTTP", "HTTPS"},
}
LISTED_ENUMS = {
    "accessModes": {"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"},
    "policyTypes": {"Ingress", "Egress"},
}
TYPES = {
    "Service": {"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"},
    "Deployment": {"RollingUpdate", "Recreate"},
}


def findings(objects: Sequence[Object], kubernetes_version: str) -> list[str]:
    """Everything that is wrong; empty where nothing is."""
    found = [*schema_findings(objects, kubernetes_version)]
    for rule in RULES:
        found += [f"{rule.__name__}: {finding}" for finding in rule(objects)]
    return found


def schema_findings(objects: Sequence[Object], kubernetes_version: str) -> Iterator[str]:
    """Fields that do not exist, are of the wrong type or missing; kinds without a schema."""
    for entry in objects:
        if is_custom(entry):
            continue
        try:
            kubernetes_validate.validate(dict(entry), kubernetes_version, strict=True)
        except kubernetes_validate.ValidationError as error:
            yield f"schema: {called(entry)}: {'.'.join(map(str, error.absolute_path))}: {error.message}"
        except kubernetes_validate.SchemaNotFoundError as error:
            yield f"schema: {called(entry)}: {error.message}"


def load_strictly(text: str) -> Any:
    """Read YAML as `kubectl` should: a key that stands twice is an error, not the last one's victory."""
    return yaml.load(text, Loader=_UniqueKeys)


class _UniqueKeys(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} twice", node.start_mark)
        return super().construct_mapping(node, deep=deep)


def amount(quantity: Any) -> float:
    """A quantity as a number; NaN, which compares with nothing, where it cannot be read."""
    match = QUANTITY.fullmatch(str(quantity))
    if match is None:
        return math.nan
    suffix = match[2] or ""
    return float(str(quantity).removesuffix(suffix)) * FACTORS[suffix]


def is_custom(entry: Object) -> bool:
    """Whether the kind is no built-in one."""
    group = entry["apiVersion"].rpartition("/")[0]
    return "." in group and not group.endswith(".k8s.io")


def called(entry: Object) -> str:
    return f"{entry['kind']} {entry['metadata']['name']}"


def namespace_of(entry: Object) -> str | None:
    if entry["kind"] in CLUSTER_WIDE:
        return None
    return str(entry["metadata"].get("namespace", "default"))


def of_kind(objects: Sequence[Object], *kinds: str) -> Iterator[Object]:
    return (entry for entry in objects if entry["kind"] in kinds)


def workloads(objects: Sequence[Object]) -> Iterator[Object]:
    """Whatever makes pods; a CronJob as if it had their template itself, and selected them by labels."""
    yield from of_kind(objects, "Deployment", "StatefulSet", "DaemonSet")
    for entry in of_kind(objects, "CronJob"):
        template = entry["spec"]["jobTemplate"]["spec"]["template"]
        own = {"matchLabels": template["metadata"]["labels"]}
        yield {**entry, "spec": {**entry["spec"], "template": template, "selector": own}}


def pod_of(workload: Object) -> Any:
    return workload["spec"]["template"]["spec"]


def containers_of(workload: Object) -> Iterator[Any]:
    pod = pod_of(workload)
    yield from pod.get("initContainers", ())
    yield from pod["containers"]


def walk(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value with the keys that lead to it."""
    yield path, value
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from walk(item, (*path, str(key)))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from walk(item, (*path, str(number)))


def selects(selector: Any, labels: Mapping[str, str]) -> bool:
    """Whether a label selector's matchLabels are among the labels."""
    return dict(selector.get("matchLabels", {})).items() <= dict(labels).items()


def pod_labels(objects: Sequence[Object], namespace: str | None) -> list[Mapping[str, str]]:
    return [
        entry["spec"]["template"]["metadata"]["labels"]
        for entry in workloads(objects)
        if namespace_of(entry) == namespace
    ]


def names_are_unique_and_legal(objects: Sequence[Object]) -> Iterator[str]:
    seen = set()
    for entry in objects:
        key = (entry["kind"], namespace_of(entry), entry["metadata"]["name"])
        if key in seen:
            yield f"{called(entry)} stands twice"
        seen.add(key)
        name = entry["metadata"]["name"]
        if not DNS_SUBDOMAIN.fullmatch(name) or len(name) > 253:
            yield f"{called(entry)}: no DNS name"
        if entry["kind"] in ("Service", "Namespace") and (not DNS_LABEL.fullmatch(name) or len(name) > 63):
            yield f"{called(entry)}: no DNS label"


def labels_and_annotations_are_legal(objects: Sequence[Object]) -> Iterator[str]:
    for entry in objects:
        for path, value in walk(entry):
            if path[-1:] == ("labels",) or path[-1:] == ("matchLabels",):
                for key, text in value.items():
                    if not QUALIFIED_NAME.fullmatch(key) or not LABEL_VALUE.fullmatch(str(text)):
                        yield f"{called(entry)}: label {key}: {text}"
            if path[-1:] == ("annotations",):
                for key, text in value.items():
                    if not QUALIFIED_NAME.fullmatch(key) or not isinstance(text, str):
                        yield f"{called(entry)}: annotation {key}: {text!r}"


def namespaces_are_there(objects: Sequence[Object]) -> Iterator[str]:
    made = {entry["metadata"]["name"] for entry in of_kind(objects, "Namespace")} | {"default"}
    for entry in objects:
        if namespace_of(entry) not in (None, *made):
            yield f"{called(entry)}: namespace {namespace_of(entry)}"


def quantities_can_be_read(objects: Sequence[Object]) -> Iterator[str]:
    for entry in objects:
        for path, value in walk(entry):
            in_resources = path[-2:-1] in (("requests",), ("limits",), ("capacity",))
            if (in_resources or path[-1:] == ("sizeLimit",)) and not QUANTITY.fullmatch(str(value)):
                yield f"{called(entry)}: {'.'.join(path)} is {value!r}"


def enums_are_of_the_known_values(objects: Sequence[Object]) -> Iterator[str]:
    for entry in objects:
        for path, value in walk(entry):
            name = path[-1] if path else ""
            if name in ENUMS and isinstance(value, str) and value not in ENUMS[name]:
                yield f"{called(entry)}: {'.'.join(path)} is {value!r}"
            if name in LISTED_ENUMS and not set(value) <= LISTED_ENUMS[name]:
                yield f"{called(entry)}: {'.'.join(path)} is {value!r}"
        spec = entry.get("spec", {})
        kind_type = spec.get("type") if entry["kind"] == "Service" else spec.get("strategy", {}).get("type")
        if kind_type is not None and kind_type not in TYPES.get(entry["kind"], {kind_type}):
            yield f"{called(entry)}: type is {kind_type!r}"


def containers_have_an_image_and_unique_names(objects: Sequence[Object]) -> Iterator[str]:
    for workload in workloads(objects):
        containers = list(containers_of(workload))
        if not pod_of(workload)["containers"]:
            yield f"{called(workload)}: no containers"
        names = [container["name"] for container in containers]
        if len(set(names)) != len(names):
            yield f"{called(workload)}: containers {names}"
        for container in containers:
            image = container.get("image", "")
            if not re.fullmatch(r"\S+(:[\w.-]+|@sha256:[0-9a-f]{64})", image) or image.endswith(":latest"):
                yield f"{called(workload)}: {container['name']}: image is {image!r}"


def environments_name_a_variable_once(objects: Sequence[Object]) -> Iterator[str]:
    for workload in workloads(objects):
        for container in containers_of(workload):
            names = [entry["name"] for entry in container.get("env", ())]
            if len(set(names)) != len(names):
                yield f"{called(workload)}: env {names}"
            for entry in container.get("env", ()):
                if ("value" in entry) == ("valueFrom" in entry):
                    yield f"{called(workload)}: env {entry['name']} needs value or valueFrom"
                if not isinstance(entry.get("value", ""), str):
                    yield f"{called(workload)}: env {entry['name']} is no string"


def requests_stay_within_limits(objects: Sequence[Object]) -> Iterator[str]:
    for workload in workloads(objects):
        for container in containers_of(workload):
            resources = container.get("resources", {})
            requests, limits = resources.get("requests", {}), resources.get("limits", {})
            for name in ("cpu", "memory"):
                if name not in requests:
                    yield f"{called(workload)}: {container['name']}: no request of {name}"
            if "memory" not in limits:
                yield f"{called(workload)}: {container['name']}: no limit of memory"
            for name, request in requests.items():
                if name in limits and amount(request) > amount(limits[name]):
                    yield f"{called(workload)}: {name}: request {request} above limit {limits[name]}"
                if "/" in name and amount(request) != amount(limits.get(name, 0)):
                    yield f"{called(workload)}: {name}: request {request}, limit {limits.get(name)}"


def memory_volumes_fit_into_the_memory_limit(objects: Sequence[Object]) -> Iterator[str]:
    for workload in workloads(objects):
        sizes = [
            volume["emptyDir"]
            for volume in pod_of(workload).get("volumes", ())
            if volume.get("emptyDir", {}).get("medium") == "Memory"
        ]
        limits = [
            amount(container["resources"].get("limits", {}).get("memory", "unlimited"))
            for container in pod_of(workload)["containers"]
        ]
        for size in sizes:
            if "sizeLimit" not in size or amount(size["sizeLimit"]) > sum(limits):
                yield f"{called(workload)}: {size} in a memory limit of {sum(limits)} bytes"


def workloads_select_their_own_pods(objects: Sequence[Object]) -> Iterator[str]:
    for workload in workloads(objects):
        selector = workload["spec"].get("selector", {})
        if not selects(selector, workload["spec"]["template"]["metadata"]["labels"]):
            yield f"{called(workload)}: selects other pods than its own"
        for other in workloads(objects):
            theirs = other["spec"]["template"]["metadata"]["labels"]
            if called(other) == called(workload) or namespace_of(other) != namespace_of(workload):
                continue
            if selects(selector, theirs):
                yield f"{called(workload)}: selects the pods of {called(other)} too"
        for constraint in pod_of(workload).get("topologySpreadConstraints", ()):
            if not selects(constraint["labelSelector"], workload["spec"]["template"]["metadata"]["labels"]):
                yield f"{called(workload)}: spreads other pods than its own"


def services_select_pods_with_their_port(objects: Sequence[Object]) -> Iterator[str]:
    for service in of_kind(objects, "Service"):
        selected = [
            workload
            for workload in workloads(objects)
            if namespace_of(workload) == namespace_of(service)
            and selects(
                {"matchLabels": service["spec"]["selector"]},
                workload["spec"]["template"]["metadata"]["labels"],
            )
        ]
        # a headless one is a list of addresses, by which several kinds of pods may be read
        if not selected or (len(selected) > 1 and service["spec"].get("clusterIP") != "None"):
            yield f"{called(service)}: selects {len(selected)} workloads"
        for workload in selected:
            named, numbered = ports_of(workload)
            for port in service["spec"]["ports"]:
                if port.get("targetPort", port["port"]) not in (*named, *numbered):
                    yield f"{called(service)}: no container has port {port.get('targetPort')}"


def ports_of(workload: Object) -> tuple[set[str], set[int]]:
    ports = [port for container in pod_of(workload)["containers"] for port in container.get("ports", ())]
    return {port.get("name", "") for port in ports}, {port["containerPort"] for port in ports}


def probes_and_hooks_ask_a_port_that_is_there(objects: Sequence[Object]) -> Iterator[str]:
    for workload in workloads(objects):
        for container in pod_of(workload)["containers"]:
            ports = {port.get("name") for port in container.get("ports", ())}
            ports |= {port["containerPort"] for port in container.get("ports", ())}
            for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
                probe = container.get(kind, {})
                asked = (probe.get("httpGet") or probe.get("tcpSocket") or {}).get("port")
                if asked is not None and asked not in ports:
                    yield f"{called(workload)}: {kind} asks port {asked}"
                if not probe and kind != "startupProbe" and workload["kind"] not in UNASKED:
                    yield f"{called(workload)}: {container['name']}: no {kind}"


def budgets_select_pods_and_leave_room(objects: Sequence[Object]) -> Iterator[str]:
    for budget in of_kind(objects, "PodDisruptionBudget"):
        spec = budget["spec"]
        if not any(selects(spec["selector"], labels) for labels in pod_labels(objects, namespace_of(budget))):
            yield f"{called(budget)}: selects nothing"
        if spec.get("maxUnavailable") in (0, "0%") or spec.get("minAvailable") == "100%":
            yield f"{called(budget)}: no node could ever be drained"


def policies_name_pods_that_are_there(objects: Sequence[Object]) -> Iterator[str]:
    for policy in of_kind(objects, "NetworkPolicy"):
        labels = pod_labels(objects, namespace_of(policy))
        if not any(selects(policy["spec"]["podSelector"], each) for each in labels):
            yield f"{called(policy)}: selects nothing"
        for rule in (*policy["spec"].get("ingress", ()), *policy["spec"].get("egress", ())):
            for peer in (*rule.get("from", ()), *rule.get("to", ())):
                here = "podSelector" in peer and "namespaceSelector" not in peer
                if here and not any(selects(peer["podSelector"], each) for each in labels):
                    yield f"{called(policy)}: peer {peer['podSelector']} selects nothing"


def every_pod_has_a_policy_both_ways(objects: Sequence[Object]) -> Iterator[str]:
    for workload in workloads(objects):
        labels = workload["spec"]["template"]["metadata"]["labels"]
        ways = {
            way
            for policy in of_kind(objects, "NetworkPolicy")
            if namespace_of(policy) == namespace_of(workload)
            and selects(policy["spec"]["podSelector"], labels)
            for way in policy["spec"]["policyTypes"]
        }
        if ways != {"Ingress", "Egress"}:
            yield f"{called(workload)}: policies for {sorted(ways)} alone"


def references_are_there(objects: Sequence[Object]) -> Iterator[str]:
    accounts = {(namespace_of(e), e["metadata"]["name"]) for e in of_kind(objects, "ServiceAccount")}
    claims = {(namespace_of(e), e["metadata"]["name"]) for e in of_kind(objects, "PersistentVolumeClaim")}
    volumes = {e["metadata"]["name"]: e for e in of_kind(objects, "PersistentVolume")}
    for workload in workloads(objects):
        namespace, pod = namespace_of(workload), pod_of(workload)
        if (namespace, pod.get("serviceAccountName")) not in accounts:
            yield f"{called(workload)}: service account {pod.get('serviceAccountName')}"
        declared = {volume["name"] for volume in pod.get("volumes", ())}
        mounted = {
            mount["name"]
            for container in containers_of(workload)
            for mount in container.get("volumeMounts", ())
        }
        if declared != mounted or len(declared) != len(pod.get("volumes", ())):
            yield f"{called(workload)}: volumes {sorted(declared)}, mounted {sorted(mounted)}"
        for volume in pod.get("volumes", ()):
            claim = volume.get("persistentVolumeClaim", {}).get("claimName")
            if claim is not None and (namespace, claim) not in claims:
                yield f"{called(workload)}: claim {claim}"
    for claim in of_kind(objects, "PersistentVolumeClaim"):
        volume = volumes.get(claim["spec"].get("volumeName"))
        wanted = {"namespace": namespace_of(claim), "name": claim["metadata"]["name"]}
        if volume is None or dict(volume["spec"].get("claimRef", {})) != wanted:
            yield f"{called(claim)}: no volume is reserved for it"
        elif amount(volume["spec"]["capacity"]["storage"]) < amount(
            claim["spec"]["resources"]["requests"]["storage"]
        ):
            yield f"{called(claim)}: larger than its volume"
    authentications = {
        (namespace_of(e), e["metadata"]["name"]) for e in of_kind(objects, "TriggerAuthentication")
    }
    for scaler in of_kind(objects, "ScaledObject"):
        for trigger in scaler["spec"]["triggers"]:
            if (namespace_of(scaler), trigger["authenticationRef"]["name"]) not in authentications:
                yield f"{called(scaler)}: authentication {trigger['authenticationRef']}"


def replicas_have_one_owner(objects: Sequence[Object]) -> Iterator[str]:
    owners: dict[tuple[str | None, ...], list[str]] = {}
    for scaler in of_kind(objects, "HorizontalPodAutoscaler", "ScaledObject"):
        target = scaler["spec"]["scaleTargetRef"]
        key = (namespace_of(scaler), target["apiVersion"], target["kind"], target["name"])
        owners.setdefault(key, []).append(called(scaler))
    for workload in workloads(objects):
        name = workload["metadata"]["name"]
        key = (namespace_of(workload), workload["apiVersion"], workload["kind"], name)
        scalers = owners.pop(key, [])
        if len(scalers) + ("replicas" in workload["spec"]) > 1:
            yield f"{called(workload)}: its replicas are set by its manifest and by {scalers}"
    for key, scalers in owners.items():
        yield f"{scalers}: scale {key}, which is not there"


def ingresses_lead_to_a_service_that_is_there(objects: Sequence[Object]) -> Iterator[str]:
    ports = {
        (namespace_of(service), service["metadata"]["name"], port.get("name"))
        for service in of_kind(objects, "Service")
        for port in service["spec"]["ports"]
    }
    for ingress in of_kind(objects, "Ingress"):
        for path, value in walk(ingress["spec"]):
            if path[-1:] != ("service",):
                continue
            if (namespace_of(ingress), value["name"], value["port"].get("name")) not in ports:
                yield f"{called(ingress)}: {value}"


def may_only_read(objects: Sequence[Object], workload: Object) -> bool:
    """Its service account is bound to Roles, and none of these lets it change or read a secret."""
    account = pod_of(workload).get("serviceAccountName")
    bound = {
        binding["roleRef"]["name"]
        for binding in of_kind(objects, "RoleBinding")
        for subject in binding["subjects"]
        if (subject["name"], subject["namespace"]) == (account, namespace_of(workload))
    }
    rules = [
        rule
        for role in of_kind(objects, "Role")
        if role["metadata"]["name"] in bound
        for rule in role["rules"]
    ]
    return bool(rules) and all(
        set(rule["verbs"]) <= {"get", "list", "watch"} and not {"secrets", "*"} & set(rule["resources"])
        for rule in rules
    )


def pods_keep_the_restricted_standard(objects: Sequence[Object]) -> Iterator[str]:
    """https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted (read 2026-12-01)."""
    allowed = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim"}
    allowed |= {"projected", "secret"}
    for workload in workloads(objects):
        pod = pod_of(workload)
        security = pod.get("securityContext", {})
        if security.get("runAsNonRoot") is not True or security.get("runAsUser") == 0:
            yield f"{called(workload)}: may run as root"
        if security.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
            yield f"{called(workload)}: no seccomp profile"
        if any(pod.get(name) for name in ("hostNetwork", "hostPID", "hostIPC")):
            yield f"{called(workload)}: shares the host's namespaces"
        if pod.get("automountServiceAccountToken") is not False and not may_only_read(objects, workload):
            yield f"{called(workload)}: mounts a token for the API server"
        for volume in pod.get("volumes", ()):
            if not set(volume) - {"name"} <= allowed:
                yield f"{called(workload)}: volume {volume}"
        for container in containers_of(workload):
            context = container.get("securityContext", {})
            if context.get("allowPrivilegeEscalation") is not False or context.get("privileged"):
                yield f"{called(workload)}: {container['name']}: may gain privileges"
            if context.get("capabilities", {}).get("drop") != ["ALL"] or context["capabilities"].get("add"):
                yield f"{called(workload)}: {container['name']}: keeps capabilities"
            if context.get("readOnlyRootFilesystem") is not True:
                yield f"{called(workload)}: {container['name']}: may write its root file system"
            for port in container.get("ports", ()):
                if port.get("hostPort"):
                    yield f"{called(workload)}: host port {port['hostPort']}"


def grace_is_longer_than_the_pre_stop_hook(objects: Sequence[Object]) -> Iterator[str]:
    for workload in workloads(objects):
        grace = pod_of(workload).get("terminationGracePeriodSeconds", 30)
        for container in pod_of(workload)["containers"]:
            sleep = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
            if sleep >= grace:
                yield f"{called(workload)}: sleeps {sleep} s of {grace} s"


RULES: tuple[Rule, ...] = (
    names_are_unique_and_legal,
    labels_and_annotations_are_legal,
    namespaces_are_there,
    quantities_can_be_read,
    enums_are_of_the_known_values,
    containers_have_an_image_and_unique_names,
    environments_name_a_variable_once,
    requests_stay_within_limits,
    memory_volumes_fit_into_the_memory_limit,
    workloads_select_their_own_pods,
    services_select_pods_with_their_port,
    probes_and_hooks_ask_a_port_that_is_there,
    budgets_select_pods_and_leave_room,
    policies_name_pods_that_are_there,
    every_pod_has_a_policy_both_ways,
    references_are_there,
    replicas_have_one_owner,
    ingresses_lead_to_a_service_that_is_there,
    pods_keep_the_restricted_standard,
    grace_is_longer_than_the_pre_stop_hook,
)
