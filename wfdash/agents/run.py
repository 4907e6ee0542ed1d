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
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from checkpoints.limits import cleaned
from checkpoints.records import Json, JsonObject, frozen
from checkpoints.rules import reported_usage
from wfdash.contract import Message
from wfdash.installation.workflow_sources import check_framework
from wfdash.questions.card import one_line
from wfdash.questions.cards import Approval, prepare
from wfdash.questions.evidence import JsonValue, Link, Text
from wfdash.questions.policy import Policy
from wfdash.questions.tools import Masking, ToolCall, ToolDecision, Verb, conversation
from wfdash.values.display import to_display, truncate
from wfdash.values.fingerprints import digest
from wfdash.values.schemas.secrets import masked, secret_names
from wfdash.workflow import Context
from wfdash.workflow.errors import InvalidCall
from wfdash.workflow.runtime.invoke import RecordedCall
from wfdash.workflow.runtime.step_ops import apart

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


# Questions of MCP servers, which a step or its agent uses.

MOST_ASKED = 10
"""Questions of servers in one call of a tool, and in one run of a step that uses them itself."""
LONGEST_MESSAGE, LARGEST_SCHEMA = 4_000, 20_000
"""Characters."""
ABOUT = ("type", "title", "description", "default", "enum", "oneOf", "anyOf", "const", "items", "format")
LIMITS = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
PLAIN = ("string", "number", "integer", "boolean")
Asked = dict[str, Any]
"""What a server asks: ``server``, ``message``, and ``schema`` or ``url``."""


@dataclass
class Elicitation:
    """What servers ask in one run of a step. A tool's recorded call cannot wait: it ends, people are asked, and it is
    made again.
    """

    policies: dict[str, Policy | None] = field(default_factory=dict)
    """Server -> who is asked."""
    left: int = MOST_ASKED
    answers: list[tuple[Asked, JsonObject]] | None = None
    """What was answered in the call that is made; None where there is none."""
    new: list[Asked] = field(default_factory=list)
    """What was asked in it, and has no answer."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One call at a time: servers do not say in which one they ask."""

    async def answer(self, ctx: Context, asked: Asked) -> JsonObject:
        """Return the answer as the protocol has it. ``InvalidCall`` if there is none now."""
        known = next((one for one in self.answers or () if one[0] == asked), None)
        if known is not None and self.answers is not None:
            self.answers.remove(known)
            return known[1]
        if self.left <= 0:
            raise InvalidCall(f"{asked['server']} asks people too often in this call, or in one that is made once")
        self.left -= 1
        if self.answers is None:
            return await self.ask(ctx, asked)
        self.new.append(asked)
        raise InvalidCall("People are asked now; the call is made again with their answer")

    async def ask(self, ctx: Context, asked: Asked) -> JsonObject:
        """Ask people, and return their answer as the protocol has it."""
        card, policy = card_of(asked), self.policies.get(asked["server"])
        decision = await ctx.ask(card, policy=policy, same=("subject", "evidence"), name="elicitation")
        if decision.action == "reject":
            return {"action": "cancel" if decision.lapsed else "decline"}
        return {"action": "accept"} if "url" in asked else {"action": "accept", "content": decision.arguments}

    async def during(self, use: Callable[[], Coroutine[Any, Any, Json]], said: list[Any], *, once: bool) -> Json:
        """Return what a tool returned, or what its server asks. ``said``: what was answered to it before."""
        async with self.turn:
            self.answers, self.new, self.left = list(said), [], 0 if once else MOST_ASKED - len(said)
            try:
                found = await use()
            except Exception:
                if not self.new:
                    raise
                found = None
            finally:
                self.answers, self.left = None, MOST_ASKED
            return {"elicited": self.new, "found": None if self.new else found}


_elicitations: WeakKeyDictionary[Context, Elicitation] = WeakKeyDictionary()


def elicitation_callback(
    ctx: Context, *, server: str = "MCP server", policy: Policy | None = None
) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return what an MCP client calls when a server elicits: people are asked on a card, for days if need be.

    For ``ClientSession(elicitation_callback=)``, ``McpToolset(elicitation_callback=)`` of ADK, and
    ``MCPToolset(elicitation_handler=)`` of pydantic-ai, each made in the step. ``server``: what people know it by;
    ``policy``: who is asked. The session is gone once the run parks: the step, or the recorded call of an agent's
    tool, is made again, and a question that was answered is not asked again.
    """
    asking = _elicitations.setdefault(ctx, Elicitation())
    asking.policies[server] = policy

    async def answer(*given: Any) -> Any:
        from mcp.types import INVALID_REQUEST, ElicitResult, ErrorData

        handler = len(given) > 2  # That of FastMCP: message, type, parameters, context.
        try:
            asked = asked_by(server, given[2 if handler else 1].model_dump(mode="json", by_alias=True))
            return ElicitResult.model_validate(await asking.answer(ctx, asked))
        except InvalidCall as error:
            if handler:
                raise
            return ErrorData(code=INVALID_REQUEST, message=str(error))

    return answer


def asked_by(server: str, params: Mapping[str, Any]) -> Asked:
    """Return what a server asks. ``InvalidCall`` for what no one is to be shown, or to answer."""
    message = cleaned(params["message"])
    asked: Asked = {"server": server, "message": message}
    if not message.strip() or len(message) > LONGEST_MESSAGE:
        raise InvalidCall(f"The message of a question has 1 to {LONGEST_MESSAGE} characters")
    try:
        if params.get("mode") == "url":
            asked["url"] = url = str(params["url"])
            if urlsplit(url).scheme != "https" or not urlsplit(url).hostname or len(url) > LONGEST_MESSAGE:
                raise InvalidCall("The address of a question begins with https:// and a host")
        else:
            asked["schema"] = _fields_of(params["requestedSchema"])
        prepare(card_of(asked), None)
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidCall(f"The question cannot be shown: {error}") from error
    return asked


def _fields_of(given: Mapping[str, Any]) -> JsonObject:
    """Return a form's schema: plain fields, with what the protocol says of them and nothing else."""
    if len(json.dumps(given)) > LARGEST_SCHEMA:
        raise InvalidCall(f"The schema of a question has at most {LARGEST_SCHEMA} characters")
    if secret_names(given):
        raise InvalidCall("Servers must not ask for secrets in a form: use an address (mode url)")
    fields = {name: _field_of(one) for name, one in given.get("properties", {}).items()}
    return {"type": "object", "properties": fields, "required": sorted(fields.keys() & set(given.get("required", ())))}


def _field_of(given: Any, inside: bool = False) -> JsonObject:
    kept = {name: given[name] for name in (*ABOUT, *LIMITS) if name in given} if isinstance(given, dict) else {}
    if kept.get("type") == "array" and not inside:
        return {**kept, "items": _field_of(kept.get("items"), inside=True)}
    if kept.get("type") not in PLAIN and not inside:
        raise InvalidCall(f"A question has plain fields ({', '.join(PLAIN)}) and lists of choices")
    kept.pop("items", None)
    return kept


def card_of(asked: Asked) -> ToolCall:
    """Return the card of what a server asks."""
    server, message, schema = asked["server"], asked["message"], asked.get("schema", {"type": "object"})
    fields, url = schema.get("properties", {}), asked.get("url")
    send: Verb = "edit" if fields else "approve"
    text = "An MCP server asks this, not the author of the workflow. Send no password and no key."
    return ToolCall(
        tool=server,
        arguments={name: one["default"] for name, one in fields.items() if "default" in one},
        parameters=schema,
        subject=f"{server} asks: {one_line(message, 120)}",
        body=f"{text} Open the address only if you expect it from this server." if url else text,
        evidence=[Text(title="Question", value=message), *([Link(title="Address", url=url)] if url else [])],
        allow=(send, "reject"),
        labels={send: "I have done it" if url else "Send", "reject": "Decline"},
        consequence={
            send: f"{server} gets it and continues",
            "reject": f"{server} learns that you decline, and not why",
        },
    )


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

    asking, said = _elicitations.get(ctx), list[tuple[Asked, JsonObject]]()

    async def called(**_: Any) -> Json:
        if call is not None:
            RecordedCall.is_of_tool(call)
        return await use() if asking is None else await asking.during(use, said, once=once)

    recorded = masked(dict(arguments), secret_names(parameters)) if once else arguments
    shown = {f"{key}_" if key in RESERVED else key: value for key, value in recorded.items()}
    while True:
        found = await ctx.call(called, name=name, once=once, **shown)
        if asking is None or not isinstance(found, dict) or found.keys() != {"elicited", "found"}:
            return found
        if not found["elicited"]:
            return found["found"]
        said += [(one, await asking.ask(ctx, one)) for one in found["elicited"]]


LIBRARIES = {
    "pydantic_ai": "wfdash.agents.pydantic_ai",
    "agents": "wfdash.agents.openai_agents",
    "google.adk": "wfdash.agents.google_adk",
}
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
    """Run an agent of pydantic-ai, the OpenAI Agents SDK or Google's ADK in a step, durably; returns ``AgentReply``.

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
    apart(digest(to_display([getattr(agent, "name", None), prompt])))
    driver = await asyncio.to_thread(_driver, agent)  # Importing one takes long enough to block others.
    return await driver.run(call)  # type: ignore[no-any-return]


def _driver(agent: Any) -> Any:
    modules = [f"{kind.__module__}." for kind in type(agent).__mro__]
    package = next((name for name in LIBRARIES if any(module.startswith(f"{name}.") for module in modules)), None)
    if package is None:
        raise InvalidCall(
            f"run_agent needs an agent of pydantic-ai, openai-agents or google-adk, not {type(agent).__name__}"
        )
    try:
        check_framework(package)
        return import_module(LIBRARIES[package])
    except ImportError as error:
        raise InvalidCall(f"run_agent: {error}") from error
