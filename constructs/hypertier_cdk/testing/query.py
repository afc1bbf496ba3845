"""AWS's query protocol, as CloudFormation speaks it: lists in a request's form, and answers in XML.

https://smithy.io/2.0/aws/protocols/aws-query-protocol.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from xml.sax.saxutils import escape


def structures(query: Mapping[str, str], prefix: str) -> Iterator[dict[str, str]]:
    """The entries of a list of structures in a query: Tags.member.1.Key=…"""
    number = 1
    while True:
        start = f"{prefix}{number}."
        entry = {key.removeprefix(start): value for key, value in query.items() if key.startswith(start)}
        if not entry:
            return
        yield entry
        number += 1


def xml(value: Any) -> str:
    """An answer's value in XML: mappings by their keys, each entry of a list a `member`."""
    if isinstance(value, Mapping):
        return "".join(f"<{key}>{xml(entry)}</{key}>" for key, entry in value.items())
    if isinstance(value, list):
        return "".join(f"<member>{xml(entry)}</member>" for entry in value)
    return escape(str(value))
