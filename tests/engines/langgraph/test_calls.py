"""How a graph is called: configuration and context that serve gives, what it streams, its limits, many runs at once."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("langgraph")

from langchain_core.runnables import RunnableConfig
from langgraph.config import get_stream_writer
from langgraph.func import entrypoint
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import RetryPolicy, interrupt
from typing_extensions import TypedDict

from checkpoints.errors import ClaimLost
from tests.engines.langgraph.rides import Ride, asked, error, output
from tests.workflow.world import ListRecorder, PowerCut
from wfdash.contract import InvalidInput
from wfdash.engines import serve


class State(TypedDict, total=False):
    n: int
    said: str


@dataclass
class Company:
    name: str = ""


def graph_of(*nodes: Any, **options: Any) -> Any:
    builder = StateGraph(State, context_schema=Company)
    for node in nodes:
        builder.add_node(node, **options)
    builder.add_edge(START, nodes[0].__name__)
    for one, other in itertools.pairwise(nodes):
        builder.add_edge(one.__name__, other.__name__)
    return builder.compile()


def greets(state: State, config: RunnableConfig, runtime: Runtime[Company]) -> State:
    found = config["configurable"]
    return {"said": f"{found['greeting']} from {runtime.context.name} in {found['thread_id']}"}


async def test_configuration_and_context_are_given_to_nodes():
    served = serve(
        graph_of(greets), name="greeting", config={"configurable": {"greeting": "Hello"}}, context={"name": "ACME"}
    )
    assert output(await Ride(served).start({})) == {"said": "Hello from ACME in r"}


@dataclass
class Shop:
    region: str
    limit: int = 10


def sells(state: State, runtime: Runtime[Shop]) -> State:
    answer = interrupt("sell?")
    return {"said": f"{answer} in {runtime.context.region}, at most {runtime.context.limit}"}


def shop(context_schema: Any = Shop, node: Any = sells, state: Any = State) -> Any:
    return StateGraph(state, context_schema=context_schema).add_node("sells", node).add_edge(START, "sells").compile()


async def test_the_context_of_a_start_is_kept_over_answers_and_processes():
    ride = Ride(shop())
    assert asked(await ride.start({"n": 1, "context": {"region": "north"}})) == ["sell?"]
    assert "context" not in ride.engine.show(ride.checkpoint).state
    assert output(await ride.answer("yes")) == {"n": 1, "said": "yes in north, at most 10"}


async def test_a_context_of_defaults_needs_not_be_given():
    @dataclass
    class Usual:
        region: str = "south"
        limit: int = 5

    ride = Ride(shop(Usual))
    await ride.start({})
    assert output(await ride.answer("yes"))["said"] == "yes in south, at most 5"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({}, "context: "),
        ({"context": {}}, "context.region: "),
        ({"context": {"region": "a", "limit": "many"}}, "context.limit: "),
        ({"context": {"region": "a", "limits": 3}}, "context.limits: "),
    ],
)
def test_a_context_that_does_not_fit_is_refused_at_its_field(message: Any, words: str):
    ride = Ride(shop())
    with pytest.raises(InvalidInput) as caught:
        ride.engine.check_input(ride.served, message)
    assert str(caught.value).startswith(words)


async def test_a_run_whose_context_does_not_fit_a_changed_graph_says_what_to_do():
    @dataclass
    class Changed:
        region: str
        currency: str

    ride = Ride(shop())
    await ride.start({"context": {"region": "north"}})
    ride.served = Ride(shop(Changed)).served
    assert "context.currency" in (words := error(await ride.answer("yes")))
    assert words.endswith("Give new fields a default, or start a new run")


async def test_a_field_of_the_state_that_is_called_context_stays_one():
    class Cited(State, total=False):
        context: str

    def cites(state: Cited, runtime: Runtime[Shop]) -> Cited:
        return {"said": f"{state['context']} {runtime.context.region}"}

    ride = Ride(shop(node=cites, state=Cited))
    outcome = await ride.start({"context": "a page", "runtime_context": {"region": "north"}})
    assert output(outcome) == {"context": "a page", "said": "a page north"}


async def test_a_function_gets_its_value_beside_its_context_and_keeps_it_for_the_next():
    @entrypoint(context_schema=Shop)
    def sum_up(number: int, runtime: Runtime[Shop]) -> str:
        return f"{number} {runtime.context.region} {runtime.previous}"

    ride = Ride(sum_up)
    assert output(await ride.start({"input": 1, "context": {"region": "north"}})) == "1 north None"
    ride.engine.check_follow_up(ride.served, ride.checkpoint, {"input": 2})
    assert output(await ride.follow_up({"input": 2})) == "2 north 1 north None"
    assert output(await ride.follow_up({"input": 3, "context": {"region": "south"}})).startswith("3 south")


def streams(state: State) -> State:
    get_stream_writer()({"type": "progress", "done": 1})
    return {"n": 1}


async def test_what_a_node_streams_is_an_event_of_its_step():
    ride = Ride(graph_of(streams))
    await ride.start({})
    (event,) = (event for event in ride.events if event.kind == "custom")
    assert (event.step, event.data["name"]) == ("streams", "progress")
    assert event.data["data"] == {"type": "progress", "done": 1}


async def test_a_graph_that_does_not_end_fails_at_its_limit_and_can_be_retried():
    def again(state: State) -> State:
        return {"n": state.get("n", 0) + 1}

    builder = StateGraph(State)
    builder.add_node(again)
    builder.add_edge(START, "again")
    builder.add_conditional_edges("again", lambda state: "again", ["again"])
    ride = Ride(serve(builder.compile(), name="loop", config={"recursion_limit": 5}))
    assert "GraphRecursionError" in error(await ride.start({}))
    reached = ride.engine.show(ride.checkpoint).state["n"]
    await ride.resume()
    assert ride.engine.show(ride.checkpoint).state["n"] > reached


async def test_a_node_is_tried_again_as_its_author_says():
    calls: list[int] = []

    def flaky(state: State) -> State:
        calls.append(1)
        if len(calls) < 3:
            raise ConnectionError("no network")
        return {"n": len(calls)}

    ride = Ride(graph_of(flaky, retry_policy=RetryPolicy(initial_interval=0.001, max_attempts=3)))
    assert output(await ride.start({})) == {"n": 3}


@entrypoint()
def remembers(number: int, *, previous: int | None = None) -> int:
    return number + (previous or 0)


async def test_a_function_with_a_memory_takes_its_input_again():
    ride = Ride(remembers)
    assert output(await ride.start(1)) == 1
    assert ride.engine.check_follow_up(ride.served, ride.checkpoint, 2) == 2
    assert output(await ride.follow_up(2)) == 3


@entrypoint()
def reads_its_runtime(number: int, runtime: Runtime[None]) -> int:
    return number + (runtime.previous or 0)


@entrypoint()
def forgets(number: int) -> int:
    return number


async def test_only_a_function_that_may_read_what_its_last_run_kept_takes_its_input_again():
    ride = Ride(reads_its_runtime)
    await ride.start(1)
    assert output(await ride.follow_up(2)) == 3
    ride = Ride(forgets)
    await ride.start(1)
    assert ride.engine.describe(ride.served).follow_up_schema is None
    with pytest.raises(InvalidInput, match="take no further message"):
        ride.engine.check_follow_up(ride.served, ride.checkpoint, 2)


def decide(state: State) -> State:
    return {"said": f"{state['n']} {interrupt('Decide?')}"}


async def test_fifty_runs_of_one_graph_see_nothing_of_each_other():
    graph = graph_of(decide)
    rides = [Ride(graph) for _ in range(50)]
    await asyncio.gather(*(ride.start({"n": number}) for number, ride in enumerate(rides)))
    assert all(asked(ride.outcome) == ["Decide?"] for ride in rides if ride.outcome is not None)
    found = await asyncio.gather(*(ride.answer(f"word {number}") for number, ride in enumerate(rides)))
    assert [output(one)["said"] for one in found] == [f"{number} word {number}" for number in range(50)]


async def test_a_drive_that_cannot_commit_ends_with_that_error_and_stops_its_nodes():
    ran: list[str] = []

    async def first(state: State) -> State:
        ran.append("first")
        return {}

    async def second(state: State) -> State:
        ran.append("second")
        await asyncio.sleep(30)
        return {}

    for problem in (PowerCut(), ClaimLost(run="r")):
        ran.clear()
        ride = Ride(graph_of(first, second))
        ride.recorder = Breaking(problem)
        with pytest.raises(type(problem)):
            await asyncio.wait_for(ride.start({}), 10)
        assert ran[:1] == ["first"]


class Breaking(ListRecorder):
    """Raises in its second commit, and in each after that."""

    def __init__(self, problem: BaseException) -> None:
        super().__init__()
        self.problem = problem

    async def commit(self, commit: Any) -> None:
        if len(self.commits) >= 1:
            raise self.problem
        await super().commit(commit)
