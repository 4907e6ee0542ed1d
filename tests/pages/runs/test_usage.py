"""What a run's models used and cost: in its row, by the operator's prices, and in the counters of statistics."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.db import connection

from checkpoints.database.high_water_mark import HighWaterMark
from checkpoints.models import Checkpoint, Event, Run
from checkpoints.rules import USED, check_pairs, read_pairs
from tests import people
from tests.driving import drive, put
from wfdash.actions.checkpoints import fork_run, restore_run
from wfdash.actions.runs.lifecycle import start_run
from wfdash.actions.statistics import count_events
from wfdash.engines import catalog
from wfdash.queries.runs.listing import read_runs
from wfdash.queries.statistics.figures import read_statistics
from wfdash.workflow import Context, Workflow

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def agent(everybody, settings) -> None:
    settings.WFDASH_PRICES = read_pairs("WFDASH_PRICES", "gpt-*=0.075/0.3, free=0/0", 2)
    found, workflow = catalog.load(), Workflow("agent")

    @workflow.step(start=True)
    async def think(n: int, ctx: Context) -> int:
        ctx.usage(model="gpt-mini", input=1_001, output=10)
        return n

    @workflow.step(after=think)
    async def act(n: int, ctx: Context) -> None:
        ctx.usage(model="gpt-mini", input=1, cost=Decimal("1.5"))
        ctx.usage(model="other", output=7)
        await ctx.ask("go on?")

    put(found, workflow)


FOUND = {"cost:>1": True, "cost:>=1.6": False, "cost:unknown": True, "cost:<1": False, "tokens:>1k": True} | {
    "tokens:1019": True,
    "-tokens:>1k": False,
    "tokens:>999999999M": False,
}


def used(run: str) -> tuple[int | None, ...]:
    return Run.objects.values_list(*USED).get(pk=run)


def test_a_run_sums_up_its_tokens_and_cost_and_statistics_count_them_by_model(agent, as_):
    run = start_run(people.viewer("otto"), "agent", 1)
    assert used(run.pk) == (None,) * 4
    assert drive(run) == "waiting"
    nanos = 1_001 * 75 + 10 * 300
    assert used(run.pk) == (1_002, 17, nanos + 1_500_000_000, 7)
    found = {text: [row.id for row in read_runs(people.viewer("otto"), text).items] == [run.pk] for text in FOUND}
    assert found == FOUND
    client = as_("otto")
    listed = client.get("/runs/?columns=cost,tokens").content.decode()
    assert ("≥ 1.50 USD" in listed, "1.02k" in listed, "7 tokens without a known cost" in listed) == (True,) * 3
    assert "1,002 tokens in, 17 out" in client.get(f"/runs/{run.pk}/").content.decode()
    events = client.get(f"/runs/{run.pk}/events/").content.decode()
    assert "Think used gpt-mini: 1,001 tokens in, 10 out, 0.000078 USD" in events
    while count_events(HighWaterMark()):
        pass
    usage = read_statistics(people.viewer("otto")).usage
    assert {one.name: (one.uses, one.cost) for one in usage.models} == {
        "gpt-mini": (2, "1.500078075"),
        "other": (1, None),
    }
    assert [(one.name, one.input_tokens, one.unpriced) for one in usage.workflows] == [("agent", 1_002, 7)]
    assert (usage.times[-1], usage.total.output_tokens) == (usage.total, 17)
    scraped = client.get("/metrics").content.decode()
    assert 'wfdash_model_cost_total{model="gpt-mini",workflow="agent"} 1.500078075' in scraped
    page = client.get("/statistics/").content.decode()
    assert ("What models cost" in page, "7 of them without a price" in page, "gpt-mini" in page) == (True,) * 3
    assert not read_statistics(people.viewer("sam"), 7).usage.models


def test_a_restored_run_keeps_what_it_used_and_a_fork_begins_at_nothing(agent):
    run = start_run(people.viewer("otto"), "agent", 1)
    drive(run)
    first = Checkpoint.objects.get(run=run, n=1)
    fork = fork_run(people.viewer("otto"), run.pk, first.pk)
    restore_run(people.viewer("otto"), run.pk, first.pk)
    before = used(run.pk)
    drive(run)
    assert used(run.pk) == tuple(2 * (one or 0) for one in before)
    assert used(fork.pk) == (None,) * 4


@pytest.mark.parametrize("text", ["gpt", "gpt=1", "=1/2", "gpt=a/2", "gpt=1/-2", "gpt=1/nan"])
def test_prices_and_budgets_that_cannot_be_meant_are_refused_by_name(text):
    with pytest.raises(ValueError, match=r"WFDASH_PRICES: '(gpt)?': .* give "):
        read_pairs("WFDASH_PRICES", text, 2)
    with pytest.raises(ValueError, match="NAME=AMOUNT/AMOUNT"):
        check_pairs("WFDASH_BUDGETS", {"a": (None, None), "b": 5}, 1)


def test_damaged_usage_counts_nothing_and_breaks_no_page(agent, as_):
    run, client = start_run(people.viewer("otto"), "agent", 1), as_("otto")
    drive(run)
    bad = ['{"model": "x", "input_tokens": "x", "cost": "NaN"}', '{"model": ["x"], "output_tokens": -1}', "[]"]
    places = Event.objects.filter(run=run, kind="usage").order_by("seq").values_list("seq", flat=True)
    with connection.cursor() as cursor:
        for seq, data in zip(list(places), bad, strict=True):
            cursor.execute("UPDATE checkpoints_event SET data=%s WHERE seq=%s", [data, seq])
        if connection.vendor == "sqlite":
            cursor.execute("UPDATE checkpoints_run SET cost='x', input_tokens='x'")
    while count_events(HighWaterMark()):
        pass
    assert not read_statistics(people.viewer("otto")).usage.total.output_tokens
    assert read_runs(people.viewer("otto")).items[0].cost in {"0", "1.500078075"}
    for address in (f"/runs/{run.pk}/", f"/runs/{run.pk}/events/", "/runs/?columns=cost,tokens", "/statistics/"):
        assert client.get(address).status_code == 200
