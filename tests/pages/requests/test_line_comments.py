"""Comments on lines of a patch: written on the card, kept, sent, and shown to those who may read them."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest

from checkpoints.models import Answer, Draft, Event, HumanRequest
from tests import people
from tests.pages.requests.test_request import _at_once as _at_once
from wfdash.actions.requests.answer import answer_batch, answer_request
from wfdash.domain.errors import Invalid
from wfdash.domain.json_patch import schema

PATCH = """diff --git a/a.py b/a.py
--- a/a.py
+++ b/a.py
@@ -1,4 +1,4 @@
 one
-two
+three
 four
 five
diff --git a/b.txt b/b.txt
--- a/b.txt
+++ b/b.txt
@@ -1 +1 @@
-x
+y
"""
COMMENTED = {**people.DECISION, "properties": {**people.DECISION["properties"], "line_comments": schema()}}


def patch_of(run, **facts: Any) -> HumanRequest:
    card = {"subject": "Merge?", "proposal": PATCH, "actions": people.ACTIONS}
    return people.ask(run, card=card, **{"answer_schema": COMMENTED, **facts})


def page_of(client, request: HumanRequest, **post: str) -> str:
    where = f"/requests/{request.pk}/"
    return (client.post(where, post) if post else client.get(where)).content.decode()


def spots(html: str) -> list[str]:
    return re.findall(r'name="_comment"\s+value="([^"]+:[no]\d+)"', html)


@pytest.fixture
def asked(run) -> HumanRequest:
    return patch_of(run)


def test_each_line_has_a_button_that_begins_a_comment_without_script(asked, as_):
    ana = as_("ana")
    html = page_of(ana, asked)
    found = dict.fromkeys(spot.rpartition(":")[2] for spot in spots(html))
    assert list(found) == ["n1", "o2", "n2", "n3", "n4", "o1"]
    spot = spots(html)[2]
    begun = page_of(ana, asked, _comment=spot, **{"reject:reason": "typed"})
    assert begun.count(f'name="line:{spot}"') == 1
    assert "Comment on a.py:2" in begun
    assert "typed" in begun
    assert not Answer.objects.exists()


def test_lines_are_named_by_number_too(asked, as_):
    key = spots(page_of(as_("ana"), asked))[0].rpartition(":")[0]
    begun = page_of(as_("ana"), asked, _comment=key, **{f"_lines:{key}": "2-4", f"_side:{key}": "n"})
    assert f'name="line:{key}:n2-4"' in begun
    for wrong in ("99", "4-2", "x", "", "2-99"):
        refused = page_of(as_("ana"), asked, _comment=key, **{f"_lines:{key}": wrong})
        assert "Comment on a line that is shown" in refused


@pytest.mark.parametrize("action", ["approve", "reject"])
def test_comments_are_sent_with_whichever_action_and_shown_at_their_lines(action, asked, as_):
    ana = as_("ana")
    html = page_of(ana, asked)
    one, removed = spots(html)[0], next(spot for spot in spots(html) if spot.endswith("o2"))
    key = one.rpartition(":")[0]
    post = {f"line:{key}:n2-4": "all <b>this</b>", f"line:{removed}": "why?", f"line:{one}": "  "}
    page_of(ana, asked, _action=action, **{"reject:reason": "no"}, **post)
    kept = Answer.objects.get().value["line_comments"]
    assert kept == [
        {"file": "a.py", "start_line": 2, "line": 4, "side": "new", "text": "all <b>this</b>"},
        {"file": "a.py", "line": 2, "side": "old", "text": "why?"},
    ]
    decided = page_of(ana, asked)
    assert "all &lt;b&gt;this&lt;/b&gt;" in decided
    assert "on a.py:2-4" in decided
    assert 'name="_comment"' not in decided
    assert Event.objects.get(kind="request.answered").data["line_comments"] == [
        "a.py:2-4 all <b>this</b>",
        "a.py:−2 why?",
    ]


def test_comments_are_part_of_the_draft_and_count_in_the_dock(asked, as_):
    ana = as_("ana")
    spot = spots(page_of(ana, asked))[0]
    ana.post(f"/requests/{asked.pk}/draft/", {f"line:{spot}": "look here", "_lines:x": "1", "_comment": spot})
    assert Draft.objects.get().fields == {f"line:{spot}": ["look here"]}
    html = page_of(ana, asked)
    assert html.count(">look here<") == 2
    assert "1 line comment<" in html
    assert "look here" not in page_of(as_("ben"), asked)


def test_a_comment_on_a_line_that_is_not_there_is_refused_and_kept(asked, as_):
    ana = as_("ana")
    key = spots(page_of(ana, asked))[0].rpartition(":")[0]
    for spot in (f"{key}:n99", "proposal:000000000000:n1", "x", f"{key}:n1-0", f"{key}:n{'9' * 50}"):
        answer = ana.post(f"/requests/{asked.pk}/", {"_action": "approve", f"line:{spot}": "my careful words"})
        assert answer.status_code == 422
        assert "my careful words" in answer.content.decode()
    assert not Answer.objects.exists()


def test_an_undone_answer_opens_again_with_its_comments(run, as_, settings):
    settings.WFDASH_UNDO = 60
    asked, ana = patch_of(run), as_("ana")
    spot = spots(page_of(ana, asked))[0]
    page_of(ana, asked, _action="approve", **{f"line:{spot}": "do not lose me"})
    ana.post(f"/requests/{asked.pk}/undo/")
    html = page_of(ana, asked)
    assert f'name="line:{spot}"' in html
    assert "do not lose me" in html


def test_a_request_of_the_time_before_offers_no_comments_and_refuses_them(run, as_):
    asked, ana = patch_of(run, answer_schema=people.DECISION), as_("ana")
    assert "line-button" not in page_of(ana, asked)
    with pytest.raises(Invalid):
        answer_request(
            people.viewer("ana"),
            asked.pk,
            {"action": "approve", "line_comments": [{"file": "a", "line": 1, "text": "x"}]},
        )
    assert ana.post(f"/requests/{asked.pk}/", {"_action": "approve", "line:x": "y"}).status_code == 302


def test_all_that_voted_are_heard_by_the_step(run, as_):
    asked = patch_of(run, policy={"need": 2})
    spot, other = spots(page_of(as_("ana"), asked))[:2]
    page_of(as_("ana"), asked, _action="approve", **{f"line:{spot}": "from ana"})
    assert Event.objects.get(kind="request.voted").data["line_comments"] == ["a.py:1 from ana"]
    assert "<strong>ana</strong>" in page_of(as_("ben"), asked)
    page_of(as_("ben"), asked, _action="approve", **{f"line:{other}": "from ben"})
    assert [one["text"] for one in Answer.objects.get().value["line_comments"]] == ["from ben", "from ana"]
    decided = page_of(as_("ana"), asked)
    assert "from ana" in decided
    assert "from ben" in decided


def test_a_batch_takes_none(run, as_):
    one, other = patch_of(run), patch_of(run)
    assert "line_comments" not in as_("ana").get(f"/requests/{one.pk}/similar/").content.decode()
    with pytest.raises(Invalid) as refused:
        answer_batch(
            people.viewer("ana"),
            [(one.pk, "x"), (other.pk, "x")],
            {"action": "approve", "line_comments": [{"file": "a.py", "line": 1, "text": "x"}]},
        )
    assert refused.value.errors[0]["msg"] == "Comment on lines of one request, not of several"


def test_who_may_not_read_the_card_reads_no_comments(run, as_):
    asked = patch_of(run, by=["finance"])
    spot = spots(page_of(as_("ana"), asked))[0]
    page_of(as_("ana"), asked, _action="approve", **{f"line:{spot}": "between us"})
    assert "between us" not in unescape(as_("ben").get(f"/requests/{asked.pk}/").content.decode())
    assert "between us" not in as_("ben").get(f"/runs/{run.pk}/").content.decode()


def test_enter_in_a_field_presses_no_button_of_a_line(asked, as_):
    html = page_of(as_("ana"), asked)
    buttons = re.findall(r"<button[^>]*>", html)
    own = [one for one in buttons if 'form="answer-form"' in one]
    assert "disabled" in own[0]
