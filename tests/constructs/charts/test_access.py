"""Routers of a deployment that asks who asks: files, flags and ways out, all of them or none."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from fakes_charts import deployment

from hypertier.errors import ConfigError
from hypertier.router.access import keys
from hypertier.router.access.files import AccessFiles
from hypertier.spec.access import Access, Jwt, Queue, Tenant, TenantDefault
from hypertier_cdk.charts.inputs import ChartInputs
from hypertier_cdk.charts.objects import endpoint_objects

JWT = Jwt(jwks="https://issuer.example:8443/jwks", issuer="https://issuer.example", audience="inference")
ACCESS = Access(
    secret_name="router-access",
    jwt=JWT,
    tenants=(Tenant(name="acme", requests_per_minute=600, weight=4.0),),
    default=TenantDefault(tokens_per_minute=1000),
    queue=Queue(max_in_flight_per_replica=32),
)


def objects_of(access: Access | None) -> list[dict[str, Any]]:
    wanted = deployment(access=access)
    return endpoint_objects(wanted, wanted.endpoints[0], ChartInputs())


def of_router(access: Access | None, kind: str) -> list[dict[str, Any]]:
    return [
        entry
        for entry in objects_of(access)
        if entry["kind"] == kind and entry["metadata"]["labels"]["app.kubernetes.io/component"] == "router"
    ]


def test_without_the_section_nothing_of_it_is_there() -> None:
    [router] = of_router(None, "Deployment")

    pod = router["spec"]["template"]["spec"]
    assert of_router(None, "ConfigMap") == []
    assert [volume["name"] for volume in pod["volumes"]] == ["tmp", "routes"]
    assert not {"--access", "--api-keys", "--salt-key"} & set(pod["containers"][0]["args"])


def test_the_router_reads_the_section_from_its_config_map(tmp_path: Path) -> None:
    [config] = of_router(ACCESS, "ConfigMap")
    files = {
        "access.yaml": config["data"]["access.yaml"],
        "keys": keys.line("sk-ht-x", "acme", None),
        "salt-key": base64.b64encode(bytes(32)).decode(),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    access, ring, _ = AccessFiles(*(str(tmp_path / name) for name in files)).read()

    assert access == Access(jwt=JWT, tenants=ACCESS.tenants, default=ACCESS.default, queue=ACCESS.queue)
    assert "router-access" not in files["access.yaml"]
    assert len(ring) == 1


def test_every_file_of_a_flag_is_mounted() -> None:
    [router] = of_router(ACCESS, "Deployment")

    pod = router["spec"]["template"]["spec"]
    [container] = pod["containers"]
    arguments = container["args"]
    folders = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    sources = {}
    for flag in ("--access", "--api-keys", "--salt-key"):
        folder, _, name = arguments[arguments.index(flag) + 1].rpartition("/")
        sources[flag, name] = volumes[folders[folder]]
    assert sources["--access", "access.yaml"]["configMap"] == {"name": "llama-70b-access"}
    assert sources["--api-keys", "keys"] is sources["--salt-key", "salt-key"]
    assert sources["--api-keys", "keys"]["secret"]["secretName"] == "router-access"
    assert all(mount["readOnly"] for mount in container["volumeMounts"] if mount["name"] != "tmp")


def test_routers_reach_who_issues_jwts_and_only_then() -> None:
    def ports(access: Access) -> set[int]:
        [policy] = of_router(access, "NetworkPolicy")
        return {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]}

    without = Access(secret_name="router-access")

    assert ports(ACCESS) - ports(without) == {8443}


def test_the_config_map_is_there_before_the_router() -> None:
    kinds = [entry["kind"] for entry in objects_of(ACCESS)]

    assert kinds.index("ConfigMap") < kinds.index("Deployment")


@pytest.mark.parametrize(
    ("access", "serving", "setting"),
    [
        pytest.param(ACCESS, "operator", "access", id="operator"),
        pytest.param(Access(jwt=JWT), "selfhosted", "access.secretName", id="no-salt"),
        pytest.param(Access(tenants=ACCESS.tenants), "selfhosted", "access.secretName", id="no-keys"),
    ],
)
def test_what_no_router_could_keep_is_refused(access: Access, serving: str, setting: str) -> None:
    with pytest.raises(ConfigError, match=setting):
        deployment(access=access, serving=serving)


@pytest.mark.parametrize(
    "access", [Access(jwt=JWT, shared_cache=True), Access(queue=Queue(max_in_flight_per_replica=1))]
)
def test_what_needs_no_secret_has_none(access: Access) -> None:
    [router] = of_router(access, "Deployment")

    assert "--access" in router["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--api-keys" not in router["spec"]["template"]["spec"]["containers"][0]["args"]


def test_the_section_is_yaml_that_people_can_read() -> None:
    [config] = of_router(ACCESS, "ConfigMap")

    assert yaml.safe_load(config["data"]["access.yaml"])["access"]["queue"] == {
        "maxInFlightPerReplica": 32,
        "size": 1024,
        "timeout": "30s",
    }
