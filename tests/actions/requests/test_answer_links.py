from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from django.core import signing
from django.utils import timezone

from checkpoints.models import Answer, AuditEntry, Grant, HumanRequest, Reply, UsedLink
from tests.actions.requests.test_deadlines import at_once
from wfdash.access.viewer import Viewer
from wfdash.actions.requests.answer import answer_request
from wfdash.actions.requests.answer_links import SALT, answer_by_link, answer_link, read_link, undo_by_link
from wfdash.domain.errors import AlreadyAnswered, Changed, Invalid, LinkUsed, NotAllowed, NotFound, WrongState

Ask = Callable[..., HumanRequest]
Person = Callable[..., Viewer]
YES = {"action": "approve"}


@pytest.fixture
def ana(person: Person) -> Viewer:
    return person("ana", "reviewer")


@pytest.fixture(autouse=True)
def short_undo(settings) -> None:
    settings.WFDASH_UNDO = 0


def token(request: HumanRequest, viewer: Viewer) -> str:
    path = urlsplit(answer_link(request, viewer.user)).path
    assert path.startswith("/answer/")
    assert path.endswith("/")
    return path[len("/answer/") : -1]


def test_a_link_answers_as_the_person_it_was_written_for(ask: Ask, ana: Viewer) -> None:
    request = ask()
    reply = answer_by_link(token(request, ana), YES, verdict="approve")
    assert (reply.by, reply.via, Answer.objects.get().by) == (ana.user, "link", ana.user)


def test_looking_at_a_link_changes_nothing(ask: Ask, ana: Viewer) -> None:
    given = token(ask(), ana)
    first = read_link(given)
    assert first == read_link(given)
    assert (first.used, first.changed, first.viewer.name) == (False, False, "ana")
    assert not UsedLink.objects.exists()


def test_a_link_decides_only_once(ask: Ask, ana: Viewer) -> None:
    given = token(ask(), ana)
    answer_by_link(given, YES)
    assert read_link(given).used
    with pytest.raises(LinkUsed):
        answer_by_link(given, YES)


def test_a_refused_answer_does_not_use_the_link_up(ask: Ask, ana: Viewer) -> None:
    given = token(ask(), ana)
    with pytest.raises(Invalid):
        answer_by_link(given, {"action": "dance"})
    assert not read_link(given).used
    answer_by_link(given, YES)


def test_a_link_whose_request_changed_does_not_act(ask: Ask, ana: Viewer) -> None:
    request = ask(card={"subject": "Pay 900?"})
    given = token(request, ana)
    changed = HumanRequest.objects.get(pk=request.pk)
    changed.card = {"subject": "Pay 9000?"}
    changed.save(update_fields=["card"])
    assert read_link(given).changed
    with pytest.raises(Changed):
        answer_by_link(given, YES)
    assert not Reply.objects.exists()


@pytest.mark.parametrize("place", [0, 20, -1])
def test_a_link_that_was_tampered_with_is_none(ask: Ask, ana: Viewer, place: int) -> None:
    given = token(ask(), ana)
    other = "A" if given[place] != "A" else "B"
    end = given[place + 1 :] if place >= 0 else ""
    with pytest.raises(NotFound):
        read_link(given[:place] + other + end)


def test_a_token_signed_for_another_purpose_is_none(ask: Ask, ana: Viewer) -> None:
    told = {"r": ask().pk, "u": ana.user.pk, "n": "n", "f": ""}
    with pytest.raises(NotFound):
        read_link(signing.TimestampSigner(salt="elsewhere").sign_object(told))
    with pytest.raises(NotFound):
        read_link(signing.TimestampSigner(salt=SALT).sign_object({"u": ana.user.pk}))


def test_a_link_expires(ask: Ask, ana: Viewer, settings) -> None:
    given = token(ask(), ana)
    settings.WFDASH_LINK_DAYS = -1
    with pytest.raises(WrongState, match="expired"):
        read_link(given)


def test_rights_are_asked_again(ask: Ask, ana: Viewer) -> None:
    given = token(ask(), ana)
    Grant.objects.update(role="viewer")
    with pytest.raises(NotAllowed):
        answer_by_link(given, YES)
    type(ana.user).objects.update(is_active=False)
    with pytest.raises(NotAllowed):
        read_link(given)
    assert not UsedLink.objects.exists()


def test_what_is_of_high_risk_takes_a_sign_in_as_that_person(ask: Ask, ana: Viewer, person: Person) -> None:
    ben = person("ben", "reviewer")
    given = token(ask(risk=3), ana)
    with pytest.raises(NotAllowed, match="sign in"):
        answer_by_link(given, YES)
    with pytest.raises(NotAllowed, match="signed in as ben"):
        answer_by_link(given, YES, signed_in=ben.user)
    answer_by_link(given, YES, signed_in=ana.user)


def test_a_refused_use_of_a_link_is_on_record_once(ask: Ask, ana: Viewer, person: Person) -> None:
    ben, request = person("ben", "reviewer"), ask()
    given = token(request, ana)
    for _ in range(3):
        with pytest.raises(NotAllowed, match="signed in as ben"):
            answer_by_link(given, YES, signed_in=ben.user)
    entry = AuditEntry.objects.get(verb="refused")
    assert (entry.actor, entry.request, entry.facts["link_of"]) == ("ben", request.pk, "ana")


def test_the_person_who_answered_first_is_told(ask: Ask, ana: Viewer, person: Person) -> None:
    request = ask()
    given = token(request, ana)
    answer_request(person("ben", "reviewer"), request.pk, YES)
    with pytest.raises(AlreadyAnswered, match="ben"):
        answer_by_link(given, YES)


def test_an_answer_by_link_can_be_taken_back_by_link_and_given_again(ask: Ask, ana: Viewer, settings) -> None:
    settings.WFDASH_UNDO = 60
    given = token(ask(), ana)
    with pytest.raises(WrongState):
        undo_by_link(given)
    assert answer_by_link(given, YES).settles is not None
    undo_by_link(given)
    assert not read_link(given).used
    answer_by_link(given, {"action": "reject"})
    Reply.objects.update(settles=timezone.now() - timedelta(seconds=1))
    with pytest.raises(WrongState):
        undo_by_link(given)
    assert read_link(given).used


@pytest.mark.django_db(transaction=True)
def test_of_two_clicks_at_once_one_counts(ask: Ask, ana: Viewer) -> None:
    given = token(ask(), ana)
    outcomes = at_once(*[lambda: answer_by_link(given, YES)] * 2)
    assert sorted(type(outcome).__name__ for outcome in outcomes) in (
        ["LinkUsed", "Reply"],
        ["AlreadyAnswered", "Reply"],
    )
    assert Reply.objects.count() == UsedLink.objects.count() == 1
