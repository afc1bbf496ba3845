from __future__ import annotations

import http.client
import json

import pytest

from hypertier.exporter.probe import health_server


def get(port: int, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("healthy", "status"), [(True, 200), (False, 503)], ids=["turning", "standing still"]
)
def test_the_probe_answers_with_what_was_counted(healthy: bool, status: int) -> None:
    counted = {"healthy": healthy, "cycles": 3}
    with health_server(("127.0.0.1", 0), lambda: counted) as port:
        got, body = get(port, "/health")

    assert (got, json.loads(body)) == (status, counted)


def test_it_listens_on_ipv6_too() -> None:
    with health_server(("::1", 0), lambda: {"healthy": True}) as port:
        connection = http.client.HTTPConnection("::1", port, timeout=10)
        connection.request("GET", "/health")

        assert connection.getresponse().status == 200
        connection.close()


def test_nothing_else_is_there() -> None:
    with health_server(("127.0.0.1", 0), lambda: {"healthy": True}) as port:
        assert get(port, "/metrics")[0] == 404
