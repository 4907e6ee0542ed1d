from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from checkpoints.models import AuditEntry, SecondFactor, ServiceAccount, SignInTries, Token
from tests import people
from tests.access.test_directory import _everybody as _everybody
from wfdash.access.signin import tokens
from wfdash.access.signin.tokens import use_token, viewer_of
from wfdash.access.viewer import EVERY, TokenScope
from wfdash.actions.account import create_token, end_tokens, revoke_token
from wfdash.actions.people.accounts import deactivate_person, reactivate_person
from wfdash.actions.people.roles import command_line
from wfdash.domain.errors import BadToken, Invalid, NotAllowed, NotFound, TooManyTries

pytestmark = pytest.mark.django_db


def made(by: str = "otto", name: str = "ci", rights=("see", "start"), **more):
    return create_token(people.viewer(by), name, rights=rights, **more)


def test_of_a_token_only_a_hash_is_stored():
    text = made().text
    secret = text.split("_", 2)[2]
    row = Token.objects.values().get()
    assert secret not in str(row)
    assert row["id"] in text
    assert secret not in str(list(AuditEntry.objects.values()))


def test_a_program_has_the_rights_of_its_owner_within_the_scopes():
    viewer = viewer_of(use_token(made(workflows=["a"]).text))
    assert viewer.name == "otto"
    assert viewer.token == "ci"
    assert viewer.may("start", "a")
    assert not viewer.may("start", "b")
    assert not viewer.may("operate", "a")
    assert not viewer.may("see", EVERY)
    assert not viewer.whole


def test_a_token_gives_no_right_that_its_owner_has_not():
    viewer = viewer_of(use_token(made("vera", rights=["see", "start", "admin"]).text))
    assert viewer.may("see", "any")
    assert not viewer.may("start", "any")
    assert not viewer.may("admin", EVERY)


def test_a_scope_of_every_workflow_keeps_rights_of_single_ones():
    scope = TokenScope(rights=frozenset({"see"}), workflows=frozenset({EVERY}))
    assert scope.narrowed({"a": frozenset({"see", "operate"})}) == {"a": frozenset({"see"})}


@pytest.mark.parametrize("text", ["", "x", "wfd_", "wfd_aaaaaaaa_" + "x" * 43, "wfd_aaaaaaaa_" + "ü" * 43, "\0" * 99])
def test_a_token_that_does_not_exist_is_refused(text):
    with pytest.raises(BadToken, match="does not exist"):
        use_token(text)


def test_another_secret_of_a_token_that_exists_says_nothing_about_it():
    new = made()
    end_tokens(new.token.owner)
    wrong = new.text[:-1] + ("a" if new.text[-1] != "a" else "b")
    with pytest.raises(BadToken, match="does not exist"):
        use_token(wrong)
    with pytest.raises(BadToken, match="was revoked"):
        use_token(new.text)


def test_an_expired_token_is_refused_and_its_name_is_free_again():
    new = made(days=1)
    Token.objects.update(expires=timezone.now() - timedelta(seconds=1))
    with pytest.raises(BadToken, match="expired"):
        use_token(new.text)
    assert made().token.pk != new.token.pk


def test_two_usable_tokens_of_one_account_have_different_names():
    made()
    with pytest.raises(Invalid) as found:
        made()
    assert "Revoke it first" in found.value.summary


def test_a_deactivated_account_loses_its_tokens_for_good():
    new = made()
    deactivate_person(people.viewer("adam"), "otto")
    with pytest.raises(BadToken):
        use_token(new.text)
    reactivate_person(people.viewer("adam"), "otto")
    with pytest.raises(BadToken, match="revoked"):
        use_token(new.text)


def test_an_account_that_something_else_deactivated_is_refused():
    new = made()
    User.objects.filter(username="otto").update(is_active=False)
    with pytest.raises(BadToken, match="deactivated"):
        use_token(new.text)


def test_where_everyone_needs_a_second_factor_people_without_one_have_no_token(settings):
    new = made()
    settings.WFDASH_REQUIRE_SECOND_FACTOR = True
    with pytest.raises(BadToken, match="second factor"):
        use_token(new.text)
    SecondFactor.objects.create(user=new.token.owner, secret="x", created=timezone.now(), confirmed=timezone.now())
    assert use_token(new.text)


def test_a_service_account_needs_no_second_factor(settings):
    settings.WFDASH_REQUIRE_SECOND_FACTOR = True
    robot = User.objects.create(username="robot")
    ServiceAccount.objects.create(user=robot, created=timezone.now())
    assert use_token(create_token(people.viewer("adam"), "ci", rights=["see"], owner="robot").text)


def test_use_is_noted_once_a_minute(django_assert_num_queries):
    text = made().text
    assert use_token(text).used is None
    first = Token.objects.get().used
    assert first is not None
    with django_assert_num_queries(1):
        use_token(text)
    Token.objects.update(used=first - timedelta(minutes=2))
    use_token(text)
    assert Token.objects.get().used >= first


def test_bad_tokens_are_limited_by_address_and_good_ones_pass(monkeypatch):
    monkeypatch.setattr(tokens, "MOST_BAD", 2)
    good = made().text
    for _ in range(2):
        with pytest.raises(BadToken):
            use_token("wrong", address="192.0.2.1")
    with pytest.raises(TooManyTries) as found:
        use_token("wrong", address="192.0.2.1")
    assert found.value.facts["retry_after"] > 0
    with pytest.raises(BadToken):
        use_token("wrong", address="192.0.2.2")
    assert use_token(good, address="192.0.2.1")
    assert not SignInTries.objects.filter(key__contains="192.0.2.1").exists()


def test_no_one_makes_a_token_that_acts_as_another_person():
    with pytest.raises(NotAllowed, match="is a person"):
        made("adam", owner="ana")
    with pytest.raises(NotAllowed, match="Only admins"):
        made("otto", owner="ana")


def test_a_token_makes_and_revokes_no_token():
    viewer = viewer_of(use_token(made("adam", rights=["admin"]).text))
    with pytest.raises(NotAllowed):
        create_token(viewer, "more", rights=["see"])
    with pytest.raises(NotAllowed):
        revoke_token(viewer, Token.objects.get().pk)


def test_people_revoke_their_own_tokens_and_admins_those_of_others():
    mine, other = made(), made("otto", "other")
    with pytest.raises(NotFound):
        revoke_token(people.viewer("ana"), mine.token.pk)
    revoke_token(people.viewer("otto"), mine.token.pk)
    with pytest.raises(NotFound, match="already revoked"):
        revoke_token(people.viewer("otto"), mine.token.pk)
    revoke_token(people.viewer("adam"), other.token.pk)
    assert [(one.actor, one.verb) for one in AuditEntry.objects.order_by("n")][-2:] == [
        ("otto", "revoke token"),
        ("adam", "revoke token"),
    ]


def test_the_command_line_makes_tokens_for_anyone():
    create_token(command_line(), "ci", rights=["see"], owner="ana", days=None)
    entry = AuditEntry.objects.latest("n")
    assert (entry.actor, entry.facts["user"], entry.facts["expires"]) == ("command line", "ana", None)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": "x" * 81}, "name"),
        ({"rights": []}, "rights"),
        ({"rights": ["see", "fly"]}, "rights"),
        ({"workflows": []}, "workflows"),
        ({"workflows": ["x" * 300]}, "workflows"),
        ({"workflows": ["a\0b"]}, "workflows"),
        ({"days": 0}, "days"),
        ({"days": 99_999}, "days"),
        ({"owner": "nobody", "by": "adam"}, "owner"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_field(given, field):
    by = given.pop("by", "otto")
    with pytest.raises(Invalid) as found:
        made(by, **given)
    assert [one["loc"] for one in found.value.errors] == [[field]]
