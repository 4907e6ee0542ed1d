from __future__ import annotations

from tests.live.world import handshake, make_person, open_socket
from wfdash.access.viewer import viewer_for
from wfdash.actions.account import create_token, revoke_token

SIGNED_OUT, NO_SUCH_RUN, RIGHT_LOST = 4401, 4404, 4403


def made(name: str, role: str, *, rights=("see", "inspect"), workflows=("*",)):
    return create_token(viewer_for(make_person(name, role)), "watch", rights=rights, workflows=workflows)


def with_token(text: str, *, cookie: str = "", origin: str | None = None):
    return [*handshake(cookie, origin=origin), (b"authorization", f"Bearer {text}".encode())]


async def closing(socket) -> int:
    await socket.connect(timeout=60)
    return (await socket.receive_output(timeout=60))["code"]


async def test_a_program_watches_a_run_with_a_token_and_without_an_origin(make_hub, db, run):
    new = await db.call(made, "otto", "operator")
    socket = open_socket(make_hub(), f"/live/runs/{run}/?after=0", with_token(new.text))
    assert await socket.connect(timeout=60) == (True, None)
    assert (await socket.receive_json_from(timeout=60))["type"] == "caught_up"
    await db.call(lambda: revoke_token(viewer_for(new.token.owner), new.token.pk))
    while (output := await socket.receive_output(timeout=60))["type"] != "websocket.close":
        pass
    assert output["code"] == SIGNED_OUT


async def test_a_bad_token_is_refused_although_there_is_a_session(make_hub, run, cookie):
    origin = "http://localhost:8000"
    socket = open_socket(make_hub(), f"/live/runs/{run}/", with_token("wfd_wrong", cookie=cookie, origin=origin))
    assert await closing(socket) == SIGNED_OUT


async def test_a_token_of_another_workflow_finds_no_run(make_hub, db, run):
    new = await db.call(lambda: made("otto", "operator", workflows=["another"]))
    assert await closing(open_socket(make_hub(), f"/live/runs/{run}/", with_token(new.text))) == NO_SUCH_RUN


async def test_two_tokens_in_one_handshake_are_none(make_hub, db, run):
    new = await db.call(made, "otto", "operator")
    headers = [*with_token(new.text), (b"authorization", b"Bearer x")]
    socket = open_socket(make_hub(), f"/live/runs/{run}/", headers)
    connected, code = await socket.connect(timeout=60)
    assert not connected
    assert code == RIGHT_LOST
