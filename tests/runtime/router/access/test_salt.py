"""The salt goes into a body that is otherwise the client's own, whatever JSON it wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hypertier.router.access import salt
from hypertier.tier.tenants import tag_of_salt, tenant_tag

KEY = bytes(range(32))
SALT = salt.derive(KEY, "acme")
WRITTEN = salt.member(SALT)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(["cache_salt", '"cache_salt":']),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("cache_salt"), inner),
    max_leaves=6,
)
spaces = st.text(" \t\n\r", max_size=3)


@st.composite
def spelled(draw: st.DrawFn, text: str) -> str:
    """The text as a JSON string, any of its characters escaped or not."""
    letters = []
    for letter in text:
        code = f"\\u{ord(letter):04x}"
        letters.append(draw(st.sampled_from([letter, code, code[:2] + code[2:].upper()])))
    return '"' + "".join(letters) + '"'


@st.composite
def objects(draw: st.DrawFn) -> tuple[bytes, list[tuple[str, Any]]]:
    """An object as any client may write it, and its members other than a salt, in their order."""
    members: list[str] = []
    others: list[tuple[str, Any]] = []
    for _ in range(draw(st.integers(0, 5))):
        value = draw(values)
        name = draw(st.sampled_from(["cache_salt", "cache_salt", "model", "cache_salt ", "é"]) | st.text())
        if name == "cache_salt":
            key = draw(spelled(name))
        else:
            key = json.dumps(name, ensure_ascii=draw(st.booleans()))
            others.append((name, value))
        text = json.dumps(value, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1])))
        space = [draw(spaces) for _ in range(4)]
        members.append(f"{space[0]}{key}{space[1]}:{space[2]}{text}{space[3]}")
    inner = ",".join(members) if members else draw(spaces)
    body = f"{draw(spaces)}{{{inner}}}{draw(spaces)}"
    return body.encode("utf-8", "surrogatepass"), others


@settings(max_examples=40)
@given(objects(), st.sampled_from([bytes, bytearray]))
@example((b"{}", []), bytes)
@example((b'{"a":1,"cache_salt":1,"cache_salt":2}', [("a", 1)]), bytearray)
def test_the_object_has_one_salt_and_it_is_the_tenants(
    written: tuple[bytes, list[tuple[str, Any]]], kind: type
) -> None:
    body, others = written

    spliced = salt.splice(kind(body), WRITTEN)

    assert spliced is not None
    pairs = json.loads(bytes(spliced).decode("utf-8", "surrogatepass"), object_pairs_hook=list)
    assert [name for name, _ in pairs] == [*(name for name, _ in others), "cache_salt"]
    assert pairs[-1][1] == SALT.decode()
    assert [value for _, value in pairs[:-1]] == [_as_pairs(value) for _, value in others]


def _as_pairs(value: Any) -> Any:
    """A value as `object_pairs_hook=list` reads it."""
    return json.loads(json.dumps(value), object_pairs_hook=list)


@settings(max_examples=40)
@given(objects())
def test_without_a_salt_of_its_own_the_body_is_untouched_but_for_one_member(
    written: tuple[bytes, list[tuple[str, Any]]],
) -> None:
    body, _ = written
    own = salt.own_members(body)

    spliced = salt.splice(body, WRITTEN)

    if not own:
        assert spliced is not None
        begin, end = spliced.rsplit(WRITTEN, 1)
        assert begin.rstrip(b",") + end in (body, body.rstrip(b","))
        assert len(spliced) - len(body) in (len(WRITTEN), len(WRITTEN) + 1)


@given(st.binary(max_size=40) | st.text('{}[]",:\\ \n0cache_salt').map(str.encode))
@example(b'{"cache_salt":"mine","b":"}')
@example(b'{"cache_salt":"mine","b":"\\}')
@example(b'{"x":{"a":1}')
@example(b'{"cache_salt":1,[}')
def test_what_becomes_json_has_the_tenants_salt(body: bytes) -> None:
    spliced = salt.splice(body, WRITTEN)

    if spliced is not None:
        try:
            pairs = json.loads(spliced, object_pairs_hook=list)
        except (ValueError, RecursionError):
            return
        assert pairs[-1] == ("cache_salt", SALT.decode())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"}",
        b"[]",
        b'["cache_salt"]',
        b'"text"',
        b"\xef\xbb\xbf{}",
        '{"a":1}'.encode("utf-16"),
        '{"a":1}'.encode("utf-16-le"),
        '{"a":1}'.encode("utf-16-be"),
        '{"a":1}'.encode("utf-32-le"),
        b'{"a":1}\x0c',
        b"--boundary\r\n",
    ],
)
def test_what_is_no_object_in_utf_8_gets_no_salt(body: bytes) -> None:
    assert salt.splice(body, WRITTEN) is None


def test_reading_a_hostile_body_ends() -> None:
    body = b'{"a":' + b"[" * 2_000_000 + b',"cache_salt":1}'

    assert salt.splice(body, WRITTEN) is None


def test_many_salts_of_the_clients_in_a_long_body_are_taken_out_at_once() -> None:
    """Each on its own would move all that stands behind it: 30,000 times 20 MB, for minutes."""
    body = b"{" + b'"cache_salt":1,' * 30_000 + b'"x":"' + b"y" * 20_000_000 + b'"}'

    found = salt.splice(body, WRITTEN)

    assert found == b'{"x":"' + b"y" * 20_000_000 + b'",' + WRITTEN + b"}"
    assert salt.splice(b"{" + b'"cache_salt":1,' * (salt.MAX_TOKENS + 1) + b'"x":1}', WRITTEN) is None


def test_salt_in_a_prompt_stays() -> None:
    body = json.dumps({"prompt": 'my "cache_salt": is', "n": {"cache_salt": 1}}).encode()

    spliced = salt.splice(body, WRITTEN)

    assert spliced == body[:-1] + b"," + WRITTEN + b"}"


def test_l2_knows_whose_salt_it_is() -> None:
    assert tag_of_salt(SALT.decode()) == tenant_tag("acme")


def test_tenants_salts_differ_and_need_the_key() -> None:
    salts = {salt.derive(key, tenant) for key in (KEY, KEY[::-1]) for tenant in ("acme", "zeta", "acme ")}

    assert len(salts) == 6
    assert {len(each) for each in salts} == {60}
    assert not set(b"".join(salts)) & set(b'@/\\\0"')
