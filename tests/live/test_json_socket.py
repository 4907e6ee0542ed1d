"""``?format=json``: the same socket for programs."""

from __future__ import annotations

import json

import pytest

from checkpoints.models import Run
from tests.live.world import Watching, append_events, end_run, handshake, make_person, open_socket, sign_in
from wfdash import pubsub

NEVER = 1000.0


async def test_a_program_gets_records_and_a_version(make_hub, db, run, cookie) -> None:
    await db.call(append_events, run, kind="step.finished", data={"output": 7, "ms": 3})
    viewer = await Watching(make_hub(), run, cookie, style="json").connect()
    message = await viewer.take()
    data = {"output": 7, "ms": 3}
    record = {"seq": 1, "kind": "step.finished", "step": None, "data": data, "at": "2026-01-01T00:00:00Z"}
    assert message == {"v": 1, "type": "events", "events": [record], "last": 1}
    assert await viewer.take() == {"v": 1, "type": "caught_up", "seq": 1}


async def test_pages_and_programs_share_one_read_and_get_each_their_own(make_hub, db, run, cookie) -> None:
    hub = make_hub(poll_every=NEVER)
    page, program = Watching(hub, run, cookie), Watching(hub, run, cookie, style="json")
    for viewer in page, program:
        await viewer.follow()
    pubsub.runs_changed.publish(run, await db.call(append_events, run, 40))
    await page.until(40)
    await program.until(40)
    assert len(page.html) == len(program.records) == 40
    assert "html" not in program.records[0]


async def test_a_program_that_may_not_inspect_gets_neither_values_nor_text(make_hub, db, run, cookie) -> None:
    reviewer = await db.call(lambda: sign_in(make_person("rosa", "reviewer")))
    await db.call(append_events, run, kind="step.finished", data={"output": 9000, "ms": 3})
    viewer = await Watching(make_hub(), run, reviewer, style="json").follow()
    assert viewer.records[0]["data"] == {"ms": 3}
    pubsub.streamed_text.add(run, "write", "secret")
    assert await viewer.socket.receive_nothing(timeout=0.2)
    pubsub.streamed_text.forget(run)


async def test_a_program_is_sent_everything_however_far_behind_it_is(make_hub, db, run, cookie) -> None:
    await db.call(append_events, run, 1_500)
    viewer = await Watching(make_hub(), run, cookie, style="json").connect()
    await viewer.until(1_500)
    assert viewer.seen == list(range(1, 1_501))
    assert not viewer.snapshots


@pytest.mark.parametrize("phase", ["completed", "failed", "cancelled"])
async def test_the_socket_of_a_program_ends_with_the_run(make_hub, db, run, cookie, phase: str) -> None:
    viewer = await Watching(make_hub(poll_every=NEVER), run, cookie, style="json").follow()
    pubsub.runs_changed.publish(run, await db.call(end_run, run, phase))
    await viewer.until(1)
    assert await viewer.take() == {"v": 1, "type": "end", "seq": 1, "status": phase}
    assert await viewer.closed() == 1000


async def test_a_run_that_goes_on_after_its_end_is_followed(make_hub, db, run, cookie) -> None:
    await db.call(end_run, run, "failed")
    await db.call(lambda: Run.objects.filter(pk=run).update(phase="ready"))
    await db.call(append_events, run, kind="run.retried")
    viewer = await Watching(make_hub(), run, cookie, style="json").follow()
    assert await viewer.socket.receive_nothing(timeout=0.1)
    pubsub.runs_changed.publish(run, await db.call(end_run, run))
    await viewer.until(3)
    assert (await viewer.take())["type"] == "end"
    assert await viewer.closed() == 1000


async def test_a_page_stays_connected_when_its_run_ends(make_hub, db, run, cookie) -> None:
    await db.call(end_run, run)
    viewer = await Watching(make_hub(), run, cookie).follow()
    assert await viewer.socket.receive_nothing(timeout=0.1)


async def test_a_new_attempt_begins_its_text_and_a_lost_beginning_is_said(make_hub, db, run, cookie) -> None:
    viewer = await Watching(make_hub(stream_every=0.01), run, cookie, style="json").follow()
    pubsub.streamed_text.add(run, "write", "It was")
    assert await viewer.take() == {"v": 1, "type": "stream", "step": "write", "text": "It was", "begin": True}
    pubsub.streamed_text.add(run, "write", " dark")
    assert await viewer.take() == {"v": 1, "type": "stream", "step": "write", "text": " dark"}
    pubsub.streamed_text.forget(run, "write")  # the attempt failed
    pubsub.streamed_text.add(run, "write", "Once")
    assert await viewer.take() == {"v": 1, "type": "stream", "step": "write", "text": "Once", "begin": True}
    for _ in range(5):
        pubsub.streamed_text.add(run, "write", "x" * 4_000)
    late = await Watching(viewer.hub, run, cookie, style="json").connect()
    message = await late.take()
    assert (message["begin"], message["cut"], len(message["text"])) == (True, True, 16_000)
    pubsub.streamed_text.forget(run)


async def test_text_that_was_dropped_is_said_with_the_next(make_hub, db, run, cookie) -> None:
    viewer = await Watching(make_hub(stream_every=0.01, unheard_text=1_000), run, cookie, style="json").follow()
    pubsub.streamed_text.add(run, "write", "z" * 5_000)
    assert await viewer.socket.receive_nothing(timeout=0.2)
    pubsub.streamed_text.add(run, "write", "on")
    assert await viewer.take() == {"v": 1, "type": "stream", "step": "write", "text": "on", "begin": True, "cut": True}
    pubsub.streamed_text.forget(run)


async def test_the_lists_have_a_version_for_programs(make_hub, run, cookie) -> None:
    socket = open_socket(make_hub(), "/live/lists/?format=json", handshake(cookie))
    assert await socket.connect() == (True, None)
    assert json.loads(await socket.receive_from()) == {"v": 1, "type": "changed", "what": ["inbox", "runs"]}


@pytest.mark.parametrize("address", ["/live/runs/{}/", "/live/lists/"])
@pytest.mark.parametrize("style", ["sse", "xml", "", "json&format=json"])
async def test_an_unknown_format_closes_the_socket(make_hub, run, cookie, address: str, style: str) -> None:
    socket = open_socket(make_hub(), f"{address.format(run)}?format={style}", handshake(cookie))
    assert await socket.connect() == (True, None)
    assert (await socket.receive_output(timeout=5))["code"] == 4400
    await socket.wait()
