"""Operations that take an ``ETag``: what is the same is not sent again, what has changed is not replaced."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from checkpoints.models import Draft
from tests.api.document.calls import PLAN, Call
from wfdash.web.api.document import MATCH, NONE_MATCH, STREAMED, operations
from wfdash.web.api.router import api_document

JSON = {"content_type": "application/json"}
FIELDS = {"fields": {"reason": ["too much"]}}
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "change_schedule": ({**PLAN, "name": "First"}, {**PLAN, "name": "Second"}),
    "change_view": ({"name": "First"}, {"name": "Second"}),
    "save_draft": ({"fields": {"reason": ["no"]}}, FIELDS),
    "rename_group": ({"name": "legal"}, {"name": "sales"}),
}
"""Operation -> the change that someone else makes, and the one that is refused."""
DELETES = {"delete_schedule": "change_schedule", "delete_view": "change_view", "drop_draft": "save_draft"}
"""Operation -> the change that someone else makes at the same address."""


def taking(header: dict[str, Any]) -> set[str]:
    found = operations(api_document())
    return {one["operationId"] for _, _, one in found if header["name"] in {p["name"] for p in one["parameters"]}}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_what_someone_else_changed_is_refused(name: str, each: dict[str, Call], adam: Client) -> None:
    (first, second), address = CHANGES[name], each[name].address
    read = adam.get(address)["ETag"]
    assert adam.put(address, first, headers={"If-Match": f"W/{read}"}, **JSON).status_code < 300
    address = address.replace("groups/team", "groups/legal")
    changed = adam.get(address)
    refused = adam.put(address, second, headers={"If-Match": read}, **JSON)
    assert (refused.status_code, refused.json()["code"]) == (412, "outdated")
    assert refused.json()["etag"].strip('"') in changed["ETag"]
    assert refused.json()["detail"].endswith("Nothing was changed.")
    assert adam.get(address).content == changed.content
    assert adam.put(address, second, headers={"If-Match": refused.json()["etag"]}, **JSON).status_code < 300


@pytest.mark.parametrize("name", DELETES)
def test_what_someone_else_changed_is_not_deleted(name: str, each: dict[str, Call], adam: Client) -> None:
    (change, _), address = CHANGES[DELETES[name]], each[name].address
    read = adam.get(address)["ETag"]
    adam.put(address, change, headers={"If-Match": "*"}, **JSON)
    assert adam.delete(address, headers={"If-Match": read}).status_code == 412
    assert adam.delete(address, headers={"If-Match": adam.get(address)["ETag"]}).status_code == 204
    assert adam.get(address).status_code == 404


def test_a_group_that_someone_joined_is_not_deleted(each: dict[str, Call], adam: Client) -> None:
    read = adam.get("/api/v1/groups/team")["ETag"]
    adam.put("/api/v1/groups/team/members/ben")
    assert adam.delete("/api/v1/groups/team", headers={"If-Match": read}).status_code == 412
    assert adam.delete("/api/v1/groups/team").status_code == 204


def test_a_draft_that_is_gone_is_not_replaced_by_chance(each: dict[str, Call], adam: Client) -> None:
    address = each["get_draft"].address
    read = adam.get(address)["ETag"]
    Draft.objects.all().delete()
    assert adam.put(address, FIELDS, headers={"If-Match": read}, **JSON).status_code == 412
    assert adam.put(address, FIELDS, **JSON).status_code == 204


def test_what_changes_by_itself_is_sent_again_and_refuses_no_change(each: dict[str, Call], adam: Client) -> None:
    address = each["get_schedule"].address
    read = adam.get(address)["ETag"]
    adam.post(f"{address}/pause", **JSON)
    assert adam.get(address, headers={"If-None-Match": read}).status_code == 200
    assert adam.put(address, PLAN, headers={"If-Match": read}, **JSON).status_code == 200


def test_what_is_still_the_same_is_not_sent_again(each: dict[str, Call], adam: Client) -> None:
    for name in sorted(taking(NONE_MATCH)):
        first = each[name].send(adam)
        assert first.status_code == 200, (name, first.content)
        again = each[name].send(adam, **{"If-None-Match": f'"x", W/{first["ETag"]}'})
        assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"]), name
    gets = {one["operationId"] for _, method, one in operations(api_document()) if method == "get"}
    assert taking(NONE_MATCH) == gets - STREAMED


def test_every_operation_that_takes_a_tag_was_tried() -> None:
    assert taking(MATCH) == {*CHANGES, *DELETES, "delete_group"}
