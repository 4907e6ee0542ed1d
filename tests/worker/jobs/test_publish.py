"""Workers describe their workflows, and a server that has loaded none of their code serves them by that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from django.test import Client
from pydantic import BaseModel, SecretStr

from checkpoints.models import PublishedWorkflow, Run
from tests.people import make_people, make_run, save, viewer
from tests.worker.graphs import expense
from wfdash.access.viewer import Viewer
from wfdash.actions.runs.lifecycle import start_run
from wfdash.actions.runs.migrate import migrate_run, override_run
from wfdash.contract import Description
from wfdash.domain.errors import CodeElsewhere, Invalid, status_for
from wfdash.engines import catalog
from wfdash.engines.catalog import Catalog, Entry
from wfdash.engines.native import NativeEngine
from wfdash.engines.published import UNSERVED
from wfdash.queries.runs.listing import read_run
from wfdash.queries.unreadable import masked_for
from wfdash.queries.workflows import PublishedReader
from wfdash.worker import consultations as jobs_publish
from wfdash.worker.consultations import publish
from wfdash.worker.serving import Serving, start_heartbeat
from wfdash.workflow import Workflow

pytestmark = pytest.mark.django_db


class Order(BaseModel):
    amount: int
    pin: SecretStr = SecretStr("")


def entry_of(workflow: Workflow) -> Entry:
    engine = NativeEngine()
    described = engine.describe(workflow)
    return Entry(name=workflow.name, definition=workflow, engine=engine, description=described, source="test")


def refund(title: str = "Refund") -> Entry:
    workflow = Workflow("refund", title=title, doc="Pays **back**.", queue="slow", limit=2)

    @workflow.step(start=True)
    async def pay(order: Order) -> str:
        return f"paid {order.amount}"

    return entry_of(workflow)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Catalog]:
    """A server that has loaded nothing; called, it reads what is published."""
    found, reader = Catalog(), PublishedReader()
    monkeypatch.setattr(catalog, "load", lambda: found)

    def read() -> Catalog:
        reader.read()
        return found

    return read


@pytest.fixture
def otto(server: Callable[[], Catalog]) -> Viewer:
    make_people()
    return viewer("otto")


def test_a_server_without_the_code_describes_and_starts_what_a_worker_has_published(server, otto) -> None:
    loaded = refund()
    publish([loaded], begins=True)
    server()
    known = catalog.get("refund")
    assert (known.description, known.secrets) == (loaded.description, loaded.secrets)
    assert "pin" in known.secrets
    page = Client()
    page.force_login(otto.user)
    shown = page.get("/workflows/refund/").content.decode()
    assert "Start a run" in shown
    assert "This server has not loaded the code" in shown
    with pytest.raises(Invalid) as refusal:
        start_run(otto, "refund", {"amount": "much"})
    assert {*refusal.value.by_field} == {"amount"}
    run = start_run(otto, "refund", {"amount": 7})
    assert page.get(f"/runs/{run.pk}/").status_code == 200
    assert read_run(otto, run.pk).pending == "unserved"


@pytest.mark.django_db(transaction=True)
def test_what_needs_the_code_of_a_worker_is_refused_without_one(server, otto) -> None:
    publish([entry_of(expense())], begins=True)
    server()
    held = make_run(workflow="expense", version="old", phase="paused", acted_by="")
    save(held)
    for act in (migrate_run, override_run):
        with pytest.raises(CodeElsewhere, match="no running worker has loaded this version") as refusal:
            act(otto, held.pk)
        assert status_for(refusal.value) == 503
    assert Run.objects.get(pk=held.pk).phase == "paused"


def test_what_a_server_has_loaded_itself_comes_before_what_is_published(server) -> None:
    own = refund("Own")
    server().entries["refund"] = own
    publish([refund("Published"), entry_of(expense())], begins=True)
    assert server().entries["refund"] is own
    assert server().entries["expense"].published


def test_a_description_is_written_when_it_changes_by_a_worker_that_begins_or_replaces_one_that_has_gone() -> None:
    first, second = refund("First"), refund("Second")
    publish([first], begins=True)
    start_heartbeat("one", {"refund": first.description.version})

    def title() -> str:
        return str(PublishedWorkflow.objects.get().document["description"]["title"])

    publish([second], begins=False)
    assert title() == "First"
    publish([second], begins=True)
    assert title() == "Second"
    start_heartbeat("one", {})
    publish([first], begins=False)
    assert title() == "First"


def test_what_could_not_be_published_is_published_soon_as_by_a_worker_that_begins(monkeypatch, caplog) -> None:
    stopping, tried = asyncio.Event(), list[bool]()

    def fail_at_first(entries: object, *, begins: bool) -> None:
        tried.append(begins)
        if len(tried) < 3:
            raise ConnectionError("the database is away")
        if len(tried) == 4:
            stopping.set()

    monkeypatch.setattr(jobs_publish, "publish", fail_at_first)
    monkeypatch.setattr(jobs_publish, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(jobs_publish, "PUBLISH_SECONDS", 0.02)
    asyncio.run(asyncio.wait_for(jobs_publish.publish_until(stopping, Serving("one")), 30))
    assert tried == [True, True, True, False]
    assert [record.getMessage().partition(";")[0] for record in caplog.records] == [
        "Could not publish the workflows of this worker"
    ]


def age(name: str) -> None:
    row = PublishedWorkflow.objects.get(pk=name)
    PublishedWorkflow.objects.filter(pk=name).update(seen=row.seen - UNSERVED - timedelta(seconds=1))


def test_a_workflow_that_no_worker_had_for_a_day_is_served_no_more_and_goes(server) -> None:
    publish([refund(), entry_of(expense())], begins=True)
    assert {*server().entries} == {"refund", "expense"}
    age("expense")
    assert {*server().entries} == {"refund"}
    publish([refund()], begins=False)
    assert PublishedWorkflow.objects.get().workflow == "refund"


def test_secrets_of_a_workflow_that_no_worker_has_any_more_stay_masked_as_long_as_it_has_runs(server, otto) -> None:
    publish([refund()], begins=True)
    server()
    run = start_run(otto, "refund", {"amount": 7, "pin": "1234"})
    age("refund")
    publish([entry_of(expense())], begins=True)
    assert {*server().entries} == {"expense"}
    assert masked_for("refund", {"pin": "1234"}) != {"pin": "1234"}
    page = Client()
    page.force_login(otto.user)
    assert "1234" not in page.get(f"/runs/{run.pk}/").content.decode()


def test_secrets_of_a_workflow_that_is_too_large_to_be_published_are_masked(server) -> None:
    large = refund()
    publish([replace(large, description=large.description.model_copy(update={"doc": "x" * 300_000}))], begins=True)
    assert not server().entries
    assert catalog.secrets_of("refund") == catalog.all_secrets() == large.secrets


def test_a_worker_does_not_let_programs_ask_people_where_the_setting_of_a_server_forbids_it(server) -> None:
    publish([replace(refund(), source=catalog.ASKING[0])], begins=True)
    assert not server().entries


def test_new_code_of_a_server_leaves_what_workers_have_published(server, monkeypatch: pytest.MonkeyPatch) -> None:
    publish([refund()], begins=True)
    server()
    monkeypatch.setattr(catalog, "read", Catalog)
    catalog.reload()
    assert catalog.get("refund").published


@pytest.mark.parametrize("document", [{}, {"description": []}, "text", 7])
def test_a_row_that_no_worker_wrote_is_left_out(server, document, caplog) -> None:
    publish([refund(), entry_of(expense())], begins=True)
    PublishedWorkflow.objects.filter(pk="refund").update(document=document, hash="other")
    assert {*server().entries} == {"expense"}
    assert "refund is left out" in caplog.text
    PublishedWorkflow.objects.filter(pk="refund").update(
        document=PublishedWorkflow.objects.get(pk="expense").document, hash="its neighbour's"
    )
    assert {*server().entries} == {"expense"}


def nested(levels: int) -> dict[str, object]:
    schema: dict[str, object] = {}
    for _ in range(levels):
        schema = {"properties": {"x": schema}}
    return schema


def test_a_description_that_is_too_large_or_too_deep_is_not_published(caplog) -> None:
    small = refund()
    deep, deeper = nested(60), nested(400)
    for changed in ({"doc": "x" * 300_000}, {"input_schema": deep}, {"input_schema": deeper}):
        described = Description.model_construct(**{**dict(small.description), **changed})
        publish([replace(small, description=described)], begins=True)
    assert PublishedWorkflow.objects.get().document["description"] is None
    assert caplog.text.count("refund is not published") == 3
