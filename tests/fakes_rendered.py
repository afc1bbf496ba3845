"""Kubernetes objects of the shape that the charts render, written by hand."""

from __future__ import annotations

import json
from typing import Any

from hypertier.tier.launch import CacheSettings, kv_transfer_config

KV_TRANSFER_CONFIG = kv_transfer_config(
    CacheSettings(l1_bytes=800 * 2**30, l2_url="rediss://cache.example:6379", blocks_per_chunk=1)
)
ENGINE_ARGS = [
    "/opt/ml/model",
    "--served-model-name",
    "Llama-3.1-70B-Instruct",
    "--tensor-parallel-size",
    "8",
    "--max-model-len=65536",
    "--port",
    "8000",
    "--kv-transfer-config",
    json.dumps(KV_TRANSFER_CONFIG),
]
ENGINE_ENV: list[dict[str, Any]] = [
    {"name": "PYTHONHASHSEED", "value": "0"},
    {"name": "HYPERTIER_L2_URL", "value": "rediss://cache.example:6379"},
    {"name": "HYPERTIER_L2_SECRET_ARN", "value": "arn:aws:secretsmanager:us-west-2:123456789012:secret:l2"},
    {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
]
ROUTER_ARGS = [
    "router",
    "--listen",
    "0.0.0.0:8080",
    "--strategy",
    "prefixaware",
    "--discover",
    "k8s://inference/llama-70b-engine:8000",
]


def workload(kind: str, name: str, container: dict[str, Any], replicas: int) -> dict[str, Any]:
    """A workload with one container."""
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "inference"},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [container]}}},
    }


def rendered(
    engine_args: list[str] | None = None,
    engine_env: list[dict[str, Any]] | None = None,
    router_args: list[str] | None = None,
) -> list[dict[str, Any]]:
    """An endpoint: engines, a router, and objects that are no workloads."""
    engine = {
        "name": "engine",
        "image": "vllm/vllm-openai:v0.32.0",
        "command": ["python3", "-m", "hypertier.tier.launch", "serve"],
        "args": ENGINE_ARGS if engine_args is None else engine_args,
        "env": ENGINE_ENV if engine_env is None else engine_env,
    }
    router = {
        "name": "router",
        "image": "hypertier-router:0.1.0",
        "args": ROUTER_ARGS if router_args is None else router_args,
    }
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "llama-70b-engine"}, "spec": {}},
        workload("Deployment", "llama-70b-engine", engine, 7),
        workload("Deployment", "llama-70b-router", router, 2),
    ]
