from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from checkpoints.models import Event, Run
from tests.driving import drive, pending
from tests.pages.test_time_machine import head, otto, started
from tests.people import make_people

__all__ = ["otto"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def post(otto) -> Callable[..., Any]:
    def send(path: str, given: Any = None, **headers: str) -> Any:
        return otto.post(f"/api{path}", given, content_type="application/json", headers=headers)

    return send


def place(run: Run) -> str:
    return f"/runs/{run.pk}/checkpoints/{head(run).pk}"


def test_a_failed_run_is_forked_with_edits_that_were_previewed(otto, post):
    run = started(-5)
    found = otto.get(f"/api{place(run)}/edits").json()
    (doing,) = found["doing"]
    assert (doing["step"], doing["message"], doing["first"]) == ("read", {"amount": -5, "note": None}, True)
    assert found["state_schema"]["properties"]["seen"]["type"] == "integer"
    edits = {"messages": {doing["activation"]: {"amount": 7}}, "reason": "a sign"}
    seen = post(f"{place(run)}/preview", {"verb": "fork", "edits": edits}).json()
    assert seen["again"] == [{"step": "read", "does": "runs", "until": None, "times": 1, "afresh": True}]
    assert seen["words"] == ["read starts over with another message"]
    assert seen["patch"]
    given = {"edits": edits, "seen": seen["mark"]}
    answers = [post(f"{place(run)}/fork", given, **{"Idempotency-Key": "k"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json() == answers[1].json()
    fork = Run.objects.get(pk=answers[0].json()["id"])
    assert (fork.altered, fork.input["amount"], drive(fork)) == ("edited", 7, "waiting")


def test_edits_that_do_not_fit_are_told_by_field_and_what_moved_on_is_a_conflict(otto, post):
    run = started()
    for verb in ("preview", "restore", "fork"):
        bad = post(f"{place(run)}/{verb}", {"edits": {"state": {"seen": "x", "words": []}}})
        assert bad.status_code == 422
        assert bad.json()["facts"]["errors"][0]["loc"] == ["state", "seen"]
    assert post(f"{place(run)}/restore", {"seen": "0" * 32}).status_code == 409
    assert post(f"{place(run)}/restore").json()["n"] == head(run).n


def test_checkpoints_are_compared_and_events_looked_back_at(otto):
    run = started()
    found = otto.get(f"/api/runs/{run.pk}/compare", {"a": "1", "b": str(head(run).n)}).json()
    assert found["patch"] == [{"op": "replace", "path": "/seen", "value": 5}]
    assert [one["key"] for one in found["asked"]] == list(pending(run))
    assert {one["step"]: one["after"] for one in found["moved"]}["review"]["waiting"] == 1
    last = Event.objects.filter(run=run).latest("seq").seq
    then = otto.get(f"/api/runs/{run.pk}/at/{last}").json()
    assert (then["seq"], then["requests"][0]["subject"]) == (last, "Pay 5?")
    assert otto.get(f"/api/runs/{run.pk}/at/{last + 1}").status_code == 404
    assert otto.get(f"/api/runs/{run.pk}/at/{10**30}").status_code == 422


def test_a_label_is_given(otto, post):
    run = started()
    assert post(f"{place(run)}/label", {"label": "before"}).json()["n"] == head(run).n
    assert head(run).label == "before"
    assert otto.get(f"/api/runs/{run.pk}/checkpoints").json()["items"][0]["label"] == "before"


def test_rights_hold_here_too(otto):
    run, people = started(), make_people()
    for name, expected in (("vera", 403), ("sam", 404)):
        client = Client()
        client.force_login(people[name])
        for verb in ("preview", "restore", "fork", "label"):
            answer = client.post(f"/api{place(run)}/{verb}", {}, content_type="application/json")
            assert answer.status_code == expected, (name, verb)
        assert client.get(f"/api{place(run)}/edits").status_code == expected
