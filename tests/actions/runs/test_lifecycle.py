from __future__ import annotations

import pytest

from checkpoints import ids
from checkpoints.models import Claim, Event, HumanRequest, Run, WorkflowVersion
from tests.actions.conftest import NOW
from wfdash.actions.runs.lifecycle import cancel_run, pause_run, resume_run, retry_run, start_run
from wfdash.actions.schedules import SchedulePlan, create_schedule
from wfdash.domain.errors import Invalid, NotAllowed, NotFound, WrongState
from wfdash.engines import catalog

pytestmark = pytest.mark.django_db

SOURCE = """
from pydantic import BaseModel
from wfdash.workflow import Workflow

class Item(BaseModel):
    amount: int

wf = Workflow("expense", title="Expense")

@wf.step(start=True)
def only(item: Item) -> int:
    return item.amount
"""


@pytest.fixture(autouse=True)
def _catalog(settings, tmp_path):
    path = tmp_path / "served.py"
    path.write_text(SOURCE)
    settings.WFDASH_APPS, settings.WFDASH_WORKFLOWS = [], [str(path)]
    catalog.load.cache_clear()
    yield
    catalog.load.cache_clear()


def test_a_started_run_is_queued_and_remembers_its_graph_and_its_starter(person) -> None:
    run = start_run(person("otto", "operator"), "expense", {"amount": 3})
    row = Run.objects.get(pk=run.pk)
    assert (row.phase, row.input, row.created_by.username, row.seq) == ("ready", {"amount": 3}, "otto", 1)
    assert WorkflowVersion.objects.get().version == row.version
    assert Event.objects.get().kind == "run.queued"


def test_an_input_that_does_not_fit_is_refused_at_its_field(person) -> None:
    with pytest.raises(Invalid) as refused:
        start_run(person("otto", "operator"), "expense", {"amount": "many"})
    assert refused.value.errors[0]["loc"] == ["amount"]
    assert not Run.objects.exists()


def test_the_same_key_starts_once(person) -> None:
    otto = person("otto", "operator")
    first = start_run(otto, "expense", {"amount": 3}, key="k")
    assert start_run(otto, "expense", {"amount": 3}, key="k") == first
    with pytest.raises(WrongState, match="idempotency key"):
        start_run(otto, "expense", {"amount": 4}, key="k")
    assert Run.objects.count() == 1


def test_only_who_may_start_starts(person) -> None:
    with pytest.raises(NotAllowed):
        start_run(person("vera", "viewer"), "expense", {"amount": 3})
    with pytest.raises(NotFound):
        start_run(person("sam"), "expense", {"amount": 3})
    with pytest.raises(NotFound):
        start_run(person("otto", "operator"), "nope", {})


def claim(run: Run) -> None:
    Claim.objects.create(run=run, token=ids.new_token(), worker="w", epoch=1, expires=NOW)


@pytest.mark.parametrize(("verb", "phase"), [(cancel_run, "cancelled"), (pause_run, "paused")])
def test_stopping_a_run_fences_its_worker_at_once(person, run, verb, phase) -> None:
    claim(run)
    verb(person("otto", "operator"), run.id)
    row = Run.objects.get(pk=run.pk)
    assert (row.phase, row.epoch, row.acted_by) == (phase, 1, "otto")
    assert not Claim.objects.exists()


def test_cancelling_closes_the_open_requests(person, run, ask) -> None:
    ask()
    cancel_run(person("otto", "operator"), run.id)
    assert HumanRequest.objects.get().closed_as == "cancelled"
    with pytest.raises(WrongState, match="cancelled"):
        cancel_run(person("olga", "operator"), run.id)


def test_a_paused_run_resumes(person, run) -> None:
    otto = person("otto", "operator")
    pause_run(otto, run.id)
    assert resume_run(otto, run.id).phase == "ready"
    with pytest.raises(WrongState):
        resume_run(otto, run.id)


def test_only_a_failed_run_is_retried(person, run) -> None:
    otto = person("otto", "operator")
    with pytest.raises(WrongState):
        retry_run(otto, run.id)
    Run.objects.filter(pk=run.pk).update(phase="failed", error={"type": "X"}, attempts=4)
    row = retry_run(otto, run.id)
    assert (row.phase, row.error, row.attempts) == ("ready", None, 0)


@pytest.mark.parametrize("verb", [cancel_run, pause_run, resume_run, retry_run])
def test_who_may_only_look_changes_nothing(person, run, verb) -> None:
    with pytest.raises(NotAllowed):
        verb(person("vera", "viewer"), run.id)
    with pytest.raises(NotFound):
        verb(person("sam"), run.id)
    assert Run.objects.get(pk=run.pk).phase == "waiting"


@pytest.mark.parametrize("value", ["3", 3.5, True])
def test_a_program_is_told_what_the_form_tells(value, person) -> None:
    with pytest.raises(Invalid) as refused:
        start_run(person("otto", "operator"), "expense", {"amount": value})
    assert refused.value.errors == [{"loc": ["amount"], "msg": "Must be a whole number"}]
    plan = SchedulePlan(name="Daily", cron="0 3 * * *", message={"amount": value})
    with pytest.raises(Invalid) as refused:
        create_schedule(person("otto"), "expense", plan)
    assert refused.value.errors == [{"loc": ["message", "amount"], "msg": "Must be a whole number"}]
