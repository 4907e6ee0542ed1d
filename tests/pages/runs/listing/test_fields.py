"""Columns of input and output: typed, bounded, only for those who may inspect, never a secret."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape

import pytest

from checkpoints.ids import WorkflowId
from checkpoints.models import Grant, Preference, Run
from tests import people
from tests.pages.paper import expenses
from wfdash.engines import catalog
from wfdash.queries.runs.listing import run_rows
from wfdash.queries.runs.values import field_values

INPUT = {
    "type": "object",
    "$defs": {"Level": {"type": "string", "enum": ["low", "high"]}},
    "properties": {
        "amount": {"type": "number", "title": "Amount"},
        "customer_id": {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "Customer Id"},
        "price": {"anyOf": [{"type": "number"}, {"type": "string"}]},
        "due_at": {"type": "string", "format": "date-time"},
        "urgent": {"type": "boolean"},
        "level": {"$ref": "#/$defs/Level"},
        "either": {"type": ["integer", "null"]},
        "password": {"type": "string", "format": "password"},
        "token": {"anyOf": [{"type": "string", "writeOnly": True}, {"type": "null"}]},
        "pin": {"type": "string"},
        "file": {"type": "string", "contentEncoding": "base64"},
        "address": {"type": "object", "properties": {"city": {"type": "string"}}},
        "lines": {"type": "array", "items": {"type": "string"}},
        "mixed": {"anyOf": [{"type": "string"}, {"type": "object"}]},
        "open": {},
        "a.b": {"type": "string"},
        "a,b": {"type": "string"},
    },
}
OUTPUT = {
    "anyOf": [
        {"type": "object", "properties": {"total": {"type": "integer"}, "key": {"type": "string", "writeOnly": True}}},
        {"type": "object", "properties": {"reason": {"type": "string"}}},
    ]
}
OFFERED = ("amount", "customer_id", "price", "due_at", "urgent", "level", "either")
REFUSED = (
    "password",
    "token",
    "pin",
    "file",
    "address",
    "lines",
    "mixed",
    "open",
    "a.b",
    "a,b",
    "nothing",
    "amount.x",
    "key",
)
KEYS = "a-secret-that-is-long-enough-to-be-one"


@pytest.fixture(autouse=True)
def deploy(_paper_catalog) -> Iterator[None]:
    """A workflow with a schema of everything; its engine calls ``pin`` a secret."""
    paper = catalog.load().entries["expense_batch"]
    description = paper.description.model_copy(
        update={"workflow": WorkflowId("deploy"), "title": "Deploy", "input_schema": INPUT, "output_schema": OUTPUT}
    )
    entry = replace(paper, name="deploy", description=description)
    entry.__dict__["secrets"] = entry.secrets | {"pin"}
    catalog.load().entries["deploy"] = entry
    yield
    catalog.load.cache_clear()


def made(**facts) -> Run:
    return people.make_run(**{"workflow": "deploy", "title": "Deploy", **facts})


def cell_of(client, name: str, run: Run | None = None, q: str = "") -> tuple[str, str]:
    """Return the text of one cell, and its class."""
    page = client.get("/runs/", {"q": q, "columns": f"status,{name}"}).content.decode()
    row = page[page.index(f'data-row="{run.pk}"') if run else 0 :]
    found = re.search(rf'data-cell="{re.escape(name)}" class="([^"]*)">(.*?)</td>', row, re.DOTALL)
    assert found is not None, f"no column {name}"
    return unescape(" ".join(re.sub(r"<[^>]*>", " ", found[2]).split())), found[1]


VALUES = [
    ("amount", 1234567.5, "1,234,567.5"),
    ("amount", 0, "0"),
    ("amount", None, "—"),
    ("amount", "as text", "as text"),
    ("amount", 10**30, f"{10**30:,}"),
    ("price", "1234.50", "1,234.50"),
    ("price", "Infinity", "Infinity"),
    ("price", "9" * 500, "9" * 79 + "…"),
    ("urgent", True, "yes"),
    ("urgent", False, "no"),
    ("level", "high", "high"),
    ("due_at", "2026-01-05T09:00:00Z", "2026-01-05"),
    ("due_at", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
    ("due_at", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
    ("due_at", "next week", "next week"),
    ("either", 7, "7"),
    ("customer_id", "", "—"),
    ("customer_id", "<b>&", "<b>&"),
    ("customer_id", "two\nlines", "two lines"),
    ("customer_id", "x" * 81, "x" * 79 + "…"),
    ("customer_id", "x" * 80, "x" * 80),
    ("customer_id", "eu\u202ecod", "eu[U+202E]cod"),
    ("customer_id", "\x07", "␇"),
    ("customer_id", {"password": "hush"}, "—"),
    ("customer_id", ["hush"], "—"),
]


@pytest.mark.parametrize(("key", "value", "text"), VALUES)
def test_a_value_is_shown_by_its_type_numbers_aligned_to_the_end(key, value, text, as_):
    shown, look = cell_of(as_("vera"), f"input.{key}", made(input={key: value}))
    assert (shown, "is-number" in look) == (text, key in ("amount", "price", "either"))


@pytest.mark.parametrize("message", [None, [], "text", 7, {}, {"amount": None}])
def test_an_input_without_the_field_has_a_dash(message, as_):
    assert cell_of(as_("vera"), "input.amount", made(input=message))[0] == "—"


def test_the_menu_offers_the_scalars_of_the_workflow_that_the_filter_names_by_their_titles(as_):
    page = as_("vera").get("/runs/?q=workflow:Deploy").content.decode()
    assert re.findall(r'value="(input\.[^"]*)"', page) == [f"input.{key}" for key in OFFERED]
    assert re.findall(r'value="(output\.[^"]*)"', page) == ["output.total", "output.reason"]
    assert "Customer ID" in page
    page = as_("vera").get("/runs/?q=workflow:expense_batch").content.decode()
    assert expenses.description.output_schema == {}
    assert ('value="input.limit"' in page, "Ask above" in page, 'value="output.' in page) == (True, True, False)


@pytest.mark.parametrize("q", ["", "-workflow:deploy", "workflow:deploy,other", "workflow:dep*", "workflow:other"])
def test_without_one_workflow_in_the_filter_no_field_is_offered(q, as_):
    page = as_("vera").get("/runs/", {"q": q}).content.decode()
    assert 'value="input.' not in page
    assert 'value="output.' not in page


@pytest.mark.parametrize("key", REFUSED)
@pytest.mark.parametrize("part", ["input", "output", "state", "error"])
def test_what_is_secret_nested_or_unknown_is_no_column_and_is_not_read(key, part, as_):
    made(input={key: "hush"}, output={key: "hush", "key": "hush"}, error={key: "hush"}, finished=people.THEN)
    page = as_("otto").get("/runs/", {"q": "workflow:deploy", "columns": f"{part}.{key}"})
    assert page.context["fields"] == ()
    assert "hush" not in page.content.decode()


def test_who_may_not_inspect_is_offered_nothing_and_reads_nothing(as_):
    Grant.objects.filter(user__username="vera").update(role="reviewer", workflow="deploy")
    made(input={"customer_id": "hush"}, summary="")
    assert not people.viewer("vera").may("inspect", "deploy")
    page = as_("vera").get("/runs/?q=workflow:deploy&columns=status,input.customer_id")
    assert list(page.context["shown"]) == ["status"]
    assert 'value="input.customer_id"' not in page.content.decode()
    assert "hush" not in page.content.decode()


def test_rows_of_workflows_that_one_may_not_inspect_or_that_lack_the_field_have_a_dash(as_):
    Grant.objects.filter(user__username="vera").update(role="reviewer")
    Grant.objects.create(user=people.make_people()["vera"], role="viewer", workflow="deploy")
    shown = made(input={"amount": 5})
    hidden = people.make_run(input={"amount": 6, "limit": 7})
    unknown = people.make_run(workflow="gone", input={"amount": 8})
    client = as_("vera")
    texts = [cell_of(client, "input.amount", run)[0] for run in (shown, hidden, unknown)]
    assert texts == ["5", "—", "—"]
    assert list(client.get("/runs/?columns=input.limit").context["shown"]) == []


def test_a_failed_run_has_no_output_and_a_finished_one_has_also_in_news(as_):
    failed = made(phase="failed", error={"type": "E", "message": "m"}, finished=people.THEN)
    done = made(phase="completed", output={"total": 1200}, finished=people.THEN)
    client = as_("vera")
    assert [cell_of(client, "output.total", run)[0] for run in (failed, done)] == ["—", "1,200"]
    page = client.get("/runs/", {"fragment": "news", "ids": done.pk, "columns": "output.total"}).content.decode()
    assert re.search(r'data-cell="output\.total".*?>\s*<span title="1,200">1,200</span>', page, re.DOTALL)


def test_encrypted_values_are_decrypted_and_huge_or_unreadable_ones_say_why(as_, settings):
    huge, client = made(input={"amount": 5, "customer_id": "x" * 70_000}), as_("vera")
    assert cell_of(client, "input.amount", huge)[0] == "Too large for the list"
    plain = made(input={"amount": 1})
    settings.WFDASH_ENCRYPTION_KEYS = KEYS
    kept = made(input={"amount": 2}, output={"total": 3})
    assert cell_of(client, "input.amount", kept)[0] == "2"
    assert cell_of(client, "output.total", kept)[0] == "3"
    assert cell_of(client, "input.amount", plain)[0] == "Not encrypted with your keys"
    settings.WFDASH_ENCRYPTION_KEYS = "another-secret-that-is-long-enough"
    assert cell_of(client, "input.amount", kept)[0] == "Encrypted with a key this server does not have"


def test_fields_cost_one_query_for_a_page_and_none_without(as_, django_assert_num_queries):
    rows = run_rows(people.viewer("vera"), [made(input={"amount": 1}, output={"total": 2}).pk for _ in range(30)])
    viewer = people.viewer("vera")
    with django_assert_num_queries(1):
        found = field_values(viewer, rows, ["input.amount", "input.level", "output.total"])
    assert len(found) == 30
    for names in ([], ["input.nothing"], ["input.password"]):
        with django_assert_num_queries(0):
            assert field_values(viewer, rows, names) == {}


def test_fields_are_kept_for_the_person_in_the_address_and_in_views(as_):
    made(input={"amount": 5})
    client = as_("vera")
    chosen = ["input.amount", "status", "output.total", "input.amount", "input.<x>", "state.n", "input."]
    answer = client.post("/runs/columns/", {"column": chosen, "query": "q=workflow%3Adeploy"})
    assert answer.url == "/runs/?q=workflow%3Adeploy&columns=status%2Cinput.amount%2Coutput.total"
    assert Preference.objects.get().looks["runs"]["columns"] == ["status", "input.amount", "output.total"]
    page = client.get("/runs/")
    assert list(page.context["shown"]) == ["status", "input.amount", "output.total"]
    assert re.search(r'value="input.amount"\s+checked', page.content.decode()), "it can be removed without the filter"
    assert 'class="col-field is-number" title="input.amount"' in page.content.decode()
    assert "Amount" not in as_("ana").get("/runs/").content.decode()
    most = ",".join([*(f"input.{key}" for key in OFFERED), "output.total", "output.reason"])
    assert len(client.get("/runs/", {"columns": most}).context["shown"]) == 8
