"""Restoring, forking and editing: the chosen checkpoint becomes the head, or the start of another run."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pydantic import BaseModel

from checkpoints import ids
from checkpoints.database.runs import read_row
from checkpoints.database.storage import DatabaseStorage
from checkpoints.events import EventKind
from checkpoints.models import Answer, AuditEntry, Checkpoint, Claim, Event, HumanRequest, Run
from checkpoints.records import Checkpoint as Record
from checkpoints.records import Commit, Phase, Request, Standing
from tests.actions.conftest import NOW
from tests.domain.test_json_patch import patched
from tests.driving import drive, pending, put
from wfdash.actions.checkpoints import answer_again, fork_run, label_checkpoint, restore_run
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs.lifecycle import start_run
from wfdash.contract import Edits
from wfdash.domain.errors import (
    AlreadyAnswered,
    Changed,
    Invalid,
    KeyReused,
    NoLongerOpen,
    NotAllowed,
    NotFound,
    WrongState,
)
from wfdash.engines import catalog
from wfdash.engines.catalog import Catalog
from wfdash.queries import timemachine
from wfdash.workflow import Context, Workflow

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


@pytest.mark.parametrize(
    ("step", "asked", "offered"),
    [("review", "", True), ("pay", "", False), ("sub", "sub/ask", True), ("sub", "subs/ask", False)],
)
def test_the_page_of_a_failed_run_leads_to_the_question(person, run, history, client, step, asked, offered) -> None:
    failed_in(run, step)
    if asked:
        HumanRequest.objects.filter(run=run).update(step=asked)
    client.force_login(person("otto", "operator").user)
    shown = client.get(f"/runs/{run.pk}/").content.decode()
    assert ("Answer again…" in shown) is offered
    assert not offered or f"checkpoints/{history['2']}/restore/" in shown
    address = f"/runs/{run.pk}/checkpoints/{history['2']}/restore/"
    assert client.get(address).status_code == 200


class ClaimToEdit(BaseModel):
    amount: int
    note: str = ""


def expense() -> Workflow:
    wf = Workflow("expense")

    @wf.step(start=True)
    async def read(claim: ClaimToEdit, ctx: Context) -> ClaimToEdit:
        if claim.amount < 0:
            raise ValueError("an amount below zero")
        ctx.state["seen"] = claim.amount
        return claim

    @wf.step(after=read)
    async def review(claim: ClaimToEdit, ctx: Context) -> int:
        return claim.amount + int(await ctx.ask(f"Pay {claim.amount}?", answer=int, by=["ana"]))

    @wf.step(after=review)
    async def pay(amount: int, ctx: Context) -> str:
        return f"paid {amount}, seen {ctx.state['seen']}"

    return wf


@pytest.fixture
def otto(person, monkeypatch):
    found = Catalog()
    monkeypatch.setattr(catalog, "load", lambda: found)
    put(found, expense())
    return person("otto", "operator")


def started(otto, amount: int = 5) -> Run:
    run = start_run(otto, "expense", {"amount": amount})
    drive(run)
    return run


def head(run: Run) -> Checkpoint:
    return Checkpoint.objects.filter(run=run).order_by("-n").first()


def acts_at(checkpoint: Checkpoint) -> list[str]:
    return list(read_row(checkpoint).body["position"]["live"])


def output(run: Run) -> object:
    run.refresh_from_db()
    return run.output


def test_a_failed_run_is_forked_with_the_input_it_should_have_had(otto):
    run = started(otto, -5)
    assert drive(run) == "failed"
    (act,) = acts_at(head(run))
    edits = Edits(messages={act: {"amount": 7}}, reason="a sign too many")
    fork = fork_run(otto, run.pk, head(run).pk, edits=edits)
    assert (fork.input, fork.altered, fork.forked_from) == ({"amount": 7, "note": ""}, "edited", head(run).pk)
    assert drive(fork) == "waiting"
    assert next(iter(pending(fork).values())).card["subject"] == "Pay 7?"
    run.refresh_from_db()
    assert (run.phase, run.altered, run.input["amount"]) == ("failed", "", -5)


def test_a_failed_run_is_tried_again_with_edits(otto):
    run = started(otto, -5)
    old = head(run)
    new = restore_run(otto, run.pk, old.pk, edits=Edits(messages={acts_at(old)[0]: {"amount": 7}}))
    assert (new.reason, new.parent, new.n) == ("edit", old.pk, old.n + 1)
    run.refresh_from_db()
    assert (run.altered, run.input["amount"]) == ("edited", -5)
    assert drive(run) == "waiting"


def test_what_was_changed_is_on_record_as_a_patch_that_fits(otto):
    run = started(otto)
    old = head(run)
    new = restore_run(otto, run.pk, old.pk, edits=Edits(state={"seen": 99}, reason="counted wrong"))
    event = Event.objects.get(run=run, kind="run.edited")
    entry = AuditEntry.objects.latest("n")
    assert (entry.verb, entry.facts["patch"], entry.facts["reason"]) == (
        "restore",
        event.data["patch"],
        "counted wrong",
    )
    assert {"op": "replace", "path": "/state/seen", "value": 99} in entry.facts["patch"]
    assert patched(read_row(old).body, entry.facts["patch"]) == read_row(new).body
    assert (event.data["n"], event.data["checkpoint"], event.data["by"]) == (new.n, old.pk, "otto")


def test_answers_that_stay_and_state_that_changed_go_on_together(otto, person):
    ana = person("ana", "reviewer")
    run = started(otto)
    restore_run(otto, run.pk, head(run).pk, edits=Edits(state={"seen": 99}))
    answer_request(ana, next(iter(pending(run).values())).pk, 1)
    assert drive(run) == "completed"
    assert output(run) == "paid 6, seen 99"


def test_a_pending_question_is_answered_by_the_door_for_answers(otto, person):
    run = started(otto)
    key = next(iter(pending(run)))
    with pytest.raises(Invalid) as caught:
        fork_run(otto, run.pk, head(run).pk, edits=Edits(answers={key: 1}))
    assert caught.value.errors[0]["loc"] == ["reason"]
    assert Run.objects.count() == 1
    fork = fork_run(otto, run.pk, head(run).pk, edits=Edits(answers={key: 1}, reason="ana is away"))
    reply = Answer.objects.get(request__run=fork)
    assert (reply.by.username, reply.value) == ("otto", 1)
    assert AuditEntry.objects.latest("n").verb == "override"
    assert drive(fork) == "completed"
    assert output(fork) == "paid 6, seen 5"


def test_what_does_not_fit_is_told_at_its_field_and_changes_nothing(otto):
    run = started(otto)
    chosen, key = head(run), next(iter(pending(run)))
    act = acts_at(chosen)[0]
    before = (Checkpoint.objects.count(), Event.objects.count(), HumanRequest.objects.count())
    for edits, loc in (
        (Edits(messages={act: {"amount": "x"}}), ["messages", act, "amount"]),
        (Edits(answers={key: "x"}), ["answers", key]),
        (Edits(answers={"other": 1}), ["answers", "other"]),
        (Edits(messages={act: {"amount": 1}}, answers={key: 1}), ["answers", key]),
        (Edits(), []),
    ):
        for verb in (restore_run, fork_run):
            with pytest.raises(Invalid) as caught:
                verb(otto, run.pk, chosen.pk, edits=edits)
            assert caught.value.errors[0]["loc"] == loc
    assert (Checkpoint.objects.count(), Event.objects.count(), HumanRequest.objects.count()) == before


def test_the_same_key_forks_and_restores_once(otto):
    run = started(otto)
    chosen = head(run)
    forks = [fork_run(otto, run.pk, chosen.pk, key="k1") for _ in range(2)]
    heads = [restore_run(otto, run.pk, chosen.pk, key="k2") for _ in range(2)]
    assert forks[0].pk == forks[1].pk
    assert heads[0].pk == heads[1].pk
    assert Event.objects.filter(kind="run.restored").count() == 1
    with pytest.raises(KeyReused):
        restore_run(otto, run.pk, heads[0].pk, key="k2")


def test_what_was_shown_is_refused_once_the_run_has_moved_on(otto, person):
    run = started(otto)
    chosen = head(run)
    seen = {verb: timemachine.mark(run, chosen, verb) for verb in ("restore", "fork")}
    answer_request(person("ana", "reviewer"), next(iter(pending(run).values())).pk, 1)
    for verb, name in ((restore_run, "restore"), (fork_run, "fork")):
        with pytest.raises(Changed):
            verb(otto, run.pk, chosen.pk, seen=seen[name])
    run.refresh_from_db()
    restore_run(otto, run.pk, chosen.pk, seen=timemachine.mark(run, chosen, "restore"))


def test_of_two_operators_who_looked_at_the_same_preview_one_is_told_to_look_again(otto, person):
    run = started(otto)
    chosen, olga = head(run), person("olga", "operator")
    run.refresh_from_db()
    seen = timemachine.mark(run, chosen, "restore")
    restore_run(otto, run.pk, chosen.pk, seen=seen, key="same")
    with pytest.raises(Changed):
        restore_run(olga, run.pk, chosen.pk, seen=seen, key="same")
    assert Event.objects.filter(run=run, kind="run.restored").count() == 1


def test_a_restored_run_says_so_forever_and_a_fork_of_an_edited_one_too(otto):
    run = started(otto)
    first, waiting = Checkpoint.objects.filter(run=run).order_by("n")[0], head(run)
    restore_run(otto, run.pk, first.pk)
    drive(run)
    run.refresh_from_db()
    assert run.altered == "restored"
    edited = restore_run(otto, run.pk, waiting.pk, edits=Edits(state={"seen": 1}))
    run.refresh_from_db()
    assert run.altered == "restored,edited"
    assert fork_run(otto, run.pk, edited.pk).altered == "edited"
    assert fork_run(otto, run.pk, first.pk).altered == ""


def test_what_opens_again_and_what_is_withdrawn_are_events(otto):
    run = started(otto)
    first, waiting = Checkpoint.objects.filter(run=run).order_by("n")[0], head(run)
    restore_run(otto, run.pk, waiting.pk)
    again = Event.objects.filter(run=run, kind="request.opened").latest("seq")
    assert again.data["request"] == next(iter(pending(run).values())).pk
    restore_run(otto, run.pk, first.pk)
    gone = Event.objects.filter(run=run, kind="request.withdrawn").latest("seq")
    assert (gone.data["request"], gone.data["by"]) == (again.data["request"], "otto")


def test_a_checkpoint_is_labelled_and_the_label_taken_away(otto, person):
    run = started(otto)
    chosen = head(run)
    for label in ("before the audit" + "x" * 184, ""):
        label_checkpoint(otto, run.pk, chosen.pk, f" {label} ")
        assert (Checkpoint.objects.get(pk=chosen.pk).label or "") == label
    assert read_row(Checkpoint.objects.get(pk=chosen.pk)).n == chosen.n
    assert Event.objects.filter(kind="run.labelled").count() == 2
    with pytest.raises(Invalid):
        label_checkpoint(otto, run.pk, chosen.pk, "x" * 201)
    with pytest.raises(NotAllowed):
        label_checkpoint(person("vera", "viewer"), run.pk, chosen.pk, "mine")
    with pytest.raises(NotFound):
        label_checkpoint(person("sam"), run.pk, chosen.pk, "mine")
