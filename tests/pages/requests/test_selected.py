"""What is done with requests that are selected in the inbox, and what the page says became of each."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from checkpoints.models import AuditEntry, HumanRequest
from tests import people
from tests.pages.markup import flat


def act(client, what: str, *requests, **more):
    return client.post(
        "/selected/?tab=all", {"act": what, "request": [one.pk for one in requests], **more}, follow=True
    )


def assignees() -> dict[str, str]:
    return {
        one.subject: one.assignee.get_username() if one.assignee else ""
        for one in HumanRequest.objects.select_related("assignee")
    }


def test_selected_requests_are_assigned_each_with_its_entry_and_refusals_say_why(run, everybody, as_):
    one, two = people.ask(run, "One"), people.ask(run, "Two")
    gone, other = people.answered(people.ask(run, "Gone"), everybody["ben"]), people.ask(run, "Other", by=["cfo"])
    text = flat(act(as_("ana"), "take", one, two, gone, other).content.decode())
    assert "2 requests assigned to you" in text
    assert text.index("Unchanged") < text.index("Gone")
    assert "Only those who can answer this request" in text
    assert (assignees()["One"], assignees()["Two"], assignees()["Other"]) == ("ana", "ana", "")
    assert AuditEntry.objects.filter(verb="assign").count() == 2


def test_someone_else_is_chosen_first_and_can_be_no_one(run, as_):
    one, ana = people.ask(run, "One"), as_("ana")
    assert 'name="to" value="ben"' in flat(act(ana, "assign", one).content.decode())
    act(ana, "assign", one, to="ben")
    assert assignees()["One"] == "ben"
    act(ana, "assign", one, to="")
    assert assignees()["One"] == ""


def test_who_may_not_assign_learns_no_names(run, as_):
    assert 'value="ben"' not in flat(act(as_("vera"), "assign", people.ask(run, "One")).content.decode())


def test_what_one_may_not_see_says_neither_what_it_is_nor_that_it_is(run, as_):
    secret = people.ask(run, "Secret merger")
    for what, more in (("take", {}), ("together", {}), ("assign", {}), ("assign", {"to": "ana"})):
        assert "Secret merger" not in act(as_("sam"), what, secret, **more).content.decode()
    assert assignees()["Secret merger"] == ""


def test_the_same_form_sent_twice_counts_once(run, as_):
    one, ana = people.ask(run, "One"), as_("ana")
    for _ in range(2):
        act(ana, "assign", one, to="ben", _key="the same")
    assert AuditEntry.objects.filter(verb="assign").count() == 1


def test_similar_ones_open_in_their_table_with_these_selected_and_high_risks_alone(run, as_):
    chosen = [people.ask(run, f"Claim {number}") for number in range(4)]
    risky = people.ask(run, "Risky claim", risk=3)
    text = flat(act(as_("ana"), "together", *chosen[:2], risky).content.decode())
    assert [f'value="{one.pk} ' in text for one in chosen] == [True] * 4
    assert len(re.findall(r'name="tick"[^>]*checked', text)) == 2
    assert "Risky claim" in text
    assert f'value="{risky.pk} ' not in text


def test_different_questions_are_grouped_and_closed_ones_named(run, everybody, as_):
    one, two = people.ask(run, "Claim"), people.ask(run, "Patch", step="other")
    gone = people.answered(people.ask(run, "Gone"), everybody["ben"])
    text = flat(act(as_("ana"), "together", one, two, gone).content.decode())
    assert "2 different questions" in text
    assert text.index("Not open any more") < text.index("Gone")
    assert "Nothing to decide" in flat(act(as_("ana"), "together", gone).content.decode())


@pytest.mark.parametrize("what", ["take", "together", "assign", "evil"])
def test_nothing_selected_is_said(run, as_, what):
    assert "Select at least one request" in act(as_("ana"), what).content.decode()


def test_nonsense_changes_nothing(run, as_):
    one, ana = people.ask(run, "One"), as_("ana")
    act(ana, "take", one)
    ana.post("/selected/", {"act": "take", "request": ["x" * 500, "\0", "'"]})
    ana.post("/selected/", {"act": "assign", "request": [one.pk], "to": "no such person"})
    assert ana.post("/selected/", {"act": "evil", "request": [one.pk]}).status_code == 302
    assert assignees()["One"] == "ana"


def test_rows_have_checkboxes_where_something_can_be_done(run, everybody, as_):
    people.answered(people.ask(run, "Done"), everybody["ana"]), people.ask(run, "One")
    ana = as_("ana")
    assert 'form="inbox-chosen"' in ana.get("/?tab=all").content.decode()
    assert 'form="inbox-chosen"' not in ana.get("/?tab=answered").content.decode()


def test_a_reminder_is_chosen_in_ones_own_zone_and_says_what_is_due_before(run, as_):
    later, sooner = people.ask(run, "Later"), people.ask(run, "Sooner", due=timezone.now() + timedelta(minutes=5))
    ana = as_("ana")
    page = ana.get(f"/selected/?act=remind&request={later.pk}&request={sooner.pk}").content.decode()
    assert "Remind me of 2 requests" in flat(page)
    (hour, tomorrow, monday) = re.findall(r'name="until" value="(\d[^"]+)"', flat(page))
    assert tomorrow.endswith("T09:00")
    assert datetime.fromisoformat(monday).weekday() == 0
    text = flat(act(ana, "remind", later, sooner, until=hour).content.decode())
    assert "2 snoozed until" in text
    assert "1 of them due before that" in text
    assert "Nothing snoozed" not in flat(ana.get("/?tab=snoozed").content.decode())
    assert "Your queue is empty" in flat(ana.get("/").content.decode())
    refused = act(ana, "remind", later, until="own", at="soon")
    assert (refused.status_code, "Enter a date and time" in refused.content.decode()) == (422, True)
    act(ana, "remind", later, sooner, until="")
    assert "Nothing snoozed" in flat(ana.get("/?tab=snoozed").content.decode())
