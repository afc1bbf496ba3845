"""`hypertier render`: the same objects as the renderer gives, as files; what is not ours stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from hypertier.cli import lint, plan
from hypertier.cli.render import (
    HEADER,
    command,
    file_name,
    load_renderer,
    notes,
    write_objects,
)
from hypertier.errors import ConfigError, ManifestError, MissingPackageError
from hypertier.spec.deployment import load_deployment

REFERENCE = Path(__file__).parents[3] / "examples" / "reference" / "deployment.yaml"


def thing(kind: str, name: str, namespace: str | None = None, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata | fields}


def test_the_files_hold_what_the_renderer_gives(tmp_path: Path) -> None:
    result = CliRunner().invoke(command, [str(REFERENCE), "-o", str(tmp_path / "new" / "rendered")])

    assert result.exit_code == 0, result.output
    files = sorted((tmp_path / "new" / "rendered").iterdir())
    objects = load_renderer()(load_deployment(REFERENCE))
    assert [yaml.safe_load(file.read_text()) for file in files] == sorted(objects, key=file_name)
    assert all(str(file) in result.output for file in files)


def test_what_lint_refuses_is_not_rendered(tmp_path: Path) -> None:
    for file in REFERENCE.parent.glob("*.yaml"):
        text = file.read_text(encoding="utf-8").replace("routingStrategy:", "routing_strategy:")
        (tmp_path / file.name).write_text(text, encoding="utf-8")

    result = CliRunner().invoke(command, [str(tmp_path / REFERENCE.name), "-o", str(tmp_path / "rendered")])

    assert isinstance(result.exception, ManifestError)
    assert "spec.intelligentRoutingSpec.routing_strategy" in str(result.exception)
    assert not (tmp_path / "rendered").exists()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        pytest.param("--tensor-parallel-size", "--tensor-parallel-size=many", id="an argument's value"),
        pytest.param("--max-model-len", "--max-modle-len", id="an argument"),
        pytest.param("replicas: 7", "replicas: -1", id="a field"),
        pytest.param("count: 7", "count: -7", id="the deployment file's"),
    ],
)
def test_lint_and_render_name_the_same_place(right: str, wrong: str, tmp_path: Path) -> None:
    for file in REFERENCE.parent.glob("*.yaml"):
        text = file.read_text(encoding="utf-8").replace(right, wrong)
        (tmp_path / file.name).write_text(text, encoding="utf-8")
    deployed = str(tmp_path / REFERENCE.name)

    linted = CliRunner().invoke(lint.command, [deployed])
    rendered = CliRunner().invoke(command, [deployed, "-o", str(tmp_path / "rendered")])

    place, _, said = linted.output.splitlines()[0].partition(": error: ")
    assert linted.exit_code == 1
    assert str(rendered.exception).startswith(f"{place}: {said}")


@pytest.mark.parametrize("broken", [False, True], ids=["clean", "with-errors"])
def test_of_an_endpoint_s_manifest_is_said_what_to_do_with_it(broken: bool, tmp_path: Path) -> None:
    text = (REFERENCE.parent / "llama-70b.yaml").read_text(encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(
        text.replace("replicas: 7", "replicas: -7" if broken else "replicas: 7")
    )

    for used in (command, plan.command):
        options = ["-o", str(tmp_path / "rendered")] if used is command else []
        result = CliRunner().invoke(used, [str(tmp_path / "mine.yaml"), *options])

        assert isinstance(result.exception, ConfigError)
        assert "kind is 'InferenceEndpointConfig'; expected a deployment file" in str(result.exception)
        assert "endpoints: [mine.yaml]" in str(result.exception)


def test_rendering_again_changes_no_byte(tmp_path: Path) -> None:
    CliRunner().invoke(command, [str(REFERENCE), "-o", str(tmp_path)])
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    CliRunner().invoke(command, [str(REFERENCE), "-o", str(tmp_path)])

    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_images_that_nobody_built_yet_are_named_as_placeholders(tmp_path: Path) -> None:
    result = CliRunner().invoke(command, [str(REFERENCE), "-o", str(tmp_path)])

    lines = [line for line in result.output.splitlines() if line.startswith("placeholder")]
    assert [line.split(":")[0] for line in lines] == [
        "placeholder in DaemonSet llama-70b-prepull",
        "placeholder in Deployment llama-70b-engine",
        "placeholder in Deployment llama-70b-router",
        "placeholder in Deployment llama-70b-exporter",
    ]
    assert "images.engine" in lines[0]


def test_several_notes_of_one_object_are_lines_of_their_own() -> None:
    item = thing(
        "Deployment",
        "a",
        annotations={
            "hypertier.dev/placeholders": "image: x; url: y",
            "hypertier.dev/without-effect": "spec.tags",
        },
    )

    assert notes([item, thing("Service", "b")]) == [
        "placeholder in Deployment a: image: x",
        "placeholder in Deployment a: url: y",
        "without effect in Deployment a: spec.tags",
    ]


def test_settings_that_say_nothing_here_are_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(command, [str(REFERENCE), "-o", str(tmp_path)])

    line = "without effect in Deployment llama-70b-engine: spec.loadBalancer.healthCheckPath"
    assert line in result.output.splitlines()


def test_what_an_earlier_rendering_left_is_removed_and_what_others_wrote_is_kept(tmp_path: Path) -> None:
    (tmp_path / "theirs.yaml").write_text("kind: Service\n")
    write_objects([thing("Service", "old"), thing("Service", "kept")], tmp_path)

    written, removed = write_objects([thing("Service", "kept")], tmp_path)

    assert (written, removed) == (["5-service-kept.yaml"], ["5-service-old.yaml"])
    assert {file.name for file in tmp_path.iterdir()} == {"5-service-kept.yaml", "theirs.yaml"}
    assert (tmp_path / "5-service-kept.yaml").read_text().startswith(HEADER)


def test_by_file_name_what_others_refer_to_comes_first() -> None:
    objects = [
        thing("Deployment", "a", "n"),
        thing("Service", "a", "n"),
        thing("ServiceAccount", "a", "n"),
        thing("Namespace", "n"),
    ]

    assert sorted(map(file_name, objects)) == [
        "0-namespace-n.yaml",
        "1-serviceaccount-n-a.yaml",
        "5-service-n-a.yaml",
        "9-deployment-n-a.yaml",
    ]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match=r"--output is '.*/file/rendered'; expected a folder"):
        write_objects([thing("Service", "a")], tmp_path / "file" / "rendered")


def test_without_node_the_message_says_how_to_point_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JSII_NODE", "/nowhere/node")

    with pytest.raises(ConfigError, match=r"JSII_NODE is '/nowhere/node'; expected the path of Node\.js 20"):
        load_renderer()


def test_without_a_renderer_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hypertier.cli.render.RENDERER_GROUP", "hypertier.no-such-group")

    with pytest.raises(MissingPackageError, match=r"pip install 'hypertier\[cdk\]'"):
        load_renderer()
