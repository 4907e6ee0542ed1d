from __future__ import annotations

import re

from pydantic import BaseModel

from checkpoints.models import Reply
from tests import people
from tests.pages.markup import flat
from wfdash.questions.cards import prepare
from wfdash.web.pages.ui.card import unedited
from wfdash.workflow import Approval, ToolCall
from wfdash.workflow.evidence import Table


def refund(run, number, **facts):
    card = {
        "subject": f"Refund {number}?",
        "proposal": {"amount": number},
        "body": "All **late**",
        "actions": people.ACTIONS,
    }
    return people.ask(run, card=card, **facts)


def ticks(page: str) -> list[str]:
    return re.findall(r'name="tick" value="([^"]+)"', flat(page))


def ticked(page: str) -> int:
    return len(re.findall(r'name="tick"[^>]* checked>', flat(page)))


def test_the_table_shows_what_differs_and_ticks(run, as_):
    first, *_ = (refund(run, number) for number in range(3))
    page = as_("ana").get(f"/requests/{first.pk}/similar/").content.decode()
    assert (len(ticks(page)), ticked(page)) == (3, 0)
    assert '<th scope="col">Amount</th>' in page
    assert '<th scope="col">Body</th>' not in page
    assert "<strong>late</strong>" in page
    assert ticked(as_("ana").get(f"/requests/{first.pk}/similar/?all=1").content.decode()) == 3


def test_high_risks_are_shown_without_a_tick(run, as_):
    first, _ = refund(run, 1), refund(run, 2, risk=3)
    page = as_("ana").get(f"/requests/{first.pk}/similar/").content.decode()
    assert (len(ticks(page)), "High risk: decide it individually" in page) == (1, True)


def test_a_batch_that_is_sent_twice_counts_once_and_has_the_same_result(run, as_):
    first, *_ = (refund(run, number) for number in range(3))
    ana, url = as_("ana"), f"/requests/{first.pk}/similar/?tab=mine"
    typed = {"tick": ticks(ana.get(url).content.decode()), "_action": "approve", "_key": "once"}
    for _ in range(2):
        assert ana.post(url, typed)["Location"] == "/batch/result/"
        assert "3 approved" in ana.get("/batch/result/").content.decode()
    assert Reply.objects.count() == 3


def test_one_decision_answers_all_that_are_ticked_and_can_be_undone(run, as_):
    first, *_ = (refund(run, number) for number in range(3))
    ana, url = as_("ana"), f"/requests/{first.pk}/similar/?tab=mine"
    chosen = ticks(ana.get(url).content.decode())[:2]
    assert ana.post(url, {"tick": chosen, "_action": "approve"})["Location"] == "/batch/result/"
    result = ana.get("/batch/result/").content.decode()
    assert "2 approved" in result
    assert "Undo these 2" in " ".join(result.split())
    assert Reply.objects.filter(via="batch").count() == 2
    assert "2 answers undone" in ana.post("/batch/undo/", follow=True).content.decode()
    assert not Reply.objects.filter(undone__isnull=True).exists()


def test_a_batch_without_a_tick_or_with_a_field_missing_decides_nothing(run, as_):
    first, _ = refund(run, 1), refund(run, 2)
    ana, url = as_("ana"), f"/requests/{first.pk}/similar/"
    nothing = ana.post(url, {"_action": "approve"})
    assert nothing.status_code == 422
    assert "Select at least one request" in nothing.content.decode()
    chosen = ticks(ana.get(url).content.decode())
    missing = ana.post(url, {"tick": chosen, "_action": "reject"})
    assert missing.status_code == 422
    assert ticked(missing.content.decode()) == 2
    assert not Reply.objects.exists()


def test_what_stayed_is_told_with_its_reason(run, everybody, as_):
    first, second = refund(run, 1), refund(run, 2)
    ana, url = as_("ana"), f"/requests/{first.pk}/similar/"
    chosen = ticks(ana.get(url).content.decode())
    people.answered(second, everybody["ben"])
    page = ana.post(url, {"tick": chosen, "_action": "approve"}, follow=True).content.decode()
    assert "1 unchanged" in flat(page)
    assert "Already answered by ben" in page


def test_a_stranger_finds_no_table_and_a_viewer_an_empty_one(run, as_):
    first = refund(run, 1)
    assert as_("sam").get(f"/requests/{first.pk}/similar/").status_code == 404
    assert "No similar requests left" in as_("vera").get(f"/requests/{first.pk}/similar/").content.decode()


def test_without_a_batch_there_is_no_result(as_):
    assert as_("ana").get("/batch/result/")["Location"] == "/"
    assert as_("ana").post("/batch/undo/").status_code == 302


def test_a_batch_has_no_field_of_an_edit_that_it_does_not_offer(run, as_):
    class Vendor(BaseModel):
        iban: str

    first, *_ = (_edited(run, number, Vendor) for number in range(2))
    page = as_("ana").get(f"/requests/{first.pk}/similar/").content.decode()
    assert "iban" not in page.split("<form", 2)[-1].lower().split("</table>")[-1]
    url = f"/requests/{first.pk}/similar/?tab=mine"
    as_("ana").post(url, {"tick": ticks(page), "_action": "approve"})
    assert Reply.objects.filter(verdict="approve").count() == 2


def _edited(run, number, kind):
    asking = prepare(Approval(subject=f"Pay {number}?", proposal={"iban": f"DE{number}"}, edit=kind), None)
    return people.ask(run, card=asking.card, answer_schema=asking.schema)


def test_an_answer_among_edits_brings_no_proposal_unless_it_was_one() -> None:
    asking = prepare(Approval(subject="?", edit=dict), None)
    assert set(unedited(asking.schema, asking.card)["properties"]) == {"action", "reason"}
    assert unedited(asking.schema, asking.card)["properties"]["action"]["enum"] == ["approve", "reject"]
    assert unedited({"type": "string"}, {}) == {"type": "string"}


def test_tool_calls_show_their_arguments_first_and_a_text_without_its_marks(run, as_):
    for number in range(2):
        given = {"order": f"A-{number}", "why": f"{'late ' * 20}{number}", "to": "bank"}
        items = Table(title="Items", rows=[{"item": f"Lamp {number}"}, {"item": "Shade"}])
        body = f"**Row {number}** of [list](https://example.org)\n\n> all"
        asking = prepare(ToolCall(tool="pay", body=body, arguments=given, evidence=[items]), None)
        asked = people.ask(run, kind="tool_call", card=asking.card, answer_schema=asking.schema)
    page = flat(as_("ana").get(f"/requests/{asked.pk}/similar/").content.decode())
    heads = re.findall(r'<th scope="col">(?:<span[^>]*>)?(\w+)', page)
    assert heads == ["Order", "Why", "Body", "Asked", "More"]
    assert '<dt>Tool</dt><dd dir="auto">pay</dd>' in page
    assert '<td data-label="Body" class="nowrap" dir="auto">Row 0 of list all</td>' in page
    assert '<dd dir="auto">Lamp 0 Shade</dd>' in page


def test_what_is_common_to_no_request_is_no_card(run, as_):
    first, *_ = (people.ask(run, card={"subject": f"Pay {number}?", "context": {}}) for number in range(2))
    assert "Common to all" not in as_("ana").get(f"/requests/{first.pk}/similar/").content.decode()
