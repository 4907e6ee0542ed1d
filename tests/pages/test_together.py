"""Answering with others: bound to what was seen, taken back, voted, drafted, assigned, overridden."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from checkpoints.models import Answer, Draft, HumanRequest, Presence, Reply, Shown
from tests import people
from wfdash import desk, queries
from wfdash.seen import fingerprint

REJECTED = {"_action": "reject", "reject:reason": "my careful words"}


def seen_of(question: HumanRequest) -> str:
    question.refresh_from_db()
    return fingerprint(question.card, question.answer_schema)


def text(answer) -> str:
    return answer.content.decode()


def test_the_form_carries_what_was_seen(question, as_):
    page = text(as_("ana").get(f"/requests/{question.pk}/"))
    assert f'name="_seen" value="{seen_of(question)}" form="answer-form"' in page
    assert 'id="answer-form"' in page


def test_a_request_that_changed_meanwhile_is_shown_with_the_difference_and_what_was_typed(question, as_):
    seen = seen_of(question)
    desk.amend_request(people.viewer("otto"), question.pk, body="It was agreed by phone.")
    answer = as_("ana").post(f"/requests/{question.pk}/", {**REJECTED, "_seen": seen})
    page = text(answer)
    assert answer.status_code == 409
    assert not Reply.objects.exists()
    assert "This changed since you opened it" in page
    assert "What changed" in page
    assert "It was agreed by phone." in page
    assert page.count("my careful words") == 2
    assert f'value="{seen_of(question)}" form="answer-form"' in page
    again = as_("ana").post(f"/requests/{question.pk}/", {**REJECTED, "_seen": seen_of(question)})
    assert again.status_code == 302


def test_what_was_shown_is_kept(question, as_):
    as_("ana").post(f"/requests/{question.pk}/", {"_action": "approve", "_seen": seen_of(question)})
    kept = {shown.kind: shown.body for shown in Shown.objects.all()}
    assert "Pay 900?" in kept["page"]
    assert "<article" in kept["page"]


def test_an_answer_may_be_taken_back_before_it_takes_effect(question, as_):
    ana = as_("ana")
    page = text(ana.post(f"/requests/{question.pk}/", REJECTED, follow=True))
    assert "data-undo-bar" in page
    assert "You rejected this" in page
    assert not Answer.objects.exists()
    assert "data-undo-bar" in text(ana.get("/runs/"))
    page = text(ana.post(f"/requests/{question.pk}/undo/", follow=True))
    assert "open again" in page
    assert "my careful words" in page
    assert "data-undo-bar" not in page
    assert Reply.objects.get().undone is not None


def test_an_answer_that_took_effect_is_not_taken_back(question, as_, settings):
    settings.WFDASH_UNDO = 0
    ana = as_("ana")
    assert "data-undo-bar" not in text(ana.post(f"/requests/{question.pk}/", {"_action": "approve"}, follow=True))
    assert "no answer of yours" in text(ana.post(f"/requests/{question.pk}/undo/", follow=True))
    assert Answer.objects.count() == 1


def test_while_it_may_be_taken_back_the_other_hears_who_was_first(question, as_):
    as_("ana").post(f"/requests/{question.pk}/", {"_action": "approve"})
    answer = as_("ben").post(f"/requests/{question.pk}/", REJECTED)
    assert answer.status_code == 409
    assert "ana answered first" in text(answer)
    assert "my careful words" in text(answer)


def test_several_answers_are_taken_back_together(run, as_):
    ana = as_("ana")
    for question in people.ask(run, "First?"), people.ask(run, "Second?"):
        ana.post(f"/requests/{question.pk}/", {"_action": "approve"})
    assert "2 answers given" in text(ana.get("/runs/"))
    page = text(ana.post("/requests/undo/", {"next": "/runs/"}, follow=True))
    assert "2 answers taken back" in page
    assert ana.post("/requests/undo/", {"next": "https://evil.example/"}).url == "/"


def test_votes_are_shown_and_ones_own_can_be_taken_back(run, as_):
    question = people.ask(run, policy={"by": ["ana", "ben"], "need": 2})
    ana, ben = as_("ana"), as_("ben")
    page = text(ana.post(f"/requests/{question.pk}/", {"_action": "approve"}, follow=True))
    assert "Your vote counts" in page
    assert "<strong>1 of 2</strong>" in page
    assert "Take my vote back" in page
    assert "card-form" not in page
    page = text(ben.get(f"/requests/{question.pk}/"))
    assert "Decided by 2 of ana or ben" in page
    assert "<strong>ana</strong> approved" in page
    assert "card-form" in page
    page = text(ana.post(f"/requests/{question.pk}/undo/", follow=True))
    assert "card-form" in page


def test_a_draft_is_kept_for_its_author_alone_until_they_answer(question, as_):
    ana, ben, address = as_("ana"), as_("ben"), f"/requests/{question.pk}/"
    typed = {"_action": "reject", "reject:reason": "half a thought", "_seen": "x"}
    assert ana.post(f"{address}draft/", typed, headers={"X-Quiet": "1"}).status_code == 204
    assert Draft.objects.get().fields == {"_action": ["reject"], "reject:reason": ["half a thought"]}
    page = text(ana.get(address))
    assert "half a thought" in page
    assert "restored" in page
    assert "half a thought" not in text(ben.get(address))
    assert ana.post(address, REJECTED).status_code == 302
    assert not Draft.objects.exists()


def test_a_draft_is_saved_without_a_script_and_discarded(question, as_):
    ana, address = as_("ana"), f"/requests/{question.pk}/"
    page = text(ana.post(f"{address}draft/", {"reject:reason": "half"}, follow=True))
    assert "Draft saved" in page
    ana.post(f"{address}draft/", {"_drop": "1"})
    assert not Draft.objects.exists()


def test_a_draft_that_is_not_finished_shows_no_errors(question, as_):
    ana, address = as_("ana"), f"/requests/{question.pk}/"
    desk.save_draft(people.viewer("ana"), question.pk, {"_action": ["reject"], "reject:reason": [""]})
    page = text(ana.get(address))
    assert "aria-invalid" not in page
    assert '<details class="action" open' in page or "open>" in page


def test_who_has_it_open_is_shown_and_taking_over_is_one_click(question, as_):
    ana, ben, address = as_("ana"), as_("ben"), f"/requests/{question.pk}/"
    assert ana.post(f"{address}here/", {"typing": "1"}).status_code == 200
    page = text(ben.get(address))
    assert "<strong>ana</strong> opened this" in page
    assert "is typing" in page
    page = text(ben.post(f"{address}take/", follow=True))
    assert "Take over" not in page
    assert "<strong>ben</strong> took this over" in text(ana.get(address))
    ben.post(f"{address}here/", {"leave": "1"})
    assert "took this over" not in text(ana.get(address))


def test_a_page_that_goes_does_not_take_the_next_one_along(question, as_):
    ana, here = as_("ana"), f"/requests/{question.pk}/here/"
    first = ana.post(here).json()["seen"]
    ana.post(here)
    ana.post(here, {"leave": "1", "seen": first})
    assert "ana is here" in text(as_("vera").get(f"/requests/{question.pk}/"))
    ana.post(here, {"leave": "1", "seen": ana.post(here).json()["seen"]})
    assert "ana is here" not in text(as_("vera").get(f"/requests/{question.pk}/"))


def test_a_claim_fades_without_a_sign_of_life(question, as_, everybody):
    long_ago = timezone.now() - timedelta(seconds=50)
    Presence.objects.create(request=question, user=everybody["ben"], since=long_ago, seen=long_ago)
    assert "ben" not in text(as_("ana").get(f"/requests/{question.pk}/?fragment=live"))


def test_a_viewer_who_looks_holds_nothing(question, as_):
    as_("vera").post(f"/requests/{question.pk}/here/")
    page = text(as_("ana").get(f"/requests/{question.pk}/"))
    assert "vera is here" in page
    assert "Take over" not in page


def test_it_is_given_to_those_who_may_answer(question, as_):
    ana, address = as_("ana"), f"/requests/{question.pk}/"
    page = text(ana.get(f"{address}assign/"))
    assert 'value="ben"' in page
    assert 'value="vera"' not in page
    refused = ana.post(f"{address}assign/", {"to": "vera"})
    assert refused.status_code == 422
    assert "vera may not answer" in text(refused)
    assert "ben’s" in text(ana.post(f"{address}assign/", {"to": "ben"}, follow=True))
    assert "yours" in text(as_("ben").get(address))


def test_an_operator_may_decide_for_others_with_a_reason(run, as_):
    question = people.ask(run, by=["finance"])
    otto, address = as_("otto"), f"/requests/{question.pk}/"
    page = text(otto.get(address))
    assert "card-form" not in page
    assert "Decide instead of them" in page
    page = text(otto.get(f"{address}?override=1"))
    assert "card-form" in page
    assert "The record will say so" in page
    assert "data-shut" in text(otto.get(f"{address}?fragment=live"))
    assert "data-shut" not in text(otto.get(f"{address}?fragment=live&override=1"))
    refused = otto.post(f"{address}?override=1", {"_action": "approve", "_reason": ""})
    assert refused.status_code == 422
    assert "Say why" in text(refused)
    assert otto.post(f"{address}?override=1", {"_action": "approve", "_reason": "Nobody is in"}).status_code == 302
    assert (Reply.objects.get().stands, Reply.objects.get().reason) == ("overrode", "Nobody is in")


def test_others_are_offered_no_override(run, as_):
    question = people.ask(run, by=["finance"])
    assert "Decide instead" not in text(as_("ben").get(f"/requests/{question.pk}/"))
    assert as_("ben").post(f"/requests/{question.pk}/?override=1", {"_action": "approve"}).status_code == 403


def test_the_policy_and_its_deadline_are_said_in_words(run, as_):
    now = timezone.now()
    policy = {"by": ["ana"], "due": 3600.0, "escalate": ["otto"], "on_timeout": "reject"}
    question = people.ask(run, policy=policy, due=now - timedelta(minutes=5), created=now - timedelta(minutes=65))
    page = text(as_("ana").get(f"/requests/{question.pk}/"))
    assert "Decided by ana. Due within 1 h. Then otto may decide, too." in page
    assert "overdue" in page
    assert "escalated to otto" in page


def test_a_stand_in_is_told_for_whom(run, as_, everybody):
    question = people.ask(run, by=["ana"])
    now = timezone.now()
    desk.set_absence(people.viewer("ana"), "ben", now - timedelta(hours=1), now + timedelta(hours=1))
    assert "you stand in for ana" in text(as_("ben").get(f"/requests/{question.pk}/"))


def test_what_was_typed_follows_to_the_request_that_replaced_it(run, as_):
    old = people.ask(run, closed=people.THEN, closed_as="superseded", key="same")
    new = people.ask(run, "Pay 950?", replaces=old.pk, key="same")
    answer = as_("ana").post(f"/requests/{old.pk}/", REJECTED)
    page = text(answer)
    assert answer.status_code == 409
    assert f"/requests/{new.pk}/" in page
    assert "950" in page
    assert "my careful words" in text(as_("ana").get(f"/requests/{new.pk}/"))


def test_an_open_page_is_told_that_it_is_stale(question, as_):
    seen = seen_of(question)
    address = f"/requests/{question.pk}/?fragment=live&seen={seen}"
    assert "was changed since" not in text(as_("ana").get(address))
    desk.amend_request(people.viewer("otto"), question.pk, body="More.")
    for _ in range(2):
        page = text(as_("ana").get(address))
        assert "was changed since" in page
        assert f"seen={seen}" in page


@pytest.mark.parametrize("path", ["", "people/", "assign/", "amend/"])
def test_strangers_find_none_of_it(path, question, as_):
    assert as_("sam").get(f"/requests/{question.pk}/{path}").status_code == 404
    for verb in "undo", "draft", "here", "take", "talk":
        assert as_("sam").post(f"/requests/{question.pk}/{verb}/", {"text": "x"}).status_code == 404


def test_the_panel_takes_the_same_number_of_queries_however_much_was_said(question, everybody, count_queries):
    viewer = people.viewer("ana")
    before = count_queries(lambda: queries.together(queries.request(viewer, question.pk)))
    for n in range(20):
        desk.comment_on(viewer, question.pk, f"Line {n}")
    assert count_queries(lambda: queries.together(queries.request(viewer, question.pk))) == before


@pytest.fixture
def count_queries():
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    def count(function):
        with CaptureQueriesContext(connection) as captured:
            function()
        return len(captured)

    return count
