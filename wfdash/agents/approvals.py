"""Approvals of an agent's tool calls as questions to people."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkpoints.records import Json
from wfdash.questions.cards import Approval
from wfdash.questions.conversation import conversation
from wfdash.questions.evidence import JsonValue
from wfdash.questions.policy import Policy
from wfdash.questions.tools import ToolCall, ToolDecision, Verb
from wfdash.questions.transcript import Message
from wfdash.schemas.secrets import masked, secret_names
from wfdash.values.display import truncate
from wfdash.workflow import Context

ALL: tuple[Verb, ...] = ("approve", "edit", "reject", "respond")
MOST_MESSAGES = 200
"""Messages that a card shows, from the end."""
DENIED = "The tool call was rejected by a person."
"""What the model is given where that person said nothing more."""
CHANGED = "A person changed this call before it was made, to these arguments: "
"""The sentence before the result of a call that was not made as the model wanted."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A tool call that an agent proposes. ``parameters``: JSON Schema of its arguments, where it is known."""

    call: str
    tool: str
    arguments: dict[str, Any]
    parameters: dict[str, Any] | None = None
    subject: str = ""
    """A headline, where the arguments would not make one that distinguishes calls."""
    description: str = ""
    metadata: Json = None
    """What the tool said about the call, for people."""
    allow: tuple[Verb, ...] = ALL
    messages: Sequence[Message] | None = None
    """What led to this call, where that is not what led to the others."""


@dataclass(frozen=True)
class Approvals:
    """Asks people about tool calls of one run of an agent."""

    ctx: Context
    policies: Mapping[str, Policy]
    policy: Policy | None = None
    tell_changes: bool = True
    """Whether the model hears that a person changed its call."""
    responses: dict[str, str] = field(default_factory=dict)
    """Call -> what a person answered in the tool's place."""
    notes: dict[str, str] = field(default_factory=dict)
    """Call -> the sentence before its result."""

    async def ask(self, wanted: Sequence[Wanted], messages: Sequence[Message]) -> dict[str, ToolDecision]:
        """Ask about each of these calls at once, and return the decisions by call. ``messages``: what led to them."""
        evidence = conversation(messages, most=MOST_MESSAGES)
        # Each question is recorded where ask() is called, in this order.
        asked = [self._question(one, evidence) for one in wanted]
        decisions = await asyncio.gather(*asked)
        for one, decision in zip(wanted, decisions, strict=True):
            if decision.action == "respond":
                self.responses[one.call] = decision.response or ""
            elif decision.action == "edit" and decision.arguments != one.arguments and self.tell_changes:
                made = masked(truncate(decision.arguments), secret_names(one.parameters))
                self.notes[one.call] = f"{CHANGED}{json.dumps(made, ensure_ascii=False)}"
        return {one.call: decision for one, decision in zip(wanted, decisions, strict=True)}

    async def ask_for_turns(self, count: int, why: str, messages: Sequence[Message]) -> bool:
        """Ask whether an agent that has reached a limit continues for so many turns."""
        card = Approval(
            subject=f"Continue for {count} more {'turn' if count == 1 else 'turns'}?",
            body=f"The agent has reached a limit: {why}",
            labels={"approve": "Continue", "reject": "Stop"},
            evidence=conversation(messages, most=MOST_MESSAGES),
        )
        return (await self.ctx.ask(card, policy=self.policy)).action == "approve"

    def note(self, call: str) -> str | None:
        """Return the sentence before the result of a call; None if people did not change the call."""
        return self.notes.pop(call, None)

    def _question(self, wanted: Wanted, evidence: list[Any]) -> Any:
        if wanted.messages is not None:
            evidence = conversation(wanted.messages, most=MOST_MESSAGES)
        said = [] if wanted.metadata is None else [JsonValue(title="About this call", value=wanted.metadata)]
        card = ToolCall(
            tool=wanted.tool,
            arguments=wanted.arguments,
            parameters=wanted.parameters,
            subject=wanted.subject,
            body=wanted.description,
            allow=wanted.allow,
            evidence=[*said, *evidence],
        )
        policy = self.policies.get(wanted.tool)
        return self.ctx.ask(card, policy=self.policy if policy is None else policy.over(self.policy))
