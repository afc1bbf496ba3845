"""What --fix writes: rules kept afterwards, comments and order as they were, nothing guessed."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import yaml
from fakes_manifests import REMOVED, changed, endpoint
from fakes_rules import CASES, Case, ids, subject
from ruamel.yaml.comments import CommentedMap

from hypertier.spec.fix import apply, mended
from hypertier.spec.lint import lint_text
from hypertier.spec.rules import RULES, Edit
from hypertier.spec.rules.subject import Subject
from hypertier.spec.tree import Document, path

COMMENTED = """\
# who: platform team
apiVersion: inference.sagemaker.aws.amazon.com/v1
kind: InferenceEndpointConfig
metadata: {name: llama-8b, namespace: inference}   # one line
spec:
  worker:
    # the engine
    image: 'vllm/vllm-openai:v0.32.0'
    modelInvocationPort:
      containerPort: 8000   # vLLM's own
    modelVolumeMount: {name: weights}
    resources:
      limits: {nvidia.com/gpu: 1, memory: 24Gi}
    environmentVariables:
      - name: HF_HOME   # keep
        value: /tmp
  kvCacheSpec:
    enable_l2_cache: true   # typo
    l2CacheSpec:
      l2CacheBackend: TieredStorage
  modelName: llama-8b
  instanceType: g6e.xlarge
  modelSourceConfig:
    modelSourceType: s3
    s3Storage: {bucketName: models, region: us-west-2}
    modelLocation: x
"""


def repaired(text: str) -> str:
    """`text` after as many rounds of fixing as it takes."""
    for _ in range(5):
        changes = mended(lint_text(text))
        if not changes:
            break
        text = changes[0].after
    return text


def errors(text: str) -> list[str]:
    return [finding.rule for finding in lint_text(text).findings if finding.severity == "error"]


def plain(value: Any) -> Any:
    """Round-trip data as plain data."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, list) else value


def commented(data: Any) -> Any:
    if isinstance(data, dict):
        return CommentedMap({key: commented(value) for key, value in data.items()})
    return [commented(value) for value in data] if isinstance(data, list) else data


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_an_edit_mends_its_rule(case: Case) -> None:
    broken, rule = subject(case, case.broken), RULES[case.rule]
    hits = [hit for hit in rule.check(broken) if hit.edits]
    document = commented(copy.deepcopy(broken.manifest.data))

    made = [apply(document, edit) for hit in hits for edit in hit.edits]

    assert all(made)
    if hits:
        after = Subject(case.kind, Document(plain(document)), broken.around)
        assert [hit for hit in rule.check(after) if hit.edits] == []


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_a_suggested_value_at_its_path_mends_its_rule(case: Case) -> None:
    broken, rule = subject(case, case.broken), RULES[case.rule]
    hits = [hit for hit in rule.check(broken) if hit.fix is not None]
    document = commented(copy.deepcopy(broken.manifest.data))

    for hit in hits:
        apply(document, Edit("set", hit.where, hit.fix))

    if hits:
        after = Subject(case.kind, Document(plain(document)), broken.around)
        assert list(rule.check(after)) == []


def test_comments_order_and_quotes_are_kept() -> None:
    after = repaired(COMMENTED)

    for kept in ("# who: platform team", "# one line", "# the engine", "# vLLM's own", "# keep", "# typo"):
        assert kept in after
    assert "image: 'vllm/vllm-openai:v0.32.0'" in after
    assert list(yaml.safe_load(after)["spec"])[:3] == ["worker", "kvCacheSpec", "modelName"]


@pytest.mark.parametrize("name", ["environmentVariable", "environment_variables", "env"])
def test_what_stands_under_another_name_is_kept_when_more_is_set_there(name: str) -> None:
    variables = [{"name": "HF_HOME", "value": "/tmp"}]
    manifest = changed(endpoint(), {"spec.worker.environmentVariables": variables})
    manifest["spec"]["kvCacheSpec"] = {
        "enableL2Cache": True,
        "l2CacheSpec": {"l2CacheBackend": "tieredstorage"},
    }
    text = yaml.safe_dump(manifest).replace("environmentVariables:", f"{name}:")

    after = yaml.safe_load(repaired(text))

    assert after["spec"]["worker"]["environmentVariables"] == [
        *variables,
        {"name": "PYTHONHASHSEED", "value": "0"},
    ]


@pytest.mark.parametrize(
    ("field", "written", "meant"),
    [
        pytest.param(
            "args",
            "/opt/ml/model --port 8000 --served-model-name 'a b'",
            ["/opt/ml/model", "--port", "8000", "--served-model-name", "a b"],
            id="a command line",
        ),
        pytest.param("args", "/opt/ml/model", ["/opt/ml/model"], id="a word"),
        pytest.param(
            "environmentVariables",
            {"HF_HOME": "/tmp", "PYTHONHASHSEED": 0},
            [{"name": "HF_HOME", "value": "/tmp"}, {"name": "PYTHONHASHSEED", "value": "0"}],
            id="a mapping",
        ),
    ],
)
def test_what_was_meant_for_a_list_becomes_one(field: str, written: Any, meant: list[Any]) -> None:
    text = yaml.safe_dump(changed(endpoint(), {f"spec.worker.{field}": written}))

    assert yaml.safe_load(repaired(text))["spec"]["worker"][field] == meant


@pytest.mark.parametrize("written", ["--port '8000", {"A": None}, {"A": []}, {}, 7])
def test_what_is_no_list_and_not_understood_is_left(written: Any) -> None:
    text = yaml.safe_dump(changed(endpoint(), {"spec.worker.environmentVariables": written}))

    assert yaml.safe_load(repaired(text))["spec"]["worker"]["environmentVariables"] == written


def test_what_belongs_elsewhere_by_its_own_name_is_moved_there() -> None:
    manifest = endpoint()
    manifest["spec"].pop("kvCacheSpec", None)
    manifest["kvCacheSpec"] = {"enableL1Cache": True}

    after = yaml.safe_load(repaired(yaml.safe_dump(manifest)))

    assert after["spec"]["kvCacheSpec"]["enableL1Cache"] is True
    assert "kvCacheSpec" not in after


def test_a_probe_that_is_added_asks_where_the_engine_listens() -> None:
    worker = "spec.worker."
    broken = {f"{worker}modelInvocationPort.containerPort": 9000, f"{worker}probes": REMOVED}

    whole = yaml.safe_load(repaired(yaml.safe_dump(changed(endpoint(), broken))))

    asked = whole["spec"]["worker"]["probes"]["readinessProbe"]["httpGet"]["port"]
    assert asked == whole["spec"]["worker"]["modelInvocationPort"]["containerPort"] == 8000


def test_what_follows_from_the_manifest_is_mended() -> None:
    after = yaml.safe_load(repaired(COMMENTED))["spec"]

    assert after["kvCacheSpec"]["enableL2Cache"] is True
    assert after["kvCacheSpec"]["l2CacheSpec"]["l2CacheBackend"] == "tieredstorage"
    assert after["instanceType"] == "ml.g6e.xlarge"
    assert after["metrics"]["modelMetrics"]["port"] == 8000
    assert after["worker"]["environmentVariables"][-1] == {"name": "PYTHONHASHSEED", "value": "0"}
    assert errors(repaired(COMMENTED)) == []


def test_what_only_the_author_knows_is_left() -> None:
    manifest = changed(
        endpoint(),
        {
            "spec.modelSourceConfig.s3Storage.bucketName": "<your bucket>",
            "spec.kvCacheSpec": {"enableL2Cache": True, "l2CacheSpec": {"l2CacheBackend": "redis"}},
        },
    )

    after = yaml.safe_load(repaired(yaml.safe_dump(manifest)))

    assert after["spec"]["modelSourceConfig"]["s3Storage"]["bucketName"] == "<your bucket>"
    assert "l2CacheLocalUrl" not in after["spec"]["kvCacheSpec"]["l2CacheSpec"]


def test_only_the_broken_document_of_a_file_changes() -> None:
    text = f"{COMMENTED}---\n{COMMENTED.replace('g6e.xlarge', 'ml.g6e.xlarge')}"

    first, second = yaml.safe_load_all(repaired(text))

    assert first["spec"]["instanceType"] == second["spec"]["instanceType"] == "ml.g6e.xlarge"
    assert repaired(text).count("# who: platform team") == 2


def test_json_stays_json() -> None:
    manifest = changed(endpoint(), {"spec.instanceType": "g5.12xlarge"})

    after = repaired(json.dumps(manifest))

    assert json.loads(after) == endpoint()


@pytest.mark.parametrize(
    ("written", "text"),
    [("3.10", "3.10"), ("yes", "yes"), ("010", "010"), ("7", "7"), ("1e3", "1e3"), ("true", "true")],
)
def test_a_value_that_needs_quotes_gets_them_and_stays_what_was_written(written: str, text: str) -> None:
    manifest = yaml.safe_dump(endpoint()).replace("value: '0'", f"value: {written}")

    after = yaml.safe_load(repaired(manifest))

    assert after["spec"]["worker"]["environmentVariables"][0]["value"] == text


def test_a_file_without_findings_is_no_change() -> None:
    assert mended(lint_text(yaml.safe_dump(endpoint(), sort_keys=False))) == []


def test_a_patch_names_the_file_and_the_lines() -> None:
    change = mended(lint_text(COMMENTED, "a.yaml"))[0]

    assert change.diff.startswith("--- a.yaml\n+++ a.yaml\n")
    assert "-  instanceType: g6e.xlarge\n+  instanceType: ml.g6e.xlarge\n" in change.diff


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(Edit("set", path("spec.none", 3, "x"), 1), id="into-nothing"),
        pytest.param(Edit("remove", path("spec.none")), id="what-is-not-there"),
        pytest.param(Edit("rename", path("spec.a"), "b"), id="onto-another"),
        pytest.param(Edit("move", path("spec.a"), path("spec.b")), id="move-onto-another"),
    ],
)
def test_an_edit_without_a_place_changes_nothing(edit: Edit) -> None:
    document = commented({"spec": {"a": 1, "b": 2}})

    made = apply(document, edit)

    assert not made
    assert plain(document["spec"])["a"] == 1
    assert plain(document["spec"])["b"] == 2
