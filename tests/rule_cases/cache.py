"""Rules of cache, each broken once and kept once."""

from __future__ import annotations

from rule_cases.case import KVAWARE, L2, OPERATOR, REDIS, TIERED, WORKER, Case

from hypertier.spec.rules.rule import JUMPSTART

CASES = [
    Case("l2-backend-missing", {"spec.kvCacheSpec": L2}, "spec.kvCacheSpec.l2CacheSpec.l2CacheBackend"),
    Case(
        "l2-backend-exact",
        {"spec.kvCacheSpec": {**L2, "l2CacheSpec": {"l2CacheBackend": "TieredStorage"}}},
        "spec.kvCacheSpec.l2CacheSpec.l2CacheBackend",
        {"spec.kvCacheSpec": TIERED},
    ),
    Case(
        "l2-backend-exact",
        {"spec.kvCacheSpec": {**L2, "l2CacheSpec": {"l2CacheBackend": "redis/sagemaker"}}},
        "spec.kvCacheSpec.l2CacheSpec.l2CacheBackend",
        {"spec.kvCacheSpec": REDIS},
        name="unanchored",
    ),
    Case(
        "l2-off-with-backend",
        {"spec.kvCacheSpec": {"l2CacheSpec": {"l2CacheBackend": "tieredstorage"}}},
        "spec.kvCacheSpec.enableL2Cache",
    ),
    Case(
        "l2-switched-off",
        {"spec.kvCacheSpec": {"enableL2Cache": False, "l2CacheSpec": {"l2CacheBackend": "tieredstorage"}}},
        "spec.kvCacheSpec.enableL2Cache",
    ),
    Case(
        "l2-redis-url",
        {"spec.kvCacheSpec": {**L2, "l2CacheSpec": {"l2CacheBackend": "redis"}}},
        "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl",
        {"spec.kvCacheSpec": REDIS},
    ),
    Case(
        "l2-redis-url",
        {"spec.kvCacheSpec": {**L2, "l2CacheSpec": {"l2CacheBackend": "redis"}}},
        "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl",
        {"spec.kvCacheSpec": REDIS},
        deployment=OPERATOR,
    ),
    Case(
        "l2-redis-url",
        {
            "spec.kvCacheSpec": {
                **L2,
                "l2CacheSpec": {"l2CacheBackend": "redis", "l2CacheLocalUrl": "http://c:6379"},
            }
        },
        "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl",
        name="scheme",
    ),
    Case(
        "l2-url-own-pod",
        {"spec.kvCacheSpec": REDIS, "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl": "redis://localhost:6379"},
        "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl",
        {"spec.kvCacheSpec": REDIS},
    ),
    Case(
        "l2-url-outside-vpc",
        {"spec.kvCacheSpec": REDIS, "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl": "rediss://8.8.8.8:6379"},
        "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl",
        {"spec.kvCacheSpec": REDIS, "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl": "rediss://10.0.3.4:6379"},
    ),
    Case(
        "l2-url-unencrypted",
        {
            "spec.kvCacheSpec": REDIS,
            "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl": "redis://cache.internal:6379",
        },
        "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl",
        {"spec.kvCacheSpec": REDIS},
    ),
    Case(
        "l2-url-password",
        {
            "spec.kvCacheSpec": REDIS,
            "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl": "rediss://:hunter2@cache:6379",
        },
        "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl",
        {"spec.kvCacheSpec": REDIS},
    ),
    Case(
        "l2-tiered-url",
        {"spec.kvCacheSpec": TIERED, "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl": "rediss://cache:6379"},
        "spec.kvCacheSpec.l2CacheSpec.l2CacheLocalUrl",
        {"spec.kvCacheSpec": TIERED},
    ),
    Case("both-tiers-off", {"spec.kvCacheSpec": {"enableL1Cache": False}}, "spec.kvCacheSpec"),
    Case(
        "switch-off-ignored",
        {"spec.kvCacheSpec": {**TIERED, "enableL1Cache": False}},
        "spec.kvCacheSpec.enableL1Cache",
        {"spec.kvCacheSpec": TIERED},
        operator=(3, 2),
    ),
    Case(
        "cache-engine",
        {f"{WORKER}image": "763104351884.dkr.ecr.us-west-2.amazonaws.com/djl-inference:0.36"},
        "spec.worker.image",
    ),
    Case(
        "hash-seed",
        {"spec.kvCacheSpec": TIERED, f"{WORKER}environmentVariables": [{"name": "A", "value": "b"}]},
        "spec.worker.environmentVariables",
        {"spec.kvCacheSpec": TIERED},
    ),
    Case(
        "hash-seed",
        {**KVAWARE, f"{WORKER}environmentVariables.0.value": "random"},
        "spec.worker.environmentVariables[0].value",
        KVAWARE,
        name="random",
    ),
    Case(
        "hash-seed",
        {"spec.kvCacheSpec": TIERED},
        "spec.environmentVariables",
        kind=JUMPSTART,
        name="jumpstart",
    ),
    Case(
        "prompt-below-chunk",
        {f"{WORKER}args": ["--max-model-len", "128", "--tensor-parallel-size=4"]},
        "spec.worker.args[1]",
        {f"{WORKER}args": ["--max-model-len", "8192", "--tensor-parallel-size=4"]},
    ),
    Case(
        "redis-ignored",
        {"spec.kvCacheSpec": REDIS},
        "spec.kvCacheSpec.l2CacheSpec.l2CacheBackend",
        {"spec.kvCacheSpec": TIERED},
        deployment=OPERATOR,
    ),
    Case(
        "lmcache-variables-stripped",
        {
            "spec.kvCacheSpec": TIERED,
            f"{WORKER}environmentVariables.0": {"name": "LMCACHE_CHUNK_SIZE", "value": "512"},
        },
        "spec.worker.environmentVariables[0]",
        {"spec.kvCacheSpec": TIERED},
        deployment=OPERATOR,
    ),
    Case(
        "cache-config-file",
        {"spec.kvCacheSpec.cacheConfigFile": "/etc/lmcache.yaml"},
        "spec.kvCacheSpec.cacheConfigFile",
        {"spec.kvCacheSpec": {"cacheConfigFile": "/etc/lmcache.yaml"}},
    ),
    Case(
        "multi-process-lmcache",
        {
            "spec.lmcache": {"mode": "MultiProcess"},
            f"{WORKER}image": "lmcache/vllm-openai:v0.4.3",
        },
        "spec.lmcache.mode",
        {
            "spec.lmcache": {"mode": "MultiProcess"},
            f"{WORKER}image": "lmcache/vllm-openai:v0.5.6",
        },
    ),
]
