"""The resource types whose making has an effect: functions, secrets, Kubernetes objects, custom resources."""

from __future__ import annotations

import json
import secrets
import string
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hypertier.errors import DeploymentError
from hypertier_cdk.testing.functions import Function
from hypertier_cdk.testing.providers import Made, Resource
from hypertier_cdk.testing.roles import Roles


class Functions:
    """Lambda functions, each with its role's credentials and permissions.

    `code_folder` finds a function's code; `environment` is what Lambda itself sets.
    """

    def __init__(
        self, code_folder: Callable[[Resource], Path | None], environment: Mapping[str, str], roles: Roles
    ) -> None:
        self._roles = roles
        self._resources: dict[str, tuple[Resource, Made]] = {}
        self._code_folder = code_folder
        self._environment = dict(environment)
        self._functions: dict[str, Function] = {}

    def create(self, resource: Resource) -> Made:
        properties = resource.properties
        name = properties.get("FunctionName", resource.name)
        self._functions[name] = Function(
            name=name,
            runtime=properties.get("Runtime", ""),
            handler=properties.get("Handler", ""),
            folder=self._code_folder(resource),
            environment=properties.get("Environment", {}).get("Variables", {}),
            timeout_seconds=float(properties.get("Timeout", 3)),
            account=resource.account,
            region=resource.region,
        )
        made = Made(name, {"Arn": f"arn:aws:lambda:{resource.region}:{resource.account}:function:{name}"})
        self._resources[name] = resource, made
        return made

    def update(self, resource: Resource, made: Made) -> Made:
        return self.create(resource)

    def delete(self, resource: Resource, made: Made) -> None:
        del self._functions[made.ref], self._resources[made.ref]

    def invoke(self, name_or_arn: str, event: object) -> Any:
        """Run a function and return what it returns.

        Raises:
            DeploymentError: there is no such function, or it failed.
        """
        function = self._find(name_or_arn)
        resource, made = self._resources[function.name]
        caller = self._roles.caller(str(resource.properties.get("Role", "")))
        if caller is not None:
            self._roles.refuse_missing(resource, made, caller)
        return function.invoke(event, self._environment, caller)

    def variables(self, name_or_arn: str) -> Mapping[str, str]:
        """A function's own environment variables.

        Raises:
            DeploymentError: there is no such function.
        """
        return self._find(name_or_arn).environment

    def _find(self, name_or_arn: str) -> Function:
        name = name_or_arn.split(":")[6] if name_or_arn.startswith("arn:") else name_or_arn
        if name not in self._functions:
            raise DeploymentError(f"there is no function {name_or_arn}")
        return self._functions[name]


class Secrets:
    """Secrets whose value is generated; `values` holds their fields, by ARN."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, str]] = {}

    def create(self, resource: Resource) -> Made:
        arn = f"arn:aws:secretsmanager:{resource.region}:{resource.account}:secret:{resource.name}"
        generate = resource.properties.get("GenerateSecretString", {})
        fields = json.loads(generate.get("SecretStringTemplate", "{}"))
        alphabet = string.ascii_letters + string.digits
        length = int(generate.get("PasswordLength", 32))
        fields[generate.get("GenerateStringKey", "password")] = "".join(
            secrets.choice(alphabet) for _ in range(length)
        )
        self.values[arn] = fields
        return Made(arn, {"Id": arn})

    def update(self, resource: Resource, made: Made) -> Made:
        return made

    def delete(self, resource: Resource, made: Made) -> None:
        del self.values[made.ref]


class Manifests:
    """Kubernetes objects: what the CDK's kubectl handler would apply is kept in `applied`, by cluster."""

    def __init__(self) -> None:
        self.applied: dict[str, dict[tuple[str, str, str], dict[str, Any]]] = {}

    def create(self, resource: Resource) -> Made:
        objects = self.applied.setdefault(resource.properties["ClusterName"], {})
        for manifest in json.loads(resource.properties["Manifest"]):
            objects[_identity(manifest)] = manifest
        return Made(resource.name)

    def update(self, resource: Resource, made: Made) -> Made:
        return self.create(resource)

    def delete(self, resource: Resource, made: Made) -> None:
        objects = self.applied[resource.properties["ClusterName"]]
        for manifest in json.loads(resource.properties["Manifest"]):
            objects.pop(_identity(manifest), None)


class Charts:
    """Helm charts: what the CDK's kubectl handler would install is kept in `releases`, by cluster."""

    def __init__(self) -> None:
        self.releases: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}

    def create(self, resource: Resource) -> Made:
        properties = resource.properties
        release = {
            "chart": properties.get("Chart", properties.get("Repository", "")),
            "version": properties.get("Version", ""),
            "repository": properties.get("Repository", ""),
            "values": json.loads(properties.get("Values", "{}")),
        }
        self.releases.setdefault(properties["ClusterName"], {})[_release(resource)] = release
        return Made(resource.name)

    def update(self, resource: Resource, made: Made) -> Made:
        return self.create(resource)

    def delete(self, resource: Resource, made: Made) -> None:
        self.releases[resource.properties["ClusterName"]].pop(_release(resource), None)


class JsonTexts:
    """The CDK's `CfnJson`: a text that becomes an object."""

    def create(self, resource: Resource) -> Made:
        return Made(resource.name, {"Value": json.loads(resource.properties["Value"])})

    def update(self, resource: Resource, made: Made) -> Made:
        return self.create(resource)

    def delete(self, resource: Resource, made: Made) -> None:
        """Nothing is there to delete."""


class Uploads:
    """The CDK's `BucketDeployment`: the files of its assets; `objects` holds them by bucket and key.

    `asset_folder` finds an asset by its bucket and key. The function behind it needs the AWS CLI, so it is
    not run.
    """

    def __init__(self, asset_folder: Callable[[Resource, str, str], Path | None]) -> None:
        self._asset_folder = asset_folder
        self.objects: dict[str, dict[str, bytes]] = {}

    def create(self, resource: Resource) -> Made:
        properties = resource.properties
        bucket = self.objects.setdefault(properties["DestinationBucketName"], {})
        for key in self._uploaded(resource):
            del bucket[key]
        for source, asset in zip(
            properties["SourceBucketNames"], properties["SourceObjectKeys"], strict=True
        ):
            folder = self._asset_folder(resource, source, asset)
            if folder is None:
                raise DeploymentError(f"{resource.logical_id}: there is no asset {asset}")
            for file in sorted(entry for entry in folder.rglob("*") if entry.is_file()):
                bucket[self._prefix(resource) + file.relative_to(folder).as_posix()] = file.read_bytes()
        return Made(
            resource.name, {"DestinationBucketArn": f"arn:aws:s3:::{properties['DestinationBucketName']}"}
        )

    def update(self, resource: Resource, made: Made) -> Made:
        return self.create(resource)

    def delete(self, resource: Resource, made: Made) -> None:
        if resource.properties.get("RetainOnDelete") is False:
            for key in self._uploaded(resource):
                del self.objects[resource.properties["DestinationBucketName"]][key]

    def _uploaded(self, resource: Resource) -> list[str]:
        held = self.objects[resource.properties["DestinationBucketName"]]
        return [key for key in held if key.startswith(self._prefix(resource))]

    @staticmethod
    def _prefix(resource: Resource) -> str:
        prefix = resource.properties.get("DestinationBucketKeyPrefix", "")
        return f"{prefix}/" if prefix else ""


class CustomResources:
    """Custom resources: their function is run, or those that the CDK's provider framework would call.

    A function that waits is asked `max_looks` times at most, one right after the other.
    """

    def __init__(self, functions: Functions, max_looks: int) -> None:
        self._functions = functions
        self._max_looks = max_looks

    def create(self, resource: Resource) -> Made:
        return self._call("Create", resource, None)

    def update(self, resource: Resource, made: Made) -> Made:
        return self._call("Update", resource, made)

    def delete(self, resource: Resource, made: Made) -> None:
        self._call("Delete", resource, made)

    def _call(self, request: str, resource: Resource, made: Made | None) -> Made:
        event: dict[str, Any] = {
            "RequestType": request,
            "ResourceType": resource.type,
            "LogicalResourceId": resource.logical_id,
            "RequestId": resource.name,
            "StackId": resource.stack,
            "ResourceProperties": _as_text(resource.properties),
        }
        if made is not None:
            event["PhysicalResourceId"] = made.ref
        token = str(resource.properties["ServiceToken"])
        # The framework's own function is no Python; it names its author's functions in its environment.
        variables = self._functions.variables(token)
        event |= self._functions.invoke(variables.get("USER_ON_EVENT_FUNCTION_ARN", token), event) or {}
        data = dict(event.get("Data", {}))
        if "USER_IS_COMPLETE_FUNCTION_ARN" in variables:
            data |= self._wait(variables["USER_IS_COMPLETE_FUNCTION_ARN"], event)
        return Made(str(event.get("PhysicalResourceId", resource.name)), data)

    def _wait(self, is_complete: str, event: Mapping[str, Any]) -> dict[str, Any]:
        for _ in range(self._max_looks):
            answer = self._functions.invoke(is_complete, event)
            if answer["IsComplete"]:
                return dict(answer.get("Data", {}))
        raise DeploymentError(f"not complete after {self._max_looks} looks")


def _release(resource: Resource) -> tuple[str, str]:
    return resource.properties.get("Namespace", "default"), resource.properties["Release"]


def _identity(manifest: Mapping[str, Any]) -> tuple[str, str, str]:
    metadata = manifest.get("metadata", {})
    return manifest["kind"], metadata.get("namespace", ""), metadata["name"]


def _as_text(value: Any) -> Any:
    """Properties as a custom resource gets them: every number and truth value as text."""
    if isinstance(value, Mapping):
        return {key: _as_text(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_as_text(entry) for entry in value]
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
