"""A database from before there were passkeys: its people keep their second factors, and can add a passkey."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256

import pyotp
import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from checkpoints.models import RecoveryCode, SecondFactor
from tests.signin.authenticator import PASSKEY, add_passkey, to_sign
from wfdash.access.signin import second_factor

SECRET, CODES = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP", ("abcdefghijklmnop", "ponmlkjihgfedcba")
PASSWORD = {"username": "ana", "password": "correct horse battery"}


def tables() -> set[str]:
    return {name for name in connection.introspection.table_names() if name.startswith(("mfa_", "account_"))}


def as_it_was() -> User:
    """Make the database as it was: without the tables of allauth, and with someone who has a second factor."""
    for app in ("mfa", "account"):
        call_command("migrate", app, "zero", verbosity=0)
    assert tables() == set()
    now, ana = timezone.now(), User.objects.create_user(**PASSWORD)
    SecondFactor.objects.create(user=ana, secret=SECRET, created=now, confirmed=now)
    for code in CODES:
        RecoveryCode.objects.create(user=ana, code_hash=sha256(code.encode()).hexdigest())
    return ana


def signs_in(**given: str) -> Client | None:
    client = Client()
    assert client.post("/sign-in/", PASSWORD).url == "/sign-in/code/"
    return client if client.post("/sign-in/code/", given).status_code == 302 else None


def goes_on() -> None:
    ana = as_it_was()
    try:
        call_command("migrate", verbosity=0)
        assert "mfa_authenticator" in tables()
        assert signs_in(code="000000") is None
        assert signs_in(code=pyotp.TOTP(SECRET).now()) is not None
        home = signs_in(code=CODES[0])
        assert home is not None
        assert signs_in(code=CODES[0]) is None, "it was used"
        assert second_factor.codes_left(ana) == 1
        phone, client = add_passkey(home, current=PASSWORD["password"], code=CODES[1]), Client()
        assert client.post(PASSKEY, {"passkey": phone.sign(to_sign(client))}).status_code == 302
    finally:
        call_command("migrate", verbosity=0)
        ana.delete()


@pytest.mark.process
def test_people_of_a_database_without_passkeys_keep_their_second_factors(in_database: ThreadPoolExecutor) -> None:
    in_database.submit(goes_on).result()
