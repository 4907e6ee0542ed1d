"""Rules at their doors: from a suggestion or a filter to a rule that is on, by pages and by the API."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from checkpoints.models import HumanRequest, Rule, RuleUse
from tests.people import ACTIONS, WORKFLOW, answered, ask, make_run, viewer
from wfdash.queries.requests.rules import suggest

JSON = {"content_type": "application/json"}


def decided(number: int, by: Any, verdict: str = "approve", **facts: Any) -> HumanRequest:
    card = {"subject": f"Pay {number}?", "proposal": {"amount": number, "country": "IT"}, "actions": ACTIONS}
    found = ask(make_run(created=timezone.now()), card=card | facts, risk=1)
    answered(found, by, verdict)
    return found


@pytest.fixture
def history(everybody) -> list[HumanRequest]:
    kept = [decided(number, everybody["ben"]) for number in range(10, 40)]
    return [*kept, *(decided(number, everybody["ben"], "reject") for number in range(500, 504))]


def test_a_rule_from_the_form_to_on(everybody, history, as_) -> None:
    otto = as_("otto")
    found = otto.get(f"/?q=workflow:{WORKFLOW}+step:review+risk:low").content.decode()
    link = unescape(re.search(r'href="(/rules/[^"]*)"', found)[1])
    page = otto.get(link).content.decode()
    assert 'value="review"' in page
    assert 'value="risk:low"' in page
    for asked, why in {
        "step:review age:>2d": "cannot ask for age:&gt;2d",
        "risk:low": "A rule is for one step",
    }.items():
        told = otto.get("/", {"q": f"workflow:{WORKFLOW} {asked}"}).content.decode()
        assert why in told
        assert "Make a rule" not in told
    assert "/rules/" not in as_("ana").get(f"/?q=workflow:{WORKFLOW}+step:review").content.decode()
    typed = {"workflow": WORKFLOW, "step": "review", "condition": "words", "action": "approve"}
    typed |= {"quota": "x", "days": "7", "lasts": "90", "share": "1"}
    refused = otto.post("/rules/", typed)
    assert refused.status_code == 422
    assert "rule-quota-error" in refused.content.decode()
    assert "rule-share-error" in refused.content.decode()
    typed |= {"quota": "5", "share": "5"}
    assert "reads values, not words" in otto.post("/rules/", typed).content.decode()
    made = otto.post("/rules/", typed | {"condition": "proposal.amount:<100"})
    assert made.status_code == 302
    [rule] = Rule.objects.all()
    url = f"/rules/{rule.pk}/"
    assert "Not rehearsed yet" in otto.get(url).content.decode()
    otto.post(url, {"to": "shadow"})
    assert "what comes next is rehearsed" in otto.get(url).content.decode()
    otto.post(url, {"to": "rehearsed"})
    told = " ".join(otto.get(url).content.decode().split())
    assert "It would have answered <strong>30</strong>: people decided 30 the same way." in told
    otto.post(url, {"to": "shadow"})
    assert "Switch on" not in otto.get(url).content.decode()
    Rule.objects.update(since=timezone.now() - timedelta(days=8))
    RuleUse.objects.create(rule=rule, request=history[0], kind="shadow", at=timezone.now(), agrees=True)
    shown = " ".join(as_("vera").get(url).content.decode().split())
    assert "people agreed: approve" in shown
    assert 'name="to"' not in shown
    assert as_("ana").get(url).status_code == as_("sam").get(url).status_code == 404
    otto.post(url, {"to": "on"})
    assert Rule.objects.get().state == "on"
    assert "Rule r1: approve" in otto.get("/rules/").content.decode()
    otto.post(url, {"to": "suspended", "reason": "audit week"})
    assert "audit week" in otto.get(url).content.decode()
    Rule.objects.update(expires=timezone.now())
    expired = otto.get(url).content.decode()
    assert "It has expired" in expired
    assert 'name="to"' not in expired


def test_a_rule_by_the_api(everybody, history, as_) -> None:
    otto, given = as_("otto"), {"workflow": WORKFLOW, "step": "review", "condition": "proposal.amount:<100"}
    for name in ("ana", "ben", "vera", "sam"):
        assert as_(name).post("/api/v1/rules", given, **JSON).status_code == 403
    wrong = otto.post("/api/v1/rules", given | {"condition": "-proposal.amount:5"}, **JSON)
    assert wrong.status_code == 422
    assert wrong.json()["errors"][0]["loc"] == ["condition", "-proposal.amount"]
    assert otto.post("/api/v1/rules", given | {"share": 0.01}, **JSON).status_code == 422
    made = otto.post("/api/v1/rules", given, headers={"Idempotency-Key": "k"}, **JSON)
    assert made.status_code == 201
    assert otto.post("/api/v1/rules", given, headers={"Idempotency-Key": "k"}, **JSON).json() == made.json()
    path = f"/api/v1/rules/{made.json()['id']}"
    assert otto.post(f"{path}/state", {"to": "on"}, **JSON).status_code == 409
    told = otto.post(f"{path}/state", {"to": "rehearsed"}, **JSON).json()["rehearsal"]
    assert (told["looked"], told["fitting"], told["rest"]) == (34, {"approve": 30}, {"reject": 4})
    assert [row["name"] for row in as_("vera").get("/api/v1/rules").json()["items"]] == ["rule r1"]
    assert as_("ana").get("/api/v1/rules").json()["items"] == []
    assert as_("ana").get(path).status_code == 404
    assert as_("vera").post(f"{path}/state", {"to": "suspended"}, **JSON).status_code == 403
    assert as_("otto").get(f"/api/v1/rules/{10**30}").status_code in (404, 422)


def test_a_rule_is_suggested_where_the_evidence_is(everybody, history, as_) -> None:
    waiting = ask(make_run(), card=history[0].card, risk=1)
    otto, similar = as_("otto"), f"/requests/{waiting.pk}/similar/?tab=all"
    found = suggest(viewer("otto"), WORKFLOW, "review")
    assert (found.condition, found.count) == ("proposal.amount:>=10 proposal.amount:<=39", 30)
    for url in (similar, f"/statistics/?workflow={WORKFLOW}&days=30"):
        HumanRequest.objects.filter(answered__isnull=False).update(answered=timezone.now())
        page = " ".join(otto.get(url).content.decode().split())
        assert "30 similar requests approved, none changed" in page
        assert "condition=proposal.amount%3A%3E%3D10+proposal.amount%3A%3C%3D39#rule-new" in page
    assert "none changed" not in as_("ben").get(similar).content.decode()
    # What was decided otherwise narrows it; where nothing tells it apart, there is no suggestion.
    decided(20, everybody["ben"], "reject", context={"new": True})
    assert suggest(viewer("otto"), WORKFLOW, "review", history[0].card) is None
    for number in range(10, 35):
        decided(number, everybody["ben"], context={"new": False})
    told = suggest(viewer("otto"), WORKFLOW, "review", history[0].card | {"context": {"new": False}})
    assert (told.condition, told.count) == ("context.new:false", 25)
    given = {"workflow": WORKFLOW, "step": "review", "condition": told.condition}
    assert otto.post("/api/v1/rules", given | {"condition": "proposal.amount:<100"}, **JSON).status_code == 201
    assert "none changed" not in otto.get(similar).content.decode()


def test_a_rule_of_an_encrypted_installation_reads_its_history(everybody, settings, as_) -> None:
    settings.WFDASH_ENCRYPTION_KEYS = "a-secret-that-is-long-enough-to-be-one"
    kept = [decided(number, everybody["ben"]) for number in range(3)]
    HumanRequest.objects.filter(pk=kept[0].pk).update(card={"encrypted": "damaged"})
    otto, given = as_("otto"), {"workflow": WORKFLOW, "step": "review", "condition": "proposal.amount:<100"}
    made = otto.post("/api/v1/rules", given, **JSON).json()
    found = otto.post(f"/api/v1/rules/{made['id']}/state", {"to": "rehearsed"}, **JSON).json()["rehearsal"]
    assert (found["fitting"], found["unread"]) == ({"approve": 2}, 1)
    assert otto.get(f"/rules/{made['id']}/").status_code == 200
    with connection.cursor() as cursor:
        cursor.execute("SELECT condition, rehearsal FROM checkpoints_rule")
        assert "amount" not in str(cursor.fetchall())
