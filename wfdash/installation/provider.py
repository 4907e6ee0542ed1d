"""The OpenID Connect provider at which people sign in, as the ``WFDASH_OIDC_*`` variables describe it.

What is wrong with them is returned, not raised: a server without this way to sign in is better than none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from checkpoints.records import frozen
from wfdash.installation.environment import is_loopback

NEEDED = ("WFDASH_OIDC_ISSUER", "WFDASH_OIDC_CLIENT_ID", "WFDASH_OIDC_CLIENT_SECRET")
MODULES = ("allauth", "jwt", "requests", "cryptography")
MISSING_EXTRA = "it needs an extra: pip install 'wfdash[oidc]'"
SCOPES = "openid profile email"
LONGEST_ISSUER = 200
HOURS = 12.0
NEW_PEOPLE = frozenset({"known", "email", "create"})
SCOPE = re.compile(r"[!#-\[\]-~]+")


@frozen
class Provider:
    """An OpenID Connect provider, and what is believed of what it says.

    ``groups``: the provider's name of a group -> the groups here that its members are in. ``creates``: people without
    an account get one. ``by_email``: an account is connected to who has its verified address there. ``trusts_email``:
    addresses are verified also where the provider does not say so. ``second_factor``: wfdash asks for its own as well.
    ``agents``: its access tokens open the door for agents. ``hours``: how long a session lasts.
    """

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    name: str
    scopes: tuple[str, ...] = tuple(SCOPES.split())
    name_claim: str = "preferred_username"
    groups_claim: str = "groups"
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    creates: bool = False
    by_email: bool = False
    trusts_email: bool = False
    second_factor: bool = False
    agents: bool = False
    hours: float = HOURS


def read_provider(
    env: Mapping[str, str], *, find: Callable[[str], object] = find_spec
) -> tuple[Provider | None, tuple[str, ...]]:
    """Return the provider that the environment describes, None if there is none, and what is wrong with it.

    ``find`` returns None for a module that is not installed.
    """
    if not any(name.startswith("WFDASH_OIDC_") and value for name, value in env.items()):
        return None, ()
    given, problems = _Given(env), list[str]()
    if any(find(module) is None for module in MODULES):
        problems.append(MISSING_EXTRA)
    provider = given.provider()
    problems += given.problems
    return (None if problems else provider), tuple(problems)


class _Given:
    """Reads single variables, and collects what is wrong with them."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = env
        self.problems: list[str] = []

    def provider(self) -> Provider:
        issuer = self.issuer()
        people = self.people()
        return Provider(
            issuer=issuer,
            client_id=self.needed("WFDASH_OIDC_CLIENT_ID"),
            client_secret=self.secret(),
            name=self.text("WFDASH_OIDC_NAME") or urlsplit(issuer).hostname or issuer,
            scopes=self.scopes(),
            name_claim=self.text("WFDASH_OIDC_NAME_CLAIM", "preferred_username"),
            groups_claim=self.text("WFDASH_OIDC_GROUPS_CLAIM", "groups"),
            groups=self.groups(),
            creates="create" in people,
            by_email="email" in people,
            trusts_email=self.flag("WFDASH_OIDC_TRUST_EMAIL"),
            second_factor=self.flag("WFDASH_OIDC_SECOND_FACTOR"),
            agents=self.flag("WFDASH_OIDC_MCP"),
            hours=self.hours(),
        )

    def text(self, name: str, default: str = "") -> str:
        return self.env.get(name, "").strip() or default

    def needed(self, name: str) -> str:
        value = self.text(name)
        if not value:
            self.problems.append(f"{name} is missing")
        return value

    def secret(self) -> str:
        path = self.text("WFDASH_OIDC_CLIENT_SECRET_FILE")
        if not path:
            return self.needed("WFDASH_OIDC_CLIENT_SECRET")
        try:
            secret = Path(path).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no text"
            self.problems.append(f"WFDASH_OIDC_CLIENT_SECRET_FILE: {path} cannot be read: {reason}")
            return ""
        if not secret:
            self.problems.append(f"WFDASH_OIDC_CLIENT_SECRET_FILE: {path} is empty")
        return secret

    def issuer(self) -> str:
        text = self.needed("WFDASH_OIDC_ISSUER")
        if text and (problem := problem_of_issuer(text)):
            self.problems.append(f"WFDASH_OIDC_ISSUER {problem}")
        return text

    def scopes(self) -> tuple[str, ...]:
        found = tuple(dict.fromkeys(self.text("WFDASH_OIDC_SCOPES", SCOPES).split()))
        wrong = [scope for scope in found if not SCOPE.fullmatch(scope)]
        if wrong or "openid" not in found:
            self.problems.append("WFDASH_OIDC_SCOPES must list scopes with spaces between them, openid among them")
        return found

    def people(self) -> frozenset[str]:
        text = self.text("WFDASH_OIDC_PEOPLE", "known")
        found = frozenset(part.strip() for part in text.split(","))
        if not found <= NEW_PEOPLE or ("known" in found and len(found) > 1):
            self.problems.append(f"WFDASH_OIDC_PEOPLE must be known, email, create or email,create, not {text!r}")
        return found

    def flag(self, name: str) -> bool:
        value = self.text(name, "0")
        if value not in {"0", "1"}:
            self.problems.append(f"{name} must be 0 or 1, not {value!r}")
        return value == "1"

    def hours(self) -> float:
        text = self.text("WFDASH_OIDC_HOURS", str(HOURS))
        try:
            hours = float(text)
        except ValueError:
            hours = 0.0
        if not 0 < hours <= 24 * 90:
            self.problems.append(f"WFDASH_OIDC_HOURS must be hours, more than 0 and at most 2160, not {text!r}")
        return hours

    def groups(self) -> Mapping[str, tuple[str, ...]]:
        try:
            found = groups_in(json.loads(self.text("WFDASH_OIDC_GROUPS", "{}")))
        except ValueError:
            found = None
        if found is None:
            self.problems.append(
                'WFDASH_OIDC_GROUPS must be JSON like {"their group": "group here", "another": ["one", "two"]}'
            )
        return found or {}


def problem_of_issuer(text: str) -> str:
    """Return why this is no issuer, empty if it is one: an HTTPS address, on this machine also plain HTTP."""
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        return "is no address"
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        return "must begin with https://"
    if not host or parts.query or parts.fragment or parts.username is not None or not text.isascii():
        return "must be an address such as https://login.example.org/realms/staff, without user, query or fragment"
    return "" if len(text) <= LONGEST_ISSUER else f"must have at most {LONGEST_ISSUER} characters"


def groups_in(value: Any) -> Mapping[str, tuple[str, ...]] | None:
    """Return which groups here each group of the provider leads to; None if the value does not say so."""
    if not isinstance(value, dict):
        return None
    found = {theirs: (ours,) if isinstance(ours, str) else ours for theirs, ours in value.items()}
    for ours in found.values():
        if not isinstance(ours, list | tuple) or not all(isinstance(one, str) and one.strip() for one in ours):
            return None
    return {theirs: tuple(one.strip() for one in ours) for theirs, ours in found.items()}
