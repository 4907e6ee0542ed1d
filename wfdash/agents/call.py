"""One run of an agent in a step, as the module of every library gets it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkpoints.records import Json
from wfdash.agents.approvals import Approvals
from wfdash.questions.transcript import Message
from wfdash.workflow import Context


@dataclass(frozen=True, kw_only=True)
class AgentCall:
    """``history``: messages as JSON; ``once``: tools that must not be called twice; ``replayed``: those whose code runs
    again as that of a step; ``more_turns``: for how many a person may let it continue after a limit; ``options``: the
    library's own.
    """

    ctx: Context
    agent: Any
    prompt: Any
    history: Sequence[Json]
    approvals: Approvals
    once: Collection[str]
    replayed: Collection[str]
    more_turns: int | None
    options: Mapping[str, Any]

    async def continues(self, why: Exception, messages: Sequence[Message]) -> bool:
        """Ask a person whether the agent continues after a limit, if that may be asked. ``messages``: so far."""
        if self.more_turns is None:
            return False
        self.ctx.transcript(messages)
        return await self.approvals.ask_for_turns(self.more_turns, str(why), messages)
