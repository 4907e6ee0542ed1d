"""Whose identity at the provider is whose account here: rows of allauth, which exist where a provider is set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.conf import settings

from checkpoints.models.user_model import User
from wfdash.installation.provider import Provider
from wfdash.signin.claims import ProviderIdentity

IDENTITIES: str = "socialaccount.SocialAccount"
"""The model of allauth with the identities."""


@dataclass(frozen=True, kw_only=True)
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
