"""An approval of one thing is not used for another: what is asked when the step runs again is compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client

from checkpoints.models import AuditEntry, Event, HumanRequest, Run
from tests.driving import drive, pending, put
from tests.pages.conftest import _paper_catalog, as_, everybody
from tests.workflow.world import flow
from wfdash.access.viewer import Viewer, viewer_for
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.runs.lifecycle import start_run
from wfdash.engines import catalog
from wfdash.queries.requests.batch import read_similar_requests
from wfdash.queries.requests.request import read_request
from wfdash.workflow import Approval, Context, Decision, Workflow

__all__ = ["_paper_catalog", "as_", "everybody"]
pytestmark = pytest.mark.django_db(transaction=True)

APPROVE = {"action": "approve"}
PRICE: dict[str, Any] = {}


def paying() -> Workflow:
    async def pay(ctx: Context) -> str:
        amount = PRICE["now"]
        decision = await ctx.ask(Approval(subject=f"Pay {amount}?", proposal={"amount": amount, "to": "Acme"}))
        assert isinstance(decision, Decision)
        return f"{decision.action} {decision.value['amount']} {decision.by}"

    return flow(pay, name="pay")


@pytest.fixture
def started(everybody: Any, _paper_catalog: None) -> Iterator[Callable[[], Run]]:
    PRICE["now"] = 100
    put(catalog.load(), paying())

    def start() -> Run:
        run = start_run(viewer_for(everybody["otto"]), "pay", None)
        assert drive(run) == "waiting"
        return run

    return start


@pytest.fixture
def ana(everybody: Any) -> Viewer:
    return viewer_for(everybody["ana"])


def test_a_price_that_moved_is_not_paid_with_the_approval_of_the_old_one(started: Any, ana: Viewer) -> None:
    run = started()
    (first,) = pending(run).values()
    PRICE["now"] = 9000
    answer_request(ana, first.id, APPROVE)
    assert drive(run) == "waiting"
    (second,) = pending(run).values()
    assert (second.card["subject"], second.card["asked_again"]["was"]) == ("Pay 9000?", first.key)
    (event,) = Event.objects.filter(run_id=run.pk, kind="request.replaced")
    assert event.data["parts"] == ["subject", "proposal"]
    answer_request(ana, second.id, APPROVE)
    assert drive(run) == "completed"
    assert Run.objects.get(pk=run.pk).output == "approve 9000 ana"
    assert [entry.facts["proposal"]["amount"] for entry in AuditEntry.objects.filter(verb="answer").order_by("n")] == [
        100,
        9000,
    ]


def test_code_that_was_replaced_while_a_run_waited_asks_again(started: Any, ana: Viewer) -> None:
    run = started()
    (first,) = pending(run).values()
    deletes, reached = Workflow("pay"), []

    @deletes.step(start=True)
    async def pay(ctx: Context) -> str:
        await ctx.ask(Approval(subject="DELETE THE DATABASE"))
        reached.append(1)
        return "deleted"

    put(catalog.load(), deletes)
    answer_request(ana, first.id, APPROVE)
    assert drive(run) == "waiting"
    assert reached == []


def test_the_card_says_what_changed_and_suggests_the_earlier_answer(
    started: Any, ana: Viewer, as_: Callable[..., Client]
) -> None:
    run = started()
    (first,) = pending(run).values()
    PRICE["now"] = 9000
    answer_request(ana, first.id, {**APPROVE, "reason": "as agreed"})
    drive(run)
    (second,) = pending(run).values()
    page = as_("ana").get(f"/requests/{second.id}/").content.decode()
    assert "Asked again: the subject and the proposal changed after it was answered." in page
    assert "9000" in page
    assert "100" in page[page.index("<summary>Changes") :]
    assert "as agreed" in page
    told = as_("ana").get(f"/api/v1/requests/{second.id}").json()
    assert told["card"]["asked_again"]["parts"] == ["subject", "proposal"]
    assert told["suggestion"]["value"] == {"action": "approve", "reason": "as agreed"}
    old = as_("ana").get(f"/requests/{first.id}/").content.decode()
    assert f"/requests/{second.id}/" in old
    assert "this answer was discarded" in old


def test_what_was_asked_again_is_not_decided_in_a_batch(started: Any, ana: Viewer) -> None:
    runs = [started(), started()]
    for run in runs:
        (first,) = pending(run).values()
        answer_request(ana, first.id, APPROVE)
    PRICE["now"] = 9000
    for run in runs:
        drive(run)
    (second,) = pending(runs[0]).values()
    found = read_similar_requests(ana, second.id)
    assert {row.refusal for row in found.rows} == {"Asked again after a change: decide it individually"}


def test_who_could_not_see_the_earlier_card_does_not_see_it_now(started: Any, ana: Viewer, everybody: Any) -> None:
    run = started()
    (first,) = pending(run).values()
    HumanRequest.objects.filter(pk=first.pk).update(by=["ana"])
    PRICE["now"] = 9000
    answer_request(ana, first.id, APPROVE)
    drive(run)
    (second,) = pending(run).values()
    seen = read_request(viewer_for(everybody["ben"]), second.id)
    assert seen.shown
    assert (seen.before, seen.suggestion) == (None, None)
