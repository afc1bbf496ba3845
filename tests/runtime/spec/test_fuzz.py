"""No input makes lint raise, hang or swell: random texts, damaged manifests, hostile YAML.

`python tests/fuzz/lint.py` runs the same with atheris, for as long as one likes.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from fakes_manifests import changed, cluster, deployment, endpoint, gateway, jumpstart
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hypertier.errors import HypertierError
from hypertier.planning.plan import plan_deployment
from hypertier.spec import report
from hypertier.spec.deployment import load_deployment
from hypertier.spec.fix import mended
from hypertier.spec.lint import lint_files, lint_text
from hypertier.spec.tree import leaves

CORPUS = Path(__file__).parents[2] / "manifests"
TEXTS = [file.read_bytes().decode("utf-8") for file in sorted(CORPUS.glob("*/*.yaml"))]
BASES = [endpoint(), jumpstart(), deployment(), gateway(), cluster()]
KEY = "arn:aws:kms:us-west-2:123456789012:key/0a1b2c3d"
WHOLE_DEPLOYMENT = changed(
    deployment(),
    {
        "serving": "selfhosted",
        "operator.version": "3.7",
        "cluster.kubernetesVersion": "1.35",
        "cluster.closedNetwork": False,
        "cluster.autoscaling": False,
        "instanceGroups.1.availabilityZoneId": "usw2-az2",
        "instanceGroups.1.instanceTypes": ["ml.g5.24xlarge"],
        "instanceGroups.1.minCount": 1,
        "instanceGroups.1.spot": True,
        "instanceGroups.1.volume": {"size": "500Gi", "kmsKeyArn": KEY},
        "instanceGroups.1.rootVolumeKmsKeyArn": KEY,
        "instanceGroups.1.labels": {"team": "search"},
        "instanceGroups.1.taints": [{"key": "team", "value": "search", "effect": "NoExecute"}],
        "instanceGroups.0.deepHealthChecks": ["InstanceStress"],
        "instanceGroups.1.patchSchedule": {
            "cron": "cron(0 3 ? * SUN *)",
            "batchPercent": 10,
            "rollbackAlarmNames": ["down"],
        },
        "cache.l1.size": "80Gi",
        "cache.l2": {"backend": "redis", "bandwidth": "8GB/s", "size": "1Ti", "ttl": "24h"},
        "images.engine": "123456789012.dkr.ecr.us-west-2.amazonaws.com/engine:1",
        "scaling": {"min": 1, "max": 3, "monthlyBudgetUsd": 100_000},
    },
)
CACHED_ENDPOINT = endpoint(kvCacheSpec={"enableL1Cache": True, "enableL2Cache": True})
ODD = st.sampled_from(
    [
        None,
        True,
        0,
        -1,
        2**63,
        1e308,
        float("inf"),
        "",
        "²",
        "9" * 5000,
        [],
        {},
        [[]],
        {"": {}},
        ["a", 1],
        "\u0000x",
    ]
)


def survives(text: str) -> None:
    """Lint, mend and report `text` in every format and language."""
    for language in ("en", "ko"):
        result = lint_text(text, language=language, operator_version=(3, 2))
        for form in ("text", "json", "sarif", "github"):
            report.in_format(result, form, language)
    for change in mended(result):
        lint_text(change.after)


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=400))
def test_any_text_is_survived(text: str) -> None:
    survives(text)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_damaged_manifests_are_survived(seed: int) -> None:
    chance = random.Random(seed)
    text = chance.choice(TEXTS)
    for _ in range(chance.randint(1, 8)):
        position = chance.randrange(len(text) + 1)
        removed = chance.choice((0, 0, 1, 5, 60))
        added = chance.choice(
            ("", ":", "- ", "\t", "\n", "{", "[", "'", '"', "&a ", "*a", "#", "|\n", "---\n", "\u00a0")
        )
        text = text[:position] + added + text[position + removed :]
    survives(text)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(BASES), st.data())
def test_odd_values_at_any_place_are_survived(base: dict[str, Any], data: st.DataObject) -> None:
    survives(yaml.safe_dump(odd(base, data), allow_unicode=False))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_odd_deployments_with_odd_endpoints_are_survived_by_lint_and_by_plan(
    tmp_path: Path, data: st.DataObject
) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(yaml.safe_dump(odd(WHOLE_DEPLOYMENT, data)), encoding="utf-8")
    (tmp_path / "endpoint.yaml").write_text(yaml.safe_dump(odd(CACHED_ENDPOINT, data)), encoding="utf-8")

    lint_files([str(file)])
    with suppress(HypertierError):
        plan_deployment(load_deployment(file))


def odd(base: dict[str, Any], data: st.DataObject) -> dict[str, Any]:
    """A copy of `base` with odd values in up to three places, or keys that nobody knows."""
    places = sorted(
        {where[:length] for where, _ in leaves(base) for length in range(1, len(where) + 1)}, key=str
    )
    manifest: dict[str, Any] = json.loads(json.dumps(base))
    for where in data.draw(st.lists(st.sampled_from(places), max_size=3)):
        target: Any = manifest
        for part in where[:-1]:
            holds = isinstance(target, dict) or (isinstance(target, list) and isinstance(part, int))
            target = (
                target[part]
                if holds and (part in target if isinstance(target, dict) else part < len(target))
                else None
            )
        if isinstance(target, dict):
            target[data.draw(st.sampled_from((where[-1], "unheardOf", 7)))] = data.draw(ODD)
        elif isinstance(target, list) and isinstance(where[-1], int) and where[-1] < len(target):
            target[where[-1]] = data.draw(ODD)
    return manifest


MAX_MEBIBYTES = 200
HOSTILE = {
    "bomb": "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "".join(
        f"{chr(98 + level)}: &{chr(98 + level)} [{','.join(['*' + chr(97 + level)] * 9)}]\n"
        for level in range(12)
    ),
    "merge-bomb": "a0: &a0 {x: 1}\n"
    + "".join(
        f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 9)}], k: {{<<: *a{level - 1}}}}}\n"
        for level in range(1, 30)
    ),
    "long-line": "apiVersion: " + "x" * 10_000_000,
    "many-lines": "apiVersion: x\n" * 70_000,
    "deep-flow": "a: " + "[" * 60_000,
    "deep-block": "".join("  " * depth + "a:\n" for depth in range(200)),
    "many-documents": "---\na: 1\n" * 20_000,
    "colons": "apiVersion: " + ":" * 60_000,
    "spaces": "apiVersion:" + " " * 60_000 + "x\n" + ("- " * 20_000),
    "backticks": "apiVersion: x\n" + ("- `" * 15_000 + "\n"),
    "quotes": "apiVersion: x\n" + ("k: \u201c" * 10_000 + "\n"),
    "fences": "```\napiVersion: x\n" * 10_000,
    "flat": "apiVersion: inference.sagemaker.aws.amazon.com/v1\nkind: InferenceEndpointConfig\nspec:\n"
    + "name: x\n- name: y\nenvironmentVariables:\n" * 10_000,
    "placeholders": "apiVersion: x\nkind: JumpStartModel\nspec: {a: '"
    + "<a" * 15_000
    + "${A" * 8_000
    + "'}\n",
    "many-manifests": "---\n".join(
        [(CORPUS / "faulty" / "blog-sample.yaml").read_text(encoding="utf-8")] * 180
    ),
    "numbers": "apiVersion: x\nkind: JumpStartModel\nspec: {replicas: 0x" + "f" * 60_000 + "}\n",
}
# The kernel ends a process that takes more; two seconds beside the half that its start takes at most.
# VmHWM counts from this program's start; ru_maxrss would count what started it, too.
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (3, 3))
from hypertier.spec.lint import lint_files, lint_text
from hypertier.spec.fix import mended
from hypertier.cli.lint import is_small
result = lint_text(sys.stdin.buffer.read().decode("utf-8"))
if is_small(result):
    mended(result)
status = open("/proc/self/status").read()
print(int(status.partition("VmHWM:")[2].split()[0]) // 1024)
"""


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_input_is_survived_within_bounds_of_time_and_memory(name: str) -> None:
    command = [sys.executable, "-c", LIMITED]

    done = subprocess.run(
        command, input=HOSTILE[name].encode(), capture_output=True, check=False, timeout=120
    )

    assert done.returncode == 0, done.stderr.decode()
    assert int(done.stdout) < MAX_MEBIBYTES
