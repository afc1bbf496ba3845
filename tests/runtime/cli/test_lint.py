"""`hypertier lint`: exit codes, both formats, languages, and what it reads."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from fakes_manifests import changed, deployment, endpoint, jumpstart

from hypertier.cli.lint import command, lint_language
from hypertier.errors import ConfigError, ManifestError
from hypertier.spec.deployment import load_deployment

ROOT = Path(__file__).parents[3]


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(command, ["--lang", "en", *arguments], input=stdin)


def written(folder: Path, name: str, *documents: Any) -> str:
    file = folder / name
    file.write_text(yaml.safe_dump_all(documents, sort_keys=False), encoding="utf-8")
    return str(file)


@pytest.mark.parametrize("name", ["deployment.yaml", "llama-70b.yaml"])
def test_the_reference_is_clean(name: str) -> None:
    result = run(str(ROOT / "examples" / "reference" / name), "--format", "json")

    assert result.exit_code == 0
    assert json.loads(result.output) == []


def test_a_warning_alone_exits_0(tmp_path: Path) -> None:
    manifest = changed(endpoint(), {"spec.worker.image": "vllm/vllm-openai:latest"})

    result = run(written(tmp_path, "a.yaml", manifest))

    assert result.exit_code == 0
    assert "floating-image" in result.output
    assert "1 file: 0 errors, 1 warning" in result.output


def test_an_error_exits_1_and_names_setting_value_and_reason(tmp_path: Path) -> None:
    file = written(tmp_path, "a.yaml", changed(endpoint(), {"spec.metrics.modelMetrics.port": 8080}))

    result = run(file)

    assert result.exit_code == 1
    assert f"{file}:" in result.output
    assert "spec.metrics.modelMetrics.port is 8080" in result.output
    assert "spec.metrics.modelMetrics.port: 8000" in result.output


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("a: [1, 2", "is not YAML", id="not-yaml"),
        pytest.param("", "holds no document", id="empty"),
        pytest.param("# a comment alone\n", "holds no document", id="comment"),
    ],
)
def test_a_file_that_is_no_yaml_exits_2(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text, encoding="utf-8")

    result = run(str(file))

    assert result.exit_code == 2
    assert problem in result.output


def test_a_missing_file_exits_2_and_the_others_are_checked(tmp_path: Path) -> None:
    broken = written(tmp_path, "a.yaml", changed(endpoint(), {"spec.instanceType": "p5.48xlarge"}))

    result = run(str(tmp_path / "none.yaml"), broken, "--format", "json")

    assert result.exit_code == 2
    assert {finding["rule"] for finding in json.loads(result.output)} >= {
        "unreadable",
        "instance-type-prefix",
    }


def test_what_is_said_of_a_file_as_a_whole_names_no_line(tmp_path: Path) -> None:
    missing, empty = str(tmp_path / "none.yaml"), written(tmp_path, "empty.yaml")

    text, github = run(missing, empty), run(missing, "--format", "github")
    sarif = json.loads(run(missing, "--format", "sarif").output)

    assert f"{missing}: error: cannot be read: No such file or directory [unreadable]\n" in text.output
    assert f"{empty}: error: holds no document [unreadable]\n" in text.output
    assert github.output.startswith(f"::error file={missing},title=unreadable::")
    assert "region" not in sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"]


def test_json_findings_have_exactly_the_documented_keys(tmp_path: Path) -> None:
    file = written(tmp_path, "a.yaml", changed(endpoint(), {"spec.instanceType": "g5.12xlarge"}))

    findings = json.loads(run(file, "--format", "json").output)

    assert [set(finding) for finding in findings] == [
        {"file", "line", "path", "severity", "rule", "message", "fix"}
    ]
    finding = findings[0]
    assert (finding["file"], finding["path"]) == (file, "spec.instanceType")
    assert (finding["severity"], finding["fix"]) == ("error", "ml.g5.12xlarge")
    line = Path(file).read_text(encoding="utf-8").splitlines()[finding["line"] - 1]
    assert line.strip() == "instanceType: g5.12xlarge"


def test_standard_input_is_read_for_a_dash() -> None:
    text = yaml.safe_dump(changed(endpoint(), {"spec.instanceType": "g5.12xlarge"}))

    result = run("-", stdin=text)

    assert result.exit_code == 1
    assert "-:" in result.output


def test_a_deployment_file_brings_the_manifests_it_names(tmp_path: Path) -> None:
    written(tmp_path, "endpoint.yaml", changed(endpoint(), {"spec.instanceType": "ml.p5.48xlarge"}))
    file = written(tmp_path, "deployment.yaml", deployment())

    findings = json.loads(run(file, "--format", "json").output)

    assert {(Path(f["file"]).name, f["rule"]) for f in findings} >= {
        ("endpoint.yaml", "no-group-for-endpoint")
    }


def test_a_deployment_file_that_names_a_missing_manifest_says_which(tmp_path: Path) -> None:
    file = written(tmp_path, "deployment.yaml", deployment())

    result = run(file)

    assert result.exit_code == 1
    assert "endpoints[0]" in result.output
    assert "endpoint-file" in result.output


def test_two_manifests_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        written(tmp_path, name, endpoint())
    file = written(tmp_path, "deployment.yaml", {**deployment(), "endpoints": ["a.yaml", "b.yaml"]})

    result = run(file, "--format", "json")

    assert ("endpoints[1]", "endpoint-name-twice") in {
        (finding["path"], finding["rule"]) for finding in json.loads(result.output)
    }


def test_a_manifest_given_twice_is_checked_once(tmp_path: Path) -> None:
    file = written(tmp_path, "endpoint.yaml", changed(endpoint(), {"spec.instanceType": "g5.12xlarge"}))

    once, twice = run(file, "--format", "json"), run(file, file, "--format", "json")

    assert json.loads(once.output) == json.loads(twice.output)


def test_a_folder_brings_every_manifest_below_and_passes_over_the_rest(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    written(tmp_path / "deep", "a.yaml", changed(endpoint(), {"spec.instanceType": "g5.12xlarge"}))
    written(tmp_path, "service.yaml", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}})
    written(tmp_path, "values.yaml", {"replicas": 3})

    findings = json.loads(run(str(tmp_path), "--format", "json").output)

    assert [finding["rule"] for finding in findings] == ["instance-type-prefix"]


@pytest.mark.parametrize(("language", "expected"), [("en", "2 of them with"), ("ko", "그중 2개에는")])
def test_files_of_a_folder_that_hold_nothing_to_check_are_told(
    language: str, expected: str, tmp_path: Path
) -> None:
    written(tmp_path, "a.yaml", endpoint())
    written(tmp_path, "service.yaml", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}})
    written(tmp_path, "values.yaml", {"replicas": 3})

    assert expected in run(str(tmp_path), "--lang", language).output
    assert "with nothing" not in run(str(tmp_path / "a.yaml")).output


@pytest.mark.parametrize("folder", [".venv", "node_modules", "cdk.out"])
def test_a_folder_brings_nothing_of_what_programs_keep_below_it(folder: str, tmp_path: Path) -> None:
    kept = tmp_path / "deep" / folder / "deeper"
    kept.mkdir(parents=True)
    written(kept, "a.yaml", changed(endpoint(), {"spec.instanceType": "g5.12xlarge"}))
    written(tmp_path, "b.yaml", endpoint())

    below, itself = run(str(tmp_path)), run(str(tmp_path / "deep" / folder))

    assert "1 file: 0 errors" in below.output
    assert "instance-type-prefix" in itself.output


def test_a_folder_without_a_manifest_exits_2(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")

    result = run(str(tmp_path))

    assert result.exit_code == 2
    assert "holds no file that ends with .yaml, .yml, .json" in result.output


def test_every_document_of_a_file_is_checked_with_its_own_lines(tmp_path: Path) -> None:
    broken = changed(endpoint(), {"spec.instanceType": "g5.12xlarge"})
    file = written(tmp_path, "a.yaml", endpoint(), broken)

    findings = json.loads(run(file, "--format", "json").output)

    separator = Path(file).read_text(encoding="utf-8").splitlines().index("---") + 1
    assert [finding["rule"] for finding in findings] == ["instance-type-prefix"]
    assert findings[0]["line"] > separator


def test_a_misspelled_kind_is_no_other_kind(tmp_path: Path) -> None:
    result = run(written(tmp_path, "a.yaml", changed(endpoint(), {"kind": "InferenceEndPointConfig"})))

    assert result.exit_code == 1
    assert "InferenceEndpointConfig" in result.output


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"apiVersion": "hypertier.dev/v2"}, 'apiVersion is "hypertier.dev/v2"; expected hypertier.dev/v1'),
        ({"apiVersion": "hypertier/v1"}, 'apiVersion is "hypertier/v1"; expected hypertier.dev/v1'),
        ({"apiVersion": None}, "apiVersion is not set; expected hypertier.dev/v1"),
        ({"apiVersion": ["a"]}, 'apiVersion is ["a"]; expected hypertier.dev/v1'),
        ({"kind": "Deploymnet"}, "kind is 'Deploymnet'; expected Deployment"),
        ({"kind": "Whatever"}, "kind is 'Whatever'; expected Deployment"),
        ({"kind": 7}, "kind is 7; expected Deployment"),
    ],
    ids=["version", "group", "none", "list", "misspelled", "another", "number"],
)
def test_a_deployment_file_that_load_would_not_know_is_an_error(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    written(tmp_path, "endpoint.yaml", endpoint())

    result = run(written(tmp_path, "deployment.yaml", {**deployment(), **changes}))

    assert result.exit_code == 1
    assert message in result.output


def test_a_deployment_of_kubernetes_is_not_ours(tmp_path: Path) -> None:
    foreign = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": {}}

    result = run(written(tmp_path, "a.yaml", foreign))

    assert result.exit_code == 0


def test_a_wrong_operator_version_is_refused_by_name() -> None:
    result = run("a.yaml", "--operator-version", "newest")

    assert "--operator-version" in str(result.exception)


@pytest.mark.parametrize(
    ("chosen", "environment", "language"),
    [
        pytest.param(None, {}, "en", id="nothing"),
        pytest.param(None, {"LANG": "ko_KR.UTF-8"}, "ko", id="korean-locale"),
        pytest.param(None, {"LANG": "ko_KR.UTF-8", "LC_ALL": "C"}, "en", id="lc-all-wins"),
        pytest.param("en", {"LANG": "ko_KR.UTF-8"}, "en", id="chosen"),
        pytest.param("ko", {}, "ko", id="chosen-korean"),
    ],
)
def test_the_language_is_the_chosen_one_else_the_locale_s(
    chosen: str | None, environment: dict[str, str], language: str
) -> None:
    assert lint_language(chosen, environment) == language


def test_korean_messages_are_korean(tmp_path: Path) -> None:
    file = written(tmp_path, "a.yaml", changed(endpoint(), {"spec.instanceType": "g5.12xlarge"}))

    result = CliRunner().invoke(command, [file, "--lang", "ko"])

    assert "오류" in result.output
    assert "인스턴스 유형" in result.output


def test_fix_writes_the_file_and_counts_what_is_left(tmp_path: Path) -> None:
    broken = changed(endpoint(), {"spec.instanceType": "g5.12xlarge", "spec.modelName": "<your model>"})
    file = written(tmp_path, "a.yaml", broken)

    result = run(file, "--fix", "--format", "json")

    assert yaml.safe_load(Path(file).read_text(encoding="utf-8"))["spec"]["instanceType"] == "ml.g5.12xlarge"
    assert {finding["rule"] for finding in json.loads(result.stdout)} == {"placeholder"}
    assert result.exit_code == 1


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="only Linux seals a file against its owner too")
def test_a_file_that_cannot_be_written_is_named() -> None:
    descriptor = os.memfd_create("a.yaml", os.MFD_ALLOW_SEALING)
    manifest = changed(endpoint(), {"spec.instanceType": "g5.12xlarge"})
    os.write(descriptor, yaml.safe_dump(manifest).encode())
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_WRITE)
    file = f"/proc/self/fd/{descriptor}"

    result = run(file, "--fix")
    os.close(descriptor)

    assert isinstance(result.exception, ConfigError)
    assert str(result.exception).startswith(f"--fix is '{file}'; expected files that can be written")


def test_fix_names_what_it_wrote_and_leaves_machine_s_output_alone(tmp_path: Path) -> None:
    broken = written(tmp_path, "a.yaml", changed(endpoint(), {"spec.instanceType": "g5.12xlarge"}))
    whole = written(tmp_path, "b.yaml", endpoint())

    result = run(broken, whole, "--fix", "--format", "json")

    assert result.stderr == f"mended {broken}\n"
    assert json.loads(result.stdout) == []


def test_fix_keeps_windows_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    text = yaml.safe_dump(changed(endpoint(), {"spec.instanceType": "g5.12xlarge"}))
    file.write_bytes(text.replace("\n", "\r\n").encode())

    run(str(file), "--fix")

    raw = file.read_bytes()
    assert raw.count(b"\r\n") == raw.count(b"\n")
    assert b"ml.g5.12xlarge" in raw


def test_diff_prints_the_patch_and_changes_nothing(tmp_path: Path) -> None:
    file = written(tmp_path, "a.yaml", changed(endpoint(), {"spec.instanceType": "g5.12xlarge"}))
    before = Path(file).read_text(encoding="utf-8")

    result = run(file, "--diff")

    assert "+  instanceType: ml.g5.12xlarge" in result.output
    assert Path(file).read_text(encoding="utf-8") == before
    assert result.exit_code == 1


def test_text_shows_the_patch(tmp_path: Path) -> None:
    result = run(written(tmp_path, "a.yaml", changed(endpoint(), {"spec.instanceType": "g5.12xlarge"})))

    assert "--fix would make these changes" in result.output
    assert "+  instanceType: ml.g5.12xlarge" in result.output


def test_standard_input_cannot_be_fixed() -> None:
    result = run("-", "--fix", stdin="a: 1")

    assert "--fix" in str(result.exception)


def test_github_annotations_name_file_line_and_rule(tmp_path: Path) -> None:
    file = written(tmp_path, "a,b.yaml", changed(endpoint(), {"spec.instanceType": "g5.12xlarge"}))

    first = run(file, "--format", "github").output.splitlines()[0]

    assert first.startswith(f"::error file={file.replace(',', '%2C')},line=")
    assert "title=instance-type-prefix::spec.instanceType is" in first


def test_sarif_is_valid_and_points_at_lines(tmp_path: Path) -> None:
    file = written(tmp_path, "a.yaml", changed(endpoint(), {"spec.instanceType": "g5.12xlarge"}))

    log = json.loads(run(file, "--format", "sarif").output)

    assert log["version"] == "2.1.0"
    (run_,) = log["runs"]
    (result,) = run_["results"]
    known = {rule["id"] for rule in run_["tool"]["driver"]["rules"]}
    assert result["ruleId"] in known
    assert result["level"] == "error"
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] > 1
    assert result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "spec.instanceType"


@pytest.mark.parametrize(
    ("documents", "problem"),
    [
        pytest.param((endpoint(), endpoint()), "holds 2 documents", id="two-documents"),
        pytest.param((jumpstart(),), "holds no InferenceEndpointConfig", id="another-kind"),
    ],
)
def test_a_deployment_s_manifest_holds_one_endpoint(
    tmp_path: Path, documents: tuple[Any, ...], problem: str
) -> None:
    written(tmp_path, "endpoint.yaml", *documents)

    result = run(written(tmp_path, "deployment.yaml", deployment()))

    assert result.exit_code == 1
    assert problem in result.output


def test_a_deployment_stands_alone_in_its_file(tmp_path: Path) -> None:
    written(tmp_path, "endpoint.yaml", endpoint())

    findings = json.loads(
        run(written(tmp_path, "deployment.yaml", deployment(), endpoint()), "--format", "json").output
    )

    assert ("kind", "deployment-alone") in {(finding["path"], finding["rule"]) for finding in findings}


@pytest.mark.parametrize("name", ["a\0b.yaml", "x" * 5000, "/dev/null", ".", "", "../" * 2000])
def test_an_endpoint_s_name_that_is_no_file_is_survived(tmp_path: Path, name: str) -> None:
    result = run(written(tmp_path, "deployment.yaml", {**deployment(), "endpoints": [name]}))

    assert result.exit_code in (0, 1, 2)
    assert not result.exception or isinstance(result.exception, SystemExit)


@pytest.mark.parametrize("kind", ["missing", "loop", "too-long", "endless", "nul"])
@pytest.mark.parametrize("named_by", ["hand", "deployment"])
def test_a_file_that_cannot_be_read_is_named_whatever_it_is(tmp_path: Path, kind: str, named_by: str) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    name = {"too-long": "x" * 5000, "endless": "/dev/zero", "nul": "a\0b"}.get(kind, kind)
    deployed = written(tmp_path, "deployment.yaml", {**deployment(), "endpoints": [name]})

    result = run(str(tmp_path / name) if named_by == "hand" else deployed)

    assert result.exit_code in (1, 2)
    assert isinstance(result.exception, SystemExit)
    assert any(said in result.output for said in ("cannot be read: ", "has more than 4194304 bytes"))
    with pytest.raises(ManifestError, match=r"cannot be read: |has more than 4194304 bytes"):
        load_deployment(deployed)
