"""A tenant is known by its salt, and its terms are checked when the engine starts."""

from __future__ import annotations

from typing import Any

import pytest

from hypertier.errors import ConfigError
from hypertier.tier.settings import read_settings
from hypertier.tier.tenants import UNSALTED, Tenants, Terms, tag_of_salt, tenant_tag

ENVIRON = {"HYPERTIER_L2_URL": "redis://cache:6379"}
TERMS = {"acme": Terms(60, 1000), "*": Terms(30), "-": Terms(None, 0)}


def test_a_salt_that_begins_with_a_tag_is_that_tenants() -> None:
    tag = tenant_tag("acme")

    assert tag_of_salt(f"{tag.hex()}.secret") == tag
    assert tag_of_salt("acme") == tag
    assert tag_of_salt(f"{tag.hex()}.") != tag
    assert tag_of_salt(tag.hex()) != tag


def test_no_salt_is_a_tenant_of_its_own() -> None:
    assert tag_of_salt(None) == tag_of_salt("") == tenant_tag("-") == UNSALTED


def test_terms_are_those_of_the_name_then_of_the_others() -> None:
    tenants = Tenants(TERMS)

    assert tenants.terms(tenant_tag("acme") + b"key") == TERMS["acme"]
    assert tenants.terms(tenant_tag("globex") + b"key") == TERMS["*"]
    assert tenants.terms(UNSALTED + b"key") == TERMS["-"]


def test_terms_for_others_leave_requests_without_a_salt_alone() -> None:
    assert Tenants({"*": Terms(30)}).terms(UNSALTED + b"key") == Terms()


def test_a_quota_that_no_chunk_fits_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"tenants.acme.quota_bytes is 1000; expected 1001 or more, one chunk"
    ):
        Tenants(TERMS).check_room(1001, "tenants")


def test_a_quota_of_nothing_and_one_of_a_chunk_are_taken() -> None:
    Tenants(TERMS).check_room(1000, "tenants")


def test_terms_are_read_from_the_tiers_settings() -> None:
    config = {"tenants": {"acme": {"quota_bytes": 10, "ttl_seconds": 5}, "*": {}}}

    assert read_settings(config, ENVIRON).tenants == {"acme": Terms(5, 10), "*": Terms()}


@pytest.mark.parametrize(
    ("tenants", "message"),
    [
        ([], "secondary_tiers.tenants is empty; expected an object of tenants by name"),
        ({"a": 5}, "secondary_tiers.tenants.a is 5; expected an object"),
        ({"": {}}, "secondary_tiers.tenants is {'': {}}; expected an object"),
        ({"a": {"ttl": 5}}, "secondary_tiers.tenants.a.ttl is 5; expected one of quota_bytes, ttl_seconds"),
        (
            {"a": {"ttl_seconds": 0}},
            "secondary_tiers.tenants.a.ttl_seconds is 0; expected a whole number, 1 or",
        ),
        ({"a": {"quota_bytes": "1Gi"}}, "secondary_tiers.tenants.a.quota_bytes is '1Gi'; expected a whole"),
        ({"a": {"quota_bytes": True}}, "secondary_tiers.tenants.a.quota_bytes is true; expected a whole"),
        (
            {"a": {"quota_bytes": -1}},
            "secondary_tiers.tenants.a.quota_bytes is -1; expected a whole number, 0 or",
        ),
    ],
    ids=["list", "number", "no name", "unknown", "no life", "text", "bool", "negative"],
)
def test_wrong_terms_are_named(tenants: Any, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_settings({"tenants": tenants}, ENVIRON)

    assert str(refused.value).startswith(message)


def test_hyperpods_tiered_storage_refuses_terms() -> None:
    config = {"url": "sagemaker-hyperpod://10.0.0.1:9200", "tenants": {"acme": {"quota_bytes": 10}}}

    with pytest.raises(ConfigError, match="its daemon removes no value when asked"):
        read_settings(config, {})
