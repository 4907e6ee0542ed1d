"""``run_agent``: one function for the agents of every library that is supported."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol

from checkpoints.records import Json
from wfdash.agents.tool_calls import AgentCall, AgentReply, Approvals
from wfdash.installation.frameworks import check_framework
from wfdash.questions.policy import Policy
from wfdash.workflow import Context
from wfdash.workflow.errors import InvalidCall

LIBRARIES = {"pydantic_ai": "wfdash.agents.pydantic_ai", "agents": "wfdash.agents.openai_agents"}
"""The package of an agent's class -> the module that runs it, imported only for such an agent."""


class AgentDriver(Protocol):
    """A module that runs the agents of one library."""

    async def run(self, call: AgentCall) -> AgentReply[Any]:
        """Run an agent until it has its output."""


async def run_agent(
    ctx: Context,
    agent: Any,
    prompt: Any = None,
    *,
    history: Sequence[Json] = (),
    policies: Mapping[str, Policy] | None = None,
    policy: Policy | None = None,
    once: Collection[str] = (),
    replayed: Collection[str] = (),
    tell_changes: bool = True,
    more_turns: int | None = None,
    **options: Any,
) -> AgentReply[Any]:
    """Run an agent of pydantic-ai or of the OpenAI Agents SDK in a step, durably; returns its ``AgentReply``.

    Each turn of a model is a recorded call named ``model``, each tool a recorded call with the tool's name: after a
    crash, an answer or a restore they are not made again. A tool that needs approval asks people: they approve, edit
    the arguments, reject, or answer in its place. What the model writes is shown on the run's page while it does.

    ``history``: that of an earlier reply, to continue a conversation. ``policies``: tool -> who decides about its
    calls; ``policy``: about those of all other tools. ``once``: tools that must not be called twice: if it is unknown
    whether a call happened, a person is asked. ``replayed``: tools that ask people themselves, or run another agent
    that does: they are not recorded, their code runs again as that of a step. ``tell_changes``: whether the model
    hears, before the result, that a person changed its call. ``more_turns``: where the agent reaches a limit of its
    library, a person is asked whether it continues for so many more turns; by default, and if they reject that, the
    library's error is raised. ``options``: go to the library's own ``run``.
    ``InvalidCall``: the agent is of no library that is supported, or of a version that is too old; or a tool of it
    cannot be recorded.
    """
    if both := set(once) & set(replayed):
        raise InvalidCall(f"run_agent: once= and replayed= both name {', '.join(sorted(both))}: a tool is either")
    if more_turns is not None and more_turns < 1:
        raise InvalidCall(f"run_agent: more_turns={more_turns}: give at least 1, or leave it out")
    call = AgentCall(
        ctx=ctx,
        agent=agent,
        prompt=prompt,
        history=history,
        approvals=Approvals(ctx, dict(policies or {}), policy, tell_changes),
        once=frozenset(once),
        replayed=frozenset(replayed),
        more_turns=more_turns,
        options=options,
    )
    driver = await asyncio.to_thread(_driver, agent)  # Importing one takes long enough to block others.
    return await driver.run(call)


def _driver(agent: Any) -> AgentDriver:
    packages = [kind.__module__.partition(".")[0] for kind in type(agent).__mro__]
    package = next((package for package in packages if package in LIBRARIES), None)
    if package is None:
        raise InvalidCall(f"run_agent needs an agent of pydantic-ai or of openai-agents, not {type(agent).__name__}")
    try:
        check_framework(package)
        driver: Any = import_module(LIBRARIES[package])
    except ImportError as error:
        raise InvalidCall(f"run_agent: {error}") from error
    return driver  # type: ignore[no-any-return]
