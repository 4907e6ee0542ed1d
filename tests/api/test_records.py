"""One class per noun: the query returns the record that the API serves, and no field of a page is sent."""

from __future__ import annotations

from typing import Any

import pytest

from tests import people
from wfdash.records.people import PersonSummary
from wfdash.records.requests import RequestDetail
from wfdash.records.runs import RunDetail, RunSummary
from wfdash.records.statistics import OperationsRecord, StatisticsRecord

pytestmark = pytest.mark.django_db


def test_no_field_of_a_page_is_sent(as_: Any) -> None:
    people.make_people()
    run = people.make_run()
    request = people.ask(run)
    asked = as_("adam")
    sent = {
        f"/runs/{run.pk}": RunDetail,
        f"/requests/{request.pk}": RequestDetail,
        "/people/ana": PersonSummary,
        "/statistics": StatisticsRecord,
        "/operations": OperationsRecord,
    }
    for address, record in sent.items():
        assert asked.get(f"/api/v1{address}").json().keys() == record.model_fields.keys(), address
    (row,) = asked.get("/api/v1/runs").json()["items"]
    assert row.keys() == RunSummary.model_fields.keys()
