"""Nothing of what is secret is ever logged, counted under a label, or answered."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from fakes_access import ACME, CHAT, AccessFolder, bearer, salt_of
from fakes_engine import FakeEngine, RawClient, get, post, run_loop
from fakes_jwt import AUDIENCE, ISSUER, Issuer
from fakes_router import routed

from hypertier.router.access import keys

PROMPT, HEADER, QUERY = "MARKER-PROMPT", "MARKER-HEADER", "MARKER-QUERY"
WRONG = "sk-ht-MARKER-WRONG-KEY"
BODY = b'{"model": "m", "messages": [{"role": "user", "content": "%s"}]}' % PROMPT.encode()


def test_logs_and_metrics_name_no_prompt_key_token_or_header(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    issuer = Issuer()
    (tmp_path / "jwks.json").write_bytes(issuer.jwks())
    folder = AccessFolder(
        tmp_path,
        f"access: {{default: {{requestsPerMinute: 3}}, queue: {{maxInFlightPerReplica: 1, size: 1}}, "
        f"jwt: {{jwks: {tmp_path}/jwks.json, issuer: '{ISSUER}', audience: {AUDIENCE}}}}}\n",
    )
    token = issuer.token(exp=1).decode()
    caplog.set_level(logging.DEBUG)
    answers: list[bytes] = []

    async def act() -> str:
        good, bad = FakeEngine(), FakeEngine()
        async with routed(good, bad, explain=True, **folder.settings) as router:
            assert router._door is not None
            requests = [
                post(CHAT + b"?" + QUERY.encode(), BODY, *headers, b"x-custom: " + HEADER.encode())
                for headers in (
                    [bearer(ACME)],
                    [b"x-api-key: " + ACME.encode()],
                    [bearer(WRONG)],
                    [bearer(token)],
                    [bearer(ACME), b"Content-Encoding: gzip"],
                    [bearer(ACME)],  # beyond the limit
                    [],
                )
            ]
            requests += [b"\x00" + BODY, post(CHAT, BODY, b"x-custom : " + HEADER.encode())]
            await bad.kill()
            for request in requests:
                client = await RawClient.connect(router.port)
                client.send(request)
                answer = await client.answer()
                answers.append(answer.head + answer.body)
            folder.write_keys(keys.line(ACME, "acme", None), f"{WRONG} acme")
            router._door.watch.step()
            client = await RawClient.connect(router.metrics_port)
            client.send(get(b"/metrics"))
            return (await client.answer()).body.decode()

    metrics = run_loop(act())

    said = capfd.readouterr()
    everything = "\n".join([caplog.text, said.out, said.err, metrics, *map(bytes.decode, answers)])
    secrets = {PROMPT, HEADER, QUERY, WRONG, ACME, token, salt_of("acme"), token.split(".")[2]}
    assert not {secret for secret in secrets if secret in everything}
    assert "keeping the keys and limits in use" in caplog.text
    assert 'tenant="acme"' in metrics
    assert len({answer.split(b" ")[1] for answer in answers}) >= 4
