"""The pages about people: what an admin does there, and what others do not get."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from urllib.parse import unquote_plus

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import timezone

from checkpoints.models import Absence, AuditEntry, Grant, SignInLink
from tests import people
from tests.people import WORKFLOW

ADDRESSES = ["/people/", "/people/invite/", "/people/groups/", "/people/groups/finance/", "/people/access/"]


@pytest.fixture
def adam(as_) -> Client:
    return as_("adam")


@pytest.fixture
def wanda(everybody) -> Client:
    """The client of an admin of one workflow."""
    user = User.objects.create_user("wanda")
    Grant.objects.create(user=user, role="admin", workflow=WORKFLOW)
    client = Client()
    client.force_login(user)
    return client


def read(client: Client, address: str) -> str:
    page = client.get(address)
    assert page.status_code == 200, address
    return page.content.decode()


@pytest.mark.parametrize("address", [*ADDRESSES, "/people/ana/"])
@pytest.mark.parametrize("name", ["ana", "vera", "otto", "sam"])
def test_they_are_for_admins(address: str, name: str, as_) -> None:
    client = as_(name)
    assert client.get(address).status_code == 403
    assert client.post(address, {"act": "deactivate", "name": "x"}).status_code in (403, 405)


def test_what_someone_did_and_decided_is_found_by_a_name_with_blanks(as_) -> None:
    User.objects.create_user("Ana, Maria")
    page = read(as_("adam"), "/people/Ana,%20Maria/")
    quoted = [query for query in re.findall(r"\?q=([^\"]+)", page) if "Maria" in query]
    assert [unquote_plus(html.unescape(query)) for query in quoted] == [
        'by:"Ana, Maria" answered:<7d',
        'actor:"Ana, Maria"',
    ]


def test_an_admin_of_one_workflow_gets_its_people_and_no_account(wanda: Client) -> None:
    User.objects.filter(username="ana").update(email="ana@example.org")
    listed = read(wanda, "/people/")
    assert "/people/ana/" in listed
    assert "/people/sam/" not in listed
    assert "ana@example.org" not in listed + read(wanda, "/people/ana/")
    assert "Deactivate" not in read(wanda, "/people/ana/")
    assert wanda.get("/people/sam/").status_code == 404
    assert [wanda.get(address).status_code for address in ADDRESSES[1:4]] == [403] * 3
    assert wanda.get("/people/access/?workflow=payroll").status_code == 404
    assert "Person" in read(wanda, "/people/access/")


@pytest.mark.parametrize(
    "given",
    [
        {"act": "link"},
        {"act": "deactivate"},
        {"act": "sessions"},
        {"act": "factor"},
        {"act": "email", "email": "x@y.org"},
        {"act": "join", "group": "finance"},
        {"act": "leave", "group": "finance"},
        {"act": "away", "delegate": "ben", "since": "2026-01-01", "until": "2099-01-01", "reason": "x"},
        {"act": "grant", "role": "admin", "workflow": "*"},
        {"act": "grant", "role": "admin", "workflow": ""},
        {"act": "grant", "role": "viewer", "workflow": "payroll"},
    ],
)
def test_an_admin_of_one_workflow_changes_nothing_beyond_it(given: dict[str, str], wanda: Client) -> None:
    before = AuditEntry.objects.count()
    given = {
        **given,
        "until": (timezone.localdate() + timedelta(days=2)).isoformat(),
        "since": str(timezone.localdate()),
    }
    assert wanda.post("/people/ana/", given).status_code == 403
    assert AuditEntry.objects.count() == before


def test_an_admin_of_one_workflow_grants_and_revokes_there(wanda: Client) -> None:
    answer = wanda.post("/people/ana/", {"act": "grant", "role": "operator", "workflow": WORKFLOW}, follow=True)
    assert "ana is now operator of Expense batch." in answer.content.decode()
    grant = Grant.objects.get(role="operator", user__username="ana")
    star = Grant.objects.get(role="reviewer", user__username="ana")
    assert wanda.post("/people/ana/", {"act": "revoke", "grant": star.pk}).status_code == 403
    wanda.post(f"/people/access/?workflow={WORKFLOW}", {"act": "revoke", "grant": grant.pk})
    assert not Grant.objects.filter(pk=grant.pk).exists()


def test_an_invitation_shows_its_link_once(adam: Client) -> None:
    assert "reviewer: sees runs, answers requests" in read(adam, "/people/invite/")
    given = {"name": "nora", "groups": ["finance"], "role": ["reviewer", ""], "workflow": ["*", "*"]}
    answer = adam.post("/people/invite/", given, follow=True)
    assert answer.redirect_chain == [("/people/nora/", 302)]
    assert "no role yet" not in answer.content.decode()
    (link,) = re.findall(r"http://testserver/sign-in/[\w-]+/", answer.content.decode())
    assert link not in read(adam, "/people/nora/")
    assert "1 unused link" in read(adam, "/people/nora/")
    guest = Client()
    guest.post(link.removeprefix("http://testserver"))
    assert "nora" in read(guest, "/")


@pytest.mark.parametrize(("url", "more"), [("/people/invite/", {"name": "nora"}), ("/people/ana/", {"act": "link"})])
def test_a_form_sent_twice_makes_one_link_and_shows_it_each_time(adam: Client, url: str, more: dict[str, str]) -> None:
    (key,) = set(re.findall(r'name="_key" value="([^"]+)"', read(adam, url)))
    pages = [adam.post(url, {**more, "_key": key}, follow=True).content.decode() for _ in range(2)]
    first, second = (re.findall(r"http://testserver/sign-in/[\w-]+/", page) for page in pages)
    assert first == second
    assert SignInLink.objects.count() == 1
    assert Client().post(first[0].removeprefix("http://testserver")).status_code == 302


def test_an_invitation_without_a_role_says_so(adam: Client) -> None:
    assert "nora has no role yet" in adam.post("/people/invite/", {"name": "nora"}, follow=True).content.decode()


def test_what_is_shown_once_is_for_its_page_and_person_alone(adam: Client, everybody) -> None:
    made = adam.post("/people/ana/", {"act": "link"})
    cookie = made.cookies["wfdash_once"]
    assert (cookie["httponly"], cookie["samesite"]) == (True, "Lax")
    assert "Sign-in link for" not in read(adam, "/people/ben/")
    other = Client()
    other.force_login(everybody["otto"])
    other.cookies["wfdash_once"] = cookie.value
    Grant.objects.create(user=everybody["otto"], workflow="*", role="admin")
    assert "Sign-in link for" not in read(other, "/people/ana/")
    adam.head("/people/ana/")
    assert "Sign-in link for ana" in read(adam, "/people/ana/")
    assert "Sign-in link for" not in read(adam, "/people/ana/")
    assert SignInLink.objects.filter(user__username="ana").count() == 1


def test_an_invitation_that_is_refused_keeps_what_was_typed(adam: Client) -> None:
    given = {"name": "ana", "email": "nora@x.org", "groups": ["finance"], "role": "operator", "workflow": WORKFLOW}
    answer = adam.post("/people/invite/", given)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert 'id="person-name-error"' in page
    assert 'value="nora@x.org"' in page
    assert 'value="finance" checked' in page
    assert '<option value="operator" selected>' in page


def test_a_person_s_page_says_what_they_may_do_and_by_what(adam: Client, run, django_assert_max_num_queries) -> None:
    Grant.objects.create(group=Group.objects.get(name="finance"), role="viewer", workflow=WORKFLOW)
    people.ask(run, by=["finance"], not_by=["requester"])
    adam.get("/people/ana/")
    with django_assert_max_num_queries(45):
        page = read(adam, "/people/ana/")
    assert "group finance" in page
    assert "may answer: group finance, not in runs they started" in " ".join(page.split())
    assert 'aria-label="Revoke reviewer of every workflow"' in page


def test_what_is_done_on_a_person_s_page_is_done(adam: Client, everybody) -> None:
    adam.post("/people/sam/", {"act": "grant", "role": "reviewer", "workflow": "*"})
    adam.post("/people/sam/", {"act": "join", "group": "finance"})
    adam.post("/people/sam/", {"act": "email", "email": "sam@x.org"})
    assert "sam@x.org" in read(adam, "/people/sam/")
    adam.post("/people/sam/", {"act": "leave", "group": "finance"})
    today = timezone.localdate()
    away = {
        "act": "away",
        "delegate": "ben",
        "since": str(today),
        "until": str(today + timedelta(days=3)),
        "reason": "ill",
    }
    assert "ben can decide for sam" in adam.post("/people/sam/", away, follow=True).content.decode()
    adam.post("/people/sam/", {"act": "back", "absence": Absence.objects.get().pk})
    assert Absence.objects.get().until <= timezone.now()
    assert (
        "deactivated and signed out" in adam.post("/people/sam/", {"act": "deactivate"}, follow=True).content.decode()
    )
    assert "deactivated already" in adam.post("/people/sam/", {"act": "deactivate"}, follow=True).content.decode()
    assert "is active again" in adam.post("/people/sam/", {"act": "reactivate"}, follow=True).content.decode()
    assert adam.post("/people/sam/", {"act": "nonsense"}).status_code == 302


def test_a_mistake_on_a_person_s_page_is_said_at_its_field(adam: Client) -> None:
    again = adam.post("/people/ana/", {"act": "grant", "role": "reviewer", "workflow": "*"})
    assert again.status_code == 422
    assert "ana already has this role" in again.content.decode()
    away = adam.post("/people/ana/", {"act": "away", "delegate": "ben", "since": "x", "until": "y", "reason": "ill"})
    assert away.status_code == 422
    assert 'id="out-of-office-since-error"' in away.content.decode()
    assert adam.post("/people/ana/", {"act": "email", "email": "x"}).status_code == 422


@pytest.mark.parametrize("name", ["groups", "invite", "access", "=ana", "a.b+c@d", "Zoë"])
def test_every_name_has_an_address(name: str, adam: Client) -> None:
    User.objects.create_user(name)
    (address,) = set(re.findall(r'href="(/people/[^"]*)">' + re.escape(name) + "</a>", read(adam, "/people/?show=all")))
    assert f'<h1 dir="auto">{name}</h1>' in read(adam, address)


def test_groups_say_what_workflows_need_and_make_it(adam: Client, run) -> None:
    people.ask(run, by=["legal"])
    page = read(adam, "/people/groups/")
    assert "no group or user has this name" in page
    assert "Expense batch / Review (1 open)" in page
    assert 'aria-label="Create group legal"' in page
    assert "lead to no one" in read(adam, "/people/").replace("leads", "lead")
    assert adam.post("/people/groups/", {"name": "legal"}).url == "/people/groups/legal/"
    assert "no active members" in read(adam, "/people/groups/legal/")
    adam.post("/people/groups/legal/", {"act": "add", "person": "vera"})
    assert "no member may answer" in read(adam, "/people/groups/legal/")
    adam.post("/people/groups/legal/", {"act": "grant", "role": "reviewer", "workflow": WORKFLOW})
    assert "reach no one" not in read(adam, "/people/groups/legal/")
    refused = adam.post("/people/groups/legal/", {"act": "delete"}, follow=True).content.decode()
    assert "cannot be deleted" in refused
    assert adam.post("/people/groups/", {"name": "requester"}).status_code == 422
    assert adam.post("/people/groups/legal/", {"act": "add", "person": "no one"}).status_code == 422


def test_a_group_that_nothing_needs_is_renamed_and_deleted(adam: Client) -> None:
    adam.post("/people/groups/", {"name": "Legal team"})
    assert (
        adam.post("/people/groups/Legal%20team/", {"act": "rename", "name": "Lawyers"}).url == "/people/groups/Lawyers/"
    )
    assert adam.post("/people/groups/Lawyers/", {"act": "delete"}).url == "/people/groups/"
    assert adam.get("/people/groups/Lawyers/").status_code == 404


def test_who_may_do_what_is_a_table_with_reasons(adam: Client, run) -> None:
    people.ask(run, by=["finance"], not_by=["ben"])
    page = " ".join(read(adam, f"/people/access/?workflow={WORKFLOW}").split())
    assert "Decided by finance. Excluded: ben." in page
    assert '<strong>ana</strong> <span class="muted">may answer: group finance</span>' in page
    assert "excluded by name" in page
    answer = adam.post(
        f"/people/access/?workflow={WORKFLOW}", {"act": "grant", "kind": "group", "name": "x", "role": "viewer"}
    )
    assert answer.status_code == 422
    assert "Group not found" in answer.content.decode()


def test_an_empty_installation_says_what_to_do(db) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    assert "You are the only one here" in read(client, "/people/")
    assert "No groups yet" in read(client, "/people/groups/")
    assert "This is you" in read(client, "/people/root/")


@pytest.mark.parametrize(
    "query", ["page=0", "page=-1", "page=x", "page=99999", "page=9999999999", "show=nonsense", "q=%00"]
)
def test_any_address_of_the_list_is_a_page(query: str, adam: Client) -> None:
    read(adam, f"/people/?{query}")
    adam.get(f"/people/access/?{query}")


@pytest.mark.parametrize("address", ["/", "/runs/", "/workflows/", "/settings/account/", "/nowhere/"])
def test_who_has_no_role_reads_whom_to_ask(address: str, as_) -> None:
    page = " ".join(as_("sam").get(address).content.decode().split())
    assert "You have no role yet, sam." in page
    assert "Ask adam:" in page


@pytest.mark.parametrize("name", ["ana", "vera", "adam", ""])
def test_who_has_one_or_is_not_signed_in_does_not(name: str, as_) -> None:
    for address in ("/", "/sign-in/", "/nowhere/"):
        page = as_(name).get(address, follow=True).content.decode()
        assert "You have no role yet" not in page


def test_three_admins_are_named_at_most_and_none_who_left(as_, everybody) -> None:
    for number in range(5):
        Grant.objects.create(user=User.objects.create_user(f"boss{number}"), role="admin")
    User.objects.filter(username="adam").update(is_active=False)
    assert "Ask boss0 or boss1 or boss2:" in " ".join(as_("sam").get("/").content.decode().split())


def test_an_installation_without_an_admin_says_so(db) -> None:
    client = Client()
    client.force_login(User.objects.create_user("sam"))
    assert "Ask the person who runs this server." in " ".join(client.get("/").content.decode().split())
