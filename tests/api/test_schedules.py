from __future__ import annotations

import pytest

from checkpoints.models import Run, Schedule

JSON = {"content_type": "application/json"}
PLAN = {
    "workflow": "expense_batch",
    "name": "Nightly",
    "cron": "0 3 * * *",
    "zone": "Europe/Berlin",
    "message": {"claims": "x"},
}


@pytest.fixture
def address(as_):
    return f"/api/v1/schedules/{as_('otto').post('/api/v1/schedules', PLAN, **JSON).json()['id']}"


def test_a_schedule_is_made_once_per_key_and_read(as_):
    otto = as_("otto")
    answers = [otto.post("/api/v1/schedules", PLAN, headers={"Idempotency-Key": "k"}, **JSON) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    made = answers[0].json()
    assert made["id"] == answers[1].json()["id"]
    assert (made["state"], made["words"], len(made["upcoming"])) == ("on", "At 03:00 every day", 5)
    assert made["next_at"] == made["upcoming"][0]
    assert otto.get(f"/api/v1/schedules/{made['id']}").json()["message"] == {"claims": "x"}
    assert as_("ana").get(f"/api/v1/schedules/{made['id']}").json()["message"] is None
    found = otto.get("/api/v1/schedules?q=state:on&workflow=expense_batch").json()["items"]
    assert [row["name"] for row in found] == ["Nightly"]
    assert otto.get("/api/v1/schedules?q=state:paused").json()["items"] == []
    assert [row["name"] for row in otto.get("/api/v1/schedules?q=-state:paused").json()["items"]] == ["Nightly"]
    assert otto.get("/api/v1/schedules?q=colour:red").status_code == 422


def test_mistakes_come_with_their_fields(as_):
    answer = as_("otto").post("/api/v1/schedules", {**PLAN, "cron": "x", "message": {}}, **JSON)
    assert answer.status_code == 422
    assert {error["loc"][0] for error in answer.json()["errors"]} == {"cron", "message"}
    assert as_("otto").get("/api/v1/schedules/next?cron=61+*+*+*+*").status_code == 422
    assert len(as_("vera").get("/api/v1/schedules/next?cron=@daily&zone=UTC").json()["upcoming"]) == 5


def test_it_is_changed_paused_resumed_run_and_deleted(as_, address):
    adam = as_("adam")
    plan = {name: value for name, value in PLAN.items() if name != "workflow"}
    changed = {**plan, "cron": "0 4 * * *", "missed": "all", "overlap": "skip"}
    assert adam.put(address, changed, headers={"If-Match": "*"}, **JSON).json()["owner"] == "adam"
    assert adam.post(f"{address}/pause", **JSON).json()["state"] == "paused"
    assert adam.post(f"{address}/pause", **JSON).status_code == 409
    assert adam.post(f"{address}/resume", **JSON).json()["next_at"]
    run = adam.post(f"{address}/run", **JSON)
    assert (run.status_code, run.json()["id"]) == (201, Run.objects.get().pk)
    assert adam.get(address).json()["last_run"] == Run.objects.get().pk
    assert adam.delete(address).status_code == 204
    assert not Schedule.objects.exists()


@pytest.mark.parametrize(("name", "status"), [("vera", 403), ("sam", 404)])
def test_rights_are_those_of_the_pages(name, status, as_, address):
    client = as_(name)
    assert client.post("/api/v1/schedules", PLAN, **JSON).status_code == status
    for verb in ("pause", "resume", "run"):
        assert client.post(f"{address}/{verb}", **JSON).status_code == status
    assert client.delete(address).status_code == status


def test_a_change_of_what_someone_else_changed_since_is_refused(as_, address: str) -> None:
    otto = as_("otto")
    read = otto.get(address)["ETag"]
    plan = {name: value for name, value in PLAN.items() if name != "workflow"}
    without = otto.put(address, plan, **JSON)
    assert (without.status_code, without.json()["code"]) == (428, "condition_missing")
    first = otto.put(address, {**plan, "name": "First"}, headers={"If-Match": read}, **JSON)
    assert (first.status_code, first["ETag"] != read) == (200, True)
    second = otto.put(address, {**plan, "name": "Second"}, headers={"If-Match": f"W/{read}"}, **JSON)
    assert (second.status_code, second.json()["etag"]) == (412, first["ETag"])
    assert otto.get(address).json()["name"] == "First"
    assert otto.put(address, plan, headers={"If-Match": "*"}, **JSON).status_code == 200
    assert otto.put(f"{address}x", plan, **JSON).status_code == 404
