"""A step of a run: its activations, what one was given, did, said and asked."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from checkpoints.models import Claim, Effect, Run
from tests import people
from tests.pages.markup import flat
from wfdash.values.schemas.secrets import HIDDEN

POSITION = {"next": 60, "v": 1, "outputs": [], "joins": {}, "asked": {}, "since": {}, "past": {}, "wrote": {}}
"""Of a run that nothing else has happened in."""


@pytest.fixture
def mapped(run):
    """Sixty items, of which the third failed once; a checkpoint that holds what they were given."""
    Run.objects.filter(pk=run.pk).update(phase="ready")
    Claim.objects.create(run=run, token=run.pk, worker="w", epoch=1, expires=timezone.now() + timedelta(hours=1))
    for number in range(60):
        people.happen(run, *people.step("review", "started", activation=str(number), item=number))
    live = {str(n): {"step": "review", "message": [None, {"claim": n}], "scope": "", "journal": []} for n in range(60)}
    people.save(run, step="read", body={"state": {}, "position": {**POSITION, "live": live}})
    error = {"type": "CardDeclined", "message": "card 4242", "traceback": "File shop.py, line 3"}
    people.happen(run, ("step.failed", "review", {"activation": "2", "item": 2, "attempt": 1, "error": error}))
    again = {"activation": "2", "at": people.THEN.isoformat(), "attempt": 2, "attempts": 3}
    people.happen(run, ("step.retrying", "review", again))
    people.happen(run, ("log", "review", {"activation": "2", "level": "WARNING", "logger": "s", "message": "hm 4242"}))
    people.happen(run, ("call.done", "review", {"activation": "2", "name": "charge", "key": "k:2"}))
    Effect.objects.create(
        run=run, key="k:2", step="review", name="charge", once=True, state="done", result={"id": 7}, n=1, at=people.THEN
    )
    people.happen(run, *people.step("review", "finished", activation="2", output={"paid": 4242}))


def test_a_node_leads_to_its_step_and_the_panel_lists_its_activations_in_pages(run, mapped, as_):
    client = as_("otto")
    assert 'href="?step=review#run-step"' in client.get(f"/runs/{run.pk}/").content.decode()
    first = client.get(f"/runs/{run.pk}/?step=review")
    panel = first.context["step"]
    assert (panel.found.total, len(panel.found.rows), panel.inside) == (60, 50, None)
    assert dict(panel.filters) == {"running": 59, "done": 1}
    assert "Item 49" in flat(first.content.decode())
    second = client.get(f"/runs/{run.pk}/{panel.next}")
    assert [row.item for row in second.context["step"].found.rows] == list(range(50, 60))
    done = client.get(f"/runs/{run.pk}/?step=review&of=done")
    assert [row.id for row in done.context["step"].found.rows] == ["2"]


def test_an_activation_tells_input_output_attempts_calls_and_logs(run, mapped, as_):
    page = as_("otto").get(f"/runs/{run.pk}/?step=review&activation=2")
    inside = page.context["step"].inside
    assert re.search(r"started\s+<time [^>]+>[\d: .-]{23}</time> <span class=.elapsed.>\+", page.content.decode())
    assert (inside.input, inside.input_from, inside.output) == ({"claim": 2}, 1, {"paid": 4242})
    assert [attempt.error and attempt.error["type"] for attempt in inside.attempts] == ["CardDeclined", None]
    assert [(call.name, call.once, call.state, call.result) for call in inside.calls] == [
        ("charge", True, "done", {"id": 7})
    ]
    assert [event.data["message"] for event in inside.logs] == ["hm 4242"]


def test_tracebacks_are_for_operators_and_values_for_those_who_may_inspect(run, mapped, as_):
    address = f"/runs/{run.pk}/?step=review&activation=2"
    assert "shop.py" in as_("otto").get(address).content.decode()
    ana = as_("ana").get(address).content.decode()
    vera = as_("vera").get(address).content.decode()
    assert "shop.py" not in ana + vera
    assert "4242" in vera
    assert "4242" not in ana
    assert "CardDeclined" in ana


def test_secrets_are_hidden_in_what_a_step_was_given_and_returned(run, mapped, as_, monkeypatch):
    monkeypatch.setattr("wfdash.engines.catalog.secrets_of", lambda workflow: frozenset({"claim", "paid"}))
    inside = as_("otto").get(f"/runs/{run.pk}/?step=review&activation=2").context["step"].inside
    assert (inside.input, inside.output) == ({"claim": HIDDEN}, {"paid": HIDDEN})


def test_a_step_with_one_activation_is_open_at_once(run, history, as_):
    page = as_("otto").get(f"/runs/{run.pk}/?step=read")
    assert page.context["step"].inside.output == {"x": 1}
    assert "Its checkpoint was pruned" in page.content.decode()


def test_a_step_that_has_not_begun_says_so_and_an_unknown_one_has_no_panel(run, history, as_):
    client = as_("otto")
    assert "has not started yet" in client.get(f"/runs/{run.pk}/?step=report").content.decode()
    assert client.get(f"/runs/{run.pk}/?step=nonsense").context["step"] is None
    assert client.get(f"/runs/{run.pk}/?step=read&activation=nonsense").context["step"].inside is None


def test_requests_of_an_activation_are_told_with_it(run, as_):
    question = people.ask(run, "Pay 900?", key="review-1.0")
    people.happen(run, *people.step("review", "started", activation="1"))
    people.happen(run, ("request.opened", "review", {"activation": "1", "key": question.key, "subject": "Pay 900?"}))
    inside = as_("vera").get(f"/runs/{run.pk}/?step=review").context["step"].inside
    assert [row.subject for row in inside.requests] == ["Pay 900?"]


def test_a_panel_takes_the_same_number_of_queries_however_many(run, mapped, as_, django_assert_max_num_queries):
    client = as_("otto")
    with django_assert_max_num_queries(41):
        client.get(f"/runs/{run.pk}/?step=review&activation=2")


def test_the_duration_of_an_execution_that_runs_grows_as_in_the_graph(run, mapped, as_):
    client = as_("otto")
    running = client.get(f"/runs/{run.pk}/?step=review&activation=0")
    activation = running.context["step"].inside.activation
    assert activation.lasted is None
    assert timedelta() < activation.lasting <= timezone.now() - activation.began
    assert flat(running.content.decode()).count("data-ticking") > 49
    done = client.get(f"/runs/{run.pk}/?step=review&activation=2").context["step"].inside.activation
    assert done.lasting is None
    assert done.lasted is not None


def test_input_and_output_are_open_at_once_and_the_step_has_a_place_of_its_own(run, mapped, as_):
    page = flat(as_("otto").get(f"/runs/{run.pk}/?step=review").content.decode())
    assert '<details id="run-input" open>' in page
    assert '<details id="run-output" open>' in page
    assert 'class="run-grid with-step"' in page
    assert page.index('id="run-graph"') < page.index('id="run-step"') < page.index('id="run-values"')
