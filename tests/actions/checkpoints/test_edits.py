from __future__ import annotations

import pytest
from pydantic import BaseModel

from checkpoints.database.runs import read_row
from checkpoints.models import Answer, AuditEntry, Checkpoint, Event, HumanRequest, Run
from tests.driving import drive, pending, put
from wfdash.actions.checkpoints import fork_run, label_checkpoint, restore_run
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs.lifecycle import start_run
from wfdash.contract import Edits
from wfdash.domain import json_patch
from wfdash.domain.errors import Changed, Invalid, KeyReused, NotAllowed, NotFound
from wfdash.engines import catalog
from wfdash.engines.catalog import Catalog
from wfdash.queries import timemachine
from wfdash.workflow import Context, Workflow

pytestmark = pytest.mark.django_db(transaction=True)


class Claim(BaseModel):
    amount: int
    note: str = ""


def expense() -> Workflow:
    wf = Workflow("expense")

    @wf.step(start=True)
    async def read(claim: Claim, ctx: Context) -> Claim:
        if claim.amount < 0:
            raise ValueError("an amount below zero")
        ctx.state["seen"] = claim.amount
        return claim

    @wf.step(after=read)
    async def review(claim: Claim, ctx: Context) -> int:
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
    assert json_patch.apply(entry.facts["patch"], read_row(old).body) == read_row(new).body
    assert (event.data["n"], event.data["checkpoint"], event.data["by"]) == (new.n, old.pk, "otto")


def test_answers_that_stay_and_state_that_changed_go_on_together(otto, person):
    ana = person("ana", "reviewer")
    run = started(otto)
    waiting = head(run)
    restore_run(otto, run.pk, waiting.pk, edits=Edits(state={"seen": 99}))
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
    for label in ("before the audit", ""):
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
