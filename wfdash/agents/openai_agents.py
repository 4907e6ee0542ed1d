"""Agents of the OpenAI Agents SDK: a copy whose models and tools are recorded, and people decide about interruptions.

The state of an interrupted run is not stored: after an answer the step replays its recorded turns and tools, which
gives the same state again.
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import CellType, FunctionType
from typing import Any

from agents import (
    Agent,
    FunctionTool,
    Handoff,
    ItemHelpers,
    MaxTurnsExceeded,
    Model,
    ModelProvider,
    ModelResponse,
    RunConfig,
    RunContextWrapper,
    Runner,
    ShellTool,
)
from agents import Usage as ModelUsage
from agents.items import ToolApprovalItem, TResponseOutputItem
from openai.types.responses import ResponseCompletedEvent, ResponseTextDeltaEvent
from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from checkpoints.records import Json
from wfdash.agents.openai_tools import RecordedTools, noted, part_of
from wfdash.agents.run import ALL, AgentCall, AgentReply, Usage, Wanted, said_turn
from wfdash.contract import Message, Role, ToolUse
from wfdash.questions.tools import parsed
from wfdash.workflow.errors import InvalidCall, WorkflowError
from wfdash.workflow.runtime.step_ops import apart

OUTPUT: TypeAdapter[list[TResponseOutputItem]] = TypeAdapter(list[TResponseOutputItem])
USAGE: TypeAdapter[ModelUsage] = TypeAdapter(ModelUsage)
ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
CALL, RESULT = "_call", "_call_output"
"""How the types of items end that are calls of tools, and their results."""
LONGEST_COMMAND = 80
"""Characters of a command that a headline shows."""
GIVEN = inspect.signature(Model.get_response)


async def run(call: AgentCall) -> AgentReply[Any]:
    """Run an agent until it has its output; every turn and tool is recorded."""
    own = dict(call.options)
    # Traces would be sent to the SDK's makers.
    config = own.pop("run_config", None) or RunConfig(tracing_disabled=True)
    refuse_unrecorded(own, config)
    if call.more_turns is not None:
        for name in ("previous_response_id", "auto_previous_response_id", "conversation_id"):
            if own.get(name):
                raise InvalidCall(f"run_agent: more_turns= does not go with {name}=: give history= instead")
    recording = RecordedAgents(RecordedTools(call), config)
    recorded = recording.agent(call.agent)
    try:
        await recording.list_tools(own.get("context"))
        return await _drive(call, recording, recorded, own)
    except Exception:
        if recording.tools.broken is not None:  # What the SDK made of it tells less.
            raise recording.tools.broken from None
        raise


async def _drive(
    call: AgentCall, recording: RecordedAgents, recorded: Agent[Any], own: dict[str, Any]
) -> AgentReply[Any]:
    own = {**own, "run_config": recording.config()}
    given: Any = [*call.history, {"role": "user", "content": call.prompt}] if call.history else call.prompt
    result = await _run_on(call, recording, recorded, given, own)
    while result.interruptions:
        raw = ((item.raw_item, item) for item in result.interruptions)
        items = {str(part_of(one, "call_id") or part_of(one, "id")): item for one, item in raw}
        said = transcript(result.to_input_list(), recording.tools)
        call.ctx.transcript(said)
        wanted = [recording.wanted(id_, item) for id_, item in items.items()]
        decisions = await call.approvals.ask(wanted, said)
        state = result.to_state()
        for id_, decision in decisions.items():
            recording.tools.decide(state, items[id_], recording.tool_of(id_, items[id_]), id_, decision)
        own.pop("context", None)  # The state has it.
        result = await _run_on(call, recording, recorded, state, own)
    used = result.context_wrapper.usage
    usage = Usage(turns=used.requests, input_tokens=used.input_tokens, output_tokens=used.output_tokens)
    return AgentReply(output=result.final_output, history=to_jsonable_python(result.to_input_list()), usage=usage)


async def _run_on(
    call: AgentCall, recording: RecordedAgents, agent: Agent[Any], given: Any, options: dict[str, Any]
) -> Any:
    """Return the SDK's result; where the agent has used up its turns and a person allows more, of all of them."""
    while True:
        try:
            return await Runner.run(agent, given, **options)
        except MaxTurnsExceeded as error:
            found = error.run_data
            if found is None:
                raise
            new = [item.to_input_item() for item in found.new_items if not isinstance(item, ToolApprovalItem)]
            given = [*ItemHelpers.input_to_new_input_list(found.input), *new]
            if not await call.continues(error, transcript(given, recording.tools)):
                raise
            agent = found.last_agent
            options = {**options, "context": found.context_wrapper, "max_turns": call.more_turns}


def refuse_unrecorded(options: Mapping[str, Any], config: Any) -> None:
    """Raise ``InvalidCall`` for a session of the SDK: a step that runs again would read its own messages as earlier
    ones, and add them a second time. So it does for a sandbox, whose tools are made while the agent runs.
    """
    if options.get("session") is not None:
        raise InvalidCall(
            "run_agent: session= is not supported, because a session keeps its messages outside of the run, where a "
            "replay finds them. Keep reply.history in ctx.state and give it as history= the next time"
        )
    if getattr(config, "sandbox", None) is not None:
        raise InvalidCall("run_agent: a run_config with a sandbox is not supported: its tools cannot be recorded")


@dataclass(frozen=True)
class ModelTurn:
    """A turn of a model: what it was given and what it said. ``shown``: it is of the conversation that pages show."""

    given: list[Any]
    output: Sequence[Any]
    tools: list[Any]
    instructions: str | None
    shown: bool


@dataclass
class RecordedAgents:
    """One run of an agent: copies of it and of those it hands over to.

    ``given``: the SDK's configuration. ``shown``: whether it is the conversation that pages show; those of agents that
    are called as tools are not.
    """

    tools: RecordedTools
    given: RunConfig
    shown: bool = True
    turns: dict[str, ModelTurn] = field(default_factory=dict)
    """Call -> the turn that made it."""
    servers: list[Agent[Any]] = field(default_factory=list)
    """Copies of agents whose MCP servers have not been asked for their tools."""
    called: dict[int, RecordedAgents] = field(default_factory=dict)
    """Configuration -> the copies of agents that are called as tools with it."""
    agents: dict[int, tuple[Agent[Any], Agent[Any]]] = field(default_factory=dict)

    def config(self) -> RunConfig:
        """Return the configuration with recorded models."""
        given = self.given
        model = RecordedModel(given.model, self) if isinstance(given.model, Model) else given.model
        return replace(given, model=model, model_provider=RecordedProvider(given.model_provider, self))

    def agent(self, agent: Agent[Any]) -> Agent[Any]:
        """Return the recorded copy of an agent, the same for each that hands over to it."""
        if id(agent) in self.agents:
            return self.agents[id(agent)][1]
        if type(agent).get_all_tools is not Agent.get_all_tools or type(agent).get_mcp_tools is not Agent.get_mcp_tools:
            raise InvalidCall(
                f"run_agent: the agent {agent.name!r} is a {type(agent).__name__}, which makes tools while it runs:"
                " they cannot be recorded. Give its tools to an Agent"
            )
        model = RecordedModel(agent.model, self) if isinstance(agent.model, Model) else agent.model
        recorded = agent.clone(model=model)
        self.agents[id(agent)] = agent, recorded
        recorded.tools = [self.tool(tool) for tool in agent.tools]
        recorded.handoffs = [self.handoff(one) for one in agent.handoffs]
        if agent.mcp_servers:
            self.servers.append(recorded)
        return recorded

    def handoff(self, given: Any) -> Any:
        """Return what an agent hands over to, recorded."""
        if not isinstance(given, Handoff):
            return self.agent(given)
        invoke, known = given.on_invoke_handoff, given._agent_ref
        if known is not None and isinstance(agent := known(), Agent):
            self.agent(agent)

        async def recorded(context: Any, arguments: str) -> Any:
            agent = await invoke(context, arguments)
            if id(agent) in self.agents:
                return self.agent(agent)
            # Made while the agent runs, maybe another one each time.
            own = replace(self, agents=dict(self.agents), servers=[])
            copied = own.agent(agent)
            await own.list_tools(context.context)
            return copied

        return replace(given, on_invoke_handoff=recorded)

    async def list_tools(self, context: Any) -> None:
        """Ask the MCP servers of all agents for their tools: a recorded call of each, and not again in this run.

        A run that was recorded before tools other than functions were meets a call here that it did not make.
        """
        if self.tools.others:
            names = sorted(self.tools.others)
            await self.tools.record("list_tools", {}, lambda: _value(names), call=None)
            self.tools.others.clear()
        for recorded in self.servers:
            recorded.mcp_servers = [
                ListedServer(server, await self._listed(server, recorded, RunContextWrapper(context)))  # type: ignore[misc]
                for server in recorded.mcp_servers
            ]
            found = await Agent.get_mcp_tools(recorded, RunContextWrapper(context))
            _offer(recorded, [self.tools.tool(tool) for tool in found])
        self.servers.clear()

    async def _listed(self, server: Any, agent: Agent[Any], context: RunContextWrapper[Any]) -> list[Any]:
        from mcp.types import Tool

        async def listed() -> Json:
            found = await server.list_tools(context, agent)
            return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in found]

        return [Tool.model_validate(one) for one in await self.tools.record("list_tools", {}, listed, call=None)]

    def tool(self, tool: Any) -> Any:
        """Return a tool that is recorded. An agent as a tool is no call: its own turns and tools are recorded."""
        agent = getattr(tool, "_agent_instance", None)
        if not isinstance(tool, FunctionTool) or not isinstance(agent, Agent):
            return self.tools.tool(tool)
        if tool.name in self.tools.call.once:
            raise InvalidCall(f"run_agent: once= names the agent {tool.name!r}: name the tools that it calls")
        inner, wrapped, decided = self._agent_tool(tool, agent), copy.copy(tool), self.tools.call.approvals

        async def recorded(context: Any, arguments: str) -> Any:
            call = context.tool_call_id
            apart(str(call))
            if call in decided.responses:
                return decided.responses.pop(call)
            edited = self.tools.edited.get(call)
            given = arguments if edited is None else json.dumps(edited)
            # Kept for the next time: it runs again after each question of its own.
            return noted(decided.notes.get(call), await inner.on_invoke_tool(context, given))

        wrapped.on_invoke_tool = recorded
        self.tools.known[id(wrapped)] = wrapped
        self.tools.others.add(tool.name)
        return wrapped

    def _agent_tool(self, tool: FunctionTool, agent: Agent[Any]) -> FunctionTool:
        """Return a copy of an agent's tool that runs the recorded copy of the agent: the SDK's function holds both."""
        invoker: Any = tool.on_invoke_tool
        function = getattr(invoker, "_invoke_tool_impl", None)
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)) if function else {}
        held = {name: cell.cell_contents for name, cell in cells.items()}
        if function is None or held.get("self") is not agent or "run_config" not in held:
            raise InvalidCall(
                f"run_agent: the agent {tool.name!r} is a tool that was not made by as_tool(), or by another version"
                " of openai-agents than wfdash knows: what it does cannot be recorded"
            )
        for name in ("session", "on_stream"):
            if held.get(name) is not None:
                raise InvalidCall(f"run_agent: as_tool({name}=...) of {tool.name!r} is not supported: leave it out")
        given = held["run_config"] or self.given
        refuse_unrecorded({}, given)
        if id(given) not in self.called:
            fresh = replace(self, given=given, shown=False, agents={})
            self.called[id(given)] = fresh
            # It calls agents as its tools, too.
            fresh.called = self.called
        called = self.called[id(given)]
        new = {"self": called.agent(agent), "run_config": called.config()}
        closure = tuple(CellType(new[name]) if name in new else cell for name, cell in cells.items())
        run_agent = FunctionType(function.__code__, function.__globals__, function.__name__, None, closure)
        inner = copy.copy(tool)
        inner.on_invoke_tool = type(invoker)(run_agent, invoker._on_handled_error, function_tool=inner)
        return inner

    def tool_of(self, call: str, item: ToolApprovalItem) -> Any:
        """Return the tool of a call, None where it is not one of ours."""
        turn = self.turns.get(call)
        names = {item.tool_name, part_of(item.raw_item, "name")}
        return next((one for one in turn.tools if one.name in names), None) if turn is not None else None

    def wanted(self, call: str, item: ToolApprovalItem) -> Wanted:
        """Return what people are asked about a call."""
        tool, turn = self.tool_of(call, item), self.turns.get(call)
        arguments, parameters = self.tools.proposed(item.raw_item, tool)
        return Wanted(
            call=call,
            tool=item.tool_name or "tool",
            arguments=arguments,
            parameters=parameters,
            subject=f"{tool.name}: {arguments['commands'][0][:LONGEST_COMMAND]}" if isinstance(tool, ShellTool) else "",
            description=getattr(tool, "description", None) or "",
            allow=("approve", "reject") if parameters is None else ALL,
            messages=self.said(turn) if turn is not None and not turn.shown else None,
        )

    def said(self, turn: ModelTurn) -> tuple[Message, ...]:
        """Return the conversation up to a turn."""
        return transcript([*turn.given, *turn.output], self.tools, turn.instructions)


class ListedServer:
    """An MCP server whose tools are known."""

    def __init__(self, server: Any, tools: list[Any]) -> None:
        self._server, self._tools = server, tools

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    async def list_tools(self, *_: Any) -> list[Any]:
        """Return the tools as they were recorded."""
        return list(self._tools)


def _offer(agent: Any, tools: list[Any]) -> None:
    """Let these be the tools of an agent's MCP servers."""

    async def get_mcp_tools(_: Any) -> list[Any]:
        return list(tools)

    agent.get_mcp_tools = get_mcp_tools


class RecordedProvider(ModelProvider):
    """Models by name, recorded."""

    def __init__(self, provider: ModelProvider, agents: RecordedAgents) -> None:
        self._provider, self._agents = provider, agents

    def get_model(self, model_name: str | None) -> Model:
        """Return a model by name."""
        model = self._provider.get_model(model_name)
        return model if isinstance(model, RecordedModel) else RecordedModel(model, self._agents)


class RecordedModel(Model):
    """A model whose turns are recorded calls; what it writes is streamed to the run's page."""

    def __init__(self, model: Model, agents: RecordedAgents) -> None:
        self._model, self._agents, self._ctx = model, agents, agents.tools.call.ctx

    async def get_response(self, *args: Any, **options: Any) -> ModelResponse:
        """Return the model's turn, as it was recorded if it was made before."""
        given = GIVEN.bind(self, *args, **options).arguments
        tools = self._agents.tools
        if tools.broken is not None:
            raise tools.broken
        tools.check(given["tools"])
        try:
            found = await self._recorded(given, args, options)
        except WorkflowError as error:
            tools.broken = error
            raise
        output, usage = OUTPUT.validate_python(found["output"]), USAGE.validate_python(found["usage"])
        turn = self._turn(given, output)
        for item in output:
            for name in ("call_id", "id"):
                self._agents.turns[str(part_of(item, name))] = turn
        return ModelResponse(output=output, usage=usage, response_id=found["id"])

    async def _recorded(self, given: Mapping[str, Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Return a turn as JSON. Where the SDK repeats a turn that failed, each attempt is a call of its own."""
        raised: list[Exception] = []
        repeats = given["model_settings"].retry is not None

        async def turn() -> Json:
            try:
                response = await self._stream(args, options)
            except Exception as error:
                if not repeats:
                    raise
                raised.append(error)
                return {"failed": f"{type(error).__name__}: {error}"}
            said_turn(
                self._ctx,
                getattr(self._model, "model", None),
                response.usage.input_tokens,
                response.usage.output_tokens,
                "openai" if type(self._model).__module__.startswith("agents.models.") else None,
            )
            if self._agents.shown:
                self._ctx.transcript(self._agents.said(self._turn(given, response.output)))
            output = [to_jsonable_python(one, exclude_none=True) for one in response.output]
            usage = USAGE.dump_python(response.usage, mode="json")
            return {"output": output, "usage": usage, "id": response.response_id}

        while "failed" in (found := await self._ctx.call(turn, name="model")):
            if raised:
                raise raised[0]
        return found

    def _turn(self, given: Mapping[str, Any], output: Sequence[Any]) -> ModelTurn:
        items = given["input"]
        before = [{"role": "user", "content": items}] if isinstance(items, str) else items
        return ModelTurn(before, output, given["tools"], given["system_instructions"], self._agents.shown)

    async def _stream(self, args: tuple[Any, ...], options: dict[str, Any]) -> ModelResponse:
        try:
            async for event in self._model.stream_response(*args, **options):
                if isinstance(event, ResponseTextDeltaEvent):
                    self._ctx.stream(event.delta)
                elif isinstance(event, ResponseCompletedEvent):
                    return _response(event)
        except NotImplementedError:  # The model cannot stream.
            pass
        return await self._model.get_response(*args, **options)

    def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        """Refuse: a run of an agent in a step streams by itself."""
        raise NotImplementedError


def _response(event: ResponseCompletedEvent) -> ModelResponse:
    found, used = event.response, event.response.usage
    usage = ModelUsage()
    if used is not None:
        usage = ModelUsage(
            requests=1,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            total_tokens=used.total_tokens,
        )
    return ModelResponse(output=found.output, usage=usage, response_id=found.id)


async def _value(value: Json) -> Json:
    return value


def transcript(items: Sequence[Any], tools: RecordedTools, instructions: str | None = None) -> tuple[Message, ...]:
    """Return who said what, with secrets hidden. A text and the calls that follow it are one."""
    said = [Message(role="system", text=instructions)] if instructions else []
    for item in (to_jsonable_python(one) for one in items):
        one = _item_message(item) if isinstance(item, dict) else None
        if one is not None and one.calls and said and said[-1].role == "assistant":
            said[-1] = said[-1].model_copy(update={"calls": (*said[-1].calls, *one.calls)})
        elif one is not None:
            said.append(one)
    return tools.call.masking.masked(said, tools.secrets)


def _item_message(item: dict[str, Any]) -> Message | None:
    """Return what an item of a conversation says; None for one that says nothing, as reasoning."""
    kind, call = str(item.get("type")), str(item.get("call_id") or item.get("id") or "")
    if kind.endswith(RESULT):
        return Message(role="tool", call=call, text=_text(item.get("output")))
    if kind.endswith(CALL):
        name = str(item.get("name") or kind.removesuffix(CALL))
        return Message(role="assistant", calls=(ToolUse(id=call, name=name, arguments=_arguments(item)),))
    role = ROLES.get(str(item.get("role")))
    return None if role is None else Message(role=role, text=_text(item.get("content")))


def _arguments(item: Mapping[str, Any]) -> Json:
    """Return what a tool was called with: every kind of call has another name for it."""
    names = ("arguments", "input", "operation", "operations", "actions", "action")
    return parsed(next((item[name] for name in names if item.get(name) is not None), None))


def _text(content: Any) -> str:
    """Return a text, or the texts of its parts. A part that is none is named by its type, where it has one."""
    parts = content if isinstance(content, list) else [content]
    return "\n\n".join(map(_part_text, parts)) if content else ""


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict) or not (said := part.get("text") or part.get("refusal") or part.get("type")):
        return json.dumps(part, ensure_ascii=False)
    return f"[{said}]" if said == part.get("type") else str(said)
