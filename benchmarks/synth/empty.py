"""An app without a construct of its own that imports what `app.py` has imported when it ends.

The modules are its arguments, since `hypertier_cdk` imports its parts when they are first used.
"""

from __future__ import annotations

import importlib
import sys

import aws_cdk as cdk

for module in sys.argv[1:]:
    importlib.import_module(module)

app = cdk.App(tree_metadata=False)
stack = cdk.Stack(app, "Empty", env=cdk.Environment(region="us-west-2"))
# Its one resource: without any the validator would find the template at fault.
cdk.CfnResource(stack, "Nothing", type="AWS::CloudFormation::WaitConditionHandle")
app.synth()
