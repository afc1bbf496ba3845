"""TLS between routers, the exporter and engines: one key, and everything that goes with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from fakes_charts import SPLIT, deployment
from kubernetes_gate import findings

from hypertier.errors import ConfigError
from hypertier.spec.arguments import option_value
from hypertier.spec.deployment import Deployment, Scaling
from hypertier.spec.routing import EngineTls, IssuerRef, Routing
from hypertier_cdk.charts.render import render

ISSUER = IssuerRef(name="internal-ca", kind="ClusterIssuer")
OWN_PROBE = {"readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "timeoutSeconds": 7}}


def with_tls(tls: EngineTls, changes: Mapping[str, Any] | None = None) -> Deployment:
    return deployment(changes, routing=Routing(engine_tls=tls), scaling=Scaling())


def pods_of(wanted: Deployment) -> dict[str, dict[str, Any]]:
    """Pods by the component of their Deployment."""
    return {
        entry["metadata"]["labels"]["app.kubernetes.io/component"]: entry["spec"]["template"]["spec"]
        for entry in render(wanted)
        if entry["kind"] == "Deployment"
    }


def secrets_of(pod: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Where the pod's container finds which Secret, and what of it."""
    folders = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    return {
        folders[volume["name"]]: {key: volume["secret"].get(key) for key in ("secretName", "items")}
        for volume in pod["volumes"]
        if "secret" in volume
    }


def certificates_of(wanted: Deployment) -> dict[str, dict[str, Any]]:
    found = [entry for entry in render(wanted) if entry["kind"] == "Certificate"]
    return {entry["metadata"]["name"]: entry["spec"] for entry in found}


@pytest.mark.parametrize(
    "tls", [EngineTls(), EngineTls(mutual=True), EngineTls(mutual=True, issuer_ref=ISSUER)], ids=str
)
def test_what_is_rendered_is_what_kubernetes_takes(tls: EngineTls) -> None:
    assert findings(render(with_tls(tls)), "1.35") == []


@pytest.mark.parametrize("component", ["router", "exporter"])
def test_who_speaks_to_engines_knows_who_signed_for_them_and_nothing_of_their_key(component: str) -> None:
    pod = pods_of(with_tls(EngineTls()))[component]
    args = pod["containers"][0]["args"]

    assert option_value(args, "--replica-ca") == "/etc/hypertier/engine-ca/ca.crt"
    assert option_value(args, "--replica-server-name") == "llama-70b-engine.inference.svc"
    assert option_value(args, "--replica-cert") is None
    assert secrets_of(pod) == {
        "/etc/hypertier/engine-ca": {
            "secretName": "llama-70b-engine-tls",
            "items": [{"key": "ca.crt", "path": "ca.crt"}],
        }
    }


def test_engines_serve_by_tls_and_read_changed_files() -> None:
    pod = pods_of(with_tls(EngineTls(secret_name="mine")))["engine"]
    args = pod["containers"][0]["args"]

    assert option_value(args, "--ssl-certfile") == "/etc/hypertier/engine-tls/tls.crt"
    assert option_value(args, "--ssl-keyfile") == "/etc/hypertier/engine-tls/tls.key"
    assert "--enable-ssl-refresh" in args
    assert "--ssl-cert-reqs" not in args
    assert secrets_of(pod) == {"/etc/hypertier/engine-tls": {"secretName": "mine", "items": None}}


def test_probes_ask_by_https_the_manifests_own_too() -> None:
    container = pods_of(with_tls(EngineTls(), {"spec.worker.probes": OWN_PROBE}))["engine"]["containers"][0]

    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[name]["httpGet"]["scheme"] == "HTTPS"
    assert container["readinessProbe"]["timeoutSeconds"] == 7


def test_both_sides_show_certificates_where_tls_is_mutual_and_the_engine_asks_itself() -> None:
    pods = pods_of(with_tls(EngineTls(mutual=True), {"spec.worker.probes": OWN_PROBE}))
    engine = pods["engine"]["containers"][0]

    assert option_value(engine["args"], "--ssl-ca-certs") == "/etc/hypertier/engine-tls/ca.crt"
    assert option_value(engine["args"], "--ssl-cert-reqs") == "2"
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        command = engine[name]["exec"]["command"]
        assert command[:4] == ["python3", "-m", "hypertier.tier.probe", "https://127.0.0.1:8000/health"]
        assert option_value(command, "--server-name") == "llama-70b-engine.inference.svc"
        assert "httpGet" not in engine[name]
    assert engine["readinessProbe"]["timeoutSeconds"] == 7
    for component in ("router", "exporter"):
        args = pods[component]["containers"][0]["args"]
        assert option_value(args, "--replica-cert") == "/etc/hypertier/client-tls/tls.crt"
        assert option_value(args, "--replica-key") == "/etc/hypertier/client-tls/tls.key"
        assert (
            secrets_of(pods[component])["/etc/hypertier/client-tls"]["secretName"] == "llama-70b-client-tls"
        )


def test_an_issuer_makes_the_secrets_and_without_one_they_are_there() -> None:
    made = certificates_of(with_tls(EngineTls(mutual=True, issuer_ref=ISSUER)))

    assert certificates_of(with_tls(EngineTls(mutual=True))) == {}
    assert made.keys() == {"llama-70b-engine-tls", "llama-70b-client-tls"}
    engine, client = made["llama-70b-engine-tls"], made["llama-70b-client-tls"]
    assert engine["secretName"] == "llama-70b-engine-tls"
    assert engine["dnsNames"] == ["llama-70b-engine.inference.svc"]
    assert engine["usages"] == ["server auth", "client auth"]
    assert client["usages"] == ["client auth"]
    assert client["issuerRef"] == {"name": "internal-ca", "kind": "ClusterIssuer", "group": "cert-manager.io"}


def test_engines_of_both_kinds_have_it() -> None:
    pods = pods_of(with_tls(EngineTls(mutual=True), {"spec.pdSpec": SPLIT}))

    for component in ("prefill", "decode"):
        assert "--ssl-certfile" in pods[component]["containers"][0]["args"]
        assert secrets_of(pods[component]).keys() == {"/etc/hypertier/engine-tls"}


def test_without_the_key_there_is_nothing_of_it() -> None:
    text = str(render(deployment()))

    for word in ("--ssl-", "--replica-ca", "HTTPS", "hypertier.tier.probe", "Certificate'"):
        assert word not in text


@pytest.mark.parametrize("argument", ["--ssl-certfile=/x", "--ssl_keyfile", "--enable-ssl-refresh"])
def test_tls_of_the_manifests_own_is_refused(argument: str) -> None:
    name = argument.partition("=")[0].replace("_", "-")

    with pytest.raises(ConfigError, match=rf"args {name} is '.*'; expected no such argument: routing"):
        render(deployment({"spec.worker.args": ["--port", "8000", argument]}))


@pytest.mark.parametrize("kind", ["prefillSpec", "decodingSpec"])
def test_tls_of_one_kind_of_engines_alone_is_refused(kind: str) -> None:
    written = {"spec.pdSpec": {"prefillSpec": {}, "decodingSpec": {}, kind: {"args": ["--ssl-certfile=/x"]}}}

    with pytest.raises(ConfigError, match=rf"pdSpec\.{kind}\.args --ssl-certfile is '.*'; expected no such"):
        render(deployment(written, scaling=Scaling()))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        pytest.param({"secret_name": "A B"}, r"secretName is 'A B'; expected the name", id="no-secret"),
        pytest.param({"client_secret_name": "x"}, r"clientSecretName is 'x'; expected mut", id="not-mutual"),
        pytest.param({"server_name": "a b"}, r"serverName is 'a b'; expected a DNS name", id="no-name"),
        pytest.param({"secret_name": "x", "issuer_ref": ISSUER}, r"secretName is 'x'; expected no", id="two"),
    ],
)
def test_what_can_not_work_is_refused_by_name(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=rf"routing\.engineTls\.{message}"):
        EngineTls(**wrong)


def test_an_issuer_that_cert_manager_could_not_find_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"engineTls\.issuerRef\.kind is 'A 1'; expected an issuer"):
        IssuerRef(name="a", kind="A 1")
