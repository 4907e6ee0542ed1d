"""Numbers and times that Python reads and cannot count with, or that a database keeps and Python cannot read."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import QueryDict
from django.utils import timezone

from checkpoints.models import HumanRequest
from tests import people
from wfdash.queries.search import MAX_DURATION, duration_of
from wfdash.web.pages.ui.forms import form

EDGES = ["9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59+00:00", "9999-12-31T23:59:59+14:00", "2090-01-01T00:00:00Z"]


@pytest.mark.parametrize("due", EDGES)
def test_a_deadline_at_the_end_of_time_is_refused(due: str, everybody: dict[str, User], as_: Any) -> None:
    request = people.ask(people.make_run())
    client = as_("otto")
    refused = client.post(f"/api/v1/requests/{request.pk}/deadline", {"due": due}, content_type="application/json")
    assert refused.status_code == 422
    assert "within the next ten years" in refused.json()["errors"][0]["msg"]
    assert HumanRequest.objects.get(pk=request.pk).due == request.due
    for address in ("/", "/?tab=all", f"/requests/{request.pk}/", f"/runs/{request.run_id}/", "/statistics/"):
        assert client.get(address).status_code == 200
    later = f"{timezone.now().year + 9}-01-01T00:00:00Z"
    asked = client.post(f"/api/v1/requests/{request.pk}/deadline", {"due": later}, content_type="application/json")
    assert asked.status_code == 200


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("after=\u00b2", 200),
        ("after=" + "9" * 5000, 200),
        ("q=after:0001-01-01T00:00:00%2B14:00", 422),
        ("q=before:9999-12-31T23:59:59-14:00", 422),
        ("q=after:2026-01-31", 200),
    ],
)
def test_the_audit_can_be_asked_for_any_time_and_place(query: str, status: int, as_: Any) -> None:
    assert as_("adam").get(f"/audit/?{query}").status_code == status


@pytest.mark.parametrize("digits", ["\u00b2", "9" * 5000, "-1", "", "\u0663"])
def test_a_form_s_counts_and_indexes_may_be_any_text(digits: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"anyOf": [{"type": "integer"}]}}}}
    posted = QueryDict(mutable=True)
    posted.update({"a!": digits, f"a.{digits}": "1", "a.0?": digits})
    assert form.FormView.from_schema(schema).bind(posted).value is not None
    for button in form.BUTTONS:
        pressed = posted.copy()
        pressed[button] = f"a.{digits}"
        assert form.FormView.from_schema(schema).bind(pressed).changed_rows


def test_a_span_of_many_parts_is_at_most_a_century() -> None:
    assert duration_of("999999w" * 300) == MAX_DURATION
