"""What executors keep in attributes, without the framework's hooks: kept with the run, or said to be lost."""

# ruff: noqa: I002
import threading
from dataclasses import dataclass, field
from typing import Any, Never

import pytest

pytest.importorskip("agent_framework")

from agent_framework import Executor, WorkflowBuilder, WorkflowContext, WorkflowExecutor, handler, response_handler

from checkpoints.content import pickles
from tests.engines.agent_framework.desk import Desk
from wfdash.contract import Finished
from wfdash.engines.agent_framework import drive


@dataclass
class Order:
    number: int
    lines: list[str] = field(default_factory=list)


class Foreign:
    """A class of no workflow."""


Foreign.__module__ = pickles.__name__


class Desks(Executor):
    """Remembers what it has asked in attributes of each kind."""

    asked_in_all = 0

    def __init__(self, id: str = "desks") -> None:  # noqa: A002
        super().__init__(id=id)
        self.limit = 3
        self._open: dict[int, Order] = {}
        self.notes: Any = None

    @handler
    async def begin(self, text: str, ctx: WorkflowContext) -> None:
        for number, word in enumerate(text.split()):
            self._open[number] = Order(number, [word])
            self.asked_in_all += 1
            await ctx.request_info({"prompt": f"What of {word}?", "number": number}, str)

    @response_handler
    async def answered(self, asked: dict, word: str, ctx: WorkflowContext[Never, str]) -> None:
        order = self._open.pop(asked["number"])
        if not self._open:
            await ctx.yield_output(f"{order.lines} {word} {self.asked_in_all} {self.limit}")


def desks() -> Any:
    asking = Desks()
    return WorkflowBuilder(start_executor=asking, name="desks", output_from=[asking]).build()


def logged(desk: Desk) -> list[str]:
    return [str(event.data["message"]) for event in desk.events if event.kind == "log"]


async def test_attributes_are_what_they_were_when_the_question_was_asked():
    desk = Desk(desks())
    await desk.start("red blue")
    assert desk.engine.show(desk.head).state["desks"]["asked_in_all"] == 2
    await desk.answer("one")
    await desk.answer("two")
    assert desk.output == "['blue'] two 2 3"
    assert logged(desk) == []


async def test_restoring_puts_back_the_attributes_of_that_moment():
    desk = Desk(desks())
    await desk.start("red blue")
    asked = desk.head
    await desk.answer("one", "two")
    keys = [request.key for request in asked.requests]
    assert isinstance(await desk.resume(dict.fromkeys(keys, "three"), at=asked), Finished)
    assert desk.output == "['blue'] three 2 3"


async def test_attributes_of_a_workflow_inside_of_another_are_kept():
    inner = WorkflowExecutor(desks(), id="inner", propagate_request=True, allow_direct_output=True)
    desk = Desk(WorkflowBuilder(start_executor=inner, name="outer", output_from=[inner]).build())
    await desk.start("red blue")
    await desk.answer("one")
    await desk.answer("two")
    assert desk.output == "['blue'] two 2 3"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (threading.Lock, "lock cannot be copied"),
        (lambda: bytes(1_000_001), "bytes cannot be copied, or has more than 1,000,000 bytes"),
        (lambda: [Desks()], "list cannot be copied"),
        (Foreign, "is no class that the workflow is known to use"),
    ],
)
async def test_an_attribute_that_cannot_be_kept_is_said_to_be_lost_once(
    value: Any, reason: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pickles, "Foreign", Foreign, raising=False)
    begin = Desks.begin

    @handler
    async def keeps(self: Any, text: str, ctx: WorkflowContext) -> None:
        self.notes = value()
        await begin(self, text, ctx)

    monkeypatch.setattr(Desks, "begin", keeps)
    desk = Desk(desks())
    await desk.start("red")
    (line,) = logged(desk)
    assert line.startswith("The attribute notes changed, and is lost when the run waits")
    assert reason in line
    await desk.answer("one")
    assert desk.output == "['red'] one 1 3"


async def test_only_what_has_changed_is_stored_and_what_is_private_is_not_shown():
    desk = Desk(desks())
    await desk.start("red")
    assert desk.engine.show(desk.head).state["desks"] == {"asked_in_all": 1}
    assert "red" not in str(desk.engine.show(desk.head).state)


async def test_an_altered_attribute_is_not_read():
    desk = Desk(desks())
    await desk.start("red")
    body = desk.head.body
    assert set(body["framework"]["executor:desks"]["wfdash:attributes"]) == {"$pickled"}
    altered = {**body["framework"], "executor:desks": {"wfdash:attributes": [["limit", 9]]}}
    at = desk.head.model_copy(update={"body": {**body, "framework": altered}})
    await desk.resume({request.key: "x" for request in at.requests}, at=at)
    assert "desks on_checkpoint_restore failed" in desk.error


class Executor_(Desks):
    """Saves what it wants to be saved, and is called like the framework's own class."""

    async def on_checkpoint_save(self) -> dict[str, Any]:
        return {"count": self.asked_in_all}

    async def on_checkpoint_restore(self, state: dict[str, Any]) -> None:
        self.asked_in_all = 10 + state["count"]
        self._open = {0: Order(0, ["from the hook"])}


Executor_.__name__ = "Executor"


async def test_an_executor_with_hooks_keeps_what_they_give_and_nothing_else():
    asking = Executor_()
    desk = Desk(WorkflowBuilder(start_executor=asking, name="desks", output_from=[asking]).build())
    await desk.start("red")
    assert desk.engine.show(desk.head).state["desks"] == {"count": 1}
    await desk.answer("one")
    assert desk.output == "['from the hook'] one 11 3"


def test_the_framework_s_own_attributes_are_those_of_a_bare_executor():
    assert {"id", "_handlers", "_execution_lock"} <= drive.names_of_the_framework()
    assert vars(desks().executors["desks"]).keys() - drive.names_of_the_framework() == {"limit", "_open", "notes"}
