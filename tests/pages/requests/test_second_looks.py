"""A share of decisions is asked of a second person, who is not shown the first; a page says how far they agree."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from checkpoints.models import Answer, AuditEntry, HumanRequest, Notice, Presence, SecondLook
from tests import people
from tests.pages.markup import flat
from wfdash.actions.account import create_token
from wfdash.actions.common import drawn
from wfdash.actions.requests.second import SALT
from wfdash.domain.agreement import agreement_of
from wfdash.queries.requests.second import read_quality

BLIND = {"blind": 1.0}
REJECTED = {"_action": "reject", "reject:reason": "Too much"}
PAGE = "/second-looks/question/?workflow=expense_batch&step=review"


@pytest.fixture(autouse=True)
def _at_once(settings):
    settings.WFDASH_UNDO = 0


@pytest.fixture
def decided(run, as_):
    """A request that Ana approved, about which Ben or Otto is asked."""
    question = people.ask(run, "Pay 4,711?", policy=BLIND)
    assert as_("ana").post(f"/requests/{question.pk}/", {"_action": "approve"}).status_code == 302
    return question


def test_a_second_person_decides_without_being_shown_the_first_decision(decided, as_):
    look = SecondLook.objects.get()
    chosen = look.of.username
    assert chosen in {"ben", "otto", "adam"}
    notice = Notice.objects.get(kind="second", channel="browser")
    assert (notice.user.username, notice.payload["look"]) == (chosen, decided.pk)
    page = flat(as_("ben").get("/second-looks/").content.decode())
    assert "Pay 4,711?" in page
    card = as_("ben").get(f"/second-looks/{decided.pk}/").content.decode()
    assert "Pay 4,711?" in card
    assert not [word for word in ("ana", "Approved", "approved this") if word in card.split("<main")[1]]
    refused = as_("ben").post(f"/second-looks/{decided.pk}/", {"_action": "reject"})
    assert refused.status_code == 422
    assert as_("ben").post(f"/second-looks/{decided.pk}/", REJECTED).status_code == 302
    look.refresh_from_db()
    assert (look.by.username, look.verdict, look.reason) == ("ben", "reject", "Too much")
    assert Answer.objects.get().verdict == "approve"
    assert AuditEntry.objects.get(verb="second look").facts["second"] == "reject"
    # Given once, and not by someone who took part.
    again = as_("otto").post(f"/second-looks/{decided.pk}/", REJECTED)
    assert (again.status_code, look.by.username) == (409, "ben")
    assert "Pay 4,711?" not in as_("otto").get("/second-looks/").content.decode().split("<main")[1]


@pytest.mark.parametrize(("who", "status"), [("ana", 403), ("vera", 403), ("sam", 404)])
def test_who_took_part_or_may_not_answer_gives_none(decided, as_, who, status):
    assert as_(who).post(f"/second-looks/{decided.pk}/", REJECTED).status_code == status
    assert as_(who).get(f"/second-looks/{decided.pk}/").status_code == status
    assert decided.subject not in as_(who).get("/second-looks/").content.decode()
    assert SecondLook.objects.get().at is None


def test_who_has_opened_the_request_since_gives_none(decided, everybody, as_):
    now = timezone.now()
    Presence.objects.create(request=decided, user=everybody["ben"], since=now, seen=now + timedelta(seconds=1))
    assert as_("ben").get(f"/second-looks/{decided.pk}/").status_code == 403
    assert "Pay 4,711?" not in as_("ben").get("/second-looks/").content.decode()


def test_a_program_gives_none(decided, everybody, client):
    made = create_token(people.viewer("ben"), "agent", rights=["see", "answer"], workflows=["*"])
    given = {"headers": {"authorization": f"Bearer {made.text}"}}
    assert client.post(f"/second-looks/{decided.pk}/", REJECTED, **given).status_code in {302, 401, 403}
    assert SecondLook.objects.get().at is None


def test_only_the_share_is_asked_about_and_no_override_or_question_without_a_second_person(
    run, as_, everybody, settings
):
    policy = {"blind": 0.5}
    asked = [people.ask(run, f"Pay {n}?", policy=policy) for n in range(30)]
    for one in asked:
        as_("ana").post(f"/requests/{one.pk}/", {"_action": "approve"})
    wanted = {one.pk for one in asked if drawn(SALT, one.pk) < 0.5}
    assert set(SecondLook.objects.values_list("pk", flat=True)) == wanted
    assert 3 < len(wanted) < 27
    SecondLook.objects.all().delete()
    alone = people.ask(run, by=["finance"], policy=BLIND)
    as_("ana").post(f"/requests/{alone.pk}/", {"_action": "approve"})
    over = people.ask(run, by=["finance"], policy=BLIND)
    as_("otto").post(f"/requests/{over.pk}/?override=1", {"_action": "approve", "_reason": "Ana is away"})
    assert HumanRequest.objects.get(pk=over.pk).answered
    assert not SecondLook.objects.exists()


def test_a_question_tells_of_agreement_edits_and_haste_and_its_operators_settle_what_differs(
    run, as_, everybody, django_assert_num_queries
):
    for n in range(24):
        question = people.ask(run, f"Pay {n}?", policy={**BLIND, "prereview": "approve"})
        as_("ana").post(f"/requests/{question.pk}/", {"_action": "approve"} if n % 2 else REJECTED)
        second = REJECTED if n % 2 == 0 or n == 5 else {"_action": "approve"}
        assert as_("ben").post(f"/second-looks/{question.pk}/", second).status_code == 302
    page = text_of(as_("otto").get(PAGE).content.decode())
    assert "Both said the same in 23 of 24" in page
    assert "κ 0.92, between 0.76 and 1.00" in page
    assert "chose as people did in 12 of 24" in page
    assert "12 of 24 on the page" in page or "11 of 24 on the page" in page
    assert not {"ana", "ben"} & set(page.split())
    (look,) = SecondLook.objects.filter(request__answer__verdict="approve", verdict="reject")
    assert as_("ana").post(f"/second-looks/{look.pk}/settle/", {"settled": "second"}).status_code == 403
    assert as_("otto").post(f"/second-looks/{look.pk}/settle/", {"settled": "nobody"}).status_code == 422
    assert as_("otto").post(f"/second-looks/{look.pk}/settle/", {"settled": "second"}).status_code == 302
    assert "The second was right" in flat(as_("otto").get(PAGE).content.decode())
    assert as_("ana").get(PAGE).status_code == 404
    otto = people.viewer("otto")
    with django_assert_num_queries(2):
        assert read_quality(otto, "expense_batch", "review").decisions == 24
    as_("ana").post(f"/requests/{people.ask(run, 'Pay 25?').pk}/", {"_action": "approve"})
    assert read_quality(otto, "expense_batch", "review").decisions == 25
    assert AuditEntry.objects.filter(verb="settle second look").count() == 1


def test_of_few_decisions_nothing_is_told(decided, as_):
    assert as_("ben").post(f"/second-looks/{decided.pk}/", REJECTED).status_code == 302
    page = flat(as_("otto").get(PAGE).content.decode())
    assert "Known once 20 second looks were given" in page
    assert "κ" not in page


def text_of(page: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", page.split("<main")[1]).split())


def test_kappa_is_the_one_of_the_literature():
    pairs = [("yes", "yes")] * 20 + [("yes", "no")] * 5 + [("no", "yes")] * 10 + [("no", "no")] * 15
    found = agreement_of(pairs)
    assert (found.count, found.same, round(found.kappa, 3)) == (50, 35, 0.4)
    assert (round(found.low, 3), round(found.high, 3)) == (0.146, 0.654)
    assert agreement_of([("yes", "yes")] * 9).kappa is None
    assert agreement_of([]).count == 0
