"""Answering with others: bound to what was seen, taken back, voted, drafted, assigned, overridden."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from checkpoints.models import Answer, Draft, HumanRequest, Presence, Reply, Shown
from tests import people
from tests.pages.markup import flat
from wfdash.actions.account import set_absence
from wfdash.actions.requests.collaboration import amend_request, ask_back, comment_on, save_draft
from wfdash.domain.hash_chain import fingerprint
from wfdash.queries.requests.request import read_collaboration, read_request

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


def test_a_request_that_changed_in_the_meantime_is_shown_with_the_difference_and_what_was_typed(question, as_):
    seen = seen_of(question)
    amend_request(people.viewer("otto"), question.pk, body="It was agreed by phone.")
    answer = as_("ana").post(f"/requests/{question.pk}/", {**REJECTED, "_seen": seen})
    page = text(answer)
    assert answer.status_code == 409
    assert not Reply.objects.exists()
    assert "Changed since you opened it" in page
    assert "What changed" in page
    assert "It was agreed by phone." in page
    assert '<p class="text-block">my careful words</p>' in page
    assert "my careful words</textarea>" in page
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
    assert "Decision undone" in page
    assert "my careful words" in page
    assert "data-undo-bar" not in page
    assert Reply.objects.get().undone is not None
    page = text(ana.get(f"/requests/{question.pk}/"))
    assert "Decision undone" not in page
    assert "my careful words" in page


def test_an_answer_that_took_effect_is_not_taken_back(question, as_, settings):
    settings.WFDASH_UNDO = 0
    ana = as_("ana")
    assert "data-undo-bar" not in text(ana.post(f"/requests/{question.pk}/", {"_action": "approve"}, follow=True))
    assert "Nothing to undo" in text(ana.post(f"/requests/{question.pk}/undo/", follow=True))
    assert Answer.objects.count() == 1


def test_while_it_may_be_taken_back_the_other_hears_who_was_first(question, as_):
    as_("ana").post(f"/requests/{question.pk}/", {"_action": "approve"})
    answer = as_("ben").post(f"/requests/{question.pk}/", REJECTED)
    assert answer.status_code == 409
    assert "Already answered by <strong>ana</strong>" in text(answer)
    assert "my careful words" in text(answer)


def answered_three(client, run) -> list[str]:
    questions = [people.ask(run, f"{name}?").pk for name in ("First", "Second", "Third")]
    for question in questions:
        client.post(f"/requests/{question}/?tab=mine&sort=due", {"_action": "approve"})
    return questions


def undone() -> set[str]:
    return set(Reply.objects.filter(undone__isnull=False).values_list("request_id", flat=True))


def undo_last(page: str) -> str:
    """Return where the button of the last answer posts to."""
    return unescape(re.search(r'class="undo-last" method="post" action="([^"]+)"', flat(page))[1])


def test_undo_takes_back_the_last_answer_alone_and_returns_to_its_card(run, as_):
    ana = as_("ana")
    _, second, third = answered_three(ana, run)
    page = text(ana.get("/?tab=mine&sort=due"))
    assert page.count('data-key="u"') == 1
    assert ana.post(undo_last(page)).url == f"/?tab=mine&sort=due&request={third}"
    assert undone() == {third}
    ana.post(undo_last(text(ana.get("/runs/"))))
    assert undone() == {third, second}


def test_undo_all_is_a_button_of_its_own_that_names_what_it_takes_back(run, as_):
    ana = as_("ana")
    questions = answered_three(ana, run)
    page = text(ana.get("/runs/"))
    assert "Undo all (3)" in page
    assert [f'name="request" value="{question}"' in page for question in questions] == [True] * 3
    later = people.ask(run, "Later?").pk
    ana.post(f"/requests/{later}/", {"_action": "approve"})
    listed = {"request": questions, "next": "/runs/"}
    assert "3 answers undone" in text(ana.post("/requests/undo/", listed, follow=True))
    assert undone() == set(questions)
    assert ana.post("/requests/undo/", {"next": "https://evil.example/"}).url == "/"


def test_answers_given_on_another_device_are_not_offered(run, as_):
    phone, laptop = as_("ana"), as_("ana")
    theirs = people.ask(run, "On the phone?").pk
    phone.post(f"/requests/{theirs}/", {"_action": "approve"})
    assert "data-undo-bar" not in text(laptop.get("/runs/"))
    here = people.ask(run, "On the laptop?").pk
    laptop.post(f"/requests/{here}/", {"_action": "approve"})
    page = text(laptop.get("/runs/"))
    assert "Undo all" not in page
    laptop.post(undo_last(page))
    assert undone() == {here}


def test_a_forged_cookie_offers_no_one_else_s_answers(run, as_):
    theirs = people.ask(run, "Ben's?").pk
    as_("ben").post(f"/requests/{theirs}/", {"_action": "approve"})
    ana = as_("ana")
    for value in (f"9999999999:{theirs}", "1", ":", "x:y", f"99999999999999999999:{theirs}", "5:" + "a." * 500):
        ana.cookies["wfdash_undo"] = value
        assert "data-undo-bar" not in text(ana.get("/runs/"))
    ana.post("/requests/undo/", {"request": [theirs, "nothing", "x" * 500]})
    assert undone() == set()


def test_an_answer_s_words_lie_over_the_page_instead_of_moving_it(question, as_, settings):
    settings.WFDASH_UNDO = 0
    page = text(as_("ana").post(f"/requests/{question.pk}/", {"_action": "approve"}, follow=True))
    assert re.search(r'<div class="news".*?class="message-list".*?class="alert good"', page, re.DOTALL)


def test_votes_are_shown_and_ones_own_can_be_taken_back(run, as_):
    question = people.ask(run, policy={"by": ["ana", "ben"], "need": 2})
    ana, ben = as_("ana"), as_("ben")
    page = text(ana.post(f"/requests/{question.pk}/", {"_action": "approve"}, follow=True))
    assert "Your vote was recorded" in page
    assert "<strong>1 of 2</strong>" in page
    assert "Withdraw my vote" in page
    assert "card-form" not in page
    page = text(ben.get(f"/requests/{question.pk}/"))
    assert "Needs 2 votes from ana or ben" in page
    assert flat("<strong>ana</strong> approved") in flat(page)
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


def test_a_draft_that_is_not_finished_shows_no_errors(question, as_):
    ana, address = as_("ana"), f"/requests/{question.pk}/"
    save_draft(people.viewer("ana"), question.pk, {"_action": ["reject"], "approve:note": ["Hm"]})
    page = text(ana.get(address))
    assert "aria-invalid" not in page
    assert '<details class="action" open' in page


def test_who_has_it_open_is_shown_and_taking_over_is_one_click(question, as_):
    ana, ben, address = as_("ana"), as_("ben"), f"/requests/{question.pk}/"
    assert ana.post(f"{address}presence/", {"typing": "1"}).status_code == 200
    page = text(ben.get(address))
    assert flat("<strong>ana</strong> opened this") in flat(page)
    assert "is typing" in page
    page = text(ben.post(f"{address}take/", follow=True))
    assert "Take over" not in page
    assert flat("<strong>ben</strong> took over") in flat(text(ana.get(address)))
    ben.post(f"{address}presence/", {"leave": "1"})
    assert "took over" not in flat(text(ana.get(address)))


def test_of_two_people_the_first_to_open_it_holds_it_on_both_pages(question, as_):
    ana, ben, address = as_("ana"), as_("ben"), f"/requests/{question.pk}/"
    for client in ana, ben:
        client.post(f"{address}presence/")
    first, second = flat(text(ana.get(address))), flat(text(ben.get(address)))
    assert flat("<strong>ana</strong> opened this") in second
    assert "Take over" not in first
    assert "ben is viewing" in first


def test_a_claim_outlives_the_way_from_the_inbox_to_the_request(question, as_):
    ana, ben, address = as_("ana"), as_("ben"), f"/requests/{question.pk}/"
    for client in ana, ben:
        client.post(f"{address}presence/")
    ana.post(f"{address}presence/", {"leave": "1"})
    assert "Take over" not in text(ben.get(address))
    ana.post(f"{address}presence/")
    assert flat("<strong>ana</strong> opened this") in flat(text(ben.get(address)))
    assert "Take over" not in text(ana.get(address))


def test_who_stays_away_gives_the_claim_up(question, as_, everybody):
    ana, ben, address = as_("ana"), as_("ben"), f"/requests/{question.pk}/"
    gone = timezone.now() - timedelta(seconds=60)
    Presence.objects.create(request=question, user=everybody["ana"], since=gone, seen=gone, taken=gone)
    ben.post(f"{address}presence/")
    ana.post(f"{address}presence/")
    assert flat("<strong>ben</strong> opened this") in flat(text(ana.get(address)))


def test_a_page_that_goes_does_not_take_the_next_one_along(question, as_):
    ana, here = as_("ana"), f"/requests/{question.pk}/presence/"
    first = ana.post(here).json()["seen"]
    ana.post(here)
    ana.post(here, {"leave": "1", "seen": first})
    assert "ana is viewing" in flat(text(as_("vera").get(f"/requests/{question.pk}/")))
    ana.post(here, {"leave": "1", "seen": ana.post(here).json()["seen"]})
    assert "ana is viewing" not in text(as_("vera").get(f"/requests/{question.pk}/"))


def test_a_claim_fades_without_a_heartbeat(question, as_, everybody):
    long_ago = timezone.now() - timedelta(seconds=50)
    Presence.objects.create(request=question, user=everybody["ben"], since=long_ago, seen=long_ago)
    assert "ben" not in text(as_("ana").get(f"/requests/{question.pk}/?fragment=live"))


def test_a_viewer_who_looks_holds_nothing(question, as_):
    as_("vera").post(f"/requests/{question.pk}/presence/")
    page = text(as_("ana").get(f"/requests/{question.pk}/"))
    assert "vera is viewing" in flat(page)
    assert "Take over" not in page


def test_it_is_given_to_those_who_may_answer(question, as_):
    ana, address = as_("ana"), f"/requests/{question.pk}/"
    page = text(ana.get(f"{address}assign/"))
    assert 'value="ben"' in page
    assert 'value="vera"' not in page
    refused = ana.post(f"{address}assign/", {"to": "vera"})
    assert refused.status_code == 422
    assert "vera cannot answer" in text(refused)
    assert "assigned to ben" in text(ana.post(f"{address}assign/", {"to": "ben"}, follow=True))
    assert "yours" in text(as_("ben").get(address))


def test_an_operator_may_decide_for_others_with_a_reason_and_others_are_not_offered_it(run, as_):
    question = people.ask(run, by=["finance"])
    otto, ben, address = as_("otto"), as_("ben"), f"/requests/{question.pk}/"
    assert "Override" not in text(ben.get(address))
    assert ben.post(f"{address}?override=1", {"_action": "approve"}).status_code == 403
    page = text(otto.get(address))
    assert "card-form" not in page
    assert "Override…" in page
    page = text(otto.get(f"{address}?override=1"))
    assert "card-form" in page
    assert "This is recorded in the audit log" in page
    assert "data-shut" in text(otto.get(f"{address}?fragment=live"))
    assert "data-shut" not in text(otto.get(f"{address}?fragment=live&override=1"))
    refused = otto.post(f"{address}?override=1", {"_action": "approve", "_reason": ""})
    assert refused.status_code == 422
    assert "Give a reason" in text(refused)
    assert otto.post(f"{address}?override=1", {"_action": "approve", "_reason": "Nobody is in"}).status_code == 302
    assert (Reply.objects.get().stands, Reply.objects.get().reason) == ("overrode", "Nobody is in")


def test_the_policy_and_its_deadline_are_said_in_words(run, as_):
    now = timezone.now()
    policy = {"by": ["ana"], "due": 3600.0, "escalate": ["otto"], "on_timeout": "reject"}
    question = people.ask(run, policy=policy, due=now - timedelta(minutes=5), created=now - timedelta(minutes=65))
    page = text(as_("ana").get(f"/requests/{question.pk}/"))
    assert "Decided by ana. Due in 1 h. Then otto can also decide." in page
    assert "overdue" in page
    assert "escalated to otto" in page


def test_a_stand_in_is_told_for_whom(run, as_, everybody):
    question = people.ask(run, by=["ana"])
    now = timezone.now()
    set_absence(people.viewer("ana"), "ben", now - timedelta(hours=1), now + timedelta(hours=1))
    assert "on behalf of ana" in text(as_("ben").get(f"/requests/{question.pk}/"))


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
    assert "request changed since" not in text(as_("ana").get(address))
    amend_request(people.viewer("otto"), question.pk, body="More.")
    for _ in range(2):
        page = text(as_("ana").get(address))
        assert "request changed since" in page
        assert f"seen={seen}" in page


@pytest.mark.parametrize("path", ["", "people/", "assign/", "amend/"])
def test_strangers_find_none_of_it(path, question, as_):
    assert as_("sam").get(f"/requests/{question.pk}/{path}").status_code == 404
    for verb in "undo", "draft", "here", "take", "talk":
        assert as_("sam").post(f"/requests/{question.pk}/{verb}/", {"text": "x"}).status_code == 404


def test_the_panel_takes_the_same_number_of_queries_however_much_was_said(question, everybody):
    viewer, counts = people.viewer("ana"), set()
    for n in range(20):
        with CaptureQueriesContext(connection) as captured:
            read_collaboration(read_request(viewer, question.pk))
        counts.add(len(captured))
        comment_on(viewer, question.pk, f"Line {n}")
    assert len(counts) == 1


def test_forms_are_not_shown_to_those_who_may_not_send_them(question, as_):
    refused = {("vera", "amend"), ("vera", "assign"), ("vera", "deadline"), ("ana", "amend"), ("ana", "deadline")}
    for name in ("vera", "ana", "otto"):
        for verb in ("amend", "assign", "deadline"):
            answer = as_(name).get(f"/requests/{question.pk}/{verb}/")
            assert answer.status_code == (403 if (name, verb) in refused else 200), (name, verb)
            shown = text(answer).partition("</main>")[0]
            assert ("<form class" in shown) == (answer.status_code == 200)


def test_forms_of_a_closed_request_are_not_shown(question, as_, everybody):
    people.answered(question, everybody["ana"])
    for verb in ("amend", "assign", "deadline"):
        assert as_("otto").get(f"/requests/{question.pk}/{verb}/").status_code == 403


def test_a_draft_is_saved_without_a_script_and_discarded_and_none_where_nothing_is_written(question, as_):
    ana, address = as_("ana"), f"/requests/{question.pk}/"
    assert "Draft saved" in text(ana.post(f"{address}draft/", {"reject:reason": "half"}, follow=True))
    ana.post(f"{address}draft/", {"_drop": "1"})
    assert not Draft.objects.exists()
    for typed, kept in (("half", 1), ("  ", 0), ("", 0)):
        ana.post(f"{address}draft/", {"_action": "reject", "reject:reason": typed}, headers={"X-Quiet": "1"})
        assert Draft.objects.count() == kept
    assert '<details class="action" open' not in flat(text(ana.get(address)))


def test_who_was_asked_finds_question_and_reply_above_the_card(everybody, as_):
    run = people.make_run(created_by=everybody["otto"])
    question = people.ask(run)
    ask_back(people.viewer("ana"), question.pk, "Which invoice?")
    asked, other = (text(as_(name).get(f"/requests/{question.pk}/")) for name in ("otto", "ana"))
    assert asked.index("Which invoice?") < asked.index('value="reply"') < asked.index('class="card"')
    assert other.index('class="card"') < other.index("Which invoice?")
    assert asked.count('id="request-thread"') == other.count('id="request-thread"') == 1


@pytest.mark.parametrize(
    "path", ["foo", "//elsewhere.example/", "https://elsewhere.example/", "/\\elsewhere.example", ""]
)
def test_undo_returns_to_a_path_of_this_site_alone(path, question, as_):
    answer = as_("ana").post("/requests/undo/", {"request": question.pk, "next": path})
    assert (answer.status_code, answer.url) == (302, "/")
