"""The search over everything: every kind of result, and none that a person may not see."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from checkpoints.models import Grant, SavedView
from tests import people
from wfdash.actions.runs.search_index import index_runs
from wfdash.queries import palette

GROUP = re.compile(r'id="palette-([a-z]+)" role="presentation"')
OPTION = re.compile(r'<a\b[^>]*?\bid="palette-(\w+)-\d+"[^>]*?\bhref="([^"]*)"[^>]*>(.*?)</a>', re.DOTALL)


@pytest.fixture
def find(as_):
    """Return what a person finds: group -> address -> what it is called."""

    def search(name, text):
        answer = as_(name).get("/search/", {"q": text, "fragment": "options"})
        assert answer.status_code == 200
        found = {}
        for group, href, inside in OPTION.findall(answer.content.decode()):
            words = " ".join(unescape(re.sub(r"<[^>]+>", " ", inside)).split())
            found.setdefault(group, {})[unescape(href)] = words
        return found

    return search


@pytest.fixture
def listed(question, history):
    """The run with its request and checkpoints, found by words."""
    index_runs()
    return question


def test_without_a_text_it_offers_pages_and_actions(find):
    found = find("otto", "")
    assert found["pages"]["/runs/"] == "Runs"
    assert found["pages"]["/operations/"] == "Operations"
    assert found["actions"]["/schedules/new/"] == "New schedule"
    assert set(found) == {"pages", "actions"}


def test_pages_and_actions_are_those_of_use_to_the_person(find):
    ana, adam = find("ana", ""), find("adam", "")
    assert "actions" not in ana
    assert "/operations/" not in ana["pages"]
    assert {"/operations/", "/settings/webhooks/"} <= set(adam["pages"])
    assert "/admin/" not in adam["pages"]
    User.objects.filter(username="adam").update(is_staff=True)
    assert "/admin/" in find("adam", "users groups")["pages"]


def test_every_page_and_action_that_is_offered_opens(find, as_):
    User.objects.filter(username="adam").update(is_staff=True)
    for name in ("ana", "vera", "otto", "sam"):
        offered = find(name, "")
        for href in [*offered["pages"], *offered.get("actions", {})]:
            assert as_(name).get(href).status_code == 200, (name, href)


def test_a_workflow_is_found_by_name_and_title_with_the_action_that_starts_it(find):
    for text in ("expense_b", "Expense", "BATCH exp", "batch"):
        assert find("ana", text)["workflows"] == {"/workflows/expense_batch/": "Expense batch expense_batch"}
    start = {"/workflows/expense_batch/#start-title": "Start Expense batch…"}
    assert find("otto", "batch")["actions"] == start
    assert start.items() <= find("otto", "start exp")["actions"].items()
    assert "actions" not in find("ana", "start exp")
    assert find("sam", "expense") == {}


@pytest.mark.parametrize("part", [slice(None), slice(13), slice(-8, None), slice(-8, -2), slice(-12, None)])
def test_a_run_is_found_by_its_id_by_how_it_begins_and_by_how_it_ends(part, listed, find):
    found = find("ana", listed.run_id[part])
    assert f"/runs/{listed.run_id}/" in found["id"]
    assert f"/runs/{listed.run_id}/" not in found.get("runs", {})


def test_a_request_and_a_checkpoint_are_found_by_id_for_those_who_may_open_them(listed, history, find, as_):
    saved = history[0]
    address = reverse("wfdash:checkpoint", args=[saved.run_id, saved.pk])
    for text in (saved.pk, saved.pk[-8:], f"http://localhost{address}"):
        assert address in find("vera", text)["id"]
        assert address not in find("ana", text).get("id", {})
    for text in (listed.pk, listed.pk[-8:]):
        assert find("ana", text)["id"][f"/requests/{listed.pk}/"].startswith("Pay 900?")
        assert find("sam", text) == {}
    people.answered(listed, User.objects.get(username="ana"))
    assert "answered" in find("ben", listed.pk)["id"][f"/requests/{listed.pk}/"]


def test_a_requester_without_a_role_finds_their_own_request_by_id_only(run, everybody, find):
    run.created_by = everybody["sam"]
    run.save()
    asked = people.ask(run)
    assert set(find("sam", asked.pk)["id"]) == {f"/requests/{asked.pk}/"}
    assert find("sam", "pay") == {}


def test_runs_and_requests_are_found_by_words_and_by_filters(listed, find):
    run, request = f"/runs/{listed.run_id}/", f"/requests/{listed.pk}/"
    assert "waiting" in find("ben", "expen")["runs"][run]
    assert request in find("ben", "900")["requests"]
    assert run in find("ben", "status:waiting workflow:expense*")["runs"]
    assert "requests" not in find("ben", "status:waiting")
    assert set(find("ben", "risk:none by:finance")) == {"requests"}
    assert set(find("ben", "status:failed")["runs"]) == {"/runs/?q=status%3Afailed"}


def test_the_lists_with_everything_that_matches_come_last(listed, find, as_):
    found = find("ben", "workflow:expense_batch pay <go&>")
    assert list(found["runs"])[-1] == "/runs/?q=workflow%3Aexpense_batch%20pay%20%3Cgo%26%3E"
    found = find("ben", "pay")
    assert list(found["requests"])[-1] == "/?tab=all&q=pay"
    for href in (list(found["requests"])[-1], list(found["runs"])[-1]):
        assert as_("ben").get(href).status_code == 200


def test_a_person_sees_runs_and_requests_of_their_workflows_only(listed, everybody, find):
    other = people.make_run(workflow="payroll", title="Expenses of payroll")
    people.ask(other, subject="Pay the payroll?")
    index_runs()
    Grant.objects.create(user=everybody["sam"], role="reviewer", workflow="payroll")
    for text in ("pay", "expenses", "payroll", other.pk, listed.run_id, listed.pk, "status:waiting", "-nothing"):
        assert "expense" not in str(find("sam", text)).lower().replace("expenses of payroll", "").replace(text, "")
    assert f"/runs/{other.pk}/" in find("sam", "expenses")["runs"]


def test_what_a_run_was_given_finds_nothing_for_those_who_may_not_see_it(run, find):
    run.input = {"claims": "hushhush"}
    run.save()
    index_runs()
    assert f"/runs/{run.pk}/" in find("vera", "hushhush")["runs"]
    assert f"/runs/{run.pk}/" in find("vera", "input.claims:hush*")["runs"]
    for text in ("hushhush", "input.claims:hush*"):
        assert f"/runs/{run.pk}/" not in find("ana", text)["runs"]


def test_a_run_is_called_by_its_input_only_for_those_who_may_see_that(run, find):
    run.summary = "hushhush"
    run.save()
    assert "hushhush" in find("vera", run.pk)["id"][f"/runs/{run.pk}/"]
    assert "hushhush" not in str(find("ana", run.pk))
    run.own_title = "March claims"
    run.save()
    assert find("ana", run.pk)["id"][f"/runs/{run.pk}/"].startswith("March claims expense_batch ·")


def test_people_lead_admins_to_their_page_and_someone_who_is_admin_of_less_to_their_runs(everybody, find):
    from checkpoints.models import Grant

    assert find("adam", "sa")["people"] == {"/people/sam/": "sam person"}
    Grant.objects.create(user=everybody["otto"], role="admin", workflow="payroll")
    assert find("otto", "be")["people"] == {"/runs/?q=by%3Aben": "ben runs started by this person"}


def test_people_are_found_by_those_who_operate_a_workflow_and_lead_to_their_runs(everybody, find):
    assert find("otto", "be")["people"] == {"/runs/?q=by%3Aben": "ben runs started by this person"}
    for name in ("ana", "vera", "sam"):
        assert "people" not in find(name, "be")
    Grant.objects.filter(user=everybody["ben"]).update(workflow="payroll")
    Grant.objects.create(user=everybody["vera"], role="operator", workflow="elsewhere")
    assert "people" not in find("vera", "be")


def test_saved_views_are_found_by_those_who_may_open_them(everybody, find):
    given = {"owner": everybody["ben"], "page": "runs", "query": "q=status%3Afailed", "created": people.THEN}
    mine = SavedView.objects.create(id="mine", name="Night shift", **given)
    shared = SavedView.objects.create(id="shared", name="Night watch", shared=True, **given)
    assert set(find("ben", "night")["views"]) == {f"/views/{mine.pk}/", f"/views/{shared.pk}/"}
    assert find("ana", "night")["views"] == {f"/views/{shared.pk}/": "Night watch saved view of ben"}
    assert "views" not in find("sam", "night")


@pytest.mark.parametrize("text", ["colour:red pay", "status:nonsense pay", "pay status:"])
def test_an_invalid_part_is_named_and_the_rest_is_searched(text, listed, find, as_):
    (part,) = [part for part in text.split() if ":" in part]
    for address in ("/search/", "/search/?fragment=options"):
        page = as_("ben").get(address, {"q": text, "fragment": "options" if "?" in address else ""})
        assert f"<code>{part}</code>" in page.content.decode()
    assert f"/requests/{listed.pk}/" in find("ben", text)["requests"]


@pytest.mark.parametrize(
    "address",
    ["/search/?q=word", "/search/?q=word&fragment=options", "/decisions/?q=word", "/?q=word", "/runs/?q=word"],
)
def test_where_content_is_encrypted_the_search_says_what_cannot_be_searched(address, listed, as_, settings):
    settings.WFDASH_ENCRYPTION_KEYS = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
    assert "the words of values and cards cannot" in as_("otto").get(address).content.decode()
    page = as_("otto").get("/search/", {"q": "input.claims:x", "fragment": "options"}).content.decode()
    assert "encrypted and cannot be searched" in page


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=x>',
    "{{ 7|add:7 }}",
    "a\0b",
    "%",
    "_",
    "'; DROP--",
    "é" * 600,
]


@pytest.mark.parametrize("text", HOSTILE)
def test_untrusted_text_is_escaped_wherever_it_is_shown(text, run, as_):
    people.ask(run, subject=text[:200].replace("\0", "") + " pay")
    run.title = text[:200].replace("\0", "")
    run.save()
    index_runs()
    for query in (text, "pay", run.pk, f"colour:{text}"):
        for fragment in ("", "options"):
            page = as_("otto").get("/search/", {"q": query, "fragment": fragment})
            assert page.status_code == 200
            assert "<script>alert" not in page.content.decode()
            assert "<img src=x" not in page.content.decode()


def test_the_page_shows_the_same_without_a_script(listed, as_, find):
    page = as_("otto").get("/search/", {"q": "expenses"}).content.decode()
    for group in find("otto", "expenses").values():
        for href in group:
            assert f'href="{href}"'.replace("&", "&amp;") in page
    assert 'value="expenses"' in page
    assert "Nothing found" in as_("sam").get("/search/", {"q": "zzz"}).content.decode()


def test_other_fragments_are_not_found(as_):
    assert as_("ana").get("/search/?fragment=nothing").status_code == 404


@pytest.mark.parametrize("text", ["pay", "a1b2c3", "status:waiting,failed by:ana pay", "0198c0de-0000-7000"])
def test_the_number_of_queries_does_not_depend_on_what_is_stored(text, run, as_):
    numbers = []
    client = as_("otto")
    for _ in range(2):
        for number in range(4):
            people.ask(people.make_run(title=f"Pay {number}"), subject="Pay?")
        index_runs()
        client.get("/search/", {"q": text, "fragment": "options"})
        with CaptureQueriesContext(connection) as queries:
            client.get("/search/", {"q": text, "fragment": "options"})
        numbers.append(len(queries))
    assert numbers[0] == numbers[1] <= 35


def test_only_the_newest_open_requests_are_looked_at(run, find, monkeypatch):
    monkeypatch.setattr(palette, "MAX_SCANNED_ROWS", 3)
    asked = [people.ask(run, subject=f"Pay {number}") for number in range(5)]
    found = find("ben", "pay")["requests"]
    assert [f"/requests/{one.pk}/" in found for one in asked] == [False, False, True, True, True]
