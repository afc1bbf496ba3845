"""Every rule speaks where it must and is silent beside it: one broken and one whole manifest for each."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fakes_manifests import REMOVED, changed, deployment, endpoint
from fakes_rules import BASES, CASES, SELFHOSTED, Case, ids, subject
from rule_cases.case import OPERATOR, TIERED, WORKER

from hypertier.spec.lint import lint_files
from hypertier.spec.rules import RULES
from hypertier.spec.rules.rule import DEPLOYMENT, ENDPOINT, shown
from hypertier.spec.rules.subject import Subject
from hypertier.spec.tree import Document, dotted


def spoken(case: Case, changes: Mapping[str, Any]) -> list[str]:
    return [dotted(hit.where) for hit in RULES[case.rule].check(subject(case, changes))]


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_a_rule_names_the_place_where_it_is_broken(case: Case) -> None:
    assert spoken(case, case.broken) == [case.at]


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_a_rule_is_silent_where_it_is_kept(case: Case) -> None:
    assert spoken(case, case.whole) == []


@pytest.mark.parametrize("case", CASES, ids=ids)
@pytest.mark.parametrize("language", ["en", "ko"])
def test_a_message_has_every_value_filled_in(case: Case, language: Any) -> None:
    rule, broken = RULES[case.rule], subject(case, case.broken)

    messages = [rule.message(hit, broken, language) for hit in rule.check(broken)]

    assert all(message and "{" not in message.replace("{MODEL", "").replace("${", "") for message in messages)


@pytest.mark.parametrize(
    ("rule", "broken"),
    [("unknown-field", {"cahce": {}}), ("missing-field", {"instanceGroups.0.count": REMOVED})],
)
def test_our_own_file_is_refused_by_us(rule: str, broken: dict[str, Any]) -> None:
    read = subject(Case(rule, broken, "", kind=DEPLOYMENT), broken)

    messages = [RULES[rule].message(hit, read) for hit in RULES[rule].check(read)]

    assert len(messages) == 1
    assert "hypertier" in messages[0]
    assert "API server" not in messages[0]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        pytest.param("--max-modle-len", " does not know (did you mean --max-model-len?): ", id="misspelled"),
        pytest.param(
            "--max-model-len 8192", " does not know (--max-model-len and 8192 are two items): ", id="one-item"
        ),
        pytest.param(
            "--max-model 8192", " does not know (--max-model and 8192 are two items): ", id="short-one-item"
        ),
        pytest.param(
            "--max-num", " does not know (it is short for --max-num-active-seqs, ", id="short-for-several"
        ),
        pytest.param("--mine", " does not know: ", id="like-none"),
    ],
)
def test_an_unknown_argument_is_told_what_it_may_mean(word: str, said: str) -> None:
    arguments = {"spec.worker.args": [word]}
    read = subject(Case("argument-unknown", arguments, ""), arguments)

    (message,) = [
        RULES["argument-unknown"].message(hit, read) for hit in RULES["argument-unknown"].check(read)
    ]

    assert said in message


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("value", [None, "", [], {}], ids=["none", "text", "list", "mapping"])
def test_what_is_not_there_or_empty_is_shown_by_a_word(value: Any, language: Any) -> None:
    assert shown(value, language) in ("not set", "empty", "미설정 상태", "빈 값")


def test_every_rule_has_a_case() -> None:
    elsewhere = {
        "duplicate-key",
        "endpoint-file",
        "endpoint-name-twice",
        "deployment-alone",
    }  # need files: tests/manifests

    assert set(RULES) - {case.rule for case in CASES} - elsewhere == set()


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_every_rule_has_a_source_and_two_languages(rule: Any) -> None:
    assert rule.source.startswith(("https://", "docs/"))
    assert rule.en != rule.ko
    assert any("가" <= letter <= "힣" for letter in rule.ko)


@pytest.mark.parametrize("kind", BASES)
def test_no_rule_objects_to_the_valid_manifests(kind: str) -> None:
    valid = Subject(kind, Document(BASES[kind]()))

    objections = [rule.name for rule in RULES.values() if kind in rule.kinds and list(rule.check(valid))]

    assert objections == []


OPERATOR_ALONE = [
    case
    for case in CASES
    if case.kind == ENDPOINT
    and (
        case.rule in ("hash-seed", "metrics-port", "health-path", "readiness-timeout", "arguments-ignored")
        or case.rule.startswith("kvaware-")
    )
]


@pytest.mark.parametrize("case", OPERATOR_ALONE, ids=ids)
def test_what_our_own_engines_are_given_is_not_asked_of_the_manifest(case: Case) -> None:
    ours = dataclasses.replace(case, deployment=SELFHOSTED)

    assert spoken(ours, case.broken) == []


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.rule in ("cache-engine", "selfhosted-engine")], ids=ids
)
def test_an_image_that_no_engine_runs_may_have_any_engine(case: Case) -> None:
    named = {**SELFHOSTED, "images": {"engine": "registry.example/vllm-with-tiers:1"}}

    assert spoken(dataclasses.replace(case, deployment=named), case.broken) == []


@pytest.mark.parametrize(
    ("image", "serving", "spoken_by"),
    [
        ("vllm/vllm-openai:v0.32.0", SELFHOSTED, []),
        ("vllm/vllm-openai:v0.32.0", OPERATOR, []),
        ("djl-inference:0.36.0-lmi18.0.0-cu128", SELFHOSTED, []),
        ("djl-inference:0.36.0-lmi18.0.0-cu128", OPERATOR, ["cache-engine"]),
        ("lmsysorg/sglang:v0.5.6", SELFHOSTED, ["selfhosted-engine"]),
        ("lmsysorg/sglang:v0.5.6", OPERATOR, ["cache-engine"]),
        ("ghcr.io/huggingface/text-generation-inference:3.3.6", SELFHOSTED, ["selfhosted-engine"]),
        ("ghcr.io/huggingface/text-generation-inference:3.3.6", OPERATOR, ["cache-engine"]),
    ],
)
def test_an_engine_that_cannot_cache_is_told_of_once(
    image: str, serving: dict[str, Any], spoken_by: list[str]
) -> None:
    broken = {f"{WORKER}image": image, "spec.kvCacheSpec": TIERED}
    cases = [Case(rule, broken, "", deployment=serving) for rule in ("cache-engine", "selfhosted-engine")]

    assert [case.rule for case in cases if spoken(case, broken)] == spoken_by


def test_a_store_of_the_deployment_needs_no_address_in_the_manifest() -> None:
    without_url = next(case for case in CASES if case.rule == "l2-redis-url")

    assert spoken(without_url, without_url.broken) != []
    assert spoken(dataclasses.replace(without_url, deployment=SELFHOSTED), without_url.broken) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("EOS_TOKEN", "</s>"),
        ("USE_AUTH_TOKEN", "true"),
        ("SECRET_NAME", "hf"),
        ("TOKEN_ID", "7"),
        ("A", "<think>"),
    ],
)
def test_words_of_models_are_neither_secrets_nor_placeholders(name: str, value: str) -> None:
    variables = [{"name": name, "value": value}]
    manifest = Subject(
        ENDPOINT, Document(changed(endpoint(), {"spec.worker.environmentVariables": variables}))
    )

    assert list(RULES["literal-secret"].check(manifest)) == []
    assert list(RULES["placeholder"].check(manifest)) == []


@pytest.mark.parametrize(
    ("serving", "expected"),
    [
        pytest.param("selfhosted", set(), id="the CDK makes the store"),
        pytest.param("operator", {"l2-redis-url"}, id="nobody makes one"),
    ],
)
def test_a_store_s_address_is_asked_for_where_nobody_fills_it_in(
    serving: str, expected: set[str], tmp_path: Path
) -> None:
    redis = {"enableL2Cache": True, "l2CacheSpec": {"l2CacheBackend": "redis"}}
    (tmp_path / "e.yaml").write_text(json.dumps(endpoint(kvCacheSpec=redis)))
    (tmp_path / "d.yaml").write_text(
        json.dumps({**deployment(), "serving": serving, "endpoints": ["e.yaml"]})
    )

    found = {finding.rule for finding in lint_files([str(tmp_path / "d.yaml")]).findings}

    assert found & {"l2-redis-url"} == expected


@pytest.mark.parametrize(
    ("scaling", "found"),
    [
        pytest.param({}, True, id="one replica for ever"),
        pytest.param({"max": 2}, False, id="the hook may make it two"),
        pytest.param({"schedules": [{"name": "day", "maxReplicas": 2}]}, False, id="a schedule may"),
    ],
)
def test_a_replica_that_the_hook_gives_others_needs_its_router(scaling: dict[str, Any], found: bool) -> None:
    case = dataclasses.replace(
        next(case for case in CASES if case.rule == "routing-one-replica"),
        deployment={**SELFHOSTED, "scaling": scaling},
    )

    assert bool(spoken(case, case.broken)) is found


@pytest.mark.parametrize(
    ("most", "manifest", "nodes", "found"),
    [
        pytest.param(3, {}, {}, set(), id="as many as there is room for"),
        pytest.param(4, {}, {}, {"scaling-over-nodes"}, id="more"),
        pytest.param(4, {"spec.replicas": 4}, {}, {"more-replicas-than-nodes"}, id="more from the beginning"),
        pytest.param(
            4,
            {},
            {"cluster": {"autoscaling": True}, "instanceGroups.1.count": 0},
            set(),
            id="Karpenter brings nodes",
        ),
    ],
)
def test_replicas_that_scaling_may_add_have_nodes(
    most: int, manifest: dict[str, Any], nodes: dict[str, Any], found: set[str], tmp_path: Path
) -> None:
    told = changed(deployment(), {"scaling": {"min": 1, "max": most}, **nodes})
    (tmp_path / "endpoint.yaml").write_text(json.dumps(changed(endpoint(), manifest)))
    (tmp_path / "deployment.yaml").write_text(json.dumps(told))

    rules = {finding.rule for finding in lint_files([str(tmp_path / "deployment.yaml")]).findings}

    assert rules & {"scaling-over-nodes", "more-replicas-than-nodes"} == found
