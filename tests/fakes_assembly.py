"""Cloud assemblies of a few resources, and a function that says what it was called with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_

HANDLER = """
import json, os

def handler(event, context):
    if event.get("fail"):
        raise ValueError("as asked")
    if event.get("exit"):
        os._exit(3)
    return {"event": event, "env": os.environ["MINE"], "left": context.get_remaining_time_in_millis()}

def on_event(event, context):
    if event["ResourceProperties"].get("Refuse") == event["RequestType"]:
        raise RuntimeError(f"no {event['RequestType']} today")
    with open(os.environ["LOG"], "a") as log:
        log.write(json.dumps(event) + "\\n")
    return {"PhysicalResourceId": "thing", "Data": {"Half": "way"}, "Mark": "mine"}

def is_complete(event, context):
    with open(os.environ["LOOKS"], "a") as log:
        log.write("x")
    looks = os.path.getsize(os.environ["LOOKS"])
    done = event["Mark"] == "mine" and looks >= int(event["ResourceProperties"]["Looks"])
    return {"IsComplete": done, "Data": {"Looks": str(looks)} if done else {}}
"""

Build = Callable[[cdk.Stack], Any]


def assembly(*builds: Build) -> str:
    """A cloud assembly of one stack for each `build`: Stack0, Stack1, …"""
    app = cdk.App()
    for number, build in enumerate(builds):
        build(cdk.Stack(app, f"Stack{number}", env=cdk.Environment(region="us-west-2")))
    return app.synth().directory


def function(stack: cdk.Stack, code: Path, name: str = "handler", **settings: Any) -> lambda_.Function:
    return lambda_.Function(
        stack,
        name,
        function_name=name,
        runtime=lambda_.Runtime.PYTHON_3_13,
        handler=f"index.{name}",
        code=lambda_.Code.from_asset(str(code)),
        **settings,
    )


def let_call(function: lambda_.Function, principal: str) -> lambda_.Function:
    """The function, which a service may call now."""
    lambda_.CfnPermission(
        cdk.Stack.of(function),
        f"{function.node.id}MayBeCalled",
        action="lambda:InvokeFunction",
        function_name=function.function_arn,
        principal=principal,
    )
    return function
