"""How lists look for a person: kept for them alone, whatever else they keep, the same for all lists."""

from __future__ import annotations

import re

import pytest

from checkpoints.models import Preference
from tests import people
from tests.pages.markup import flat
from wfdash.actions.account import set_columns, set_density
from wfdash.queries.account import ListLooks, looks_of

LISTS = ["/runs/", "/schedules/", "/audit/"]


def main_of(page: str) -> str:
    found = re.search(r'<main[^>]*class="([^"]*)"', page)
    assert found is not None
    return " ".join(found[1].split())


@pytest.mark.parametrize("address", LISTS)
def test_rows_are_compact_until_a_person_chooses_otherwise_for_all_lists(address, run, as_):
    client = as_("vera")
    assert main_of(client.get(address).content.decode()) == "page list-page compact"
    back = client.post("/lists/density/", {"density": "comfortable", "next": f"{address}?q=status:open"})
    assert back.url == f"{address}?q=status:open"
    page = client.get(address).content.decode()
    assert main_of(page) == "page list-page comfortable"
    assert re.search(r'value="comfortable"\s+aria-pressed="true"', page)
    assert main_of(as_("ana").get(address).content.decode()) == "page list-page compact"


def test_density_and_columns_are_kept_beside_each_other_and_beside_notification_settings(everybody):
    vera = people.viewer("vera")
    Preference.objects.create(user=vera.user, data={"mail": "daily"})
    set_density(vera, "comfortable")
    set_columns(vera, "runs", ["by"])
    set_density(vera, "compact")
    looks = looks_of(vera)
    assert (looks.density, looks.columns) == ("compact", {"runs": ("by",)})
    assert Preference.objects.get().data == {"mail": "daily"}


@pytest.mark.parametrize("chosen", ["", "huge", "<script>"])
def test_what_is_no_density_is_not_kept(chosen, everybody, as_):
    assert as_("vera").post("/lists/density/", {"density": chosen, "next": "/audit/"}).url == "/audit/"
    assert not Preference.objects.exists()


@pytest.mark.parametrize("looks", [{"density": 7}, {"density": ["compact"]}, {"runs": "x"}, {"runs": {"columns": 7}}])
def test_looks_that_no_version_wrote_are_the_default(looks, everybody):
    vera = people.viewer("vera")
    Preference.objects.create(user=vera.user, looks=looks)
    assert looks_of(vera) == ListLooks()


@pytest.mark.parametrize("elsewhere", ["//evil.example/", "https://evil.example/", "javascript:alert(1)", "audit", ""])
def test_the_way_to_the_list_leads_nowhere_else(elsewhere, everybody, as_):
    assert as_("vera").post("/lists/density/", {"density": "compact", "next": elsewhere}).url == "/runs/"


@pytest.mark.parametrize("at", ["/", "/runs/", "/decisions/", "/audit/", "/schedules/", "/workflows/", "/people/"])
def test_a_list_without_a_match_says_so_with_one_thing_to_do(at, run, as_):
    page = flat(as_("adam").get(f"{at}?q=nothing-like-it").content.decode())
    (empty,) = re.findall(r'<div class="(?:panel empty|empty(?: panel)?)">.*?</div>', page)
    assert "<code>nothing-like-it</code>" in empty
    assert empty.count('<a class="button"') == 1
