"""Signing in at an OpenID Connect provider that really runs, on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pyotp
import pytest
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.db import transaction
from django.test import Client
from django.utils import timezone

from checkpoints.models import AuditEntry, Grant, SecondFactor, SignInLink
from tests.people import viewer
from tests.signin.provider import consent, enrol, running_provider, set_out, settings_for, sign_in_as
from wfdash.access.signin import openid_connect
from wfdash.access.signin.attempt_limits import ADDRESS
from wfdash.access.signin.identities import ProviderIdentity, identities
from wfdash.actions.people.accounts import change_address, create_service_account, deactivate_person
from wfdash.actions.people.identities import _matching
from wfdash.actions.people.roles import command_line
from wfdash.domain.errors import WrongState

MIA = {"preferred_username": "mia", "email": "mia@example.org", "email_verified": True, "given_name": "Mia"}


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    with running_provider() as issuer:
        yield issuer


@pytest.fixture
def provider(issuer: str, settings, people) -> str:
    cache.clear()
    settings.WFDASH_OIDC = settings_for(issuer)
    enrol(issuer, "s-1", **MIA)
    return issuer


@pytest.fixture
def trusts(provider: str, settings):
    def trusts(**given) -> None:
        settings.WFDASH_OIDC = settings_for(**{"issuer": provider} | given)

    return trusts


def entries(*verbs: str) -> list[tuple[str, str]]:
    return list(AuditEntry.objects.filter(verb__in=verbs).order_by("n").values_list("actor", "verb"))


def name_in(client: Client) -> str:
    return User.objects.get(pk=client.session["_auth_user_id"]).username


def groups_of(name: str) -> set[str]:
    return set(User.objects.get(username=name).groups.values_list("name", flat=True))


def refused(answer, status: int, *words: str) -> None:
    """Check that the answer is a page that says why, and that no one is signed in."""
    text = " ".join(answer.content.decode().split())
    assert answer.status_code == status, text
    assert [word for word in words if word not in text] == []
    assert "_auth_user_id" not in answer.client.session


def test_the_first_sign_in_makes_a_person_and_the_next_one_finds_them(provider):
    _, answer = sign_in_as("s-1", next_page="/runs/?q=x")
    assert (answer.status_code, answer.url) == (302, "/runs/?q=x")
    mia = User.objects.get(username="mia")
    assert (mia.email, mia.first_name, mia.has_usable_password()) == ("mia@example.org", "Mia", False)
    enrol(provider, "s-1", preferred_username="boss", email="boss@example.org", email_verified=True)
    again, _ = sign_in_as("s-1")
    assert name_in(again) == "mia"
    assert not User.objects.filter(username="boss").exists()
    assert entries("create user", "connect identity", "sign in") == [
        ("sign-in provider", "create user"),
        ("sign-in provider", "connect identity"),
        ("mia", "sign in"),
        ("mia", "sign in"),
    ]
    assert AuditEntry.objects.filter(verb="sign in").latest("n").facts["how"] == "Keycloak"


def test_the_browser_is_sent_with_state_nonce_and_a_pkce_challenge(provider):
    client = Client()
    asked = {name: value[0] for name, value in parse_qs(urlsplit(set_out(client)).query).items()}
    assert asked["redirect_uri"] == "http://testserver/sign-in/provider/callback/"
    assert (asked["response_type"], asked["client_id"]) == ("code", "wfdash")
    assert set(asked["scope"].split()) == {"openid", "profile", "email"}
    assert (asked["code_challenge_method"], len(asked["code_challenge"])) == ("S256", 43)
    ((kept, _, _),) = client.session["socialaccount_states"].values()
    assert kept["data"]["nonce"] == asked["nonce"]
    assert kept["pkce_code_verifier"] not in asked.values()


def test_only_a_form_of_this_site_begins_and_nothing_leads_elsewhere(provider):
    assert Client().get("/sign-in/provider/").status_code == 405
    assert Client(enforce_csrf_checks=True).post("/sign-in/provider/").status_code == 403
    _, answer = sign_in_as("s-1", next_page="https://evil.example/")
    assert answer.url == "/"


def test_a_state_counts_once_and_only_in_its_own_browser(provider):
    client = Client()
    back = consent(set_out(client), "s-1")
    refused(Client().get(back), 400, "started in another browser")
    refused(client.get(back.replace("state=", "state=x")), 400, "started in another browser")
    assert client.get(back).status_code == 302
    client.post("/sign-out/")
    refused(client.get(back), 400, "finished already")


def test_a_code_of_someone_else_s_sign_in_is_refused(provider):
    """The attack: one's own code, put into the victim's return, would sign the victim in as the attacker."""
    victim, attacker = Client(), Client()
    mine = parse_qs(urlsplit(consent(set_out(attacker), "s-1")).query)["code"][0]
    state = parse_qs(urlsplit(set_out(victim)).query)["state"][0]
    refused(victim.get("/sign-in/provider/callback/", {"code": mine, "state": state}), 400, "could not be verified")


def test_who_cancels_at_the_provider_is_told_and_may_try_again(provider):
    client = Client()
    refused(client.get(consent(set_out(client), "", action="deny")), 403, "you cancelled there", "Try Keycloak again")
    wrong = {"error": "invalid_scope", "error_description": "<b>no</b>"}
    refused(client.get("/sign-in/provider/callback/", wrong), 400, "Keycloak refused this sign-in")
    refused(client.get("/sign-in/provider/callback/"), 400, "Keycloak refused this sign-in")


def test_a_provider_that_is_down_is_said_and_logged(trusts, caplog):
    trusts(issuer="http://127.0.0.1:9")
    refused(Client().post("/sign-in/provider/"), 503, "Keycloak does not answer", "Try again in a moment")
    assert "Sign-in with Keycloak" in caplog.text


def test_a_provider_that_goes_away_after_the_start_is_no_server_error(provider, monkeypatch):
    client = Client()
    back = consent(set_out(client), "s-1")
    monkeypatch.setattr(openid_connect._Conversation, "access_token_url", "http://127.0.0.1:9/token")
    refused(client.get(back), 503, "Keycloak does not answer")


def test_groups_are_gained_and_lost_with_the_claim_but_not_those_given_by_hand(provider, trusts):
    trusts(groups={"/money": ("finance", "payers"), "/it": ("ops",)}, groups_claim="roles.all")
    enrol(provider, "s-1", **MIA, roles={"all": ["/money", "/it", "/unknown"]})
    sign_in_as("s-1")
    assert groups_of("mia") == {"finance", "payers", "ops"}
    User.objects.get(username="mia").groups.add(Group.objects.create(name="drivers"))
    enrol(provider, "s-1", **MIA, roles={"all": ["/it"]})
    sign_in_as("s-1")
    assert groups_of("mia") == {"ops", "drivers"}
    enrol(provider, "s-1", **MIA)
    sign_in_as("s-1")
    assert groups_of("mia") == {"drivers"}
    assert {actor for actor, _ in entries("remove from group")} == {"sign-in provider"}


def test_a_group_that_someone_had_before_the_provider_named_it_stays(provider, trusts, people):
    trusts(groups={"money": ("finance",)}, by_email=True)
    User.objects.filter(username="ana").update(email="Ana@example.org")
    enrol(provider, "s-2", email="ana@example.org", email_verified=True, groups=["money"])
    client, _ = sign_in_as("s-2")
    assert (name_in(client), groups_of("ana")) == ("ana", {"finance"})
    enrol(provider, "s-2", email="ana@example.org", email_verified=True, groups=[])
    sign_in_as("s-2")
    assert groups_of("ana") == {"finance"}


@pytest.mark.parametrize("claims", [{"email_verified": False}, {}, {"email_verified": "yes"}])
def test_an_address_that_is_not_verified_takes_no_account_over(claims, provider, trusts, people):
    trusts(by_email=True, creates=False)
    User.objects.filter(username="ana").update(email="ana@example.org")
    enrol(provider, "s-3", email="ana@example.org", **claims)
    refused(sign_in_as("s-3")[1], 403, "no account here is connected with you")


def test_an_address_opens_neither_the_account_of_an_administrator_nor_one_that_is_connected(provider, trusts, people):
    trusts(by_email=True, creates=False)
    User.objects.create_superuser("boss", email="boss@example.org")
    enrol(provider, "s-4", email="boss@example.org", email_verified=True)
    refused(sign_in_as("s-4")[1], 403, "no account here")
    User.objects.filter(username="ana").update(email="ana@example.org")
    enrol(provider, "s-5", email="ana@example.org", email_verified=True)
    now = timezone.now()
    factor = SecondFactor.objects.create(user=people["ana"], secret="x", created=now, confirmed=now)
    refused(sign_in_as("s-5")[1], 403, "no account here")
    factor.delete()
    assert name_in(sign_in_as("s-5")[0]) == "ana"
    enrol(provider, "s-6", email="ana@example.org", email_verified=True)
    refused(sign_in_as("s-6")[1], 403, "no account here")


def test_an_address_does_not_open_the_account_of_an_admin_of_one_workflow(provider, trusts, people):
    trusts(by_email=True, creates=False)
    User.objects.filter(username="ana").update(email="ana@example.org")
    grant = Grant.objects.create(group=people["ana"].groups.get(), role="admin", workflow="expense_batch")
    enrol(provider, "s-5", email="ana@example.org", email_verified=True)
    refused(sign_in_as("s-5")[1], 403, "no account here")
    grant.delete()
    assert name_in(sign_in_as("s-5")[0]) == "ana"


@pytest.mark.parametrize("theirs", ["m\u0131ke@example.org", "mi\u212ae@example.org", "mike@\u017fite.example.org"])
def test_an_address_of_letters_that_fold_to_others_opens_no_account(theirs, in_database):
    def sign_in(kept: str, given: str) -> str:
        with transaction.atomic():
            user = User.objects.create_user("mike", email=kept)
            given_there = ProviderIdentity(issuer="https://id.example.org", subject="s", email=given)
            found = _matching(settings_for(given_there.issuer, by_email=True), given_there)
            transaction.set_rollback(True)
        return user.username if found else ""

    ours = theirs.replace("\u0131", "i").replace("\u212a", "k").replace("\u017f", "s")
    assert in_database.submit(sign_in, ours, theirs).result() == ""
    assert in_database.submit(sign_in, theirs, ours).result() == ""
    assert in_database.submit(sign_in, theirs, theirs).result() == ""
    assert in_database.submit(sign_in, ours.title(), ours).result() == "mike"


def test_no_admin_gives_someone_an_address_to_sign_in_by_where_they_make_no_links(trusts, people, settings):
    adam = viewer("adam")
    trusts(by_email=True)
    change_address(adam, "ana", "ana@example.org")
    settings.WFDASH_LINKS = False
    with pytest.raises(WrongState, match="could sign in or answer as ana"):
        change_address(adam, "ana", "adam@example.org")
    assert User.objects.get(username="ana").email == "ana@example.org"
    change_address(adam, "ana", "")
    change_address(replace(adam, user=User()), "ana", "ana@example.org")
    trusts(by_email=False)
    change_address(adam, "ana", "other@example.org")
    settings.WFDASH_MAIL = "console:"  # Mails bring links by which ana answers, signed in or not.
    with pytest.raises(WrongState, match="could sign in or answer as ana"):
        change_address(adam, "ana", "adam@example.org")


def test_a_name_takes_no_account_over(provider, people):
    enrol(provider, "s-7", preferred_username="Ana")
    refused(sign_in_as("s-7")[1], 409, "A user of this name exists already", "connect it under Settings")
    enrol(provider, "s-8", preferred_username="a name with spaces")
    refused(sign_in_as("s-8")[1], 409, "Use letters, digits")


def test_without_leave_to_create_only_who_is_connected_comes_in(provider, trusts):
    trusts(creates=False)
    refused(sign_in_as("s-1")[1], 403, "no account here is connected with you")
    assert not User.objects.filter(username="mia").exists()


def test_who_is_deactivated_is_refused_and_gets_no_group(provider, trusts):
    sign_in_as("s-1")
    deactivate_person(command_line_with_admin(), "mia")
    trusts(groups={"money": ("finance",)})
    enrol(provider, "s-1", **MIA, groups=["money"])
    refused(sign_in_as("s-1")[1], 403, "The account mia is deactivated")
    assert groups_of("mia") == set()


def test_a_service_account_never_signs_in(provider, people):
    robot = create_service_account(command_line_with_admin(), "robot")
    identities().create(user=robot, provider=provider, uid="s-9")
    refused(sign_in_as("s-9")[1], 403)


def test_a_subject_of_another_issuer_is_someone_else(provider, people):
    identities().create(user=people["ana"], provider="https://elsewhere.example", uid="s-1")
    assert name_in(sign_in_as("s-1")[0]) == "mia"


def test_a_session_ends_after_the_hours_that_are_set(provider, trusts):
    trusts(hours=2)
    client, _ = sign_in_as("s-1")
    row = Session.objects.get(session_key=client.session._get_session_from_db().session_key)
    left = row.expire_date - timezone.now()
    assert timedelta(minutes=119) < left < timedelta(minutes=121)
    assert client.get("/").status_code == 200


def test_a_sign_in_at_the_provider_that_was_begun_does_not_shorten_another(provider, people):
    client = Client()
    set_out(client)
    client.post("/sign-in/", {"username": "ana", "password": "ana-password"})
    assert client.session.get_expiry_age() > 86_400


def test_the_second_factor_is_the_provider_s_business_unless_it_is_asked_for_as_well(provider, trusts, settings):
    settings.WFDASH_REQUIRE_SECOND_FACTOR = True
    client, answer = sign_in_as("s-1")
    assert (answer.url, client.get("/").status_code) == ("/", 200)
    trusts(second_factor=True)
    client, answer = sign_in_as("s-1", next_page="/runs/")
    assert answer.url == "/sign-in/code/"
    assert "_auth_user_id" not in client.session
    assert client.get("/").status_code == 302
    setup = client.get(answer.url)
    secret = SecondFactor.objects.get(user__username="mia").secret
    assert setup.status_code == 200
    assert client.post(answer.url, {"code": pyotp.TOTP(secret).now()}).status_code == 200
    assert (name_in(client), client.session.get_expiry_age() < 43_201) == ("mia", True)


def test_who_was_signed_in_as_someone_else_is_signed_out_first(provider, people):
    client = Client()
    client.force_login(people["ana"])
    before = client.session.session_key
    client, _ = sign_in_as("s-1", client)
    assert (name_in(client), client.session.session_key == before) == ("mia", False)
    assert ("ana", "sign out") in entries("sign out")


def test_sign_ins_that_come_to_nothing_are_limited_for_an_address(provider):
    for _ in range(ADDRESS):
        page = Client().post("/sign-in/provider/")
    assert page.status_code == 200
    refused(Client().post("/sign-in/provider/"), 429, "Too many attempts")
    assert Client(REMOTE_ADDR="10.0.0.9").post("/sign-in/provider/").status_code == 200


def test_someone_who_is_signed_in_connects_their_account_and_disconnects_it(provider, trusts, people):
    trusts(creates=False, groups={"money": ("payers",)})
    enrol(provider, "s-1", **MIA, groups=["money"])
    client = Client()
    client.force_login(people["ben"])
    assert client.post("/settings/account/", {"act": "connect", "current": "wrong"}).status_code == 422
    client.get(consent(address_on(client.post("/settings/account/", connecting("ben"))), "s-1"))
    assert "Connected since" in client.get("/settings/account/").content.decode()
    assert (name_in(sign_in_as("s-1")[0]), groups_of("ben")) == ("ben", {"payers"})
    client.post("/settings/account/", {"act": "disconnect"})
    refused(sign_in_as("s-1")[1], 403, "no account here")
    assert groups_of("ben") == set()
    assert entries("connect identity", "disconnect identity") == [
        ("ben", "connect identity"),
        ("ben", "disconnect identity"),
    ]


def test_connecting_counts_only_for_the_account_that_began_it_and_for_one_that_is_free(provider, people):
    client = Client()
    client.force_login(people["ben"])
    address = address_on(client.post("/settings/account/", connecting("ben")))
    states = client.session["socialaccount_states"]
    client.force_login(people["ana"])
    session = client.session
    session["socialaccount_states"] = states
    session.save()
    assert client.get(consent(address, "s-1")).status_code == 400
    sign_in_as("s-1")
    client = Client()
    client.force_login(people["ben"])
    taken = client.get(consent(address_on(client.post("/settings/account/", connecting("ben"))), "s-1"))
    assert (taken.status_code, "another account here: mia" in taken.content.decode()) == (409, True)


def test_an_admin_disconnects_someone_whose_sessions_end(provider, people):
    mia, _ = sign_in_as("s-1")
    admin = Client()
    admin.force_login(people["adam"])
    assert "s-1" in admin.get("/people/mia/").content.decode()
    admin.post("/people/mia/", {"act": "disconnect"})
    assert mia.get("/").status_code == 302
    assert ("adam", "disconnect identity") in entries("disconnect identity")


def test_without_passwords_there_is_no_form_no_backend_and_no_page_to_set_one(provider, people, settings):
    settings.WFDASH_PASSWORDS = False
    page = Client().get("/sign-in/").content.decode()
    assert ("Sign in with Keycloak" in page, 'name="password"' in page) == (True, False)
    assert "password" not in Client().get("/sign-in/unknown/").content.decode()
    tried = Client().post("/sign-in/", {"username": "ana", "password": "ana-password"})
    assert (tried.status_code, "_auth_user_id" in tried.client.session) == (409, False)
    assert not Client().login(username="ana", password="ana-password")
    client = Client()
    client.force_login(people["ana"])
    assert 'name="new"' not in client.get("/settings/account/").content.decode()
    new = {"act": "password", "new": "long enough now", "repeated": "long enough now", "current": "ana-password"}
    client.post("/settings/account/", new)
    assert User.objects.get(username="ana").check_password("ana-password")


def test_without_links_admins_make_none_and_invitations_have_none(provider, people, settings):
    settings.WFDASH_LINKS = False
    admin = Client()
    admin.force_login(people["adam"])
    assert 'value="link"' not in admin.get("/people/ana/").content.decode()
    admin.post("/people/ana/", {"act": "link"})
    invited = admin.post("/people/invite/", {"name": "lea", "email": "lea@example.org"}, follow=True)
    assert "signs in with Keycloak" in invited.content.decode()
    assert not SignInLink.objects.exists()


def test_where_no_provider_is_set_there_is_no_button_and_no_address(people):
    assert "Sign in with" not in Client().get("/sign-in/").content.decode()
    assert Client().post("/sign-in/provider/").status_code == 404
    assert Client().get("/sign-in/provider/callback/").status_code == 404


@pytest.mark.parametrize("path", ["/accounts/login/", "/accounts/signup/", "/accounts/email/", "/accounts/3rdparty/"])
def test_the_pages_of_allauth_are_not_there(path, provider):
    assert Client().get(path).status_code == 404


def command_line_with_admin():
    User.objects.create_superuser("root")
    return command_line()


def connecting(name: str) -> dict[str, str]:
    return {"act": "connect", "current": f"{name}-password"}


def address_on(page) -> str:
    assert page.status_code == 200, page.content.decode()
    return page.headers["Refresh"].removeprefix("0; url=")
