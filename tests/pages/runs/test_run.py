from __future__ import annotations

import re

import pytest

from checkpoints.models import Event, Reply, Run
from tests import people
from tests.pages.markup import flat
from wfdash.web.pages.ui.event_text import describe
from wfdash.web.pages.ui.fragments import event_row


def test_the_page_says_where_the_run_stands(run, question, history, as_):
    page = as_("otto").get(f"/runs/{run.pk}/").content.decode()
    assert "Waiting for an answer for <time" in page
    assert ">Pay 900?</bdi>”" in page
    assert f'data-live="/live/runs/{run.pk}/"' in page
    assert f'data-after="{run.seq}"' in page
    assert 'data-step="review"' in page
    assert page.count('class="event ') == run.seq


@pytest.mark.parametrize(
    "name", ["head", "graph", "step", "timeline", "requests", "rail", "values", "events", "deeds", "live"]
)
def test_every_panel_can_be_fetched_alone(name, run, question, history, as_):
    answer = as_("otto").get(f"/runs/{run.pk}/?fragment={name}")
    assert answer.status_code == 200
    assert f'id="run-{name}"' in answer.content.decode()[:200]
    assert "<html" not in answer.content.decode()


def test_an_unknown_panel_is_not_found(run, as_):
    assert as_("otto").get(f"/runs/{run.pk}/?fragment=../secrets").status_code == 404


@pytest.mark.parametrize(
    ("phase", "verb", "after"),
    [("waiting", "pause", "paused"), ("paused", "resume", "ready"), ("failed", "retry", "ready")],
)
def test_a_verb_is_offered_where_it_fits_and_done_by_post(phase, verb, after, run, as_):
    Run.objects.filter(pk=run.pk).update(phase=phase, acted_by="otto")
    client = as_("otto")
    address = f"/runs/{run.pk}/{verb}/"
    assert address in client.get(f"/runs/{run.pk}/").content.decode()
    assert client.get(address).status_code == 405
    assert client.post(address).status_code == 302
    run.refresh_from_db()
    assert run.phase == after


def test_a_verb_that_came_too_late_is_told_on_the_page(run, as_):
    Run.objects.filter(pk=run.pk).update(phase="completed")
    assert "Cannot pause a run" in as_("otto").post(f"/runs/{run.pk}/pause/", follow=True).content.decode()


def test_verbs_are_not_offered_to_those_who_may_not(run, as_):
    assert f"/runs/{run.pk}/cancel/" not in as_("vera").get(f"/runs/{run.pk}/").content.decode()


def test_an_event_row_is_the_same_for_a_row_and_in_the_page(run, history, as_):
    event = Event.objects.get(run=run, kind="step.finished", step="read")
    assert event_row(event, inspect=True).strip() in as_("otto").get(f"/runs/{run.pk}/").content.decode()
    assert f'id="e{event.seq}"' in event_row(event)
    assert '"x"' not in event_row(event)
    assert "&quot;x&quot;" in event_row(event, inspect=True)


def test_events_are_told_in_words():
    assert describe("step.finished", "pay", {"ms": 1500}) == "Pay finished in 1.5 s"
    assert describe("progress", "pay", {"fraction": 0.4, "text": "rows"}) == "rows: 40%"
    assert describe("step.started", "pay", {"item": 3}) == "Pay started (item 3)"
    assert describe("something.new", "", {}) == "something.new"
    assert describe("run.cancelled", "", {}) == "Cancelled by …"


def test_the_page_takes_the_same_number_of_queries_however_long(run, as_, django_assert_max_num_queries):
    parent = None
    for number in range(40):
        people.happen(run, *people.step("read", "started", "finished", activation=str(number)))
        parent = people.save(run, parent)
        people.ask(run, f"q{number}")
    client = as_("otto")
    with django_assert_max_num_queries(30):
        client.get(f"/runs/{run.pk}/")


def test_events_say_who_did_what_and_what_went_wrong():
    answered = {"by": "ana", "verdict": "approve", "subject": "Pay 900?"}
    assert describe("request.answered", "pay", answered) == "ana approved: Pay 900?"
    assert describe("request.answered", "pay", {"by": "ana", "verdict": "call_back"}) == "ana chose call back"
    assert describe("step.failed", "part/pay", {"error": {"type": "Oops", "message": "no"}}) == "Pay failed: Oops: no"
    assert describe("run.sleeping", "", {"until": "2026-11-21T06:00:00+00:00"}).endswith(
        "until 2026-11-21 06:00:00 UTC"
    )


def test_of_many_requests_the_oldest_open_ones_are_shown_and_the_rest_folded(run, as_):
    asked = [people.ask(run, f"Question {number}") for number in range(12)]
    for question in asked[:5]:
        people.answered(question, run.created_by)
    page = as_("otto").get(f"/runs/{run.pk}/").content.decode()
    assert "Open requests" in flat(page)
    assert page.count('id="run-request-') == 12
    assert page.index("Question 5") < page.index("Question 6") < page.index("2 more") < page.index("Question 4")
    assert "2 more answered" in page


def test_an_answer_is_told_with_its_reason_to_those_who_may_inspect(run, question, everybody, as_):
    people.answered(question, everybody["ben"])
    Reply.objects.filter(request=question).update(reason="Seen the parcel")
    assert "Seen the parcel" in as_("vera").get(f"/runs/{run.pk}/?fragment=requests").content.decode()
    assert "Seen the parcel" not in as_("ana").get(f"/runs/{run.pk}/?fragment=requests").content.decode()


def test_who_did_what_is_told(run, as_):
    people.happen(run, ("run.queued", None, {"by": "otto"}), ("run.paused", None, {"by": "ana"}))
    page = as_("vera").get(f"/runs/{run.pk}/?fragment=deeds").content.decode()
    assert page.index("Paused by ana") < page.index("Started by otto")


def test_a_secret_of_the_input_is_not_shown(run, as_, monkeypatch):
    monkeypatch.setattr("wfdash.queries.unreadable.secrets_of", lambda workflow: frozenset({"token"}))
    Run.objects.filter(pk=run.pk).update(input={"token": "hush", "n": [{"token": "hush"}]})
    client = as_("otto")
    assert "hush" not in client.get(f"/runs/{run.pk}/").content.decode()
    page = client.get(f"/runs/{run.pk}/state/?what=input").content.decode()
    assert "hush" not in page
    assert "•••" in page


def test_a_timeline_is_drawn_from_the_events(run, history, as_):
    page = as_("vera").get(f"/runs/{run.pk}/?fragment=timeline").content.decode()
    assert "timeline-bar is-running" in page
    assert "style=" not in page


def test_the_graph_can_be_coloured_by_duration_and_says_what_its_colours_mean(run, history, as_):
    client = as_("otto")
    by_state = client.get(f"/runs/{run.pk}/?fragment=graph").content.decode()
    by_duration = client.get(f"/runs/{run.pk}/?fragment=graph&colour=duration").content.decode()
    assert "by-duration" not in by_state
    assert re.search(r'<li class="is-done">Done \d', flat(by_state))
    assert "by-duration" in by_duration
    assert '<li class="heat-4">up to' in by_duration
    assert re.search(r'class="graph-node is-done heat-\d', by_duration)
    assert "style=" not in by_duration


def test_waiting_is_folded_unless_the_address_asks_for_the_wall_clock(run, as_):
    people.happen(run, *people.step("read", "started", "finished"), *people.step("review", "started", "waiting"))
    client = as_("vera")
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert re.search(r"data-ticking=.[\d.]+. data-ticking-rest=. waiting.>\d+ d( \d+ h)? waiting<", flat(page))
    assert '<a class="segment" href="?clock=wall#run-timeline"' in page
    wall = client.get(f"/runs/{run.pk}/?clock=wall&from=1&to=2").content.decode()
    assert " waiting</tspan>" not in wall
    assert 'href="?from=1&amp;to=2#run-timeline"' in wall, "the window stays"
    assert 'aria-label="Time in UTC, from ' in wall


@pytest.mark.parametrize(("phase", "word"), [("paused", "paused"), ("failed", "stopped")])
def test_a_step_that_stopped_with_its_run_is_called_as_the_run_is(phase, word, run, as_):
    people.happen(run, *people.step("read", "started", activation="7"), (f"run.{phase}", None, {"by": "otto"}))
    Run.objects.filter(pk=run.pk).update(phase=phase, acted_by="otto")
    page = flat(as_("otto").get(f"/runs/{run.pk}/?step=read&activation=7").content.decode())
    assert re.search(rf'aria-label="[^"]*: {word}[,"]', page), re.findall(r'aria-label="[^"]*"', page)
    assert re.search(rf'chip tone is-stopped"\s*>{word}</span>', page)
    assert f'<li class="is-stopped">{word.capitalize()} 1</li>' in page


def test_the_command_that_starts_it_again_is_for_those_who_may_see_its_input_and_start(run, as_):
    address = f"/runs/{run.pk}/"
    assert "Run again from a program" in as_("otto").get(address).content.decode()
    assert "Run again from a program" not in as_("otto").get(f"{address}?fragment=live").content.decode()
    for name in ("ana", "vera"):
        assert "Run again from a program" not in as_(name).get(address).content.decode()
    assert "Run again" not in as_("ana").get(f"{address}?fragment=values").content.decode()


@pytest.mark.parametrize(
    ("message", "folded"), [("Row 17 has no IBAN", False), ("no IBAN; " * 400, True), ("a\n" * 9, True)]
)
def test_a_long_error_is_folded_and_offers_what_one_does_next(message, folded, run, as_):
    error = {"type": "ValueError", "message": message, "step": "review", "traceback": "Trace"}
    Run.objects.filter(pk=run.pk).update(phase="failed", error=error)
    head = flat(as_("otto").get(f"/runs/{run.pk}/?fragment=head").content.decode())
    assert ("Whole message" in head) is folded
    box = head[head.index("run-error-acts") :]
    assert all(words in box for words in (">Copy<", f'action="/runs/{run.pk}/retry/"', 'id="run-trace"'))
