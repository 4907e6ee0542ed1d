"""What of a run's history is remembered, and when nothing happened."""

from __future__ import annotations

import random
import sys
from datetime import timedelta

import pytest

from checkpoints.models import Checkpoint, Claim, Event, Run
from checkpoints.records import Reason
from tests import people
from wfdash.queries.history import EventRange
from wfdash.queries.runs.listing import read_run, read_runs
from wfdash.queries.runs.steps import read_activations
from wfdash.queries.step_states import EventCache, StepTransition, count_states, step_transitions, time_spent
from wfdash.web.pages.runs.timeline import intervals_by_state, total_busy

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


@pytest.fixture
def run(everybody) -> Run:
    return people.make_run(phase="ready")


def happen(run: Run, minute: float, *told) -> None:
    """Append events of one moment, in minutes since the run began."""
    first = run.seq
    people.happen(run, *told)
    Event.objects.filter(run=run, seq__gt=first).update(at=people.THEN + minute * MINUTE)


def event(kind: str, **data) -> tuple:
    return kind, None, data


def drive(run: Run) -> None:
    ends = people.THEN + timedelta(days=36500)
    Claim.objects.create(run=run, token=run.pk, worker="w", epoch=1, expires=ends)


def lengths(run: Run, until: float, *, driven: bool = True) -> dict[str, timedelta]:
    moved = step_transitions(run.pk, driven=driven)
    return {name: total_busy(spans) for name, spans in intervals_by_state(moved, people.THEN + until * MINUTE).items()}


def states(run: Run, *, driven: bool) -> dict[str, str]:
    return {name: one.state for name, one in count_states(step_transitions(run.pk, driven=driven)).items()}


def test_a_paused_run_has_no_running_step_and_its_time_does_not_count(run):
    happen(run, 0, *people.step("pay", "started"))
    happen(run, 2, event("run.paused", by="otto"))
    assert states(run, driven=False) == {"pay": "stopped"}
    assert lengths(run, 60, driven=False) == {"pay": 2 * MINUTE}
    happen(run, 50, event("run.resumed", by="otto"))
    assert states(run, driven=True) == {"pay": "running"}
    happen(run, 53, *people.step("pay", "finished"))
    assert lengths(run, 60) == {"pay": 5 * MINUTE}


def test_a_step_that_ends_after_the_pause_ran_until_then(run):
    happen(run, 0, *people.step("pay", "started"))
    happen(run, 2, event("run.paused", by="otto"))
    happen(run, 3, *people.step("pay", "finished"))
    assert lengths(run, 60, driven=False) == {"pay": 3 * MINUTE}
    assert states(run, driven=False) == {"pay": "done"}


def test_waiting_for_a_person_goes_on_while_the_run_is_paused(run):
    happen(run, 0, *people.step("ask", "started", "waiting"))
    happen(run, 2, event("run.paused", by="otto"))
    assert states(run, driven=False) == {"ask": "waiting"}


def asks(activation: str, *keys: str) -> list[tuple]:
    return [("request.opened", activation.partition(":")[0], {"activation": activation, "key": key}) for key in keys]


def test_a_step_runs_again_from_its_last_answer_on(run):
    happen(run, 0, *people.step("ask", "started"), *asks("ask:1", "a", "b"), *people.step("ask", "waiting"))
    happen(run, 2, event("request.answered", key="a", by="ben"))
    assert states(run, driven=True) == {"ask": "waiting"}
    happen(run, 5, event("request.answered", key="b", by="ben"))
    assert states(run, driven=True) == {"ask": "running"}
    moved = [(move.state, move.at) for move in step_transitions(run.pk)]
    assert moved[-1] == ("running", people.THEN + 5 * MINUTE)
    happen(run, 9, *people.step("ask", "finished"))
    assert states(run, driven=True) == {"ask": "done"}


def test_a_step_that_asks_again_waits_again(run):
    happen(run, 0, *people.step("ask", "started"), *asks("ask:1", "a"), *people.step("ask", "waiting"))
    happen(run, 2, event("request.answered", key="a"))
    happen(run, 3, *asks("ask:1", "b"), *people.step("ask", "waiting"))
    assert states(run, driven=True) == {"ask": "waiting"}
    happen(run, 4, event("signal.received", key="b"))
    assert states(run, driven=True) == {"ask": "running"}


def test_an_answer_continues_the_execution_that_asked_only(run):
    first, second = (people.step("ask", "started", "waiting", activation=f"ask:{n}") for n in (1, 2))
    happen(run, 0, *first, *asks("ask:1", "a"), *second, *asks("ask:2", "b"))
    happen(run, 2, event("request.answered", key="b"))
    counts = count_states(step_transitions(run.pk))["ask"]
    assert (counts.waiting, counts.running) == (1, 1)


def test_a_question_that_is_closed_and_asked_once_more_keeps_its_step_waiting(run):
    happen(run, 0, *people.step("ask", "started"), *asks("ask:1", "a"), *people.step("ask", "waiting"))
    happen(run, 2, event("request.withdrawn", key="a", by="otto"), event("request.opened", key="a"))
    assert states(run, driven=True) == {"ask": "waiting"}
    happen(run, 3, event("request.answered", key="a"))
    assert states(run, driven=True) == {"ask": "running"}


def test_a_step_answered_while_its_run_is_paused_runs_once_that_is_resumed(run):
    happen(run, 0, *people.step("ask", "started"), *asks("ask:1", "a"), *people.step("ask", "waiting"))
    happen(run, 2, event("run.paused", by="otto"), event("request.answered", key="a"))
    assert states(run, driven=False) == {"ask": "stopped"}
    happen(run, 7, event("run.resumed", by="otto"))
    assert states(run, driven=True) == {"ask": "running"}


def test_what_ran_beside_a_step_that_failed_stopped_with_it(run):
    happen(run, 0, *people.step("pay", "started"), *people.step("mail", "started"))
    happen(run, 1, *people.step("pay", "failed"), event("run.failed"))
    assert states(run, driven=False) == {"pay": "failed", "mail": "stopped"}
    assert lengths(run, 60, driven=False) == {"pay": MINUTE, "mail": MINUTE}


def test_a_retry_by_hand_adds_only_the_time_it_takes(run):
    happen(run, 0, *people.step("pay", "started"))
    happen(run, 1, *people.step("pay", "failed"), event("run.failed"))
    happen(run, 24, event("run.retried", by="otto"), *people.step("pay", "started"))
    happen(run, 25, *people.step("pay", "finished"))
    assert lengths(run, 60) == {"pay": 2 * MINUTE}
    (row,) = read_activations(people.viewer("otto"), run.pk, ["pay"]).rows
    assert row.lasted == 2 * MINUTE


def test_a_fork_s_steps_do_not_last_since_their_origin_began_them(run):
    happen(run, 0, *people.step("read", "started"))
    happen(run, 1, *people.step("read", "finished"), *people.step("pay", "started"))
    before = people.save(run)
    happen(run, 70, *people.step("pay", "finished"))
    people.save(run, before)
    fork = people.make_run(phase="ready", family=run.family, forked_from=before.pk)
    people.save(fork, before, reason=Reason.FORK)
    happen(fork, 100, event("run.forked", run=run.pk, n=1))
    assert lengths(fork, 103) == {"read": MINUTE, "pay": 3 * MINUTE}
    assert states(fork, driven=True) == {"read": "done", "pay": "running"}


def test_after_a_restore_a_step_lasts_since_then(run):
    happen(run, 0, *people.step("read", "started"))
    happen(run, 1, *people.step("read", "finished"), *people.step("pay", "started"))
    chosen = people.save(run)
    happen(run, 70, *people.step("pay", "finished"))
    people.save(run, chosen)
    happen(run, 80, event("run.restored", by="otto"))
    people.save(run, chosen, reason=Reason.RESTORE)
    happen(run, 90, event("run.recovered", worker="w"))
    assert lengths(run, 93) == {"read": MINUTE, "pay": 3 * MINUTE}


def progress(run: Run, name: str = "otto") -> dict:
    viewer = people.viewer(name)
    (row,) = read_runs(viewer).items
    assert row.progress == read_run(viewer, run.pk).progress
    return row.progress


def test_progress_is_a_step_s_and_goes_with_it(run):
    drive(run)
    said = ("progress", "pay", {"activation": "pay:1", "fraction": 0.5, "text": "packing"})
    happen(run, 0, *people.step("pay", "started"), said)
    assert progress(run) == {"fraction": 0.5, "text": "packing"}
    assert progress(run, "ana") == {"fraction": 0.5}
    happen(run, 1, *people.step("mail", "started", "finished"))
    assert progress(run) == {"fraction": 0.5, "text": "packing"}
    happen(run, 2, *people.step("pay", "finished"))
    assert progress(run) == {}


@pytest.mark.parametrize("phase", ["waiting", "completed", "failed", "paused", "cancelled"])
def test_a_run_that_does_not_run_has_no_progress(run, phase):
    happen(run, 0, ("progress", "pay", {"activation": "pay:1", "fraction": 0.5}))
    Run.objects.filter(pk=run.pk).update(phase=phase)
    assert progress(run) == {}


@pytest.mark.parametrize("kind", ["run.restored", "run.retried", "run.recovered", "run.resumed"])
def test_a_step_that_begins_again_begins_without_progress(run, kind):
    drive(run)
    happen(run, 0, ("progress", "pay", {"activation": "pay:1", "fraction": 0.5}), event(kind))
    assert progress(run) == {}


def test_of_a_map_the_items_are_counted_whichever_of_them_spoke_last(run):
    drive(run)
    for item in range(5):
        happen(run, 0, *people.step("pack", "started", activation=f"pack:{item}", item=item))
    for item in range(2):
        happen(run, 1, *people.step("pack", "finished", activation=f"pack:{item}", item=item))
    happen(run, 2, ("progress", "pack", {"activation": "pack:4", "item": 4, "fraction": 1.0, "text": "Item 4"}))
    assert progress(run) == {"fraction": None, "text": "2 items done"}


step_states = sys.modules["wfdash.queries.step_states"]  # the package has a function of this name
STATES = ("started", "finished", "failed", "waiting")


def something(rnd: random.Random, run: Run) -> None:
    """Let steps move, retry, or be called otherwise."""
    for _ in range(rnd.randint(1, 4)):
        name, act = rnd.choice("abc"), str(rnd.randint(1, 6))
        if rnd.random() < 0.15:
            people.happen(run, ("run.migrated", None, {"names": {"a": "b", "b": "a"}, "ended": [act]}))
        elif rnd.random() < 0.2:
            people.happen(run, (rnd.choice(("run.paused", "run.resumed", "run.failed", "run.retried")), None, {}))
        elif rnd.random() < 0.2:
            at = people.THEN.isoformat()
            people.happen(run, ("step.retrying", name, {"activation": act, "at": at, "attempt": 2, "attempts": 3}))
        else:
            people.happen(run, *people.step(name, rnd.choice(STATES), activation=act))


def go_on(rnd: random.Random, run: Run, saved: list[Checkpoint]) -> None:
    """Take a step of a run's life: events, then maybe a checkpoint, at times a restore of an old one."""
    something(rnd, run)
    if saved and rnd.random() < 0.25:
        people.happen(run, ("run.restored", None, {"by": "otto"}))
        saved.append(people.save(run, rnd.choice(saved), reason=Reason.RESTORE))
    elif rnd.random() < 0.6:
        saved.append(people.save(run, saved[-1] if saved else None))


@pytest.mark.parametrize("seed", range(8))
def test_what_is_remembered_is_what_would_be_read_again(seed, everybody_once, monkeypatch):
    monkeypatch.setattr(step_states, "_cache", EventCache(min_cached=1, max_cached=60))
    rnd = random.Random(seed)
    runs = [(people.make_run(), []), (people.make_run(), [])]
    for _ in range(25):
        run, saved = rnd.choice(runs)
        go_on(rnd, run, saved)
        if rnd.random() < 0.7:
            remembered = step_states.step_transitions(run.pk)
            assert remembered == step_states.transitions_within(step_states.ranges_to(run.pk))


@pytest.fixture
def everybody_once(db):
    return people.make_people()


def test_only_what_is_new_is_read():
    cached: EventCache[int] = EventCache(min_cached=1)
    asked = []

    def read(known: list[int], ranges: list[EventRange]) -> tuple[list[int], int]:
        asked.append(ranges[0].low)
        return [*known, 1], 10 * len(asked)

    ranges = [EventRange(run="r", low=0, high=None)]
    assert cached.follow("r", ranges, read) == [1]
    assert cached.follow("r", ranges, read) == [1, 1]
    assert cached.follow("r", [EventRange(run="r", low=30, high=None), EventRange(run="r", low=0, high=8)], read) == [1]
    assert asked == [0, 10, 30]


def test_what_was_looked_at_longest_ago_is_forgotten_first():
    cached: EventCache[int] = EventCache(min_cached=1, max_cached=3)
    for key in ("a", "b", "a", "c"):
        cached.follow(key, [EventRange(run=key, low=0, high=None)], lambda known, ranges: ([1, 2], 1))
    assert list(cached._entries) == ["c"]


def test_a_run_that_was_retried_later_worked_only_as_long_as_its_steps_ran():
    at = [people.THEN + timedelta(seconds=seconds) for seconds in (0, 2, 14, 854, 856, 900, 901)]
    states = ("running", "stopped", "running", "waiting", "running")
    moves = [StepTransition("pay", "1", state, moment) for state, moment in zip(states, at[1:], strict=False)]
    assert time_spent(moves, at[0], at[6]) == (12 + 2 + 1, 44, 2 + 840)
    assert time_spent([], at[0], at[2]) == (0, 0, 14)
    assert time_spent(moves, at[5], at[6]) == (1, 0, 0)
