"""Items of a map are called by their first values, for those who may read them, and are found by that."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, SecretStr

from checkpoints.models import HumanRequest
from tests import people
from tests.driving import drive, put
from wfdash import actions, catalog, queries
from wfdash.catalog import Catalog
from wfdash.workflow import Approval, Context, Workflow, each

pytestmark = pytest.mark.django_db(transaction=True)
MANY = 12


class Price(BaseModel):
    token: SecretStr
    sku: str
    amount: float


@pytest.fixture
def run(monkeypatch, everybody) -> str:
    found, workflow = Catalog(), Workflow("prices")
    monkeypatch.setattr(catalog, "load", lambda: found)

    @workflow.step(start=True)
    def read(count: int) -> list[Price]:
        return [Price(token=SecretStr("hush"), sku=f"SKU-{n:02}", amount=n) for n in range(count)]

    @workflow.step(after=each(read))
    async def confirm(price: Price, ctx: Context) -> SecretStr:
        await ctx.ask(Approval(subject=f"Price {price.sku}?"))
        return SecretStr("hush")

    put(found, workflow)
    started = actions.start_run(people.viewer("otto"), "prices", MANY)
    assert drive(started) == "waiting"
    return started.pk


def rows(name: str, run: str, **filters: str) -> list[str]:
    return [row.name for row in queries.activations(people.viewer(name), run, ["confirm"], **filters).rows]


def test_an_item_is_called_by_its_values_for_those_who_may_read_them(run):
    assert rows("otto", run)[:2] == ["SKU-00, 0.0", "SKU-01, 1.0"]
    assert rows("ben", run)[:2] == ["Item 0", "Item 1"]
    one = queries.activations(people.viewer("otto"), run, ["confirm"]).rows[3]
    for name, label in (("otto", "SKU-03, 3.0"), ("ben", "")):
        detail = queries.activation_detail(people.viewer(name), run, one.id)
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
        events = list(queries.all_events(people.viewer(name), run, queries.EventFilter()))
        labels = [event.data.get("label") for event in events if event.kind == "step.started" and "item" in event.data]
        assert (labels[:1] == ["SKU-00, 0.0"]) is shown
        assert any(labels) is shown
