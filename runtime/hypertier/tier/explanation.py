"""Which namespaces hold a prompt, how far, and why not further: for people."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypertier.tier.inventory import Value, differences
from hypertier.tier.prefix import Held, Layout, PromptTokens, chunks_of, judge, read_layout

MAX_SHOWN_CHARACTERS = 48
Facts = Mapping[bytes, Mapping[str, Any]]


def keys_of(prompt: PromptTokens, facts: Facts) -> frozenset[tuple[bytes, bytes]]:
    """The whole chunks of a prompt, by namespace and key, in each namespace that tells how they are named."""
    layouts = {namespace: read_layout(known) for namespace, known in facts.items()}
    return frozenset(
        (namespace, chunk.key)
        for namespace, layout in layouts.items()
        if isinstance(layout, Layout)
        for group in chunks_of(prompt, namespace, layout)
        for chunk in group
    )


def explained(
    find: Callable[[Sequence[bytes]], Mapping[bytes, Value]], prompt: PromptTokens, facts: Facts
) -> dict[str, Any]:
    """How much of a prompt each namespace holds, the one that holds most first, and in what others differ.

    `find` returns the values under names. Of a salted prompt it is also told what is held without a salt.
    """
    told: list[dict[str, Any]] = []
    for namespace, known in facts.items():
        each = {"namespace": namespace.hex(), "model": known.get("model"), "epoch": known.get("epoch")}
        layout = read_layout(known)
        if isinstance(layout, Layout):
            each |= looked_up(find, prompt, namespace, layout).as_json()
            if prompt.salt:
                unsalted = looked_up(find, replace(prompt, salt=None), namespace, layout)
                each["held_tokens_unsalted"] = unsalted.num_held_tokens
        else:
            each |= {"held_tokens": 0, "why": layout}
        told.append(each)
    told.sort(key=lambda each: -each["held_tokens"])
    for each in told[1:]:
        pair = {name: facts[bytes.fromhex(name)] for name in (told[0]["namespace"], each["namespace"])}
        if all(pair.values()):
            each["differs_in"] = differences(pair)
    return {"tokens": len(prompt.ids), "salted": bool(prompt.salt), "namespaces": told}


def looked_up(
    find: Callable[[Sequence[bytes]], Mapping[bytes, Value]],
    prompt: PromptTokens,
    namespace: bytes,
    layout: Layout,
) -> Held:
    """What a namespace holds of a prompt."""
    groups = chunks_of(prompt, namespace, layout)
    return judge(prompt, groups, layout, find([name for group in groups for c in group for name in c.names]))


def lines(told: Mapping[str, Any]) -> list[str]:
    """What `explained` tells, in words."""
    said: list[str] = []
    for each in told["namespaces"]:
        said.append(
            f"{each['namespace'][:8]} ({each['model'] or '?'}, epoch {shown_epoch(each['epoch'])}): "
            f"holds {each['held_tokens']} of {told['tokens']} tokens; {each['why']}"
        )
        if each["held_tokens"]:
            size, life = each["held_bytes"] / 2**20, each["first_expires_seconds"]
            said.append(
                f"  {each['held_chunks']} of {each['chunks']} chunks of {each['tokens_per_chunk']} tokens, "
                f"{size:.1f} MiB; the first expires in {life} s"
            )
        if each.get("held_tokens_unsalted"):
            said.append(f"  without a salt {each['held_tokens_unsalted']} tokens are held, for others")
        first = told["namespaces"][0]["namespace"][:8]
        for name, (theirs, own) in ((name, v.values()) for name, v in each.get("differs_in", {}).items()):
            said.append(f"  {name} is {shown(own)}, in {first} {shown(theirs)}")
    return said


def shown_epoch(epoch: Any) -> str:
    """An epoch, where it is known."""
    return "?" if epoch is None else str(epoch)


def shown(value: Any) -> str:
    """A fact, cut short."""
    text = json.dumps(value)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[: MAX_SHOWN_CHARACTERS - 1] + "…"
