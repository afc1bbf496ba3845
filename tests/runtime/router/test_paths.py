"""Every path that vLLM serves, against what the router makes of it.

The table is what `entrypoints/**/api_router.py` of vLLM 0.32.0 decorate (read 2026-12-02).
"""

from __future__ import annotations

from fakes_engine import FakeEngine, RawClient, get, post, run_loop
from fakes_router import routed

from hypertier.router.access.paths import Paths

FOR_TENANTS = """
POST /classify
POST /cohere/v2/chat
POST /cohere/v2/chat/render
POST /detokenize
POST /generative_scoring
POST /inference/v1/generate
POST /invocations
GET /ping
POST /ping
POST /pooling
POST /rerank
POST /score
POST /tokenize
POST /v1/audio/transcriptions
POST /v1/audio/translations
POST /v1/chat/completions
POST /v1/chat/completions/batch
POST /v1/chat/completions/derender
POST /v1/chat/completions/render
POST /v1/completions
POST /v1/completions/derender
POST /v1/completions/render
POST /v1/embeddings
POST /v1/messages
POST /v1/messages/count_tokens
POST /v1/messages/render
GET /v1/models
GET /v1/realtime
POST /v1/rerank
POST /v1/responses
POST /v1/responses/render
GET /v1/responses/resp_1
POST /v1/responses/resp_1/cancel
POST /v1/score
POST /v1/systemone
POST /v2/embed
POST /v2/rerank
GET /version
"""
FOR_OPERATORS = """
POST /abort_requests
POST /collective_rpc
GET /docs
POST /fault_tolerance/apply
GET /fault_tolerance/status
POST /finish_weight_update
GET /get_world_size
POST /init_weight_transfer_engine
GET /is_paused
POST /is_scaling_elastic_ep
GET /is_sleeping
GET /kv_event_sources
GET /load
POST /pause
POST /release_kv_cache_memory
POST /reset_encoder_cache
POST /reset_mm_cache
POST /reset_prefix_cache
POST /resume
POST /scale_elastic_ep
GET /server_info
POST /shutdown_weight_transfer_engine
POST /sleep
POST /start_draft_weight_update
POST /start_profile
POST /start_weight_update
POST /stop_profile
GET /tokenizer_info
POST /update_weight_version
POST /update_weights
POST /v1/load_lora_adapter
POST /v1/unload_lora_adapter
POST /wake_up
POST /weight_checker
GET /weight_info
"""
BODY = b'{"model":"m" , "unknown": [1e400, NaN], "model": "n", "prompt": "\\ud83d \\u0000"}'


def routes(table: str) -> list[tuple[bytes, bytes]]:
    return [(method, path) for method, path in (line.split() for line in table.strip().encode().split(b"\n"))]


def test_every_path_reaches_an_engine_as_it_was_asked() -> None:
    wanted = [*routes(FOR_TENANTS), *routes(FOR_OPERATORS)]

    async def act() -> tuple[set[int], list[tuple[bytes, bytes]]]:
        engine = FakeEngine()
        async with routed(engine, strategy="prefixaware") as router:
            client = await RawClient.connect(router.port)
            statuses = set()
            for method, path in wanted:
                client.send(post(path + b"?a=%20", BODY) if method == b"POST" else get(path + b"?a=%20"))
                statuses.add((await client.answer()).status)
            return statuses, [(request.line, request.body) for request in engine.received]

    statuses, received = run_loop(act())

    assert statuses == {200}
    assert received == [
        (b"%b %b?a=%%20 HTTP/1.1" % (method, path), BODY if method == b"POST" else b"")
        for method, path in wanted
    ]


def test_tenants_may_ask_what_answers_and_not_what_operates() -> None:
    paths = Paths()

    assert [path for _, path in routes(FOR_TENANTS) if not paths.has(path)] == []
    assert [path for _, path in routes(FOR_OPERATORS) if paths.has(path)] == []
