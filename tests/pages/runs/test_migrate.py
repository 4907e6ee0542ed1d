"""The run page of a run whose workflow has changed, its two previews, and what the API says of it."""

from __future__ import annotations

import asyncio
from functools import lru_cache

import pytest

from checkpoints import ids
from checkpoints.database.storage import DatabaseStorage
from checkpoints.models import Checkpoint, Event, HumanRequest, Run, WorkflowVersion
from tests import people
from tests.pages.markup import flat
from tests.worker.graphs import expense
from wfdash.engines import catalog
from wfdash.engines.catalog import Catalog, Entry
from wfdash.engines.native import NativeEngine
from wfdash.workflow import Workflow

pytestmark = pytest.mark.django_db(transaction=True)
engine = NativeEngine()


def serve(catalogue: Catalog, workflow: Workflow) -> Workflow:
    description = engine.describe(workflow)
    catalogue.entries[workflow.name] = Entry(
        name=workflow.name, definition=workflow, engine=engine, description=description, source="test"
    )
    return workflow


@pytest.fixture
def catalogue(monkeypatch, _paper_catalog) -> Catalog:
    found = Catalog()
    monkeypatch.setattr(catalog, "load", lru_cache(lambda: found))
    return found


@pytest.fixture
def waiting(catalogue, everybody) -> Run:
    """A run of the first version that waits for its answer, driven without a worker."""
    old = expense()
    WorkflowVersion.objects.create(
        workflow="expense", version=old.version, description=engine.describe(old).model_dump(mode="json")
    )
    run = people.make_run(id=ids.new_run_id(), workflow="expense", version=old.version, phase="ready")

    async def drive() -> None:
        storage = DatabaseStorage()
        try:
            await old.run({"amount": 5}, storage=storage, run_id=run.pk)
        finally:
            await storage.aclose()

    asyncio.run(drive())
    run.refresh_from_db()
    assert run.phase == "waiting"
    return run


@pytest.fixture
def behind(waiting, catalogue) -> Run:
    """The same run under a graph with one more step."""
    serve(catalogue, expense(extra=True))
    return waiting


def text(client, address: str, status: int = 200) -> str:
    answer = client.get(address)
    assert answer.status_code == status
    return answer.content.decode()


def test_the_run_page_says_what_changed_and_offers_the_choices_to_operators(behind, as_):
    page = text(as_("otto"), f"/runs/{behind.pk}/")
    assert "The workflow changed since this run started" in flat(page)
    assert "added: archive" in page
    assert f"/runs/{behind.pk}/migrate/" in page
    assert f"/runs/{behind.pk}/override/" in page
    assert "/migrate/" not in text(as_("vera"), f"/runs/{behind.pk}/")


def test_a_held_run_says_so_and_is_not_simply_resumed(behind, as_):
    error = {"type": "Incompatible", "message": "nothing leads there"}
    Run.objects.filter(pk=behind.pk).update(phase="paused", error=error)
    page = text(as_("otto"), f"/runs/{behind.pk}/")
    assert "On hold: the workflow changed since this run started" in page
    assert "nothing leads there" in page
    assert 'data-status="held"' in page
    lead = as_("otto").get(f"/runs/{behind.pk}/?fragment=head").context["lead"]
    assert (lead.verb.label, lead.address) == ("Review version change", f"/runs/{behind.pk}/migrate/")
    assert as_("vera").get(f"/runs/{behind.pk}/?fragment=head").context["lead"] is None
    assert f"/runs/{behind.pk}/resume/" not in page
    assert f"/runs/{behind.pk}/cancel/" in page


def test_a_run_of_the_loaded_graph_says_nothing_of_it(waiting, catalogue, as_):
    serve(catalogue, expense())
    assert "run-skew" not in text(as_("otto"), f"/runs/{waiting.pk}/")
    page = text(as_("otto"), f"/runs/{waiting.pk}/migrate/")
    assert "Nothing to migrate" in page
    assert "stays on hold" not in page
    assert "preview-confirm" not in page


def test_a_preview_changes_nothing_and_shows_the_state_as_it_would_be(behind, catalogue, as_):
    new = serve(catalogue, expense(step="other"))

    def hook(migration):
        migration.move("review", "other")
        migration.state["note"] = "by hook"

    new.migrate(from_version=behind.version)(hook)
    before = people.row_of(behind.pk), Checkpoint.objects.count(), Event.objects.count()
    page = text(as_("otto"), f"/runs/{behind.pk}/migrate/")
    assert "1 running in review started again as other" in page
    assert "by hook" in page
    assert "how much?" in page
    assert (people.row_of(behind.pk), Checkpoint.objects.count(), Event.objects.count()) == before


def test_what_cannot_be_done_is_said_with_its_reason_and_stays_undone(behind, as_):
    client = as_("otto")
    assert "Not possible" in text(client, f"/runs/{behind.pk}/migrate/")
    answer = client.post(f"/runs/{behind.pk}/migrate/")
    assert answer.status_code == 409
    assert "added: archive" in answer.content.decode()
    assert Run.objects.get(pk=behind.pk).version == behind.version


def test_an_override_is_one_click_away_from_its_preview(behind, as_):
    client = as_("otto")
    assert "No change." in text(client, f"/runs/{behind.pk}/override/")
    assert client.post(f"/runs/{behind.pk}/override/").status_code == 302
    page = text(client, f"/runs/{behind.pk}/")
    assert "Continued on the current version by otto" in page
    assert "run-skew" not in page
    assert HumanRequest.objects.get().closed is None


@pytest.mark.parametrize("verb", ["migrate", "override"])
@pytest.mark.parametrize(("name", "status"), [("vera", 403), ("ana", 403), ("sam", 404)])
def test_only_operators_see_and_make_the_choices(verb, name, status, behind, as_):
    for address in (f"/runs/{behind.pk}/{verb}/", f"/api/v1/runs/{behind.pk}/{verb}"):
        assert as_(name).post(address).status_code == status
    assert as_(name).get(f"/runs/{behind.pk}/{verb}/").status_code == status
    assert as_(name).get(f"/api/v1/runs/{behind.pk}/skew").status_code == status
    assert Run.objects.get(pk=behind.pk).version == behind.version


def test_the_workflow_page_lists_open_runs_of_old_versions(behind, catalogue, as_):
    page = text(as_("vera"), "/workflows/expense/")
    assert "Open runs of old versions" in page
    assert "added: archive" in page
    assert f"/runs/{behind.pk}/" in page
    serve(catalogue, expense())
    assert "Open runs of old versions" not in text(as_("vera"), "/workflows/expense/")


def test_the_api_previews_and_carries_over(behind, as_):
    client = as_("otto")
    found = client.get(f"/api/v1/runs/{behind.pk}/skew").json()
    assert (found["changes"], found["held"]) == (["added: archive"], False)
    assert "has changed" in found["refusal"]
    assert client.post(f"/api/v1/runs/{behind.pk}/migrate").status_code == 409
    fine = client.get(f"/api/v1/runs/{behind.pk}/skew?override=true").json()
    assert (fine["refusal"], fine["how"], fine["steps_after"]) == ("", "override", ["review"])
    assert client.post(f"/api/v1/runs/{behind.pk}/override").json()["n"] == behind.n + 1
    assert client.post(f"/api/v1/runs/{behind.pk}/override").status_code == 409
