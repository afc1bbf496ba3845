"""What `hypertier lint` imports: neither the CDK nor an engine nor what it needs only to write files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REFERENCE = Path(__file__).parents[3] / "examples" / "reference" / "deployment.yaml"
HEAVY = (
    "aws_cdk",
    "cdk8s",
    "jsii",
    "constructs",
    "torch",
    "vllm",
    "numpy",
    "boto3",
    "botocore",
    "ruamel",
    "asyncio",
)


def test_linting_a_clean_file_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from hypertier.cli.commands import cli\n"
        f"try:\n    cli(['lint', {str(REFERENCE)!r}])\n"
        "except SystemExit as ended:\n    assert ended.code == 0, ended.code\n"
        f"print(sorted(set({HEAVY!r}) & {{name.partition('.')[0] for name in sys.modules}}))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"
