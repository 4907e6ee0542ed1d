from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from typing import Any

import pyotp
import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from checkpoints.models import AuditEntry, RecoveryCode, SecondFactor
from wfdash.access.signin import second_factor
from wfdash.access.signin.attempt_limits import CODE
from wfdash.domain.errors import Invalid, TooManyTries, WrongState

NOW = 1_800_000_015.0


class Clock:
    """The time that codes are made for."""

    now = NOW

    def time(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(second_factor, "time", made)
    return made


@pytest.fixture
def ana(db: None) -> User:
    return User.objects.create_user("ana", password="ana-password")


@pytest.fixture
def code(ana: User, clock: Clock) -> Callable[..., str]:
    """Turn the second factor on, some time ago, and give what the app shows."""
    setup = second_factor.begin(ana)
    totp = pyotp.TOTP(second_factor.pending_secret(ana, setup))
    clock.now = NOW - 3600
    second_factor.confirm(ana, totp.at(int(clock.now)), setup)
    clock.now = NOW
    return lambda later=0: totp.at(int(NOW + later))


def test_it_is_on_only_after_a_first_code(ana: User) -> None:
    setup = second_factor.begin(ana)
    with pytest.raises(Invalid):
        second_factor.confirm(ana, "000000", setup)
    assert not second_factor.is_on(ana)
    codes = second_factor.confirm(ana, pyotp.TOTP(second_factor.pending_secret(ana, setup)).at(int(NOW)), setup)
    assert second_factor.is_on(ana)
    assert len(set(codes)) == second_factor.codes_left(ana) == 10


def test_a_code_works_once_and_an_older_one_not_after_it(ana: User, code: Callable[..., str]) -> None:
    second_factor.check(ana, f" {code()[:3]} {code()[3:]} ")
    for late in (code(), code(-30)):
        with pytest.raises(Invalid):
            second_factor.check(ana, late)


def test_the_code_that_turned_it_on_does_not_sign_in(ana: User) -> None:
    setup = second_factor.begin(ana)
    first = pyotp.TOTP(second_factor.pending_secret(ana, setup)).at(int(NOW))
    second_factor.confirm(ana, first, setup)
    with pytest.raises(Invalid):
        second_factor.check(ana, first)


@pytest.mark.parametrize(("later", "right"), [(-60, False), (-30, True), (30, True), (60, False)])
def test_clocks_may_differ_by_one_step(later: int, right: bool, ana: User, code: Callable[..., str]) -> None:
    if right:
        second_factor.check(ana, code(later))
    else:
        with pytest.raises(Invalid):
            second_factor.check(ana, code(later))


def test_guessing_codes_is_limited_and_the_right_one_then_refused(ana: User, code: Callable[..., str]) -> None:
    for _ in range(CODE):
        with pytest.raises(Invalid):
            second_factor.check(ana, "000000")
    with pytest.raises(TooManyTries):
        second_factor.check(ana, code())


def test_a_recovery_code_works_once_however_it_is_written(ana: User, code: Callable[..., str]) -> None:
    (one, two, *_) = second_factor.renew_codes(ana, code())
    second_factor.check(ana, one.upper().replace("-", " "))
    with pytest.raises(Invalid):
        second_factor.check(ana, one)
    second_factor.check(ana, two)
    assert second_factor.codes_left(ana) == 8


def test_new_recovery_codes_end_the_old_ones(ana: User, code: Callable[..., str]) -> None:
    old = second_factor.renew_codes(ana, code())
    new = second_factor.renew_codes(ana, code(30))
    with pytest.raises(Invalid):
        second_factor.check(ana, old[0])
    second_factor.check(ana, new[0])


@pytest.mark.django_db(transaction=True)
def test_of_two_at_once_with_the_same_code_one_gets_in(ana: User, code: Callable[..., str]) -> None:
    def try_it(_: int) -> bool:
        try:
            second_factor.check(ana, code())
        except Invalid:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(try_it, range(2))) == [False, True]


def test_codes_are_kept_as_hashes_alone(ana: User, code: Callable[..., str]) -> None:
    codes = second_factor.renew_codes(ana, code())
    stored = str(list(RecoveryCode.objects.values()))
    assert not any(code in stored or code.replace("-", "") in stored for code in codes)


def test_the_secret_is_sealed_where_there_are_keys(ana: User, settings: Any) -> None:
    settings.WFDASH_ENCRYPTION_KEYS = "a-long-enough-secret-for-this-test"
    secret = second_factor.pending_secret(ana, second_factor.begin(ana))
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT secret FROM {SecondFactor._meta.db_table}")
        assert secret not in str(cursor.fetchall())
    assert len(secret) == 32


def test_a_second_one_cannot_replace_the_one_in_use(ana: User, code: Callable[..., str]) -> None:
    with pytest.raises(WrongState):
        second_factor.begin(ana)


def test_where_everybody_needs_one_it_cannot_be_turned_off(ana: User, code: Callable[..., str], settings: Any) -> None:
    settings.WFDASH_REQUIRE_SECOND_FACTOR = True
    with pytest.raises(WrongState):
        second_factor.turn_off(ana, code())
    assert second_factor.is_on(ana)


def test_anyone_who_runs_the_server_can_reset_it(ana: User, code: Callable[..., str]) -> None:
    call_command("reset_second_factor", "ana", stdout=StringIO())
    assert not second_factor.is_on(ana)
    assert AuditEntry.objects.filter(verb="second factor: remove").exists()
    for name, words in (("ana", "no second factor"), ("nobody", "No user named")):
        with pytest.raises(CommandError, match=words):
            call_command("reset_second_factor", name)


def test_an_administrator_can_reset_it_and_sees_no_secret(ana: User, code: Callable[..., str]) -> None:
    boss = Client()
    boss.force_login(User.objects.create_superuser("boss"))
    address = f"/admin/checkpoints/secondfactor/{ana.pk}/"
    assert SecondFactor.objects.get(user=ana).secret not in boss.get(f"{address}change/").content.decode()
    assert boss.post(f"{address}delete/", {"post": "yes"}).status_code == 302
    assert not second_factor.is_on(ana)
    assert AuditEntry.objects.filter(verb="second factor: remove", actor="boss").exists()
