from __future__ import annotations

import pytest
from django.test import Client

from checkpoints.models import Checkpoint, Run
from tests import people
from wfdash.telemetry import tracing
from wfdash.web.api.document import all_kinds


def test_no_one_gets_anything_without_a_session(run):
    assert Client().get(f"/api/v1/runs/{run.pk}").status_code == 401


def test_posts_need_the_token(question, everybody):
    client = Client(enforce_csrf_checks=True)
    client.force_login(everybody["ana"])
    answer = client.post(f"/api/v1/requests/{question.pk}/answer", {"value": {}}, content_type="application/json")
    assert answer.status_code == 403


def test_a_run_is_read_with_its_events_and_checkpoints(run, history, as_):
    client = as_("vera")
    assert client.get("/api/v1/runs").json()["items"][0]["id"] == run.pk
    assert client.get(f"/api/v1/runs/{run.pk}").json()["status"] == "waiting"
    events = client.get(f"/api/v1/runs/{run.pk}/events?after=2&limit=3").json()["items"]
    assert [event["seq"] for event in events] == [3, 4, 5]
    rail = client.get(f"/api/v1/runs/{run.pk}/checkpoints").json()
    assert [row["n"] for row in rail["items"]] == [3, 2, 1]
    assert client.get(f"/api/v1/runs/{run.pk}/checkpoints/{history[1].pk}").json()["state"]["n"] == 2


def test_the_past_shows_what_a_checkpoints_owner_noted_to_those_alone_who_may_inspect(run, history, as_):
    Checkpoint.objects.filter(run=run).update(facts='{"cost": 3}')
    address = f"/api/v1/runs/{run.pk}/at/{run.seq}"
    assert as_("vera").get(address).json()["checkpoint"]["facts"] == {"cost": 3}
    assert as_("ana").get(address).json()["checkpoint"]["facts"] == {}


@pytest.mark.parametrize("path", ["", "/events", "/checkpoints", "/checkpoints/x"])
def test_a_stranger_finds_nothing(path, run, as_):
    answer = as_("sam").get(f"/api/v1/runs/{run.pk}{path}")
    assert answer.status_code == 404
    assert answer.json()["status"] == 404


def test_answers_follow_the_rules_of_the_pages(question, as_):
    ana, ben = as_("ana"), as_("ben")
    address = f"/api/v1/requests/{question.pk}/answer"
    wrong = ana.post(address, {"value": {"action": "explode"}}, content_type="application/json")
    assert wrong.status_code == 422
    assert wrong.json()["errors"][0]["loc"] == ["action"]
    right = {"value": {"action": "approve"}}
    assert ana.post(address, right, content_type="application/json").json()["verdict"] == "approve"
    late = ben.post(address, right, content_type="application/json")
    assert late.status_code == 409
    assert late.json()["by"] == "ana"


def test_a_run_is_started_once_per_key(as_):
    given = {"workflow": "expense_batch", "message": {"claims": "x"}, "key": "k"}
    client = as_("otto")
    answers = [client.post("/api/v1/runs", given, content_type="application/json") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json() == answers[1].json()
    bad = client.post("/api/v1/runs", {**given, "message": {}, "key": None}, content_type="application/json")
    assert bad.status_code == 422
    assert as_("ana").post("/api/v1/runs", given, content_type="application/json").status_code == 403


def test_the_trace_of_the_caller_who_starts_a_run_is_told_of_it(as_, monkeypatch):
    told: list[tuple[str, str]] = []
    monkeypatch.setattr(tracing, "started", lambda run, workflow, headers: told.append((run, headers["traceparent"])))
    given = {"workflow": "expense_batch", "message": {"claims": "x"}}
    headers = {"traceparent": "00-a-b-01"}
    answer = as_("otto").post("/api/v1/runs", given, content_type="application/json", headers=headers)
    assert told == [(answer.json()["id"], "00-a-b-01")]


def test_history_can_be_restored_and_forked(run, history, as_):
    client = as_("otto")
    address = f"/api/v1/runs/{run.pk}/checkpoints/{history[0].pk}"
    assert client.post(f"{address}/restore", content_type="application/json").json()["n"] == 4
    assert client.post(f"{address}/fork", content_type="application/json").status_code == 201
    assert Run.objects.count() == 2
    assert as_("vera").post(f"{address}/restore", content_type="application/json").status_code == 403


@pytest.mark.parametrize("verb", ["pause", "resume", "cancel", "retry"])
def test_verbs_answer_with_conflict_where_they_do_not_fit(verb, run, as_):
    Run.objects.filter(pk=run.pk).update(phase="completed")
    answer = as_("otto").post(f"/api/v1/runs/{run.pk}/{verb}")
    assert answer.status_code == 409
    assert verb in answer.json()["detail"]


def test_requests_are_listed_and_read(question, as_):
    people.ask(people.make_run(), by=["finance"])
    assert len(as_("ben").get("/api/v1/requests").json()["items"]) == 1
    assert as_("ana").get(f"/api/v1/requests/{question.pk}").json()["state"] == "open"


def test_nonsense_in_the_query_is_refused(as_):
    assert as_("vera").get("/api/v1/runs?limit=0").status_code == 422
    assert as_("vera").get("/api/v1/runs?after=%00nonsense").status_code == 200


def test_a_run_names_its_open_requests_and_the_filter_finds_them(as_, run, question) -> None:
    found = as_("vera").get(f"/api/v1/runs/{run.pk}").json()
    (asked,) = found["requests"]
    assert (asked["id"], asked["key"], asked["step"], found["rests"]) == (question.pk, question.key, "review", True)
    listed = as_("ana").get("/api/v1/requests", {"tab": "all", "q": f"run:{run.pk}"}).json()["items"]
    assert [one["id"] for one in listed] == [question.pk]
    assert as_("ana").get("/api/v1/requests", {"tab": "all", "q": "run:other"}).json()["items"] == []


def test_an_answered_request_says_what_was_answered(as_, question) -> None:
    address = f"/api/v1/requests/{question.pk}"
    assert as_("ana").get(address).json()["answer"] is None
    as_("ana").post(f"{address}/answer", {"value": {"action": "approve"}}, content_type="application/json")
    assert as_("ana").get(address).json()["answer"]["verdict"] == "approve"


def test_the_catalogue_shows_what_a_workflow_takes_and_a_check_starts_nothing(as_) -> None:
    (row,) = as_("otto").get("/api/v1/workflows?q=workflow:expense_batch").json()["items"]
    assert row["may_start"]
    assert not as_("ana").get("/api/v1/workflows").json()["items"][0]["may_start"]
    assert "claims" in as_("otto").get("/api/v1/workflows/expense_batch").json()["input_schema"]["properties"]
    given = {"workflow": "expense_batch", "message": {"claims": "x"}}
    assert as_("otto").post("/api/v1/runs/check", given, content_type="application/json").status_code == 200
    wrong = as_("otto").post("/api/v1/runs/check", {**given, "message": {}}, content_type="application/json")
    assert (wrong.status_code, wrong.json()["errors"][0]["loc"]) == (422, ["claims"])
    assert as_("ana").post("/api/v1/runs/check", given, content_type="application/json").status_code == 403
    assert as_("otto").get("/api/v1/runs").json()["items"] == []


def test_me_is_the_caller_with_their_rights(as_) -> None:
    found = as_("ana").get("/api/v1/me").json()
    assert found["name"] == "ana"
    assert {"see", "answer"} <= {verb for one in found["rights"] for verb in one["verbs"]}


def test_the_reference_shows_every_operation_and_every_kind_of_error(as_) -> None:
    page = as_("ana").get("/api/v1/docs/").content.decode()
    document = as_("").get("/api/v1/openapi.json").json()
    names = [one["operationId"] for methods in document["paths"].values() for one in methods.values()]
    assert [name for name in names if f'id="{name}"' not in page] == []
    assert [one.code for one in all_kinds() if f'id="problem-{one.code}"' not in page] == []
    assert "http://testserver/api/v1/runs" in page
    assert as_("ana").get("/api/")["Location"] == "/api/v1/docs/"
    assert as_("").get("/api/v1/docs/").status_code == 302
