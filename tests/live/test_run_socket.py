from __future__ import annotations

import asyncio
import random

import pytest
from django.contrib.auth.models import User

from checkpoints.models import Event, Grant
from tests.live.world import Watching, append_events, handshake, make_person, make_run, open_socket, sign_in, sign_out
from wfdash import pubsub
from wfdash.access.signin.sessions import SessionStore

NEVER = 1000.0


async def test_replays_then_follows_under_one_cursor(make_hub, db, run, cookie) -> None:
    await db.call(append_events, run, 250)
    viewer = await Watching(make_hub(poll_every=NEVER), run, cookie, after=10).connect()
    await viewer.until(250)
    assert (await viewer.take()) == {"type": "caught_up", "seq": 250}
    for _ in range(20):
        pubsub.runs_changed.publish(run, await db.call(append_events, run))
        await viewer.take()
    assert viewer.seen == list(range(11, 271))


async def test_an_event_carries_kind_step_time_and_row(make_hub, db, run, cookie) -> None:
    await db.call(append_events, run, kind="step.finished", data={"output": 7})
    viewer = await Watching(make_hub(), run, cookie).connect()
    message = await viewer.take()
    at = "2026-01-01T00:00:00+00:00"
    row = "<li>1 {'output': 7}</li>"
    assert message["events"] == [{"seq": 1, "kind": "step.finished", "step": None, "at": at, "html": row}]


async def test_a_reviewer_sees_events_without_their_values(make_hub, db, run, cookie) -> None:
    reviewer = await db.call(lambda: sign_in(make_person("rosa", "reviewer")))
    await db.call(append_events, run, data={"salary": 9000})
    hub = make_hub()
    seeing, inspecting = Watching(hub, run, reviewer), Watching(hub, run, cookie)
    for viewer in seeing, inspecting:
        await viewer.follow()
    assert seeing.html == ["<li>1 </li>"]
    assert inspecting.html == ["<li>1 {'salary': 9000}</li>"]
    pubsub.text_streamed.publish(run, "write", "secret")
    await inspecting.take()
    assert inspecting.texts == ["secret"]
    assert await seeing.socket.receive_nothing(timeout=0.2)


async def test_the_text_of_a_step_comes_before_the_event_that_follows_it(make_hub, db, run, cookie) -> None:
    viewer = await Watching(make_hub(poll_every=NEVER, stream_every=NEVER), run, cookie).follow()
    pubsub.text_streamed.publish(run, "write", "The end", True)
    pubsub.runs_changed.publish(run, await db.call(append_events, run))
    assert [(await viewer.take())["type"] for _ in range(2)] == ["stream", "events"]
    assert viewer.texts == ["The end"]


async def test_who_comes_late_reads_streamed_text_from_its_beginning_and_nothing_twice(
    make_hub, db, run, cookie
) -> None:
    hub = make_hub(stream_every=0.02)
    first, reviewer = Watching(hub, run, cookie), Watching(hub, run, await db.call(rosa))
    await first.follow()
    pubsub.streamed_text.add(run, "write", "It was ")
    await first.take()
    pubsub.streamed_text.add(run, "write", "a dark ")  # on its way when the second comes
    second = await Watching(hub, run, cookie).connect()
    await reviewer.connect()
    pubsub.streamed_text.add(run, "write", "night.")
    while not "".join(first.texts).endswith("night."):
        await first.take()
    while not "".join(second.texts).endswith("night."):
        await second.take()
    assert "".join(first.texts) == "It was a dark night."
    assert "".join(second.texts) == "It was a dark night."
    await reviewer.caught_up()
    assert reviewer.texts == []
    pubsub.streamed_text.forget(run, "write")
    assert pubsub.streamed_text.of(run) == {}
    pubsub.streamed_text.forget(run)


def rosa() -> str:
    return sign_in(make_person("rosa", "reviewer"))


async def test_the_poll_finds_events_whose_bell_was_lost(make_hub, db, run, cookie) -> None:
    viewer = await Watching(make_hub(poll_every=0.05), run, cookie).follow()
    await db.call(append_events, run, 3)
    await viewer.until(3)


async def test_nothing_is_lost_or_doubled_over_hundreds_of_reconnects_and_a_lying_bell(
    make_hub, db, run, cookie
) -> None:
    hub = make_hub(poll_every=0.05)
    dice = random.Random(7)
    total, connects = 2_000, 0

    async def write() -> None:
        late: list[int] = []
        while (await db.call(append_events, run, dice.randint(1, 8))) < total:
            seq = dice.randint(1, total * 2)  # too early, too late, far too high
            late.append(seq)
            for ring in dice.choices([[], [seq], [seq, seq], dice.sample(late, min(3, len(late)))])[0]:
                pubsub.runs_changed.publish(run, ring)
            await asyncio.sleep(dice.random() / 100)

    async def watch(viewer: Watching) -> None:
        nonlocal connects
        while viewer.last < total:
            await viewer.connect()
            connects += 1
            for _ in range(dice.randint(1, 6)):
                if viewer.last < total:
                    await viewer.take(ack=dice.random() < 0.7)
            await viewer.hang_up()

    viewers = [Watching(hub, run, cookie) for _ in range(6)]
    await asyncio.gather(write(), *map(watch, viewers))
    for viewer in viewers:
        assert viewer.seen == list(range(1, viewer.last + 1))
        assert not viewer.snapshots
    assert connects > 200


async def test_a_gap_too_large_is_one_snapshot(make_hub, db, run, cookie) -> None:
    await db.call(append_events, run, 1_500)
    viewer = await Watching(make_hub(), run, cookie).connect()
    assert await viewer.take() == {"type": "snapshot", "seq": 1_500}
    assert await viewer.take() == {"type": "caught_up", "seq": 1_500}
    pubsub.runs_changed.publish(run, await db.call(append_events, run))
    await viewer.until(1_501)
    assert viewer.seen == [1_501]


async def test_a_cursor_beyond_the_end_is_a_snapshot(make_hub, db, run, cookie) -> None:
    await db.call(append_events, run, 5)
    viewer = await Watching(make_hub(), run, cookie, after=99).connect()
    assert await viewer.take() == {"type": "snapshot", "seq": 5}


async def test_events_that_are_no_longer_kept_are_a_snapshot_not_a_hole(make_hub, db, run, cookie) -> None:
    await db.call(append_events, run, 10)
    await db.call(lambda: Event.objects.filter(run_id=run, seq__lte=4).delete())
    viewer = await Watching(make_hub(), run, cookie).connect()
    await viewer.until(10)
    assert viewer.snapshots == [4]
    assert viewer.seen == [5, 6, 7, 8, 9, 10]


async def test_a_slow_viewer_is_sent_no_more_than_its_credit_and_catches_up_later(make_hub, db, run, cookie) -> None:
    hub = make_hub(unacked_events=20, batch_events=7, poll_every=NEVER)
    slow, quick = Watching(hub, run, cookie), Watching(hub, run, cookie)
    for viewer in slow, quick:
        await viewer.follow()
    for _ in range(30):
        pubsub.runs_changed.publish(run, await db.call(append_events, run, 5))
    await quick.until(150)
    while slow.last < 20:
        await slow.take(ack=False)
    assert await slow.socket.receive_nothing(timeout=0.2)
    assert slow.last == 20
    await slow.ack(20)
    await slow.until(150)
    assert slow.seen == quick.seen == list(range(1, 151))


async def test_credit_counts_bytes_too(make_hub, db, run, cookie) -> None:
    await db.call(append_events, run, 50, data={"x": "y" * 1_000})
    viewer = await Watching(make_hub(unacked_bytes=5_000), run, cookie).connect()
    await viewer.take(ack=False)
    assert 1 <= viewer.last <= 5
    assert await viewer.socket.receive_nothing(timeout=0.1)
    await viewer.ack(viewer.last)
    await viewer.until(50)


async def test_a_viewer_that_never_acknowledges_is_closed(make_hub, db, run, cookie) -> None:
    await db.call(append_events, run, 3)
    viewer = await Watching(make_hub(ack_timeout=0.1, tick=0.02), run, cookie).connect()
    assert await viewer.closed() == 4408


async def test_a_quiet_viewer_that_owes_nothing_stays(make_hub, db, run, cookie) -> None:
    viewer = await Watching(make_hub(ack_timeout=0.05, tick=0.01), run, cookie).follow()
    assert await viewer.socket.receive_nothing(timeout=0.3)


async def test_streamed_text_is_joined_and_limited(make_hub, db, run, cookie) -> None:
    viewer = await Watching(make_hub(stream_every=0.1, unheard_text=3_000), run, cookie).follow()
    for number in range(200):
        pubsub.text_streamed.publish(run, "write", f"{number} ")
        await asyncio.sleep(0.001)
    while not "".join(viewer.texts).endswith("199 "):
        await viewer.take()
    assert "".join(viewer.texts) == "".join(f"{n} " for n in range(200))
    assert len(viewer.texts) < 30
    pubsub.text_streamed.publish(run, "write", "z" * 5_000)
    assert await viewer.socket.receive_nothing(timeout=0.3)
    assert await db.call(Event.objects.count) == 0


async def test_many_viewers_cost_one_read(make_hub, db, run, cookie) -> None:
    hub = make_hub(poll_every=NEVER)
    viewers = [Watching(hub, run, cookie) for _ in range(15)]
    for viewer in viewers:
        await viewer.follow()
    before = hub.feeds[run].loads
    pubsub.runs_changed.publish(run, await db.call(append_events, run, 40))
    for viewer in viewers:
        await viewer.until(40)
    assert hub.feeds[run].loads == before + 1


async def test_the_hub_is_silent_when_no_one_watches(make_hub, db, run, cookie) -> None:
    hub = make_hub()
    viewer = await Watching(hub, run, cookie).follow()
    assert list(hub.feeds) == [run]
    await viewer.hang_up()
    assert not hub.feeds
    pubsub.runs_changed.publish(run, 5)


async def test_a_row_that_cannot_be_rendered_does_not_stop_the_stream(make_hub, db, run, cookie, caplog) -> None:
    hub = make_hub()

    def fail_once(event: Event, *, inspect: bool) -> str:
        if event.seq == 2:
            raise ZeroDivisionError
        return "row"

    hub.write.render = fail_once
    await db.call(append_events, run, 3)
    viewer = await Watching(hub, run, cookie).connect()
    await viewer.until(3)
    assert viewer.html == ["row", "", "row"]
    assert "could not be rendered" in caplog.text


async def test_a_stranger_and_an_unknown_run_look_the_same(make_hub, db, run, cookie) -> None:
    elsewhere = await db.call(lambda: sign_in(make_person("sam", "operator", "other")))
    no_one = await db.call(lambda: sign_in(make_person("noah")))
    hub = make_hub()
    for who, which in (elsewhere, run), (no_one, run), (cookie, "no-such-run"):
        viewer = await Watching(hub, which, who).connect()
        assert await viewer.closed() == 4404
    assert not hub.feeds


async def test_anyone_who_is_not_signed_in_is_told_so(make_hub, db, run) -> None:
    for cookie in "", "sessionid=forged":
        viewer = await Watching(make_hub(), run, cookie).connect()
        assert await viewer.closed() == 4401


async def test_a_withdrawn_right_ends_the_socket(make_hub, db, run, cookie) -> None:
    viewer = await Watching(make_hub(recheck_every=0.05), run, cookie).follow()
    await db.call(lambda: Grant.objects.all().delete())
    assert await viewer.closed() == 4403


async def test_signing_out_ends_the_socket(make_hub, db, run, cookie) -> None:
    viewer = await Watching(make_hub(recheck_every=0.05), run, cookie).follow()
    await db.call(sign_out, cookie)
    assert await viewer.closed() == 4401


@pytest.mark.parametrize(
    ("happens", "code"),
    [
        (lambda cookie: SessionStore(cookie.partition("=")[2]).flush(), 4401),
        (lambda cookie: Grant.objects.get().delete(), 4403),
        (lambda cookie: deactivate(), 4401),
    ],
)
async def test_signing_out_and_losing_a_right_end_the_socket_long_before_the_next_look(
    make_hub, db, run, cookie, happens, code
) -> None:
    viewer = await Watching(make_hub(recheck_every=3600.0), run, cookie).follow()
    await db.call(happens, cookie)
    assert await viewer.closed() == code


def deactivate() -> None:
    user = User.objects.get()
    user.is_active = False
    user.save()


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("x", 4400),
        ("[1]", 4400),
        ('{"ack": true}', 4400),
        ('{"ack": 1, "more": 2}', 4400),
        ('{"ack": 99}', 4400),
        ("[" * 4_000, 4400),
        ('{"ack": 0}' + " " * 4_096, 4413),
    ],
)
async def test_a_bad_frame_closes_the_socket(make_hub, run, cookie, frame, code) -> None:
    viewer = await Watching(make_hub(), run, cookie).connect()
    await viewer.socket.send_to(text_data=frame)
    assert await viewer.closed() == code


async def test_a_binary_frame_closes_the_socket(make_hub, run, cookie) -> None:
    viewer = await Watching(make_hub(), run, cookie).connect()
    await viewer.socket.send_to(bytes_data=b"\x80")
    assert await viewer.closed() == 4400


async def test_a_flood_of_frames_closes_the_socket(make_hub, run, cookie) -> None:
    viewer = await Watching(make_hub(frames_per_second=20), run, cookie).connect()
    for _ in range(21):
        await viewer.ack(0)
    assert await viewer.closed() == 4429


@pytest.mark.parametrize("after", ["-1", "x", "1&after=2", "9" * 20, "%C2%B2"])
async def test_a_bad_cursor_closes_the_socket(make_hub, run, cookie, after) -> None:
    viewer = Watching(make_hub(), run, cookie)
    viewer.last = after
    await viewer.connect()
    assert await viewer.closed() == 4400


async def test_one_person_has_a_bounded_number_of_sockets(make_hub, db, run, cookie) -> None:
    hub = make_hub(sockets_per_person=2)
    first, second, third = (Watching(hub, run, cookie) for _ in range(3))
    await first.connect()
    await second.follow()
    await first.caught_up()
    await third.connect()
    assert await third.closed() == 4429
    await first.hang_up()
    await third.follow()


async def test_an_unknown_address_is_refused(make_hub, cookie) -> None:
    assert (await open_socket(make_hub(), "/live/nothing/", handshake(cookie)).connect())[0] is False


async def test_one_run_never_shows_another(make_hub, db, run, cookie) -> None:
    other = await db.call(make_run, "other")
    hub = make_hub()
    viewer = await Watching(hub, run, cookie).follow()
    pubsub.runs_changed.publish(other, await db.call(append_events, other, 3))
    pubsub.text_streamed.publish(other, "write", "text")
    assert await viewer.socket.receive_nothing(timeout=0.2)
