"""Many runs at once: the page counts before anything is done, and acts on exactly what it counted."""

from __future__ import annotations

from importlib import import_module

import pytest

from checkpoints.models import AuditEntry, Bulk, Run, RunFact
from tests import people
from tests.pages.markup import flat
from wfdash.actions.runs import bulk as bulks


@pytest.fixture
def failed(everybody) -> list[str]:
    return [people.make_run(phase="failed", title=f"Refund {number}").pk for number in range(3)]


def hidden(page) -> dict[str, str]:
    """Return what the form would send."""
    return {
        "verb": page.context["name"],
        "q": page.context["text"],
        "runs": page.context["runs"],
        "_key": page.context["key"],
    }


def test_a_dry_run_counts_and_changes_nothing(failed, as_):
    people.make_run(phase="completed")
    page = as_("otto").get("/runs/bulk/?verb=retry&all=1")
    text = page.content.decode()
    assert "Retry 3 runs" in text
    assert "1 × Completed" in text
    assert "Nothing has been changed yet" in text
    assert not Bulk.objects.exists()
    assert Run.objects.filter(phase="failed").count() == 3


def test_what_was_counted_is_done_and_told_and_nothing_that_came_later(failed, as_):
    client = as_("otto")
    form = hidden(client.get("/runs/bulk/?verb=retry&all=1&q=status:failed"))
    later = people.make_run(phase="failed")
    told = client.post("/runs/bulk/", form, follow=True)
    assert "3 of 3 retried" in told.content.decode()
    assert set(Run.objects.filter(phase="ready").values_list("pk", flat=True)) == set(failed)
    assert Run.objects.get(pk=later.pk).phase == "failed"
    assert client.post("/runs/bulk/", form).url == told.redirect_chain[0][0]
    assert AuditEntry.objects.filter(verb="retry").count() == 3


def test_the_ticked_ones_alone_are_told(failed, as_):
    client = as_("otto")
    client.post("/runs/bulk/", hidden(client.get(f"/runs/bulk/?verb=cancel&run={failed[0]}")))
    assert Run.objects.filter(phase="failed").count() == 3
    client.post("/runs/bulk/", hidden(client.get(f"/runs/bulk/?verb=retry&run={failed[0]}&run={failed[1]}")))
    assert Run.objects.filter(phase="ready").count() == 2


def test_what_is_left_is_shown_and_gone_on_with(failed, as_, monkeypatch):
    client = as_("otto")
    form = hidden(client.get("/runs/bulk/?verb=retry&all=1"))
    monkeypatch.setattr(bulks.continue_bulk, "__kwdefaults__", {"seconds": 0.0, "most": 10_000})
    told = client.post("/runs/bulk/", form, follow=True)
    assert "1 of 3 processed" in told.content.decode()
    address = told.redirect_chain[0][0]
    assert 'hx-trigger="every 1s"' in client.get(f"{address}?fragment=told").content.decode()
    bulks.continue_bulk(Bulk.objects.get().pk, seconds=9)
    assert "3 of 3 retried" in client.get(address).content.decode()
    assert as_("adam").get(address).status_code == 404


def test_the_result_lists_its_runs_as_they_are_now_and_why_some_are_unchanged(failed, as_, monkeypatch):
    client = as_("otto")
    form = hidden(client.get("/runs/bulk/?verb=retry&all=1&q=status:failed"))
    Run.objects.filter(pk=failed[0]).update(phase="completed")
    told = client.post("/runs/bulk/", form, follow=True)
    page = told.content.decode()
    assert {line.run.id for line in told.context["rows"]} == set(failed)
    assert "2 retried" in page
    assert "1 skipped" in page
    assert told.context["back"] == "/runs/?q=status%3Afailed"
    address = told.redirect_chain[0][0]
    other = people.make_run()
    Run.objects.filter(pk=failed[1]).update(phase="waiting")
    news = client.get(address, {"fragment": "news", "ids": f"{failed[1]},{other.pk},x"})
    assert [(line.run.id, line.run.status.value) for line in news.context["rows"]] == [(failed[1], "waiting")]
    assert 'data-new="0"' in news.content.decode()


def test_the_runs_of_a_result_come_in_pages_and_those_that_are_gone_are_counted(failed, as_, monkeypatch):
    monkeypatch.setattr(import_module("wfdash.web.pages.runs.listing"), "RUNS_PER_PAGE", 2)
    client = as_("otto")
    told = client.post("/runs/bulk/", hidden(client.get("/runs/bulk/?verb=retry&all=1")), follow=True)
    address = told.redirect_chain[0][0]
    pages = [client.get(f"{address}?page={number}") for number in ("1", "2", "99999", "-1", "²")]
    shown = [[line.run.id for line in page.context["rows"]] for page in pages]
    assert [len(rows) for rows in shown] == [2, 1, 1, 2, 2]
    assert {*shown[0], *shown[1]} == set(failed)
    Run.objects.filter(pk=shown[1][0]).delete()
    assert "1 of these runs deleted" in client.get(f"{address}?page=2").content.decode()


def test_tags_are_named_on_the_page_and_a_bad_one_is_refused_there(failed, as_):
    client = as_("otto")
    form = hidden(client.get("/runs/bulk/?verb=tag&all=1"))
    refused = client.post("/runs/bulk/", form | {"add": "b#d"})
    assert refused.status_code == 422
    assert "is not a valid tag" in refused.content.decode()
    assert 'value="b#d"' in refused.content.decode()
    client.post("/runs/bulk/", form | {"add": "eu, vip", "_key": "other"})
    assert RunFact.objects.filter(name="tag").count() == 6


@pytest.mark.parametrize("query", ["verb=explode&all=1", "verb=retry", "verb=retry&all=1&q=colour:red"])
def test_what_cannot_be_told_says_so(failed, as_, query):
    answer = as_("otto").get(f"/runs/bulk/?{query}")
    assert answer.status_code == 422
    assert 'role="alert"' in answer.content.decode()


def test_who_may_not_operate_sees_that_nothing_would_change(failed, as_):
    page = as_("vera").get("/runs/bulk/?verb=retry&all=1").content.decode()
    assert "3 × View only: your role cannot change it" in page
    assert "Nothing to do" in page
    assert "None of these runs can be retried." in page
    assert "<h1>Retry runs</h1>" in flat(page), "and no question about 0 runs"
