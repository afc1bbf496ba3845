"""The emulator: deploys, updates and destroys the stacks of a cloud assembly, without AWS."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from hypertier.errors import DeploymentError, HypertierError
from hypertier_cdk.create_only import replacements
from hypertier_cdk.testing.alarms import Alarms, GetMetricData
from hypertier_cdk.testing.assembly import stacks_of
from hypertier_cdk.testing.asset_folders import AssetFolders
from hypertier_cdk.testing.builtin import (
    Charts,
    CustomResources,
    Functions,
    JsonTexts,
    Manifests,
    Secrets,
    Uploads,
)
from hypertier_cdk.testing.cluster_access import Ask, access_key_of, groups_of, is_permitted
from hypertier_cdk.testing.hyperpod import CLUSTER, Clusters
from hypertier_cdk.testing.intrinsics import Resolver, creation_order
from hypertier_cdk.testing.providers import Made, Provider, Resource
from hypertier_cdk.testing.roles import Roles
from hypertier_cdk.testing.rules import Rules
from hypertier_cdk.testing.schedules import Schedules
from hypertier_cdk.testing.shapes import SHAPES, ShapeProvider
from hypertier_cdk.testing.stack import Event, Request, Stack, made_up_name

MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"
CHART = "Custom::AWSCDK-EKS-HelmChart"
JSON = "Custom::AWSCDKCfnJson"
UPLOAD = "Custom::CDKBucketDeployment"
NOT_RESOURCES = ("AWS::CDK::Metadata",)
ZONES = ("a", "b", "c")


class Emulator:
    """An empty account, in this process.

    `environment` is what Lambda functions get beside their own variables, such as an `AWS_ENDPOINT_URL` on
    loopback. `providers` add resource types, or take the place of those that are known. A custom resource's
    waiting functions are asked `max_looks` times at most, one right after the other. `quotas` bound the
    nodes of HyperPod clusters, by name: {"ml.p5.48xlarge for cluster usage": 2}; others are not bounded.

    Attributes:
        events: every step so far, in order.
        manifests: the Kubernetes objects applied to each cluster, by (kind, namespace, name).
        releases: the Helm charts installed in each cluster, by (namespace, release).
        objects: what was put into each bucket, by key.
        messages: what alarms told each SNS topic, by its ARN.
        retained: what a deletion left behind, as templates ask for: (stack, logical id).
    """

    def __init__(
        self,
        *,
        account: str = "123456789012",
        region: str = "us-east-1",
        environment: Mapping[str, str] | None = None,
        providers: Mapping[str, Provider] | None = None,
        max_looks: int = 10,
        assets: Callable[[str, str], bytes] | None = None,
        quotas: Mapping[str, int] | None = None,
    ) -> None:
        self.events: list[Event] = []
        manifests = Manifests()
        self.manifests = manifests.applied
        charts = Charts()
        self.releases = charts.releases
        unpacked = AssetFolders(lambda stack: self._stacks[stack].request.folder, assets)
        uploads = Uploads(unpacked.find)
        self.objects = uploads.objects
        self.retained: list[tuple[str, str]] = []
        self._account = account
        self._region = region
        self._stacks: dict[str, Stack] = {}
        self._roles = Roles(self.resources)
        self._functions = Functions(
            unpacked.code_of, {"AWS_REGION": region, **(environment or {})}, self._roles
        )
        self._secrets = Secrets()
        self._alarms = Alarms(self.resources, self.invoke)
        self.messages = self._alarms.messages
        self._schedules = Schedules(self.resources, self._roles, self.invoke)
        self._rules = Rules(self.resources, self.invoke)
        self._custom = CustomResources(self._functions, max_looks)
        self._providers: dict[str, Provider] = {
            **{name: ShapeProvider(shape) for name, shape in SHAPES.items()},
            "AWS::Lambda::Function": self._functions,
            "AWS::SecretsManager::Secret": self._secrets,
            CLUSTER: Clusters(quotas or {}),
            MANIFEST: manifests,
            JSON: JsonTexts(),
            UPLOAD: uploads,
            CHART: charts,
            **(providers or {}),
        }

    def deploy(self, assembly: Path | str, *, rollback: bool = True) -> None:
        """Deploy every stack of a cloud assembly, or bring those that are deployed to what it asks for.

        A stack that fails is rolled back: what it changed is changed back, what it made is deleted. Stacks
        before it stay as they are, those after it are not begun. Without `rollback` it stays as it is then.

        Raises:
            DeploymentError: a resource cannot be made, or its type is not known.
            ConfigError: a change that would replace what cannot be replaced.
        """
        folder = Path(assembly)
        for name, region, template in stacks_of(folder):
            self.put_stack(name, template, region=region, folder=folder, rollback=rollback)

    def put_stack(
        self,
        name: str,
        template: dict[str, Any],
        *,
        region: str = "",
        parameters: Mapping[str, str] | None = None,
        folder: Path | None = None,
        rollback: bool = True,
    ) -> None:
        """Deploy one stack, or bring it to what `template` asks for; code lies in `folder` or by `assets`.

        Raises:
            DeploymentError: a resource cannot be made, or its type is not known.
            ConfigError: a change that would replace what cannot be replaced.
        """
        stack = self._stacks.setdefault(name, Stack(region or self._region))
        before, fresh = stack.request, not stack.made
        try:
            self._refuse_unknown_types(name, template)
            for problem in replacements(before.template, template):
                raise problem
            stack.request = Request(template, dict(parameters or {}), folder)
            self._deploy(name, stack)
        except HypertierError as error:
            if not rollback:
                stack.status = f"{_action(fresh)}_FAILED"
                raise
            stack.request = before
            self._roll_back(name, stack, error, fresh=fresh)
            raise
        stack.status = f"{_action(fresh)}_COMPLETE"

    def _roll_back(self, name: str, stack: Stack, cause: HypertierError, *, fresh: bool) -> None:
        """Bring a stack back to what it was asked for before: nothing, where it is `fresh`."""
        outcome = "ROLLBACK" if fresh else "UPDATE_ROLLBACK"
        try:
            self._deploy(name, stack, undoing=fresh)
        except DeploymentError as error:
            stack.status = f"{outcome}_FAILED"
            raise DeploymentError(f"{cause}; rolling back failed, too: {error}") from error
        stack.status = f"{outcome}_COMPLETE"

    def status(self, name: str) -> str:
        """How a stack's last deployment ended, in CloudFormation's words; "" where there is no such stack."""
        return self._stacks[name].status if name in self._stacks else ""

    def destroy(self) -> None:
        """Delete every stack, the last one first, and in each what was made last first.

        Raises:
            DeploymentError: a resource cannot be deleted. What is deleted by then stays so.
        """
        for name in list(reversed(self._stacks)):
            self.delete_stack(name)

    def delete_stack(self, name: str) -> None:
        """Delete one stack.

        Raises:
            DeploymentError: a resource cannot be deleted. What is deleted by then stays so.
        """
        stack = self._stacks[name]
        stack.status = "DELETE_FAILED"  # until it has not
        for logical_id in list(reversed(stack.made)):
            self._delete(name, stack, logical_id)
        del self._stacks[name]

    def outputs(self, name: str) -> dict[str, Any]:
        """The outputs of a stack, but for those whose condition does not hold."""
        stack = self._stacks[name]
        resolver = self._resolver(name, stack)
        return {
            key: resolver.resolve(output["Value"])
            for key, output in stack.request.template.get("Outputs", {}).items()
            if _holds(resolver, output)
        }

    def resources(self, resource_type: str) -> list[tuple[Resource, Made]]:
        """Everything of a type that exists."""
        return [found for found in self.all_resources() if found[0].type == resource_type]

    def all_resources(self) -> list[tuple[Resource, Made]]:
        """Everything that exists, in all stacks."""
        return [found for stack in self._stacks for found in self.resources_of(stack)]

    def resources_of(self, stack: str) -> list[tuple[Resource, Made]]:
        """Everything that exists in a stack."""
        found = self._stacks[stack]
        return [(resource, found.made[logical_id]) for logical_id, resource in found.resources.items()]

    def stack_id(self, name: str) -> str:
        """The ARN of a stack of that name."""
        return f"arn:aws:cloudformation:{self._region}:{self._account}:stack/{name}/1"

    def invoke(self, function: str, event: object) -> Any:
        """Run a Lambda function, by name or ARN, and return what it returns.

        Raises:
            DeploymentError: there is no such function, or it failed.
        """
        return self._functions.invoke(function, event)

    def ring(self, alarm_name: str, event: object, state: str = "ALARM") -> list[Any]:
        """Let an alarm go into `state`, and return what functions return that it calls, or its topics do.

        Functions that it calls are run on `event`; a topic is told it as text.

        Raises:
            ConfigError: an alarm has no such state.
            DeploymentError: there is no such alarm, it does something else, or a function failed.
        """
        return self._alarms.ring(alarm_name, event, state)

    def watch(
        self, get_metric_data: GetMetricData, now: datetime, alarms: Collection[str] | None = None
    ) -> dict[str, list[Any]]:
        """Let alarms do what CloudWatch would let them do at `now`, by the data points that were published.

        `get_metric_data` is boto3's method, of a client that finds them; `alarms` are the names of those to
        look at, by default all. An alarm does something as its state changes, as with `ring`; what the
        functions return that it calls comes back under its name.

        Raises:
            DeploymentError: an alarm goes by more than one metric, or a function failed.
        """
        return self._alarms.watch(get_metric_data, now, alarms)

    def pass_schedule(self, name: str, at: datetime) -> Any:
        """Let a moment of one of EventBridge Scheduler's schedules come; return what its function returns.

        Raises:
            DeploymentError: there is no such schedule, its role does not let it, or the function failed.
        """
        return self._schedules.pass_moment(name, at)

    def put_event(self, event: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Let EventBridge's rules have an event; return what functions return, by the rules that it matches.

        Raises:
            DeploymentError: a rule is not allowed to call its function, or that failed.
        """
        return self._rules.put(event)

    def may_ask(self, token: str, ask: Ask, cluster: str) -> bool:
        """Whether the EKS cluster of that name lets who made `token` do what is asked of Kubernetes.

        By access entries, and the objects that stacks applied: what a fake of its API is to answer.
        """
        role = self._roles.behind(access_key_of(token))
        groups = set() if role is None else groups_of(role, self.resources)
        return is_permitted(groups, self.manifests.get(cluster, {}), ask)

    def secret(self, arn: str) -> dict[str, str]:
        """The fields of a secret that was generated."""
        return dict(self._secrets.values[arn])

    def _refuse_unknown_types(self, stack: str, template: Mapping[str, Any]) -> None:
        for logical_id, resource in template.get("Resources", {}).items():
            known = resource["Type"] in self._providers or resource["Type"] in NOT_RESOURCES
            if not known and "ServiceToken" not in resource.get("Properties", {}):
                raise DeploymentError(
                    f"{stack}: {logical_id} is of type {resource['Type']}, which the emulator does not know; "
                    "add it to `providers`"
                )

    def _deploy(self, name: str, stack: Stack, *, undoing: bool = False) -> None:
        """Bring a stack to what is asked for; `undoing` what its first deployment made."""
        template = stack.request.template
        resolver = self._resolver(name, stack)
        wanted = [
            logical_id
            for logical_id in creation_order(template)
            if template["Resources"][logical_id]["Type"] not in NOT_RESOURCES
            and _holds(resolver, template["Resources"][logical_id])
        ]
        for logical_id in wanted:
            written = template["Resources"][logical_id]
            resource = Resource(
                stack=name,
                logical_id=logical_id,
                type=written["Type"],
                properties=resolver.resolve(written.get("Properties", {})),
                name=made_up_name(name, logical_id),
                account=self._account,
                region=stack.region,
            )
            self._make(stack, resource)
            stack.policies[logical_id] = written.get("DeletionPolicy", "Delete")
        for logical_id in [entry for entry in reversed(stack.made) if entry not in wanted]:
            self._delete(name, stack, logical_id, undoing=undoing)
        stack.exports = {
            resolver.resolve(output["Export"]["Name"]): resolver.resolve(output["Value"])
            for output in template.get("Outputs", {}).values()
            if "Export" in output and _holds(resolver, output)
        }

    def _make(self, stack: Stack, resource: Resource) -> None:
        before = stack.resources.get(resource.logical_id)
        if before == resource:
            return
        provider = self._provider(resource)
        if before is None:
            with self._step("CREATE", resource):
                made = provider.create(resource)
        else:
            # An update that fails may have done half of its work, so rolling back begins from what it wanted.
            stack.resources[resource.logical_id] = resource
            with self._step("UPDATE", resource):
                made = provider.update(resource, stack.made[resource.logical_id])
        stack.resources[resource.logical_id] = resource
        stack.made[resource.logical_id] = made

    def _delete(self, name: str, stack: Stack, logical_id: str, *, undoing: bool = False) -> None:
        resource, made = stack.resources[logical_id], stack.made[logical_id]
        if stack.retains(logical_id, undoing=undoing):
            self.retained.append((name, logical_id))
        else:
            with self._step("DELETE", resource):
                self._provider(resource).delete(resource, made)
        del stack.resources[logical_id], stack.made[logical_id], stack.policies[logical_id]

    @contextmanager
    def _step(self, action: str, resource: Resource) -> Iterator[None]:
        """Note one step in `events`, and why it failed.

        Raises:
            DeploymentError: it failed; names the step.
        """
        number = len(self.events)
        self.events.append(Event(action, resource.stack, resource.logical_id, resource.type))
        try:
            yield
        except DeploymentError as error:
            self.events[number] = replace(self.events[number], reason=str(error))
            raise DeploymentError(f"{resource.stack}: {action} of {resource.logical_id}: {error}") from error

    def _provider(self, resource: Resource) -> Provider:
        return self._providers.get(resource.type, self._custom)

    def _resolver(self, name: str, stack: Stack) -> Resolver:
        def ref(target: str) -> Any:
            pseudo = {
                "AWS::AccountId": self._account,
                "AWS::Partition": "aws",
                "AWS::Region": stack.region,
                "AWS::StackId": self.stack_id(name),
                "AWS::StackName": name,
                "AWS::URLSuffix": "amazonaws.com",
            }
            if target in pseudo:
                return pseudo[target]
            if target in stack.made:
                return stack.made[target].ref
            if target in stack.request.parameters:
                return stack.request.parameters[target]
            parameter = stack.request.template.get("Parameters", {}).get(target)
            if parameter is None or "Default" not in parameter:
                raise DeploymentError(f"{name}: Ref of {target}, which has no value")
            return parameter["Default"]

        def attribute(target: str, path: str) -> Any:
            found = stack.made.get(target)
            if found is None or path not in found.attributes:
                kind = stack.request.resource(target).get("Type")
                raise DeploymentError(
                    f"{name}: {target} ({kind}) has no attribute {path} known to the emulator"
                )
            return found.attributes[path]

        def imported(export: str) -> Any:
            for other in self._stacks.values():
                if export in other.exports:
                    return other.exports[export]
            raise DeploymentError(f"{name}: no stack exports {export}")

        return Resolver(
            stack.request.template,
            ref=ref,
            attribute=attribute,
            imported=imported,
            secret=lambda arn, key: self._secrets.values[arn][key],
            zones=lambda region: [f"{region}{zone}" for zone in ZONES],
        )


def _action(fresh: bool) -> str:
    return "CREATE" if fresh else "UPDATE"


def _holds(resolver: Resolver, resource: Mapping[str, Any]) -> bool:
    """Whether the condition of a resource or an output holds; true where it has none."""
    return "Condition" not in resource or resolver.condition(resource["Condition"])
