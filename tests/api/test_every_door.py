"""One table: who may do what. Every row goes through the resolver, the pages, the API and the sockets."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from checkpoints.models import Grant, ServiceAccount, Token
from checkpoints.models.user_model import User
from tests import people
from wfdash.access.signin import tokens
from wfdash.access.viewer import Viewer, viewer_for
from wfdash.actions.account import create_token
from wfdash.actions.people.roles import command_line
from wfdash.domain.errors import BadToken
from wfdash.web.live.authorization import read_inspect, read_viewer

VERBS = ("see", "inspect", "answer", "start", "code", "operate", "admin")
ROLES: dict[str, tuple[str, ...]] = {
    "": (),
    "viewer": ("see", "inspect"),
    "reviewer": ("see", "answer"),
    "author": ("see", "inspect", "start", "code"),
    "operator": ("see", "inspect", "answer", "start", "code", "operate"),
    "admin": VERBS,
}
"""Role -> verbs: the table."""
SCOPES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "everything": ({}, VERBS),
    "reading": ({"rights": ["inspect"]}, ("see", "inspect")),
    "seeing": ({"rights": ["see"]}, ("see",)),
    "answering": ({"rights": ["answer"]}, ("see", "answer")),
    "starting": ({"rights": ["start"]}, ("see", "start")),
    "operating": ({"rights": ["operate"]}, ("see", "operate")),
    "this workflow": ({"workflows": [people.WORKFLOW]}, VERBS[:-1]),
    "another workflow": ({"workflows": ["another"]}, ()),
}
"""What a token is limited to -> the verbs that it leaves of its owner's."""
BAD: dict[str, Callable[[Token], object]] = {
    "revoked": lambda token: Token.objects.filter(pk=token.pk).update(revoked=timezone.now()),
    "expired": lambda token: Token.objects.filter(pk=token.pk).update(expires=timezone.now() - timedelta(seconds=1)),
    "deactivated": lambda token: User.objects.filter(pk=token.owner_id).update(is_active=False),
    "deleted": lambda token: token.delete(),
}
PAGES: dict[str, str] = {
    "see": "/runs/{run}/",
    "inspect": "/runs/{run}/checkpoints/{checkpoint}/",
    "start": "/schedules/new/?workflow=expense_batch",
    "operate": "/runs/{run}/checkpoints/{checkpoint}/restore/",
    "admin": "/people/",
}
"""Verb -> a page that needs it. Decisions are posted; the code has a test of its own, as paper has none."""
CALLS: dict[str, tuple[str, Any]] = {
    "see": ("runs/{run}", None),
    "inspect": ("runs/{run}/checkpoints/{checkpoint}", None),
    "answer": ("requests/{request}/answer", {"value": {"action": "approve"}}),
    "start": ("runs", {"workflow": people.WORKFLOW, "message": {"claims": "a,b"}}),
    "operate": ("runs/{run}/cancel", {}),
    "code": (f"workflows/{people.WORKFLOW}/code", None),
    "admin": ("groups", None),
}
"""Verb -> a call of the API that needs it. ``document/test_roles.py`` has all its calls."""
API = reverse("wfdash:api:openapi-json").removesuffix("openapi.json")


@pytest.fixture
def ids(everybody, run, history, question) -> dict[str, str]:
    return {"run": run.pk, "checkpoint": history[0].pk, "request": question.pk}


def account(role: str, *, service: bool = False) -> User:
    user = User.objects.create(username="somebody")
    if role:
        Grant.objects.create(user=user, role=role, workflow="*")
    if service:
        ServiceAccount.objects.create(user=user, created=timezone.now())
    return user


def a_token(user: User, *, rights: Any = VERBS, workflows: Any = ("*",)) -> tuple[Token, str]:
    new = create_token(command_line(), "ci", rights=rights, workflows=workflows, owner=user.get_username())
    return new.token, new.text


def through_pages(client: Client, ids: dict[str, str]) -> set[str]:
    got = {verb for verb, path in PAGES.items() if client.get(path.format(**ids)).status_code == 200}
    take = client.post("/requests/{request}/take/".format(**ids))
    return got | ({"answer"} if take.status_code < 400 and "sign-in" not in take.headers["Location"] else set())


def through_api(client: Client, ids: dict[str, str]) -> set[str]:
    got = set()
    for verb, (path, body) in CALLS.items():
        address = API + path.format(**ids)
        answer = client.get(address) if body is None else client.post(address, body, content_type="application/json")
        assert answer.status_code in {200, 201, 401, 403, 404}, (verb, answer.content)
        if answer.status_code < 400:
            got.add(verb)
    return got


def through_sockets(headers: list[tuple[bytes, bytes]], ids: dict[str, str]) -> set[str]:
    viewer = read_viewer({"headers": headers, "client": ["192.0.2.1", 1]})
    inspects = None if viewer is None else read_inspect(viewer, ids["run"])
    return set() if inspects is None else {"see", "inspect"} if inspects else {"see"}


def resolved(viewer: Viewer) -> set[str]:
    where = {"admin": "*"}
    return {verb for verb in VERBS if viewer.may(verb, where.get(verb, people.WORKFLOW))}


def check_session(user: User | None, may: set[str], ids: dict[str, str]) -> None:
    client = Client()
    if user is not None:
        client.force_login(user)
        assert resolved(viewer_for(user)) == may
    assert through_pages(client, ids) == may & {*PAGES, "answer"}
    cookie = "; ".join(f"{name}={morsel.value}" for name, morsel in client.cookies.items())
    assert through_sockets([(b"cookie", cookie.encode())], ids) == may & {"see", "inspect"}
    assert through_api(client, ids) == may & {*CALLS}


def check_token(text: str, may: set[str], ids: dict[str, str]) -> None:
    header = f"Bearer {text}"
    client = Client(headers={"Authorization": header}, enforce_csrf_checks=True)
    if may:
        assert resolved(tokens.viewer_of(tokens.use_token(text))) == may
    assert through_sockets([(b"authorization", header.encode())], ids) == may & {"see", "inspect"}
    assert through_api(client, ids) == may & {*CALLS}
    assert all(client.get(path.format(**ids)).status_code == 302 for path in PAGES.values())


@pytest.mark.parametrize("role", ROLES)
def test_a_person_may_what_the_role_says(role, ids):
    check_session(account(role), set(ROLES[role]), ids)


def test_no_one_may_anything_without_signing_in(ids):
    check_session(None, set(), ids)


@pytest.mark.parametrize("role", ROLES)
def test_a_token_of_everything_may_what_its_owner_may(role, ids):
    check_token(a_token(account(role))[1], set(ROLES[role]), ids)


@pytest.mark.parametrize("scope", SCOPES)
def test_a_token_may_what_its_scopes_leave_of_an_admin(scope, ids):
    limits, may = SCOPES[scope]
    check_token(a_token(account("admin"), **limits)[1], set(may), ids)


@pytest.mark.parametrize("scope", SCOPES)
def test_a_service_account_may_what_role_and_scopes_have_in_common(scope, ids):
    limits, may = SCOPES[scope]
    check_token(a_token(account("reviewer", service=True), **limits)[1], set(may) & set(ROLES["reviewer"]), ids)


def test_a_token_that_may_operate_and_not_inspect_is_shown_no_values_by_a_preview(ids):
    client = Client(headers={"Authorization": f"Bearer {a_token(account('admin'), rights=['operate'])[1]}"})
    place = f"{API}runs/{ids['run']}/checkpoints/{ids['checkpoint']}"
    assert client.post(f"{place}/preview", {"verb": "fork"}, content_type="application/json").status_code == 403
    assert client.get(f"{place}/edits").status_code == 403
    assert client.post(f"{place}/restore", content_type="application/json").status_code == 200


@pytest.mark.parametrize("flaw", BAD)
def test_a_bad_token_may_nothing(flaw, ids):
    token, text = a_token(account("admin"))
    BAD[flaw](token)
    with pytest.raises(BadToken):
        tokens.use_token(text)
    check_token(text, set(), ids)


def test_the_table_has_every_role_and_every_verb():
    from wfdash.access.viewer import ORDER, RIGHTS

    assert {role: frozenset(verbs) for role, verbs in ROLES.items() if role} == RIGHTS
    assert VERBS == ORDER
