from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from checkpoints.models import Comment, Event, HumanRequest, Reply, Run

KEY = {"Idempotency-Key": "k"}
YES = {"value": {"action": "approve"}}


@pytest.fixture
def post(as_):
    def send(path: str, data: Any = None, *, name: str = "otto", headers: dict[str, str] = KEY):
        return as_(name).post(f"/api/v1{path}", data or {}, content_type="application/json", headers=headers)

    return send


@pytest.mark.parametrize(
    ("phase", "verb", "kind"),
    [
        ("waiting", "pause", "run.paused"),
        ("paused", "resume", "run.resumed"),
        ("failed", "retry", "run.retried"),
        ("waiting", "cancel", "run.cancelled"),
    ],
)
def test_a_verb_with_a_key_is_done_once_and_answers_the_same(post, run, phase, verb, kind):
    Run.objects.filter(pk=run.pk).update(phase=phase, acted_by="otto")
    answers = [post(f"/runs/{run.pk}/{verb}") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json() == answers[1].json()
    assert Event.objects.filter(run=run, kind=kind).count() == 1
    assert post(f"/runs/{run.pk}/{verb}", headers={}).status_code == 409, "another command"


def test_a_key_that_stood_for_another_command_is_a_conflict_with_a_remedy(post, run):
    post(f"/runs/{run.pk}/pause")
    refused = post(f"/runs/{run.pk}/cancel")
    assert (refused.status_code, refused.json()["status"]) == (409, 409)
    assert "use a new key for each" in refused.json()["detail"]
    assert (refused.json()["code"], refused.json()["verb"]) == ("key_reused", "pause")


def test_requests_are_answered_talked_about_and_given_away_once_per_key(post, question):
    path = f"/requests/{question.pk}"
    for given in ({"text": "Hm"}, {"text": "Hm"}):
        assert post(f"{path}/comments", given, name="ana").status_code == 201
    assert Comment.objects.count() == 1
    for _ in range(2):
        key = {"Idempotency-Key": "give"}
        assert post(f"{path}/assign", {"to": "ana"}, headers=key).json()["assignee"] == "ana"
    answers = [post(f"{path}/answer", YES, name="ana", headers={"Idempotency-Key": "say"}) for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    assert (Reply.objects.count(), Event.objects.filter(kind="request.assigned").count()) == (1, 1)


def test_an_operator_answers_in_someone_s_name(post, question):
    given = {**YES, "reason": "On the phone", "on_behalf_of": "ana"}
    assert post(f"/requests/{question.pk}/answer", given).status_code == 200
    assert (Reply.objects.get().by.username, Reply.objects.get().acting_for) == ("otto", "ana")


def test_a_deadline_is_moved(post, question):
    due = (datetime.now(UTC) + timedelta(days=2)).replace(microsecond=0)
    told = post(f"/requests/{question.pk}/deadline", {"due": due.isoformat()})
    assert (told.status_code, HumanRequest.objects.get(pk=question.pk).due) == (200, due)
    late = post(f"/requests/{question.pk}/deadline", {"due": "2020-01-01T00:00:00Z"}, headers={})
    assert (late.status_code, late.json()["errors"][0]["loc"]) == (422, ["due"])
    assert post(f"/requests/{question.pk}/deadline", {"due": "2020-01-01T00:00:00"}, headers={}).status_code == 422
    assert post(f"/requests/{question.pk}/deadline", {"due": due.isoformat()}, name="vera").status_code == 403


def test_where_nothing_runs_cancelling_after_the_step_is_at_once(post, run):
    assert post(f"/runs/{run.pk}/cancel?after_step=true").status_code == 200
    assert Run.objects.get(pk=run.pk).phase == "cancelled"


def test_a_run_is_started_once_by_the_header_too(post):
    given = {"workflow": "expense_batch", "message": {"claims": "x"}}
    ids = {post("/runs", given).json()["id"] for _ in range(2)}
    assert len(ids) == 1
    assert post("/runs", {**given, "message": {"claims": "y"}}).status_code == 409
