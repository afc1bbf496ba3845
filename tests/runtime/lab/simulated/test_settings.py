from __future__ import annotations

import re

import pytest
from fakes_rendered import rendered

from hypertier.errors import ConfigError
from hypertier.lab.rules import Place
from hypertier.lab.simulated.settings import read_engine_settings
from hypertier.lab.translate import engine_process, read_endpoint

L2 = {"HYPERTIER_L2_URL": "redis://127.0.0.1:6379"}


def test_it_understands_what_the_lab_starts() -> None:
    place = Place(port=9001, model_directory="/m", served_model_name="n", l1_bytes=2**20, l2_port=9002)
    spec, _ = engine_process(read_endpoint(rendered()).engine, place, "engine-0", ("serve-here",), {})

    settings = read_engine_settings(spec.argv[2:], spec.env)

    assert (settings.port, settings.name, settings.l1_bytes) == (9001, "n", 2**20)
    assert settings.tier is not None
    assert settings.tier.url == "redis://127.0.0.1:9002"


def test_without_a_transfer_config_there_is_neither_l1_nor_l2() -> None:
    settings = read_engine_settings(["m", "--port", "1"], {})

    assert (settings.l1_bytes, settings.tier) == (0, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param([], "MODEL is not set; expected a name or path", id="no model"),
        pytest.param(["m", "--port", "http"], "--port is 'http'; expected a whole number", id="port"),
        pytest.param(["m", "--block-size=0"], "--block-size is '0'; expected a whole number, 1", id="block"),
        pytest.param(
            ["m", "--kv-cache-memory-bytes", "4096"],
            "--kv-cache-memory-bytes is 4096; expected 33554432 or more",
            id="memory",
        ),
        pytest.param(["m", "--kv-transfer-config", "["], "--kv-transfer-config is '['; expected", id="json"),
        pytest.param(
            ["m", "--kv-transfer-config", '{"kv_connector_extra_config": {"blocks_per_chunk": 2}}'],
            "blocks_per_chunk is 2; expected 1",
            id="chunks",
        ),
    ],
)
def test_what_cannot_work_is_named(arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        read_engine_settings(arguments, L2)
