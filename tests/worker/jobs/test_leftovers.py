from __future__ import annotations

import math
from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone

from checkpoints import ids
from checkpoints.models import Bulk, HumanRequest, IdempotencyKey, Notice, Run, SignInLink, UsedLink
from checkpoints.models.user_model import User
from wfdash.worker import sweeps
from wfdash.worker.sweeps import Leftovers

pytestmark = pytest.mark.django_db(transaction=True)


def ago(days: float):
    return timezone.now() - timedelta(days=days)


@pytest.fixture
def ana() -> User:
    return User.objects.create_user("ana")


def remove_all() -> list[float]:
    """Call it as the worker does and return for how long it waited after each batch."""
    job, pauses = Leftovers(), list[float]()
    while not pauses or pauses[-1] != math.inf:
        pauses.append(job.remove_next())
    return pauses


def test_what_is_over_goes_and_what_may_still_be_used_stays(ana):
    run = Run.objects.create(id="r", family="r", workflow="w", created=ago(1), updated=ago(1))
    request = HumanRequest.objects.create(id="q", run=run, key="q", workflow="w", step="s", kind="k", created=ago(1))
    for name, days in (("old", 1), ("new", -1)):
        Session.objects.create(session_key=name, session_data="", expire_date=ago(days))
    for name, days in (("old", 31), ("new", 29)):
        SignInLink.objects.create(secret_hash=name, user=ana, expires=ago(days), used=ago(days))
    for name, days in (("old", 9), ("new", 7)):
        UsedLink.objects.create(nonce=name, request=request, user=ana, at=ago(days))
        IdempotencyKey.objects.create(person="ana", key=name, verb="start", digest="", at=ago(days - 0.5))
    for name, finished in (("old", ago(91)), ("new", ago(89)), ("unfinished", None)):
        Bulk.objects.create(id=name, verb="tag", by=ana, at=ago(100), finished=finished)
    for name, days in (("old", 91), ("new", 89)):
        Notice.objects.create(
            id=name, kind="k", channel="mail", user=ana, created=ago(days), due=ago(days), sent=ago(1)
        )
    assert remove_all()[:-1] == [0.0] * (len(sweeps.LEFTOVER_KINDS) - 1)
    left = {"session_key": Session, "secret_hash": SignInLink, "nonce": UsedLink, "key": IdempotencyKey, "id": Notice}
    assert {column: list(model.objects.values_list(column, flat=True)) for column, model in left.items()} == {
        column: ["new"] for column in left
    }
    assert set(Bulk.objects.values_list("id", flat=True)) == {"new", "unfinished"}


def test_many_go_in_batches_with_pauses_and_one_kind_that_fails_holds_up_no_other(ana, monkeypatch, caplog):
    def fail(limit):
        raise OSError("no")

    monkeypatch.setattr(sweeps, "LEFTOVER_BATCH", 2)
    kinds = {"failing things": fail, "expired sign-in links": sweeps.LEFTOVER_KINDS["expired sign-in links"]}
    monkeypatch.setattr(sweeps, "LEFTOVER_KINDS", kinds)
    SignInLink.objects.bulk_create(SignInLink(secret_hash=ids.new_token(), user=ana, expires=ago(60)) for _ in range(5))
    assert remove_all() == [0.0, sweeps.LEFTOVER_REST, sweeps.LEFTOVER_REST, math.inf]
    assert not SignInLink.objects.exists()
    assert "Could not remove failing things; retrying in 10 minutes" in caplog.text


def test_the_sessions_of_a_project_that_signs_people_in_are_its_own(settings):
    settings.WFDASH_SIGN_IN = False
    Session.objects.create(session_key="old", session_data="", expire_date=ago(1))
    remove_all()
    assert Session.objects.exists()
