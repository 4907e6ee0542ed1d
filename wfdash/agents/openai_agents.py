"""Agents of the OpenAI Agents SDK: a copy whose models and tools are recorded, and people decide about interruptions.

The state of an interrupted run is not stored: after an answer the step replays its recorded turns and tools, which
gives the same state again.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agents import Agent, FunctionTool, Handoff, Model, ModelProvider, ModelResponse, RunConfig, Runner
from agents import Usage as ModelUsage
from agents.items import ToolApprovalItem, TResponseOutputItem
from openai.types.responses import ResponseCompletedEvent, ResponseTextDeltaEvent
from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from checkpoints.records import Json
from wfdash.agents.approvals import ALL, DENIED, Wanted
from wfdash.agents.call import AgentCall
from wfdash.agents.reply import AgentReply, Usage, said_turn
from wfdash.agents.tool_calls import call_tool
from wfdash.questions.tools import ToolDecision
from wfdash.questions.transcript import Message, Role, ToolUse, masked_transcript
from wfdash.schemas.secrets import secret_names
from wfdash.workflow import Context
from wfdash.workflow.errors import InvalidCall

OUTPUT: TypeAdapter[list[TResponseOutputItem]] = TypeAdapter(list[TResponseOutputItem])
USAGE: TypeAdapter[ModelUsage] = TypeAdapter(ModelUsage)
ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}


async def run(call: AgentCall) -> AgentReply[Any]:
    """Run an agent until it has its output; every turn and tool is recorded."""
    refuse_session(call.options)
    recording, own = RecordedAgents(call), dict(call.options)
    # Traces would be sent to the SDK's makers.
    config = recording.config(own.pop("run_config", None) or RunConfig(tracing_disabled=True))
    recorded = recording.agent(call.agent)
    given: Any = [*call.history, {"role": "user", "content": call.prompt}] if call.history else call.prompt
    result = await Runner.run(recorded, given, run_config=config, **own)
    while result.interruptions:
        items = {_call_of(item): item for item in result.interruptions}
        wanted = [recording.wanted(id_, item) for id_, item in items.items()]
        decisions = await call.approvals.ask(wanted, transcript(result.to_input_list(), recording.tools.values()))
        state = result.to_state()
        for id_, decision in decisions.items():
            recording.decide(state, items[id_], id_, decision)
        again = {name: value for name, value in own.items() if name != "context"}
        result = await Runner.run(recorded, state, run_config=config, **again)
    used = result.context_wrapper.usage
    usage = Usage(turns=used.requests, input_tokens=used.input_tokens, output_tokens=used.output_tokens)
    return AgentReply(output=result.final_output, history=to_jsonable_python(result.to_input_list()), usage=usage)


def refuse_session(options: Mapping[str, Any]) -> None:
    """Raise ``InvalidCall`` for a session of the SDK: a step that runs again would read its own messages as earlier
    ones, and add them a second time.
    """
    if options.get("session") is not None:
        raise InvalidCall(
            "run_agent: session= is not supported, because a session keeps its messages outside of the run, where a "
            "replay finds them. Keep reply.history in ctx.state and give it as history= the next time"
        )


@dataclass
class RecordedAgents:
    """One run of an agent: copies of it and of those it hands over to."""

    call: AgentCall
    edited: dict[str, str] = field(default_factory=dict)
    """Call -> the arguments that people put in place of the model's, as JSON."""
    tools: dict[str, FunctionTool] = field(default_factory=dict)
    agents: dict[int, Agent[Any]] = field(default_factory=dict)

    def config(self, given: RunConfig) -> RunConfig:
        """Return the configuration with recorded models."""
        model = RecordedModel(given.model, self.call.ctx) if isinstance(given.model, Model) else given.model
        return replace(given, model=model, model_provider=RecordedProvider(given.model_provider, self.call.ctx))

    def agent(self, agent: Agent[Any]) -> Agent[Any]:
        """Return the recorded copy of an agent, the same for each that hands over to it."""
        if id(agent) in self.agents:
            return self.agents[id(agent)]
        model = RecordedModel(agent.model, self.call.ctx) if isinstance(agent.model, Model) else agent.model
        copy = agent.clone(model=model, tools=[self.tool(tool) for tool in agent.tools])
        self.agents[id(agent)] = copy
        copy.handoffs = [self.handoff(one) for one in agent.handoffs]
        return copy

    def handoff(self, given: Any) -> Any:
        """Return what an agent hands over to, recorded."""
        if not isinstance(given, Handoff):
            return self.agent(given)
        invoke = given.on_invoke_handoff

        async def recorded(context: Any, arguments: str) -> Any:
            return self.agent(await invoke(context, arguments))

        return replace(given, on_invoke_handoff=recorded)

    def tool(self, tool: Any) -> Any:
        """Return a tool whose calls are recorded; those that the provider runs itself are part of the model's turn."""
        if not isinstance(tool, FunctionTool):
            return tool
        self.tools[tool.name] = tool
        invoke = tool.on_invoke_tool

        async def recorded(context: Any, arguments: str) -> Any:
            call = context.tool_call_id
            if call in self.call.approvals.responses:
                return self.call.approvals.responses[call]
            given = self.edited.get(call, arguments)

            async def use() -> Json:
                value: Json = to_jsonable_python(await invoke(context, given))
                return value

            once, schema = tool.name in self.call.once, tool.params_json_schema
            return await call_tool(self.call.ctx, tool.name, _read(given), use, once=once, parameters=schema)

        return replace(tool, on_invoke_tool=recorded)

    def wanted(self, call: str, item: ToolApprovalItem) -> Wanted:
        """Return what people are asked about a call."""
        name = item.tool_name or "tool"
        tool = self.tools.get(name)
        return Wanted(
            call=call,
            tool=name,
            arguments=_read(_field(item.raw_item, "arguments") or "{}"),
            parameters=None if tool is None else tool.params_json_schema,
            description="" if tool is None else tool.description,
            allow=("approve", "reject") if tool is None else ALL,
        )

    def decide(self, state: Any, item: ToolApprovalItem, call: str, decision: ToolDecision) -> None:
        """Say in the state what people decided. A call that they answered is 'approved', and gives that answer."""
        if decision.action == "reject":
            state.reject(item, rejection_message=decision.feedback or DENIED)
            return
        if decision.action == "edit":
            self.edited[call] = json.dumps(decision.arguments)
        state.approve(item)


class RecordedProvider(ModelProvider):
    """Models by name, recorded."""

    def __init__(self, provider: ModelProvider, ctx: Context) -> None:
        self._provider, self._ctx = provider, ctx

    def get_model(self, model_name: str | None) -> Model:
        """Return a model by name."""
        model = self._provider.get_model(model_name)
        return model if isinstance(model, RecordedModel) else RecordedModel(model, self._ctx)


class RecordedModel(Model):
    """A model whose turns are recorded calls; what it writes is streamed to the run's page."""

    def __init__(self, model: Model, ctx: Context) -> None:
        self._model, self._ctx = model, ctx

    async def get_response(self, *args: Any, **options: Any) -> ModelResponse:
        """Return the model's turn, as it was recorded if it was made before."""

        async def turn() -> Json:
            response = await self._stream(args, options)
            said_turn(self._ctx, None, response.usage.input_tokens, response.usage.output_tokens)
            self._tell(response, args, options)
            output = [to_jsonable_python(one, exclude_none=True) for one in response.output]
            usage = USAGE.dump_python(response.usage, mode="json")
            return {"output": output, "usage": usage, "id": response.response_id}

        found: Any = await self._ctx.call(turn, name="model")
        output, usage = OUTPUT.validate_python(found["output"]), USAGE.validate_python(found["usage"])
        return ModelResponse(output=output, usage=usage, response_id=found["id"])

    def _tell(self, response: ModelResponse, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Say what the conversation is by now."""
        given = inspect.signature(Model.get_response).bind(self, *args, **options).arguments
        items = given["input"]
        before = [{"role": "user", "content": items}] if isinstance(items, str) else items
        self._ctx.transcript(transcript([*before, *response.output], given["tools"], given["system_instructions"]))

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


def _call_of(item: ToolApprovalItem) -> str:
    return str(_field(item.raw_item, "call_id") or _field(item.raw_item, "id"))


def _field(raw: Any, name: str) -> Any:
    return raw.get(name) if isinstance(raw, Mapping) else getattr(raw, name, None)


def _read(arguments: str) -> dict[str, Any]:
    """Return arguments as the model wrote them; as they are where that is no JSON object."""
    try:
        found = json.loads(arguments or "{}")
    except ValueError:
        return {"arguments": arguments}
    return found if isinstance(found, dict) else {"arguments": found}


def transcript(items: Sequence[Any], tools: Iterable[Any] = (), instructions: str | None = None) -> tuple[Message, ...]:
    """Return who said what, with the secrets of these tools hidden. A text and the calls that follow it are one."""
    said = [Message(role="system", text=instructions)] if instructions else []
    for item in (to_jsonable_python(one) for one in items):
        one = _item_message(item) if isinstance(item, dict) else None
        if one is not None and one.calls and said and said[-1].role == "assistant":
            said[-1] = said[-1].model_copy(update={"calls": (*said[-1].calls, *one.calls)})
        elif one is not None:
            said.append(one)
    schemas = (tool.params_json_schema for tool in tools if isinstance(tool, FunctionTool))
    return masked_transcript(said, frozenset[str]().union(*map(secret_names, schemas)))


def _item_message(item: dict[str, Any]) -> Message | None:
    """Return what an item of a conversation says; None for one that says nothing, as reasoning."""
    if item.get("type") == "function_call_output":
        output = item.get("output", "")
        text = output if isinstance(output, str) else json.dumps(output)
        return Message(role="tool", call=str(item.get("call_id", "")), text=text)
    if item.get("type") == "function_call":
        use = ToolUse(id=str(item.get("call_id", "")), name=str(item.get("name")), arguments=item.get("arguments"))
        return Message(role="assistant", calls=(use,))
    role = ROLES.get(str(item.get("role")))
    return None if role is None else Message(role=role, text=_text(item.get("content")))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = [part for part in content or () if isinstance(part, dict)]
    return "\n\n".join(str(part.get("text") or part.get("refusal") or f"[{part.get('type')}]") for part in parts)
