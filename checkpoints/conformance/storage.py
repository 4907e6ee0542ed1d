"""What every ``CheckpointStorage`` promises; facts are listed without content, small, kept with their checkpoint."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from checkpoints import limits
from checkpoints.conformance.worlds import BIG, StorageWorld, checkpoint, checks_in, question, refused
from checkpoints.errors import Conflict, Damaged, Incompatible, InvalidValue, NotFound
from checkpoints.ids import RunId, new_checkpoint_id, new_run_id
from checkpoints.records import FORMAT, Checkpoint, CheckpointFilter, Reason
from checkpoints.storage import CheckpointStorage


async def it_has_every_method(world: StorageWorld) -> None:
    assert isinstance(world.storage, CheckpointStorage)


async def what_is_saved_is_loaded(world: StorageWorld) -> None:
    asked = question(card={"b": 1, "a": 2}, by=("finance",))
    bodies: tuple[dict[str, Any], ...] = ({}, {"state": {"a": [1, None, "é"]}}, BIG)
    for body in bodies:
        run = new_run_id()
        saved = checkpoint(run, body=body, requests=(asked,), reason=Reason.PAUSE, step="s", label="here")
        assert await world.storage.save(saved) == saved.id
        loaded = await world.storage.load(run, saved.id)
        assert loaded.model_copy(update={"size": 0, "waiting": 0}) == saved
        assert loaded.size > 0
        assert loaded.waiting == 1
        assert list(loaded.requests[0].card) == ["b", "a"], "the order of keys is part of a value"
        assert list(loaded.body.get("state", ())) == list(body.get("state", ()))


async def what_is_no_json_is_refused_and_leaves_nothing(world: StorageWorld) -> None:
    run = new_run_id()
    for bad in (float("nan"), [float("-inf")], {"a": object()}):
        with refused(ValueError, bad):
            await world.storage.save(checkpoint(run).model_copy(update={"body": {"state": bad}}))
    assert await world.storage.get_latest(run) is None


async def what_goes_in_and_comes_out_are_copies(world: StorageWorld) -> None:
    run, body = new_run_id(), {"state": {"list": [1]}}
    saved = checkpoint(run, body=body)
    await world.storage.save(saved)
    body["state"]["list"].append(2)
    first = await world.storage.load(run, saved.id)
    first.body["state"]["list"].append(3)
    assert (await world.storage.load(run, saved.id)).body == {"state": {"list": [1]}}
    latest = await world.storage.get_latest(run)
    latest.body["state"].clear()
    assert (await world.storage.load(run, saved.id)).body == {"state": {"list": [1]}}


async def the_latest_is_the_one_with_the_highest_n(world: StorageWorld) -> None:
    run = new_run_id()
    assert await world.storage.get_latest(run) is None
    for n in (1, 3, 2):
        await world.storage.save(checkpoint(run, n))
    assert (await world.storage.get_latest(run)).n == 3


async def a_second_checkpoint_with_the_same_n_is_a_conflict(world: StorageWorld) -> None:
    run = new_run_id()
    first = checkpoint(run, 1)
    await world.storage.save(first)
    with refused(Conflict):
        await world.storage.save(checkpoint(run, 1, body={"state": "other"}))
    assert await world.storage.list_checkpoint_ids(run) == [first.id]
    assert (await world.storage.load(run, first.id)).body == first.body


async def of_many_savers_of_one_n_one_wins(world: StorageWorld) -> None:
    run = new_run_id()
    rivals = [checkpoint(run, 1, body={"state": {"mine": i}}) for i in range(8)]
    outcomes = await asyncio.gather(*(world.storage.save(each) for each in rivals), return_exceptions=True)
    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 7
    (winner,) = (outcome for outcome in outcomes if not isinstance(outcome, BaseException))
    assert (await world.storage.get_latest(run)).id == winner


async def an_unknown_run_has_nothing(world: StorageWorld) -> None:
    run = new_run_id()
    assert await world.storage.get_latest(run) is None
    assert list(await world.storage.list_checkpoints(run)) == []
    assert list(await world.storage.list_checkpoint_ids(run)) == []
    assert not await world.storage.delete(run, new_checkpoint_id())
    assert await world.storage.prune(run, [new_checkpoint_id()]) == 0


async def a_checkpoint_of_another_run_is_not_found(world: StorageWorld) -> None:
    mine, yours = new_run_id(), new_run_id()
    saved = checkpoint(mine)
    await world.storage.save(saved)
    await world.storage.save(checkpoint(yours))
    for run, id_ in ((yours, saved.id), (mine, new_checkpoint_id()), (new_run_id(), saved.id)):
        with refused(NotFound, run, id_):
            await world.storage.load(run, id_)
        with refused(NotFound, run, id_):
            await world.storage.fork(run, id_, new_run_id())
        with refused(NotFound, run, id_):
            await world.storage.quarantine(run, id_, "why")
        with refused(NotFound, run, id_):
            await world.storage.set_label(run, id_, "x")
        assert not await world.storage.delete(run, id_)
        assert await world.storage.prune(run, [id_]) == 0
    assert (await world.storage.load(mine, saved.id)).clean


async def lists_are_newest_first_in_pages(world: StorageWorld) -> None:
    run = new_run_id()
    saved = [checkpoint(run, n) for n in range(1, 8)]
    for each in saved:
        await world.storage.save(each)
    first = await world.storage.list_checkpoints(run, limit=3)
    second = await world.storage.list_checkpoints(run, before=first[-1].n, limit=3)
    assert [info.n for info in [*first, *second]] == [7, 6, 5, 4, 3, 2]
    assert first[0] == (await world.storage.load(run, first[0].id)).info()
    assert list(await world.storage.list_checkpoint_ids(run)) == [c.id for c in reversed(saved)]


THEN = datetime(2026, 11, 1, 12, tzinfo=UTC)


async def _mixed(world: StorageWorld) -> RunId:
    """Save five checkpoints that differ in all that can be asked for."""
    run = new_run_id()
    various: list[dict[str, Any]] = [
        {"reason": Reason.START},
        {"step": "review", "reason": Reason.PAUSE, "requests": (question("a"), question("b"))},
        {"step": "pay", "label": "paid"},
        {"step": "review"},
        {"step": "pay", "label": "before the audit", "requests": (question("c"),)},
    ]
    saved = [checkpoint(run, n, created=THEN + timedelta(hours=n), **each) for n, each in enumerate(various, 1)]
    for each in saved:
        await world.storage.save(each)
    await world.storage.quarantine(run, saved[3].id, "a test")
    return run


FILTERS: tuple[tuple[dict[str, Any], list[int]], ...] = (
    ({}, [5, 4, 3, 2, 1]),
    ({"step": "review"}, [4, 2]),
    ({"reason": Reason.PAUSE}, [2]),
    ({"clean": True}, [5, 3, 2, 1]),
    ({"clean": False}, [4]),
    ({"has_request": True}, [5, 2]),
    ({"has_request": False}, [4, 3, 1]),
    ({"labelled": True}, [5, 3]),
    ({"labelled": False}, [4, 2, 1]),
    ({"label": "paid"}, [3]),
    ({"label": "nobody's"}, []),
    ({"since": THEN + timedelta(hours=3)}, [5, 4, 3]),
    ({"until": THEN + timedelta(hours=3)}, [2, 1]),
    ({"since": THEN + timedelta(hours=2), "until": THEN + timedelta(hours=5), "step": "review"}, [4, 2]),
    ({"step": "review", "clean": True, "has_request": True}, [2]),
)


async def lists_show_what_was_asked_for(world: StorageWorld) -> None:
    run = await _mixed(world)
    for chosen, expected in FILTERS:
        where = CheckpointFilter(**chosen)
        infos = await world.storage.list_checkpoints(run, where=where)
        assert [info.n for info in infos] == expected, chosen
        assert all(where.admits(info) for info in infos)
        paged = [
            await world.storage.list_checkpoints(run, before=before, limit=1, where=where)
            for before in (6, *(info.n for info in infos))
        ]
        assert [info.n for page in paged for info in page] == expected, "pages and the whole list differ"


async def a_label_can_be_given_and_taken_away(world: StorageWorld) -> None:
    run = new_run_id()
    saved = checkpoint(run, body=BIG)
    await world.storage.save(saved)
    for label in ("before the audit", "after it", None):
        await world.storage.set_label(run, saved.id, label)
        assert [info.label for info in await world.storage.list_checkpoints(run)] == [label]
        loaded = await world.storage.load(run, saved.id)
        assert (loaded.label, loaded.body) == (label, BIG)


async def a_label_that_is_too_long_is_refused_and_changes_nothing(world: StorageWorld) -> None:
    run = new_run_id()
    saved, most = checkpoint(run, label="here"), "x" * 200
    await world.storage.save(saved)
    for label in (f"{most}x", "", "  "):
        with refused(ValueError, label, saying="label"):
            await world.storage.set_label(run, saved.id, label)
        with refused(ValueError, label, saying="label"):
            await world.storage.save(checkpoint(run, 2, label=label))
    assert [info.label for info in await world.storage.list_checkpoints(run)] == ["here"]
    await world.storage.save(checkpoint(run, 2, label=most))
    assert [info.label for info in await world.storage.list_checkpoints(run)] == [most, "here"]


async def a_quarantined_checkpoint_is_damaged_wherever_it_is_read(world: StorageWorld) -> None:
    run = new_run_id()
    older, newer = checkpoint(run, 1), checkpoint(run, 2)
    await world.storage.save(older)
    await world.storage.save(newer)
    await world.storage.quarantine(run, newer.id, "the disk was on fire")
    with refused(Damaged, saying="the disk was on fire"):
        await world.storage.load(run, newer.id)
    with refused(Damaged):
        await world.storage.get_latest(run)
    fork = new_run_id()
    with refused(Damaged):
        await world.storage.fork(run, newer.id, fork)
    assert await world.storage.get_latest(fork) is None
    newest, oldest = await world.storage.list_checkpoints(run)
    assert (newest.clean, newest.flaw) == (False, "the disk was on fire")
    assert (oldest.clean, oldest.flaw) == (True, "")
    assert (await world.storage.load(run, older.id)).body == older.body


async def a_newer_format_is_refused_and_not_called_damaged(world: StorageWorld) -> None:
    run = new_run_id()
    saved = checkpoint(run, format=FORMAT + 1)
    await world.storage.save(saved)
    for read in (world.storage.get_latest(run), world.storage.load(run, saved.id)):
        with refused(Incompatible, saying="upgrade"):
            await read
    with refused(Incompatible):
        await world.storage.fork(run, saved.id, new_run_id())
    assert [info.clean for info in await world.storage.list_checkpoints(run)] == [True]


async def a_deleted_checkpoint_is_gone(world: StorageWorld) -> None:
    run = new_run_id()
    saved = checkpoint(run)
    await world.storage.save(saved)
    assert await world.storage.delete(run, saved.id)
    assert not await world.storage.delete(run, saved.id)
    assert await world.storage.get_latest(run) is None


async def history(world: StorageWorld, count: int, **changes: Any) -> list[Checkpoint]:
    """Save checkpoints 1 to ``count`` of a new run."""
    run = new_run_id()
    saved = [checkpoint(run, n, **changes) for n in range(1, count + 1)]
    for each in saved:
        await world.storage.save(each)
    return saved


async def what_is_pruned_is_gone_and_the_rest_stays(world: StorageWorld) -> None:
    saved = await history(world, 5, body=BIG)
    run = saved[0].run
    assert await world.storage.prune(run, []) == 0
    assert await world.storage.prune(run, [saved[0].id, saved[2].id, saved[2].id, new_checkpoint_id()]) == 2
    assert [info.n for info in await world.storage.list_checkpoints(run)] == [5, 4, 2]
    for kept in (saved[1], saved[3], saved[4]):
        assert (await world.storage.load(run, kept.id)).body == BIG
    assert await world.storage.prune(run, [saved[0].id]) == 0


async def the_head_is_never_pruned(world: StorageWorld) -> None:
    saved = await history(world, 3)
    run = saved[0].run
    with refused(Conflict, saying=saved[2].id):
        await world.storage.prune(run, [each.id for each in saved])
    assert len(await world.storage.list_checkpoint_ids(run)) == 3


async def the_newest_clean_one_is_never_pruned(world: StorageWorld) -> None:
    saved = await history(world, 4)
    run = saved[0].run
    for bad in saved[2:]:
        await world.storage.quarantine(run, bad.id, "a test")
    with refused(Conflict, saying=saved[1].id):
        await world.storage.prune(run, [saved[0].id, saved[1].id])
    assert await world.storage.prune(run, [saved[0].id, saved[2].id]) == 2
    assert (await world.storage.load(run, saved[1].id)).n == 2


async def pruning_a_run_leaves_others_alone(world: StorageWorld) -> None:
    saved = await history(world, 3, body=BIG)
    run, other = saved[0].run, new_run_id()
    fork = await world.storage.fork(run, saved[0].id, other)
    await world.storage.save(checkpoint(other, 2))
    assert await world.storage.prune(run, [saved[0].id, saved[1].id, fork.id]) == 2
    assert (await world.storage.load(other, fork.id)).body == BIG
    assert await world.storage.prune(other, [fork.id]) == 1
    assert (await world.storage.load(run, saved[2].id)).body == BIG


async def a_fork_has_the_content_and_its_own_life(world: StorageWorld) -> None:
    run, other, third = new_run_id(), new_run_id(), new_run_id()
    origin = checkpoint(run, body=BIG, requests=(question(),), label="here")
    await world.storage.save(origin)
    fork = await world.storage.fork(run, origin.id, other)
    assert (fork.run, fork.n, fork.parent, fork.reason) == (other, 1, origin.id, Reason.FORK)
    assert (fork.body, fork.requests, fork.waiting, fork.label) == (BIG, origin.requests, 1, None)
    await world.storage.delete(run, origin.id)
    await world.storage.save(checkpoint(other, 2))
    assert (await world.storage.load(other, fork.id)).body == BIG
    assert (await world.storage.fork(other, fork.id, third)).body == BIG
    assert list(await world.storage.list_checkpoint_ids(run)) == []


async def a_fork_under_a_known_run_id_is_a_conflict(world: StorageWorld) -> None:
    run, other = new_run_id(), new_run_id()
    origin = checkpoint(run)
    await world.storage.save(origin)
    await world.storage.save(checkpoint(other))
    for known in (other, run):
        with refused(Conflict):
            await world.storage.fork(run, origin.id, known)
    assert len(await world.storage.list_checkpoint_ids(other)) == 1


async def runs_in_one_storage_never_mix(world: StorageWorld) -> None:
    runs = [new_run_id() for _ in range(20)]
    for n in range(1, 6):
        await asyncio.gather(*(world.storage.save(checkpoint(run, n, body={"state": {"mine": run}})) for run in runs))
    for run in runs:
        latest = await world.storage.get_latest(run)
        assert (latest.run, latest.n, latest.body) == (run, 5, {"state": {"mine": run}})
        assert {info.run for info in await world.storage.list_checkpoints(run)} == {run}


async def checkpoints_are_numbered_from_one(world: StorageWorld) -> None:
    run = new_run_id()
    for n in (0, -1):
        with refused(ValueError, n, saying="n:"):
            await world.storage.save(checkpoint(run, n))
    assert await world.storage.get_latest(run) is None


async def an_id_that_is_taken_is_reported_as_such(world: StorageWorld) -> None:
    run, other = new_run_id(), new_run_id()
    first = checkpoint(run)
    await world.storage.save(first)
    for again in (checkpoint(run, 2, id=first.id), checkpoint(other, 1, id=first.id)):
        with refused(Conflict, saying="id"):
            await world.storage.save(again)
    with refused(Conflict, saying="n"):
        await world.storage.save(checkpoint(run, 1))
    assert len(await world.storage.list_checkpoint_ids(run)) == 1
    assert await world.storage.get_latest(other) is None


STORAGE = checks_in(globals())


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


FACTS = checks_in(globals(), *STORAGE)
