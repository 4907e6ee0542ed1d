"""What an MCP server asks in the middle of a tool is a question to people, though its session ends while they think."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest

pytest.importorskip("mcp")

from mcp import Client
from mcp.server.mcpserver import Context as ServerContext
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel

from checkpoints.memory import MemoryStorage
from checkpoints.records import Answer
from tests.workflow.world import flow
from wfdash.agents import elicitation_callback, run_agent
from wfdash.agents.run import MOST_ASKED, asked_by
from wfdash.contract import Finished, Waiting
from wfdash.workflow import Context, Policy, Workflow
from wfdash.workflow.errors import InvalidCall

SEND = {"action": "edit", "arguments": {"seats": 2}}
MESSAGE = "How many <b>seats</b> for 8 pm?"


class Seats(BaseModel):
    seats: int
    window: bool = False


def restaurant(ledger: list[Any], ask: Callable[[Any], Any] | None = None) -> MCPServer:
    server = MCPServer("restaurant")

    @server.tool()
    async def book(name: str, ctx: ServerContext[Any, Any]) -> str:
        ledger.append("begun")
        said = await (ask(ctx) if ask is not None else ctx.elicit(MESSAGE, Seats))
        if said.action != "accept":
            return f"not booked: {said.action}"
        ledger.append(f"booked {said.data.seats}" if ask is None else "done")
        return ledger[-1]

    return server


def plain(server: MCPServer, mode: str = "legacy", **options: Any) -> Workflow:
    async def dine(name: str, ctx: Context) -> str:
        asking = elicitation_callback(ctx, server="Chez Ana", **options)
        async with Client(server, elicitation_callback=asking, mode=mode) as client:
            said = await client.call_tool("book", {"name": name})
        return said.content[0].text

    return flow(dine, name="dine", people=True)


async def test_a_step_that_uses_a_server_asks_and_the_server_gets_the_answer():
    ledger, storage = [], MemoryStorage()
    wf = plain(restaurant(ledger), policy=Policy(by=("ana",)))
    waiting = await wf.run("Eva", storage=storage, run_id="r")
    assert isinstance(waiting, Waiting), waiting
    (request,) = waiting.requests
    assert request.by == ("ana",)
    assert request.card["evidence"] == [{"kind": "text", "title": "Question", "value": MESSAGE}], "no markup"
    assert [one["label"] for one in request.card["actions"]] == ["Send", "Decline"]
    done = await plain(restaurant(ledger)).run(answers={request.key: SEND}, storage=storage, run_id="r")
    assert isinstance(done, Finished), done
    assert done.output == "booked 2"
    assert ledger == ["begun", "begun", "booked 2"], "its session had ended"


@pytest.mark.parametrize(("lapsed", "action"), [(False, "decline"), (True, "cancel")])
async def test_who_declines_and_who_says_nothing_are_two_things_to_a_server(lapsed: bool, action: str):
    wf = plain(restaurant([]), policy=Policy(due="1h", on_timeout="reject"))
    outcome = await wf.run("Eva")
    (request,) = outcome.requests
    said = Answer(key=request.key, value={"action": "reject"}, by=None if lapsed else "ana", at=request.due)
    done = await wf.run(answers={request.key: said}, checkpoint=outcome.checkpoint)
    assert done.output == f"not booked: {action}"


async def test_an_address_is_shown_and_its_confirmation_has_no_content():
    def visit(ctx: Any) -> Any:
        return ctx.elicit_url("Pay a deposit", "https://pay.example.org/1", "e1")

    ledger, storage = [], MemoryStorage()
    wf = plain(restaurant(ledger, visit))
    (request,) = (await wf.run("Eva", storage=storage, run_id="r")).requests
    assert request.card["evidence"][1] == {"kind": "link", "title": "Address", "value": "https://pay.example.org/1"}
    done = await wf.run(answers={request.key: {"action": "approve"}}, storage=storage, run_id="r")
    assert (done.output, ledger) == ("done", ["begun", "begun", "done"])


def agent_of(server: MCPServer, turns: list[Any], mode: str = "legacy", **options: Any) -> Workflow:
    pytest.importorskip("fastmcp")
    from fastmcp import Client as FastClient
    from fastmcp.client.transports.memory import FastMCPTransport
    from pydantic_ai import Agent
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models.function import FunctionModel

    def say(messages: Any, info: Any) -> ModelResponse:
        return ModelResponse(parts=turns[sum(isinstance(message, ModelResponse) for message in messages)])

    async def dine(name: str, ctx: Context) -> str:
        asking = elicitation_callback(ctx, server="Chez Ana")
        shop = MCPToolset(FastClient(FastMCPTransport(server), mode=mode, elicitation_handler=asking))
        agent = Agent(FunctionModel(say), toolsets=[shop])
        return (await run_agent(ctx, agent, name, **options)).output

    return flow(dine, name="dine", people=True)


def booking(*calls: str) -> list[Any]:
    pytest.importorskip("pydantic_ai")
    from pydantic_ai.messages import TextPart, ToolCallPart

    return [[ToolCallPart("book", {"name": "Eva"}, tool_call_id=call) for call in calls], [TextPart("All booked")]]


async def test_a_tool_of_an_agent_is_made_again_with_the_answer_and_recorded_with_its_result():
    async def both(ctx: Any) -> Any:
        seats = await ctx.elicit(MESSAGE, Seats)
        ledger.append(f"seats {seats.data.seats}")
        return await ctx.elicit("And for the dog?", Seats)

    ledger, storage = [], MemoryStorage()
    outcome = await agent_of(restaurant(ledger, both), booking("a")).run("Eva", storage=storage, run_id="r")
    asked = []
    while isinstance(outcome, Waiting):
        (request,) = outcome.requests
        asked.append(request.card["evidence"][0]["value"])
        fresh = agent_of(restaurant(ledger, both), booking("a"))  # As in another process.
        outcome = await fresh.run(answers={request.key: SEND}, storage=storage, run_id="r")
    assert isinstance(outcome, Finished), outcome
    assert asked == [MESSAGE, "And for the dog?"], "each once"
    assert ledger == ["begun", "begun", "seats 2", "begun", "seats 2", "done"]


@pytest.mark.process
def test_wherever_the_process_of_an_adk_agent_is_killed_a_server_asks_people_once_and_its_tool_ends_once(
    tmp_path: Path,
):
    pytest.importorskip("google.adk")
    command = [sys.executable, "-m", "tests.agents.dying_elicitation", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=Path(__file__).parents[2])
    assert ran.returncode == 0, ran.stderr
    story = json.loads(ran.stdout)
    assert (story["output"], story["killed"]) == ("booked 2", 4), story
    assert story["asked"] == [f"Chez Ana asks: {MESSAGE}"], story
    points = ["server asks", "person thinks", "server is answered", "model 1"]
    assert story["did"] == ["model 0", *[point for point in points for _ in range(2)]], "each as if nothing had been"
    assert story["ledger"] == [*["begun"] * 4, "booked 2"], "its session had ended, and two processes in a call"


async def ask_seats() -> Elicit[Seats]:
    return Elicit(MESSAGE, Seats)


def stateless(ledger: list[Any]) -> MCPServer:
    """The same restaurant as servers of the protocol of 2026-07-28 ask: with the result of the call."""
    server = MCPServer("restaurant")

    @server.tool()
    async def book(name: str, said: Annotated[Seats, Resolve(ask_seats)]) -> str:
        ledger.append(f"booked {said.seats}")
        return ledger[-1]

    return server


@pytest.mark.parametrize("library", ["mcp", "pydantic_ai"])
async def test_a_server_without_a_session_asks_too(library: str):
    ledger, storage = [], MemoryStorage()

    def make() -> Workflow:
        server = stateless(ledger)
        return plain(server, mode="auto") if library == "mcp" else agent_of(server, booking("a"), mode="auto")

    (request,) = (await make().run("Eva", storage=storage, run_id="r")).requests
    assert request.card["evidence"][0]["value"] == MESSAGE
    done = await make().run(answers={request.key: SEND}, storage=storage, run_id="r")
    assert isinstance(done, Finished), done
    assert ledger == ["booked 2"]


async def test_calls_beside_each_other_get_the_answers_to_their_own_questions():
    ledger, storage = [], MemoryStorage()
    wf = agent_of(restaurant(ledger), booking("a", "b"))
    outcome = await wf.run("Eva", storage=storage, run_id="r")
    assert len(outcome.requests) == 2
    answers = {
        request.key: {"action": "edit", "arguments": {"seats": seats}}
        for seats, request in zip((2, 3), outcome.requests, strict=True)
    }
    done = await wf.run(answers=answers, storage=storage, run_id="r")
    assert isinstance(done, Finished), done
    assert sorted(ledger) == [*["begun"] * 4, "booked 2", "booked 3"]


async def test_a_call_that_is_made_once_and_a_server_that_goes_on_asking_are_refused():
    async def nag(ctx: Any) -> Any:
        while True:
            ledger.append("asks")
            await ctx.elicit(f"{MESSAGE} {len(ledger)}", Seats)

    ledger, storage = [], MemoryStorage()
    done = await agent_of(restaurant(ledger, nag), booking("a"), once=["book"]).run("Eva", storage=storage, run_id="r")
    assert isinstance(done, Finished), done
    assert ledger == ["begun", "asks"], "the model hears that the tool failed"
    outcome = await agent_of(restaurant(ledger, nag), booking("a")).run("Eva", storage=storage, run_id="s")
    asked = 0
    while isinstance(outcome, Waiting):
        asked += 1
        answers = {outcome.requests[0].key: SEND}
        outcome = await agent_of(restaurant(ledger, nag), booking("a")).run(
            answers=answers, storage=storage, run_id="s"
        )
    assert isinstance(outcome, Finished), outcome
    assert asked == MOST_ASKED


TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"requestedSchema": {"properties": {"pin": {**TEXT, "format": "password"}}}}, "must not ask for secrets"),
        ({"requestedSchema": {"properties": {"a": {"type": "object"}}}}, "plain fields"),
        ({"requestedSchema": {"properties": {"a": "b"}}}, "plain fields"),
        ({"requestedSchema": {"properties": {"a": {**TEXT, "title": "x" * 30_000}}}}, "at most 20000 characters"),
        ({"requestedSchema": {"properties": {"a": {**TEXT, "enum": 7}}}}, "no JSON Schema"),
        ({"requestedSchema": {"properties": ["a"]}}, "cannot be shown"),
        ({"message": "x" * 5_000}, "1 to 4000 characters"),
        ({"message": " "}, "1 to 4000 characters"),
        ({"mode": "url", "url": "http://example.org"}, "begins with https"),
        ({"mode": "url", "url": "https://"}, "and a host"),
    ],
)
def test_a_hostile_question_is_refused_with_the_reason(asked: dict[str, Any], why: str):
    with pytest.raises(InvalidCall, match=why):
        asked_by("shop", {"message": "Hm?", "requestedSchema": {"properties": {}}, **asked})


def test_of_a_schema_only_what_the_protocol_says_is_kept():
    field = {**TEXT, "pattern": "(a+)+$", "$ref": "#", "maxLength": 5, "x": 1}
    choices = {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}], "pattern": "x"}}
    given = {"properties": {"a": field, "b": choices}, "required": ["a", "gone"], "$defs": {}, "allOf": [{}]}
    asked = asked_by("shop", {"message": "Hm\x00?", "requestedSchema": given})
    assert asked["schema"] == {
        "type": "object",
        "properties": {
            "a": {"type": "string", "maxLength": 5},
            "b": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
        },
        "required": ["a"],
    }
    assert "\x00" not in asked["message"]
