"""Every list has one shape, and no operation takes a parameter that it does not know."""

from __future__ import annotations

import pytest

from tests.api.test_bodies import filled
from wfdash.api.router import api

PATHS = api.get_openapi_schema()["paths"]


@pytest.mark.parametrize(("path", "method"), [(path, method) for path in PATHS for method in PATHS[path]])
def test_a_parameter_that_no_operation_knows_is_refused_by_its_name(path: str, method: str, as_) -> None:
    given = {"content_type": "application/json"} if method != "get" else {}
    address = f"{filled(path)}?no_such_parameter=1"
    answer = getattr(as_("adam"), method)(address, **given)
    if answer.status_code == 422 and answer.json()["errors"][0]["msg"] == "This field is required":
        return  # What is missing is named first.
    assert answer.status_code == 422, (path, answer.content)
    assert answer.json()["errors"][0]["loc"] == ["no_such_parameter"]


def test_lists_say_where_the_next_page_begins(as_, run, question) -> None:
    schemas = api.get_openapi_schema()["components"]["schemas"]
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
