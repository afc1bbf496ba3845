from __future__ import annotations

import json
import re
from typing import Any

import pytest
from fakes_rendered import ENGINE_ARGS, ENGINE_ENV, ROUTER_ARGS, rendered, workload

from hypertier.errors import ConfigError
from hypertier.lab.overlay import ENGINE
from hypertier.lab.process_spec import ProcessSpec
from hypertier.lab.rules import Place
from hypertier.lab.translate import (
    RenderedEndpoint,
    engine_process,
    read_endpoint,
    router_process,
    served_model_name,
)

PYTHON = ("/venv/bin/python", "-m", "hypertier.tier.launch")
PLACE = Place(
    port=9001,
    model_directory="/models/small",
    served_model_name="Llama-3.1-70B-Instruct",
    l1_bytes=1 << 20,
    l2_port=9002,
    l2_password="sesame",
    replica_urls=("http://127.0.0.1:9001", "http://127.0.0.1:9003"),
)


def engine(objects: list[dict[str, Any]]) -> ProcessSpec:
    return engine_process(read_endpoint(objects).engine, PLACE, "engine-0", PYTHON, {})[0]


def translate_both(endpoint: RenderedEndpoint) -> None:
    engine_process(endpoint.engine, PLACE, "engine-0", PYTHON, {})
    router_process(endpoint.router, PLACE, ("hypertier",), {})


def value(spec: ProcessSpec, option: str) -> str:
    return spec.argv[spec.argv.index(option) + 1]


def test_the_engine_runs_the_rendered_command_by_the_labs_python() -> None:
    spec = engine(rendered())

    assert spec.argv[:5] == (*PYTHON, "serve", "/models/small")
    assert spec.health_url == "http://127.0.0.1:9001/health"


def test_what_differs_here_is_laid_over_the_rendered_arguments() -> None:
    spec = engine(rendered())

    assert value(spec, "--tensor-parallel-size") == "1"
    assert value(spec, "--max-model-len") == "8192"
    assert value(spec, "--port") == "9001"
    assert value(spec, "--served-model-name") == "Llama-3.1-70B-Instruct"
    assert "--enforce-eager" in spec.argv


def test_the_cache_keeps_its_settings_but_for_sizes_and_times() -> None:
    config = json.loads(value(engine(rendered()), "--kv-transfer-config"))

    extra = config["kv_connector_extra_config"]
    assert config["kv_load_failure_policy"] == "recompute"
    assert extra["spec_name"] == "PortableTieringSpec"
    assert extra["cpu_bytes_to_use"] == 1 << 20
    assert extra["secondary_tiers"][0]["ttl_seconds"] == 86_400
    assert extra["secondary_tiers"][0]["lookup_deadline_ms"] == 2000


def test_a_job_that_comes_again_and_again_is_left_out_by_name() -> None:
    container = {"name": "verify", "command": ["hypertier", "verify"], "args": ["http://router"]}
    once = workload("CronJob", "llama-70b-verify", container, 1)
    once["spec"] = {"jobTemplate": {"spec": {"template": once["spec"]["template"]}}}

    assert "llama-70b-verify/verify" in read_endpoint([*rendered(), once]).left_out


def moving(role: str) -> list[str]:
    """The arguments of an engine whose KV cache moves, as the charts render them."""
    nixl = {"kv_connector": "NixlConnector", "kv_role": role}
    tiers = {"kv_connector": "OffloadingConnector", "kv_connector_extra_config": {"cpu_bytes_to_use": 9}}
    extra = {"connectors": [nixl, tiers]}
    config = {"kv_connector": "MultiConnector", "kv_role": "kv_both", "kv_connector_extra_config": extra}
    return ["M", "--kv-transfer-config", json.dumps(config)]


def test_of_engines_of_two_kinds_those_that_decode_run_and_compute_their_prompts() -> None:
    command = ["python3", "-m", "hypertier.tier.launch", "serve"]
    container = {"name": "engine", "command": command, "args": moving("kv_producer")}
    prefill = workload("Deployment", "e-prefill", container, 2)

    endpoint = read_endpoint([prefill, *rendered(moving("kv_consumer"))])
    spec, differences = engine_process(endpoint.engine, PLACE, "engine-0", PYTHON, {})

    assert endpoint.prefill == ("e-prefill/engine",)
    config = json.loads(value(spec, "--kv-transfer-config"))
    assert config["kv_connector"] == "OffloadingConnector"
    assert config["kv_connector_extra_config"]["cpu_bytes_to_use"] == PLACE.l1_bytes
    (said,) = [each for each in differences if each.setting == "--kv-transfer-config.kv_connector"]
    assert (said.rendered, said.here) == ("MultiConnector", "OffloadingConnector")


def test_vllms_own_spec_becomes_the_portable_one() -> None:
    stock = {"kv_connector": "OffloadingConnector", "kv_connector_extra_config": {"spec_name": "Tiering"}}
    args = ["M", "--kv-transfer-config", json.dumps(stock)]

    extra = json.loads(value(engine(rendered(args)), "--kv-transfer-config"))["kv_connector_extra_config"]

    assert (extra["spec_name"], extra["spec_module_path"]) == ("PortableTieringSpec", "hypertier.tier.spec")


def test_l2_is_the_labs_with_its_password_and_without_aws() -> None:
    env = engine(rendered()).env

    assert env["HYPERTIER_L2_URL"] == "redis://127.0.0.1:9002"
    assert env["HYPERTIER_L2_PASSWORD"] == "sesame"
    assert "HYPERTIER_L2_SECRET_ARN" not in env
    assert env["PYTHONHASHSEED"] == "0"


def test_a_reference_to_a_variable_is_filled_in() -> None:
    spec = engine(rendered([*ENGINE_ARGS, "--seed", "$(SEED_OF_POD)$$"], [*ENGINE_ENV]))

    assert value(spec, "--seed") == "$(SEED_OF_POD)$"
    assert value(engine(rendered([*ENGINE_ARGS, "--seed", "$(PYTHONHASHSEED)"])), "--seed") == "0"


def test_the_router_gets_the_replicas_by_name() -> None:
    router = read_endpoint(rendered()).router

    spec, _ = router_process(router, PLACE, ("hypertier",), {})

    assert spec.argv[:2] == ("hypertier", "router")
    assert value(spec, "--strategy") == "prefixaware"
    assert value(spec, "--listen") == "127.0.0.1:9001"
    assert spec.argv[-4:] == ("--replica", "http://127.0.0.1:9001", "--replica", "http://127.0.0.1:9003")
    assert "--discover" not in spec.argv


def test_the_password_is_in_no_table_and_in_no_representation() -> None:
    spec, differences = engine_process(read_endpoint(rendered()).engine, PLACE, "engine-0", PYTHON, {})

    assert "sesame" not in repr(differences) + repr(spec) + repr(PLACE)


@pytest.mark.parametrize(
    ("objects", "names"),
    [
        pytest.param(
            rendered([*ENGINE_ARGS, "--lora-modules", "a=b"]),
            "--lora-modules is 'a=b'; expected nothing, or",
            id="engine",
        ),
        pytest.param(
            rendered(engine_env=[*ENGINE_ENV, {"name": "STRANGE", "value": "1"}]),
            "env STRANGE is '***'; expected nothing, or",
            id="env",
        ),
        pytest.param(
            rendered(engine_env=[{"name": "PYTHONHASHSEED", "valueFrom": {}}]),
            "env PYTHONHASHSEED is 'from the cluster'",
            id="cluster",
        ),
        pytest.param(rendered(router_args=[*ROUTER_ARGS, "--shiny"]), "--shiny is 'given'", id="router"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(objects: list[dict[str, Any]], names: str) -> None:
    endpoint = read_endpoint(objects)

    with pytest.raises(ConfigError, match=re.escape(names)):
        translate_both(endpoint)


def test_all_that_is_not_understood_is_named_at_once_with_what_leaves_it_out() -> None:
    strange = [*ENGINE_ENV, {"name": "STRANGE", "value": "1"}, {"name": "ODD", "valueFrom": {}}]
    endpoint = read_endpoint(rendered([*ENGINE_ARGS, "--lora-modules", "a=b"], engine_env=strange))
    names = ["--lora-modules", "STRANGE", "ODD"]

    with pytest.raises(ConfigError) as error:
        translate_both(endpoint)
    engine_process(endpoint.engine, PLACE, "engine-0", PYTHON, {}, ENGINE.without(names))

    assert str(error.value).endswith(" ".join(f"--without {name}" for name in names))


def test_variables_of_aws_s_samples_need_no_leaving_out() -> None:
    samples = [
        {"name": name, "value": "1"} for name in ("OPTION_ROLLING_BATCH", "SAGEMAKER_ENV", "SESSION_KEY")
    ]

    spec = engine(rendered(engine_env=[*ENGINE_ENV, *samples]))

    assert spec.env["SESSION_KEY"] == "1"


def test_a_container_that_is_neither_engine_nor_router_is_refused() -> None:
    stranger = workload("Deployment", "x", {"name": "nginx", "command": ["nginx", "-g"]}, 1)

    with pytest.raises(ConfigError, match=r"x/nginx: command is 'nginx -g'; expected python3 -m hypertier"):
        read_endpoint([*rendered(), stranger])


def test_two_endpoints_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"endpoints is .*; expected one endpoint"):
        read_endpoint([*rendered(), *rendered()])


def test_the_exporter_is_left_out_and_named() -> None:
    exporter = workload("Deployment", "x", {"name": "exporter", "args": ["exporter"]}, 1)

    assert read_endpoint([*rendered(), exporter]).left_out == ("x/exporter",)


def test_what_prepares_nodes_is_left_out_and_named() -> None:
    pulls = workload("DaemonSet", "x-prepull", {"name": "wait", "command": ["python3"]}, 1)

    assert read_endpoint([*rendered(), pulls]).left_out == ("x-prepull",)


def test_a_model_without_a_served_name_is_served_under_its_own() -> None:
    assert (
        served_model_name(read_endpoint(rendered(["/opt/ml/model", "--port", "1"])).engine) == "/opt/ml/model"
    )
