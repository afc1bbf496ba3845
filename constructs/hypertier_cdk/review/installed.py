"""What is installed into the cluster: Helm charts and EKS add-ons, with version and source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hypertier_cdk.review.templates import Assembly, text_of

CHART = "Custom::AWSCDK-EKS-HelmChart"
CHOSEN_BY_EKS = "chosen by EKS"


@dataclass(frozen=True, slots=True)
class Installed:
    """Software of somebody else's that runs in the cluster; `source` is a Helm repository, or EKS."""

    stack: str
    name: str
    version: str
    source: str


def installed_in(assembly: Assembly) -> tuple[Installed, ...]:
    """One line a chart or add-on, in the order of the templates."""
    return tuple(_found(assembly))


def _found(assembly: Assembly) -> Iterator[Installed]:
    for chart in assembly.of_type(CHART):
        named = [chart.get(key) for key in ("Chart", "Version", "Repository")]
        name, version, source = (text_of(value) if value else "unknown" for value in named)
        yield Installed(chart.stack, f"Helm chart {name}", version, source)
    for addon in assembly.of_type("AWS::EKS::Addon"):
        version = text_of(addon.get("AddonVersion", default=CHOSEN_BY_EKS))
        yield Installed(addon.stack, f"add-on {text_of(addon.get('AddonName'))}", version, "EKS")
