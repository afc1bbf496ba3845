"""What the objects of an endpoint are called, and the labels by which they find one another."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hypertier.errors import ConfigError
from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import InferenceEndpointConfig

COMPONENTS = ("engine", "prefill", "decode", "router", "exporter", "verify", "prepull")
ROUTER_PORT = 8080
ROUTER_METRICS_PORT = 9090
ROUTER_PEER_PORT = 9091
EXPORTER_PORT = 9400
KV_EVENTS_PORT = 5557
KV_REPLAY_PORT = KV_EVENTS_PORT + 1  # where the router looks for it
NIXL_PORT = 5600  # vLLM's default; a data-parallel rank adds its number
ENGINES_LABEL = "hypertier.dev/engines"  # the endpoint, on the pods of all its engines
SERVICE_PORT, TLS_SERVICE_PORT = 80, 443
DNS_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
MAX_DNS_LABEL = 63


@dataclass(frozen=True, slots=True)
class Names:
    """Names and labels of one endpoint: `llama-70b` has `llama-70b-engine`, `-router` and `-exporter`.

    With `pdSpec` its engines are `llama-70b-prefill` and `-decode`.

    `engine_account` is the user's own service account for the engines.
    """

    endpoint: str
    namespace: str
    deployment: str
    engine_account: str | None = None

    def of(self, component: str) -> str:
        """The name of a component's objects."""
        return f"{self.endpoint}-{component}"

    def selector(self, component: str) -> dict[str, str]:
        """The labels that select a component's pods; never change them, Deployments can't follow."""
        return {
            "app.kubernetes.io/name": "hypertier",
            "app.kubernetes.io/instance": self.endpoint,
            "app.kubernetes.io/component": component,
        }

    def labels(self, component: str) -> dict[str, str]:
        """The labels of a component's objects and pods."""
        return self.selector(component) | {
            "app.kubernetes.io/part-of": self.deployment,
            "app.kubernetes.io/managed-by": "hypertier",
        }

    def slices(self, component: str, port: int) -> str:
        """The EndpointSlices that the router follows: of the engines, or of its peers."""
        return f"k8s://{self.namespace}/{self.of(component)}:{port}"

    def discover(self, component: str, port: int) -> str:
        """What the exporter resolves to find engines of a kind."""
        return f"dns://{self.of(component)}.{self.namespace}.svc.cluster.local:{port}"

    def role(self, component: str) -> str:
        """The service account of a component, which AWS's roles are bound to."""
        if component == "engine" and self.engine_account:
            return self.engine_account
        return self.of(component)


def names_of(deployment: Deployment, endpoint: InferenceEndpointConfig) -> Names:
    """The names of an endpoint's objects.

    Raises:
        ConfigError: a name that Kubernetes would not take for a Service or a Namespace.
    """
    longest = MAX_DNS_LABEL - max(len(component) + 1 for component in COMPONENTS)
    check_dns_label("metadata.name", endpoint.name, longest, "Services are named after it")
    check_dns_label("metadata.namespace", endpoint.namespace, MAX_DNS_LABEL, "it becomes a Namespace")
    account = (endpoint.spec.kubernetes or {}).get("serviceAccountName")
    return Names(endpoint.name, endpoint.namespace, deployment.name, account)


def check_dns_label(setting: str, name: str, longest: int, why: str) -> None:
    """Refuse what is no DNS label.

    Raises:
        ConfigError: names the setting.
    """
    if len(name) > longest or not DNS_LABEL.fullmatch(name):
        raise ConfigError(
            setting,
            name,
            f"at most {longest} lower-case letters, digits and '-', beginning with a letter: {why}",
        )
