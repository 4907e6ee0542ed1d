"""Several workers ask one rule, and some die: it answers once, within its quota, and never after its end."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from tests.e2e.server import wait_until
from tests.faults.checks import Promised, look
from tests.faults.conftest import NIGHTLY
from tests.faults.worlds import World

pytestmark = pytest.mark.process
ENDS = {
    "suspend": "enough",
    "quota": "which is its quota",
    "expiry": "It expired",
    "sample": "a person decided otherwise: reject instead of approve",
}
QUOTA = 9
SHORT = [("sqlite", "suspend"), ("postgres", "quota")]
"""Those that every commit is tested with."""
STORIES = [
    pytest.param(database, end, marks=[] if (database, end) in SHORT else NIGHTLY)
    for database in ("sqlite", "postgres")
    for end in ENDS
]


def switch_on(world: World, *, undo: str, **limits: float) -> None:
    world.more = {"WFDASH_UNDO": undo}
    assert world.play("concurrency.rulers.switch_on", ledger=str(world.ledger), limits=limits) == 1


def check(told: dict[str, Any]) -> None:
    """Check what is true of any rule that has ended."""
    assert told["state"] == "suspended"
    assert told["flaws"] == []
    verbs = [verb for _, verb, _ in told["entries"]]
    ended = verbs.index("suspend rule")
    by_rule = [request for mine, verb, request in told["entries"] if mine and verb == "answer"]
    assert not [one for one in told["entries"][ended + 1 :] if one[0]]
    assert len(by_rule) == len(set(by_rule)) == told["tally"]["answers"]
    assert sorted(by_rule) == told["answered"] == told["replies"]
    given_back = [request for _, verb, request in told["entries"] if verb == "undo"]
    assert sorted({*by_rule} - {*given_back}) == told["stand"] == told["answers"]
    assert set(by_rule).isdisjoint(told["samples"])
    assert verbs.count("suspend rule") == 1


@pytest.mark.parametrize(("database", "end"), STORIES)
def test_a_rule_whose_workers_are_killed_ends_once_and_answers_nothing_after_it(any_world: World, end: str) -> None:
    quota = QUOTA if end == "quota" else 1000
    switch_on(any_world, undo="1", quota=quota, share=0.1)
    drawn, kills = random.Random(end), 0
    people = any_world.start_play("concurrency.rulers.live_beside", ledger=str(any_world.ledger), end=end, seed=7)
    crew = [any_world.worker(str(place)).start() for place in range(2)]
    try:
        while not people.has_ended():
            time.sleep(drawn.uniform(0.5, 3.0))
            if kills < 6:
                victim = drawn.choice(crew)
                victim.kill()
                victim.start()
                kills += 1
        assert people.wait() == 0, people.output.read_text()[-3000:]
    finally:
        for one in (people, *crew):
            one.kill()
    told = any_world.play("concurrency.rulers.tell")
    check(told)
    assert ENDS[end] in told["problem"]
    assert kills >= 3
    assert told["replies"]
    assert told["samples"]
    assert len(told["replies"]) <= quota
    found = look(any_world.tables(), any_world.ledger, Promised(starts={}, answers={}))
    refused = found.wrong_ends if end == "sample" else []
    found.wrong_ends = [one for one in found.wrong_ends if one not in refused]
    assert len(refused) <= len(told["samples"])
    problems = found.problems()
    problems.pop("left_claims", None)
    assert problems == ({} if not refused else {"wrong_effects": problems["wrong_effects"]})
    assert len(problems.get("wrong_effects", [])) == len(refused)


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("looks", [False, True])
def test_a_rule_answers_once_and_is_looked_at_once_although_its_worker_dies_in_or_after_its_transaction(
    any_world: World, committed: bool, looks: bool
) -> None:
    switch_on(any_world, undo="0", share=1e-9)
    given = {"ledger": str(any_world.ledger), "committed": committed, "looks": looks}
    dying = any_world.start_play("concurrency.rulers.die_in_its_transaction", **given)
    assert dying.wait() == 137
    told = any_world.play("concurrency.rulers.tell")
    assert len(told["replies"]) == (looks or committed)
    assert len(told["samples"]) == told["looks"] == (looks and committed)
    worker = any_world.worker("one").start()
    try:
        done = "samples" if looks else "answers"
        wait_until(lambda: len(any_world.play("concurrency.rulers.tell")[done]) == 1)
    finally:
        worker.kill()
    told = any_world.play("concurrency.rulers.tell")
    assert [verb for mine, verb, _ in told["entries"] if mine] == ["answer"]
    assert (told["looks"], told["flaws"]) == (looks, [])
