"""A JWT is taken where everything about it is right, and for as long as it is."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from fakes_jwt import AUDIENCE, ISSUER, NOW, Issuer
from hypothesis import example, given
from hypothesis import strategies as st

from hypertier.errors import ConfigError, JwksError
from hypertier.router.access import jwks
from hypertier.router.access.jwt import MAX_KNOWN, MAX_TRIED, JwtVerifier
from hypertier.router.access.verdict import Rejected, Verified
from hypertier.spec.access import ASYMMETRIC, Jwt

K1 = Issuer()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def settings(**changes: Any) -> Jwt:
    given = {"jwks": "https://issuer.example/jwks", "issuer": ISSUER, "audience": AUDIENCE}
    return Jwt(**(given | changes))


def verifier(issuer: Issuer = K1, **changes: Any) -> JwtVerifier:
    made = JwtVerifier(settings(**changes), session_claim="sid")
    made.use(jwks.parse(issuer.jwks(), made._settings.algorithms))
    return made


@pytest.mark.parametrize("algorithm", ASYMMETRIC)
def test_every_asymmetric_algorithm_is_checked(algorithm: str) -> None:
    issuer = Issuer(algorithm)
    found = verifier(issuer)

    assert found.verify(issuer.token(), NOW) == Verified("acme", NOW + 3660)
    assert found.verify(issuer.token(), NOW) == Verified("acme", NOW + 3660)
    forged = issuer.token()[:-8] + b"AAAAAAAA"
    assert isinstance(found.verify(forged, NOW), Rejected)


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        pytest.param({"aud": "other"}, "audience", id="audience"),
        pytest.param({"aud": None}, "malformed", id="no-audience"),
        pytest.param({"iss": "https://other"}, "issuer", id="issuer"),
        pytest.param({"iss": None}, "malformed", id="no-issuer"),
        pytest.param({"exp": int(NOW) - 60}, "expired", id="expired"),
        pytest.param({"exp": None}, "malformed", id="no-end"),
        pytest.param({"exp": "never"}, "malformed", id="end-is-no-time"),
        pytest.param({"exp": 1e300}, "malformed", id="end-beyond-time"),
        pytest.param({"nbf": int(NOW) + 61}, "not_yet_valid", id="not-yet"),
        pytest.param({"sub": None}, "tenant", id="no-tenant"),
        pytest.param({"sub": "a\nb"}, "tenant", id="tenant-is-no-name"),
        pytest.param({"sub": ""}, "tenant", id="tenant-empty"),
        pytest.param({"key": Issuer().key}, "signature", id="other-key"),
    ],
)
def test_what_is_wrong_is_told(changes: dict[str, Any], cause: str) -> None:
    token = K1.token(**changes)

    assert verifier().verify(token, NOW) == Rejected(cause)


def test_head_that_is_nested_without_end_is_no_token() -> None:
    head = base64.urlsafe_b64encode(b"[" * 9000).rstrip(b"=")

    assert verifier().verify(head + b".e30.AAAA", NOW) == Rejected("malformed")


def test_clocks_may_differ_by_the_leeway() -> None:
    late = K1.token(exp=int(NOW) - 59)
    early = K1.token(nbf=int(NOW) + 59)

    assert isinstance(verifier().verify(late, NOW), Verified)
    assert isinstance(verifier().verify(early, NOW), Verified)
    assert verifier(leeway="0s").verify(late, NOW) == Rejected("expired")


def test_known_token_ends_in_its_time() -> None:
    found = verifier()
    token = K1.token()
    assert isinstance(found.verify(token, NOW), Verified)

    assert found.verify(token, NOW + 3661) == Rejected("expired")
    assert found.num_known == 0


def unsigned(header: dict[str, Any], signature: bytes = b"") -> bytes:
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "acme", "exp": int(NOW) + 3600}
    parts = [json.dumps(part).encode() for part in (header, claims)] + [signature]
    return b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)


@pytest.mark.parametrize("alg", ["none", "None", "HS256", "", None, 1])
def test_a_token_nobody_signed_is_refused(alg: Any) -> None:
    assert isinstance(verifier().verify(unsigned({"alg": alg, "kid": "k1"}, b"x"), NOW), Rejected)


def test_public_key_is_no_secret_of_an_hmac() -> None:
    issuer = Issuer("RS256")
    token = issuer.token(algorithm="HS256", key="a" * 64)

    assert verifier(issuer).verify(token, NOW) == Rejected("algorithm")


def test_algorithm_that_is_not_allowed_is_refused() -> None:
    issuer = Issuer("RS256")

    assert verifier(issuer, algorithms=("PS256",)).verify(issuer.token(), NOW) == Rejected("algorithm")


@pytest.mark.parametrize("token", [b"", b"a.b.c", b"\xff.\xff.\xff", b"x" * 20_000, b"..", b"e30.e30.e30"])
def test_what_is_no_token_is_refused(token: bytes) -> None:
    assert isinstance(verifier().verify(token, NOW), Rejected)


def test_new_keys_end_what_the_old_ones_signed() -> None:
    new = Issuer(kid="k2")
    found = verifier()
    token = K1.token()
    assert isinstance(found.verify(token, NOW), Verified)

    found.use(jwks.parse(new.jwks(), ASYMMETRIC))

    assert found.verify(token, NOW) == Rejected("unknown_key")
    assert isinstance(found.verify(new.token(), NOW), Verified)


@pytest.mark.parametrize("in_set", [None, "k"], ids=["keys-without-names", "keys-of-one-name"])
@pytest.mark.parametrize("num_keys", [1, 2, MAX_TRIED])
def test_while_keys_change_a_token_of_each_is_taken(in_set: str | None, num_keys: int) -> None:
    """Whatever their kinds: an issuer may go from RSA to curves and name neither."""
    issuers = [Issuer(algorithm, in_set) for algorithm in ("RS256", "ES256", "ES256", "EdDSA")[:num_keys]]
    found = verifier()
    found.use(jwks.parse(issuers[0].jwks(*issuers[1:]), ASYMMETRIC))

    taken = [found.verify(issuer.token(), NOW) for issuer in issuers]
    forged = found.verify(Issuer("ES256", in_set).token(), NOW)

    assert taken == [Verified("acme", NOW + 3660)] * num_keys
    assert isinstance(forged, Rejected)


def test_a_token_without_a_key_s_name_is_tried_with_a_few_keys_and_not_with_many() -> None:
    """A signature's check costs the router more than it costs to make up a token."""
    issuers = [Issuer(kid=f"k{number}") for number in range(MAX_TRIED + 1)]
    found = verifier()
    nameless = issuers[1].token(names_key=False)

    found.use(jwks.parse(issuers[0].jwks(*issuers[1:-1]), ASYMMETRIC))
    of_few = found.verify(nameless, NOW)
    found.use(jwks.parse(issuers[0].jwks(*issuers[1:]), ASYMMETRIC))
    of_many = found.verify(nameless, NOW)

    assert (of_few, of_many) == (Verified("acme", NOW + 3660), Rejected("unknown_key"))


def test_tenant_and_session_are_claims() -> None:
    found = verifier(tenant_claim="https://example/tenant")
    token = K1.token(sub=None, sid="s-1", **{"https://example/tenant": "zeta"})

    assert found.verify(token, NOW) == Verified("zeta", NOW + 3660, b"s-1")


@given(st.dictionaries(st.sampled_from(["sub", "sid", "exp", "nbf", "iat", "jti", "aud"]), JSON, min_size=1))
@example({"sid": "\ud800"})
def test_whatever_an_issuer_signs_is_taken_or_refused(claims: dict[str, Any]) -> None:
    """A claim may say what its client likes, and JSON can spell what UTF-8 can't."""
    assert isinstance(verifier().verify(K1.token(**claims), NOW), Verified | Rejected)


@given(st.dictionaries(st.sampled_from(["kid", "alg", "typ", "crit", "b64", "jwk", "jku", "x5c"]), JSON))
def test_whatever_a_head_says_no_forged_token_is_taken(head: dict[str, Any]) -> None:
    forged = unsigned({"alg": "ES256", "kid": "k1"} | head, b"x" * 64)

    assert isinstance(verifier().verify(forged, NOW), Rejected)


def test_known_tokens_are_bounded() -> None:
    found = verifier()
    for number in range(MAX_KNOWN + 1):
        found._known[b"%d" % number] = Verified("acme", NOW + 1)

    found.verify(K1.token(), NOW)

    assert found.num_known <= MAX_KNOWN + 1


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b'{"keys": 1}',
        b'{"keys": []}',
        b'{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "k"}]}',
        b'{"keys": [{"kty": "EC", "crv": "P-256", "x": "x", "y": "y"}]}',
        K1.jwks(use="enc"),
        K1.jwks(alg="HS256"),
        K1.jwks(crv="secp256k1"),
        b"[" * 100_000,
    ],
)
def test_a_set_without_a_usable_key_is_refused(text: bytes) -> None:
    with pytest.raises(JwksError):
        jwks.parse(text, ASYMMETRIC)


@given(
    st.sampled_from([K1, Issuer("RS256"), Issuer("EdDSA")]),
    st.dictionaries(st.sampled_from(["kty", "crv", "x", "y", "n", "e", "alg", "use", "key_ops"]), JSON),
)
def test_a_key_that_is_none_is_left_out_and_the_others_stay(issuer: Issuer, changes: dict[str, Any]) -> None:
    """Whatever else it raised would end the watch, and with it the withdrawal of keys."""
    good = Issuer(kid="good")

    found = jwks.parse(issuer.jwks(good, **(changes | {"kid": "changed"})), ASYMMETRIC)

    assert "good" in found


def test_short_rsa_keys_are_left_out() -> None:
    with pytest.raises(JwksError):
        jwks.parse(Issuer("RS256", rsa_bits=1024).jwks(), ASYMMETRIC)


def test_a_symmetric_key_among_others_is_left_out() -> None:
    text = json.dumps({"keys": [K1.public, {"kty": "oct", "k": "c2VjcmV0", "kid": "h"}]}).encode()

    assert set(jwks.parse(text, ASYMMETRIC)) == {"k1"}


@pytest.mark.parametrize(
    ("wrong", "setting"),
    [
        pytest.param({"jwks": "http://issuer.example/jwks"}, "access.jwt.jwks", id="plain-http"),
        pytest.param({"jwks": "https://u:p@issuer.example/"}, "access.jwt.jwks", id="user"),
        pytest.param({"audience": ""}, "access.jwt.audience", id="audience"),
        pytest.param({"issuer": ""}, "access.jwt.issuer", id="issuer"),
        pytest.param({"algorithms": ("HS256",)}, "access.jwt.algorithms", id="hmac"),
        pytest.param({"algorithms": ("none",)}, "access.jwt.algorithms", id="none"),
        pytest.param({"algorithms": ()}, "access.jwt.algorithms", id="no-algorithm"),
        pytest.param({"leeway": "1h"}, "access.jwt.leeway", id="leeway"),
    ],
)
def test_settings_that_check_nothing_are_refused(wrong: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigError, match=setting):
        settings(**wrong)
