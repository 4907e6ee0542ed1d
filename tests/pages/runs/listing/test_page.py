from __future__ import annotations

from importlib import import_module

import pytest

from checkpoints.models import Preference, Run, RunFact, SavedView
from tests import people
from tests.pages.markup import flat
from wfdash.actions.runs import search_index
from wfdash.actions.runs.bulk import tag_runs
from wfdash.queries.runs import finding


@pytest.fixture
def failed(everybody) -> Run:
    error = {"type": "ValueError", "message": "Parcel <7> lost", "traceback": "secret"}
    run = people.make_run(phase="failed", title="Refund", error=error, altered="restored,edited")
    search_index.index_runs()
    search_index.index_failures()
    tag_runs(people.viewer("otto"), [run.pk], add=["eu"])
    return run


def test_runs_show_status_and_what_they_wait_for(run, as_):
    people.ask(run, "Pay 900?")
    page = as_("vera").get("/runs/").content.decode()
    assert 'data-status="waiting"' in page
    assert "Pay 900?" in page


def test_a_row_says_why_it_failed_its_tags_and_that_it_was_altered(failed, as_):
    page = as_("vera").get("/runs/?q=lost").content.decode()
    assert "ValueError: Parcel &lt;7&gt; lost" in page
    assert "?q=tag:eu" in page
    assert "restored</span>" in page
    assert "edited</span>" in page
    assert "secret" not in page


def test_the_filter_is_in_the_address_and_what_is_wrong_with_it_is_named(run, as_):
    assert "No runs match" in as_("vera").get("/runs/?q=status:failed").content.decode()
    answer = as_("vera").get("/runs/?q=colour:red")
    assert answer.status_code == 200
    assert "Unknown filter &quot;colour&quot;" in answer.content.decode()
    assert "Invalid filter" in answer.content.decode()


def test_pages_are_linked_by_cursor(everybody, as_):
    for _ in range(31):
        people.make_run()
    client = as_("vera")
    page = client.get("/runs/?q=status:waiting")
    assert len(page.context["rows"]) == 30
    assert len(client.get(page.context["older"]).context["rows"]) == 1


def test_a_walk_that_stopped_says_how_far_it_came_and_offers_to_look_further(everybody, as_, monkeypatch):
    monkeypatch.setattr(finding, "MIN_SHARE", 2)
    monkeypatch.setattr(import_module("wfdash.queries.runs.listing"), "MAX_SCANNED_RUNS", 2)
    for number in range(40):
        people.make_run(created=people.THEN.replace(minute=number))
    page = as_("vera").get("/runs/?q=-status:waiting")
    assert "Search older runs" in page.content.decode()
    assert "No runs match" in as_("vera").get(page.context["further"]).content.decode()


def test_the_list_alone_can_be_fetched(run, as_):
    assert flat(as_("vera").get("/runs/?fragment=list").content.decode()).startswith('<div id="runs-list"')


def test_news_are_the_rows_as_they_are_now_and_how_many_are_new(run, as_):
    client, since = as_("vera"), people.THEN.isoformat()
    people.make_run(created=people.THEN.replace(year=2027))
    Run.objects.filter(pk=run.pk).update(phase="completed")
    found = client.get("/runs/", {"fragment": "news", "ids": f"{run.pk},nonsense", "since": since})
    assert [line.run.id for line in found.context["rows"]] == [run.pk]
    assert 'data-status="completed"' in found.content.decode()
    assert 'data-new="1"' in found.content.decode()
    assert 'data-new="0"' in client.get("/runs/?fragment=news&since=nonsense").content.decode()


def test_the_list_takes_the_same_number_of_queries_however_long(everybody, as_, django_assert_max_num_queries):
    client = as_("otto")
    for _ in range(2):
        for _ in range(15):
            people.ask(people.make_run())
        with django_assert_max_num_queries(16):
            client.get("/runs/?q=status:waiting")


def test_columns_are_kept_for_the_person_and_in_the_address(run, as_):
    client = as_("vera")
    answer = client.post("/runs/columns/", {"column": ["version", "by", "nonsense"], "query": "q=status:open"})
    assert answer.url == "/runs/?q=status%3Aopen&columns=by%2Cversion"
    assert list(client.get("/runs/").context["shown"]) == ["by", "version"]
    assert list(client.get("/runs/?columns=took").context["shown"]) == ["took"]
    assert list(client.get("/runs/?columns=none").context["shown"]) == []
    assert next(iter(as_("ana").get("/runs/").context["shown"])) == "status"
    assert Preference.objects.get().data == {}


def test_a_view_keeps_filter_and_columns_and_stands_among_the_views_of_runs(run, as_):
    client = as_("vera")
    client.post("/views/", {"page": "runs", "name": "Mine", "query": "q=status:open&columns=took", "shared": "on"})
    view = SavedView.objects.get()
    assert view.page == "runs"
    opened = client.get(f"/views/{view.pk}/", follow=True)
    assert opened.redirect_chain[0][0] == f"/runs/?q=status%3Aopen&columns=took&view={view.pk}"
    assert "Mine" in opened.content.decode()
    assert "Mine" not in client.get("/").content.decode()
    assert as_("ana").get(f"/runs/?view={view.pk}").url.endswith(f"view={view.pk}")
    assert client.post(f"/views/{view.pk}/", {"delete": "1", "query": "q=x"}).url == "/runs/?q=x"


def test_the_filter_suggests_keys_fields_and_values_that_occur(failed, as_):
    words = as_("vera").get("/runs/suggestions/").json()
    assert {"status", "tag"} <= {key["key"] for key in words["keys"]}
    assert [one["value"] for one in words["values"]["tag"]] == ["eu"]
    assert [one["value"] for one in words["values"]["error"]] == ["valueerror"]


def test_who_may_not_operate_is_offered_no_verbs(run, as_):
    assert 'name="verb"' not in as_("vera").get("/runs/").content.decode()
    assert 'name="verb"' in as_("otto").get("/runs/").content.decode()


def test_facts_go_with_their_run(failed):
    Run.objects.all().delete()
    assert not RunFact.objects.exists()


def test_heads_sort_and_say_how(run, as_):
    client = as_("vera")
    page = client.get("/runs/?q=status:open&columns=started,finished,took,by").content.decode()
    assert page.count('aria-sort="descending"') == 1
    assert 'href="/runs/?q=status%3Aopen&amp;sort=started&amp;columns=started%2Ctook%2Cby%2Cfinished"' in page
    assert "sort=-finished" in page
    page = client.get("/runs/?sort=started").content.decode()
    assert 'aria-sort="ascending"' in page
    assert 'name="sort" value="started"' in page, "another filter keeps the order"
    assert "No finished runs" in client.get("/runs/?sort=-finished").content.decode()
    assert run.pk in client.get("/runs/?sort=took").content.decode()
    assert client.get("/runs/?sort=nonsense").context["spot"].sort == "-started"
