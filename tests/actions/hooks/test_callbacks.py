"""A program's callback for one run: signed, with what the program may read, and gone with the run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from checkpoints.events import EventKind
from checkpoints.models import Notice, Run, Webhook
from tests.actions.hooks.test_feed import feed, happen, sent
from tests.actions.hooks.test_receive import STANDARD, Person, entry_of, otto  # noqa: F401 (a fixture)
from tests.people import make_run
from wfdash.access.viewer import TokenScope, Viewer
from wfdash.actions.hooks.incoming import start_with_callback
from wfdash.domain.errors import Invalid, NotAllowed
from wfdash.notifications.preferences import listeners_of
from wfdash.queries.hooks import CallbackView, callback_of
from wfdash.records.runs import Callback

URL = "https://hooks.example.org/back"
MESSAGE = {"order": "o1", "total": 900, "from": "shop"}


def test_a_callback_hears_of_its_run_alone_until_that_has_ended(otto: Viewer) -> None:  # noqa: F811
    run = start_with_callback(otto, "orders", MESSAGE, Callback(url=URL, secret=STANDARD), key="k")
    again = start_with_callback(otto, "orders", MESSAGE, Callback(url=URL, secret=STANDARD), key="k")
    assert (again.pk, Webhook.objects.count()) == (run.pk, 1)
    Run.objects.filter(pk=run.pk).update(phase="completed", output={"paid": True})
    happen(make_run(workflow="orders"), EventKind.RUN_COMPLETED)
    run.refresh_from_db()
    happen(run, EventKind.RUN_COMPLETED)
    feed()
    assert not Webhook.objects.get().active
    (letter,) = sent()
    assert (letter.kind, letter.payload["run"], letter.payload["output"]) == ("completed", run.pk, {"paid": True})


@pytest.mark.parametrize("people", [0, 1])
def test_a_callback_hears_what_people_do_in_its_run_alone(otto: Viewer, people: int) -> None:  # noqa: F811
    run = start_with_callback(otto, "orders", MESSAGE, Callback(url=URL, secret=STANDARD))
    wanted = [otto.user.pk][:people]
    found = listeners_of(wanted, "orders", run.pk, webhooks=True)
    assert ([hook.pk for hook in found.webhooks], [*found.people]) == ([Webhook.objects.get().pk], wanted)
    assert listeners_of(wanted, "orders", make_run(workflow="orders").pk, webhooks=True).webhooks == []


def test_a_program_gets_no_value_by_a_callback_that_it_could_not_read(otto: Viewer) -> None:  # noqa: F811
    scope = TokenScope(rights=frozenset({"see", "start"}), workflows=frozenset({"orders"}))
    narrow = otto.with_token("ci", scope)
    with pytest.raises(NotAllowed):
        start_with_callback(narrow, "orders", MESSAGE, Callback(url=URL, secret=STANDARD))
    assert not Run.objects.exists()
    start_with_callback(narrow, "orders", MESSAGE, Callback(url=URL, secret=STANDARD, values=False))
    assert not Webhook.objects.get().values


def test_a_run_shows_what_became_of_its_callback_and_links_to_the_deliveries(otto: Viewer, client: Client) -> None:  # noqa: F811
    run = start_with_callback(otto, "orders", MESSAGE, Callback(url=URL, secret=STANDARD))
    hook, address = Webhook.objects.get(), f"/runs/{run.pk}/"
    client.force_login(otto.user)
    assert "nothing sent yet" in client.get(address).content.decode()
    now = timezone.now()
    facts = {"channel": "webhook", "target": hook.pk, "created": now, "due": now, "kind": "completed"}
    for n, became in enumerate([{"sent": now}, {"sent": now}, {"attempts": 1}, {"attempts": 10, "given_up": now}]):
        Notice.objects.create(id=f"n{n}", **facts, **became)
    found = callback_of(otto, run.pk, "orders")
    assert (found.id, found.counts) == (hook.pk, {"sent": 2, "retrying": 1, "given up": 1})
    page = client.get(address).content.decode()
    assert f"/settings/webhooks/{hook.pk}/" in page
    assert "given up" in page
    Webhook.objects.update(active=False)
    deliveries = client.get(f"/settings/webhooks/{hook.pk}/").content.decode()
    assert address in deliveries
    assert "Send again" in deliveries
    assert 'value="wake"' not in deliveries


def test_only_who_operates_or_manages_a_callback_sees_that_it_is_there(otto: Viewer, person: Person) -> None:  # noqa: F811
    run = start_with_callback(otto, "orders", MESSAGE, Callback(url=URL, secret=STANDARD))
    assert callback_of(person("vera", "viewer"), run.pk, "orders") is None
    assert callback_of(person("olga", "operator"), run.pk, "orders") == CallbackView(id="", counts={})
    assert callback_of(person("adam", "admin"), run.pk, "orders").id == Webhook.objects.get().pk
    assert callback_of(otto, make_run(workflow="orders").pk, "orders") is None


@pytest.mark.parametrize(
    ("facts", "field"),
    [({"url": "http://10.0.0.1/"}, "url"), ({"secret": "short"}, "secret"), ({"events": ["run.danced"]}, "events")],
)
def test_a_callback_that_cannot_work_starts_nothing(otto: Viewer, facts: Any, field: str) -> None:  # noqa: F811
    with pytest.raises(Invalid) as refused:
        start_with_callback(otto, "orders", MESSAGE, Callback(**{"url": URL, "secret": STANDARD, **facts}))
    assert refused.value.errors[0]["loc"] == ["callback", field]
    assert not Run.objects.exists()


def test_the_api_takes_a_callback(otto: Viewer, client: Client) -> None:  # noqa: F811
    client.force_login(otto.user)
    body = {
        "workflow": "orders",
        "message": MESSAGE,
        "callback": {"url": URL, "secret": STANDARD, "events": ["run.failed"]},
    }
    answer = client.post("/api/v1/runs", json.dumps(body), content_type="application/json")
    assert answer.status_code == 201
    hook = Webhook.objects.get()
    assert (hook.run_id, hook.kinds, hook.owner) == (answer.json()["id"], ["failed"], otto.user)
    body["callback"]["url"] = "ftp://x"
    assert client.post("/api/v1/runs", json.dumps(body), content_type="application/json").status_code == 422
