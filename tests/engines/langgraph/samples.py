"""The graphs with which the LangGraph engine is put through what engines promise."""

from __future__ import annotations

import operator
from typing import Annotated, Any

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.func import entrypoint
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.types import interrupt
from typing_extensions import TypedDict

from checkpoints.records import Json
from wfdash.engines import serve
from wfdash.engines.conformance import Ledger, Sample, Samples, Unstorable
from wfdash.engines.conformance.worlds import Given, joined
from wfdash.engines.serving import Served

WORD: dict[str, Any] = {"type": "string"}


class Text(TypedDict, total=False):
    text: str


class Parallel(Text, total=False):
    words: Annotated[list[str], operator.add]


def message(text: str) -> Json:
    return {"text": text}


def output(text: str, given: Given) -> Json:
    return {"text": joined(text, given)}


def chain(name: str, *nodes: Any, state: Any = Text) -> Any:
    builder = StateGraph(state)
    builder.add_sequence(list(nodes))
    builder.add_edge(START, nodes[0].__name__)
    return builder.compile(name=name)


def noting(ledger: Ledger, name: str) -> Any:
    async def node(state: Text) -> dict[str, Any]:
        ledger.note(name)
        return {"text": state["text"]}

    node.__name__ = name
    return node


def asking_node(question: str) -> Any:
    async def ask(state: Text) -> dict[str, Any]:
        return {"text": f"{state['text']} {interrupt(question, response_schema=WORD)}"}

    return ask


def four_steps(ledger: Ledger) -> Any:
    return chain("four_steps", *(noting(ledger, name) for name in ("one", "two", "three", "four")))


def asking(ledger: Ledger) -> Any:
    return chain("asking", noting(ledger, "before"), asking_node("What of it?"), noting(ledger, "after"))


def asking_more(ledger: Ledger) -> Any:
    more = noting(Ledger(), "more")
    return chain("asking", noting(ledger, "before"), asking_node("What of it?"), noting(ledger, "after"), more)


def asking_two(ledger: Ledger) -> Any:
    async def left(state: Parallel) -> dict[str, Any]:
        return {"words": [str(interrupt("Left?", response_schema=WORD))]}

    async def right(state: Parallel) -> dict[str, Any]:
        return {"words": [str(interrupt("Right?", response_schema=WORD))]}

    async def join(state: Parallel) -> dict[str, Any]:
        return {"text": " ".join([state["text"], *state["words"]])}

    builder = StateGraph(Parallel, output_schema=Text)
    for node in (left, right, join):
        builder.add_node(node)
    for source, target in ((START, "left"), (START, "right")):
        builder.add_edge(source, target)
    builder.add_edge(["left", "right"], "join")
    return builder.compile(name="asking_two")


def asking_in_turn(ledger: Ledger) -> Any:
    builder = StateGraph(Text)
    builder.add_node("ask", asking_node("Which word?"))
    builder.add_edge(START, "ask")
    builder.add_conditional_edges("ask", lambda state: END if state["text"].endswith(" stop") else "ask", ["ask", END])
    return builder.compile(name="asking_in_turn")


def failing(ledger: Ledger) -> Any:
    async def prints(state: Text) -> dict[str, Any]:
        ledger.note("prints")
        ledger.fail_if_asked()
        return {"text": state["text"]}

    return chain("failing", asking_node("Print it?"), prints)


def slow(ledger: Ledger) -> Any:
    async def work(state: Text) -> dict[str, Any]:
        await ledger.held()
        return {"text": state["text"]}

    return chain("slow", work)


def asking_beside(ledger: Ledger) -> Any:
    async def work(state: Text) -> dict[str, Any]:
        await ledger.held()
        return {}

    builder = StateGraph(Text)
    builder.add_node("ask", asking_node("What of it?"))
    builder.add_node("work", work)
    builder.add_edge(START, "ask")
    builder.add_edge(START, "work")
    return builder.compile(name="asking_beside")


class Odd(TypedDict, total=False):
    text: str
    odd: Any


def unstorable(ledger: Ledger) -> Any:
    async def make(state: Odd) -> dict[str, Any]:
        return {"odd": Unstorable()}

    async def use(state: Odd) -> dict[str, Any]:
        return {"text": "used"}

    return chain("unstorable", make, use, state=Odd)


def echoing(ledger: Ledger) -> Any:
    @entrypoint()
    async def echo(given: Text) -> Any:
        return interrupt("Anything?")

    return echo


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    text: str


def chatting(ledger: Ledger) -> Any:
    async def reply(state: Chat) -> dict[str, Any]:
        said = [str(one.content) for one in state["messages"] if one.type == "human"]
        return {"text": " ".join(said), "messages": [AIMessage("I see")]}

    builder = StateGraph(Chat, output_schema=Text)
    builder.add_node("reply", reply)
    builder.add_edge(START, "reply")
    return builder.compile(name="chatting")


def secret(ledger: Ledger) -> Served:
    return serve(slow(ledger), name="secret", secrets=["number"])


SAMPLES = Samples(
    asks=Sample(make=asking, message=message, output=output),
    steps=Sample(make=four_steps, message=message, output=output),
    changed=Sample(make=asking_more, message=message, output=output),
    asks_two=Sample(make=asking_two, message=message, output=output, width=2),
    asks_in_turn=Sample(make=asking_in_turn, message=message, output=output),
    fails=Sample(make=failing, message=message, output=output),
    slow=Sample(make=slow, message=message, output=output),
    asks_beside=Sample(make=asking_beside, message=message, output=output, width=2),
    unstorable=Sample(make=unstorable, message=message, output=output),
    echoes=Sample(make=echoing, message=message, output=lambda text, given: given[0][1]),
    chats=Sample(make=chatting, message=lambda text: {"messages": text}, output=output),
    secret=(Sample(make=secret, message=message, output=output), frozenset({"number"})),
)
