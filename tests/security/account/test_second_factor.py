"""Getting past a second factor, or into its set-up, with a password alone."""

from __future__ import annotations

from typing import Any

import pyotp
import pytest
from django.contrib.auth.models import User
from django.test import Client

from checkpoints.models import AuditEntry, SecondFactor

PASSWORD = {"username": "ana", "password": "ana-password"}
SETTINGS = "/settings/second-factor/"


def secret_of(user: User) -> str:
    return SecondFactor.objects.get(user=user).secret


def shows(client: Client, address: str, secret: str) -> bool:
    groups = " ".join(secret[start : start + 4] for start in range(0, len(secret), 4))
    return groups in client.get(address).content.decode()


@pytest.mark.parametrize("required", [True, False])
def test_no_one_confirms_a_secret_that_another_session_has_seen(
    required: bool, as_: Any, everybody: dict[str, User], settings: Any
) -> None:
    ana, thief, owner = everybody["ana"], Client(), Client()
    settings.WFDASH_REQUIRE_SECOND_FACTOR = required
    address = "/sign-in/code/" if required else SETTINGS
    for client in (thief, owner):
        client.post("/sign-in/", PASSWORD)
    if not required:
        thief.post(SETTINGS, {"act": "begin"})
    assert thief.get(address).status_code == 200
    seen = secret_of(ana)
    assert not shows(owner, address, seen)
    if not required:
        owner.post(SETTINGS, {"act": "begin"})
    assert shows(owner, address, secret_of(ana))
    assert secret_of(ana) != seen
    thief.post(address, {"act": "confirm", "code": pyotp.TOTP(secret_of(ana)).now()})
    assert SecondFactor.objects.get(user=ana).confirmed is None


def test_who_may_read_a_workflow_reads_nothing_of_others_second_factors(as_: Any, everybody: dict[str, User]) -> None:
    client = as_("ana")
    client.post(SETTINGS, {"act": "begin"})
    client.post(SETTINGS, {"act": "confirm", "code": pyotp.TOTP(secret_of(everybody["ana"])).now()})
    entry = AuditEntry.objects.get(verb="second factor: turn on")
    assert as_("ana").get(f"/audit/{entry.n}/").status_code == 200
    assert as_("adam").get(f"/audit/{entry.n}/").status_code == 200
    assert as_("vera").get(f"/audit/{entry.n}/").status_code == 404
