"""No page and no part of the API shows what a workflow calls a secret, wherever it has come to lie."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from django.test import Client
from pydantic import BaseModel, Field

from checkpoints.models import Event, Run
from tests.driving import drive, put
from tests.people import make_people, viewer
from wfdash.actions.runs.lifecycle import start_run
from wfdash.engines import catalog
from wfdash.engines.catalog import Catalog
from wfdash.values.schemas.secrets import HIDDEN
from wfdash.web.pages.ui.fragments import event_row
from wfdash.workflow import Context, Workflow

pytestmark = pytest.mark.django_db(transaction=True)


class Key(BaseModel):
    owner: str
    token: str = Field(json_schema_extra={"writeOnly": True})


class Vault(BaseModel):
    keys: list[Key] = []


def vault() -> Workflow:
    wf = Workflow("vault", state=Vault)

    @wf.step(start=True)
    async def fetch(owner: str, ctx: Context) -> Key:
        key = Key(owner=owner, token="hush-hush")
        ctx.state.keys = [key]
        ctx.emit("fetched", {"token": "hush-hush"})
        return key

    @wf.step(after=fetch)
    async def use(key: Key) -> list[Key]:
        return [key, key]

    return wf


@pytest.fixture
def run(transactional_db: Any, monkeypatch: pytest.MonkeyPatch) -> Run:
    found = Catalog()
    monkeypatch.setattr(catalog, "load", cache(lambda: found))
    put(found, vault())
    make_people()
    run = start_run(viewer("otto"), "vault", "kim")
    assert drive(run) == "completed"
    return run


PLACES = [
    "/runs/{run}/",
    "/runs/{run}/?step=fetch&activation=1",
    "/runs/{run}/events/",
    "/runs/{run}/events.jsonl",
    "/runs/{run}/state/",
    "/runs/{run}/state/?what=output",
    "/runs/{run}/state/?what=position",
    "/runs/{run}/at/6/",
    "/api/v1/runs/{run}",
    "/api/v1/runs/{run}/events",
]


@pytest.mark.parametrize("place", PLACES)
def test_a_secret_is_hidden_wherever_a_step_has_put_it(run: Run, place: str) -> None:
    client = Client()
    client.force_login(viewer("otto").user)
    answer = client.get(place.format(run=run.pk))
    assert answer.status_code == 200
    body = answer.getvalue().decode() if answer.streaming else answer.content.decode()
    assert "hush" not in body
    assert "kim" in body


def test_nor_is_it_in_what_comes_by_socket_nor_found_by_searching(run: Run) -> None:
    rows = [event_row(event, inspect=True) for event in Event.objects.filter(run=run)]
    assert not any("hush" in row for row in rows)
    assert any(HIDDEN in row for row in rows)
    client = Client()
    client.force_login(viewer("otto").user)
    assert "data-seq" not in client.get(f"/runs/{run.pk}/events/?q=hush-hush").content.decode()
    assert "data-seq" in client.get(f"/runs/{run.pk}/events/?q=kim").content.decode()
    run.refresh_from_db()
    assert run.output[0]["token"] == "hush-hush"
