"""A deployment's controllers: installed where an endpoint needs them, never beside another."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes_stacks import EXAMPLES
from fakes_templates import UNSTAGED

from hypertier.errors import ConfigError
from hypertier.spec.deployment import Controllers, Deployment, Scaling, load_deployment
from hypertier.spec.endpoint import CustomCertificateConfig, TlsConfig
from hypertier_cdk.review.installed import installed_in
from hypertier_cdk.review.templates import Assembly, read_assembly
from infra.stacks import add_stacks, new_app

(ADOPT,) = (file for file in EXAMPLES if file.parent.name == "adopt-existing")
TLS = TlsConfig(
    custom_certificate_config=CustomCertificateConfig(
        acm_arn="arn:aws:acm:us-west-2:123456789012:certificate/1", domain_name="llm.example.com"
    )
)
BALANCERS = "aws-load-balancer-controller"


def with_tls(deployment: Deployment, controllers: Controllers, serving: str = "selfhosted") -> Deployment:
    (endpoint,) = deployment.endpoints
    spec = replace(endpoint.spec, tls_config=TLS)
    return replace(
        deployment,
        serving=serving,
        scaling=Scaling(min=2, max=2),
        controllers=controllers,
        endpoints=(replace(endpoint, spec=spec),),
    )


def synthesized(deployment: Deployment) -> Assembly:
    app = new_app(UNSTAGED)
    add_stacks(app, deployment)
    return read_assembly(app.synth().directory)


def charts(assembly: Assembly) -> list[str]:
    return [entry.name for entry in installed_in(assembly) if entry.name.startswith("Helm chart")]


def test_what_an_endpoint_needs_is_installed_with_the_cluster(reference_deployment: Deployment) -> None:
    assembly = synthesized(with_tls(reference_deployment, Controllers()))

    (found,) = (entry for entry in installed_in(assembly) if entry.name == f"Helm chart {BALANCERS}")
    assert (found.stack, found.version) == ("reference-cluster", "1.13.2")


def test_what_no_endpoint_needs_is_not_installed(reference_assembly: Assembly) -> None:
    assert charts(reference_assembly) == []


def test_what_is_there_already_is_taken_as_it_is(reference_deployment: Deployment) -> None:
    assembly = synthesized(with_tls(reference_deployment, Controllers(load_balancer="existing")))

    assert charts(assembly) == []


def test_of_an_existing_cluster_it_must_be_said() -> None:
    with pytest.raises(
        ConfigError, match=r"controllers\.loadBalancer is not set; expected existing, or install"
    ):
        synthesized(with_tls(load_deployment(ADOPT), Controllers()))


@pytest.mark.parametrize(("mode", "expected"), [("existing", []), ("install", [f"Helm chart {BALANCERS}"])])
def test_on_an_existing_cluster_it_is_as_it_was_said(mode: str, expected: list[str]) -> None:
    assert charts(synthesized(with_tls(load_deployment(ADOPT), Controllers(load_balancer=mode)))) == expected


@pytest.mark.parametrize(
    ("controllers", "enabled"),
    [
        pytest.param(Controllers(), (True, True), id="its own"),
        pytest.param(Controllers(keda="existing"), (True, False), id="KEDA is there"),
        pytest.param(Controllers(load_balancer="existing"), (False, True), id="balancers are there"),
    ],
)
def test_the_operator_leaves_out_what_is_there(
    controllers: Controllers, enabled: tuple[bool, bool], reference_deployment: Deployment
) -> None:
    assembly = synthesized(with_tls(reference_deployment, controllers, serving="operator"))

    (values,) = (
        str(addon.get("ConfigurationValues")).replace("\\\\", "")
        for addon in assembly.of_type("AWS::EKS::Addon")
        if addon.get("AddonName") == "amazon-sagemaker-hyperpod-inference"
    )
    assert charts(assembly) == []
    for key, switch in zip(("alb", "keda"), enabled, strict=True):
        assert f'"{key}":{{"enabled":{str(switch).lower()}' in values.replace("\\", "")
