"""The user of a session is read with it, in one query, and is never anyone else than the session says."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.db import connection
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from checkpoints.models import Absence, Grant, ServiceAccount
from tests import people
from wfdash.access.signin import sessions
from wfdash.access.signin.sessions import SessionStore, SignedInUser, stored_key
from wfdash.access.viewer import evaluated, viewer_for
from wfdash.actions.account import create_token
from wfdash.web.live.authorization import read_viewer

pytestmark = pytest.mark.django_db
PAGE = "/settings/"


@pytest.fixture(autouse=True)
def _nothing_known() -> Iterator[None]:
    sessions._owners.clear()
    yield
    sessions._owners.clear()


@pytest.fixture
def ana() -> Client:
    return signed_in("ana")


def signed_in(name: str) -> Client:
    client = Client()
    client.force_login(people.make_people()[name])
    return client


def who(client: Client) -> str:
    """Return whose page is shown, empty if sign-in is asked for."""
    response = client.get(PAGE)
    return response.wsgi_request.user.get_username() if response.status_code == 200 else ""


def key_of(client: Client) -> str:
    return stored_key(client.cookies["sessionid"].value)


def about_people(client: Client) -> list[str]:
    """Return the statements of a page that read the session or its user."""
    with CaptureQueriesContext(connection) as seen:
        assert client.get(PAGE).status_code == 200
    texts = [one["sql"] for one in seen]
    return [text for text in texts if "django_session" in text or 'FROM "auth_user" LEFT OUTER JOIN' in text]


def test_the_second_page_reads_session_and_user_in_one_query(ana: Client) -> None:
    assert len(about_people(ana)) == 2
    (together,) = about_people(ana)
    assert "session_data" in together
    assert who(ana) == "ana"


def test_a_socket_reads_session_and_user_in_one_query_too(ana: Client) -> None:
    cookie = f"sessionid={ana.cookies['sessionid'].value}".encode()
    for statements in (2, 1):
        with CaptureQueriesContext(connection) as seen:
            found = read_viewer({"headers": [(b"cookie", cookie)]})
        assert found is not None
        assert found.name == "ana"
        assert len([one for one in seen if "session" in one["sql"] or "is_active" in one["sql"]]) == statements


def test_rights_are_read_with_session_and_user(ana: Client) -> None:
    about_people(ana)
    with CaptureQueriesContext(connection) as seen:
        assert ana.get(PAGE).wsgi_request.viewer.may("answer", people.WORKFLOW)
    assert len([one for one in seen if "checkpoints_grant" in one["sql"]]) == 1


@pytest.mark.parametrize("by", ["session", "token"])
def test_a_right_that_was_revoked_is_gone_with_the_next_request(by: str, ana: Client) -> None:
    text = create_token(people.viewer("ana"), "ci", rights=["answer"], workflows=["*"]).text
    path = PAGE if by == "session" else reverse("wfdash:api:list_workflows")
    client = ana if by == "session" else Client(headers={"Authorization": f"Bearer {text}"})
    for may in (True, True, False):
        if not may:
            Grant.objects.all().delete()
        assert client.get(path).wsgi_request.viewer.may("answer", people.WORKFLOW) is may


def test_rights_read_with_the_session_are_those_read_alone(ana: Client) -> None:
    team = Group.objects.create(name='the "team", ö')
    user = User.objects.get(username="ana")
    user.groups.add(team)
    Grant.objects.create(group=team, workflow="other", role="operator")
    away, now = people.make_people()["ben"], timezone.now()
    Absence.objects.create(user=away, delegate=user, since=now - timedelta(days=1), until=now + timedelta(days=1))
    for _ in range(2):
        found = ana.get(PAGE).wsgi_request.viewer
        assert evaluated(found) == viewer_for(user)
    assert (found.groups, len(found.acts_for)) == (viewer_for(user).groups, 1)
    assert found.may("operate", "other")


def test_whose_session_it_is_says_the_session_alone(ana: Client) -> None:
    otto = people.make_people()["otto"]
    sessions._owners[key_of(ana)] = str(otto.pk)
    assert who(ana) == "ana"
    assert sessions._owners[key_of(ana)] == ana.session[SESSION_KEY]


def test_a_user_who_was_deleted_leaves_a_session_of_no_one(ana: Client) -> None:
    assert who(ana) == "ana"
    User.objects.filter(username="ana").delete()
    assert who(ana) == ""


@pytest.mark.parametrize("end", ["expired", "deleted", "inactive", "password", "service account", "signed out"])
def test_what_ends_a_session_ends_it_where_its_user_is_known(end: str, ana: Client) -> None:
    assert (who(ana), who(ana)) == ("ana", "ana")
    user, row = User.objects.get(username="ana"), Session.objects.filter(pk=key_of(ana))
    if end == "expired":
        row.update(expire_date=timezone.now() - timedelta(seconds=1))
    elif end == "deleted":
        row.delete()
    elif end == "inactive":
        User.objects.filter(pk=user.pk).update(is_active=False)
    elif end == "password":
        user.set_password("another one entirely")
        user.save()
    elif end == "service account":
        ServiceAccount.objects.create(user=user, created=timezone.now())
    else:
        ana.logout()
    assert who(ana) == ""


def test_another_person_who_signs_in_with_the_same_browser_is_who_is_seen(ana: Client) -> None:
    assert who(ana) == "ana"
    ana.force_login(people.make_people()["ben"])
    assert (who(ana), who(ana)) == ("ben", "ben")


def test_a_request_that_already_has_a_person_is_theirs() -> None:
    request = RequestFactory().get(PAGE)
    request.session, request._cached_user = SessionStore(), people.make_people()["otto"]
    SignedInUser(lambda given: HttpResponse(given.user.get_username())).process_request(request)
    assert request.user.get_username() == "otto"


def test_a_session_without_a_user_has_none(ana: Client) -> None:
    store = SessionStore()
    store["colour"] = "blue"
    store.save()
    for _ in range(2):
        again = SessionStore(store.session_key)
        assert (again["colour"], again.user_row) == ("blue", None)


def test_a_process_remembers_no_more_sessions_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST_KNOWN", 2)
    for name in ("ana", "ben", "vera", "otto"):
        client = signed_in(name)
        assert (who(client), who(client)) == (name, name)
        assert len(sessions._owners) <= 2
