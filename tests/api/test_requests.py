from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from checkpoints.models import Answer, Draft, HumanRequest
from tests import people

JSON = {"content_type": "application/json"}


@pytest.fixture
def address(question):
    return f"/api/v1/requests/{question.pk}"


def test_an_answer_is_bound_to_what_was_seen(address, question, as_):
    ana, otto = as_("ana"), as_("otto")
    seen = ana.get(address).json()["seen"]
    assert otto.post(f"{address}/amend", {"body": "More."}, **JSON).status_code == 204
    given = {"value": {"action": "approve"}, "seen": seen}
    late = ana.post(f"{address}/answer", given, **JSON)
    assert late.status_code == 409
    assert late.json()["after"]["body"].endswith("More.")
    assert ana.post(f"{address}/answer", {**given, "seen": ana.get(address).json()["seen"]}, **JSON).status_code == 200


def test_an_answer_takes_effect_at_once_unless_it_shall_be_possible_to_take_it_back(address, as_):
    ana = as_("ana")
    given = {"value": {"action": "approve"}, "undo": True}
    assert ana.post(f"{address}/answer", given, **JSON).json()["settles"] is not None
    assert not Answer.objects.exists()
    assert ana.post(f"{address}/undo", **JSON).status_code == 204
    assert ana.post(f"{address}/answer", {"value": {"action": "approve"}}, **JSON).json()["settles"] is None
    assert ana.post(f"{address}/undo", **JSON).status_code == 409


def test_a_thread_is_read_and_written(address, as_):
    ana, otto = as_("ana"), as_("otto")
    said = ana.post(f"{address}/comments", {"text": "For what, @otto?", "kind": "ask"}, **JSON)
    assert (said.status_code, said.json()["mentions"]) == (201, ["otto"])
    otto.post(f"{address}/comments", {"text": "The fair", "kind": "reply"}, **JSON)
    assert [line["kind"] for line in ana.get(f"{address}/comments").json()["items"]] == ["ask", "reply"]
    assert as_("sam").get(f"{address}/comments").status_code == 404


def test_it_is_assigned_and_drafted(address, as_):
    ana = as_("ana")
    assert ana.post(f"{address}/assign", {"to": "ben"}, **JSON).json()["assignee"] == "ben"
    assert ana.post(f"{address}/assign", {"to": "vera"}, **JSON).status_code == 422
    assert HumanRequest.objects.get().assignee.username == "ben"
    assert ana.put(f"{address}/draft", {"fields": {"reason": ["x"]}}, **JSON).status_code == 204
    assert Draft.objects.get().fields == {"reason": ["x"]}
    assert ana.delete(f"{address}/draft").status_code == 204
    assert not Draft.objects.exists()


def test_it_is_snoozed_for_oneself_alone(address, as_):
    ana, later = as_("ana"), (timezone.now() + timedelta(hours=2)).replace(microsecond=0).isoformat()
    given = ana.post(f"{address}/snooze", {"until": later}, **JSON).json()
    assert datetime.fromisoformat(given["until"]) == datetime.fromisoformat(later)
    tabs = ana.get(f"{address.rsplit('/', 1)[0]}/counts").json()["tabs"]
    assert (tabs["mine"], tabs["snoozed"], tabs["all"]) == (0, 1, 1)
    assert as_("ben").get(f"{address.rsplit('/', 1)[0]}/counts").json()["tabs"]["snoozed"] == 0
    past = {"until": "2001-01-01T00:00:00Z"}
    assert ana.post(f"{address}/snooze", past, **JSON).status_code == 422
    assert ana.post(f"{address}/snooze", {"until": None}, **JSON).json()["until"] is None
    assert as_("sam").post(f"{address}/snooze", past, **JSON).status_code == 404


def test_who_has_it_open(address, question, as_):
    as_("ben").post(f"/requests/{question.pk}/presence/")
    assert [person["name"] for person in as_("ana").get(f"{address}/people").json()["items"]] == ["ben"]


def test_an_operator_overrides_with_a_reason(run, as_):
    question = people.ask(run, by=["finance"])
    given = {"value": {"action": "approve"}, "override": True}
    address = f"/api/v1/requests/{question.pk}/answer"
    assert as_("otto").post(address, given, **JSON).status_code == 422
    assert as_("otto").post(address, {**given, "reason": "Nobody is in"}, **JSON).json()["stands"] == "overrode"


def test_a_tab_that_does_not_exist_is_refused_as_are_keys_that_are_too_long(as_, question) -> None:
    ana = as_("ana")
    assert ana.get("/api/v1/requests?tab=mien").json()["errors"][0]["loc"] == ["tab"]
    assert ana.get("/api/v1/requests?tab=groups").status_code == 200
    address, headers = f"/api/v1/requests/{question.pk}/take", {"Idempotency-Key": "k" * 501}
    refused = ana.post(address, headers=headers)
    assert (refused.status_code, refused.json()["errors"][0]["loc"]) == (422, ["Idempotency-Key"])
