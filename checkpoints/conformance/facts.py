"""What every storage promises of a checkpoint's facts: listed without content, small, kept with their checkpoint."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from checkpoints import limits
from checkpoints.conformance.worlds import BIG, StorageWorld, checkpoint, checks_in, refused
from checkpoints.errors import InvalidValue
from checkpoints.ids import new_run_id

AWKWARD_FACTS: dict[str, Any] = {
    "zeta": "a \x00 and \U0001f4d1",
    "tokens": 2**60,
    "cost": 0.0425,
    "whole": 1.0,
    "tags": ["b", "a", None, True],
    "": {"b": {}, "a": []},
}
"""Facts that some database would sort, shorten, round or refuse."""


async def facts_are_listed_and_loaded_as_they_were_given(world: StorageWorld) -> None:
    run = new_run_id()
    first, second = checkpoint(run, facts=AWKWARD_FACTS, body=BIG), checkpoint(run, 2)
    await world.storage.save(first)
    await world.storage.save(second)
    listed = [info.facts for info in await world.storage.list_checkpoints(run)]
    assert listed == [{}, AWKWARD_FACTS]
    assert repr(listed[1]) == repr(AWKWARD_FACTS), "order or type of a value was changed"
    loaded = await world.storage.load(run, first.id)
    assert (repr(loaded.facts), loaded.body) == (repr(AWKWARD_FACTS), BIG)
    latest = await world.storage.get_latest(run)
    assert latest is not None
    assert latest.facts == {}


async def facts_belong_to_one_checkpoint(world: StorageWorld) -> None:
    run, given = new_run_id(), {"tags": ["mine"]}
    saved = checkpoint(run, facts=given)
    await world.storage.save(saved)
    given["tags"].append("changed")
    saved.facts["tags"].append("changed")
    for _ in range(2):
        (info,) = await world.storage.list_checkpoints(run)
        loaded = await world.storage.load(run, saved.id)
        assert info.facts == loaded.facts == {"tags": ["mine"]}
        info.facts["tags"].append("changed")
        loaded.facts.clear()


async def a_fork_has_the_facts_of_its_origin(world: StorageWorld) -> None:
    run, fork = new_run_id(), new_run_id()
    saved = checkpoint(run, facts=AWKWARD_FACTS)
    await world.storage.save(saved)
    assert (await world.storage.fork(run, saved.id, fork)).facts == AWKWARD_FACTS
    await world.storage.set_label(fork, (await world.storage.list_checkpoint_ids(fork))[0], "pinned")
    (info,) = await world.storage.list_checkpoints(fork)
    assert (info.label, info.facts) == ("pinned", AWKWARD_FACTS)


async def facts_that_are_too_big_or_no_json_are_refused_before_anything_is_stored(world: StorageWorld) -> None:
    run = new_run_id()
    fits = {"a": "x" * (limits.FACTS - len('{"a":""}'))}
    bad: list[dict[Any, Any]] = [{"a": fits["a"] + "x"}, {"a": float("nan")}, {"a": object()}, {"a": "\ud800"}]
    bad += [{1: "a"}, {"a": (1, 2)}, {"a": Decimal(1)}, {"a": datetime.now(UTC)}]
    for facts in bad:
        with refused(InvalidValue, facts, saying="facts"):
            await world.storage.save(checkpoint(run).model_copy(update={"facts": facts}))
    assert await world.storage.get_latest(run) is None
    await world.storage.save(checkpoint(run, facts=fits))
    assert [info.facts for info in await world.storage.list_checkpoints(run)] == [fits]


FACTS = checks_in(globals())
