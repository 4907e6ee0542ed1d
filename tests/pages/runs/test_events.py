"""The events of a run: addresses, filters, groups, export."""

from __future__ import annotations

import json

import pytest

from tests import people


@pytest.fixture
def address(run):
    return f"/runs/{run.pk}/events/"


@pytest.fixture
def logged(run, history):
    for level in ("DEBUG", "INFO", "WARNING", "ERROR"):
        data = {"level": level, "logger": "shop", "message": f"{level} about card 4242", "activation": "pay:1"}
        people.happen(run, ("log", "pay", data))


def seqs(page) -> list[int]:
    return [line.seq for line in page.context["lines"]]


def test_events_can_be_grouped_by_step(address, history, as_):
    page = as_("otto").get(f"{address}?view=grouped").content.decode()
    assert 'id="of-review"' in page
    assert "data-live-events" not in page
    assert "data-live-page" in page


def test_the_newest_events_go_on_by_themselves_and_older_ones_have_an_address(run, address, as_):
    people.happen(run, *[("custom", "a", {"name": f"n{number}"}) for number in range(505)])
    client = as_("otto")
    newest = client.get(address)
    assert seqs(newest) == list(range(306, 506))
    assert "data-live-events" in newest.content.decode()
    older = client.get(address + newest.context["older"])
    assert seqs(older) == list(range(106, 306))
    assert "data-live-events" not in older.content.decode()
    oldest = client.get(address + older.context["older"])
    assert (seqs(oldest), oldest.context["older"]) == (list(range(1, 106)), "")
    assert seqs(client.get(address + oldest.context["newer"])) == list(range(106, 306))


def test_every_event_has_an_address_at_which_it_is_shown_among_its_neighbours(run, address, as_):
    people.happen(run, *[("custom", "a", {"name": f"n{number}"}) for number in range(505)])
    client = as_("otto")
    page = client.get(address).content.decode()
    assert f'href="{address}?seq=400#e400"' in page
    assert f'href="/runs/{run.pk}/at/400/"' in page
    one = client.get(f"{address}?seq=120")
    assert 120 in seqs(one)
    assert (seqs(one)[0], seqs(one)[-1]) == (21, 220)
    assert 'data-marked="120"' in one.content.decode()
    assert client.get(f"{address}?seq=999999").status_code == 200


@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        ("kind=step.waiting", {"step.waiting"}),
        ("kind=run", {"run.queued"}),
        ("kind=log", {"log"}),
        ("level=warning", {"log"}),
        ("step=read", {"step.started", "step.finished"}),
        ("kind=nothing", set()),
        ("level=nonsense&kind=run", {"run.queued"}),
        ("q=CARD+4242", {"log"}),
        ("q=step.wait", {"step.waiting"}),
    ],
)
def test_a_filter_narrows_them(query, kinds, address, logged, as_):
    page = as_("otto").get(f"{address}?{query}")
    assert {line.kind for line in page.context["lines"]} == kinds


def test_a_level_means_that_one_and_above(address, logged, as_):
    page = as_("otto").get(f"{address}?level=WARNING")
    assert [line.level for line in page.context["lines"]] == ["WARNING", "ERROR"]


def test_no_one_finds_by_text_what_they_may_not_see(address, logged, as_):
    assert seqs(as_("ana").get(f"{address}?q=4242")) == []
    assert "4242" not in as_("ana").get(address).content.decode()


def test_what_matches_is_sent_as_json_lines(run, address, logged, as_):
    answer = as_("otto").get(f"/runs/{run.pk}/events.jsonl?kind=log&level=ERROR")
    assert answer["Content-Type"].startswith("application/x-ndjson")
    (line,) = [json.loads(text) for text in answer.getvalue().decode().splitlines()]
    assert (line["kind"], line["data"]["level"]) == ("log", "ERROR")
    everything = as_("otto").get(f"/runs/{run.pk}/events.jsonl?after=3").getvalue().decode().splitlines()
    assert [json.loads(text)["seq"] for text in everything] == list(range(4, run.seq + 1))
    assert "4242" not in as_("ana").get(f"/runs/{run.pk}/events.jsonl").getvalue().decode()


def test_a_run_that_is_not_theirs_has_no_events(address, run, as_):
    assert as_("sam").get(address).status_code == 404
    assert as_("sam").get(f"/runs/{run.pk}/events.jsonl").status_code == 404


def test_a_page_of_few_among_many_takes_few_queries(run, address, as_, django_assert_max_num_queries):
    people.happen(run, ("log", "a", {"level": "ERROR"}), *[("custom", "a", {"name": "x"}) for _ in range(1500)])
    client = as_("otto")
    with django_assert_max_num_queries(21):
        assert len(client.get(f"{address}?q=error").context["lines"]) == 1
