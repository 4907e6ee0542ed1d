"""What is remembered of a run is what would be read again, whatever happened in between."""

from __future__ import annotations

import random
import sys

import pytest

from checkpoints.models import Checkpoint, Run
from checkpoints.records import Reason
from tests import people
from wfdash.queries.history.lineage import EventRange
from wfdash.queries.history.step_states import EventCache

step_states = sys.modules["wfdash.queries.history.step_states"]  # the package has a function of this name
pytestmark = pytest.mark.django_db
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
