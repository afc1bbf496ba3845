"""The answer of an engine's `POST /tokenize`, read by a parser that builds nothing else of it."""

from __future__ import annotations

import msgspec


class _Answer(msgspec.Struct, gc=False):
    tokens: list[int]
    token_strs: list[str]


_decoder = msgspec.json.Decoder(_Answer)


def read(text: bytes) -> tuple[list[int], list[int]]:
    """The tokens, and how many characters of text each is. Raises ValueError for anything else."""
    try:
        answer = _decoder.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    return answer.tokens, list(map(len, answer.token_strs))
