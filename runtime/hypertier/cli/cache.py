"""`hypertier cache`: what L2 holds, why engines do not share it, how to fill it and how to empty it."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TextIO

import click

from hypertier import figures
from hypertier.cli.groups import Group
from hypertier.cli.prompts import Asked, is_http, prompt_options, tokenized
from hypertier.errors import ConfigError, HypertierError
from hypertier.lab.client import ask
from hypertier.spec.quantities import parse_seconds
from hypertier.tier.address import URL_VARIABLE, L2Address, parse_l2_url
from hypertier.tier.backends.connecting import CA_FILE
from hypertier.tier.backends.resp_admin import RespAdmin
from hypertier.tier.credentials import credential_source
from hypertier.tier.inventory import NamespaceCount, Value, count, differences, read_facts
from hypertier.tier.selection import Selection, tags_of, tenant_name

COLUMNS = ("namespace", "model", "label", "epoch", "tenant", "chunks", "values", "size", "expires in")
NOTHING = "nothing in L2"
SELECTORS = "--namespace, --tenant, --model, --unused-for or --prompt"


@click.group("cache", cls=Group, epilog="Example: hypertier cache ls --url redis://127.0.0.1:6379")
def command() -> None:
    """Look at, warm and clear what L2 holds. Credentials come from the environment, as for engines."""


def store_options(function: Callable[..., None]) -> Callable[..., None]:
    """Where L2 is, for each command."""
    function = click.option(
        "--ca-file", default="", metavar="FILE", help="Certificates that rediss:// trusts."
    )(function)
    return click.option(
        "--url", metavar="URL", help=f"redis://HOST:PORT or rediss://HOST:PORT; else {URL_VARIABLE}."
    )(function)


def selectors(function: Callable[..., None]) -> Callable[..., None]:
    """What of L2 is meant, for each command that shows or removes a part of it."""
    options = (
        click.option("--namespace", "namespaces", multiple=True, help="This one; its first characters do."),
        click.option("--tenant", "tenants", multiple=True, help="This tenant's; - for no salt."),
        click.option("--model", default="", help="Namespaces of this model."),
        click.option("--unused-for", default="", metavar="DURATION", help="Not used so long, such as 6h."),
    )
    for option in reversed(options):
        function = option(function)
    return function


@command.command("ls", epilog="Example: hypertier cache ls --by tenant --model org/llama --unused-for 6h")
@store_options
@selectors
@prompt_options
@click.option("--by", type=click.Choice(["namespace", "tenant"]), default="namespace", show_default=True)
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
def ls(
    url: str | None,
    ca_file: str,
    namespaces: Sequence[str],
    tenants: Sequence[str],
    model: str,
    unused_for: str,
    by: str,
    format_: str,
    asked: Asked | None,
) -> None:
    """Count what L2 holds by namespace: model, epoch, chunks, bytes, and when they expire."""
    with opened(url, ca_file) as (_, admin):
        selection = select(admin, namespaces, tenants, model, unused_for, asked)
        counts = inventory(admin, selection, by_tenant=by == "tenant")
        unnamed = not_looked_at(admin, selection)
    if format_ == "json":
        click.echo(json.dumps([as_json(each, tenants) for each in counts]))
        return
    for line in (*table(counts, tenants), *passed_over(unnamed)):
        click.echo(line)


@command.command("explain", epilog="Example: hypertier cache explain 4f1c 90ab")
@store_options
@prompt_options
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.argument("namespaces", nargs=-1)
def explain(
    url: str | None, ca_file: str, namespaces: Sequence[str], format_: str, asked: Asked | None
) -> None:
    """Tell what a namespace stands for, or in what several differ, so that none uses the others' blocks.

    With --prompt, tell how much of that prompt each namespace holds, and why not more.

    NAMESPACES are as `ls` shows them; their first characters do. With --prompt and none of them, all.
    """
    if not namespaces and asked is None:
        raise ConfigError("NAMESPACES", "", "one or more of those that `ls` shows, or --prompt FILE")
    prompt = None if asked is None else tokenized(asked)
    with opened(url, ca_file) as (_, admin):
        described = read_all_facts(admin)
        chosen = [choose(name, list(described)) for name in namespaces] or list(described)
        if prompt is not None:
            from hypertier.tier.explanation import explained, lines

            told = explained(admin.find, prompt, {each: described[each] for each in chosen})
            click.echo(json.dumps(told) if format_ == "json" else "\n".join(lines(told) or [NOTHING]))
            return
    facts = {namespace.hex()[:8]: described[namespace] for namespace in chosen}
    for name, known in facts.items():
        if not known:
            raise HypertierError(f"L2 no longer holds what {name} stands for: its facts expired")
    shown: Any = differences(facts) if len(facts) > 1 else next(iter(facts.values()))
    click.echo(json.dumps(shown, indent=2, sort_keys=True))


@command.command("clear", epilog="Example: hypertier cache clear --tenant acme --yes")
@store_options
@selectors
@prompt_options
@click.option("--all", "everything", is_flag=True, help="Clear all there is.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def clear(
    url: str | None,
    ca_file: str,
    namespaces: Sequence[str],
    tenants: Sequence[str],
    model: str,
    unused_for: str,
    everything: bool,
    yes: bool,
    asked: Asked | None,
) -> None:
    """Remove from L2 what is selected, and look again whether it is gone. Prints an audit line.

    Several selectors remove what all of them select.
    """
    has_selector = bool(namespaces or tenants or model or unused_for or asked)
    if everything == has_selector:
        raise ConfigError("--all", everything or None, f"--all alone, or one of {SELECTORS}")
    with opened(url, ca_file) as (address, admin):
        selection = select(admin, namespaces, tenants, model, unused_for, asked)
        chosen = inventory(admin, selection, by_tenant=bool(tenants))
        unnamed = not_looked_at(admin, selection)
        for line in (*table(chosen, tenants), *passed_over(unnamed)):
            click.echo(line)
        if chosen and not yes:
            click.confirm(f"Remove these from {address.host}:{address.port}?", abort=True)
        audit: dict[str, Any] = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "by": getpass.getuser(),
            "action": "clear",
            "l2": f"{address.host}:{address.port}",
            "namespaces": sorted({each.namespace.hex() for each in chosen}),
            "tenants": sorted(tenants),
            "unused_for": unused_for or None,
            "prompt": str(asked.file) if asked else None,
            "not_looked_at": sorted(unnamed),
            "values_removed": 0,
            "values_left": None,
        }

        def goes(value: Value) -> bool:
            return selection.takes(value) or selection.takes_with_chunks(value.name)

        try:
            for number in admin.remove(goes):
                audit["values_removed"] += number
            audit["values_left"] = admin.count(goes)
        finally:  # also when somebody interrupts it, or L2 goes: what is gone by then is gone
            click.echo(json.dumps(audit))
    if audit["values_left"]:
        raise HypertierError(
            f"{audit['values_left']} values are there again: engines that run stored them meanwhile. Raise "
            "the engines' epoch instead, or stop them first"
        )


@command.command(
    "warm",
    epilog="Example: hypertier cache warm prompts.txt --endpoint http://127.0.0.1:8000 --model llama-70b",
)
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.option("--endpoint", required=True, metavar="URL", help="http://HOST:PORT of a router or an engine.")
@click.option("--model", required=True, help="The model's name, as requests give it.")
def warm(file: TextIO, endpoint: str, model: str) -> None:
    """Have an endpoint compute prompts, so that they are in its caches: one prompt a line of FILE.

    Engines store what they compute in L2; a prompt that is there already costs a lookup. Each is sent as a
    user's message and answered with one token.
    """
    if not is_http(endpoint):
        raise ConfigError("--endpoint", endpoint, "http://HOST:PORT of a router or an engine")
    num_prompts = num_tokens = num_cached = 0
    try:
        for prompt in prompts_in(file):
            answer = ask(endpoint, model, prompt, max_tokens=1)
            num_prompts += 1
            num_tokens += answer.prompt_tokens
            num_cached += answer.cached_tokens
    finally:  # also when it ends midway: the next prompt is the one to go on with
        click.echo(f"{num_prompts} prompts, {num_tokens} tokens, {num_cached} of them were cached before")


def prompts_in(file: TextIO) -> Iterator[str]:
    """The lines of `file` that are not empty.

    Raises:
        ConfigError: the file is no text.
    """
    try:
        for line in file:
            if prompt := line.strip():
                yield prompt
    except UnicodeDecodeError as error:
        raise ConfigError("FILE", file.name, "text in UTF-8, one prompt a line") from error


@contextmanager
def opened(url: str | None, ca_file: str) -> Iterator[tuple[L2Address, RespAdmin]]:
    """Connect to L2 as an engine would."""
    setting, given = ("--url", url) if url else (URL_VARIABLE, os.environ.get(URL_VARIABLE))
    if given is None:
        raise ConfigError(URL_VARIABLE, None, "the address of L2, such as rediss://HOST:6379, or --url")
    address = parse_l2_url(given, setting)
    if address.is_daemon:
        raise ConfigError(
            setting,
            given,
            "a redis:// or rediss:// address: HyperPod's daemon neither lists nor removes values",
        )
    try:
        admin = RespAdmin(address, credential_source(os.environ, address.host), ca_file)
    except ConfigError as error:
        setting = "--ca-file" if error.setting == CA_FILE else error.setting
        raise ConfigError(setting, error.got, error.expected) from error
    try:
        yield address, admin
    finally:
        admin.close()


def read_all_facts(admin: RespAdmin) -> dict[bytes, dict[str, Any]]:
    """What all namespaces in L2 stand for; of one whose facts expired, nothing."""
    return {namespace: read_facts(stored) for namespace, stored in admin.facts().items()}


def inventory(admin: RespAdmin, selection: Selection, *, by_tenant: bool = False) -> list[NamespaceCount]:
    """What is selected of L2, counted."""
    return count(filter(selection.takes, admin.values()), selection.facts, by_tenant=by_tenant)


def not_looked_at(admin: RespAdmin, selection: Selection) -> dict[str, str]:
    """Where chunks of the prompt that is selected may be, for nobody can name them there; and why."""
    if selection.keys is None:
        return {}
    from hypertier.tier.prefix import read_layout

    held = inventory(admin, replace(selection, keys=None))
    layouts = {each.namespace.hex(): read_layout(each.facts) for each in held}
    return {name: layout for name, layout in layouts.items() if isinstance(layout, str)}


def passed_over(unnamed: Mapping[str, str]) -> list[str]:
    """Lines about what was not looked at."""
    return [f"{name[:8]}: not looked at: {why}" for name, why in unnamed.items()]


def select(
    admin: RespAdmin,
    namespaces: Sequence[str],
    tenants: Sequence[str],
    model: str,
    unused_for: str,
    asked: Asked | None,
) -> Selection:
    """What the selectors mean.

    Raises:
        ConfigError: no namespace begins so, or is of this model, or the duration is none.
    """
    unused_seconds = parse_seconds("--unused-for", unused_for) if unused_for else None
    facts = read_all_facts(admin)
    chosen: frozenset[bytes] | None = None
    if namespaces or model:
        known = list(facts)
        chosen = frozenset(choose(name, known) for name in namespaces) if namespaces else frozenset(known)
        if model:
            chosen = frozenset(each for each in chosen if facts.get(each, {}).get("model") == model)
            if not chosen:
                models = {str(each["model"]) for each in facts.values() if each.get("model")}
                raise ConfigError("--model", model, f"one of: {', '.join(sorted(models)) or 'L2 names none'}")
    keys = None
    if asked is not None:
        prompt = tokenized(asked)
        from hypertier.tier.explanation import keys_of

        keys = keys_of(prompt, facts)
    return Selection(chosen, tags_of(tenants), unused_seconds, keys, facts)


def choose(name: str, namespaces: Sequence[bytes]) -> bytes:
    """Find the namespace that begins with `name`.

    Raises:
        ConfigError: none does, or several do.
    """
    found = [each for each in namespaces if name and each.hex().startswith(name.lower())]
    if len(found) != 1:
        known = ", ".join(each.hex()[:8] for each in sorted(namespaces)) or "L2 is empty"
        raise ConfigError("namespace", name, f"the beginning of exactly one of: {known}")
    return found[0]


def as_json(each: NamespaceCount, tenants: Sequence[str]) -> dict[str, Any]:
    """A count as JSON has it, with its tenant where it is one's."""
    tenant = {} if each.tenant is None else {"tenant": tenant_name(each.tenant, each.facts, tenants)}
    return each.as_json() | tenant


def table(counts: Sequence[NamespaceCount], tenants: Sequence[str] = ()) -> list[str]:
    """Lay counts out as lines."""
    if not counts:
        return [NOTHING]
    rows = [COLUMNS]
    for each in counts:
        row = as_json(each, tenants)
        rows.append(
            (
                row["namespace"][:8],
                str(row["model"] or "?"),
                str(row["label"] or "-"),
                "?" if row["epoch"] is None else str(row["epoch"]),
                row.get("tenant", "all"),
                str(each.num_chunks),
                str(each.num_values),
                f"{each.num_bytes / 2**20:.1f} MiB",
                expiry(each),
            )
        )
    return list(figures.table(rows))


def expiry(each: NamespaceCount) -> str:
    """When the first and the last value expire, from now."""
    if each.first_expires_seconds is None or each.last_expires_seconds is None:
        return "never"
    return f"{each.first_expires_seconds}..{each.last_expires_seconds} s"
