from __future__ import annotations

import re

from checkpoints.models import Reply
from tests import people


def refund(run, number, **facts):
    card = {
        "subject": f"Refund {number}?",
        "proposal": {"amount": number},
        "body": "All **late**",
        "actions": people.ACTIONS,
    }
    return people.ask(run, card=card, **facts)


def ticks(page: str) -> list[str]:
    return re.findall(r'name="tick" value="([^"]+)"', page)


def ticked(page: str) -> int:
    return len(re.findall(r'name="tick"[^>]* checked>', page))


def test_the_table_shows_what_differs_and_ticks(run, as_):
    first, *_ = (refund(run, number) for number in range(3))
    page = as_("ana").get(f"/requests/{first.pk}/alike/").content.decode()
    assert len(ticks(page)) == 3
    assert '<th scope="col">Amount</th>' in page
    assert '<th scope="col">Body</th>' not in page
    assert "<strong>late</strong>" in page
    assert ticked(page) == 0
    assert ticked(as_("ana").get(f"/requests/{first.pk}/alike/?all=1").content.decode()) == 3


def test_high_risks_are_shown_without_a_tick(run, as_):
    first = refund(run, 1)
    refund(run, 2, risk=3)
    page = as_("ana").get(f"/requests/{first.pk}/alike/").content.decode()
    assert len(ticks(page)) == 1
    assert "High risk: decide it on its own" in page


def test_one_decision_answers_all_that_are_ticked_and_can_be_undone(run, as_):
    first, *_ = (refund(run, number) for number in range(3))
    ana, url = as_("ana"), f"/requests/{first.pk}/alike/?tab=mine"
    chosen = ticks(ana.get(url).content.decode())[:2]
    answer = ana.post(url, {"tick": chosen, "_action": "approve"})
    assert answer["Location"] == "/batch/result/"
    result = ana.get("/batch/result/").content.decode()
    assert "2 approved" in result
    assert "Undo these 2" in result
    assert Reply.objects.filter(via="batch").count() == 2
    assert "2 answers taken back" in ana.post("/batch/undo/", follow=True).content.decode()
    assert not Reply.objects.filter(undone__isnull=True).exists()


def test_a_batch_without_a_tick_or_with_a_field_missing_decides_nothing(run, as_):
    first, _ = refund(run, 1), refund(run, 2)
    ana, url = as_("ana"), f"/requests/{first.pk}/alike/"
    nothing = ana.post(url, {"_action": "approve"})
    assert nothing.status_code == 422
    assert "Tick at least one request" in nothing.content.decode()
    chosen = ticks(ana.get(url).content.decode())
    missing = ana.post(url, {"tick": chosen, "_action": "reject"})
    assert missing.status_code == 422
    assert ticked(missing.content.decode()) == 2
    assert not Reply.objects.exists()


def test_what_stayed_is_told_with_its_reason(run, everybody, as_):
    first, second = refund(run, 1), refund(run, 2)
    ana, url = as_("ana"), f"/requests/{first.pk}/alike/"
    chosen = ticks(ana.get(url).content.decode())
    people.answered(second, everybody["ben"])
    page = ana.post(url, {"tick": chosen, "_action": "approve"}, follow=True).content.decode()
    assert "1 stayed as it was" in page
    assert "ben answered first" in page


def test_a_stranger_finds_no_table_and_a_viewer_an_empty_one(run, as_):
    first = refund(run, 1)
    assert as_("sam").get(f"/requests/{first.pk}/alike/").status_code == 404
    assert "Nothing alike is left" in as_("vera").get(f"/requests/{first.pk}/alike/").content.decode()


def test_without_a_batch_there_is_no_result(as_):
    assert as_("ana").get("/batch/result/")["Location"] == "/"
    assert as_("ana").post("/batch/undo/").status_code == 302
