"""Orchestrations of Agent Framework with scripted agents."""

# ruff: noqa: I002
from typing import Any

import pytest

pytest.importorskip("agent_framework_orchestrations")

from agent_framework import Agent, Content, Message
from agent_framework_orchestrations import (
    ConcurrentBuilder,
    GroupChatBuilder,
    HandoffBuilder,
    MagenticBuilder,
    MagenticContext,
    MagenticManagerBase,
    MagenticProgressLedger,
    MagenticProgressLedgerItem,
    SequentialBuilder,
)

from tests.engines.agent_framework.desk import Scripted, said


def saying(name: str, text: str) -> Agent:
    """Return an agent that always says this, and what it was told last."""
    return Agent(Scripted(lambda messages: [f"{text} ({said(messages)[-1]})"]), name=name, description=f"Says {text}.")


def sequential(*, asks: bool = False) -> Any:
    builder = SequentialBuilder(participants=[saying("writer", "draft"), saying("editor", "edited")])
    return (builder.with_request_info() if asks else builder).build()


def concurrent() -> Any:
    return ConcurrentBuilder(participants=[saying("law", "legal"), saying("tax", "taxed")]).build()


def group_chat() -> Any:
    def choose(state: Any) -> str:
        return ["ana", "ben"][state.current_round % 2]

    builder = GroupChatBuilder(
        participants=[saying("ana", "from ana"), saying("ben", "from ben")],
        selection_func=choose,
        termination_condition=lambda conversation: len(conversation) >= 4,
    )
    return builder.build()


class Manager(MagenticManagerBase):
    """Plans in one line, lets the researcher work once, and is done."""

    def __init__(self) -> None:
        super().__init__(max_stall_count=3)
        self.task_ledger: Any = None

    async def plan(self, magentic_context: MagenticContext) -> Message:
        self.plans = 1
        return Message(role="assistant", contents=["1. research"], author_name="manager")

    async def replan(self, magentic_context: MagenticContext) -> Message:
        words = magentic_context.chat_history[-1].text
        return Message(role="assistant", contents=[f"1. research, 2. {words}"], author_name="manager")

    async def create_progress_ledger(self, magentic_context: MagenticContext) -> MagenticProgressLedger:
        done = any("found" in message.text for message in magentic_context.chat_history)

        def item(answer: Any) -> MagenticProgressLedgerItem:
            return MagenticProgressLedgerItem(reason="so", answer=answer)

        return MagenticProgressLedger(
            is_request_satisfied=item(done),
            is_in_loop=item(False),
            is_progress_being_made=item(True),
            next_speaker=item("researcher"),
            instruction_or_question=item("look it up"),
        )

    async def prepare_final_answer(self, magentic_context: MagenticContext) -> Message:
        return Message(role="assistant", contents=["the answer"], author_name="manager")


def magentic() -> Any:
    return MagenticBuilder(
        participants=[saying("researcher", "found it")], manager=Manager(), enable_plan_review=True
    ).build()


def handing_over() -> Agent:
    """Return an agent that calls the tool which hands over to the other."""
    call = Content.from_function_call(call_id="c1", name="handoff_to_back", arguments="{}")
    return Agent(Scripted(lambda messages: [call]), name="front", description="Hands over.")


def handoff(*, at_once: bool = False) -> Any:
    front, back = handing_over() if at_once else saying("front", "hello"), saying("back", "bye")
    for agent in (front, back):
        agent.require_per_service_call_history_persistence = True
    return HandoffBuilder(name="handoff", participants=[front, back]).with_start_agent(front).build()
