"""`hypertier verify` as a CronJob: whether the cache works, asked by a client inside the cluster."""

from __future__ import annotations

from hypertier.spec.arguments import option_value
from hypertier.spec.deployment import Deployment
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier.spec.verify import Verify
from hypertier_cdk.charts.inputs import ChartInputs, placeholder_annotations, router_image
from hypertier_cdk.charts.names import Names
from hypertier_cdk.charts.pods import (
    CONTAINER_SECURITY,
    POD_SECURITY,
    Object,
    cpu_group,
    metadata,
    placement,
    service_account,
)

MEMORY = "256Mi"
MAX_SECONDS = 120  # that a verification may take, and as many until it has started
KEY_VARIABLE = "HYPERTIER_API_KEY"
CA_FOLDER = "/etc/hypertier/router-ca"


def verify_objects(
    deployment: Deployment, endpoint: InferenceEndpointConfig, names: Names, inputs: ChartInputs
) -> list[Object]:
    """Service account and CronJob; nothing where the deployment file has no section `verify`."""
    verify = deployment.verify
    if verify is None:
        return []
    return [
        service_account(names, "verify", inputs.verify_role_arn),
        _cron_job(deployment, endpoint, verify, names, inputs),
    ]


def verify_arguments(
    deployment: Deployment, endpoint: InferenceEndpointConfig, verify: Verify, names: Names
) -> list[str]:
    """The arguments of `hypertier verify`."""
    scheme = "https" if deployment.routing.tls is not None else "http"
    args = endpoint.spec.worker.args or ()
    model = option_value(args, "--served-model-name") or endpoint.spec.model_name
    arguments = [f"{scheme}://{names.of('router')}.{names.namespace}.svc", "--model", model]
    arguments += ["--prompt-tokens", str(verify.prompt_tokens), "--timeout", str(_seconds(verify))]
    arguments += ["--expect-details", "--l2" if can_tell_l2(deployment, endpoint) else "--no-l2"]
    arguments += ["--publish", endpoint.name, "--region", deployment.region, "--format", "json"]
    if verify.api_key_secret_name is not None:
        arguments += ["--api-key-env", KEY_VARIABLE]
    if deployment.routing.tls is not None:
        arguments += ["--ca", f"{CA_FOLDER}/ca.crt"]
    return arguments


def can_tell_l2(deployment: Deployment, endpoint: InferenceEndpointConfig) -> bool:
    """Whether a miss in L2 is a fault: with the gate on `auto` it may be that computing is faster.

    Which replica answers must be told, too.
    """
    return (
        endpoint.kv_cache.l2_enabled
        and deployment.cache.l2.gate == "open"
        and deployment.routing.explain_on_request
    )


def _seconds(verify: Verify) -> int:
    return min(MAX_SECONDS, 30 * verify.every_minutes)


def _schedule(verify: Verify) -> str:
    return "0 * * * *" if verify.every_minutes == 60 else f"*/{verify.every_minutes} * * * *"


def _cron_job(
    deployment: Deployment,
    endpoint: InferenceEndpointConfig,
    verify: Verify,
    names: Names,
    inputs: ChartInputs,
) -> Object:
    image = router_image(deployment, inputs)
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": metadata(names, "verify", placeholder_annotations(image)),
        "spec": {
            "schedule": _schedule(verify),
            "concurrencyPolicy": "Forbid",  # of two at once each would slow the other's first token
            "startingDeadlineSeconds": _seconds(verify),
            "successfulJobsHistoryLimit": 1,
            "failedJobsHistoryLimit": 3,
            "jobTemplate": {
                "metadata": {"labels": names.labels("verify")},
                "spec": {
                    "backoffLimit": 0,  # a verification that failed is an outcome, not a mishap
                    # image and node, then the verification, before the next one is due
                    "activeDeadlineSeconds": _seconds(verify) + min(MAX_SECONDS, 25 * verify.every_minutes),
                    "template": {
                        "metadata": {"labels": names.labels("verify")},
                        "spec": {
                            "serviceAccountName": names.role("verify"),
                            "automountServiceAccountToken": False,
                            "enableServiceLinks": False,
                            "restartPolicy": "Never",
                            "securityContext": POD_SECURITY,
                            "terminationGracePeriodSeconds": 5,
                            **placement(cpu_group(deployment)),
                            "containers": [_container(deployment, endpoint, verify, names, image.value)],
                            "volumes": _volumes(deployment),
                        },
                    },
                },
            },
        },
    }


def _container(
    deployment: Deployment, endpoint: InferenceEndpointConfig, verify: Verify, names: Names, image: str
) -> Object:
    secret = verify.api_key_secret_name
    key: list[Object] = []
    if secret is not None:
        reference = {"secretKeyRef": {"name": secret, "key": "key"}}
        key.append({"name": KEY_VARIABLE, "valueFrom": reference})
    mounts: list[Object] = [{"name": "tmp", "mountPath": "/tmp"}]
    if deployment.routing.tls is not None:
        mounts.append({"name": "router-ca", "mountPath": CA_FOLDER, "readOnly": True})
    return {
        "name": "verify",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["hypertier", "verify"],
        "args": verify_arguments(deployment, endpoint, verify, names),
        **({"env": key} if key else {}),
        "resources": {"requests": {"cpu": "100m", "memory": MEMORY}, "limits": {"memory": MEMORY}},
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": mounts,
    }


def _volumes(deployment: Deployment) -> list[Object]:
    """Of the routers' Secret no more than who signed; where that is missing, no verification starts."""
    volumes: list[Object] = [{"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}]
    tls = deployment.routing.tls
    if tls is not None:
        secret = {
            "secretName": tls.secret_name,
            "defaultMode": 0o440,
            "items": [{"key": "ca.crt", "path": "ca.crt"}],
        }
        volumes.append({"name": "router-ca", "secret": secret})
    return volumes
