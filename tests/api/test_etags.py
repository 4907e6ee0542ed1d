"""Operations that take an ``ETag``: what is the same is not sent again, what has changed is not replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from checkpoints.models import Draft, HumanRequest, SavedView, Schedule
from tests import people
from wfdash.api.document import MATCH, NONE_MATCH, STREAMED, operations
from wfdash.api.router import api_document

JSON = {"content_type": "application/json"}
PLAN = {"name": "Nightly", "cron": "0 3 * * *", "message": {"claims": "x"}}
VIEW = {"name": "Mine", "query": "q=risk:high"}
FIELDS = {"fields": {"reason": ["too much"]}}
CHANGES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "change_schedule": ("schedules/{schedule}", {**PLAN, "name": "First"}, {**PLAN, "name": "Second"}),
    "change_view": ("views/{view}", {"name": "First"}, {"name": "Second"}),
    "save_draft": ("requests/{request}/draft", {"fields": {"reason": ["no"]}}, FIELDS),
    "rename_group": ("groups/{group}", {"name": "legal"}, {"name": "sales"}),
}
"""Operation -> address, the change that someone else makes, and the one that is refused."""
DELETES = {"delete_schedule": "change_schedule", "delete_view": "change_view", "drop_draft": "save_draft"}
"""Operation -> the change that someone else makes at the same address."""
UNTRIED = {"get_bulk"}
"""GETs of what is not there in this test."""
Ids = dict[str, str]


@pytest.fixture
def ids(run: Any, history: Any, question: HumanRequest, as_: Callable[..., Client]) -> Ids:
    adam = as_("adam")
    adam.post("/api/v1/schedules", {**PLAN, "workflow": people.WORKFLOW}, **JSON)
    adam.post("/api/v1/views", VIEW, **JSON)
    adam.post("/api/v1/groups", {"name": "team"}, **JSON)
    adam.put(f"/api/v1/requests/{question.pk}/draft", {"fields": {"reason": ["maybe"]}}, **JSON)
    made = {"schedule": Schedule.objects.get().pk, "view": SavedView.objects.get().pk, "group": "team"}
    return {**made, "run": run.pk, "request": question.pk, "checkpoint": history[0].pk}


def taking(header: dict[str, Any]) -> set[str]:
    found = operations(api_document())
    return {one["operationId"] for _, _, one in found if header["name"] in {p["name"] for p in one["parameters"]}}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_what_someone_else_changed_is_refused(name: str, ids: Ids, as_: Callable[..., Client]) -> None:
    path, first, second = CHANGES[name]
    adam, address = as_("adam"), f"/api/v1/{path.format(**ids)}"
    read = adam.get(address)["ETag"]
    assert adam.put(address, first, headers={"If-Match": f"W/{read}"}, **JSON).status_code < 300
    address = address.replace("groups/team", "groups/legal")
    changed = adam.get(address)
    refused = adam.put(address, second, headers={"If-Match": read}, **JSON)
    assert (refused.status_code, refused.json()["code"]) == (412, "outdated")
    assert refused.json()["etag"].strip('"') in changed["ETag"]
    assert adam.get(address).content == changed.content
    assert adam.put(address, second, headers={"If-Match": refused.json()["etag"]}, **JSON).status_code < 300


@pytest.mark.parametrize("name", DELETES)
def test_what_someone_else_changed_is_not_deleted(name: str, ids: Ids, as_: Callable[..., Client]) -> None:
    path, change, _ = CHANGES[DELETES[name]]
    adam, address = as_("adam"), f"/api/v1/{path.format(**ids)}"
    read = adam.get(address)["ETag"]
    adam.put(address, change, headers={"If-Match": "*"}, **JSON)
    assert adam.delete(address, headers={"If-Match": read}).status_code == 412
    assert adam.delete(address, headers={"If-Match": adam.get(address)["ETag"]}).status_code == 204
    assert adam.get(address).status_code == 404


def test_a_group_that_someone_joined_is_not_deleted(ids: Ids, as_: Callable[..., Client]) -> None:
    adam = as_("adam")
    read = adam.get("/api/v1/groups/team")["ETag"]
    adam.put("/api/v1/groups/team/members/ben")
    assert adam.delete("/api/v1/groups/team", headers={"If-Match": read}).status_code == 412
    assert adam.delete("/api/v1/groups/team").status_code == 204


def test_a_draft_that_is_gone_is_not_replaced_by_chance(ids: Ids, as_: Callable[..., Client]) -> None:
    adam, address = as_("adam"), f"/api/v1/requests/{ids['request']}/draft"
    read = adam.get(address)["ETag"]
    Draft.objects.all().delete()
    assert adam.put(address, FIELDS, headers={"If-Match": read}, **JSON).status_code == 412
    assert adam.put(address, FIELDS, **JSON).status_code == 204


def test_what_changes_by_itself_is_sent_again_and_refuses_no_change(ids: Ids, as_: Callable[..., Client]) -> None:
    adam, address = as_("adam"), f"/api/v1/schedules/{ids['schedule']}"
    read = adam.get(address)["ETag"]
    adam.post(f"{address}/pause", **JSON)
    assert adam.get(address, headers={"If-None-Match": read}).status_code == 200
    assert adam.put(address, PLAN, headers={"If-Match": read}, **JSON).status_code == 200


def values_for(operation: str, ids: Ids) -> dict[str, str]:
    """Return a value for each parameter that GETs need."""
    named = {"get_workflow": people.WORKFLOW, "get_group": "team"}.get(operation, "adam")
    found = {f"{name}_id": one for name, one in ids.items()}
    plain = {"part": "state", "seq": "1", "n": "1", "a": "1", "b": "2", "q": "x", "cron": "@daily"}
    return {**found, **plain, "workflow": people.WORKFLOW, "name": named}


def test_what_is_still_the_same_is_not_sent_again(ids: Ids, as_: Callable[..., Client]) -> None:
    adam, tried = as_("adam"), set()
    for path, method, one in operations(api_document()):
        if method == "get" and one["operationId"] not in STREAMED | UNTRIED:
            known, address = values_for(one["operationId"], ids), path
            needed = {p["name"]: known[p["name"]] for p in one["parameters"] if p["in"] == "query" and p["required"]}
            first = adam.get(address.format(**known), needed)
            assert first.status_code == 200, (path, first.content)
            again = adam.get(address.format(**known), needed, headers={"If-None-Match": f'"x", W/{first["ETag"]}'})
            assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"]), path
            tried.add(one["operationId"])
    assert tried | UNTRIED == taking(NONE_MATCH)


def test_every_operation_that_takes_a_tag_was_tried() -> None:
    assert taking(MATCH) == {*CHANGES, *DELETES, "delete_group"}
