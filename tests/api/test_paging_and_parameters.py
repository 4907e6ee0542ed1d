"""Every list has one shape, and no operation takes a parameter that it does not know."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from checkpoints.models.user_model import User
from tests import people
from tests.api.openapi import document, operations
from tests.api.test_bodies import filled
from wfdash.web.api.router import MISSING, NO_OBJECT

PATHS = operations()


@pytest.mark.parametrize(("path", "method"), [(path, method) for path in PATHS for method in PATHS[path]])
def test_a_parameter_that_no_operation_knows_is_refused_by_its_name(path: str, method: str, as_) -> None:
    given = {"content_type": "application/json"} if method != "get" else {}
    address = f"{filled(path)}?no_such_parameter=1"
    answer = getattr(as_("adam"), method)(address, **given)
    if answer.status_code == 422 and answer.json()["errors"][0]["msg"] in (MISSING, NO_OBJECT):
        return  # What is missing is named first.
    assert answer.status_code == 422, (path, answer.content)
    assert answer.json()["errors"][0]["loc"] == ["no_such_parameter"]


def test_lists_say_where_the_next_page_begins(as_, run, question) -> None:
    schemas = document()["components"]["schemas"]
    pages = {name: one for name, one in schemas.items() if name.endswith("Page")}
    assert len(pages) > 5
    assert all({"items", "next"} <= one["properties"].keys() for one in pages.values())


def test_pages_of_checkpoints_follow_each_other_without_gap(as_, run, history) -> None:
    client, seen, after = as_("otto"), [], ""
    while True:
        page = client.get(f"/api/v1/runs/{run.pk}/checkpoints", {"limit": 1, "after": after}).json()
        seen += [one["id"] for one in page["items"]]
        after = page["next"]
        if not after:
            break
    assert sorted(seen) == sorted(one.pk for one in history)
    assert client.get(f"/api/v1/runs/{run.pk}/checkpoints", {"after": "x"}).status_code == 422


LISTS = {
    one["get"]["operationId"]: path
    for path, one in PATHS.items()
    if {"after", "limit"} <= {named["name"] for named in one.get("get", {}).get("parameters", ())}
}
CURSORS = (["\ud800"], ["\ud800", "\ud800"], [{"at": "9999-12-31T23:59:59-14:00"}, "x"], [[[]]], [2**70], {}, None)
"""What a cursor may hold that none of ours does."""


def pages(client: Any, address: str) -> list[Any]:
    """Return all items, in pages of one."""
    found, after = [], ""
    while True:
        page = client.get(address, {"limit": 1, **({"after": after} if after else {})}).json()
        found, after = [*found, *page["items"]], str(page["next"])
        if not (page["items"] and after):
            return found


@pytest.mark.parametrize("name", LISTS)
def test_small_pages_join_to_the_whole_list(name: str, as_, run, history, question) -> None:
    people.ask(run, created=question.created)
    people.answered(people.ask(run, created=question.created), User.objects.get(username="adam"))
    client, address = as_("adam"), LISTS[name].format(run_id=run.pk, workflow=people.WORKFLOW, name=people.WORKFLOW)
    assert all(client.post(f"/api/v1/runs/{run.pk}/{verb}").status_code == 200 for verb in ("pause", "resume"))
    assert pages(client, address) == client.get(address, {"limit": 1000}).json()["items"]
    for cursor in CURSORS:
        text = base64.urlsafe_b64encode(json.dumps(cursor).encode()).decode().rstrip("=")
        assert client.get(address, {"after": text}).status_code in {200, 422}, cursor


@pytest.mark.parametrize("address", ["/api/v1/people", f"/api/v1/access/{people.WORKFLOW}"])
def test_people_who_come_and_go_shift_no_page(address: str, as_) -> None:
    client = as_("adam")
    before = [one["name"] for one in client.get(address).json()["items"]]
    first = client.get(address, {"limit": 2}).json()
    User.objects.create_superuser("aaron")
    User.objects.filter(username=before[1]).delete()
    rest = client.get(address, {"limit": 100, "after": first["next"]}).json()
    assert [one["name"] for one in [*first["items"], *rest["items"]]] == before
    assert rest["next"] == ""
