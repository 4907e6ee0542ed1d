from __future__ import annotations

import pytest

from checkpoints.models import Run
from wfdash import catalog

ADDRESS = "/workflows/expense_batch/"


def test_the_catalogue_shows_workflows_with_graph_and_counts(run, as_):
    page = as_("vera").get("/workflows/").content.decode()
    assert "Expense batch" in page
    assert "<svg" in page
    assert "All runs" in page


def test_a_module_that_fails_to_load_is_shown_to_operators_alone(settings, as_):
    settings.WFDASH_APPS = ["tests.pages.served", "tests.pages.no_such_module"]
    catalog.load.cache_clear()
    page = as_("otto").get("/workflows/").content.decode()
    assert "tests.pages.no_such_module did not load" in page
    assert "Traceback (most recent call last)" in page
    assert "Expense batch" in page
    assert "Traceback" not in as_("vera").get("/workflows/").content.decode()


def test_starting_a_run_opens_it(as_):
    answer = as_("otto").post(ADDRESS, {"claims": "ana,taxi,30", "limit": "50", "_key": "once"})
    made = Run.objects.get()
    assert answer.url == f"/runs/{made.pk}/"
    assert made.input == {"claims": "ana,taxi,30", "limit": 50}
    assert made.created_by.username == "otto"


def test_a_double_click_starts_one_run(as_):
    client = as_("otto")
    answers = [client.post(ADDRESS, {"claims": "x", "limit": "5", "_key": "same"}).url for _ in range(2)]
    assert answers[0] == answers[1]
    assert Run.objects.count() == 1


def test_invalid_input_is_refused_at_its_field_and_kept(as_):
    answer = as_("otto").post(ADDRESS, {"claims": "typed with care", "limit": "99999"})
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "typed with care" in page
    assert "99999" in page
    assert 'href="#field-limit"' in page
    assert not Run.objects.exists()


@pytest.mark.parametrize(("name", "status"), [("ana", 403), ("vera", 403), ("sam", 404)])
def test_starting_takes_the_right(name, status, as_):
    client = as_(name)
    assert client.post(ADDRESS, {"claims": "x"}).status_code == status
    assert not Run.objects.exists()


def test_the_example_fills_the_form(as_):
    client = as_("otto")
    assert "ana,taxi,30" in client.get(f"{ADDRESS}?example=1").content.decode()
    for strange in ("2", "0", "x", "-1", "9" * 30):
        assert client.get(f"{ADDRESS}?example={strange}").status_code == 200
