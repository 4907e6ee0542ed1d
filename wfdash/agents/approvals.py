"""Approvals of an agent's tool calls as questions to people."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wfdash.questions.conversation import conversation
from wfdash.questions.policy import Policy
from wfdash.questions.tools import ToolCall, ToolDecision, Verb
from wfdash.questions.transcript import Message
from wfdash.workflow import Context

ALL: tuple[Verb, ...] = ("approve", "edit", "reject", "respond")
MOST_MESSAGES = 200
"""Messages that a card shows, from the end."""
DENIED = "The tool call was rejected by a person."
"""What the model is given where that person said nothing more."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A tool call that an agent proposes. ``parameters``: JSON Schema of its arguments, where it is known."""

    call: str
    tool: str
    arguments: dict[str, Any]
    parameters: dict[str, Any] | None = None
    description: str = ""
    allow: tuple[Verb, ...] = ALL


@dataclass(frozen=True)
class Approvals:
    """Asks people about tool calls of one run of an agent."""

    ctx: Context
    policies: Mapping[str, Policy]
    policy: Policy | None = None
    responses: dict[str, str] = field(default_factory=dict)
    """Call -> what a person answered in the tool's place."""

    async def ask(self, wanted: Sequence[Wanted], messages: Sequence[Message]) -> dict[str, ToolDecision]:
        """Ask about each of these calls at once, and return the decisions by call. ``messages``: what led to them."""
        evidence = conversation(messages, most=MOST_MESSAGES)
        # Each question is recorded where ask() is called, in this order.
        asked = [self._question(one, evidence) for one in wanted]
        decisions = await asyncio.gather(*asked)
        found = {one.call: decision for one, decision in zip(wanted, decisions, strict=True)}
        self.responses.update({call: one.response or "" for call, one in found.items() if one.action == "respond"})
        return found

    def _question(self, wanted: Wanted, evidence: list[Any]) -> Any:
        card = ToolCall(
            tool=wanted.tool,
            arguments=wanted.arguments,
            parameters=wanted.parameters,
            body=wanted.description,
            allow=wanted.allow,
            evidence=evidence,
        )
        policy = self.policies.get(wanted.tool)
        return self.ctx.ask(card, policy=self.policy if policy is None else policy.over(self.policy))
