"""The hook for replicas may write two annotations of its Deployment's pods, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from fakes_admission import Admission, Write
from hypothesis import given
from hypothesis import strategies as st

from hypertier_cdk.hook_access import DELETION_COST, WORTH, hook_objects
from hypertier_lambdas.replicas.coldest import choose, read_pods

GROUP, NAMESPACE, DEPLOYMENT = "hypertier-replicas-llama.v1-engine", "inference", "llama.v1-engine"
OBJECTS = {entry["kind"]: entry for entry in hook_objects(GROUP, NAMESPACE, DEPLOYMENT)}
ADMISSION = Admission(OBJECTS["ValidatingAdmissionPolicy"]["spec"])

OURS = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{DEPLOYMENT}-5d8f7c6b9", "controller": True}
OTHER_OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "warm", "controller": True}
MARKED = {DELETION_COST: "-2", WORTH: "1024"}

Pod = dict[str, Any]
Change = Callable[[Pod], object]


def pod(**metadata: Any) -> Pod:
    """One of the Deployment's, as the API server has it; None leaves a part of the metadata out."""
    whole = {
        "name": f"{DEPLOYMENT}-5d8f7c6b9-x2x4z",
        "namespace": NAMESPACE,
        "labels": {"app": "llama"},
        "annotations": {"team": "inference"},
        "finalizers": ["example.com/drain"],
        "ownerReferences": [OURS],
    } | metadata
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {key: value for key, value in whole.items() if value is not None},
        "spec": {"containers": [{"name": "engine", "image": "vllm:0.32"}], "nodeName": "node-1"},
        "status": {"phase": "Running"},
    }


def write(change: Change, old: Pod | None = None) -> Write:
    """The hook changes a pod so."""
    old = pod() if old is None else old
    new = deepcopy(old)
    change(new)
    return Write(old, new, groups=["system:authenticated", GROUP], namespace=NAMESPACE)


def annotate(**annotations: str) -> Change:
    return lambda pod: pod["metadata"].setdefault("annotations", {}).update(annotations)


def within(*path: str, value: Any) -> Change:
    """Sets what stands at `path`; None takes it away."""

    def change(pod: Pod) -> None:
        place = pod
        for key in path[:-1]:
            place = place[key]
        if value is None:
            place.pop(path[-1], None)
        else:
            place[path[-1]] = value

    return change


def meta(*path: str, value: Any) -> Change:
    return within("metadata", *path, value=value)


MARK = annotate(**{DELETION_COST: "-1", WORTH: "2048"})


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(write(MARK), id="a mark"),
        pytest.param(write(MARK, pod(annotations=None)), id="a mark on a pod without annotations"),
        pytest.param(write(MARK, pod(annotations=MARKED)), id="another mark"),
        pytest.param(write(MARK, pod(labels=None, finalizers=None)), id="a pod without labels"),
        pytest.param(write(annotate(**{WORTH: "7"})), id="one of the two"),
        pytest.param(
            write(meta("annotations", value=None), pod(annotations=MARKED)),
            id="marks go",
        ),
        pytest.param(
            write(
                within("metadata", "annotations", DELETION_COST, value=None),
                pod(annotations=MARKED | {"a": ""}),
            ),
            id="one mark goes",
        ),
        pytest.param(write(lambda pod: None), id="nothing"),
        pytest.param(write(meta("managedFields", value=[{"manager": "hook"}])), id="who wrote what"),
        pytest.param(
            write(MARK, pod(ownerReferences=[OTHER_OWNER | {"controller": False}, OURS])),
            id="of a second owner",
        ),
    ],
)
def test_the_hook_may_set_and_take_away_its_two_annotations(asked: Write) -> None:
    assert ADMISSION.denials(asked) == []


def test_what_the_hook_makes_of_a_step_down_passes() -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    borne = {"a": None, "b": MARKED, "c": {"team": "x"}}
    pods = {
        name: pod(name=name, annotations=notes) | {"status": ready | {"podIP": name}}
        for name, notes in borne.items()
    }

    choice = choose(read_pods(list(pods.values())), {"a": 0.0, "b": 1.0, "c": 2.0}, replicas=2)

    assert set(choice.patches) == {"a", "b"}, "one is marked, and a mark of before goes"
    for name, patch in choice.patches.items():
        assert ADMISSION.denials(write(merged(patch), pods[name])) == []


def merged(patch: Mapping[str, str | None]) -> Change:
    """As a merge patch does: None takes an annotation away."""

    def change(pod: Pod) -> None:
        notes = pod["metadata"].pop("annotations", {}) | patch
        left = {key: value for key, value in notes.items() if value is not None}
        pod["metadata"] |= {"annotations": left} if left else {}

    return change


ONLY_OURS = f"the hook writes to pods of {DEPLOYMENT} alone"
NO_MORE = "the hook changes annotations alone"
ONLY_TWO = f"the hook writes {DELETION_COST} and {WORTH} alone"


@pytest.mark.parametrize(
    ("asked", "because"),
    [
        pytest.param(write(annotate(team="mine")), ONLY_TWO, id="another annotation changes"),
        pytest.param(write(annotate(**{"karpenter.sh/do-not-disrupt": "true"})), ONLY_TWO, id="one more"),
        pytest.param(write(annotate(**{f"{WORTH}.old": "1"})), ONLY_TWO, id="one named almost so"),
        pytest.param(write(meta("annotations", "team", value=None)), ONLY_TWO, id="one goes"),
        pytest.param(write(meta("annotations", value=None)), ONLY_TWO, id="all go"),
        pytest.param(write(meta("annotations", value={})), ONLY_TWO, id="none are left"),
        pytest.param(write(annotate(a="b"), pod(annotations=None)), ONLY_TWO, id="the first, and not ours"),
        pytest.param(
            write(meta("annotations", value=MARKED | {"b": "1"}), pod(annotations={"a": "1"})),
            ONLY_TWO,
            id="one becomes another beside a mark",
        ),
        pytest.param(write(meta("labels", "app", value="x")), NO_MORE, id="a label changes"),
        pytest.param(write(meta("labels", "new", value="")), NO_MORE, id="a label comes"),
        pytest.param(write(meta("labels", value=None)), NO_MORE, id="labels go"),
        pytest.param(
            write(meta("labels", value={"a": "b"}), pod(labels=None)),
            NO_MORE,
            id="the first label",
        ),
        pytest.param(write(meta("finalizers", value=None)), NO_MORE, id="finalizers go"),
        pytest.param(write(meta("finalizers", value=[])), NO_MORE, id="no finalizer"),
        pytest.param(
            write(meta("finalizers", value=["a/b"]), pod(finalizers=None)),
            NO_MORE,
            id="the first finalizer",
        ),
        pytest.param(write(meta("ownerReferences", value=None)), NO_MORE, id="owners go"),
        pytest.param(write(meta("ownerReferences", value=[])), NO_MORE, id="no owner"),
        pytest.param(
            write(meta("ownerReferences", value=[OURS, OTHER_OWNER])),
            NO_MORE,
            id="an owner comes",
        ),
        pytest.param(
            write(lambda pod: pod["spec"]["containers"][0].update(image="miner")),
            NO_MORE,
            id="another image",
        ),
        pytest.param(write(within("spec", "activeDeadlineSeconds", value=1)), NO_MORE, id="a deadline comes"),
        pytest.param(write(within("spec", "nodeName", value=None)), NO_MORE, id="the node goes"),
        pytest.param(write(MARK, pod(ownerReferences=None)), ONLY_OURS, id="of a pod without owner"),
        pytest.param(write(MARK, pod(ownerReferences=[OTHER_OWNER])), ONLY_OURS, id="of a Job's"),
        *(
            pytest.param(write(MARK, pod(ownerReferences=[OURS | {"name": name}])), ONLY_OURS, id=name)
            for name in (
                f"{DEPLOYMENT}",
                f"{DEPLOYMENT}-router-5d8f7c6b9",
                f"other-{DEPLOYMENT}-5d8f7c6b9",
                "llamaxv1-engine-5d8f7c6b9",
                f"{DEPLOYMENT}-5d8f7c6b9\nx",
            )
        ),
        pytest.param(
            write(MARK, pod(ownerReferences=[OURS | {"kind": "StatefulSet"}])),
            ONLY_OURS,
            id="a StatefulSet's",
        ),
        pytest.param(
            write(MARK, pod(ownerReferences=[OURS | {"apiVersion": "example.com/v1"}])),
            ONLY_OURS,
            id="a ReplicaSet of somebody's own kind",
        ),
        pytest.param(
            write(MARK, pod(ownerReferences=[OTHER_OWNER, OURS | {"controller": False}])),
            ONLY_OURS,
            id="our ReplicaSet owns it and another controls it",
        ),
    ],
)
def test_whatever_else_the_hook_writes_is_denied_and_told_why(asked: Write, because: str) -> None:
    assert ADMISSION.denials(asked) == [because]


def test_who_is_told_off_for_several_reasons_hears_all() -> None:
    asked = write(
        lambda pod: (annotate(a="b")(pod), within("spec", value={})(pod)), pod(ownerReferences=None)
    )

    assert ADMISSION.denials(asked) == [ONLY_OURS, NO_MORE, ONLY_TWO]


@pytest.mark.parametrize("part", ["annotations", "labels", "finalizers", "ownerReferences"])
def test_a_null_which_no_api_server_writes_lets_nothing_else_pass(part: str) -> None:
    null = write(lambda pod: pod["metadata"].update({part: None}))

    assert ADMISSION.denials(null) != []


@pytest.mark.parametrize("groups", [["system:masters"], [], None, [f"{GROUP}-2"]], ids=str)
def test_nobody_else_s_write_is_held_to_anything(groups: list[str] | None) -> None:
    asked = replace(write(within("spec", "nodeName", value="n")), groups=groups)

    assert ADMISSION.denials(asked) == []


@pytest.mark.parametrize(
    "place",
    [
        pytest.param({"namespace": "kube-system"}, id="another namespace"),
        pytest.param({"resource": "pods/status"}, id="status"),
        pytest.param({"resource": "pods/ephemeralcontainers"}, id="a container to debug by"),
        pytest.param({"resource": "pods/resize"}, id="other requests and limits"),
        pytest.param({"resource": "pods/eviction", "operation": "CREATE"}, id="an eviction"),
        pytest.param({"operation": "CREATE"}, id="a new pod"),
        pytest.param({"operation": "DELETE"}, id="one less"),
    ],
)
def test_what_the_policy_does_not_look_at_the_role_does_not_grant(place: dict[str, str]) -> None:
    asked = replace(write(annotate(a="b")), **place)
    role = OBJECTS["Role"]
    verb = {"UPDATE": "patch", "CREATE": "create", "DELETE": "delete"}[asked.operation]

    assert ADMISSION.denials(asked) == []
    granted = asked.namespace == role["metadata"]["namespace"] and any(
        asked.resource in rule["resources"] and verb in rule["verbs"] for rule in role["rules"]
    )
    assert not granted
    assert "*" not in str(role["rules"])


def without_ours(pod: Mapping[str, Any]) -> dict[str, Any]:
    """All of a pod but the two annotations; a map that is empty is one that is not there."""
    metadata = dict(pod["metadata"])
    notes = metadata.pop("annotations", {})
    return {
        **pod,
        "metadata": metadata
        | {"annotations": {k: v for k, v in notes.items() if k not in (DELETION_COST, WORTH)}},
    }


NOTES = st.dictionaries(
    st.sampled_from([DELETION_COST, WORTH, "team", "", "x/y"]), st.sampled_from(["", "1", "2"])
)
PODS = st.builds(
    lambda notes, labels, finalizers, image: (
        pod(annotations=notes, labels=labels, finalizers=finalizers)
        | {"spec": {"containers": [{"name": "engine", "image": image}]}}
    ),
    st.none() | NOTES,
    st.none() | st.dictionaries(st.sampled_from(["a", "b"]), st.just("1"), min_size=1, max_size=1),
    st.none() | st.just(["a/b"]),
    st.sampled_from(["vllm:0.32", "other"]),
)


@given(PODS, PODS)
def test_an_update_passes_just_where_the_two_annotations_alone_differ(old: Pod, new: Pod) -> None:
    asked = Write(old, new, groups=[GROUP], namespace=NAMESPACE)

    assert (ADMISSION.denials(asked) == []) == (without_ours(old) == without_ours(new))
