"""``run_agent``: one function for the agents of every library that is supported.

A tool's call is a recorded call: its arguments by name, and its result.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Generic, TypeVar

from checkpoints.records import Json, frozen
from checkpoints.rules import reported_usage
from wfdash.contract import Message
from wfdash.installation.workflow_sources import check_framework
from wfdash.questions.cards import Approval
from wfdash.questions.evidence import JsonValue
from wfdash.questions.policy import Policy
from wfdash.questions.tools import Masking, ToolCall, ToolDecision, Verb, conversation
from wfdash.values.display import truncate
from wfdash.values.schemas.secrets import masked, secret_names
from wfdash.workflow import Context
from wfdash.workflow.errors import InvalidCall
from wfdash.workflow.runtime.invoke import RecordedCall

TURN = "model turn"
"""The event of a turn that a model has made, with its name and its tokens."""
T = TypeVar("T")


@frozen
class Usage:
    """What a run of an agent has used: turns of a model, and tokens as its provider counts them."""

    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@frozen
class AgentReply(Generic[T]):
    """The end of a run of an agent.

    ``history``: every message as JSON, for the ``history`` of a later run.
    """

    output: T
    history: list[Json]
    usage: Usage


def said_turn(
    ctx: Context, model: str | None, input_tokens: int, output_tokens: int, provider: str | None = None
) -> None:
    """Show on the run's page that a model has made a turn. Inside of a recorded call: once, whatever is replayed."""
    ctx.emit(TURN, {"model": model, "input_tokens": input_tokens, "output_tokens": output_tokens})
    if used := reported_usage(model, input_tokens, output_tokens, provider):
        tokens = {"input": used["input_tokens"], "output": used["output_tokens"]}
        ctx.usage(model=used["model"], provider=used.get("provider"), **tokens)


# One run of an agent in a step, as the module of every library gets it.


@frozen
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
    masking: Masking = field(default_factory=Masking)
    """Has hidden the secrets of the conversation so far."""

    async def continues(self, why: Exception, messages: Sequence[Message]) -> bool:
        """Ask a person whether the agent continues after a limit, if that may be asked. ``messages``: so far."""
        if self.more_turns is None:
            return False
        self.ctx.transcript(messages)
        return await self.approvals.ask_for_turns(self.more_turns, str(why), messages)


# Approvals of an agent's tool calls as questions to people.

ALL: tuple[Verb, ...] = ("approve", "edit", "reject", "respond")
MOST_MESSAGES = 200
"""Messages that a card shows, from the end."""
DENIED = "The tool call was rejected by a person."
"""What the model is given where that person said nothing more."""
CHANGED = "A person changed this call before it was made, to these arguments: "
"""The sentence before the result of a call that was not made as the model wanted."""


@frozen
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


RESERVED = frozenset(inspect.signature(Context.call).parameters) - {"args", "kwargs"}
"""Names that ``ctx.call`` has for itself."""


async def call_tool(
    ctx: Context,
    name: str,
    arguments: Mapping[str, Any],
    use: Callable[[], Coroutine[Any, Any, Json]],
    *,
    once: bool,
    parameters: Mapping[str, Any] | None,
    call: str | None = "",
) -> Any:
    """Return what a tool returned when it was called first. ``use`` calls it, with the arguments as they are.

    ``call``: the model's id of it, empty where it has none, None for what is no call of a model. ``parameters``: the
    JSON Schema of its arguments. The arguments of a ``once`` call are recorded, so people can say
    whether it happened: what the schema calls a secret is hidden in them. What takes the call's place in a test gets
    them by name; ``name``, ``once``, ``retry``, ``function`` and ``self`` with an underscore behind them.
    """

    async def called(**_: Any) -> Json:
        if call is not None:
            RecordedCall.is_of_tool(call)
        return await use()

    recorded = masked(dict(arguments), secret_names(parameters)) if once else arguments
    shown = {f"{key}_" if key in RESERVED else key: value for key, value in recorded.items()}
    return await ctx.call(called, name=name, once=once, **shown)


LIBRARIES = {"pydantic_ai": "wfdash.agents.pydantic_ai", "agents": "wfdash.agents.openai_agents"}
"""The package of an agent's class -> the module that runs it, imported only for such an agent."""


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
    return await driver.run(call)  # type: ignore[no-any-return]


def _driver(agent: Any) -> Any:
    packages = [kind.__module__.partition(".")[0] for kind in type(agent).__mro__]
    package = next((package for package in packages if package in LIBRARIES), None)
    if package is None:
        raise InvalidCall(f"run_agent needs an agent of pydantic-ai or of openai-agents, not {type(agent).__name__}")
    try:
        check_framework(package)
        return import_module(LIBRARIES[package])
    except ImportError as error:
        raise InvalidCall(f"run_agent: {error}") from error
