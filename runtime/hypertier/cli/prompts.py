"""A prompt in a file, as an engine tokenizes it: what `hypertier cache --prompt` asks about."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from hypertier.errors import ConfigError, MissingPackageError, TokenizeError

if TYPE_CHECKING:
    from hypertier.tier.prefix import PromptTokens

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
FIELDS = {CHAT: "messages", COMPLETION: "prompt"}
TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True)
class Asked:
    """A prompt and whose request it is, as options name them."""

    file: Path
    endpoint: str
    text_is: str
    salt: str
    salt_of: str
    salt_key: str
    adapter: str


def prompt_options(function: Callable[..., None]) -> Callable[..., None]:
    """Which prompt is meant, for each command that can tell one from others: `asked`, None without one."""

    @functools.wraps(function)
    def with_prompt(
        prompt: Path | None,
        endpoint: str,
        text_is: str,
        salt: str,
        salt_of: str,
        salt_key: str,
        adapter: str,
        **others: Any,
    ) -> None:
        given = {
            "--endpoint": endpoint,
            "--salt": salt,
            "--salt-of": salt_of,
            "--salt-key": salt_key,
            "--adapter": adapter,
        }
        if prompt is None and (lonely := [name for name, value in given.items() if value]):
            raise ConfigError(lonely[0], given[lonely[0]], "--prompt beside it")
        if salt_key and not salt_of:
            raise ConfigError("--salt-key", salt_key, "--salt-of beside it")
        asked = None
        if prompt is not None:
            asked = Asked(prompt, endpoint, text_is, salt, salt_of, salt_key, adapter)
        function(asked=asked, **others)

    options = (
        click.option(
            "--prompt",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="A prompt: a request's body, its messages, or text.",
        ),
        click.option("--endpoint", default="", metavar="URL", help="http://HOST:PORT of who tokenizes it."),
        click.option(
            "--text-is",
            type=click.Choice(["chat", "completion"]),
            default="chat",
            show_default=True,
            help="Whether a text is a user's message or a completion's prompt.",
        ),
        click.option("--salt", default="", help="The request's cache_salt."),
        click.option("--salt-of", default="", metavar="TENANT", help="The salt that routers give a tenant."),
        click.option("--salt-key", default="", metavar="FILE", help="The routers' key, for --salt-of."),
        click.option("--adapter", default="", metavar="NAME=PATH", help="As in vLLM's --lora-modules."),
    )
    wrapped: Callable[..., None] = with_prompt
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


def tokenized(asked: Asked) -> PromptTokens:
    """Have the endpoint tokenize the prompt.

    Raises:
        ConfigError: an option that cannot work, or a prompt that is neither a text nor a chat of texts.
        TokenizeError: the endpoint does not tokenize it.
        MissingPackageError: the router's part of hypertier is not installed.
    """
    try:
        from hypertier.router.api.openai import Prompt
        from hypertier.router.discovery.addresses import Address
        from hypertier.router.kv import tokens
        from hypertier.tier.block_hashes import Adapter
        from hypertier.tier.prefix import PromptTokens
    except ImportError as error:
        raise MissingPackageError("hypertier cache --prompt", str(error.name), "router") from error
    if not is_http(asked.endpoint):
        raise ConfigError(
            "--endpoint", asked.endpoint, "http://HOST:PORT of an engine, which tokenizes --prompt"
        )
    name, equals, path = asked.adapter.partition("=")
    if asked.adapter and not (name and equals and path):
        raise ConfigError("--adapter", asked.adapter, "NAME=PATH, as in the engine's --lora-modules")
    where, request = read_request(asked)
    salt = salt_of(asked, request)
    value = request.pop(FIELDS[where])
    body = json.dumps({**request, FIELDS[where]: value}).encode()
    prompt = Prompt(where.encode(), body, len(body) - len(json.dumps(value)) - 1, salt.encode())
    parts = urlsplit(asked.endpoint)
    try:
        question = tokens.question(prompt)
    except TokenizeError as error:
        raise ConfigError("--prompt", str(asked.file), f"a text, or a chat of texts ({error})") from error
    try:
        found = tokens.ask(Address(parts.hostname or "", parts.port or 80), question, TIMEOUT_SECONDS)
    except TokenizeError as error:
        raise TokenizeError(error.cause, f"{asked.endpoint}: {error}") from error
    return PromptTokens(found.ids, salt or None, Adapter(name, path) if asked.adapter else None)


def read_request(asked: Asked) -> tuple[str, dict[str, Any]]:
    """The path and the body of the request that the file stands for.

    Raises:
        ConfigError: it is no text, or JSON that is no request.
    """
    try:
        text = asked.file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("--prompt", str(asked.file), f"a file of text in UTF-8 ({error})") from error
    try:
        found = json.loads(text)
    except (RecursionError, ValueError):
        found = None
    if isinstance(found, dict):
        where = next((path for path, field in FIELDS.items() if field in found), None)
        if where is None:
            raise ConfigError("--prompt", str(asked.file), 'a request\'s body with "messages" or "prompt"')
        return where, found
    if isinstance(found, list):
        return CHAT, {"messages": found}
    if asked.text_is == "completion":
        return COMPLETION, {"prompt": text}
    return CHAT, {"messages": [{"role": "user", "content": text}]}


def salt_of(asked: Asked, request: dict[str, Any]) -> str:
    """The salt of a request: its own, `--salt`, or what routers give `--salt-of`; empty where it has none.

    Raises:
        ConfigError: more than one of them, or a key that is none.
    """
    own = request.pop("cache_salt", None) or ""
    if not asked.salt_of:
        if asked.salt and own not in ("", asked.salt):
            raise ConfigError("--salt", asked.salt, "none, or that of the request's body")
        return str(asked.salt or own)
    if asked.salt:
        raise ConfigError("--salt-of", asked.salt_of, "either --salt or --salt-of, not both")
    from hypertier.router.access.files import read_salt_key
    from hypertier.router.access.salt import derive

    return derive(read_salt_key(asked.salt_key), asked.salt_of).decode()


def is_http(url: str) -> bool:
    """Whether a host and a port can be read from `url`, and nothing but them."""
    try:
        parts = urlsplit(url)
        return parts.scheme == "http" and bool(parts.hostname) and parts.port != 0 and parts.path in ("", "/")
    except ValueError:
        return False
