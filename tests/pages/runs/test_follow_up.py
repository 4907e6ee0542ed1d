"""The next message to a completed run: its form on the run's page, and the thread it becomes part of."""

from __future__ import annotations

import pytest

from checkpoints.models import Run
from tests import people
from tests.api.runs.test_follow_ups import first as first
from tests.driving import drive
from tests.pages.markup import flat
from wfdash.actions.runs.bulk import delete_run
from wfdash.actions.runs.lifecycle import follow_up, start_run

pytestmark = pytest.mark.django_db(transaction=True)


def page(client, run: Run | str) -> str:
    return flat(client.get(f"/runs/{run if isinstance(run, str) else run.pk}/").content.decode())


def test_a_completed_run_has_the_form_of_the_next_message_for_who_may_send_it(first, as_) -> None:
    shown = page(as_("otto"), first)
    assert f'action="/runs/{first.pk}/follow-up/"' in shown
    assert 'name="nextvalue"' in shown
    assert f'action="/runs/{first.pk}/follow-up/"' not in page(as_("vera"), first)
    assert "/follow-up/" not in page(as_("otto"), start_run(people.viewer("otto"), "chat", {"text": "x"}))


def test_sending_it_leads_to_the_run_that_follows_and_both_show_the_thread(first, as_) -> None:
    otto = as_("otto")
    given = {"nextvalue": "two", "_key": "k"}
    answers = [otto.post(f"/runs/{first.pk}/follow-up/", given) for _ in range(2)]
    (address,) = {answer["Location"] for answer in answers}
    later = address.strip("/").rpartition("/")[2]
    assert drive(later) == "completed"
    shown = page(otto, later)
    assert f'<a class="row-link" href="/runs/{later}/" aria-current="page">' in shown
    assert f'href="/runs/{first.pk}/" class="mono"' in shown
    assert "Run again" not in shown
    earlier = page(otto, first)
    assert f'<a class="row-link" href="/runs/{later}/">' in earlier
    assert "/follow-up/" not in earlier
    assert "Followed up by otto with another run" in flat(otto.get(f"/runs/{first.pk}/events/").content.decode())


def test_a_message_that_does_not_fit_stays_in_its_field(first, as_) -> None:
    answer = as_("otto").post(f"/runs/{first.pk}/follow-up/", {"nextvalue": ""})
    assert answer.status_code == 422
    assert 'aria-invalid="true"' in answer.content.decode()
    assert Run.objects.count() == 1


def test_who_comes_second_keeps_what_they_wrote_and_learns_where_it_continues(first, as_) -> None:
    later = follow_up(people.viewer("adam"), first.pk, "two")
    answer = as_("otto").post(f"/runs/{first.pk}/follow-up/", {"nextvalue": "my own two"})
    shown = flat(answer.content.decode())
    assert answer.status_code == 409
    assert "adam has followed up on this run already" in shown
    assert f'<a href="/runs/{later.pk}/">Open that run</a>' in shown
    assert "my own two" in shown


def test_a_deleted_run_that_was_followed_is_named_as_deleted(first, as_) -> None:
    later = follow_up(people.viewer("otto"), first.pk, "two")
    delete_run(people.viewer("otto"), first.pk)
    assert "follows a deleted run" in page(as_("otto"), later)
    assert as_("otto").get("/workflows/chat/", {"from": later.pk}).status_code == 404
