"""Items of a map are called by their first values, for those who may read them, and are found by that."""

from __future__ import annotations

import asyncio

import pytest
from django.db import connection
from pydantic import BaseModel, SecretStr

from checkpoints.database.storage import DatabaseStorage
from checkpoints.ids import CheckpointId, RunId
from checkpoints.models import HumanRequest
from checkpoints.records import Checkpoint
from tests import people
from tests.driving import drive, put
from wfdash.actions.checkpoints import restore_run
from wfdash.actions.runs.lifecycle import start_run
from wfdash.engines import catalog
from wfdash.engines.catalog import Catalog
from wfdash.queries.history import read_checkpoints
from wfdash.queries.runs.logs import EventFilter, all_events
from wfdash.queries.runs.steps import read_activation, read_activations
from wfdash.workflow import Approval, Context, Workflow, each

pytestmark = pytest.mark.django_db(transaction=True)
MANY = 12


class Price(BaseModel):
    token: SecretStr
    sku: str
    amount: float


@pytest.fixture
def run(monkeypatch, everybody) -> str:
    return waiting(monkeypatch)


def waiting(monkeypatch, label: str = "") -> str:
    found, workflow = Catalog(), Workflow("prices")
    monkeypatch.setattr(catalog, "load", lambda: found)

    @workflow.step(start=True)
    def read(count: int) -> list[Price]:
        return [Price(token=SecretStr("hush"), sku=f"SKU-{n:02}", amount=n) for n in range(count)]

    @workflow.step(after=each(read, label=label))
    async def confirm(price: Price, ctx: Context) -> SecretStr:
        await ctx.ask(Approval(subject=f"Price {price.sku}?"))
        return SecretStr("hush")

    put(found, workflow)
    started = start_run(people.viewer("otto"), "prices", MANY)
    assert drive(started) == "waiting"
    return started.pk


def rows(name: str, run: str, **filters: str) -> list[str]:
    return [row.name for row in read_activations(people.viewer(name), run, ["confirm"], **filters).rows]


def test_an_item_is_called_by_its_values_for_those_who_may_read_them(run):
    assert rows("otto", run)[:2] == ["SKU-00, 0.0", "SKU-01, 1.0"]
    assert rows("ben", run)[:2] == ["Item 0", "Item 1"]
    one = read_activations(people.viewer("otto"), run, ["confirm"]).rows[3]
    for name, label in (("otto", "SKU-03, 3.0"), ("ben", "")):
        detail = read_activation(people.viewer(name), run, one.id)
        assert detail is not None
        assert (detail.activation.item, detail.activation.label) == (3, label)


def test_an_item_is_found_by_its_label_or_index(run):
    assert rows("otto", run, find="sku-07") == ["SKU-07, 7.0"]
    assert rows("otto", run, find="11") == ["SKU-11, 11.0"]
    assert rows("otto", run, find="hush") == []
    assert rows("ben", run, find="sku-07") == []
    assert rows("ben", run, find="7") == ["Item 7"]


def test_the_requests_of_a_map_come_in_the_order_of_its_items(run):
    asked = HumanRequest.objects.order_by("created", "id").values_list("subject", flat=True)
    assert list(asked) == [f"Price SKU-{n:02}?" for n in range(MANY)]


def test_an_event_says_the_label_only_to_those_who_may_read_it(run):
    for name, shown in (("otto", True), ("ben", False)):
        events = list(all_events(people.viewer(name), run, EventFilter()))
        labels = [event.data.get("label") for event in events if event.kind == "step.started" and "item" in event.data]
        assert (labels[:1] == ["SKU-00, 0.0"]) is shown
        assert any(labels) is shown


def test_a_label_of_the_author_is_read_by_inspectors_only_and_kept_by_a_restore(monkeypatch, everybody):
    run = waiting(monkeypatch, "{sku} for {amount:,.2f}")
    for name, label in (("otto", "SKU-03 for 3.00"), ("ben", "Item 3")):
        assert rows(name, run)[3] == label
    assert rows("otto", run, find="sku-07 for") == ["SKU-07 for 7.00"]
    assert rows("ben", run, find="sku-07") == []
    otto = people.viewer("otto")
    head = read_checkpoints(otto, run, limit=1).rows[0].info
    new = restore_run(otto, run, head.id)
    assert list(held(run, new.pk).body["position"]["labels"].values())[3] == "SKU-03 for 3.00"
    assert drive(run) == "waiting"
    assert rows("otto", run)[3] == "SKU-03 for 3.00"


def test_labels_are_encrypted_with_the_content(monkeypatch, everybody, settings):
    settings.WFDASH_ENCRYPTION_KEYS = "a-secret-that-is-long-enough-to-be-one"
    assert rows("otto", waiting(monkeypatch, "Tag of {sku}"))[3] == "Tag of SKU-03"
    for table in connection.introspection.table_names():
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            assert "Tag of" not in str(cursor.fetchall()), table


def held(run: str, checkpoint: str) -> Checkpoint:
    found = asyncio.run(DatabaseStorage().load(RunId(run), CheckpointId(checkpoint)))
    assert found is not None
    return found
