"""What every storage promises at the limits of ids, names and values: the same limits everywhere, nothing found that
cannot exist, and nothing kept that cannot be read.
"""

from __future__ import annotations

from typing import Any

from checkpoints.conformance.worlds import (
    JournalWorld,
    StorageWorld,
    checkpoint,
    checks_in,
    commit,
    question,
    refused,
    shown,
)
from checkpoints.content.canonical_json import DIGITS, LEVELS
from checkpoints.errors import InvalidValue, NotFound
from checkpoints.events import EventKind
from checkpoints.ids import CheckpointId, RequestKey, RunId, new_run_id
from checkpoints.limits import ID, KEY, NAME
from checkpoints.records import Answer, CheckpointFilter, Commit, Effect, EventDraft

ODD = ("\x00", "a\x00b", "\ud800", "\uffff")
"""Texts that some database cannot keep."""
WIDE = "\U0001f4d1"
"""A character of four bytes in UTF-8, and of two in UTF-16."""


def nested(levels: int) -> Any:
    """Return lists and objects within each other."""
    value: Any = "x"
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


WITHIN = (nested(LEVELS), 10**DIGITS - 1, 1 - 10**DIGITS)
"""Values at the limits that every storage keeps."""
BEYOND = (*map(nested, (150, 190, 195, 198, 200, 202, 249, 252, 256, 3_000)), 10**DIGITS, -(10**DIGITS), 10**6_000)
"""Values around every limit that a part of a storage may have. It refuses them, or keeps them."""


def longest(start: str) -> str:
    """Return a new id of the greatest length, of characters that are not ASCII."""
    return f"{start}:{new_run_id()}:".ljust(ID, WIDE)


async def ids_are_opaque_and_may_be_long(world: StorageWorld) -> None:
    runs = [RunId(longest("tenant-42")) for _ in range(2)]
    runs += [RunId(f"{new_run_id()} / % _ ' \" \n é"), RunId(f"x{new_run_id()}".upper())]
    for run in runs:
        first = checkpoint(run, id=CheckpointId(longest("c")))
        second = checkpoint(run, 2, id=CheckpointId(longest("c")), parent=first.id, requests=(question("k" * KEY),))
        for saved in (first, second):
            assert await world.storage.save(saved) == saved.id
            assert (await world.storage.load(run, saved.id)).body == saved.body
        assert await world.storage.list_checkpoint_ids(run) == [second.id, first.id]
        fork = RunId(longest("fork"))
        assert (await world.storage.fork(run, second.id, fork)).parent == second.id
        assert await world.storage.prune(run, [first.id]) == 1


async def names_may_be_long(world: StorageWorld) -> None:
    run, name = new_run_id(), WIDE * NAME
    saved = checkpoint(run, workflow=name, step=name, label=name, version="v" * 64, engine="e" * 40)
    await world.storage.save(saved)
    found = await world.storage.load(run, saved.id)
    assert (found.workflow, found.step, found.label) == (name, name, name)
    assert len(await world.storage.list_checkpoints(run, where=CheckpointFilter(label=name))) == 1


async def what_is_too_long_or_odd_is_refused_by_name_before_anything_is_stored(world: StorageWorld) -> None:
    run = new_run_id()
    too_long: dict[str, Any] = {"id": "c" * (ID + 1), "workflow": "w" * (NAME + 1), "step": "s" * (NAME + 1)}
    too_long |= {"parent": "c" * (ID + 1), "version": "v" * 65, "engine": "e" * 41, "label": "l" * (NAME + 1)}
    names = {"id": "checkpoint id"}
    for field, value in too_long.items():
        for bad in (value, *(f"a{odd}" for odd in ODD)):
            with refused(InvalidValue, bad, saying=names.get(field, field)):
                await world.storage.save(checkpoint(run).model_copy(update={field: bad}))
    for key in ("k" * (KEY + 1), *ODD):
        asking = (question().model_copy(update={"key": key}),)
        with refused(InvalidValue, key, saying="request key"):
            await world.storage.save(checkpoint(run).model_copy(update={"requests": asking}))
    assert await world.storage.get_latest(run) is None


async def a_run_id_that_is_too_long_or_odd_is_refused(world: StorageWorld) -> None:
    good = checkpoint(new_run_id())
    await world.storage.save(good)
    for bad in ("r" * (ID + 1), "", " ", *ODD):
        with refused(ValueError, bad, saying="run id"):
            await world.storage.save(checkpoint(new_run_id()).model_copy(update={"run": bad}))
        with refused(ValueError, bad, saying="run id"):
            await world.storage.fork(good.run, good.id, RunId(bad))


async def what_cannot_exist_is_not_found(world: StorageWorld) -> None:
    storage, run = world.storage, new_run_id()
    saved = checkpoint(run)
    await storage.save(saved)
    for odd in (*ODD, "x" * 10_000, ""):
        for where in ((run, odd), (odd, saved.id)):
            for look_up in (storage.load(*where), storage.quarantine(*where, "bad"), storage.set_label(*where, "x")):
                with refused(NotFound, *where):
                    await look_up
            with refused(NotFound, *where):
                await storage.fork(*where, new_run_id())
            assert await storage.delete(*where) is False
        assert await storage.get_latest(odd) is None
        assert not await storage.list_checkpoints(odd)
        assert not await storage.list_checkpoints(run, where=CheckpointFilter().model_copy(update={"label": odd}))
        assert not await storage.list_checkpoint_ids(odd)
        assert await storage.prune(run, [odd]) == await storage.prune(odd, [saved.id]) == 0
    assert await storage.get_latest(run) is not None


async def a_reason_that_cannot_be_stored_is_kept_without_what_is_odd(world: StorageWorld) -> None:
    run = new_run_id()
    saved = checkpoint(run)
    await world.storage.save(saved)
    await world.storage.quarantine(run, saved.id, "found \x00 and \ud800 in it")
    (info,) = await world.storage.list_checkpoints(run)
    assert (info.clean, info.flaw) == (False, "found \ufffd and \ufffd in it")


async def what_is_accepted_can_be_read(world: StorageWorld) -> None:
    for value in (*WITHIN, *BEYOND):
        run = new_run_id()
        saved = checkpoint(run, body={"state": {"v": value}, "position": {}})
        refusal = None
        try:
            await world.storage.save(saved)
        except ValueError as error:
            refusal = error
        latest = await world.storage.get_latest(run)
        assert refusal is None or value not in WITHIN, f"{shown(value)} is within the limits and was refused: {refusal}"
        assert (latest is None) is (refusal is not None), (
            f"what was refused is stored, or what was accepted is not: {shown(value)}"
        )
        assert latest is None or latest.body == saved.body


async def a_value_that_holds_itself_is_refused(world: StorageWorld) -> None:
    loop: list[Any] = []
    loop.append(loop)
    run = new_run_id()
    with refused(ValueError):
        await world.storage.save(checkpoint(run).model_copy(update={"body": {"state": loop}}))
    assert await world.storage.get_latest(run) is None


LIMITS = checks_in(globals())


async def what_a_commit_accepts_can_be_read(world: JournalWorld) -> None:
    for value in (*WITHIN, *BEYOND):
        run, key = new_run_id(), RequestKey("k")
        await commit(world, run, checkpoint=checkpoint(run), opened=(question(key),))
        parts: dict[str, Any] = {"events": EventKind.CUSTOM.draft(name="n", data=value)}
        parts |= {
            "effects": Effect(key="c", step="s", name="n", result=value),
            "answered": Answer(key=key, value=value),
        }
        refusals = 0
        for field, part in parts.items():
            try:
                await world.storage.commit(Commit(run=run, **{field: (part,)}))
            except ValueError:
                refusals += 1
        found = [event.data["data"] for event in await world.storage.read_events(run)]
        found += [result for *_, result in await world.effects(run)]
        found += [answer.value for answer in (await world.storage.read_answers(run)).values()]
        assert found == [value] * (len(parts) - refusals)
        assert not refusals or value not in WITHIN, f"{shown(value)} is within the limits and was refused"


async def a_commit_with_a_name_that_is_too_long_or_odd_writes_nothing(world: StorageWorld) -> None:
    run = new_run_id()
    call = {"key": "k", "step": "s", "name": "n"}
    for bad in ("x" * (KEY + 1), "a\x00", "\uffff"):
        wrong = [Commit(run=run, events=(EventDraft(kind=bad),)), Commit(run=run, opened=(question(bad),))]
        wrong += [Commit(run=run, events=(EventKind.CUSTOM.draft(bad),))]
        wrong += [Commit(run=run, effects=(Effect(**{**call, field: bad}),)) for field in call]
        for one in wrong:
            with refused(InvalidValue, bad):
                await world.storage.commit(one)
    assert not await world.storage.read_events(run)


async def a_commit_with_an_event_that_is_not_in_the_table_writes_nothing(world: StorageWorld) -> None:
    run = new_run_id()
    good, kind = EventKind.CUSTOM.draft(name="n"), EventKind.CUSTOM.value
    for bad in (EventDraft(kind="run.exploded"), EventDraft(kind=kind, data={"odd": 1}), EventKind.STREAM.draft()):
        with refused(InvalidValue, bad):
            await commit(world, run, events=(good, bad))
    assert not await world.storage.read_events(run)


async def names_of_a_commit_may_be_long(world: StorageWorld) -> None:
    run, key, name = new_run_id(), WIDE * KEY, WIDE * NAME
    effect = Effect(key=key, step=name, name=key, result=1)
    event = EventKind.CUSTOM.draft(name)
    await commit(world, run, opened=(question(key, step=name),), effects=(effect,), events=(event,))
    assert [found.step for found in await world.storage.read_events(run)] == [name]


async def events_and_answers_of_a_run_that_cannot_exist_are_none(world: StorageWorld) -> None:
    for odd in (*ODD, "x" * 10_000):
        assert not await world.storage.read_events(odd)
        assert not await world.storage.read_answers(odd)


JOURNAL_LIMITS = checks_in(globals(), *LIMITS)
