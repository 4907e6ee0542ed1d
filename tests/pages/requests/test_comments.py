from __future__ import annotations

from checkpoints.models import Comment, HumanRequest
from tests import people
from tests.pages.markup import flat


def text(answer) -> str:
    return answer.content.decode()


def test_a_comment_is_shown_as_markdown_and_as_text_where_it_is_not(question, as_):
    ana, address = as_("ana"), f"/requests/{question.pk}/"
    page = text(
        ana.post(f"{address}talk/", {"kind": "comment", "text": "**Bold** <script>x</script> @ben"}, follow=True)
    )
    assert "<strong>Bold</strong>" in page
    assert "<script>x" not in page
    assert "<strong>@ben</strong>" in page


def test_a_mention_that_reaches_no_one_is_said(question, as_):
    page = text(as_("ana").post(f"/requests/{question.pk}/talk/", {"text": "@sam look"}, follow=True))
    assert "@sam was not notified" in page


def test_a_comment_that_does_not_go_is_kept(question, as_):
    ana, address = as_("ana"), f"/requests/{question.pk}/talk/"
    assert ana.post(address, {"kind": "comment", "text": "  "}).status_code == 422
    long = ana.post(address, {"kind": "comment", "text": "much " * 5000})
    assert long.status_code == 422
    assert "much much" in text(long)


def test_the_one_who_started_it_is_asked_and_replies(question, as_):
    ana, otto, address = as_("ana"), as_("otto"), f"/requests/{question.pk}/"
    page = text(ana.get(address))
    assert "Ask otto" in flat(page)
    page = text(ana.post(f"{address}talk/", {"kind": "ask", "text": "For what?"}, follow=True))
    assert "information requested from otto" in page
    assert "card-form" in page
    assert 'value="reply"' in text(otto.get(address))
    assert 'value="reply"' not in page
    page = text(otto.post(f"{address}talk/", {"kind": "reply", "text": "For the fair."}, follow=True))
    assert "waiting for" not in page
    assert [line.kind for line in Comment.objects.order_by("at")] == ["ask", "reply"]
    late = otto.post(f"{address}talk/", {"kind": "reply", "text": "And more."})
    assert late.status_code == 409
    assert "And more." in text(late)


def test_the_requester_adds_what_was_missing(question, as_):
    otto, address = as_("otto"), f"/requests/{question.pk}/"
    assert otto.get(f"{address}amend/").status_code == 200
    assert "Enter the information to add" in text(otto.post(f"{address}amend/", {"body": ""}))
    sent = {"body": "Agreed in May.", "title": "Offer", "kind": "markdown", "value": "| a | b |"}
    assert "Agreed in May." in text(otto.post(f"{address}amend/", sent, follow=True))
    assert HumanRequest.objects.get().card["evidence"] == [{"kind": "markdown", "title": "Offer", "value": "| a | b |"}]


def test_others_add_nothing(question, as_):
    assert as_("ana").post(f"/requests/{question.pk}/amend/", {"body": "x"}).status_code == 403
    assert "Add information" not in text(as_("ana").get(f"/requests/{question.pk}/"))


def test_whom_a_comment_can_mention(question, as_):
    assert as_("ana").get(f"/requests/{question.pk}/people/").json()["names"] == ["adam", "ana", "ben", "otto", "vera"]


def test_what_is_said_about_a_request_of_others_is_theirs(run, as_):
    question = people.ask(run, by=["finance"])
    as_("ana").post(f"/requests/{question.pk}/talk/", {"text": "between us"})
    assert "between us" not in text(as_("ben").get(f"/requests/{question.pk}/"))
    assert "between us" in text(as_("otto").get(f"/requests/{question.pk}/"))
