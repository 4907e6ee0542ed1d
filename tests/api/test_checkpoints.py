from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from checkpoints.content.chunks import bind_to_row, verify_digest
from checkpoints.database.runs import info_of, read_row
from checkpoints.models import Checkpoint, Event, Run
from checkpoints.rules import row_of
from tests.driving import drive, pending
from tests.pages.checkpoints.test_time_machine import head, otto, started
from tests.people import make_people

__all__ = ["otto"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def post(otto) -> Callable[..., Any]:
    def send(path: str, given: Any = None, **headers: str) -> Any:
        return otto.post(f"/api/v1{path}", given, content_type="application/json", headers=headers)

    return send


def place(run: Run) -> str:
    return f"/runs/{run.pk}/checkpoints/{head(run).pk}"


def test_a_failed_run_is_forked_with_edits_that_were_previewed(otto, post):
    run = started(-5)
    found = otto.get(f"/api/v1{place(run)}/edits").json()
    (doing,) = found["doing"]
    assert (doing["step"], doing["message"], doing["first"]) == ("read", {"amount": -5, "note": None}, True)
    assert found["state_schema"]["properties"]["seen"]["type"] == "integer"
    edits = {"messages": {doing["activation"]: {"amount": 7}}, "reason": "a sign"}
    seen = post(f"{place(run)}/preview", {"verb": "fork", "edits": edits}).json()
    assert seen["again"] == [{"step": "read", "does": "runs", "until": None, "times": 1, "afresh": True}]
    assert seen["words"] == ["read restarts with edited input"]
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
        assert bad.json()["errors"][0]["loc"] == ["state", "seen"]
    assert post(f"{place(run)}/restore", {"seen": "0" * 32}).status_code == 409
    assert post(f"{place(run)}/restore").json()["n"] == head(run).n


def test_checkpoints_are_compared_and_events_looked_back_at(otto):
    run = started()
    found = otto.get(f"/api/v1/runs/{run.pk}/compare", {"a": "1", "b": str(head(run).n)}).json()
    assert found["patch"] == [{"op": "replace", "path": "/seen", "value": 5}]
    assert [one["key"] for one in found["asked"]] == list(pending(run))
    assert {one["step"]: one["after"] for one in found["moved"]}["review"]["waiting"] == 1
    last = Event.objects.filter(run=run).latest("seq").seq
    then = otto.get(f"/api/v1/runs/{run.pk}/at/{last}").json()
    assert (then["seq"], then["requests"][0]["subject"]) == (last, "Pay 5?")
    assert otto.get(f"/api/v1/runs/{run.pk}/at/{last + 1}").status_code == 404
    assert otto.get(f"/api/v1/runs/{run.pk}/at/{10**30}").status_code == 422


def test_a_label_is_given(otto, post):
    run = started()
    assert post(f"{place(run)}/label", {"label": "before"}).json()["n"] == head(run).n
    assert head(run).label == "before"
    assert otto.get(f"/api/v1/runs/{run.pk}/checkpoints").json()["items"][0]["label"] == "before"


def test_a_list_says_what_waits_at_each_checkpoint_and_what_is_wrong_with_it(otto):
    run = started()
    newest = head(run)
    Checkpoint.objects.filter(pk=newest.pk).update(intact=False, flaw="a test")
    (first, *_) = otto.get(f"/api/v1/runs/{run.pk}/checkpoints").json()["items"]
    assert (first["clean"], first["flaw"], first["waiting"]) == (False, "a test", newest.waiting)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, [4, 3, 2, 1]),
        ({"has_request": "true"}, [4]),
        ({"has_request": "false", "limit": "1"}, [3]),
        ({"reason": "edit"}, [3]),
        ({"step": "check"}, [2]),
        ({"clean": "false"}, [2]),
        ({"clean": "true", "after": "3"}, [1]),
        ({"label": "here"}, [1]),
        ({"labelled": "true"}, [1]),
        ({"since": "2020-01-03T00:00:00Z", "until": "2020-01-04T01:00:00+01:00"}, [3]),
        ({"step": "a\x00b"}, []),
        ({"label": "x" * 300}, []),
    ],
)
def test_a_list_shows_the_checkpoints_that_its_filters_admit(otto, filters, expected):
    run = mixed()
    found = otto.get(f"/api/v1/runs/{run.pk}/checkpoints", filters).json()
    assert [item["n"] for item in found["items"]] == expected
    if not {"limit", "after"} & filters.keys():
        assert found["total"] == len(expected)
    assert all({"lane", "parent", "head"} <= item.keys() for item in found["items"])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("reason", "because"),
        ("reason", ""),
        ("clean", "maybe"),
        ("has_request", "2"),
        ("since", "yesterday"),
        ("since", "2020-01-01T00:00:00"),
        ("until", "0001-01-01T00:00:00+14:00"),
        ("since", "9999-12-31T23:59:59-14:00"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused_by_name(otto, name, value):
    answer = otto.get(f"/api/v1/runs/{started().pk}/checkpoints", {name: value})
    assert answer.status_code == 422
    assert name in str(answer.json())


def test_facts_are_shown_to_those_who_may_inspect_and_go_along_where_a_run_is_taken_back_or_forked(otto, post):
    run = started()
    facts = {"tokens": 812, "by": "model"}
    newest = told(head(run), facts)
    listed = otto.get(f"/api/v1/runs/{run.pk}/checkpoints").json()["items"]
    assert [item["facts"] for item in listed] == [facts] + [{}] * (len(listed) - 1)
    assert otto.get(f"/api/v1{place(run)}").json()["facts"] == facts
    ana = Client()
    ana.force_login(make_people()["ana"])
    assert {str(item["facts"]) for item in ana.get(f"/api/v1/runs/{run.pk}/checkpoints").json()["items"]} == {"{}"}
    fork = Run.objects.get(pk=post(f"{place(run)}/fork").json()["id"])
    assert post(f"{place(run)}/restore").status_code == 200
    for copy in (head(fork), head(run)):
        assert copy.pk != newest.pk
        assert read_row(copy).facts == facts


def told(row: Checkpoint, facts: dict[str, Any]) -> Checkpoint:
    """Give a stored checkpoint facts, as if it had been saved with them."""
    info = info_of(row)
    body = bind_to_row(verify_digest(row.body, row_of(info)), row_of(info.model_copy(update={"facts": facts})))
    Checkpoint.objects.filter(pk=row.pk).update(facts=json.dumps(facts), body=body)
    return row


def mixed() -> Run:
    """Return a run with four checkpoints of different kinds, a day apart."""
    run = started()
    waits = head(run)
    Checkpoint.objects.filter(run=run).exclude(pk=waits.pk).delete()
    plain = {"waiting": 0, "step": "plan", "reason": "step", "label": None, "intact": True}
    kinds = [{"label": "here"}, {"step": "check", "intact": False}, {"reason": "edit"}, {"waiting": 1}]
    Checkpoint.objects.filter(run=run).delete()
    for n, changes in enumerate(kinds, 1):
        waits.pk, waits.n, waits.created = f"{run.pk}-{n}", n, datetime(2020, 1, n, tzinfo=UTC)
        for name, value in {**plain, **changes}.items():
            setattr(waits, name, value)
        waits.save(force_insert=True)
    return run


def test_rights_hold_here_too(otto):
    run, people = started(), make_people()
    for name, expected in (("vera", 403), ("sam", 404)):
        client = Client()
        client.force_login(people[name])
        for verb in ("preview", "restore", "fork", "label"):
            answer = client.post(f"/api/v1{place(run)}/{verb}", {}, content_type="application/json")
            assert answer.status_code == expected, (name, verb)
        assert client.get(f"/api/v1{place(run)}/edits").status_code == expected
