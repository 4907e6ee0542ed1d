"""The agent that answers customers: with its scripted model, and with a model that an endpoint of OpenAI's API has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from wfdash.examples.support_agent import support_agent
from wfdash.testing import Bench, bench

BROKEN = {"customer": "Mara", "message": "Order 1042 arrived broken."}


@pytest.fixture
async def desk() -> Any:
    async with bench(support_agent, people={"ana": []}) as found:
        yield found


@pytest.mark.parametrize(
    ("answer", "reply", "refunded"),
    [
        ({"action": "approve"}, "We have paid back 89.90 euros.", [1042]),
        ({"action": "edit", "arguments": {"order": 1042, "amount": 20, "reason": "scratch"}}, "20.00 euros", [1042]),
        ({"action": "reject", "feedback": "Send a photo first."}, "About your money: Send a photo first.", []),
    ],
)
async def test_a_refund_waits_for_a_person_who_has_the_last_word(
    desk: Bench, answer: Any, reply: str, refunded: list[int]
) -> None:
    run = await desk.start(BROKEN)
    assert run.request.subject == "1042, 89.9, Desk lamp arrived broken · refund"
    await desk.answer(run, answer, by="ana")
    assert reply in run.result()["reply"]
    assert (run.result()["refunded"], run.result()["turns"]) == (refunded, 3)


async def test_no_answer_in_time_is_a_rejection(desk: Bench) -> None:
    run = await desk.start(BROKEN)
    await desk.advance("9h")
    assert run.result()["refunded"] == []


@pytest.mark.parametrize(
    ("message", "reply"),
    [("It is broken.", "the number of your order"), ("Order 9999 is broken.", "There is no order 9999")],
)
async def test_nothing_is_paid_for_an_order_that_is_not_known(desk: Bench, message: str, reply: str) -> None:
    run = await desk.start({"customer": "Mara", "message": message})
    assert reply in run.result()["reply"]
    assert run.result()["refunded"] == []


async def test_the_agent_remembers_what_was_said_and_done_when_the_customer_writes_again(desk: Bench) -> None:
    first = await desk.start(BROKEN)
    await desk.answer(first, "approve", by="ana")
    second = await desk.follow_up(first, "When do I get the money?")
    assert second.result() == {
        "reply": "We have paid back 89.90 euros for order 1042 already. A bank takes up to three days.",
        "refunded": [],
        "turns": 1,
    }
    third = await desk.follow_up(second, "And order 1077 wobbles.")
    assert third.request.subject == "1077, 420.0, Office chair arrived broken · refund"
    await desk.answer(third, "approve", by="ana")
    assert third.result()["refunded"] == [1077]


class Endpoint(BaseHTTPRequestHandler):
    """Speaks as much of OpenAI's API as a chat needs."""

    asked: list[dict[str, Any]] = []

    def do_POST(self) -> None:
        self.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        piece = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "small"}
        said = {"index": 0, "delta": {"role": "assistant", "content": "A person will help."}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
        body = "".join(
            f"data: {json.dumps({**piece, **part})}\n\n"
            for part in ({"choices": [said]}, {"choices": [], "usage": usage})
        )
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(f"{body}data: [DONE]\n\n".encode())

    def log_message(self, *args: object) -> None:
        """Keep quiet."""


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    server = HTTPServer(("127.0.0.1", 0), Endpoint)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("WFDASH_AGENT_MODEL", "small")
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "not-needed")
    monkeypatch.setattr(Endpoint, "asked", [])
    yield Endpoint.asked
    server.shutdown()
    server.server_close()
    thread.join()


async def test_the_environment_names_any_endpoint_that_speaks_openais_api(desk: Bench, endpoint: Any) -> None:
    run = await desk.start(BROKEN)
    assert run.result()["reply"] == "A person will help."
    (asked,) = endpoint
    assert asked["model"] == "small"
    assert sorted(tool["function"]["name"] for tool in asked["tools"]) == ["look_up", "refund"]


async def test_a_refund_of_unknown_outcome_is_asked_about_and_not_made_again(desk: Bench) -> None:
    desk.crash_after("refund", recorded=False)
    run = await desk.start(BROKEN)
    await desk.answer(run, "approve", by="ana")
    assert run.request.subject == "Did 'refund' succeed (order 1042, amount 89.9, reason “Desk lamp arrived broken”)?"
    paid = {"value": {"order": 1042, "amount": 89.9, "reason": "broken"}}
    await desk.answer(run, {"action": "happened", "result": paid}, by="ana")
    assert run.result()["refunded"] == [1042]
    assert [call.name for call in desk.calls].count("refund") == 1


async def test_a_crash_between_turns_asks_the_model_nothing_twice(desk: Bench) -> None:
    desk.crash_after("look_up")
    run = await desk.start(BROKEN)
    await desk.answer(run, "approve", by="ana")
    assert run.result()["turns"] == 3
    assert [call.name for call in desk.calls] == ["model", "look_up", "model", "refund", "model"]
