"""A service account among people: what only people can do is closed to it, what its role gives is not."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import Group, User
from django.utils import timezone

from checkpoints.models import Absence, Notice
from tests import people
from wfdash.access.directory import decidability_of, readers
from wfdash.access.viewer import Origin
from wfdash.actions.account import set_absence
from wfdash.actions.people.accounts import change_address, create_service_account, set_absence_of
from wfdash.actions.requests import collaboration as comments
from wfdash.actions.requests.announce import announce_opened
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.requests.collaboration import assign_request
from wfdash.domain.errors import Invalid, WrongState
from wfdash.queries.requests import request as request_queries
from wfdash.queries.requests.request import read_request as find

pytestmark = pytest.mark.django_db


@pytest.fixture
def robot() -> User:
    people.make_people()
    return create_service_account(people.viewer("adam"), "robot", groups=["finance"], roles=[("operator", "*")])


def noted(name: str) -> list[str]:
    return list(Notice.objects.filter(user__username=name, channel="browser").values_list("kind", flat=True))


def test_it_is_not_notified_of_what_it_could_answer(robot):
    people.ask(people.make_run())
    announce_opened()
    assert noted("ana") == ["opened"]
    assert not Notice.objects.filter(user=robot).exists()


def test_it_is_neither_suggested_nor_found_by_a_mention(robot):
    request = people.ask(people.make_run(created_by=robot))
    assert "robot" not in [one.name for one in readers("expense_batch", [], Origin(starter="robot"))]
    assert "robot" not in request_queries.mentionable(find(people.viewer("ana"), request.pk))
    assert comments.comment_on(people.viewer("otto"), request.pk, "@robot and @ana, look").mentions == ["ana"]


def test_no_request_is_assigned_to_it(robot):
    request = people.ask(people.make_run())
    otto = people.viewer("otto")
    assert "robot" not in request_queries.assignable(find(otto, request.pk))
    assert "robot" not in request_queries.read_assignees(otto, ["expense_batch"])
    with pytest.raises(Invalid) as refused:
        assign_request(otto, request.pk, "robot")
    assert "Choose a person" in refused.value.by_field["to"]


def test_no_one_answers_on_behalf_of_it(robot):
    request = people.ask(people.make_run(), by=["finance"])
    otto = people.viewer("otto")
    assert "robot" not in request_queries.answerable_for(find(otto, request.pk))
    with pytest.raises(Invalid) as refused:
        answer_request(otto, request.pk, {"action": "approve"}, on_behalf_of="robot", reason="It is down")
    assert "robot cannot answer" in refused.value.by_field["on_behalf_of"]


def test_it_is_never_out_of_office(robot):
    now = timezone.now()
    with pytest.raises(WrongState, match="Only people"):
        set_absence(people.viewer("robot"), "ana", now, now + timedelta(days=1))
    with pytest.raises(WrongState, match="Only people"):
        set_absence_of(people.viewer("adam"), "robot", "ana", now, now + timedelta(days=1), reason="Updates")
    assert not Absence.objects.exists()


def test_it_has_no_mail_address(robot):
    with pytest.raises(WrongState, match="gets no mail"):
        change_address(people.viewer("adam"), "robot", "robot@example.org")


def test_operators_are_asked_back_about_a_run_that_it_started(robot):
    request = people.ask(people.make_run(created_by=robot))
    assert "robot" not in [one.get_username() for one in comments.asked_of(request)]
    comments.ask_back(people.viewer("ana"), request.pk, "Which account?")
    assert noted("otto") == ["asked"]


def test_a_group_with_it_alone_can_still_answer(robot):
    Group.objects.get(name="finance").user_set.set([robot])
    assert decidability_of(people.ask(people.make_run(), by=["finance"])).able == ("robot",)


def test_no_session_is_its_own_however_it_was_started(robot, client):
    session = client.session
    session[SESSION_KEY], session[HASH_SESSION_KEY] = str(robot.pk), robot.get_session_auth_hash()
    session[BACKEND_SESSION_KEY] = "wfdash.access.signin.backend.PasswordBackend"
    session.save()
    assert client.get("/").headers["Location"].startswith("/sign-in/")
    assert client.get("/api/v1/me").status_code == 401
