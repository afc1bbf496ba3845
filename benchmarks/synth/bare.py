"""The templates of `app.py` once more, each resource a bare `CfnResource`: what no construct could undercut.

Its first argument is the folder of the templates; the others are modules to import, as for `empty.py`.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import aws_cdk as cdk

for module in sys.argv[2:]:
    importlib.import_module(module)

app = cdk.App(tree_metadata=False)
for file in sorted(Path(sys.argv[1]).glob("*.template.json")):
    stack = cdk.Stack(app, file.name.partition(".")[0], env=cdk.Environment(region="us-west-2"))
    template = json.loads(file.read_text(encoding="utf-8"))
    for name in template.get("Conditions", ()):
        # Only that it is there matters: a value refers to it.
        cdk.CfnCondition(stack, name, expression=cdk.Fn.condition_equals(cdk.Aws.PARTITION, "aws"))
    # What comes from another stack is in the values already, as Fn::ImportValue.
    for logical_id, body in template["Resources"].items():
        resource = cdk.CfnResource(
            stack, logical_id, type=body["Type"], properties=body.get("Properties", {})
        )
        resource.override_logical_id(logical_id)
app.synth()
