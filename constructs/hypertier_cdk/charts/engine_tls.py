"""TLS between routers, the exporter and engines, as `routing.engineTls` has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hypertier.spec.arguments import PLACES, option_name
from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier.spec.routing import ENGINE_TLS_ARGUMENTS, EngineTls
from hypertier_cdk.charts.inputs import refuse
from hypertier_cdk.charts.names import Names
from hypertier_cdk.charts.pods import Object, http_probe, metadata

ENGINE_FOLDER = "/etc/hypertier/engine-tls"  # in engines: their own certificate
CA_FOLDER = "/etc/hypertier/engine-ca"  # in those that ask them: who signed it
CLIENT_FOLDER = "/etc/hypertier/client-tls"  # and what they show
CERT, KEY, CA = "tls.crt", "tls.key", "ca.crt"  # as cert-manager has them in its Secrets
CERT_REQUIRED = 2  # of Python's ssl module, which vLLM hands it to


def engine_secret(tls: EngineTls, names: Names) -> str:
    """The Secret with the engines' certificate."""
    return tls.secret_name or names.of("engine-tls")


def client_secret(tls: EngineTls, names: Names) -> str:
    """The Secret with what routers and the exporter show to engines."""
    return tls.client_secret_name or names.of("client-tls")


def server_name(tls: EngineTls, names: Names) -> str:
    """What stands in the engines' certificate: one name for all, since addresses of pods come and go."""
    return tls.server_name or f"{names.of('engine')}.{names.namespace}.svc"


def check_arguments(endpoint: InferenceEndpointConfig) -> None:
    """Refuse TLS of the manifest's own, of which routers, the exporter and probes would know nothing.

    Raises:
        ConfigError: names the argument.
    """
    for where, words in _written(endpoint):
        for word in words or ():
            name = option_name(word)
            if name in ENGINE_TLS_ARGUMENTS:
                raise refuse(
                    endpoint,
                    f"{where} {name}",
                    word,
                    "no such argument: routing.engineTls of the deployment file sets it, for routers, "
                    "exporter and probes as well",
                )


def _written(endpoint: InferenceEndpointConfig) -> Iterator[tuple[str, Sequence[str] | None]]:
    every, *of_kinds = PLACES
    yield every, endpoint.spec.worker.args
    for where in of_kinds:
        kind, name = where.split(".")[-2:]
        yield where, ((endpoint.spec.pd_spec or {}).get(kind) or {}).get(name)


def engine_tls_arguments(tls: EngineTls | None) -> list[str]:
    """vLLM's, which reads files that change anew."""
    if tls is None:
        return []
    arguments = ["--ssl-certfile", f"{ENGINE_FOLDER}/{CERT}", "--ssl-keyfile", f"{ENGINE_FOLDER}/{KEY}"]
    arguments.append("--enable-ssl-refresh")
    if tls.mutual:
        arguments += ["--ssl-ca-certs", f"{ENGINE_FOLDER}/{CA}", "--ssl-cert-reqs", str(CERT_REQUIRED)]
    return arguments


def engine_mounts(tls: EngineTls | None) -> list[Object]:
    """Of an engine's container; a folder, since a single file mounted would never change."""
    return [] if tls is None else [{"name": "engine-tls", "mountPath": ENGINE_FOLDER, "readOnly": True}]


def engine_volumes(tls: EngineTls | None, names: Names) -> list[Object]:
    """Of an engine's pod."""
    return [] if tls is None else [_secret("engine-tls", engine_secret(tls, names))]


def client_files(tls: EngineTls, names: Names) -> dict[str, Any]:
    """What speaks to engines is told so: the router and the exporter, by flags of the same names."""
    files = {"replica_ca": f"{CA_FOLDER}/{CA}", "replica_server_name": server_name(tls, names)}
    if tls.mutual:
        files |= {"replica_cert": f"{CLIENT_FOLDER}/{CERT}", "replica_key": f"{CLIENT_FOLDER}/{KEY}"}
    return files


def client_mounts(tls: EngineTls | None) -> list[Object]:
    """Of a container that speaks to engines."""
    if tls is None:
        return []
    mounts = [{"name": "engine-ca", "mountPath": CA_FOLDER, "readOnly": True}]
    if tls.mutual:
        mounts.append({"name": "client-tls", "mountPath": CLIENT_FOLDER, "readOnly": True})
    return mounts


def client_volumes(tls: EngineTls | None, names: Names) -> list[Object]:
    """Of its pod: of the engines' Secret no more than who signed, and its own certificate."""
    if tls is None:
        return []
    ca: Object = _secret("engine-ca", engine_secret(tls, names))
    ca["secret"]["items"] = [{"key": CA, "path": CA}]
    return [ca, *([_secret("client-tls", client_secret(tls, names))] if tls.mutual else ())]


def engine_probe(tls: EngineTls | None, names: Names, port: int, path: str, **timing: int) -> Object:
    """Asks an engine for its health: the kubelet, which has no certificate, or the engine's own container."""
    if tls is None or not tls.mutual:
        return http_probe(path, "http", tls=tls is not None, **timing)
    command = ["python3", "-m", "hypertier.tier.probe", f"https://127.0.0.1:{port}{path}"]
    command += ["--folder", ENGINE_FOLDER, "--server-name", server_name(tls, names)]
    return {"exec": {"command": command}, **timing}


def written_probe(tls: EngineTls | None, names: Names, port: int, probe: Mapping[str, Any]) -> Object:
    """A probe of the manifest's, which says nothing of TLS."""
    asked = probe.get("httpGet")
    if tls is None or asked is None:
        return dict(probe)
    rest = {name: value for name, value in probe.items() if name != "httpGet"}
    if tls.mutual:
        return {**engine_probe(tls, names, port, str(asked.get("path") or "/")), **rest}
    return {"httpGet": {**asked, "scheme": "HTTPS"}, **rest}


def certificates(deployment: Deployment, names: Names) -> list[Object]:
    """What cert-manager makes the Secrets of, where an issuer is named; nothing where they are the user's."""
    tls = deployment.routing.engine_tls
    if tls is None or tls.issuer_ref is None:
        return []
    name = server_name(tls, names)
    # an engine's own probe shows its certificate, too
    made = [_certificate(tls, names, "engine-tls", [name], ["server auth", "client auth"])]
    if tls.mutual:
        client = f"{names.of('client')}.{names.namespace}.svc"
        made.append(_certificate(tls, names, "client-tls", [client], ["client auth"]))
    return made


def _certificate(
    tls: EngineTls, names: Names, component: str, dns_names: Sequence[str], usages: Sequence[str]
) -> Object:
    issuer = tls.issuer_ref
    assert issuer is not None
    return {
        "apiVersion": "cert-manager.io/v1",
        "kind": "Certificate",
        "metadata": metadata(names, component),
        "spec": {
            "secretName": names.of(component),
            "dnsNames": list(dns_names),
            "usages": list(usages),
            "privateKey": {"rotationPolicy": "Always"},
            "issuerRef": {"name": issuer.name, "kind": issuer.kind, "group": issuer.group},
        },
    }


def _secret(volume: str, secret: str) -> Object:
    """Where the Secret is missing, no pod starts."""
    return {"name": volume, "secret": {"secretName": secret, "defaultMode": 0o440}}
