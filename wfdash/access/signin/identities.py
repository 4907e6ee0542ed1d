"""Who someone is at the provider where they sign in, and whose account here that is.

What is taken of the claims that the provider makes; and the rows of allauth, which exist where a provider is set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.apps import apps
from django.conf import settings

from checkpoints.models.user_model import User
from checkpoints.records import frozen
from wfdash.installation.provider import Provider

IDENTITIES: str = "socialaccount.SocialAccount"
"""The model of allauth with the identities."""
LONGEST_SUBJECT = 191
"""Characters of a subject that can be stored."""
MOST_GROUPS = 5_000
"""How many of the provider's groups are looked at."""


@frozen
class ProviderIdentity:
    """A person at a provider. Issuer and subject alone say who it is; everything else may change or be another's.

    ``name``: what the provider calls them, empty if it does not say. ``email``: their address, as far as it is
    verified. ``groups``: the provider's names of the groups they are in; None if it says nothing about groups.
    """

    issuer: str
    subject: str
    name: str = ""
    email: str = ""
    first_name: str = ""
    last_name: str = ""
    groups: frozenset[str] | None = None


@frozen
class Arrival:
    """Someone who came back from the provider. ``target``: the page they wanted. ``connects``: the key of the account
    that is to be connected, empty for a sign-in.
    """

    identity: ProviderIdentity
    target: str
    connects: str = ""


def provider_in_use() -> Provider | None:
    """Return the provider at which people sign in, None where there is none."""
    provider: Provider | None = getattr(settings, "WFDASH_OIDC", None)
    return provider if provider is not None and apps.is_installed("allauth.socialaccount") else None


def identities() -> Any:
    """Return the manager of identities: ``provider`` is the issuer, ``uid`` the subject."""
    return apps.get_model(IDENTITIES).objects


def identity_row(user: User) -> Any:
    """Return a person's identity at the provider in use (one query); None if there is none."""
    provider = provider_in_use()
    return identities().filter(user=user, provider=provider.issuer).first() if provider else None


def identity_of(
    issuer: str, claims: Mapping[str, Any], *, name_claim: str, groups_claim: str, trusts_email: bool = False
) -> ProviderIdentity:
    """Return who these claims are about. ``ValueError`` for a subject that names no one.

    An address is verified if the provider says so; with ``trusts_email`` also where it does not say.
    """
    subject = claims.get("sub")
    if not isinstance(subject, str) or not subject.strip():
        raise ValueError("The provider names no subject")
    if len(subject) > LONGEST_SUBJECT or not subject.isprintable():
        raise ValueError(f"The provider's subject has more than {LONGEST_SUBJECT} characters, or invisible ones")
    email = _text(claims.get("email"), 254) if _is_verified(claims.get("email_verified"), trusts_email) else ""
    return ProviderIdentity(
        issuer=issuer,
        subject=subject,
        name=_text(claim(claims, name_claim), 150) or email,
        email=email,
        first_name=_text(claims.get("given_name"), 150),
        last_name=_text(claims.get("family_name"), 150),
        groups=_groups(claim(claims, groups_claim)),
    )


def claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its name, or by the path to it (``realm_access.roles``); None if there is none."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def groups_here(given: Iterable[str], groups: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """Return the groups here that the provider's groups lead to."""
    return frozenset(ours for theirs in given for ours in groups.get(theirs, ()))


def is_same_address(one: str, other: str) -> bool:
    """Return whether two mail addresses are the same but for the case of their letters.

    Others than ASCII ones are never: letters that look alike, or that some case folding makes alike, are not the same.
    """
    return one.isascii() and other.isascii() and one.casefold() == other.casefold()


def _is_verified(value: Any, trusts_email: bool) -> bool:
    # Some providers write booleans as text.
    return value is True or value == "true" or (value is None and trusts_email)


def _text(value: Any, longest: int) -> str:
    text = value.strip() if isinstance(value, str) else ""
    return text if len(text) <= longest and text.isprintable() else ""


def _groups(value: Any) -> frozenset[str] | None:
    if isinstance(value, str):
        return frozenset({value}) if value else frozenset()
    if not isinstance(value, list):
        return None
    return frozenset(one for one in value[:MOST_GROUPS] if isinstance(one, str))
