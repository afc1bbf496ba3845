"""What commands that ask a running endpoint have in common."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import click

from hypertier.errors import ConfigError

KEY = re.compile(r"[!-~]{1,8192}")  # what a header may carry
model_option = click.option(
    "--model", metavar="NAME", help="The model to ask; by default the only one of /v1/models."
)
api_key_option = click.option(
    "--api-key-env", metavar="NAME", help="The environment variable that holds the key, where one is needed."
)
ca_option = click.option(
    "--ca", metavar="FILE", help="The CAs that are believed, in PEM, in place of this machine's."
)


def asks_endpoint(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how to ask; they stand where this decorator does."""
    return model_option(api_key_option(ca_option(command)))


def key_of(variable: str | None) -> str | None:
    """The key; it is told nowhere. Raises ConfigError."""
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not KEY.fullmatch(key):
        raise ConfigError("--api-key-env", variable, "a variable that is set to a key, in printable ASCII")
    return key
