from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client

from checkpoints import models
from checkpoints.ids import new_run_id

pytestmark = pytest.mark.django_db

KEPT = [models.Run, models.Checkpoint, models.HumanRequest, models.Event, models.Effect, models.Claim]


@pytest.fixture
def boss(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("boss"))
    return client


@pytest.mark.parametrize("model", KEPT, ids=lambda model: model.__name__)
def test_rows_can_be_looked_at_but_not_changed(boss: Client, model: type) -> None:
    name = model.__name__.lower()
    assert boss.get(f"/admin/checkpoints/{name}/").status_code == 200
    assert boss.get(f"/admin/checkpoints/{name}/?q=x").status_code == 200
    assert boss.get(f"/admin/checkpoints/{name}/add/").status_code == 403


def test_a_run_is_shown_and_cannot_be_saved(boss: Client) -> None:
    now, run = datetime.now(UTC), new_run_id()
    models.Run.objects.create(id=run, workflow="expense", family=run, created=now, updated=now)
    assert boss.get(f"/admin/checkpoints/run/{run}/change/").status_code == 200
    assert boss.post(f"/admin/checkpoints/run/{run}/change/", {"phase": "failed"}).status_code == 403
    assert boss.post(f"/admin/checkpoints/run/{run}/delete/", {"post": "yes"}).status_code == 403


def test_grants_are_given_here(boss: Client) -> None:
    assert admin.site.is_registered(models.Grant)
    assert boss.get("/admin/checkpoints/grant/add/").status_code == 200
