"""One run of an agent in a step, as the module of every library gets it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkpoints.records import Json
from wfdash.agents.approvals import Approvals
from wfdash.workflow import Context


@dataclass(frozen=True, kw_only=True)
class AgentCall:
    """``history``: messages as JSON; ``once``: tools that must not be called twice; ``replayed``: those whose code runs
    again as that of a step; ``options``: the library's own.
    """

    ctx: Context
    agent: Any
    prompt: Any
    history: Sequence[Json]
    approvals: Approvals
    once: Collection[str]
    replayed: Collection[str]
    options: Mapping[str, Any]
