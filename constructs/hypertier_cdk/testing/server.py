"""CloudFormation's API over an `Emulator`, on loopback: what `cdk bootstrap`, `deploy` and `destroy` call.

Everything else that the CDK CLI calls (S3 for assets, STS, SSM) is left to another server, such as moto's.
https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_Operations.html
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import yaml

from hypertier.errors import DeploymentError, HypertierError
from hypertier_cdk.testing.emulator import Emulator
from hypertier_cdk.testing.query import structures, xml

NAMESPACE = "http://cloudformation.amazonaws.com/doc/2010-05-15/"
NO_CHANGES = (
    "The submitted information didn't contain changes. Submit different information to create a change set."
)


class _ApiError(Exception):
    """An answer of HTTP 400, as CloudFormation gives it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(slots=True)
class _Change:
    """A change set: what is to become of a stack."""

    name: str
    kind: str
    template: dict[str, Any]
    parameters: dict[str, str]
    tags: list[dict[str, str]]


@dataclass(slots=True)
class _State:
    """A stack as CloudFormation shows it."""

    name: str
    status: str = "REVIEW_IN_PROGRESS"
    reason: str = ""
    template: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    tags: list[dict[str, str]] = field(default_factory=list)
    outputs: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, str]] = field(default_factory=list)
    changes: dict[str, _Change] = field(default_factory=dict)
    created: str = field(default_factory=lambda: _now())


class CloudFormationServer:
    """Serves CloudFormation for `emulator` at `url`, between `start` and `stop`, or in a `with`.

    `read_object` gives the content of an S3 object by bucket and key: templates are read from there.
    """

    def __init__(self, emulator: Emulator, read_object: Callable[[str, str], bytes]) -> None:
        self._emulator = emulator
        self._read_object = read_object
        self._stacks: dict[str, _State] = {}
        self._deleted: dict[str, _State] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def url(self) -> str:
        """Where it listens; give it to the CLI as `AWS_ENDPOINT_URL_CLOUDFORMATION`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> CloudFormationServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, query: Mapping[str, str]) -> tuple[int, str]:
        """The HTTP status and XML for one call."""
        action = query.get("Action", "")
        calls: dict[str, Callable[[Mapping[str, str]], dict[str, Any]]] = {
            "CreateChangeSet": self._create_change_set,
            "DeleteChangeSet": self._delete_change_set,
            "DeleteStack": self._delete_stack,
            "DescribeChangeSet": self._describe_change_set,
            "DescribeStackEvents": self._describe_events,
            "DescribeStacks": self._describe_stacks,
            "ExecuteChangeSet": self._execute_change_set,
            "GetTemplate": self._get_template,
            "ListStackResources": self._list_resources,
            "UpdateTerminationProtection": self._update_termination_protection,
        }
        try:
            if action not in calls:
                raise _ApiError("InvalidAction", f"{action} is not known to the emulator")
            with self._lock:
                result = calls[action](query)
        except _ApiError as error:
            told = {"Type": "Sender", "Code": error.code, "Message": str(error)}
            return 400, f'<ErrorResponse xmlns="{NAMESPACE}"><Error>{xml(told)}</Error></ErrorResponse>'
        body = f"<{action}Result>{xml(result)}</{action}Result>"
        return 200, f'<{action}Response xmlns="{NAMESPACE}">{body}</{action}Response>'

    def _create_change_set(self, query: Mapping[str, str]) -> dict[str, Any]:
        name = _name(query["StackName"])
        stack = self._stacks.setdefault(name, _State(name))
        template = self._template(query)
        stack.changes[query["ChangeSetName"]] = _Change(
            name=query["ChangeSetName"],
            kind=query.get("ChangeSetType", "UPDATE"),
            template=template,
            parameters=self._parameters(query, stack, template),
            tags=list(structures(query, "Tags.member.")),
        )
        return {"Id": self._change_id(stack, query["ChangeSetName"]), "StackId": self._stack_id(stack)}

    def _describe_change_set(self, query: Mapping[str, str]) -> dict[str, Any]:
        stack, change = self._change(query)
        changed = change.template != stack.template or change.parameters != stack.parameters
        return {
            "ChangeSetName": change.name,
            "ChangeSetId": self._change_id(stack, change.name),
            "StackId": self._stack_id(stack),
            "StackName": stack.name,
            "CreationTime": _now(),
            "ExecutionStatus": "AVAILABLE" if changed else "UNAVAILABLE",
            "Status": "CREATE_COMPLETE" if changed else "FAILED",
            "StatusReason": "" if changed else NO_CHANGES,
            "Changes": [
                {
                    "Type": "Resource",
                    "ResourceChange": {"LogicalResourceId": key, "ResourceType": made["Type"]},
                }
                for key, made in change.template.get("Resources", {}).items()
            ],
        }

    def _execute_change_set(self, query: Mapping[str, str]) -> dict[str, Any]:
        stack, change = self._change(query)
        del stack.changes[change.name]
        kind = "CREATE" if stack.status == "REVIEW_IN_PROGRESS" else "UPDATE"
        self._tell(stack, f"{kind}_IN_PROGRESS")
        before = len(self._emulator.events)
        try:
            self._emulator.put_stack(
                stack.name,
                change.template,
                parameters=change.parameters,
                rollback=query.get("DisableRollback") != "true",
            )
            stack.outputs = self._emulator.outputs(stack.name)
        except HypertierError as error:
            status = self._emulator.status(stack.name)
            rolling_back = status.rpartition("_")[0] + "_IN_PROGRESS" if "ROLLBACK" in status else ""
            self._tell_steps(stack, before, rolling_back=rolling_back)
            self._tell(stack, status, str(error))
            return {}
        self._tell_steps(stack, before)
        stack.template, stack.parameters, stack.tags = change.template, change.parameters, change.tags
        self._tell(stack, f"{kind}_COMPLETE")
        return {}

    def _delete_change_set(self, query: Mapping[str, str]) -> dict[str, Any]:
        stack = self._stacks.get(_name(query.get("StackName", "")))
        if stack is not None:
            stack.changes.pop(query["ChangeSetName"], None)
        return {}

    def _delete_stack(self, query: Mapping[str, str]) -> dict[str, Any]:
        stack = self._stacks.get(_name(query["StackName"]))
        if stack is None:
            return {}
        self._tell(stack, "DELETE_IN_PROGRESS")
        before = len(self._emulator.events)
        try:
            if self._emulator.status(stack.name):  # else nothing of it was ever executed
                self._emulator.delete_stack(stack.name)
        except DeploymentError as error:
            self._tell_steps(stack, before)
            self._tell(stack, "DELETE_FAILED", str(error))
            return {}
        self._tell_steps(stack, before)
        self._tell(stack, "DELETE_COMPLETE")
        self._deleted[self._stack_id(stack)] = self._stacks.pop(stack.name)
        return {}

    def _describe_stacks(self, query: Mapping[str, str]) -> dict[str, Any]:
        wanted = query.get("StackName")
        stacks = [self._stack(wanted)] if wanted else list(self._stacks.values())
        return {
            "Stacks": [
                {
                    "StackId": self._stack_id(stack),
                    "StackName": stack.name,
                    "CreationTime": stack.created,
                    "StackStatus": stack.status,
                    "StackStatusReason": stack.reason,
                    "DisableRollback": "false",
                    "Tags": stack.tags,
                    "Parameters": [
                        {"ParameterKey": key, "ParameterValue": value}
                        for key, value in stack.parameters.items()
                    ],
                    "Outputs": [
                        {"OutputKey": key, "OutputValue": str(value)} for key, value in stack.outputs.items()
                    ],
                }
                for stack in stacks
            ]
        }

    def _describe_events(self, query: Mapping[str, str]) -> dict[str, Any]:
        return {"StackEvents": list(reversed(self._stack(query["StackName"]).events))}

    def _get_template(self, query: Mapping[str, str]) -> dict[str, Any]:
        return {"TemplateBody": json.dumps(self._stack(query["StackName"]).template)}

    def _list_resources(self, query: Mapping[str, str]) -> dict[str, Any]:
        stack = self._stack(query["StackName"])
        return {
            "StackResourceSummaries": [
                {
                    "LogicalResourceId": resource.logical_id,
                    "PhysicalResourceId": made.ref,
                    "ResourceType": resource.type,
                    "ResourceStatus": "CREATE_COMPLETE",
                    "LastUpdatedTimestamp": stack.created,
                }
                for resource, made in self._emulator.resources_of(stack.name)
            ]
        }

    def _update_termination_protection(self, query: Mapping[str, str]) -> dict[str, Any]:
        return {"StackId": self._stack_id(self._stack(query["StackName"]))}

    def _template(self, query: Mapping[str, str]) -> dict[str, Any]:
        if "TemplateBody" in query:
            text = query["TemplateBody"]
        else:
            bucket, key = _object_behind(query["TemplateURL"])
            text = self._read_object(bucket, key).decode("utf-8")
        loaded = yaml.load(text, Loader=_Loader)
        if not isinstance(loaded, dict):
            raise _ApiError("ValidationError", "the template is no object")
        return loaded

    def _parameters(
        self, query: Mapping[str, str], stack: _State, template: Mapping[str, Any]
    ) -> dict[str, str]:
        given = {}
        for parameter in structures(query, "Parameters.member."):
            key = parameter["ParameterKey"]
            if parameter.get("UsePreviousValue") == "true":
                if key in stack.parameters:
                    given[key] = stack.parameters[key]
            else:
                given[key] = parameter.get("ParameterValue", "")
        return {key: value for key, value in given.items() if key in template.get("Parameters", {})}

    def _stack(self, name_or_id: str) -> _State:
        stack = self._stacks.get(_name(name_or_id)) or self._deleted.get(name_or_id)
        if stack is None:
            raise _ApiError("ValidationError", f"Stack with id {name_or_id} does not exist")
        return stack

    def _change(self, query: Mapping[str, str]) -> tuple[_State, _Change]:
        name = query["ChangeSetName"]
        if name.startswith("arn:"):
            name = name.split("/")[1]
        stack = self._stack(query["StackName"])
        if name not in stack.changes:
            raise _ApiError("ChangeSetNotFound", f"ChangeSet [{name}] does not exist")
        return stack, stack.changes[name]

    def _tell(self, stack: _State, status: str, reason: str = "") -> None:
        stack.status, stack.reason = status, reason
        self._tell_event(stack, stack.name, "AWS::CloudFormation::Stack", status, reason)

    def _tell_steps(self, stack: _State, before: int, *, rolling_back: str = "") -> None:
        """Tell the emulator's steps since `before`, after one that failed also that it is `rolling_back`."""
        for event in self._emulator.events[before:]:
            outcome = "FAILED" if event.reason else "COMPLETE"
            self._tell_event(stack, event.logical_id, event.type, f"{event.action}_{outcome}", event.reason)
            if event.reason and rolling_back:
                failed = f"The following resource(s) failed to {event.action.lower()}: [{event.logical_id}]."
                self._tell(stack, rolling_back, failed)
                rolling_back = ""

    def _tell_event(self, stack: _State, logical_id: str, kind: str, status: str, reason: str) -> None:
        stack.events.append(
            {
                "EventId": f"{stack.name}-{len(stack.events)}",
                "StackId": self._stack_id(stack),
                "StackName": stack.name,
                "LogicalResourceId": logical_id,
                "PhysicalResourceId": self._stack_id(stack) if logical_id == stack.name else logical_id,
                "ResourceType": kind,
                "ResourceStatus": status,
                "ResourceStatusReason": reason,
                "Timestamp": _now(),
            }
        )

    def _stack_id(self, stack: _State) -> str:
        return self._emulator.stack_id(stack.name)

    def _change_id(self, stack: _State, change: str) -> str:
        return f"{self._stack_id(stack).rpartition(':stack/')[0]}:changeSet/{change}/1"


class _Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short forms, such as `!Ref`."""


def _short_form(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.ScalarNode):
        value: Any = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        assert isinstance(node, yaml.MappingNode)
        value = loader.construct_mapping(node, deep=True)
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _short_form)


def _handler(server: CloudFormationServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode("utf-8")
            status, text = server.answer(dict(parse_qsl(body, keep_blank_values=True)))
            content = text.encode("utf-8")
            self.send_response(status)
            self.send_header("Content-Type", "text/xml")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _object_behind(url: str) -> tuple[str, str]:
    """Bucket and key of an S3 URL, whether the bucket stands in the path or in the host's name."""
    parts = urlsplit(url)
    path = unquote(parts.path.lstrip("/"))
    host = parts.hostname or ""
    bucket, dot, rest = host.partition(".s3")
    if dot and rest:
        return bucket, path
    bucket, _, key = path.partition("/")
    return bucket, key


def _name(name_or_id: str) -> str:
    """The name of a stack that is named, or given by its ARN."""
    return name_or_id.split("/")[1] if name_or_id.startswith("arn:") else name_or_id


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
