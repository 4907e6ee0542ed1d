"""What a person and a program see of the dashboard inside of the project: run by ``test_embedding`` in a process."""

# ruff: noqa: E402, models are there once Django is set up
from __future__ import annotations

import asyncio
import re
from io import StringIO
from typing import Any

import django

django.setup()

from channels.testing import WebsocketCommunicator
from django.core.management import call_command
from django.db import connections
from django.db.backends.signals import connection_created
from django.test import Client

from checkpoints.database.alias import alias
from checkpoints.database.storage import DatabaseStorage
from checkpoints.models import HumanRequest
from tests.embedding.asgi import application
from tests.embedding.shop.models import Person
from wfdash.worker.worker import Worker

PAGES = [
    *("", "runs/", "workflows/", "workflows/refund/", "people/", "people/ana@example.org/", "people/groups/"),
    *("people/access/", "audit/", "statistics/", "operations/", "settings/", "settings/tokens/", "schedules/"),
    *("notifications/", "decisions/", "out-of-office/", "getting-started/", "search/?q=refund"),
]
OUTSIDE = re.compile(r'(?:href|src|action|hx-get|hx-post|data-live|data-root)="(/(?!people/)[^"]*)"')


THEIRS = re.compile(r"BEGIN|COMMIT|SAVEPOINT|RELEASE|.*(shop_order|django_session)|PRAGMA", re.DOTALL)
"""What the project itself does in its default database."""
refused: list[str] = []


def watch(sender: object, connection: Any, **facts: Any) -> None:
    """Note what is done in the default database, where that is not wfdash's."""

    def refuse(execute: Any, sql: str, *rest: Any) -> Any:
        if not THEIRS.match(sql):
            refused.append(sql)
        return execute(sql, *rest)

    if connection.alias != alias():
        connection.execute_wrappers.append(refuse)


async def work(until: str) -> None:
    """Run workflows until the run has a request, or has ended."""
    storage = DatabaseStorage()
    worker = Worker(storage)
    serving = asyncio.create_task(worker.serve())
    async with asyncio.timeout(30):
        while not await HumanRequest.objects.filter(run__phase=until).aexists():
            await asyncio.sleep(0.05)
    worker.stop()
    await serving
    await storage.aclose()


async def refusal_of(path: str) -> int:
    """Return the code with which a socket without a session is closed."""
    connected, code = await WebsocketCommunicator(application, path).connect()
    assert not connected
    return int(code or 0)


def read(client: Client, path: str, status: int = 200) -> str:
    """Return a page of the dashboard."""
    answer = client.get(f"/people/{path}")
    assert answer.status_code == status, (path, answer.status_code)
    return answer.content.decode()


def tell() -> None:
    """Go through it."""
    for name in connections:
        call_command("migrate", database=name, verbosity=0)
    call_command("check", fail_level="WARNING", stdout=StringIO())
    connection_created.connect(watch)
    connections.close_all()
    Person.objects.create_user("ana@example.org", "of the shop", is_superuser=True)
    client = Client()
    stranger = client.get("/people/")
    assert stranger.headers["Location"] == "/login/?next=/people/"
    assert "Content-Security-Policy" in stranger.headers
    client.post("/login/", {"username": "ana@example.org", "password": "of the shop"})

    shop = client.get("/")
    assert "The shop" in shop.content.decode()
    assert "Content-Security-Policy" not in shop.headers
    assert client.get("/nothing/").content.decode() == "The shop has no such page"
    for path in PAGES:
        page = read(client, path)
        assert OUTSIDE.findall(page) == ["/"], path  # by the project's own base template
        assert "The shop" not in page
    files = re.findall(r'(?:href|src)="(/people/static/[^"]+)"', read(client, ""))
    assert len(files) > 4
    assert [name for name in files if client.get(name).status_code != 200] == []
    for path in ("sign-in/", "settings/account/", "settings/second-factor/", "people/invite/"):
        read(client, path, 404)

    started = client.post("/people/api/v1/runs", {"workflow": "refund", "message": 5}, content_type="application/json")
    asyncio.run(work("waiting"))
    asked = HumanRequest.objects.get()
    assert "Refund 5 EUR?" in read(client, f"requests/{asked.pk}/")
    told = client.post(
        f"/people/api/v1/requests/{asked.pk}/answer", {"value": {"action": "approve"}}, content_type="application/json"
    )
    assert told.json()["stands"] == "approved", told.content
    asyncio.run(work("completed"))
    assert "ana@example.org" in read(client, f"runs/{started.json()['id']}/events/")
    assert client.get("/people/api/v1/runs/x").json()["type"].startswith("http://testserver/people/api/v1/docs/")
    assert asyncio.run(refusal_of("/people/live/lists/")) not in (0, 4404)
    assert refused == []


tell()
print("told")
