"""The engines: sized from the plan, started by the manifest, given time to come and to go."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from fakes_charts import HUGGING_FACE, SPLIT, TIERED, deployment
from kubernetes_gate import amount

from hypertier.errors import ConfigError
from hypertier.planning.engine import plan_engine
from hypertier.spec.cache_tiers import L2, ExistingStore, L2Tenant
from hypertier.spec.deployment import Deployment, Scaling
from hypertier.spec.roles import roles_of
from hypertier.tier.launch import CacheSettings
from hypertier.tier.launch import main as launch
from hypertier.tier.preflight import option
from hypertier_cdk.charts.engine import EXIT_SECONDS, LAMEDUCK_SECONDS
from hypertier_cdk.charts.engine_arguments import cache_settings
from hypertier_cdk.charts.inputs import ChartInputs
from hypertier_cdk.charts.names import names_of
from hypertier_cdk.charts.objects import endpoint_objects

GIB = 2**30


def pod_of(wanted: Deployment, inputs: ChartInputs | None = None) -> dict[str, Any]:
    objects = endpoint_objects(wanted, wanted.endpoints[0], inputs or ChartInputs())
    engine = next(
        e for e in objects if e["kind"] == "Deployment" and e["metadata"]["name"].endswith("-engine")
    )
    pod: dict[str, Any] = engine["spec"]["template"]["spec"]
    return pod


def container_of(wanted: Deployment, inputs: ChartInputs | None = None) -> dict[str, Any]:
    container: dict[str, Any] = pod_of(wanted, inputs)["containers"][0]
    return container


def environment_of(wanted: Deployment, inputs: ChartInputs | None = None) -> dict[str, Any]:
    return {entry["name"]: entry.get("value") for entry in container_of(wanted, inputs)["env"]}


def test_shared_memory_holds_l1_and_a_share_for_each_gpu() -> None:
    shm = next(volume for volume in pod_of(deployment())["volumes"] if volume["name"] == "shm")

    assert shm["emptyDir"]["medium"] == "Memory"
    assert amount(shm["emptyDir"]["sizeLimit"]) == (800 + 8) * GIB


def test_memory_is_requested_as_limited_and_is_what_the_plan_says() -> None:
    wanted = deployment()

    resources = container_of(wanted)["resources"]

    planned = plan_engine(wanted, wanted.endpoints[0])
    assert amount(resources["requests"]["memory"]) == planned.memory_bytes
    assert resources["limits"]["memory"] == resources["requests"]["memory"]
    assert resources["limits"]["nvidia.com/gpu"] == planned.gpus == 8


def test_other_resources_of_the_manifest_are_kept() -> None:
    asked = {
        "requests": {"vpc.amazonaws.com/efa": 32},
        "limits": {"vpc.amazonaws.com/efa": 32, "nvidia.com/gpu": 8},
    }

    resources = container_of(deployment({"spec.worker.resources": asked}))["resources"]

    assert (
        resources["requests"]["vpc.amazonaws.com/efa"] == resources["limits"]["vpc.amazonaws.com/efa"] == 32
    )


def test_the_manifest_s_arguments_come_first_and_unchanged() -> None:
    wanted = deployment()

    arguments = container_of(wanted)["args"]

    written = list(wanted.endpoints[0].spec.worker.args or ())
    assert arguments[: len(written)] == written


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(None, ["/opt/ml/model"], id="the model"),
        pytest.param(None, ["--served-model-name", "Llama-3.1-70B-Instruct"], id="its name"),
        pytest.param(None, ["--tensor-parallel-size", "8"], id="its GPUs"),
        pytest.param(None, ["--port", "8000"], id="the port"),
        pytest.param(["--model", "/x"], ["--model", "/x", "--served-model-name"], id="no second model"),
        pytest.param(["/x", "-tp", "4"], ["/x", "-tp", "4", "--served-model-name"], id="no second size"),
    ],
)
def test_what_follows_from_the_manifest_is_added_where_it_is_not_written(
    written: list[str] | None, expected: list[str]
) -> None:
    arguments = " ".join(container_of(deployment({"spec.worker.args": written}))["args"])

    assert " ".join(expected) in arguments
    assert arguments.count("-tp") + arguments.count("--tensor-parallel-size") == 1


@pytest.mark.parametrize(
    ("changes", "l1", "tiers"),
    [
        pytest.param({}, 800 * GIB, 1, id="both tiers"),
        pytest.param({"spec.kvCacheSpec.enableL2Cache": False}, 800 * GIB, 0, id="L1 alone"),
        pytest.param(
            {"spec.kvCacheSpec.enableL1Cache": False}, 32 * GIB, 1, id="L2 alone, through staging memory"
        ),
    ],
)
def test_the_cache_is_what_the_manifest_asks_for(changes: dict[str, Any], l1: int, tiers: int) -> None:
    config = json.loads(option(container_of(deployment(changes))["args"], "--kv-transfer-config") or "")

    extra = config["kv_connector_extra_config"]
    assert extra["cpu_bytes_to_use"] == l1
    assert len(extra.get("secondary_tiers", ())) == tiers


def test_tenants_and_events_of_the_deployment_reach_the_tier() -> None:
    plain = deployment({"spec.intelligentRoutingSpec": {"enabled": True, "routingStrategy": "kvaware"}})
    tenants = (L2Tenant(name="acme", quota="100Gi", ttl="1h"), L2Tenant(name="*", quota="0"))
    wanted = replace(plain, cache=replace(plain.cache, l2=L2(tenants=tenants, kv_events=True)))

    config = json.loads(option(container_of(wanted)["args"], "--kv-transfer-config") or "")

    (tier,) = config["kv_connector_extra_config"]["secondary_tiers"]
    assert tier["tenants"] == {
        "*": {"quota_bytes": 0},
        "acme": {"quota_bytes": 100 * GIB, "ttl_seconds": 3600},
    }
    assert tier["enable_kv_events"] is True
    assert config["kv_connector_module_path"] == "hypertier.tier.connector"


def test_the_tier_is_told_what_the_plan_expects_of_gpus_and_store() -> None:
    config = json.loads(option(container_of(deployment({}))["args"], "--kv-transfer-config") or "")

    (tier,) = config["kv_connector_extra_config"]["secondary_tiers"]
    assert tier["prior_prefill_tokens_per_second"] == 20_830  # as `hypertier plan` prints it
    assert tier["prior_l2_bytes_per_second"] == 4 * 625_000_000  # four connections, less than the store has


def test_of_a_store_that_exists_nothing_is_expected() -> None:
    plain = deployment({})
    store = ExistingStore(
        url="rediss://l2.example.com:6379",
        secret_arn="arn:aws:secretsmanager:us-west-2:123456789012:secret:l2-AbCdEf",
    )
    wanted = replace(plain, cache=replace(plain.cache, l2=L2(existing=store)))
    config = json.loads(option(container_of(wanted)["args"], "--kv-transfer-config") or "")

    (tier,) = config["kv_connector_extra_config"]["secondary_tiers"]
    assert "prior_l2_bytes_per_second" not in tier


def test_the_key_of_encryption_comes_from_the_secret_that_is_named() -> None:
    plain = deployment({})
    wanted = replace(plain, cache=replace(plain.cache, l2=L2(encryption_secret="kv-key")))

    found = {entry["name"]: entry for entry in container_of(wanted)["env"]}

    reference = {"name": "kv-key", "key": "key"}
    assert found["HYPERTIER_L2_KEY"] == {
        "name": "HYPERTIER_L2_KEY",
        "valueFrom": {"secretKeyRef": reference},
    }
    assert "HYPERTIER_L2_KEY" not in environment_of(plain)


def test_a_key_of_encryption_that_secrets_manager_keeps_is_named_by_its_arn() -> None:
    arn = "arn:aws:secretsmanager:us-west-2:123456789012:secret:kv-key-AbCdEf"
    plain = deployment({})
    wanted = replace(plain, cache=replace(plain.cache, l2=L2(encryption_secret=arn)))

    environment = environment_of(wanted)

    assert environment["HYPERTIER_L2_KEY_SECRET_ARN"] == arn
    assert "HYPERTIER_L2_KEY" not in environment


def test_without_a_cache_nothing_is_configured() -> None:
    wanted = deployment({"spec.kvCacheSpec": None})

    assert option(container_of(wanted)["args"], "--kv-transfer-config") is None
    assert "HYPERTIER_L2_URL" not in environment_of(wanted)


def test_the_arguments_are_those_that_the_engine_s_own_check_reads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr("os.execve", lambda _path, argv, _env: started.append(argv))
    monkeypatch.setattr("hypertier.tier.launch.check_engine", lambda *_: "a plan")
    container = container_of(deployment())

    launch([container["command"][-1], *container["args"]])

    assert started[0][3:5] == ["--model", "/opt/ml/model"]
    assert "a plan" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("inputs", "changes", "url"),
    [
        pytest.param(
            ChartInputs(l2_url="rediss://made.example:6379"), {}, "rediss://made.example:6379", id="from AWS"
        ),
        pytest.param(
            ChartInputs(), {}, "rediss://llama-cache.hypertier.internal:6379", id="from the manifest"
        ),
        pytest.param(
            ChartInputs(l2_url="rediss://${Token[TOKEN.7]}:6379"),
            {},
            "rediss://${Token[TOKEN.7]}:6379",
            id="known at deployment",
        ),
        pytest.param(
            ChartInputs(),
            {"spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl": None},
            "rediss://l2.placeholder.invalid:6379",
            id="a placeholder",
        ),
    ],
)
def test_l2_is_where_aws_the_manifest_or_a_placeholder_says(
    inputs: ChartInputs, changes: dict[str, Any], url: str
) -> None:
    assert environment_of(deployment(changes), inputs)["HYPERTIER_L2_URL"] == url


def test_a_placeholder_is_annotated_with_how_to_replace_it() -> None:
    wanted = deployment({"spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl": None})

    objects = endpoint_objects(
        wanted, wanted.endpoints[0], ChartInputs(engine_image="e:1", router_image="r:1")
    )

    notes = {
        e["metadata"]["name"]: e["metadata"].get("annotations") for e in objects if e["kind"] == "Deployment"
    }
    assert "l2CacheLocalUrl" in notes["llama-70b-engine"]["hypertier.dev/placeholders"]
    assert not notes["llama-70b-router"]


def test_the_secret_is_named_and_never_written() -> None:
    arn = "arn:aws:secretsmanager:us-west-2:123456789012:secret:l2"

    environment = environment_of(deployment(), ChartInputs(l2_secret_arn=arn))

    assert environment["HYPERTIER_L2_SECRET_ARN"] == arn
    assert "HYPERTIER_L2_PASSWORD" not in environment


def test_variables_of_the_manifest_are_kept_and_win() -> None:
    variables = [
        {"name": "PYTHONHASHSEED", "value": "123"},
        {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}},
    ]

    entries = container_of(deployment({"spec.worker.environmentVariables": variables}))["env"]

    assert entries[:2] == variables
    assert [entry["name"] for entry in entries].count("PYTHONHASHSEED") == 1


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [pytest.param(3600, 3600, id="longer than the plan"), pytest.param(60, 600, id="shorter than the plan")],
)
def test_the_startup_probe_waits_for_the_model_to_load(seconds: int, expected: int) -> None:
    wanted = deployment({"spec.maxDeployTimeInSeconds": seconds})

    probe = container_of(wanted)["startupProbe"]

    planned = plan_engine(wanted, wanted.endpoints[0]).startup_seconds
    assert planned == 600
    assert probe["periodSeconds"] * probe["failureThreshold"] == expected


def test_probes_of_the_manifest_are_taken_as_they_are() -> None:
    written = {"httpGet": {"path": "/v1/models", "port": 8000}, "periodSeconds": 7}

    container = container_of(deployment({"spec.worker.probes": {"livenessProbe": written}}))

    assert container["livenessProbe"] == written
    assert container["readinessProbe"]["httpGet"] == {"path": "/health", "port": "http"}


@pytest.mark.parametrize("drain", [0, 120, 900])
def test_the_grace_period_outlasts_lame_duck_and_drain(drain: int) -> None:
    args = ["/opt/ml/model", "--shutdown-timeout", str(drain)]

    pod = pod_of(deployment({"spec.worker.args": args}))

    assert pod["terminationGracePeriodSeconds"] == LAMEDUCK_SECONDS + drain + EXIT_SECONDS
    assert pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"] == LAMEDUCK_SECONDS


def test_engines_stay_on_the_nodes_of_their_instance_group() -> None:
    pod = pod_of(deployment())

    assert pod["nodeSelector"] == {"sagemaker.amazonaws.com/instance-group-name": "gpu"}
    assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in pod["tolerations"]


@pytest.mark.parametrize(
    ("limits", "cpu"),
    [
        pytest.param({"nvidia.com/gpu": 8}, "172", id="what the node has"),
        pytest.param({"nvidia.com/gpu": 8, "cpu": "48"}, "48", id="no more than the limit"),
        pytest.param({"nvidia.com/gpu": 8, "cpu": "1500m"}, "1500m", id="parts of a core"),
    ],
)
def test_no_more_cpu_is_requested_than_may_be_used(limits: dict[str, Any], cpu: str) -> None:
    resources = container_of(deployment({"spec.worker.resources": {"limits": limits}}))["resources"]

    assert resources["requests"]["cpu"] == cpu


def test_a_device_that_is_requested_or_limited_is_both() -> None:
    asked = {"requests": {"vpc.amazonaws.com/efa": 32}, "limits": {"nvidia.com/gpu": 8, "example.com/x": 1}}

    resources = container_of(deployment({"spec.worker.resources": asked}))["resources"]

    for name in ("vpc.amazonaws.com/efa", "example.com/x"):
        assert resources["requests"][name] == resources["limits"][name]


def test_weights_that_are_downloaded_have_their_room_on_the_node_s_disk() -> None:
    wanted = deployment({"spec.modelSourceConfig": HUGGING_FACE})

    resources = container_of(wanted)["resources"]

    assert amount(resources["requests"]["ephemeral-storage"]) > 70.6e9 * 2
    assert "ephemeral-storage" not in container_of(deployment())["resources"]["requests"]


def test_disk_is_requested_and_limited_as_it_is_written() -> None:
    asked = {
        "requests": {"ephemeral-storage": "10Gi"},
        "limits": {"ephemeral-storage": "20Gi", "nvidia.com/gpu": 8},
    }

    resources = container_of(deployment({"spec.worker.resources": asked}))["resources"]

    assert resources["requests"]["ephemeral-storage"] == "10Gi"
    assert resources["limits"]["ephemeral-storage"] == "20Gi"


def test_a_service_account_of_the_user_s_own_is_used_and_not_made() -> None:
    wanted = deployment({"spec.kubernetes": {"serviceAccountName": "mine"}})

    objects = endpoint_objects(wanted, wanted.endpoints[0], ChartInputs())

    accounts = [e["metadata"]["name"] for e in objects if e["kind"] == "ServiceAccount"]
    assert (
        pod_of(wanted)["serviceAccountName"] == names_of(wanted, wanted.endpoints[0]).role("engine") == "mine"
    )
    assert accounts == ["llama-70b-router", "llama-70b-exporter"]


def test_an_init_container_of_the_user_s_own_keeps_the_namespace_s_standard() -> None:
    container = {"name": "warm", "image": "warm:1", "command": ["warm"]}

    pod = pod_of(deployment({"spec.kubernetes": {"initContainers": [container]}}))

    assert pod["initContainers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["initContainers"][0]["command"] == ["warm"]


def test_fields_without_effect_are_named_on_the_engines() -> None:
    wanted = deployment(
        {
            "spec.tags": [{"name": "team", "value": "llm"}],
            "spec.loadBalancer": {"routingAlgorithm": "round_robin"},
        }
    )

    objects = endpoint_objects(wanted, wanted.endpoints[0], ChartInputs())

    engine = next(e for e in objects if e["kind"] == "Deployment")
    assert engine["metadata"]["annotations"]["hypertier.dev/without-effect"] == (
        "spec.loadBalancer.routingAlgorithm; spec.tags"
    )


BAD_MANIFESTS = {
    "a port that is not the container's": (
        {"spec.worker.args": ["/opt/ml/model", "--port", "9000"]},
        r"llama-70b: spec\.worker\.args --port is '9000'; expected 8000",
    ),
    "a transfer config of one's own": (
        {"spec.worker.args": ["/opt/ml/model", "--kv-transfer-config={}"]},
        r"spec\.worker\.args --kv-transfer-config is '{}'; expected no such argument",
    ),
    "a transfer config of one's own, in short": (
        {"spec.worker.args": ["/opt/ml/model", "--kv-tr={}"]},
        r"spec\.worker\.args --kv-transfer-config is '{}'; expected no such argument",
    ),
    "an engine on several nodes": (
        {"spec.worker.args": ["/opt/ml/model", "-n", "2"]},
        r"spec\.worker\.args --nnodes is '2'; expected 1: a replica is one pod on one node",
    ),
    "a drain that is no time": (
        {"spec.worker.args": ["/opt/ml/model", "--shutdown-timeout", "2m"]},
        r"spec\.worker\.args --shutdown-timeout is '2m'; expected a whole number of seconds",
    ),
    "more CPU than may be used": (
        {"spec.worker.resources": {"requests": {"cpu": "96"}, "limits": {"cpu": 48, "nvidia.com/gpu": 8}}},
        r"spec\.worker\.resources\.limits\.cpu is 48; expected 96 or more",
    ),
    "CPU in no unit of Kubernetes": (
        {"spec.worker.resources": {"limits": {"cpu": "48 cores", "nvidia.com/gpu": 8}}},
        r"spec\.worker\.resources\.limits\.cpu is '48 cores'; expected a number",
    ),
    "less disk than is requested": (
        {
            "spec.worker.resources": {
                "requests": {"ephemeral-storage": "20Gi"},
                "limits": {"ephemeral-storage": "10Gi", "nvidia.com/gpu": 8},
            }
        },
        r"limits\.ephemeral-storage is '10Gi'; expected 20Gi or more, which is requested",
    ),
    "half of a device": (
        {
            "spec.worker.resources": {
                "requests": {"vpc.amazonaws.com/efa": 16},
                "limits": {"vpc.amazonaws.com/efa": 32, "nvidia.com/gpu": 8},
            }
        },
        r"limits\.vpc\.amazonaws\.com/efa is 32; expected 16, as is requested",
    ),
    "a command that is no vLLM": (
        {"spec.worker.command": ["bash", "-c", "vllm serve"]},
        r"spec\.worker\.command is \['bash', '-c', 'vllm serve'\]; expected no command",
    ),
    "a variable for LMCache": (
        {"spec.worker.environmentVariables": [{"name": "LMCACHE_CHUNK_SIZE", "value": "256"}]},
        r"spec\.worker\.environmentVariables\.LMCACHE_CHUNK_SIZE is '256'; expected no such variable",
    ),
    "a variable of ours": (
        {"spec.worker.environmentVariables": [{"name": "HYPERTIER_L2_URL", "value": "redis://x:1"}]},
        r"environmentVariables\.HYPERTIER_L2_URL is 'redis://x:1'; expected another name",
    ),
    "a store that there is none for": (
        {"spec.kvCacheSpec.l2CacheSpec": {"l2CacheBackend": "memcached"}},
        r"l2CacheSpec\.l2CacheBackend is 'memcached'; expected tieredstorage or redis",
    ),
    "the node's address under a name of the user's": (
        {**TIERED, "spec.worker.environmentVariables": [{"name": "NODE_IP", "value": "10.0.0.1"}]},
        r"environmentVariables\.NODE_IP is '10\.0\.0\.1'; expected another name",
    ),
    "L2 without a backend": (
        {"spec.kvCacheSpec.l2CacheSpec": None},
        r"l2CacheSpec\.l2CacheBackend is not set; expected tieredstorage or redis",
    ),
    "a URL without a port": (
        {"spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl": "rediss://cache.example"},
        r"l2CacheLocalUrl is 'rediss://cache\.example'; expected .* the port is missing",
    ),
    "S3 without a bucket": (
        {"spec.modelSourceConfig": {"modelSourceType": "s3"}},
        r"spec\.modelSourceConfig\.s3Storage is not set; expected bucketName and region",
    ),
    "FSx without its names": (
        {"spec.modelSourceConfig": {"modelSourceType": "fsx", "fsxStorage": {"fileSystemId": "fs-1"}}},
        r"spec\.modelSourceConfig\.fsxStorage is 'fs-1'; expected fileSystemId, dnsName and mountName",
    ),
    "Hugging Face without a model": (
        {"spec.modelSourceConfig": {"modelSourceType": "huggingface"}},
        r"spec\.modelSourceConfig\.huggingFaceModel is not set; expected modelId and commitSHA",
    ),
    "a volume that is not there": (
        {"spec.modelSourceConfig": {"modelSourceType": "kubernetesVolume"}},
        r"spec\.worker\.modelVolumeMount\.name is 'model-weights'; expected the name of one of",
    ),
    "a source that does not exist": (
        {"spec.modelSourceConfig": {"modelSourceType": "ftp"}},
        r"spec\.modelSourceConfig\.modelSourceType is 'ftp'; expected fsx or s3 or",
    ),
    "a cache configuration of LMCache": (
        {"spec.kvCacheSpec.cacheConfigFile": "/x.yaml"},
        r"spec\.kvCacheSpec\.cacheConfigFile is '/x\.yaml'; expected no such field",
    ),
    "a SageMaker endpoint": (
        {"spec.endpointName": "e"},
        r"spec\.endpointName is 'e'; expected no such field",
    ),
    "data capture of SageMaker's": (
        {"spec.dataCapture": {"sagemakerEndpoint": {"enabled": True}}},
        r"spec\.dataCapture\.sagemakerEndpoint is .*; expected no such field .*modelPod captures",
    ),
    "access logs of the load balancer": (
        {"spec.dataCapture": {"loadBalancer": {"enabled": True}}},
        r"spec\.dataCapture\.loadBalancer is .*; expected no such field",
    ),
    "captures that go nowhere": (
        {"spec.dataCapture": {"modelPod": {"enabled": True}}},
        r"spec\.dataCapture\.s3Uri is not set; expected s3://BUCKET/PREFIX",
    ),
    "captures by a key that no role can be let use": (
        {"spec.dataCapture": {"s3Uri": "s3://x", "modelPod": {"enabled": True, "kmsKeyId": "alias/ours"}}},
        r"spec\.dataCapture\.modelPod\.kmsKeyId is 'alias/ours'; expected the key's whole ARN",
    ),
    "weights fetched before": (
        {"spec.modelSourceConfig.prefetchEnabled": True},
        r"spec\.modelSourceConfig\.prefetchEnabled is true; expected no such field",
    ),
    "a record in Route 53": (
        {"spec.dnsConfig": {"hostedZoneId": "Z1"}},
        r"spec\.dnsConfig is {hostedZoneId: 'Z1'}; expected no such field .*no record is made",
    ),
    "limits of a proxy": (
        {"spec.worker.requestLimits": {"maxConcurrentRequests": 8}},
        r"spec\.worker\.requestLimits is .*; expected no such field",
    ),
    "affinity to nodes": (
        {"spec.nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
        r"spec\.nodeAffinity is .*; expected no such field .*instance group",
    ),
    "a mode of LMCache": (
        {"spec.lmcache": {"mode": "MultiProcess"}},
        r"spec\.lmcache is {mode: 'MultiProcess'}; expected no such field .*no LMCache runs",
    ),
    "a field of a newer operator": (
        {"spec.modelCacheConfig": {"weightsCache": {"enabled": True}}},
        r"spec\.modelCacheConfig is .*; expected no such field",
    ),
    "a field that does not exist": ({"spec.replica": 3}, r"spec\.replica is 3; expected no such field"),
    "a field that does not exist, deep in": (
        {"spec.worker.modelVolumeMount": {"name": "w", "mountPth": "/m"}},
        r"spec\.worker\.modelVolumeMount\.mountPth is '/m'; expected no such field; mountPath is",
    ),
    "a field that does not exist, in a list": (
        {"spec.tags": [{"name": "a", "value": "b", "valu": "c"}]},
        r"spec\.tags\[0\]\.valu is 'c'; expected no such field; value is what is meant",
    ),
    "gRPC": (
        {"spec.worker.modelInvocationPort": {"containerPort": 8000, "name": "grpc"}},
        r"modelInvocationPort\.name is 'grpc'; expected http",
    ),
    "a wish that no pod of ours grants": (
        {"spec.kubernetes": {"hostNetwork": True}},
        r"spec\.kubernetes\.hostNetwork is true; expected one of the fields initContainers",
    ),
    "a probe of a port nobody listens on": (
        {"spec.worker.probes": {"readinessProbe": {"httpGet": {"path": "/health", "port": 8080}}}},
        r"spec\.worker\.probes\.readinessProbe\.httpGet\.port is 8080; expected 8000, which the engine",
    ),
    "a probe that asks nothing": (
        {"spec.worker.probes": {"livenessProbe": {"periodSeconds": 5}}},
        r"spec\.worker\.probes\.livenessProbe is .*; expected one of httpGet, tcpSocket, grpc and exec",
    ),
    "a probe that never waits": (
        {"spec.worker.probes": {"livenessProbe": {"exec": {"command": ["true"]}, "timeoutSeconds": 0}}},
        r"livenessProbe\.timeoutSeconds is 0; expected 1 or more",
    ),
    "a toleration of a field that is none": (
        {"spec.kubernetes": {"tolerations": [{"key": "a", "op": "Exists"}]}},
        r"spec\.kubernetes\.tolerations\[0\]\.op is 'Exists'; expected",
    ),
    "an init container without an image": (
        {"spec.kubernetes": {"initContainers": [{"name": "warm"}]}},
        r"spec\.kubernetes\.initContainers\[0\]\.image is not set; expected a value",
    ),
    "an annotation that is no text": (
        {"spec.kubernetes": {"podTemplateAnnotations": {"a": 1}}},
        r"spec\.kubernetes\.podTemplateAnnotations\.a is 1; expected text",
    ),
    "a volume of two kinds": (
        {"spec.kubernetes": {"volumes": [{"name": "a", "emptyDir": {}, "secret": {"secretName": "s"}}]}},
        r"spec\.kubernetes\.volumes\.a is 'emptyDir'; expected one of configMap",
    ),
    "memory in no unit of Kubernetes": (
        {"spec.worker.resources": {"limits": {"memory": "512MiB", "nvidia.com/gpu": 8}}},
        r"spec\.worker\.resources\.limits\.memory is '512MiB'; expected an amount of memory",
    ),
    "a claim on a dynamic resource": (
        {"spec.worker.resources": {"claims": [{"name": "gpu"}], "limits": {"nvidia.com/gpu": 8}}},
        r"spec\.worker\.resources\.claims is \[{name: 'gpu'}\]; expected no such field",
    ),
    "ranks whose events nobody hears": (
        {
            "spec.intelligentRoutingSpec.routingStrategy": "kvaware",
            "spec.worker.args": ["--data-parallel-size=2"],
        },
        r"spec\.worker\.args --data-parallel-size is '2'; expected 1 with routingStrategy kvaware",
    ),
    "half a GPU": (
        {"spec.worker.resources": {"limits": {"nvidia.com/gpu": 0.5}}},
        r"spec\.worker\.resources\.limits\.nvidia\.com/gpu is 0\.5; expected a whole number",
    ),
    "a path of the host": (
        {"spec.kubernetes": {"volumes": [{"name": "nvme", "hostPath": {"path": "/opt/dlami/nvme"}}]}},
        r"spec\.kubernetes\.volumes\.nvme is 'hostPath'; expected one of configMap",
    ),
    "a volume of a name that is taken": (
        {"spec.kubernetes": {"volumes": [{"name": "shm", "emptyDir": {}}]}},
        r"spec\.kubernetes\.volumes\.name is 'shm'; expected a name that is not yet taken",
    ),
    "a volume twice": (
        {"spec.kubernetes": {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]}},
        r"spec\.kubernetes\.volumes\.name is 'a'; expected a name that is not yet taken",
    ),
    "a volume without a name": (
        {"spec.kubernetes": {"volumes": [{"emptyDir": {}}]}},
        r"spec\.kubernetes\.volumes\.name is not set; expected a name",
    ),
    "weights under a name that is taken": (
        {"spec.worker.modelVolumeMount": {"name": "tmp"}},
        r"spec\.worker\.modelVolumeMount\.name is 'tmp'; expected another name",
    ),
    "a name of 55 letters": ({"metadata.name": "e" * 55}, r"metadata\.name is 'e+'; expected at most 54"),
    "a name with a path": ({"metadata.name": "../x"}, r"metadata\.name is '\.\./x'; expected at most 54"),
    "a key of our own argument": (
        {"spec.worker.args": ["--kv_transfer_config.kv_role", "kv_both"]},
        r"spec\.worker\.args --kv-transfer-config\.kv_role is 'kv_both'; expected no such argument",
    ),
    "a namespace in capitals": (
        {"metadata.namespace": "ML"},
        r"metadata\.namespace is 'ML'; expected at most",
    ),
}


@pytest.mark.parametrize("case", BAD_MANIFESTS)
def test_what_would_be_off_or_wrong_is_refused_by_name(case: str) -> None:
    changes, message = BAD_MANIFESTS[case]
    wanted = deployment(changes)

    with pytest.raises(ConfigError, match=message):
        endpoint_objects(wanted, wanted.endpoints[0], ChartInputs())


def test_every_setting_of_the_cache_follows_from_a_key_or_is_named_with_its_reason() -> None:
    not_set = {
        "namespace": "tenants keep apart what must not be shared",
    }
    tenants = (L2Tenant(name="a", ttl="1m"),)
    tuned = L2(
        ttl="1h",
        tenants=tenants,
        kv_events=True,
        epoch=3,
        gate="open",
        lookup_deadline_ms=50,
        connections=8,
    )
    cache = replace(deployment().cache, l2=tuned)
    changes = {"spec.pdSpec": SPLIT, "spec.intelligentRoutingSpec.routingStrategy": "kvaware"}
    wanted = deployment(changes, cache=cache, scaling=Scaling())
    role = roles_of(wanted, wanted.endpoints[0])[-1]

    settings = cache_settings(wanted, role, plan_engine(wanted, role.endpoint))

    given, defaults = vars(settings), vars(CacheSettings())
    assert {each.name for each in fields(CacheSettings) if given[each.name] == defaults[each.name]} == (
        not_set.keys()
    )
