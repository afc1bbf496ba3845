"""Lambda functions, run for real: their code from the assembly's assets, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypertier.errors import DeploymentError
from hypertier_cdk.testing import iam
from hypertier_cdk.testing.roles import Caller

# What Lambda's own bootstrap does: find the handler, call it, tell what came back or what was raised.
_BOOTSTRAP = """
import importlib, json, os, runpy, sys, time
folder, handler, seconds, answer, iam = sys.argv[1:]
caller = json.loads(os.environ.pop("HYPERTIER_EMULATED_CALLER"))
if caller:
    try:
        runpy.run_path(iam)["watch_calls"](caller["statements"], caller["who"])
    except ImportError:
        pass  # without botocore nothing of AWS is called by it
sys.path.insert(0, folder)
end = time.monotonic() + float(seconds)
class Context:
    aws_request_id = "00000000-0000-0000-0000-000000000000"
    def get_remaining_time_in_millis(self):
        return int((end - time.monotonic()) * 1000)
module, _, name = handler.rpartition(".")
try:
    value = getattr(importlib.import_module(module.replace("/", ".")), name)(json.load(sys.stdin), Context())
    told = {"value": value}
except Exception as error:
    told = {"error": f"{type(error).__name__}: {error}"}
with open(answer, "w", encoding="utf-8") as file:
    json.dump(told, file)
"""


@dataclass(frozen=True, slots=True)
class Function:
    """A Lambda function of Python: its code's folder, its handler, environment, and how long it may take."""

    name: str
    runtime: str
    handler: str
    folder: Path | None
    environment: Mapping[str, str]
    timeout_seconds: float
    account: str
    region: str

    def invoke(self, event: object, environment: Mapping[str, str], caller: Caller | None) -> Any:
        """Run the handler on an event and return what it returns.

        `environment` is what Lambda itself would set: Region and endpoints. It runs with the credentials of
        `caller` and may do what that one may; without one it has those of `environment`, and may do anything.

        Raises:
            DeploymentError: it raised, ended, or took longer than its timeout; or it is not written in
            Python.
        """
        if not self.runtime.startswith("python") or self.folder is None:
            raise DeploymentError(
                f"the function {self.name} runs on {self.runtime or 'an image'}; the emulator runs Python"
            )
        with tempfile.TemporaryDirectory() as folder:
            answer = Path(folder) / "answer.json"
            command = [sys.executable, "-c", _BOOTSTRAP, str(self.folder), self.handler]
            try:
                ran = subprocess.run(
                    [*command, str(self.timeout_seconds), str(answer), iam.__file__],
                    input=json.dumps(event),
                    env={
                        "PATH": os.environ.get("PATH", ""),
                        **environment,
                        **(caller.environment if caller else {}),
                        **self.environment,
                        "HYPERTIER_EMULATED_CALLER": json.dumps(self._told_of(caller)),
                    },
                    cwd=folder,
                    capture_output=True,
                    text=True,
                    timeout=self.timeout_seconds,
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                raise DeploymentError(
                    f"the function {self.name} did not end within {self.timeout_seconds:g} seconds"
                ) from error
            if not answer.exists():
                raise DeploymentError(
                    f"the function {self.name} ended with {ran.returncode}: {ran.stderr[-2000:]}"
                )
            told = json.loads(answer.read_text(encoding="utf-8"))
        if "error" in told:
            raise DeploymentError(f"the function {self.name} raised {told['error']}")
        return told["value"]

    def _told_of(self, caller: Caller | None) -> dict[str, Any] | None:
        """What the function's process is to know of who it is."""
        if caller is None:
            return None
        role = caller.arn.rpartition("/")[2]
        session = f"arn:aws:sts::{self.account}:assumed-role/{role}/{self.name}"
        who = {"arn": session, "account": self.account, "region": self.region}
        return {"statements": caller.statements, "who": who}
