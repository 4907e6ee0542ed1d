"""A run is called what its author says, for all who see it; else by its input, for those who may read that."""

from __future__ import annotations

import asyncio

import pytest
from django.db import connection

from checkpoints.database.storage import DatabaseStorage
from checkpoints.models import Event, Notice, Run, RunFact
from tests import people
from tests.driving import drive, put
from wfdash.actions.checkpoints import fork_run, restore_run
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.requests.collaboration import assign_request
from wfdash.actions.runs import search_index
from wfdash.actions.runs.lifecycle import start_run
from wfdash.engines import catalog
from wfdash.engines.catalog import Catalog
from wfdash.queries.history import read_checkpoints
from wfdash.queries.requests.inbox import read_inbox, requests_of
from wfdash.queries.requests.request import read_request
from wfdash.queries.run_names import titles_of
from wfdash.queries.runs.listing import read_run, read_runs
from wfdash.workflow import Approval, Context, Workflow
from wfdash.workflow.errors import InvalidCall, InvalidWorkflow

KEYS = "a-secret-that-is-long-enough-to-be-one"
pytestmark = pytest.mark.django_db(transaction=True)
SCHEMA = {"type": "object", "properties": {"service": {"type": "string"}, "token": {"type": "string"}}}


@pytest.fixture
def serve(monkeypatch, everybody):
    found = Catalog()
    monkeypatch.setattr(catalog, "load", lambda: found)
    return lambda workflow: put(found, workflow)


def deploy(run_title: str = "Deploy {service}", said: str = "") -> Workflow:
    workflow = Workflow("deploy", title="Deployment", run_title=run_title)

    @workflow.step(start=True)
    async def check(message: dict[str, str], ctx: Context) -> str:
        if said:
            ctx.title(said)
        await ctx.ask(Approval(subject="Go?"))
        return "done"

    return workflow


def named_for(name: str, run: str) -> str:
    return read_run(people.viewer(name), run).title


def stored(run: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT own_title || coalesce(summary, '') FROM checkpoints_run WHERE id = %s", [run])
        return str(cursor.fetchone()[0])


def test_a_run_is_called_by_its_template_from_the_start_and_found_by_it(serve):
    serve(deploy())
    run = start_run(people.viewer("otto"), "deploy", {"service": "Billing"})
    for name in ("otto", "ben"):
        assert named_for(name, run.pk) == "Deploy Billing"
        assert [row.id for row in read_runs(people.viewer(name), "billing").items] == [run.pk]
    row = read_run(people.viewer("ben"), run.pk)
    assert (row.workflow_title, row.own_title, row.summary) == ("Deployment", "Deploy Billing", "")


def test_the_input_names_a_run_only_for_those_who_may_read_it(serve):
    serve(deploy(run_title=""))
    run = start_run(people.viewer("otto"), "deploy", {"service": "Billing"})
    people.ask(run)
    assert named_for("otto", run.pk) == "Deployment: Billing"
    assert named_for("ben", run.pk) == "Deployment: Pay 900?"
    assert not read_runs(people.viewer("ben"), "billing").items
    assert read_inbox(people.viewer("ana"), "all").items[0].run_title == "Deployment"
    assert read_inbox(people.viewer("otto"), "all").items[0].run_title == "Deployment: Billing"
    assert titles_of(people.viewer("sam"), [run.pk]) == {}


def test_a_step_names_the_run_before_it_waits_and_the_words_are_found(serve):
    serve(deploy(said="Ship\n\u202eBilling 2.0"))
    run = start_run(people.viewer("otto"), "deploy", {"service": "x"})
    assert drive(run) == "waiting"
    assert named_for("ben", run.pk) == "Ship Billing 2.0"
    assert Event.objects.get(run=run, kind="run.titled").data["title"] == "Ship Billing 2.0"
    search_index.index_runs()
    words = set(RunFact.objects.filter(run=run, name="title").values_list("text", flat=True))
    assert {"ship", "billing", "deployment"} <= words
    found = read_inbox(people.viewer("ana"), "all", "ship").items
    assert [row.run_title for row in found] == ["Ship Billing 2.0"]


def test_a_step_that_runs_again_does_not_say_it_again(serve):
    serve(deploy(said="First"))
    run = start_run(people.viewer("otto"), "deploy", {"service": "x"})
    drive(run)
    Run.objects.filter(pk=run.pk).update(own_title="Since renamed")
    request = requests_of(people.viewer("ana"), run.pk)[0]
    answer_request(people.viewer("ana"), request.id, {"action": "approve"})
    Run.objects.filter(pk=run.pk).update(phase="ready")
    drive(run)
    assert named_for("ben", run.pk) == "Since renamed"


def test_a_title_that_says_nothing_is_refused(serve):
    serve(deploy(said="\u200b \n"))
    run = start_run(people.viewer("otto"), "deploy", {"service": "x"})
    assert drive(run) == "failed"
    assert Run.objects.get(pk=run.pk).error["type"].endswith(InvalidCall.__name__)


def test_a_template_is_checked_when_the_workflow_is_built():
    workflow = Workflow("w", run_title="{nmae}")

    @workflow.step(start=True)
    def begin(message: int) -> int:
        return message

    with pytest.raises(InvalidWorkflow, match=r"run_title of workflow 'w': the input has no \{nmae\}"):
        _ = workflow.graph


def test_encrypted_titles_are_shown_and_neither_stored_nor_found_in_clear(serve, settings):
    settings.WFDASH_ENCRYPTION_KEYS = KEYS
    serve(deploy(said="Ship Billing"))
    run = start_run(people.viewer("otto"), "deploy", {"service": "Ledger"})
    assert named_for("ben", run.pk) == "Deploy Ledger"
    drive(run)
    assert named_for("ben", run.pk) == "Ship Billing"
    search_index.index_runs()
    assert not {"billing", "ledger"} & set(RunFact.objects.values_list("text", flat=True))
    assert "Ledger" not in stored(run.pk)
    assert "Billing" not in stored(run.pk)
    with connection.cursor() as cursor:
        cursor.execute("SELECT data FROM checkpoints_event UNION ALL SELECT payload FROM checkpoints_notice")
        assert "Billing" not in str(cursor.fetchall())
    settings.WFDASH_ENCRYPTION_KEYS = "another-secret-that-is-long-enough"
    assert named_for("ben", run.pk) == "Deployment"


def test_the_title_cannot_be_swapped_with_what_only_inspectors_see(serve, settings):
    settings.WFDASH_ENCRYPTION_KEYS = KEYS
    serve(deploy())
    run = start_run(people.viewer("otto"), "deploy", {"service": "Ledger", "x": "y"})
    with connection.cursor() as cursor:
        cursor.execute("UPDATE checkpoints_run SET own_title = summary WHERE id = %s", [run.pk])
    assert named_for("ben", run.pk) == "Deployment"


def test_words_of_titles_are_removed_once_content_is_encrypted(serve, settings):
    serve(deploy())
    run = start_run(people.viewer("otto"), "deploy", {"service": "Ledger"})
    settings.WFDASH_ENCRYPTION_KEYS = f"{KEYS},plain"
    search_index.remove_content(chunk=1)
    search_index.index_runs()
    assert "ledger" not in set(RunFact.objects.values_list("text", flat=True))
    assert [row.id for row in read_runs(people.viewer("ben"), "deployment").items] == [run.pk]


def test_a_fork_carries_the_title_of_its_origin(serve):
    serve(deploy(said="Ship it"))
    run = start_run(people.viewer("otto"), "deploy", {"service": "x"})
    drive(run)
    head = read_checkpoints(people.viewer("otto"), run.pk, limit=1).rows[0].info.id
    assert named_for("ben", fork_run(people.viewer("otto"), run.pk, head).pk) == "Ship it"
    restore_run(people.viewer("otto"), run.pk, head)
    assert named_for("ben", run.pk) == "Ship it"


def test_a_notification_says_the_title_and_never_the_input(serve, settings):
    serve(deploy(run_title=""))
    otto, ana = people.viewer("otto"), people.viewer("ana")
    plain = people.ask(start_run(otto, "deploy", {"service": "Ledger"}))
    serve(deploy())
    titled = people.ask(start_run(otto, "deploy", {"service": "Billing"}))
    for request in (plain, titled):
        assign_request(otto, request.pk, "ana")
    told = {row.request_id: row.payload["run_title"] for row in Notice.objects.all()}
    assert told == {plain.pk: "Deployment", titled.pk: "Deploy Billing"}
    assert {row.run for row in queries_of(ana)} == {"Deployment", "Deploy Billing"}


def queries_of(viewer):
    from wfdash.queries.account import notices

    return notices(viewer).items


def test_a_card_names_the_run_beside_its_workflow(serve):
    otto = people.viewer("otto")
    serve(deploy(run_title=""))
    plain = people.ask(start_run(otto, "deploy", {"service": "Ledger"}))
    serve(deploy())
    titled = people.ask(start_run(otto, "deploy", {"service": "Billing"}))
    labels = [
        read_request(people.viewer(name), one.pk).run_label for one in (plain, titled) for name in ("otto", "ben")
    ]
    assert labels == ["Ledger", "", "Deploy Billing", "Deploy Billing"]


def run_by_program(workflow: Workflow, message: dict[str, str]) -> str:
    """Run it until it waits, as a program does that uses the dashboard's database; no worker takes part."""

    async def begin() -> str:
        async with DatabaseStorage() as storage:
            return (await workflow.run(message, storage=storage)).checkpoint.run

    return asyncio.run(begin())


def titles_said(run: str) -> list[str]:
    return [event.data["title"] for event in Event.objects.filter(run=run, kind="run.titled").order_by("seq")]


def test_a_run_that_a_program_starts_is_called_by_its_template_and_found_by_it(serve):
    serve(workflow := deploy())
    run = run_by_program(workflow, {"service": "Bil\u202eling\n2.0"})
    assert named_for("otto", run) == "Deploy Billing 2.0"
    assert titles_said(run) == ["Deploy Billing 2.0"]
    search_index.index_runs()
    assert [row.id for row in read_runs(people.viewer("ben"), "billing").items] == [run]


@pytest.mark.parametrize("template", ["", "{service}"])
def test_a_run_of_a_program_without_a_template_or_anything_to_say_is_called_as_it_asks(serve, template):
    serve(workflow := deploy(run_title=template))
    run = run_by_program(workflow, {"token": "hush"})
    assert (named_for("ben", run), titles_said(run)) == ("deploy: Go?", [])


def test_what_a_step_says_counts_more_than_the_template_of_a_program(serve):
    serve(workflow := deploy(said="Ship Billing"))
    assert named_for("ben", run_by_program(workflow, {"service": "Billing"})) == "Ship Billing"


def test_a_program_stores_no_title_in_clear_where_content_is_encrypted(serve, settings):
    settings.WFDASH_ENCRYPTION_KEYS = KEYS
    serve(workflow := deploy())
    run = run_by_program(workflow, {"service": "Ledger"})
    assert named_for("ben", run) == "Deploy Ledger"
    assert "Ledger" not in stored(run)
    with connection.cursor() as cursor:
        cursor.execute("SELECT data FROM checkpoints_event")
        assert "Ledger" not in str(cursor.fetchall())


def test_a_run_from_the_pages_does_not_say_its_title_again(serve):
    serve(deploy())
    run = start_run(people.viewer("otto"), "deploy", {"service": "Billing"})
    assert drive(run) == "waiting"
    assert titles_said(run.pk) == []
