from __future__ import annotations

import re

from checkpoints.models import SavedView
from tests import people
from tests.pages.markup import flat


def save(client, name="Urgent", query="tab=all&q=risk:high&sort=due", **more):
    return client.post("/views/", {"name": name, "query": query, **more})


def test_a_view_is_saved_and_has_an_address_of_its_own(run, as_):
    ana = as_("ana")
    assert save(ana)["Location"] == f"/views/{SavedView.objects.get().pk}/"
    opened = ana.get(f"/views/{SavedView.objects.get().pk}/")["Location"]
    assert opened == f"/?tab=all&q=risk%3Ahigh&sort=due&view={SavedView.objects.get().pk}"
    assert ana.get(f"/?view={SavedView.objects.get().pk}")["Location"] == opened
    assert "Urgent" in ana.get(opened).content.decode()


def test_a_shared_view_opens_for_others_and_a_private_one_does_not(run, as_):
    save(as_("ana"))
    save(as_("ana"), "Shared", shared="on")
    ben = as_("ben")
    private, shared = (SavedView.objects.get(name=name).pk for name in ("Urgent", "Shared"))
    assert ben.get(f"/views/{private}/").status_code == 404
    assert "Shared by ana" in ben.get(f"/views/{shared}/", follow=True).content.decode()
    assert ben.post(f"/views/{shared}/", {"delete": "1"}).status_code == 404


def test_a_view_is_renamed_refilled_and_deleted(run, as_):
    ana = as_("ana")
    save(ana)
    view = SavedView.objects.get()
    ana.post(f"/views/{view.pk}/", {"name": "Renamed", "query": "tab=mine&q=x", "now": "on"})
    view.refresh_from_db()
    assert (view.name, view.query) == ("Renamed", "tab=mine&q=x")
    ana.post(f"/views/{view.pk}/", {"name": "Renamed", "query": "tab=mine", "delete": "1"})
    assert not SavedView.objects.exists()


def test_a_view_without_a_name_says_so(run, as_):
    assert "Enter a name" in as_("ana").post("/views/", {"query": "tab=mine"}, follow=True).content.decode()
    assert not SavedView.objects.exists()


def test_a_view_keeps_only_what_an_inbox_knows(run, as_):
    save(as_("ana"), query="tab=evil&q=x&request=1&focus=1&next=//elsewhere")
    assert SavedView.objects.get().query == "tab=mine&q=x"


def test_the_filter_suggests_what_occurs(run, as_):
    people.ask(run, by=["finance", "two words"])
    words = as_("ana").get("/inbox/suggestions/").json()
    assert {"key": "risk", "example": "risk:high", "meaning": "high, medium, low or none"} in words["keys"]
    assert {"value": run.workflow, "label": "Expense batch"} in words["values"]["workflow"] or words["values"][
        "workflow"
    ]
    assert [one["value"] for one in words["values"]["by"]] == ["me", "finance", '"two words"']


def test_the_filter_suggests_nothing_of_what_is_not_theirs(run, as_):
    people.ask(run, by=["finance"])
    assert as_("sam").get("/inbox/suggestions/").json()["values"]["workflow"] == []


def test_views_say_how_many_they_hold_for_the_one_who_looks(run, as_):
    people.ask(run, "Plain"), people.ask(run, "Risky", risk=3)
    ana = as_("ana")
    save(ana, "All of it", "tab=all", shared="on"), save(ana), save(ana, "Broken", "tab=all&q=risk:huge")
    text = flat(ana.get("/views/counts/?page=inbox").content.decode())
    assert counts_in(text) == {"All of it": "2", "Urgent": "1", "Broken": "invalid filter"}
    assert counts_in(flat(as_("sam").get("/views/counts/").content.decode())) == {}
    assert counts_in(flat(as_("ben").get("/views/counts/").content.decode())) == {"All of it": "2"}


def test_views_of_runs_are_counted_too_and_broken_ones_are_marked(run, as_):
    ana = as_("ana")
    save(ana, "Waiting", "q=status:waiting", page="runs"), save(ana, "Broken", "q=status:nope", page="runs")
    found = counts_in(flat(ana.get("/views/counts/?page=runs").content.decode()))
    assert (set(found), found["Broken"]) == ({"Waiting", "Broken"}, "invalid filter")
    assert found["Waiting"].isdigit()


def test_a_page_with_broken_views_opens(run, as_):
    ana = as_("ana")
    save(ana, "Broken", "tab=all&q=risk:huge")
    assert "Broken" in ana.get("/").content.decode()
    assert "Invalid filter" in ana.get(f"/views/{SavedView.objects.get().pk}/", follow=True).content.decode()


def counts_in(text: str) -> dict[str, str]:
    """Return what each link to a view says it holds."""
    parts = re.findall(r'class="view-name">(.*?)</span><span class="view-count">(.*?)</span></a>', text)
    return {name: re.sub("<.*?>", "", count).strip() for name, count in parts}
