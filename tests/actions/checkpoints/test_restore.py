from __future__ import annotations

from datetime import timedelta

import pytest

from checkpoints import ids
from checkpoints.database.storage import DatabaseStorage
from checkpoints.events import EventKind
from checkpoints.models import Answer, AuditEntry, Checkpoint, Claim, Event, HumanRequest, Run
from checkpoints.records import Checkpoint as Record
from checkpoints.records import Commit, Phase, Request, Standing
from tests.actions.conftest import NOW
from wfdash.actions.checkpoints import answer_again, fork_run, restore_run
from wfdash.actions.requests.answer import answer_request
from wfdash.domain.errors import AlreadyAnswered, NoLongerOpen, NotAllowed, NotFound, WrongState

pytestmark = pytest.mark.django_db(transaction=True)

QUESTION = Request(
    key="review:0",
    step="review",
    kind="approval",
    card={"subject": "Pay 900?"},
    answer_schema={"type": "object", "properties": {"action": {"type": "string"}}},
)


def commit(run: str, n: int, *, waiting: bool, state: object = None) -> str:
    """Commit a checkpoint through the storage, as an engine would; returns its id."""
    parent = Checkpoint.objects.filter(run_id=run).order_by("-n").values_list("id", flat=True).first()
    checkpoint = Record(
        id=ids.new_checkpoint_id(),
        run=run,
        workflow="expense",
        n=n,
        parent=parent,
        version="v1",
        created=NOW + timedelta(seconds=n),
        body={"state": {"n": n, "extra": state}, "position": {}},
        requests=(QUESTION,) if waiting else (),
    )
    change = Commit(
        run=run,
        checkpoint=checkpoint,
        events=(EventKind.STEP_FINISHED.draft(f"s{n}"),),
        opened=(QUESTION,) if waiting else (),
        closed=() if waiting else (QUESTION.key,),
        standing=Standing(phase=Phase.WAITING) if waiting else None,
    )
    save_now(change)
    return checkpoint.id


def save_now(change: Commit) -> None:
    import asyncio

    async def save() -> None:
        storage = DatabaseStorage()
        try:
            await storage.commit(change)
        finally:
            await storage.aclose()

    asyncio.run(save())


@pytest.fixture
def history(run: Run, person) -> dict[str, str]:
    """Waited at 2, was approved by ana, finished a step at 3."""
    ids_by_n = {1: commit(run.id, 1, waiting=False), 2: commit(run.id, 2, waiting=True)}
    request = HumanRequest.objects.get(run=run)
    answer_request(person("ana", "reviewer"), request.id, {"action": "approve"})
    ids_by_n[3] = commit(run.id, 3, waiting=False)
    return {str(n): checkpoint for n, checkpoint in ids_by_n.items()}


def test_restoring_makes_the_chosen_checkpoint_the_head_and_keeps_all_history(person, run, history) -> None:
    head = restore_run(person("otto", "operator"), run.id, history["1"])
    assert (head.n, head.parent, head.reason) == (4, history["1"], "restore")
    assert Checkpoint.objects.filter(run=run).count() == 4
    row = Run.objects.get(pk=run.pk)
    assert (row.phase, row.n) == ("ready", 4)
    event = Event.objects.filter(run=run).latest("seq")
    assert (event.kind, event.seq, head.seq) == ("run.restored", row.seq, row.seq)


def test_restoring_before_an_answer_asks_again_with_the_old_answer_as_a_suggestion(person, run, history) -> None:
    restore_run(person("otto", "operator"), run.id, history["2"])
    old, new = HumanRequest.objects.filter(run=run).order_by("created", "id")
    assert (old.closed_as, new.closed, new.answered) == ("taken", None, None)
    assert new.replaces == old.id
    assert new.card == QUESTION.card
    assert (new.suggestion["by"], new.suggestion["value"]) == ("ana", {"action": "approve"})
    assert Answer.objects.get().request == old


def test_a_question_that_is_no_longer_pending_is_superseded(person, run, history) -> None:
    otto = person("otto", "operator")
    restore_run(otto, run.id, history["2"])
    reopened = HumanRequest.objects.get(run=run, closed__isnull=True)
    restore_run(otto, run.id, history["1"])
    with pytest.raises(NoLongerOpen, match="superseded"):
        answer_request(person("ben", "reviewer"), reopened.id, {"action": "approve"})


def test_the_answered_request_of_before_stays_answered(person, run, history) -> None:
    old = HumanRequest.objects.get(run=run)
    restore_run(person("otto", "operator"), run.id, history["2"])
    with pytest.raises(AlreadyAnswered, match="ana"):
        answer_request(person("ben", "reviewer"), old.id, {"action": "reject"})


def test_restoring_fences_the_active_worker_at_once(person, run, history) -> None:
    epoch = Run.objects.get(pk=run.pk).epoch
    Claim.objects.create(run=run, token=ids.new_token(), worker="w", epoch=epoch, expires=NOW)
    restore_run(person("otto", "operator"), run.id, history["1"])
    assert not Claim.objects.exists()
    assert Run.objects.get(pk=run.pk).epoch == epoch + 1


def test_a_fork_starts_from_the_chosen_checkpoint_and_leaves_its_origin_alone(person, run, history) -> None:
    before = Run.objects.values().get(pk=run.pk)
    fork = fork_run(person("otto", "operator"), run.id, history["2"])
    assert Run.objects.values().get(pk=run.pk) == before
    assert (fork.phase, fork.forked_from, fork.n) == ("ready", history["2"], 1)
    first = Checkpoint.objects.get(run=fork)
    assert (first.n, first.parent, first.reason) == (1, history["2"], "fork")
    request = HumanRequest.objects.get(run=fork)
    assert (request.answered, request.suggestion["by"]) == (None, "ana")


def test_big_state_is_shared_with_the_fork_and_reads_the_same(person, run) -> None:
    big = {f"key{i}": "x" * 5000 for i in range(40)}
    chosen = commit(run.id, 1, waiting=False, state=big)
    fork = fork_run(person("otto", "operator"), run.id, chosen)
    import asyncio

    async def load() -> Record | None:
        storage = DatabaseStorage()
        try:
            return await storage.get_latest(fork.id)
        finally:
            await storage.aclose()

    latest = asyncio.run(load())
    assert latest is not None
    assert latest.body["state"]["extra"] == big


def test_another_runs_checkpoint_is_not_found(person, run, history) -> None:
    otto = person("otto", "operator")
    fork = fork_run(otto, run.id, history["1"])
    for verb in (restore_run, fork_run):
        with pytest.raises(NotFound):
            verb(otto, fork.id, history["1"])
        with pytest.raises(NotFound):
            verb(person("sam"), run.id, history["1"])
        with pytest.raises(NotAllowed):
            verb(person("vera", "viewer"), run.id, history["1"])


def failed_in(run: Run, step: str) -> None:
    Run.objects.filter(pk=run.pk).update(phase="failed", error={"type": "TypeError", "message": "no", "step": step})


def test_a_run_that_failed_in_the_step_that_was_answered_is_answered_again(person, run, history) -> None:
    failed_in(run, "review")
    otto = person("otto", "operator")
    head = answer_again(otto, run.id, key="k")
    assert (head.n, head.parent, head.reason) == (4, history["2"], "restore")
    again = HumanRequest.objects.get(run=run, closed__isnull=True)
    assert (again.suggestion["by"], again.suggestion["value"]) == ("ana", {"action": "approve"})
    assert AuditEntry.objects.filter(verb="restore", actor="otto").count() == 1
    assert answer_again(otto, run.id, key="k") == head
    with pytest.raises(WrongState, match="did not fail in the step answered last"):
        answer_again(otto, run.id)


def test_a_run_that_failed_elsewhere_is_not_answered_again(person, run, history) -> None:
    failed_in(run, "pay")
    with pytest.raises(WrongState):
        answer_again(person("otto", "operator"), run.id)
    failed_in(run, "review")
    with pytest.raises(NotAllowed):
        answer_again(person("ben", "reviewer"), run.id)
    assert Checkpoint.objects.filter(run=run).count() == 3


@pytest.mark.parametrize(("step", "offered"), [("review", True), ("pay", False)])
def test_the_page_of_a_failed_run_leads_to_the_question(person, run, history, client, step, offered) -> None:
    failed_in(run, step)
    client.force_login(person("otto", "operator").user)
    shown = client.get(f"/runs/{run.pk}/").content.decode()
    assert ("Answer again…" in shown) is offered
    assert not offered or f"checkpoints/{history['2']}/restore/" in shown
    address = f"/runs/{run.pk}/checkpoints/{history['2']}/restore/"
    assert client.get(address).status_code == 200
