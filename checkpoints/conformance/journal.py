"""What every ``Journal`` promises."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from checkpoints.conformance.worlds import (
    JournalWorld,
    asking,
    begun,
    checkpoint,
    checks_in,
    claimed,
    commit,
    is_due,
    question,
    refused,
    until,
)
from checkpoints.errors import AlreadyAnswered, ClaimLost, Conflict
from checkpoints.events import EventKind
from checkpoints.ids import RequestKey, new_run_id
from checkpoints.records import Answer, Commit, Effect, Phase, Request, Standing
from checkpoints.storage import Journal

THREE = tuple(EventKind.CUSTOM.draft("s", name="n", data={"b": i, "a": "\x00é"}) for i in range(3))


async def it_has_every_method(world: JournalWorld) -> None:
    assert isinstance(world.storage, Journal)


async def events_are_numbered_without_gaps(world: JournalWorld) -> None:
    run = new_run_id()
    assert await commit(world, run, checkpoint=checkpoint(run), events=THREE) == 3
    assert await commit(world, run) == 3
    assert await commit(world, run, checkpoint=checkpoint(run, 2), events=THREE[:1]) == 4
    events = await world.storage.read_events(run)
    assert [event.seq for event in events] == [1, 2, 3, 4]
    assert [(e.kind, e.step, e.data) for e in events[:3]] == [(d.kind, d.step, d.data) for d in THREE]
    assert list(events[0].data["data"]) == ["b", "a"]
    assert [c.seq for c in await world.storage.list_checkpoints(run)] == [4, 3]
    assert abs(events[0].at - datetime.now(UTC)) < timedelta(seconds=30)


async def events_keep_their_own_times_within_the_bounds_of_the_run(world: JournalWorld) -> None:
    run = new_run_id()
    await commit(world, run, checkpoint=checkpoint(run), events=THREE[:1])
    (first,) = await world.storage.read_events(run)
    await asyncio.sleep(0.005)  # Longer than a clock's smallest part.
    early, late = first.at - timedelta(hours=1), first.at + timedelta(days=1)
    given = (early, first.at + timedelta(microseconds=1), early, late, None)
    drafts = [THREE[0].model_copy(update={"at": at}) for at in given]
    await commit(world, run, events=tuple(drafts))
    _, clamped, own, back, ahead, last = [event.at for event in await world.storage.read_events(run)]
    assert clamped == first.at
    assert own == back == first.at + timedelta(microseconds=1)
    assert own <= ahead <= last < late


async def reading_events_starts_after_a_cursor(world: JournalWorld) -> None:
    run = new_run_id()
    await commit(world, run, events=THREE)
    assert [e.seq for e in await world.storage.read_events(run, after=1)] == [2, 3]
    assert [e.seq for e in await world.storage.read_events(run, limit=2)] == [1, 2]
    assert await world.storage.read_events(run, after=3) == []
    assert await world.storage.read_events(new_run_id()) == []


async def a_conflicting_commit_leaves_nothing(world: JournalWorld) -> None:
    run = new_run_id()
    await commit(world, run, checkpoint=checkpoint(run), events=THREE)
    with refused(Conflict):
        again = asking(run, "k")
        await world.storage.commit(again)
    assert len(await world.storage.read_events(run)) == 3
    assert await world.request_ids(run) == []
    assert await world.phase(run) is Phase.READY


async def a_commit_that_is_no_json_leaves_nothing(world: JournalWorld) -> None:
    run = await begun(world)
    bad = EventKind.CUSTOM.draft(data=float("nan"))
    with refused(ValueError, saying="JSON"):
        await commit(world, run, checkpoint=checkpoint(run), events=(bad,))
    assert await world.storage.get_latest(run) is None
    assert len(await world.storage.read_events(run)) == 1


async def a_parked_run_is_not_due_until_it_is_answered(world: JournalWorld) -> None:
    run = new_run_id()
    await world.storage.commit(asking(run, "a", "b"))
    assert await world.phase(run) is Phase.WAITING
    assert not await is_due(world, run)
    assert await world.storage.read_answers(run) == {}
    await world.answer(run, "a", {"action": "approve"})
    assert await is_due(world, run)
    answers = await world.storage.read_answers(run)
    assert list(answers) == ["a"]
    answer = answers[RequestKey("a")]
    assert (answer.value, answer.by) == ({"action": "approve"}, "rosa")
    assert answer.at is not None
    assert abs(answer.at - datetime.now(UTC)) < timedelta(seconds=30)


async def an_opened_event_names_its_row(world: JournalWorld) -> None:
    run = new_run_id()
    await world.storage.commit(asking(run, "a", "b"))
    events = await world.storage.read_events(run)
    assert sorted(event.data["request"] for event in events) == sorted(await world.request_ids(run))
    assert [event.data["key"] for event in events] == ["a", "b"]


async def a_taken_answer_is_not_read_again(world: JournalWorld) -> None:
    run = new_run_id()
    await world.storage.commit(asking(run, "a", "b"))
    await world.answer(run, "a", 1)
    claim = await claimed(world, run)
    closed = (RequestKey("a"), RequestKey("b"))
    await commit(world, run, checkpoint=checkpoint(run, 2), closed=closed, claim=claim)
    assert await world.storage.read_answers(run) == {}
    assert await world.closed_as(run, "a") == ["taken"]
    assert await world.closed_as(run, "b") == ["withdrawn"]


async def a_closed_key_may_be_asked_again(world: JournalWorld) -> None:
    run = new_run_id()
    await world.storage.commit(asking(run, "a"))
    again = asking(run, "a", n=2)
    await world.storage.commit(again.model_copy(update={"closed": (RequestKey("a"),)}))
    assert await world.closed_as(run, "a") == ["withdrawn", ""]


async def a_pending_key_is_not_asked_twice(world: JournalWorld) -> None:
    run = new_run_id()
    await world.storage.commit(asking(run, "a"))
    await world.storage.commit(asking(run, "a", n=2))
    (row,) = await world.request_ids(run)
    assert {e.data["request"] for e in await world.storage.read_events(run)} == {row}


async def parking_under_an_answer_that_came_before_makes_the_run_ready(world: JournalWorld) -> None:
    for phase in (Phase.WAITING, Phase.SLEEPING, Phase.RETRYING):
        run = await begun(world)
        claim = await claimed(world, run)
        asked = asking(run, "a").model_copy(update={"standing": None})
        await world.storage.commit(asked, claim=claim)
        await world.answer(run, "a", 1)
        await commit(world, run, standing=Standing(phase=phase), claim=claim)
        assert await world.phase(run) is Phase.READY
        assert await is_due(world, run)


async def answers_and_parking_at_once_never_strand_a_run(world: JournalWorld) -> None:
    async def race() -> None:
        run = await begun(world)
        claim = await claimed(world, run)
        await world.storage.commit(asking(run, "a").model_copy(update={"standing": None}), claim=claim)
        park = commit(world, run, standing=Standing(phase=Phase.WAITING), claim=claim)
        await asyncio.gather(park, world.answer(run, "a", 1))
        assert await is_due(world, run)

    for _ in range(5):
        await asyncio.gather(*(race() for _ in range(4)))


async def a_standing_releases_the_claim_and_ends_the_run(world: JournalWorld) -> None:
    run = await begun(world)
    claim = await claimed(world, run)
    end = Standing(phase=Phase.COMPLETED, output={"paid": 1})
    await commit(world, run, checkpoint=checkpoint(run), standing=end, claim=claim)
    assert await world.phase(run) is Phase.COMPLETED
    assert not await is_due(world, run)
    with refused(ClaimLost):
        await commit(world, run, events=THREE, claim=claim)


async def what_looks_encrypted_comes_back_as_it_was_given(world: JournalWorld) -> None:
    run, odd = new_run_id(), {"sealed": "wfdash-sealed:00000000:eA=="}
    said = EventKind.CUSTOM.draft(name=odd["sealed"], data=odd)
    await commit(world, run, checkpoint=checkpoint(run, body=odd), events=(said,))
    latest = await world.storage.get_latest(run)
    assert latest is not None
    assert latest.body == odd
    assert [event.data for event in await world.storage.read_events(run)] == [said.data]


async def a_sleeping_run_is_due_when_its_time_has_come(world: JournalWorld) -> None:
    run, asleep, other = new_run_id(), new_run_id(), new_run_id()
    soon = datetime.now(UTC) + timedelta(seconds=0.1)
    late = soon + timedelta(hours=1)
    await commit(world, asleep, standing=Standing(phase=Phase.SLEEPING, wake_at=late))
    await commit(world, other, standing=Standing(phase=Phase.WAITING, wake_at=late))
    await commit(world, run, standing=Standing(phase=Phase.SLEEPING, wake_at=soon))
    assert await world.storage.claim(asleep, worker="w", ttl=5) is None
    await until(lambda: is_due(world, run))
    assert not await is_due(world, asleep)
    assert not await is_due(world, other)
    await claimed(world, run)
    assert not await is_due(world, run)


async def an_intent_becomes_its_result_in_place(world: JournalWorld) -> None:
    run = await begun(world)
    intent = Effect(key="s/1", step="s", name="charge", once=True, state="intended")
    plain = Effect(key="s/2", step="s", name="look_up", result=[1])
    await commit(world, run, effects=(intent,))
    done = intent.model_copy(update={"state": "done", "result": {"id": 7}})
    await commit(world, run, effects=(done, plain))
    assert await world.effects(run) == [("s/1", "done", {"id": 7}), ("s/2", "done", [1])]


async def a_call_made_again_after_a_restore_is_a_second_row(world: JournalWorld) -> None:
    run = await begun(world)
    call = Effect(key="s/1", step="s", name="charge", result=1)
    await commit(world, run, effects=(call,))
    await commit(world, run, effects=(call.model_copy(update={"result": 2}),))
    assert [result for _, _, result in await world.effects(run)] == [1, 2]


async def fifty_runs_commit_at_once_and_never_mix(world: JournalWorld) -> None:
    runs = [await begun(world) for _ in range(50)]
    claims = await asyncio.gather(*(claimed(world, run) for run in runs))

    async def drive(place: int) -> None:
        run = runs[place]
        for n in range(1, 6):
            body = {"state": {"run": run, "n": n}}
            one = Commit(run=run, checkpoint=checkpoint(run, n, body=body), events=THREE)
            assert await world.storage.commit(one, claim=claims[place]) == 1 + 3 * n

    await asyncio.gather(*(drive(place) for place in range(50)))
    for run in runs:
        events = await world.storage.read_events(run)
        assert [(e.run, e.seq) for e in events] == [(run, seq) for seq in range(1, 17)]
        latest = await world.storage.get_latest(run)
        assert latest is not None
        assert latest.body == {"state": {"run": run, "n": 5}}


async def one_failing_commit_spoils_no_other_of_its_group(world: JournalWorld) -> None:
    good, bad = [await begun(world) for _ in range(10)], [await begun(world) for _ in range(10)]
    for run in bad:
        await world.storage.save(checkpoint(run, 1))
    outcomes = await asyncio.gather(
        *(commit(world, run, checkpoint=checkpoint(run), events=THREE) for run in [*good, *bad]),
        return_exceptions=True,
    )
    assert outcomes[:10] == [4] * 10
    assert all(isinstance(outcome, Conflict) for outcome in outcomes[10:])
    assert [len(await world.storage.read_events(run)) for run in bad] == [1] * 10


async def a_request_carries_all_it_was_asked_with(world: JournalWorld) -> None:
    run = new_run_id()
    due = datetime.now(UTC) + timedelta(days=1)
    request = Request(key=RequestKey("k"), step="s", kind="approval", card={"subject": "x"}, by=("a",), due=due)
    await commit(world, run, checkpoint=checkpoint(run, requests=(request,)), opened=(request,))
    latest = await world.storage.get_latest(run)
    assert latest is not None
    assert latest.requests == (request,)


async def a_driver_records_the_answers_it_was_given(world: JournalWorld) -> None:
    run = new_run_id()
    await world.storage.commit(asking(run, "a", "b"))
    given = (Answer(key=RequestKey("a"), value={"action": "approve"}, by="rosa"),)
    event = EventKind.REQUEST_ANSWERED.draft(key="a")
    await commit(world, run, answered=given, events=(event,))
    found = (await world.storage.read_answers(run))[RequestKey("a")]
    assert found.value == {"action": "approve"}
    assert found.at is not None
    assert (await world.storage.read_events(run))[-1].data["request"] == (await world.request_ids(run))[0]
    await commit(world, run, checkpoint=checkpoint(run, 2), closed=(RequestKey("a"),))
    assert await world.closed_as(run, "a") == ["taken"]
    assert await world.storage.read_answers(run) == {}
    assert (await world.storage.read_past_answers(run))[RequestKey("a")].value == {"action": "approve"}


async def another_answer_than_the_first_is_refused_with_who_and_what(world: JournalWorld) -> None:
    run = new_run_id()
    await world.storage.commit(asking(run, "a"))
    await world.answer(run, "a", "no")
    before = len(await world.storage.read_events(run))
    other = Commit(run=run, answered=(Answer(key=RequestKey("a"), value="yes"),), events=THREE)
    with refused(AlreadyAnswered, saying="by rosa") as caught:
        await world.storage.commit(other)
    facts = caught[0].facts
    assert (facts["run"], facts["key"], facts["by"], facts["value"]) == (run, "a", "rosa", "no")
    assert facts["at"] is not None
    assert len(await world.storage.read_events(run)) == before
    same = Commit(run=run, answered=(Answer(key=RequestKey("a"), value="no"),))
    await world.storage.commit(same)
    assert (await world.storage.read_answers(run))[RequestKey("a")].by == "rosa"


async def an_answer_to_nothing_is_recorded_nowhere(world: JournalWorld) -> None:
    run = new_run_id()
    await world.storage.commit(asking(run, "a"))
    await commit(world, run, answered=(Answer(key=RequestKey("b"), value=1),))
    assert await world.storage.read_answers(run) == {}


async def a_restore_asks_again_what_was_open_then(world: JournalWorld) -> None:
    run = new_run_id()
    await world.storage.commit(asking(run, "a", "b"))
    await world.answer(run, "a", 1)
    back = checkpoint(run, 2, requests=(question("a"),))
    await commit(world, run, checkpoint=back, opened=back.requests, restores=True)
    assert await world.closed_as(run, "a") == ["superseded", ""]
    assert await world.closed_as(run, "b") == ["superseded"]
    assert await world.storage.read_answers(run) == {}


JOURNAL = checks_in(globals())
