"""`hypertier plan`'s numbers: golden plans of known models, and the arithmetic by hand."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from fakes_account import autoscaled
from fakes_manifests import GPU, changed, deployment, endpoint

from hypertier.catalog.instance_types import GIB
from hypertier.catalog.models import find_model
from hypertier.catalog.prices import Price, load_prices
from hypertier.errors import ConfigError
from hypertier.planning import report
from hypertier.planning.break_even import break_even
from hypertier.planning.plan import DeploymentPlan, plan_deployment
from hypertier.spec import codec
from hypertier.spec.cache_tiers import CacheTiers
from hypertier.spec.deployment import Deployment, Images, load_deployment
from hypertier.spec.endpoint import InferenceEndpointConfig
from hypertier.spec.instance_group import InstanceGroup

GOLDEN = Path(__file__).parent / "golden"
REDIS = {
    "enableL1Cache": True,
    "enableL2Cache": True,
    "l2CacheSpec": {"l2CacheBackend": "redis", "l2CacheLocalUrl": "rediss://cache:6379"},
}


def serving(
    model: str, instance_type: str, gpus: int, *args: str, replicas: int = 4, changes: Any = None
) -> Deployment:
    """A deployment of `replicas` nodes that serves `model`."""
    manifest = changed(
        endpoint(),
        {
            "metadata.name": model.lower(),
            "spec.modelName": model,
            "spec.modelSourceConfig.modelLocation": model,
            "spec.instanceType": instance_type,
            "spec.replicas": replicas,
            "spec.kvCacheSpec": REDIS,
            "spec.worker.args": ["--tensor-parallel-size", str(gpus), *args],
            "spec.worker.resources": {"requests": {GPU: gpus}, "limits": {GPU: gpus}},
            **(changes or {}),
        },
    )
    cache = codec.decode_or_raise(CacheTiers, {"l2": {"bandwidth": "8GB/s", "size": "1Ti"}})
    groups = (
        InstanceGroup(name="system", instance_type="ml.m5.4xlarge", count=2),
        InstanceGroup(name="gpu", instance_type=instance_type, count=replicas),
    )
    config = InferenceEndpointConfig.from_manifest(manifest)
    return Deployment(
        endpoints=(config,), name=model.lower().replace(".", "-"), instance_groups=groups, cache=cache
    )


MODELS = {
    "llama-8b": serving("Llama-3.1-8B", "ml.g6e.12xlarge", 1),
    "llama-70b": serving("Llama-3.1-70B", "ml.p5.48xlarge", 8, "--max-model-len", "65536"),
    "llama-405b": serving("Llama-3.1-405B", "ml.p5en.48xlarge", 8),
    "llama-405b-fp8": serving(
        "Llama-3.1-405B", "ml.p5.48xlarge", 8, "--quantization=fp8", "--kv-cache-dtype=fp8"
    ),
    "qwen3-32b": serving("Qwen3-32B", "ml.p5.48xlarge", 2),
    "deepseek-v3": serving("DeepSeek-V3", "ml.p5en.48xlarge", 8),
    "qwen3-next": serving("Qwen3-Next-80B-A3B", "ml.p5.48xlarge", 4),
    "gpt-oss": serving("gpt-oss-120b", "ml.p5.48xlarge", 2),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_plan_is_the_golden_one(name: str) -> None:
    """Rewrite the golden files with HYPERTIER_REWRITE_GOLDEN=1, and read the difference."""
    data = json.loads(json.dumps(report.as_data(plan_deployment(MODELS[name]))))
    file = GOLDEN / f"{name}.json"
    if os.environ.get("HYPERTIER_REWRITE_GOLDEN"):
        file.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")

    golden = json.loads(file.read_text(encoding="utf-8"))

    assert data == golden


def only(plan: DeploymentPlan) -> Any:
    return plan.endpoints[0]


def test_gpus_hold_what_weights_and_overhead_leave() -> None:
    capacity = only(plan_deployment(MODELS["llama-70b"])).capacity

    usable = int(81_920 * 2**20 * 0.92) - 3 * GIB
    assert capacity.gpu_bytes == 8 * usable - int(70.6e9) * 2
    assert capacity.gpu_tokens == capacity.gpu_bytes // (320 * 1024)


def test_latent_kv_is_held_by_every_rank() -> None:
    capacity = only(plan_deployment(MODELS["deepseek-v3"])).capacity

    assert capacity.gpu_tokens == capacity.gpu_bytes // (61 * 576 * 2 * 8)
    assert capacity.l2_tokens == capacity.l2_bytes // (61 * 576 * 2)


def test_two_engines_of_two_gpus_share_a_node_s_memory_evenly() -> None:
    engine = only(plan_deployment(MODELS["qwen3-32b"])).engine

    assert engine.engines_per_node == 4
    assert engine.available_bytes == int(2048 * GIB * 0.95) // 4


def test_a_prefetched_model_needs_memory_for_its_copy() -> None:
    plain = only(plan_deployment(serving("Llama-3.1-70B", "ml.p5.48xlarge", 8))).engine
    copied = only(
        plan_deployment(
            serving(
                "Llama-3.1-70B",
                "ml.p5.48xlarge",
                8,
                changes={"spec.modelSourceConfig.prefetchEnabled": True},
            )
        )
    ).engine

    assert copied.base_bytes - plain.base_bytes == int(70.6e9) * 2


def test_weights_that_do_not_fit_name_the_gpus_that_would() -> None:
    with pytest.raises(ConfigError, match=r"nvidia\.com/gpu is 8; expected at least 11 GPUs"):
        plan_deployment(serving("Llama-3.1-405B", "ml.p5.48xlarge", 8))


def test_a_pod_that_asks_for_more_than_the_node_has_names_its_request() -> None:
    asks = {"spec.worker.resources.requests": {GPU: 8, "memory": "2047Gi"}}

    with pytest.raises(ConfigError, match=r"requests\.memory is '2047Gi'"):
        plan_deployment(serving("Llama-3.1-70B", "ml.p5.48xlarge", 8, changes=asks))


@pytest.mark.parametrize("written", ["1.5", "0", "much", "nan"])
def test_a_share_of_gpu_memory_that_cannot_be_is_refused(written: str) -> None:
    with pytest.raises(ConfigError, match="--gpu-memory-utilization"):
        plan_deployment(serving("Llama-3.1-8B", "ml.g6e.12xlarge", 1, "--gpu-memory-utilization", written))


def test_a_share_of_gpu_memory_below_what_a_gpu_needs_anyway_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--gpu-memory-utilization is '0\.05'; expected more than 0\.07"):
        plan_deployment(serving("Llama-3.1-8B", "ml.g6e.12xlarge", 1, "--gpu-memory-utilization", "0.05"))


def test_an_argument_with_underscores_is_the_one_with_hyphens() -> None:
    plain = serving("Llama-3.1-8B", "ml.g6e.12xlarge", 1, "--gpu-memory-utilization", "0.5")
    underscored = serving("Llama-3.1-8B", "ml.g6e.12xlarge", 1, "--gpu_memory_utilization=0.5")

    assert plan_deployment(underscored).endpoints[0].capacity == plan_deployment(plain).endpoints[0].capacity


def test_a_length_of_odd_digits_is_no_length() -> None:
    plan = plan_deployment(serving("Llama-3.1-8B", "ml.g6e.12xlarge", 1, "--max-model-len", "²"))

    assert plan.endpoints[0].capacity.gpu_tokens


def test_parts_of_a_gpu_are_refused() -> None:
    asks = {f'spec.worker.resources.limits."{GPU}"': "500m"}

    with pytest.raises(ConfigError, match="expected whole GPUs"):
        plan_deployment(serving("Llama-3.1-8B", "ml.g6e.12xlarge", 1, changes=asks))


def test_l2_wins_where_its_rate_beats_the_gpus_and_loses_just_below() -> None:
    model = find_model("Llama-3.1-70B")
    assert model is not None
    flops = 8 * 989e12
    needed = break_even(model, flops=flops, bytes_per_second=1, replicas=1)[3].needed_bytes_per_second

    above = break_even(model, flops=flops, bytes_per_second=needed * 1.01, replicas=1)[3]
    below = break_even(model, flops=flops, bytes_per_second=needed * 0.99, replicas=1)[3]

    assert above.wins_alone
    assert not below.wins_alone


def test_replicas_that_load_at_once_share_the_store() -> None:
    model = find_model("Llama-3.1-70B")
    assert model is not None

    row = break_even(model, flops=8e15, bytes_per_second=8e9, replicas=7)[0]

    assert row.shared_seconds == pytest.approx(0.002 + 7 * (row.alone_seconds - 0.002))


def test_a_longer_prompt_needs_a_slower_store_to_win() -> None:
    rows = only(plan_deployment(MODELS["llama-70b"])).break_even

    needed = [row.needed_bytes_per_second for row in rows]
    assert needed == sorted(needed, reverse=True)
    assert rows[-1].num_tokens == 65536


def test_a_measured_prefill_rate_replaces_the_estimate() -> None:
    estimated = only(plan_deployment(MODELS["llama-70b"]))
    measured = only(plan_deployment(MODELS["llama-70b"], prefill_tokens_per_second=10_000))

    assert measured.prefill_tokens_per_second < estimated.prefill_tokens_per_second
    assert measured.break_even[0].recompute_seconds > estimated.break_even[0].recompute_seconds


def test_a_cold_start_is_its_three_causes() -> None:
    start = only(plan_deployment(MODELS["llama-70b"])).cold_start

    assert start.weights_seconds == pytest.approx(141.2e9 / 500e6)
    assert start.seconds == start.weights_seconds + start.prefault_seconds + 180


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        pytest.param({}, 0, id="pulled ahead"),
        pytest.param({"images": Images(pre_pull=False)}, 300, id="switched off"),
        pytest.param({"serving": "operator"}, 300, id="of AWS's operator"),
        pytest.param(
            {"instance_groups": (replace(MODELS["llama-70b"].instance_groups[1], count=0),)},
            300,
            id="on a node that is added for it",
        ),
    ],
)
def test_a_cold_start_has_the_image_s_pull_where_nodes_do_not_have_it(
    changes: dict[str, Any], seconds: float
) -> None:
    ahead = only(plan_deployment(MODELS["llama-70b"])).cold_start

    start = only(plan_deployment(replace(MODELS["llama-70b"], **changes))).cold_start

    assert start.image_seconds == seconds
    assert start.seconds == pytest.approx(ahead.seconds + seconds)


def test_a_million_tokens_cost_a_replica_s_share_of_its_node() -> None:
    prices = {("ml.p5.48xlarge", "us-west-2"): Price(60.0, "https://example.com", date(2026, 12, 1))}

    plan = plan_deployment(MODELS["qwen3-32b"], prices=prices)

    rate = only(plan).prefill_tokens_per_second
    assert only(plan).usd_per_million_prompt_tokens == pytest.approx(60 / 4 / (rate * 3600) * 1e6)
    assert plan.bill.known_usd_per_hour == 4 * 60
    assert plan.bill.known_usd_per_month == 4 * 60 * 730


def test_an_unknown_price_is_told_once_with_what_gives_it(tmp_path: Path) -> None:
    plan = plan_deployment(MODELS["llama-8b"], prices={})

    assert only(plan).usd_per_million_prompt_tokens is None
    assert set(plan.bill.unknown) >= {"ml.g6e.12xlarge", "ml.m5.4xlarge"}
    text = report.as_text(plan)
    assert text.count("no price is known here of ml.m5.4xlarge, ml.g6e.12xlarge") == 1
    assert "unknown" not in text
    assert "0.00 USD" not in text
    example = text.splitlines()[-1].replace("NUMBER", "1").replace("TEXT", "contract")
    (tmp_path / "prices.yaml").write_text(example, encoding="utf-8")
    assert list(load_prices(tmp_path / "prices.yaml", "us-west-2")) == [("ml.m5.4xlarge", "us-west-2")]


EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*/deployment.yaml"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.parent.name)
@pytest.mark.parametrize("source", [None, "a contract " * 20], ids=["no-prices", "long-source"])
def test_a_plan_fits_a_terminal_of_100_columns(file: Path, source: str | None) -> None:
    deployment = load_deployment(file)
    types = [group.instance_type for group in deployment.instance_groups] if source else []
    prices = {(name, deployment.region): Price(60.0, source or "", date(2026, 12, 1)) for name in types}

    text = report.as_text(plan_deployment(deployment, prices=prices))

    assert [line for line in text.splitlines() if len(line) > 100] == []


def test_an_unknown_price_is_named_once_however_many_groups_have_the_type() -> None:
    cpu = tuple(InstanceGroup(name=name, instance_type="ml.m5.4xlarge", count=1) for name in ("a", "b"))
    groups = (*cpu, *MODELS["llama-8b"].instance_groups)
    plan = plan_deployment(replace(MODELS["llama-8b"], instance_groups=groups), prices={})

    assert len(set(plan.bill.unknown)) == len(plan.bill.unknown)


def test_pods_beyond_a_node_s_addresses_are_told() -> None:
    small = InstanceGroup(name="gpu", instance_type="ml.g6e.xlarge", count=4)
    plan = plan_deployment(serving("Llama-3.1-8B", "ml.g6e.xlarge", 1))

    group = next(group for group in plan.groups if group.name == small.name)

    assert (group.pods_per_node, group.max_pods, group.fits) == (12, 14, True)
    assert plan.ip_addresses == 4 * 15 + 2 * 30


def test_a_model_of_unknown_shape_is_planned_without_token_counts() -> None:
    plan = plan_deployment(serving("my-own-model", "ml.p5.48xlarge", 8))

    assert only(plan).capacity.gpu_tokens is None
    assert only(plan).break_even == ()
    text = report.as_text(plan)
    assert "a model of unknown shape (--model-config FILE reads it)" in text
    assert "GPUs hold         unknown; weights of 130.4 GiB are assumed" in text


def test_of_a_store_that_exists_the_size_and_bandwidth_are_what_the_file_says() -> None:
    l2 = {
        "bandwidth": "5GB/s",
        "size": "300Gi",
        "existing": {
            "url": "rediss://cache.example.com:6379",
            "secretArn": "arn:aws:secretsmanager:us-west-2:111122223333:secret:l2-AbCdEf",
        },
    }
    cache = codec.decode_or_raise(CacheTiers, {"l2": l2})
    plan = plan_deployment(replace(serving("llama-3.1-8b", "ml.g5.12xlarge", 4), cache=cache))

    assert plan.store is None
    assert only(plan).capacity.l2_bytes == 300 * GIB


def test_tiered_storage_is_the_nodes_share_and_leaves_pods_the_rest() -> None:
    data = changed(deployment(), {"cache": {"l2": {"backend": "tieredstorage", "memoryPercent": 20}}})
    config = InferenceEndpointConfig.from_manifest(
        changed(
            endpoint(),
            {
                "spec.kvCacheSpec": {
                    "enableL2Cache": True,
                    "l2CacheSpec": {"l2CacheBackend": "tieredstorage"},
                }
            },
        )
    )
    cache = codec.decode_or_raise(CacheTiers, data["cache"])
    group = InstanceGroup(name="gpu", instance_type="ml.g5.12xlarge", count=3)

    plan = plan_deployment(Deployment(endpoints=(config,), instance_groups=(group,), cache=cache))

    assert only(plan).capacity.l2_bytes == 3 * 192 * GIB * 20 // 100
    assert only(plan).engine.available_bytes == int(192 * GIB * 0.75)
    assert plan.store is None


@pytest.mark.parametrize("name", MODELS)
def test_text_has_a_line_for_every_row(name: str) -> None:
    plan = plan_deployment(MODELS[name])

    text = report.as_text(plan)

    assert all(f"{row.num_tokens:>7,}" in text for row in only(plan).break_even)
    assert max(len(line) for line in text.splitlines()) < 140


def test_nodes_that_karpenter_adds_are_named_by_their_groups_and_not_counted() -> None:
    plan = plan_deployment(autoscaled("gpu"))

    assert plan.bill.uncounted == ("gpu",)
    assert "  not counted: nodes that Karpenter adds to gpu" in report.as_text(plan).splitlines()
