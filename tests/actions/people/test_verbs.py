"""What the actions on people do, and what they leave behind in the audit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.core import mail
from django.test import Client
from django.utils import timezone

from checkpoints.models import Absence, AuditEntry, Grant, SecondFactor, SignInLink
from tests import people
from tests.people import viewer
from wfdash.access.signin.links import find_link
from wfdash.access.viewer import viewer_for
from wfdash.actions.people import accounts
from wfdash.actions.people import roles as role_actions
from wfdash.domain.errors import Invalid, NotAllowed, NotFound, WrongState
from wfdash.settings import mail as mail_settings

BASE = "https://wfdash.example.org"


def verbs() -> list[str]:
    return list(AuditEntry.objects.order_by("n").values_list("verb", flat=True))


def secret_of(link: str) -> str:
    return link.rstrip("/").rsplit("/", 1)[-1]


def test_an_invitation_is_an_account_with_groups_roles_and_a_link_that_works_once(everyone) -> None:
    roles = [("reviewer", "payroll"), ("viewer", "*"), ("viewer", "*")]
    invited = accounts.invite_person(
        viewer("adam"), " nora ", email="n@x.org", groups=["finance"], roles=roles, base=BASE
    )
    made = viewer_for(invited.user)
    assert made.groups == {"finance"}
    assert made.may("answer", "payroll")
    assert made.may("see", "other")
    assert not made.may("answer", "other")
    assert not invited.user.has_usable_password()
    assert invited.link.startswith(f"{BASE}/sign-in/")
    assert find_link(secret_of(invited.link)).user == invited.user
    assert invited.mailed is None
    assert mail.outbox == []
    assert verbs() == ["create user", "add to group", "grant", "grant", "make sign-in link"]
    assert not any(secret_of(invited.link) in str(entry.facts) for entry in AuditEntry.objects.all())


def test_an_invitation_is_all_or_nothing(everyone) -> None:
    for broken in ({"roles": [("root", "*")]}, {"groups": ["nothing"]}, {"email": "no address"}):
        with pytest.raises(Invalid) as refused:
            accounts.invite_person(viewer("adam"), "nora", **broken)
        assert refused.value.errors[0]["loc"] == [next(iter(broken))]
    assert not User.objects.filter(username="nora").exists()
    assert verbs() == []


def test_the_link_is_mailed_where_mail_is_configured_and_kept_nowhere(everyone, settings) -> None:
    settings.WFDASH_MAIL = "smtp://localhost"
    invited = accounts.invite_person(viewer("adam"), "nora", email="nora@x.org", base=BASE)
    assert invited.mailed is True
    assert invited.link in mail.outbox[0].body
    assert mail.outbox[0].to == ["nora@x.org"]
    assert mail.outbox[0].subject == "adam invites you to wfdash"
    assert "review and decide" in mail.outbox[0].body


def test_a_mail_that_cannot_be_sent_leaves_the_invitation(everyone, settings, caplog) -> None:
    settings.WFDASH_MAIL = "smtp://localhost:1"
    for name, value in mail_settings("smtp://127.0.0.1:1").items():
        setattr(settings, name, value)
    invited = accounts.invite_person(viewer("adam"), "nora", email="nora@x.org", base=BASE)
    assert invited.mailed is False
    assert User.objects.filter(username="nora").exists()
    assert secret_of(invited.link) not in caplog.text


def test_a_new_link_ends_the_one_before(everyone) -> None:
    first = accounts.make_sign_in_link(viewer("adam"), "ana")
    second = accounts.make_sign_in_link(viewer("adam"), "ana")
    with pytest.raises(NotFound):
        find_link(secret_of(first.link))
    assert find_link(secret_of(second.link)).user == everyone["ana"]


def test_a_deactivated_person_is_out_at_once_and_stays_out(everyone) -> None:
    client = Client()
    client.force_login(everyone["ana"])
    other = Client()
    other.force_login(everyone["ben"])
    link = accounts.make_sign_in_link(viewer("adam"), "ana").link
    accounts.deactivate_person(viewer("adam"), "ana")
    assert Session.objects.count() == 1
    with pytest.raises(WrongState):
        accounts.deactivate_person(viewer("adam"), "ana")
    with pytest.raises(WrongState):
        accounts.make_sign_in_link(viewer("adam"), "ana")
    accounts.reactivate_person(viewer("adam"), "ana")
    assert client.get("/").status_code == 302, "a session of before does not come back"
    assert other.get("/").status_code == 200
    with pytest.raises(NotFound):
        find_link(secret_of(link))
    assert viewer("ana").may("answer", "anything"), "roles come back"
    assert User.objects.filter(username="ana").exists()


def test_sessions_end_in_every_browser_and_unused_links_with_them(everyone) -> None:
    clients = [Client(), Client()]
    for client in clients:
        client.force_login(everyone["ana"])
    SignInLink.objects.create(secret_hash="x", user=everyone["ana"], expires=timezone.now() + timedelta(hours=1))
    assert accounts.end_sessions_of(viewer("adam"), "ana") == 2
    assert [client.get("/").status_code for client in clients] == [302, 302]
    assert not SignInLink.objects.filter(expires__gt=timezone.now()).exists()
    entry = AuditEntry.objects.get(verb="end sessions")
    assert (entry.actor, entry.facts) == ("adam", {"user": "ana", "sessions": 2})


def test_a_second_factor_is_reset_once(everyone) -> None:
    SecondFactor.objects.create(user=everyone["ana"], secret="x", created=timezone.now(), confirmed=timezone.now())
    accounts.reset_second_factor(viewer("adam"), "ana")
    assert verbs() == ["second factor: remove"]
    with pytest.raises(WrongState):
        accounts.reset_second_factor(viewer("adam"), "ana")


def test_an_admin_names_a_delegate_with_a_reason_that_is_kept(everyone) -> None:
    now = datetime.now(UTC)
    absence = accounts.set_absence_of(
        viewer("adam"), "ana", "ben", now, now + timedelta(days=3), reason=" broke\na leg "
    )
    assert viewer("ben").acts_for[0].name == "ana"
    entry = AuditEntry.objects.get()
    assert (entry.verb, entry.actor, entry.facts["user"], entry.facts["reason"]) == (
        "away",
        "adam",
        "ana",
        "broke a leg",
    )
    with pytest.raises(NotFound):
        accounts.end_absence_of(viewer("adam"), "ben", absence.pk)
    accounts.end_absence_of(viewer("adam"), "ana", absence.pk)
    assert Absence.objects.get().until <= timezone.now()


def test_a_grant_is_given_once_and_revoked_once(everyone) -> None:
    given = role_actions.grant_role(viewer("adam"), "reviewer", workflow="payroll", person="sam")
    with pytest.raises(Invalid) as refused:
        role_actions.grant_role(viewer("adam"), "reviewer", workflow="payroll", person="sam")
    assert refused.value.errors[0]["loc"] == ["role"]
    role_actions.revoke_role(viewer("adam"), given.pk)
    with pytest.raises(NotFound):
        role_actions.revoke_role(viewer("adam"), given.pk)
    assert verbs() == ["grant", "revoke"]


@pytest.mark.parametrize(
    "holder", [{}, {"person": "nobody-here"}, {"group": "no such"}, {"person": "ana", "group": "finance"}]
)
def test_a_grant_needs_one_holder_who_exists(holder: dict[str, str], everyone) -> None:
    with pytest.raises(Invalid):
        role_actions.grant_role(viewer("adam"), "viewer", workflow="payroll", **holder)
    assert Grant.objects.filter(workflow="payroll").count() == 0


@pytest.mark.parametrize("workflow", ["", "x" * 201, "a\0b", "\ud800"])
def test_a_grant_needs_a_workflow_that_can_be_stored(workflow: str, everyone) -> None:
    with pytest.raises(Invalid):
        role_actions.grant_role(viewer("adam"), "viewer", workflow=workflow, person="sam")


def test_someone_who_is_deactivated_gets_no_role_and_joins_no_group(everyone) -> None:
    accounts.deactivate_person(viewer("adam"), "sam")
    with pytest.raises(Invalid):
        role_actions.grant_role(viewer("adam"), "viewer", person="sam")
    with pytest.raises(Invalid):
        role_actions.add_member(viewer("adam"), "finance", "sam")


def test_a_group_has_members_until_they_leave(everyone) -> None:
    role_actions.make_group(viewer("adam"), "Legal team", members=["ana", "ana", "ben"])
    role_actions.remove_member(viewer("adam"), "Legal team", "ana")
    role_actions.add_member(viewer("adam"), "Legal team", "sam")
    with pytest.raises(Invalid):
        role_actions.add_member(viewer("adam"), "Legal team", "sam")
    with pytest.raises(NotFound):
        role_actions.remove_member(viewer("adam"), "Legal team", "ana")
    assert set(Group.objects.get(name="Legal team").user_set.values_list("username", flat=True)) == {"ben", "sam"}


def test_a_group_is_renamed_or_deleted_with_its_grants_while_no_policy_names_it(everyone) -> None:
    role_actions.grant_role(viewer("adam"), "viewer", group="finance")
    role_actions.rename_group(viewer("adam"), "finance", "money")
    role_actions.rename_group(viewer("adam"), "money", "Money")
    role_actions.delete_group(viewer("adam"), "Money")
    assert not Group.objects.filter(name__iexact="money").exists()
    assert not Grant.objects.filter(group__isnull=False).exists()
    assert verbs()[1:] == ["rename group", "rename group", "remove from group", "revoke", "delete group"]


@pytest.mark.parametrize("facts", [{"by": ["finance"]}, {"not_by": ["finance"]}, {"policy": {"escalate": ["finance"]}}])
def test_a_group_that_an_open_request_names_keeps_its_name(facts: dict[str, object], everyone) -> None:
    request = people.ask(people.make_run(), **facts)
    for attempt in (
        lambda v: role_actions.rename_group(v, "finance", "money"),
        lambda v: role_actions.delete_group(v, "finance"),
    ):
        with pytest.raises(WrongState, match=r"named by expense_batch / review \(1 open\)"):
            attempt(viewer("adam"))
    people.answered(request, everyone["ana"])
    role_actions.rename_group(viewer("adam"), "finance", "money")


def test_no_admin_leaves_a_group_that_a_policy_keeps_from_answering(everyone) -> None:
    """They would then answer alone what is kept from them; a colleague has to take part."""
    role_actions.add_member(viewer("adam"), "finance", "adam")
    request = people.ask(people.make_run(), not_by=["finance"])
    with pytest.raises(NotAllowed, match="Members of finance must not answer some requests"):
        role_actions.remove_member(viewer("adam"), "finance", "adam")
    role_actions.remove_member(viewer("adam"), "finance", "ana")
    role_actions.remove_member(viewer("rita"), "finance", "adam")
    role_actions.add_member(viewer("rita"), "finance", "adam")
    people.answered(request, everyone["ben"])
    role_actions.remove_member(viewer("adam"), "finance", "adam")


ODD = ["a\0b", "\ud800", "x" * 5_000, "", "*", "'; --"]


@pytest.mark.parametrize("text", ODD)
def test_no_text_stops_an_action_or_is_kept_where_it_cannot_be_read(text: str, everyone) -> None:
    adam, now = viewer("adam"), datetime.now(UTC)
    away = (now, now + timedelta(days=1))
    for attempt in (
        lambda: accounts.invite_person(adam, text),
        lambda: accounts.invite_person(adam, "nora", email=text or "x"),
        lambda: accounts.invite_person(adam, "nora", groups=[text]),
        lambda: accounts.invite_person(adam, "nora", roles=[(text, "*")]),
        lambda: accounts.make_sign_in_link(adam, text),
        lambda: accounts.change_address(adam, "sam", text or "x"),
        lambda: role_actions.grant_role(adam, text, person="sam"),
        lambda: role_actions.grant_role(adam, "viewer", person=text),
        lambda: role_actions.grant_role(adam, "viewer", group=text or "?"),
        lambda: role_actions.make_group(adam, text),
        lambda: role_actions.rename_group(adam, text, "money"),
        lambda: role_actions.rename_group(adam, "finance", text),
        lambda: role_actions.add_member(adam, "finance", text),
        lambda: role_actions.remove_member(adam, "finance", text),
        lambda: accounts.set_absence_of(adam, "ana", text, *away, reason="ill"),
        lambda: accounts.end_absence_of(adam, text, 1),
    ):
        with pytest.raises((Invalid, NotFound)):
            attempt()
    assert not User.objects.filter(username="nora").exists()


def test_a_reason_is_kept_readable(everyone) -> None:
    now = datetime.now(UTC)
    accounts.set_absence_of(viewer("adam"), "ana", "ben", now, now + timedelta(days=1), reason="ill\u202e\ud800\0")
    assert AuditEntry.objects.get().facts["reason"] == "ill"
