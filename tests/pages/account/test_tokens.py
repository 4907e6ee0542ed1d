from __future__ import annotations

import re

import pytest

from checkpoints.models import AuditEntry, Grant, ServiceAccount, SignInLink, Token
from checkpoints.models.user_model import User
from tests import people
from wfdash.access.directory import colleagues
from wfdash.access.signin.links import create_link, find_link
from wfdash.access.signin.tokens import use_token, viewer_of
from wfdash.actions.account import create_token
from wfdash.actions.people.accounts import create_service_account, make_sign_in_link
from wfdash.actions.people.roles import command_line, grant_role, revoke_role
from wfdash.domain.errors import Invalid, KeyReused, NotFound, WrongState

TEXT = re.compile(r"wfd_[a-z0-9]{8}_[\w-]{43}")
KEY = re.compile(r'name="_key" value="([^"]+)"')
ROBOT = "/people/robot/"
FORM = {"name": "ci", "rights": ["answer"], "days": "30"}


def shown_token(answer) -> str:
    found = TEXT.findall(answer.content.decode())
    assert found
    return found[0]


def test_a_token_is_made_shown_once_used_and_revoked(as_):
    client = as_("ana")
    assert "No tokens yet" in client.get("/settings/tokens/").content.decode()
    sent = client.post("/settings/tokens/", FORM)
    assert (sent.status_code, TEXT.search(sent.content.decode())) == (302, None)
    made = client.get(sent.headers["Location"])
    assert "no-store" in made.headers["Cache-Control"]
    text = shown_token(made)
    viewer = viewer_of(use_token(text))
    assert (viewer.name, viewer.may("answer", "any"), viewer.may("inspect", "any")) == ("ana", True, False)
    page = client.get("/settings/tokens/").content.decode()
    assert not TEXT.search(page)
    assert f"wfd_{text.split('_')[1]}_…" in page
    assert client.post("/settings/tokens/", {"act": "revoke", "token": text.split("_")[1]}).status_code == 302
    assert Token.objects.get().revoked is not None


@pytest.mark.parametrize(("name", "url", "act"), [("ana", "/settings/tokens/", "create"), ("adam", ROBOT, "token")])
def test_a_form_that_is_sent_twice_makes_one_token_and_shows_its_text(as_, everybody, name, url, act):
    """A browser drops the answer to the first click."""
    create_service_account(people.viewer("adam"), "robot", roles=[("operator", "*")])
    client = as_(name)
    key = KEY.findall(client.get(url).content.decode())[-1]
    sent = FORM | {"act": act, "_key": key}
    first, second = (shown_token(client.post(url, sent, follow=True)) for _ in range(2))
    assert first == second
    assert use_token(first) == Token.objects.get()
    assert AuditEntry.objects.filter(verb="create token").count() == 1
    fresh = KEY.findall(client.get(url).content.decode())[-1]
    assert fresh != key
    assert shown_token(client.post(url, sent | {"name": "other", "_key": fresh}, follow=True)) != first


def test_another_person_s_token_is_not_told_by_the_key_of_its_form(as_, everybody):
    made = [create_token(people.viewer(name), "ci", rights=["see"], key="a").text for name in ("ana", "otto", "ana")]
    assert made[0] == made[2] != made[1]
    with pytest.raises(KeyReused):
        create_token(people.viewer("ana"), "ci", rights=["answer"], key="a")


def test_a_form_with_errors_keeps_what_was_typed(as_):
    client = as_("ana")
    answer = client.post("/settings/tokens/", FORM | {"name": " ", "where": "some"})
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "Enter a name" in page
    assert "Enter names of workflows" in page
    assert not Token.objects.exists()


def test_only_rights_that_one_has_are_offered(as_):
    page = as_("vera").get("/settings/tokens/").content.decode()
    assert "read inputs" in page
    assert "answer requests" not in page


def test_the_tokens_of_others_are_beyond_reach(as_, everybody):
    other = create_token(people.viewer("otto"), "ci", rights=["see"]).token
    as_("ana").post("/settings/tokens/", {"act": "revoke", "token": other.pk})
    assert Token.objects.get().revoked is None


def test_an_admin_sees_and_revokes_the_tokens_of_others(as_, everybody):
    other = create_token(people.viewer("otto"), "nightly", rights=["see"]).token
    client = as_("adam")
    assert "nightly" in client.get("/people/otto/").content.decode()
    assert client.post("/people/otto/", {"act": "token", **FORM}).status_code == 403
    client.post("/people/otto/", {"act": "revoke-token", "token": other.pk})
    assert Token.objects.get().revoked is not None
    assert AuditEntry.objects.latest("n").actor == "adam"


def test_a_service_account_is_made_gets_a_token_and_is_marked(as_):
    client = as_("adam")
    given = {"kind": "service", "name": "robot", "about": "Nightly import", "role": "operator", "workflow": "*"}
    assert client.post("/people/invite/", given).headers["Location"] == "/people/robot/"
    assert not SignInLink.objects.exists()
    page = client.get("/people/robot/").content.decode()
    assert "Nightly import" in page
    assert "Create sign-in link" not in page
    made = client.post("/people/robot/", {"act": "token", **FORM, "rights": ["start"]}, follow=True)
    assert viewer_of(use_token(shown_token(made))).may("start", "any")
    for address in ("/people/", "/people/?show=service", "/people/access/?workflow=expense_batch"):
        assert "service account" in client.get(address).content.decode(), address


def test_a_token_of_a_service_account_that_does_not_fit_is_refused_at_its_field(as_, everybody):
    create_service_account(people.viewer("adam"), "robot")
    answer = as_("adam").post("/people/robot/", {"act": "token", "name": "", "days": "30"})
    assert answer.status_code == 422
    assert "Enter a name" in answer.content.decode()


def test_a_service_account_never_signs_in(everybody, client, settings):
    robot = create_service_account(people.viewer("adam"), "robot", roles=[("admin", "*")])
    with pytest.raises(WrongState, match="never signs in"):
        make_sign_in_link(people.viewer("adam"), "robot")
    with pytest.raises(WrongState):
        create_link(robot)
    ServiceAccount.objects.all().delete()
    link = create_link(robot)
    ServiceAccount.objects.create(user=robot, created=people.THEN)
    with pytest.raises(NotFound):
        find_link(link.rstrip("/").rsplit("/", 1)[1])
    robot.set_password("a long password here")
    robot.save()
    assert not client.login(username="robot", password="a long password here")


def test_a_service_account_is_no_delegate_and_not_the_last_admin(everybody):
    create_service_account(people.viewer("adam"), "robot", roles=[("admin", "*")])
    assert "robot" not in [one.get_username() for one in colleagues(people.viewer("otto"))]
    with pytest.raises(WrongState, match="no admin"):
        revoke_role(people.viewer("adam"), Grant.objects.get(user__username="adam").pk)


def test_a_service_account_has_a_name_of_its_own(everybody):
    for name in ("ana", "finance", "requester", ""):
        with pytest.raises(Invalid):
            create_service_account(people.viewer("adam"), name)
    assert not ServiceAccount.objects.exists()


def test_an_author_starts_and_reads_code_and_does_nothing_else(everybody):
    User.objects.create(username="aura")
    grant_role(command_line(), "author", workflow="a", person="aura")
    viewer = people.viewer("aura")
    assert [right for right in ("see", "inspect", "start", "code") if viewer.may(right, "a")] == [
        "see",
        "inspect",
        "start",
        "code",
    ]
    assert not [right for right in ("answer", "operate", "admin") if viewer.may(right, "a")]
