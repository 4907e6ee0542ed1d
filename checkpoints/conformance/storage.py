"""What every ``CheckpointStorage`` promises."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from checkpoints.conformance.worlds import (
    BIG,
    MANY,
    JournalWorld,
    StorageWorld,
    asking,
    begun,
    checkpoint,
    checks_in,
    claimed,
    is_due,
    question,
    refused,
    until,
)
from checkpoints.errors import ClaimLost, Conflict, Damaged, Incompatible, NotFound
from checkpoints.events import EventKind
from checkpoints.ids import RunId, WorkflowId, new_checkpoint_id, new_run_id
from checkpoints.records import FORMAT, Checkpoint, CheckpointFilter, Claim, Commit, Phase, Reason, Standing
from checkpoints.retention import Needs
from checkpoints.storage import CheckpointStorage, Serves

# What the dashboard's worker and the manager ask besides the ports: optional for a storage of one's own.


async def claims_of_workers_known_to_be_gone_can_be_ended(world: JournalWorld) -> None:
    run, other = await begun(world), await begun(world)
    prefix = str(new_run_id())
    gone = await world.storage.claim(run, worker=f"{prefix}:1", ttl=60)
    stays = await world.storage.claim(other, worker="elsewhere:1", ttl=60)
    assert gone is not None
    assert stays is not None
    await world.storage.expire_claims(worker_prefix=f"{prefix}:")
    with refused(ClaimLost):
        await world.storage.renew(gone, ttl=60)
    await world.storage.renew(stays, ttl=60)
    assert (await claimed(world, run)).recovered


async def many_claims_are_renewed_at_once_and_the_lost_are_named(world: JournalWorld) -> None:
    runs = [await begun(world) for _ in range(4)]
    claims = [await claimed(world, run, ttl=5) for run in runs]
    await world.storage.release(claims[1])
    await world.cancel(runs[2])
    lost = await world.storage.renew_many(claims, ttl=60)
    assert lost == {claims[1].token, claims[2].token}
    assert await world.storage.renew_many([], ttl=60) == frozenset()
    assert not await world.storage.renew_many([claims[0]], ttl=0.01)
    assert await until(lambda: is_due(world, runs[0]))
    assert await world.storage.claim(runs[0], worker="other", ttl=60)
    assert await world.storage.renew_many([claims[0], claims[3]], ttl=60) == {claims[0].token}


async def an_expired_claim_is_live_again_once_it_is_renewed_while_no_one_has_its_run(world: JournalWorld) -> None:
    run, cancelled = await begun(world), await begun(world)
    claim, revoked = await claimed(world, run, ttl=0.01), await claimed(world, cancelled, ttl=0.01)
    assert await until(lambda: is_due(world, run))
    await world.cancel(cancelled)
    assert await world.storage.renew_many([claim, revoked], ttl=60) == {revoked.token}
    assert not await is_due(world, run)
    await world.storage.commit(Commit(run=run, checkpoint=checkpoint(run)), claim=claim)


async def a_batch_leaves_runs_with_expired_claims_to_their_workers_where_asked_to(world: JournalWorld) -> None:
    run, fresh = await begun(world), await begun(world)
    await claimed(world, run, ttl=0.01)
    assert await until(lambda: is_due(world, run))
    asked = {"worker": "other", "ttl": 60, "limit": 10, "takeover": False}
    assert await world.storage.claim_due(**asked, runs=[run]) == []
    taken = [claim.run for claim in await world.storage.claim_due(**{**asked, "limit": MANY})]
    assert fresh in taken
    assert run not in taken
    assert await is_due(world, run)


async def suspects_are_found_and_taken_apart_from_the_others(world: JournalWorld) -> None:
    run, innocent = await begun(world), await begun(world)
    for worker in ("first", "second"):
        claim = await until(lambda: world.storage.claim(run, worker=worker, ttl=5))  # noqa: B023
        await world.storage.renew(claim, ttl=0.01)
    await until(lambda: is_due(world, run))
    assert run in await world.storage.due(limit=10_000, suspect=True)
    assert innocent not in await world.storage.due(limit=10_000, suspect=True)
    assert run not in await world.storage.due(limit=10_000, suspect=False)
    assert innocent in await world.storage.due(limit=10_000, suspect=False)
    found = await world.storage.look(suspects=10_000)
    assert found.is_any_due
    assert run in found.suspects
    assert innocent not in found.suspects
    assert await world.storage.claim(run, worker="third", ttl=5, suspects=False) is None
    claim = await world.storage.claim(run, worker="third", ttl=5)
    assert claim is not None
    assert claim.attempts == 2
    await world.storage.trust(claim)
    assert (await world.storage.read_run(run)).attempts == 0


async def a_worker_can_read_what_driving_a_run_needs(world: JournalWorld) -> None:
    run = new_run_id()
    await world.storage.save(checkpoint(run, 4))
    facts = await world.storage.read_run(run)
    assert (facts.run, facts.workflow, facts.version, facts.n, facts.attempts) == (run, "expense", "v1", 4, 0)
    with refused(NotFound):
        await world.storage.read_run(new_run_id())


async def what_depends_on_a_run_is_known(world: JournalWorld) -> None:
    run = new_run_id()
    first = checkpoint(run, 1)
    await world.storage.save(first)
    assert await world.storage.read_needs(run) == Needs()
    await world.storage.fork(run, first.id, new_run_id())
    await world.storage.commit(Commit(run=run, standing=Standing(phase=Phase.COMPLETED)))
    needs = await world.storage.read_needs(run)
    assert needs.ended
    assert first.id in needs.origins


async def only_the_first_answer_counts(world: JournalWorld) -> None:
    run = new_run_id()
    await world.storage.commit(asking(run, "a"))
    await world.answer(run, "a", 1)
    with refused(Exception):
        await world.answer(run, "a", 2)
    assert [answer.value for answer in (await world.storage.read_answers(run)).values()] == [1]


WORKER = checks_in(globals())


# What ``Claims.claim_due`` promises: runs in their order, each to one worker, and none that is not due.

EVENT = (EventKind.CUSTOM.draft(),)


async def runs_are_claimed_in_the_order_in_which_they_became_ready(world: JournalWorld) -> None:
    await _empty(world)
    runs = [await _one_after_another(world) for _ in range(5)]
    await world.storage.commit(Commit(run=runs[0], standing=Standing(phase=Phase.READY)))
    expected = [*runs[1:], runs[0]]
    assert [run for run in await world.storage.due(limit=MANY) if run in runs] == expected
    claims = await _taken(world, 3)
    assert _runs_of(claims) == expected[:3]
    assert {(claim.worker, claim.epoch, claim.recovered, claim.attempts) for claim in claims} == {("test", 1, False, 0)}
    assert all(claim.expires > datetime.now(UTC) for claim in claims)
    assert _runs_of(await _taken(world, 2)) == expected[3:]
    assert not {*_runs_of(await _taken(world, MANY))} & {*runs}
    assert await _taken(world, 0) == []


async def an_answered_run_comes_first_and_one_that_its_time_woke_comes_last(world: JournalWorld) -> None:
    await _empty(world)
    past = datetime.now(UTC) - timedelta(minutes=1)
    asleep, asked = new_run_id(), new_run_id()
    await world.storage.commit(Commit(run=asleep, standing=Standing(phase=Phase.SLEEPING, wake_at=past)))
    await world.storage.commit(asking(asked, "k"))
    started = [await _one_after_another(world) for _ in range(2)]
    await world.answer(asked, "k", True)
    mine = [asked, *started, asleep]
    assert [run for run in _runs_of(await _taken(world, MANY)) if run in mine] == mine
    assert await world.phase(asleep) is Phase.READY


async def a_released_run_keeps_its_place(world: JournalWorld) -> None:
    await _empty(world)
    first, second = await _one_after_another(world), await _one_after_another(world)
    (claim,) = await _taken(world, 1)
    await world.storage.release(claim)
    assert _runs_of(await _taken(world, 2)) == [first, second]


async def claims_of_a_batch_are_fenced_like_any_other(world: JournalWorld) -> None:
    run = await begun(world)
    (old,) = await _taken(world, 1, run, ttl=0.02)
    await until(lambda: is_due(world, run))
    (new,) = await _taken(world, 1, run, worker="second")
    assert (new.epoch, new.recovered, new.attempts) == (2, True, 1)
    with refused(ClaimLost):
        await world.storage.commit(Commit(run=run, events=EVENT), claim=old)
    await world.storage.commit(Commit(run=run, events=EVENT), claim=new)
    assert len(await world.storage.read_events(run)) == 2


async def a_claim_of_a_batch_has_what_running_its_run_needs(world: JournalWorld) -> None:
    run = await begun(world)
    await world.storage.commit(Commit(run=run, checkpoint=checkpoint(run)))
    (claim,) = await _taken(world, 1, run)
    assert claim.facts is not None
    assert (claim.facts.run, claim.facts.n, claim.facts.attempts) == (run, 1, 0)


async def workers_that_look_at_once_share_the_runs_and_each_is_claimed_once(world: JournalWorld) -> None:
    await _empty(world)
    runs = {await begun(world) for _ in range(24)}
    batches: list[Claim] = []
    while found := await asyncio.gather(*(_taken(world, 3, worker=f"w{number}") for number in range(4))):
        batches += (claims := [claim for batch in found for claim in batch])
        if not claims:
            break
    mine = [claim for claim in batches if claim.run in runs]
    assert sorted(_runs_of(mine)) == sorted(runs)
    assert len({claim.worker for claim in mine}) > 1
    assert all(claim.epoch == 1 for claim in mine)


async def only_those_asked_for_are_claimed_and_only_if_they_are_due(world: JournalWorld) -> None:
    due, other, held, waits = await begun(world), await begun(world), await begun(world), new_run_id()
    await claimed(world, held)
    await world.storage.commit(Commit(run=waits, standing=Standing(phase=Phase.WAITING)))
    given = [due, held, waits, new_run_id(), due]
    assert _runs_of(await _taken(world, 10, *given)) == [due]
    assert await is_due(world, other)


async def a_worker_gets_no_run_whose_code_it_lacks(world: JournalWorld) -> None:
    runs = [await _run_of(world, flow, version) for flow, version in (("a", "1"), ("a", "2"), ("b", "1"))]
    for wanted, served in (
        ([], Serves(workflows=())),
        (runs[1:2], Serves(workflows=("a", "c"), others=(("a", "1"), ("b", "1")))),
        (runs[2:], Serves(workflows=("b",))),
        (runs[:1], Serves(workflows=("a",))),
    ):
        asked = {"worker": "w", "ttl": 600, "serves": served}
        due = await world.storage.due(limit=MANY, serves=served)
        assert [run for run in due if run in runs] == wanted
        others = [run for run in runs if run not in wanted]
        assert _runs_of(await world.storage.claim_due(**asked, limit=3, runs=others)) == []
        assert [run for run in _runs_of(await world.storage.claim_due(**asked, limit=MANY)) if run in runs] == wanted


async def a_workflow_has_no_more_claims_than_its_limit(world: JournalWorld) -> None:
    await _empty(world)
    serves = _limited()
    few, many = await _runs_in(world, serves, 5, 3)
    assert await _placed(world, serves, MANY) == [*few[:2], *many]
    assert await _placed(world, serves, MANY) == await _placed(world, serves, MANY, *few) == []
    assert not {*few} & {*await world.storage.due(limit=MANY, serves=serves)}
    more = replace(serves, limits=dict.fromkeys(serves.limits, 3))
    assert await _placed(world, more, 1, few[4], ttl=0.01) == [few[4]]
    await until(lambda: is_due(world, few[4]))
    # One whose claim has expired is taken over in its own place, before others that are ready.
    assert await _placed(world, more, MANY) == [few[4]]


async def places_stay_with_expired_claims_while_none_is_taken_over(world: JournalWorld) -> None:
    await _empty(world)
    serves = _limited()
    few, _ = await _runs_in(world, serves, 4, 0)
    assert await _placed(world, serves, MANY, ttl=-60) == few[:2]
    asked = {"worker": "away", "ttl": 600, "limit": MANY, "serves": serves, "takeover": False}
    for runs in (None, few):
        assert _runs_of(await world.storage.claim_due(**asked, runs=runs)) == []
    assert await _placed(world, serves, MANY) == few[:2]


async def a_full_workflow_keeps_no_other_one_back(world: JournalWorld) -> None:
    await _empty(world)
    serves = _limited()
    few, many = await _runs_in(world, serves, 9, 2)
    assert await _placed(world, serves, 3) == [*few[:2], many[0]]
    assert await _placed(world, serves, 3) == [many[1]]


async def workers_that_claim_at_once_never_exceed_a_limit(world: JournalWorld) -> None:
    await _empty(world)
    serves = _limited()
    few, _ = await _runs_in(world, serves, 9, 0)
    taken: list[RunId] = []
    for _ in range(3):
        looks = [_placed(world, serves, 2, worker=f"w{number}") for number in range(4)]
        hints = [_placed(world, serves, 1, run, worker="w4") for run in few[:4]]
        taken += [run for batch in await asyncio.gather(*looks, *hints) for run in batch]
    assert len(taken) == len({*taken}) == 2


async def no_suspect_is_in_a_batch(world: JournalWorld) -> None:
    run = await begun(world)
    for worker in ("first", "second"):
        claim = await until(lambda: world.storage.claim(run, worker=worker, ttl=30))  # noqa: B023
        await world.storage.renew(claim, ttl=0.01)
    await until(lambda: is_due(world, run))
    assert await _taken(world, 1, run, worker="third") == []
    assert run not in _runs_of(await _taken(world, MANY, worker="third"))
    assert await is_due(world, run)


async def a_run_that_its_maker_drives_is_in_no_batch(world: JournalWorld) -> None:
    run = new_run_id()
    await world.storage.save(checkpoint(run))
    assert await _taken(world, 1, run) == []
    assert run not in _runs_of(await _taken(world, MANY))


async def _taken(world: JournalWorld, limit: int, *runs: RunId, worker: str = "test", ttl: float = 600) -> list[Claim]:
    """Return the claims that a worker gets, of these runs or of any."""
    return [*await world.storage.claim_due(worker=worker, ttl=ttl, limit=limit, runs=runs or None)]


def _limited() -> Serves:
    """Return workflows of which the first may have two claims; no other check has them."""
    few, many = (f"{name}-{new_run_id()}" for name in ("few", "many"))
    return Serves(workflows=(few, many), limits={few: 2})


async def _runs_in(world: JournalWorld, serves: Serves, *counts: int) -> list[list[RunId]]:
    """Return so many runs of each workflow that are ready."""
    return [
        [await _run_of(world, name) for _ in range(count)] for name, count in zip(serves.workflows, counts, strict=True)
    ]


async def _placed(
    world: JournalWorld, serves: Serves, limit: int, *runs: RunId, worker: str = "test", ttl: float = 600
) -> list[RunId]:
    """Return the runs that a worker claims, of these or of any."""
    asked = {"worker": worker, "ttl": ttl, "limit": limit, "serves": serves}
    return _runs_of(await world.storage.claim_due(**asked, runs=runs or None))


async def _run_of(world: JournalWorld, workflow: str, version: str = "1") -> RunId:
    """Return a new run of a workflow that is ready, and later ones are so at a later time of any clock."""
    run = new_run_id()
    first = checkpoint(run, workflow=WorkflowId(workflow), version=version)
    await world.storage.commit(Commit(run=run, checkpoint=first, standing=Standing(phase=Phase.READY)))
    await asyncio.sleep(0.002)
    return run


async def _one_after_another(world: JournalWorld) -> RunId:
    """Return a run that is ready, and later ones are so at a later time of any clock."""
    run = await begun(world)
    await asyncio.sleep(0.002)
    return run


async def _empty(world: JournalWorld) -> None:
    """Claim what is due from before."""
    while await _taken(world, 500, worker="before"):
        continue


def _runs_of(claims: Iterable[Claim]) -> list[RunId]:
    return [claim.run for claim in claims]


BATCHES = checks_in(globals())


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
