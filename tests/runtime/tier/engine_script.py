"""Engines with L1 and L2, for `test_real_engine`: imports vLLM once, then each connection gets an engine in a
process of its own. Listens on the Unix socket that is named as the first argument.

The first line of a connection is JSON with `model`, `url` (null: no cache at all; empty: no L2), `l1_bytes`,
`key` (of encryption, or empty), `events_port` (of KV events, or 0), `tier`, settings to add, and `flags`,
more arguments of vLLM; it is answered by the engine's process id. Every later line is a command, answered by
a line:

{"generate": [PROMPT, ...], "num_tokens": 24, "salt": null}
                                   tokens, cached prompt tokens of each prompt
{"first_token": PROMPT}            seconds until the first token, those of them that the engine's thread
                                   waited for a CPU, and cached prompt tokens
{"reset": "gpu"}                   forget vLLM's prefix cache; "all" forgets L1 as well
{"metric": NAME}                   labels and value of each sample of a metric
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import prometheus_client
from vllm import LLM, SamplingParams
from vllm.config import KVEventsConfig

from hypertier.tier.launch import CacheSettings, kv_events_config, kv_transfer_config


def main() -> None:
    """Wait for connections until the parent ends, which closes standard input."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(sys.argv[1])
        listener.listen()
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                serve(connection)
                os._exit(0)
            connection.close()


def serve(connection: socket.socket) -> None:
    """Be one engine."""
    with connection, connection.makefile("rw") as stream:
        engine = build(json.loads(stream.readline()))
        print(os.getpid(), file=stream, flush=True)
        for line in stream:
            print(json.dumps(answer(engine, json.loads(line))), file=stream, flush=True)


def build(wish: dict[str, Any]) -> LLM:
    """Load the model, with or without L1 and L2."""
    config: dict[str, Any] | None = None
    port = wish.get("events_port", 0)
    if wish["url"] is not None:
        os.environ["HYPERTIER_L2_URL"] = wish["url"]
        os.environ["HYPERTIER_L2_KEY"] = wish["key"]
        config = kv_transfer_config(CacheSettings(wish["l1_bytes"], wish["url"] or None, blocks_per_chunk=2))
        for tier in config["kv_connector_extra_config"].get("secondary_tiers", []):
            tier |= wish["tier"]
        if wish.get("among_connectors"):
            kind = {"kv_connector": "MultiConnector", "kv_role": "kv_both"}
            config = {**config, **kind, "kv_connector_extra_config": {"connectors": [config]}}
            config.pop("kv_connector_module_path")
    return LLM(
        model=wish["model"],
        dtype="float32",
        max_model_len=4096,
        block_size=32,
        enforce_eager=True,
        kv_cache_memory_bytes=wish.get("kv_cache_bytes", 64 * 1024 * 1024),
        kv_transfer_config=config,
        kv_events_config=KVEventsConfig(**kv_events_config(port)) if port else None,
        disable_log_stats=False,
        seed=0,
        **wish.get("flags", {}),
    )


def answer(engine: LLM, command: dict[str, Any]) -> Any:
    """Carry out one command."""
    if "generate" in command:
        sampling = SamplingParams(temperature=0.0, max_tokens=command["num_tokens"], ignore_eos=True)
        prompts = [{"prompt": text, "cache_salt": command["salt"]} for text in command["generate"]]
        outputs = engine.generate(prompts, sampling, use_tqdm=False)
        return [
            {"tokens": list(output.outputs[0].token_ids), "cached": output.num_cached_tokens}
            for output in outputs
        ]
    if "first_token" in command:
        return first_token(engine, command["first_token"])
    if "reset" in command:
        return engine.reset_prefix_cache(reset_connector=command["reset"] == "all")
    return [
        (sample.labels, sample.value)
        for family in prometheus_client.REGISTRY.collect()
        for sample in family.samples
        if sample.name == command["metric"]
    ]


def first_token(engine: LLM, prompt: str) -> dict[str, float]:
    """Answer a prompt with a few tokens, of which the first is timed; blocks are stored during the others."""
    sampling = SamplingParams(temperature=0.0, max_tokens=4, ignore_eos=True)
    shortage, begin = shortage_seconds(), time.perf_counter()
    engine.llm_engine.add_request(str(begin), prompt, sampling)
    while not (outputs := engine.llm_engine.step()):
        pass
    seconds, shortage = time.perf_counter() - begin, shortage_seconds() - shortage
    while engine.llm_engine.has_unfinished_requests():
        engine.llm_engine.step()
    return {
        "seconds": seconds,
        "shortage": shortage,
        "cached": outputs[0].num_cached_tokens or 0,
    }


def shortage_seconds() -> float:
    """How long this thread was ready to run while others had its CPU."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


if __name__ == "__main__":
    main()
