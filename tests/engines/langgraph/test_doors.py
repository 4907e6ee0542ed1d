"""The context of a graph is checked and kept by whichever door a run starts."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("langgraph")

from django.test import Client
from django.utils import timezone
from langgraph.runtime import Runtime

from checkpoints.models import Run, Schedule
from tests import people
from tests.actions.hooks.test_receive import SECRET
from tests.cli.conftest import here as here
from tests.cli.conftest import say as say
from tests.driving import drive
from tests.engines.langgraph.test_calls import Shop, State, shop
from tests.pages.conftest import as_ as as_
from tests.pages.conftest import everybody as everybody
from tests.pages.controls import post_of
from wfdash.actions.hooks.incoming import IncomingPlan, create_incoming
from wfdash.actions.schedules import fire_schedules
from wfdash.engines import catalog
from wfdash.engines.catalog import Catalog, Entry
from wfdash.engines.langgraph import LangGraphEngine
from wfdash.engines.serving import Served

pytestmark = pytest.mark.django_db(transaction=True)


def by_api(message: Any, client: Client, say: Any) -> str:
    sent = {"workflow": "shop", "message": message}
    return client.post("/api/v1/runs", sent, content_type="application/json").content.decode()


def by_form(message: Any, client: Client, say: Any) -> str:
    form = next(part for part in client.get("/workflows/shop/").content.decode().split("<form") if "region" in part)
    typed = {"n": "1"} | {f"context.{name}": str(value) for name, value in message["context"].items()}
    return client.post("/workflows/shop/", post_of(f"<form{form}", **typed)).content.decode()


def by_command(message: Any, client: Client, say: Any) -> str:
    return str(say("runs", "start", "shop", "--as", "otto", "--input", json.dumps(message)))


def by_schedule(message: Any, client: Client, say: Any) -> str:
    plan = {"workflow": "shop", "name": "x", "cron": "0 3 * * *", "zone": "UTC", "message": message}
    answer = client.post("/api/v1/schedules", plan, content_type="application/json")
    Schedule.objects.update(next_at=timezone.now())
    return f"{answer.content.decode()} {fire_schedules()} fired"


def by_hook(message: Any, client: Client, say: Any) -> str:
    plan = IncomingPlan(name="x", workflow="shop", mapping={"n": 1, "context": {"$": "/of"}}, scheme="token")
    hook = create_incoming(people.viewer("otto"), plan, secret=SECRET)[0]
    sent, headers = {"of": message["context"]}, {"X-Webhook-Token": SECRET}
    return Client().post(f"/hooks/{hook.pk}", sent, content_type="application/json", headers=headers).content.decode()


@pytest.mark.parametrize("start", [by_api, by_form, by_command, by_schedule, by_hook])
def test_a_context_is_checked_and_kept(start: Any, as_: Any, say: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def sells(state: State, runtime: Runtime[Shop]) -> State:
        return {"said": f"{runtime.context.region}, at most {runtime.context.limit}"}

    found, engine, served = Catalog(), LangGraphEngine(), Served(target=shop(node=sells), variable="shop")
    facts: dict[str, Any] = {"definition": served, "engine": engine, "description": engine.describe(served)}
    found.entries["shop"] = Entry(name="shop", source="test", **facts)
    monkeypatch.setattr(catalog, "load", lambda: found)
    wrong = {"n": 1, "context": {"region": "north", "limit": "many"}}
    assert "Must be a whole number" in start(wrong, as_("otto"), say)
    assert not Run.objects.exists()
    start({"n": 1, "context": {"region": "north", "limit": 3}}, as_("otto"), say)
    assert drive(Run.objects.get()) == "completed"
    assert Run.objects.get().output == {"n": 1, "said": "north, at most 3"}
