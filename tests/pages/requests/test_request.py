from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from checkpoints.models import Answer, Checkpoint, Comment, Event, HumanRequest, Reply
from tests import people
from tests.pages.markup import flat
from wfdash.actions.account import create_token
from wfdash.queries.requests.request import read_request
from wfdash.questions.choices import open_answer
from wfdash.web.pages.requests.panel import typed_texts

MOST_STATEMENTS = {"at once": 11, "undoable": 9}
"""Of an answer that one person notices: from the session to the audit, transactions not counted."""


@pytest.fixture(autouse=True)
def _at_once(settings):
    """Answers take effect at once."""
    settings.WFDASH_UNDO = 0


def test_approving_answers_the_request(question, as_):
    assert as_("ana").post(f"/requests/{question.pk}/", {"_action": "approve"}).status_code == 302
    kept = Answer.objects.get()
    assert (kept.value, kept.verdict, kept.by.username) == ({"action": "approve"}, "approve", "ana")
    assert Event.objects.get(kind="request.answered").data["by"] == "ana"


@pytest.mark.parametrize(("undo", "effect"), [(0, "at once"), (10, "undoable")])
@pytest.mark.parametrize("key", [False, True], ids=["no key", "key"])
def test_an_answer_takes_few_statements(undo, effect, key, run, as_, settings):
    settings.WFDASH_UNDO = undo
    ana = as_("ana")
    for subject in ("First?", "Second?", "Third?"):
        form = {"_action": "approve", **({"_key": subject} if key else {})}
        path = f"/requests/{people.ask(run, subject).pk}/"
        with CaptureQueriesContext(connection) as seen:
            assert ana.post(path, form).status_code == 302
    # By then the process remembers whose session it is and where the audit ends.
    assert statements(seen) <= MOST_STATEMENTS[effect] + key


@pytest.mark.parametrize("effect", MOST_STATEMENTS)
def test_an_answer_by_a_program_takes_few_statements(effect, run, everybody, settings):
    settings.WFDASH_UNDO = 10
    text = create_token(people.viewer("ana"), "ci", rights=["see", "answer"], workflows=["*"]).text
    program = Client(headers={"Authorization": f"Bearer {text}"})
    for subject in ("First?", "Second?", "Third?"):
        path = reverse("wfdash:api:answer_request", args=[people.ask(run, subject).pk])
        with CaptureQueriesContext(connection) as seen:
            given = {"value": {"action": "approve"}, "undo": effect == "undoable"}
            assert program.post(path, given, content_type="application/json").status_code == 200
    assert statements(seen) <= MOST_STATEMENTS[effect]


def statements(seen) -> int:
    return len([one for one in seen if "SAVEPOINT" not in one["sql"]])


def test_a_rejection_needs_its_reason_and_keeps_what_was_typed(question, as_):
    answer = as_("ana").post(f"/requests/{question.pk}/", {"_action": "reject", "reject:reason": ""})
    assert answer.status_code == 422
    assert not Answer.objects.exists()
    assert HumanRequest.objects.get().answered is None
    page = answer.content.decode()
    assert "aria-invalid" in page
    assert 'id="field-reject:reason"' in page


def test_an_approval_does_not_need_the_reason_of_a_rejection(question, as_):
    assert as_("ana").post(f"/requests/{question.pk}/", {"_action": "approve"}).status_code == 302


def test_typed_values_stay_after_a_field_error(run, as_):
    schema = {
        "type": "object",
        "properties": {"amount": {"type": "integer", "maximum": 500}, "note": {"type": "string"}},
        "required": ["amount"],
    }
    question = people.ask(run, card={"subject": "How much?"}, answer_schema=schema, kind="form")
    answer = as_("ana").post(f"/requests/{question.pk}/", {"amount": "9999", "note": "typed with care"})
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "9999" in page
    assert "typed with care" in page
    assert as_("ana").post(f"/requests/{question.pk}/", {"amount": "400"}).status_code == 302
    assert Answer.objects.get().value == {"amount": 400}


def test_the_second_answer_hears_who_was_first(question, as_):
    as_("ben").post(f"/requests/{question.pk}/", {"_action": "approve"})
    answer = as_("ana").post(f"/requests/{question.pk}/", {"_action": "reject", "reject:reason": "my careful words"})
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "ben answered" in page
    assert flat("Already answered by <strong>ben</strong>: approved") in flat(page)
    assert "UTC)" not in page
    assert '<p class="text-block">my careful words</p>' in page
    assert 'data-copy="my careful words"' in page
    assert "&quot;reason&quot;" not in page
    assert Answer.objects.count() == 1
    again = as_("ana").post(f"/requests/{question.pk}/talk/", {"kind": "write", "text": "my careful words"})
    assert (again.status_code, ">my careful words</textarea>" in again.content.decode()) == (200, True)
    assert not Comment.objects.exists()


def test_what_was_typed_comes_back_as_text_without_its_secrets(question):
    schema = {"type": "object", "properties": {"pin": {"type": "string", "writeOnly": True, "format": "password"}}}
    found = read_request(people.viewer("ana"), question.pk).model_copy(update={"answer_schema": schema})
    spot = {"file": "cart.py", "line": 3, "side": "new", "text": "Why?"}
    value = {"action": "edit", "pin": "1234", "unit_price": 80, "note": "", "line_comments": [spot]}
    assert typed_texts(found, value) == [("Unit price", "80"), ("Line comments", "cart.py:3: Why?")]
    assert typed_texts(found, "Yes") == [("Answer", "Yes")]
    assert typed_texts(found, None) == []


@pytest.mark.parametrize(
    ("hold", "phase", "said"), [(1, "waiting", "not on hold"), (0, "paused", "once it is resumed")]
)
def test_an_answer_does_not_say_that_a_run_continues_which_does_not(hold, phase, said, question, as_, settings):
    settings.WFDASH_HOLD = bool(hold)
    question.run.phase = phase
    question.run.save(update_fields=["phase"])
    page = as_("ana").post(f"/requests/{question.pk}/", {"_action": "approve"}, follow=True).content.decode()
    assert said in page
    assert "The run continues.<" not in page


def test_an_unknown_action_is_refused(question, as_):
    assert as_("ana").post(f"/requests/{question.pk}/", {"_action": "explode"}).status_code == 422
    assert not Answer.objects.exists()


@pytest.mark.parametrize(("name", "status"), [("vera", 403), ("sam", 404)])
def test_answering_takes_the_right(name, status, question, as_):
    assert as_(name).post(f"/requests/{question.pk}/", {"_action": "approve"}).status_code == status


def test_a_request_for_a_group_says_so_to_others(run, as_):
    question = people.ask(run, by=["finance"])
    assert "Only finance" in as_("ben").get(f"/requests/{question.pk}/").content.decode()
    assert as_("ben").post(f"/requests/{question.pk}/", {"_action": "approve"}).status_code == 403
    assert as_("ana").post(f"/requests/{question.pk}/", {"_action": "approve"}).status_code == 302


def test_the_requester_cannot_approve_where_a_second_person_is_wanted(run, as_):
    question = people.ask(run, not_by=["requester"])
    assert "second person" in as_("otto").get(f"/requests/{question.pk}/").content.decode()
    assert as_("otto").post(f"/requests/{question.pk}/", {"_action": "approve"}).status_code == 403


def test_an_earlier_answer_is_shown_as_a_suggestion(run, as_):
    suggestion = {"value": {"action": "reject", "reason": "too dear"}, "verdict": "reject", "by": "ben", "at": "x"}
    question = people.ask(run, suggestion=suggestion)
    page = as_("ana").get(f"/requests/{question.pk}/").content.decode()
    assert "too dear" in page
    assert "<strong>ben rejected this</strong>, before the run was restored" in flat(page)


def test_after_an_answer_from_the_inbox_the_next_one_opens(run, as_):
    first, second = people.ask(run, "First?"), people.ask(run, "Second?")
    answer = as_("ana").post(f"/requests/{first.pk}/?tab=mine", {"_action": "approve"}, follow=True)
    page = answer.content.decode()
    assert f"request={second.pk}" in answer.redirect_chain[0][0]
    assert "Approved: First?" in page
    assert "Second?" in page


def test_a_closed_request_says_what_became_of_it(run, everybody, as_):
    gone = people.ask(run, closed=people.THEN, closed_as="withdrawn")
    assert "No longer needed" in as_("ana").get(f"/requests/{gone.pk}/").content.decode()
    old = people.ask(run, closed=people.THEN, closed_as="superseded")
    new = people.ask(run, replaces=old.pk)
    assert f"/requests/{new.pk}/" in as_("ana").get(f"/requests/{old.pk}/").content.decode()


def test_operators_go_back_from_an_answer_to_before_it_and_authors_read_what_a_card_lacks(question, everybody, as_):
    asked, later = people.save(question.run), people.save(question.run)
    Checkpoint.objects.filter(pk=asked.pk).update(waiting=1)
    missing = "The workflow does not state"
    pages = {name: as_(name).get(f"/requests/{question.pk}/").content.decode() for name in ("ana", "otto")}
    assert [missing in pages[name] for name in pages] == [False, True]
    people.answered(question, everybody["ana"])
    pages = {name: as_(name).get(f"/requests/{question.pk}/").content.decode() for name in ("ana", "otto")}
    assert f"/checkpoints/{asked.pk}/restore/" in pages["otto"]
    assert later.pk not in pages["otto"]
    Checkpoint.objects.filter(pk=later.pk).update(parent=asked.pk)
    history = flat(as_("otto").get(f"/runs/{question.run_id}/checkpoints/").content.decode())
    assert re.findall("(asked|answered)</span></a>", history) == ["answered", "asked"]
    assert "before this answer" not in pages["ana"]


def test_what_changes_by_itself_can_be_fetched_alone(question, as_):
    page = as_("ana").get(f"/requests/{question.pk}/?fragment=live").content.decode()
    assert flat(page).startswith('<div id="request-live"')
    assert 'hx-swap-oob="outerMorph"' in page
    assert "card-form" not in page
    assert "<html" not in page
    assert as_("ana").get(f"/requests/{question.pk}/?fragment=other").status_code == 404


def test_an_operator_answers_in_someone_s_name_with_a_reason(question, as_):
    client = as_("otto")
    assert "Answer on behalf of…" in client.get(f"/requests/{question.pk}/").content.decode()
    assert "<option>ana</option>" in flat(client.get(f"/requests/{question.pk}/?override=1").content.decode())
    address, given = f"/requests/{question.pk}/?override=1", {"_action": "approve", "_for": "ana"}
    refused = client.post(address, given)
    assert refused.status_code == 422
    assert "<option selected>ana</option>" in refused.content.decode()
    client.post(address, {**given, "_reason": "On the phone"})
    reply = Reply.objects.get(request=question)
    assert (reply.by.username, reply.acting_for, reply.reason) == ("otto", "ana", "On the phone")


def test_an_answer_with_errors_keeps_the_list_it_was_opened_from(run, as_):
    first, second = people.ask(run, "First?"), people.ask(run, "Second?")
    typed = {"_action": "reject", "reject:reason": ""}
    for place in ("tab=mine&sort=due", "tab=mine&focus=1&of=2"):
        answer = as_("ana").post(f"/requests/{first.pk}/?{place}", typed)
        page = answer.content.decode()
        assert answer.status_code == 422
        assert "data-error-summary" in page
        assert (f'id="row-{second.pk}"' in page) == ("focus" not in place)
        assert ("focus-progress" in page) == ("focus" in place)
    assert "inbox-list" not in as_("ana").post(f"/requests/{first.pk}/", typed).content.decode()


def test_an_answer_that_is_sent_twice_counts_once_and_leads_to_the_same_page(run, as_):
    first, second = people.ask(run, "First?"), people.ask(run, "Second?")
    ana = as_("ana")
    typed = {"_action": "approve", "_key": "once"}
    for _ in range(2):
        # Sent again because the first response was lost: it counts once and leads to the same page.
        answer = ana.post(f"/requests/{first.pk}/?tab=mine", typed)
        assert (answer.status_code, answer.headers["Location"]) == (302, f"/?tab=mine&request={second.pk}")
    assert Answer.objects.count() == 1


def test_every_page_with_a_card_has_the_parts_that_the_next_one_replaces(run, as_):
    question, ana = people.ask(run), as_("ana")
    for address, parts in {
        f"/?tab=mine&request={question.pk}": ["card", "news", "tabs"],
        f"/?tab=mine&focus=1&request={question.pk}": ["bar", "card", "news"],
        f"/requests/{question.pk}/": ["card", "news"],
    }.items():
        assert sorted(re.findall('data-swap="([a-z]+)"', ana.get(address).content.decode())) == parts


def test_the_command_that_answers_is_for_those_who_may_answer(question, as_):
    address = f"/requests/{question.pk}/"
    page = as_("ana").get(address).content.decode()
    assert "Answer from a program" in page
    assert "&quot;action&quot;: &quot;approve&quot;" in page
    assert "Answer from a program" not in as_("vera").get(address).content.decode()


def test_an_answer_of_unknown_type_has_no_kind_and_a_no_that_is_a_text_is_asked_back(run, as_):
    ana = as_("ana")
    asked = people.ask(run, "Transfer 500?", card={"subject": "Transfer 500?"}, answer_schema=open_answer())
    path, hidden = f"/requests/{asked.pk}/", re.compile(r'<label class="doubt" data-doubtful="[^"]+" hidden')
    shown = flat(ana.get(path).content.decode())
    kinds = re.findall(r'<input type="radio" name="value\?" value="(\d)" ?(checked)?', shown)
    assert kinds == [("0", ""), ("1", ""), ("2", "")]
    assert shown.index("Yes or no") < shown.index("<span>Text</span>")
    assert hidden.search(shown)
    assert ana.post(path, {}).status_code == 422
    text = {"value?": "1", "value.1": "No"}
    back = ana.post(path, text)
    assert back.status_code == 422
    assert "This text reads like a no" in flat(back.content.decode())
    assert 'name="_as_text"' in flat(back.content.decode())
    assert not hidden.search(flat(back.content.decode()))
    assert not Reply.objects.exists()
    assert ana.post(path, {**text, "_as_text": "1"}).status_code == 302
    assert Answer.objects.get().value == "No"


def test_a_program_says_that_it_means_the_text(run, everybody):
    text = create_token(people.viewer("ana"), "ci", rights=["see", "answer"], workflows=["*"]).text
    program = Client(headers={"Authorization": f"Bearer {text}"})
    asked = people.ask(run, "Transfer 500?", card={"subject": "Transfer 500?"}, answer_schema=open_answer())
    path = reverse("wfdash:api:answer_request", args=[asked.pk])
    refused = program.post(path, {"value": "reject"}, content_type="application/json")
    assert refused.status_code == 422
    assert "as_text" in refused.content.decode()
    taken = program.post(path, {"value": "reject", "as_text": True}, content_type="application/json")
    assert taken.status_code == 200
    assert Answer.objects.get().value == "reject"
