"""Tabs replace the status in a filter and nothing else, and say how many runs they would find."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from tests import people
from wfdash.web.pages.runs import listing


def tabs_at(client, text: str, **more: str) -> dict[str, tuple[str, bool, str]]:
    """Return each tab by its label: the filter that it leads to, whether it is open, and its count."""
    page = client.get("/runs/", {"q": text, **more})
    found = [*page.context["tabs"], page.context["mine"]]
    return {tab.label: (parse_qs(urlsplit(tab.href).query).get("q", [""])[0], tab.here, tab.count) for tab in found}


def test_a_tab_changes_the_status_and_leaves_the_rest(run, as_):
    found = tabs_at(as_("vera"), "workflow:refund status:failed parcel")
    assert found["All"] == ("workflow:refund parcel", False, "")
    assert found["Waiting"] == ("workflow:refund status:waiting parcel", False, "")
    assert found["Failed"][1]
    assert found["Mine"] == ("workflow:refund status:failed parcel is:mine", False, "")
    assert tabs_at(as_("vera"), "is:mine is:altered")["Mine"] == ("is:altered", True, "")


def test_a_status_without_a_tab_is_one_that_is_open(run, as_):
    found = tabs_at(as_("vera"), "status:paused,Held x")
    assert found["Paused,held"] == ("status:paused,held x", True, "")
    assert [label for label, (_, here, _) in found.items() if here] == ["Paused,held"]
    assert tabs_at(as_("vera"), "-status:failed")["All"] == ("-status:failed", True, "")


def test_counts_are_those_of_what_the_tabs_find_for_this_person(everybody, as_, monkeypatch):
    for phase in ("failed", "failed", "waiting", "completed"):
        people.make_run(phase=phase)
    counts = {label: tab[2] for label, tab in tabs_at(as_("vera"), "status:open", fragment="tabs").items()}
    assert counts == {"All": "4", "Open": "1", "Waiting": "1", "Failed": "2", "Completed": "1", "Mine": ""}
    assert tabs_at(as_("sam"), "", fragment="tabs")["All"][2] == "0"
    monkeypatch.setattr(listing, "MOST_COUNTED", 2)
    assert tabs_at(as_("vera"), "", fragment="tabs")["All"][2] == "2+"
    assert tabs_at(as_("vera"), "", fragment="tabs")["Failed"][2] == "2"


@pytest.mark.parametrize("text", ["colour:red", "status:nonsense", "x" * 600])
def test_an_invalid_filter_has_tabs_without_counts(text, run, as_):
    assert {tab[2] for tab in tabs_at(as_("vera"), text, fragment="tabs").values()} <= {"", "1", "0"}


def test_the_counts_cost_a_constant_number_of_queries(everybody, as_, django_assert_max_num_queries):
    client = as_("otto")
    for _ in range(2):
        for _ in range(5):
            people.make_run()
        with django_assert_max_num_queries(18):
            client.get("/runs/?q=workflow:expense_batch&fragment=tabs")
