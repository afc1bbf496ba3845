"""moto's AWS on loopback, in this process: real boto3 against it, and its state at hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import moto.backends
from moto.moto_server.threaded_moto_server import ThreadedMotoServer

ACCOUNT = "123456789012"
REGION = "us-west-2"


@contextmanager
def moto_server() -> Iterator[str]:
    """Run moto on a free port and give its URL; its EKS, STS and CloudWatch are empty at first."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    for service in ("eks", "sts", "cloudwatch", "iam", "s3", "ssm"):
        moto.backends.get_backend(service).reset()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()
        if server._server is not None:
            server._server.server_close()


def aws_environment(url: str) -> dict[str, str]:
    """The environment in which boto3 talks to the moto at `url` and to nothing else."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "a-key-of-no-account",
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }
