from __future__ import annotations

from typing import Any

import pytest

from wfdash.access.signin.identities import LONGEST_SUBJECT, ProviderIdentity, claim, groups_here, identity_of

ISSUER = "https://login.example.org"


def found(*, trusts_email: bool = False, **claims: Any) -> ProviderIdentity:
    names = {"name_claim": "preferred_username", "groups_claim": "realm.roles"}
    return identity_of(ISSUER, {"sub": "s-1"} | claims, **names, trusts_email=trusts_email)


def test_issuer_and_subject_say_who_it_is_and_the_rest_is_taken_as_far_as_it_goes() -> None:
    whole = found(preferred_username="mia", email="m@x.org", email_verified=True, given_name="Mia", family_name="Li")
    assert whole == ProviderIdentity(
        issuer=ISSUER, subject="s-1", name="mia", email="m@x.org", first_name="Mia", last_name="Li", groups=None
    )
    assert found() == ProviderIdentity(issuer=ISSUER, subject="s-1")


@pytest.mark.parametrize("subject", [None, "", "  ", 7, "x" * (LONGEST_SUBJECT + 1), "a\x00b", "a\u202eb", ["a"]])
def test_a_subject_that_names_no_one_is_refused(subject: Any) -> None:
    with pytest.raises(ValueError, match="subject"):
        found(sub=subject)


@pytest.mark.parametrize(
    ("verified", "trusts", "taken"),
    [
        (True, False, True),
        ("true", False, True),
        (False, True, False),
        ("false", True, False),
        (None, False, False),
        (None, True, True),
        (1, False, False),
        ("yes", True, False),
    ],
)
def test_an_address_is_taken_only_if_it_is_verified(verified: Any, trusts: bool, taken: bool) -> None:
    claims = {"email": "m@x.org"} | ({} if verified is None else {"email_verified": verified})
    assert found(trusts_email=trusts, **claims).email == ("m@x.org" if taken else "")


def test_a_verified_address_is_the_name_where_there_is_no_other() -> None:
    assert found(email="m@x.org", email_verified=True).name == "m@x.org"
    assert found(email="m@x.org").name == ""


@pytest.mark.parametrize(
    ("roles", "groups"),
    [(["a", "b", 3], {"a", "b"}), ("a", {"a"}), ("", set()), ([], set()), ({"a": 1}, None), (None, None)],
)
def test_groups_are_a_list_or_one_name(roles: Any, groups: set[str] | None) -> None:
    assert found(realm={"roles": roles}).groups == groups


def test_a_claim_is_found_by_its_name_before_its_path() -> None:
    assert claim({"a.b": 1, "a": {"b": 2}}, "a.b") == 1
    assert claim({"a": {"b": 2}}, "a.b") == 2
    assert claim({"a": 1}, "a.b") is None


def test_groups_lead_to_those_that_are_named_for_them() -> None:
    assert groups_here(["x", "y", "z"], {"x": ("one", "two"), "y": ("two",)}) == {"one", "two"}
