"""One class per noun: the query returns the record that the API serves, and no field of a page is sent."""

from __future__ import annotations

import dataclasses
import inspect
from importlib import import_module
from pkgutil import iter_modules, walk_packages
from types import ModuleType
from typing import Any

import pytest

from tests import people
from wfdash import queries, records
from wfdash.records.base import ApiRecord, Body
from wfdash.records.people import PersonSummary
from wfdash.records.requests import RequestDetail
from wfdash.records.runs import RunDetail, RunSummary
from wfdash.records.statistics import OperationsRecord, StatisticsRecord

pytestmark = pytest.mark.django_db
FEW = 3
"""Fields that two nouns may share by chance."""
EXCEPTIONS = {
    "FoundEverything": "the palette keeps apart what an id leads to and what words lead to, and shows requests as rows",
    "StepMove": "an execution's transitions are made and changed by thousands: they are light objects of the history",
}


def classes_in(modules: list[ModuleType]) -> list[type[Any]]:
    return [
        one
        for module in modules
        for one in vars(module).values()
        if inspect.isclass(one) and one.__module__ == module.__name__
    ]


def test_no_dataclass_of_a_query_repeats_a_record() -> None:
    rooms = [import_module(one.name) for one in walk_packages(queries.__path__, "wfdash.queries.")]
    nouns = [import_module(f"wfdash.records.{one.name}") for one in iter_modules(records.__path__)]
    fields = {
        one.__name__: {field.name for field in dataclasses.fields(one)}
        for one in classes_in(rooms)
        if dataclasses.is_dataclass(one)
    }
    repeated = {
        record.__name__: name
        for record in classes_in(nouns)
        if issubclass(record, ApiRecord) and len(record.model_fields) >= FEW
        for name, known in fields.items()
        if len(known & record.model_fields.keys()) >= 0.8 * len(record.model_fields)
    }
    assert repeated.keys() == EXCEPTIONS.keys(), repeated


def test_every_record_is_complete_once_it_is_imported() -> None:
    """One that names a later class would be completed at its first use, by whichever thread that is."""
    rooms = [import_module(one.name) for one in walk_packages(queries.__path__, "wfdash.queries.")]
    nouns = [import_module(f"wfdash.records.{one.name}") for one in iter_modules(records.__path__)]
    known = [one for one in classes_in(rooms + nouns) if issubclass(one, ApiRecord | Body)]
    assert [one.__name__ for one in known if not one.__pydantic_complete__] == []


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
