"""Agents of pydantic-ai: a capability that records turns and tools, and asks people about deferred tools."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_ai import Agent, RunUsage, UsageLimits, capture_run_messages
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ModelRetry, ToolFailed, UsageLimitExceeded
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    RetryPromptPart,
    SystemPromptPart,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import (
    DeferredToolRequests,
    DeferredToolResults,
    RunContext,
    ToolApproved,
    ToolDefinition,
    ToolDenied,
)
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
from pydantic_core import to_jsonable_python

from checkpoints.records import Json
from wfdash.agents.run import ALL, DENIED, AgentCall, AgentReply, Usage, Wanted, call_tool, said_turn
from wfdash.contract import Message, ToolUse
from wfdash.questions.tools import Masking, ToolDecision
from wfdash.values.schemas.secrets import secret_names

TOOL_RETURN: TypeAdapter[Any] = TypeAdapter(ToolReturn)
OUTCOMES = ({"retry"}, {"failed"}, {"deferred", "metadata"}, {"parts"}, {"value"})
"""The keys of what is recorded of a tool. A person who says what a call returned writes that value alone."""


async def run(call: AgentCall) -> AgentReply[Any]:
    """Run an agent until it has its output; every turn and tool is recorded."""
    agent: Agent[Any, Any] = call.agent
    recorded = RecordedRun(call)
    # A name that the library guesses would be another one in the next process.
    given = {"infer_name": False, **call.options, "capabilities": [*call.options.get("capabilities", ()), recorded]}
    history = ModelMessagesTypeAdapter.validate_python(list(call.history)) if call.history else None
    used = given.pop("usage", None) or RunUsage()
    prompt, counted = call.prompt, used
    while True:
        # Only where it is needed: an author's own capture around this sees no run inside of another.
        capture: AbstractContextManager[list[ModelMessage]]
        capture = nullcontext([]) if call.more_turns is None else capture_run_messages()
        with capture as messages:
            try:
                result = await agent.run(prompt, message_history=history, usage=counted, **given)
                break
            except UsageLimitExceeded as error:
                if not await call.continues(error, transcript(messages, recorded.tools, call.masking)):
                    raise
            finally:
                if counted is not used:
                    used.incr(counted)
        # Every limit counts from here.
        history, prompt, counted = messages, None, RunUsage()
        limits = given.get("usage_limits") or UsageLimits()
        given |= {"usage_limits": replace(limits, request_limit=call.more_turns), "deferred_tool_results": None}
    usage = Usage(turns=used.requests, input_tokens=used.input_tokens, output_tokens=used.output_tokens)
    return AgentReply(output=result.output, history=as_json(result.all_messages()), usage=usage)


def as_json(messages: Sequence[ModelMessage]) -> list[Json]:
    """Return messages as JSON."""
    found: list[Json] = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    return found


class RecordedRun(AbstractCapability[Any]):
    """Records one run of an agent in a step."""

    def __init__(self, call: AgentCall) -> None:
        self._call = call
        self._results: dict[str, ToolReturnPart] = {}
        self.tools: list[ToolDefinition] = []
        """Those of the latest turn."""

    def get_wrapper_model(self, model: Model) -> Model | None:
        """Return a model whose turns are recorded."""
        return RecordedTurns(model, self._call, self.tools)

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any] | None:
        """Return tools whose calls are recorded."""
        return RecordedToolset(toolset, self._call, self._results)

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Ask people about every call that needs approval, and about those that are answered outside."""
        tools = {} if ctx.tool_manager is None else {one.name: one for one in ctx.tool_manager.tool_defs}
        outside = {part.tool_call_id for part in requests.calls}
        wanted = [
            _wanted(part, tools, part.tool_call_id in outside, requests.metadata.get(part.tool_call_id))
            for part in (*requests.approvals, *requests.calls)
        ]
        # What was called beside is not in the messages before all calls of the turn have ended.
        messages = [*ctx.messages, ModelRequest(parts=self._beside(ctx.messages))]
        said = transcript(messages, tools.values(), self._call.masking)
        self._call.ctx.transcript(said)
        decisions = await self._call.approvals.ask(wanted, said)
        return requests.build_results(
            approvals={part.tool_call_id: _verdict(decisions[part.tool_call_id]) for part in requests.approvals},
            calls={call: decisions[call].response or "" for call in outside},
            answered_by={call: decision.by for call, decision in decisions.items() if decision.by},
        )

    def _beside(self, messages: Sequence[ModelMessage]) -> list[ToolReturnPart]:
        """Return the results of the last turn's calls that have been made."""
        calls = messages[-1].parts if messages and isinstance(messages[-1], ModelResponse) else ()
        ids = [part.tool_call_id for part in calls if isinstance(part, ToolCallPart)]
        return [self._results[id_] for id_ in ids if id_ in self._results]


@dataclass
class RecordedToolset(WrapperToolset[Any]):
    """Tools whose calls are recorded by the tool's name. One that a person answered in its place is not called."""

    call: AgentCall
    results: dict[str, ToolReturnPart] = field(default_factory=dict)
    """Call -> its result."""

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Return what the tool returned when it was called first."""
        decided, call = self.call.approvals, ctx.tool_call_id or ""
        if call in decided.responses:
            return decided.responses.pop(call)

        async def use() -> Json:
            return await _outcome(self.wrapped.call_tool(name, tool_args, ctx, tool))

        if name in self.call.replayed:
            return _noted(decided.note(call), await self.wrapped.call_tool(name, tool_args, ctx, tool))
        schema, once = tool.tool_def.parameters_json_schema, name in self.call.once
        found = await call_tool(self.call.ctx, name, tool_args, use, once=once, parameters=schema, call=call)
        result = _noted(decided.note(call), _returned(found))
        content = result.return_value if isinstance(result, ToolReturn) else result
        self.results[call] = ToolReturnPart(tool_name=name, content=content, tool_call_id=call)
        return result


class RecordedTurns(WrapperModel):
    """A model whose turns are recorded calls; what it writes is streamed to the run's page."""

    def __init__(self, wrapped: Model, call: AgentCall, tools: list[ToolDefinition]) -> None:
        super().__init__(wrapped)
        self._ctx, self._masking = call.ctx, call.masking
        self._tools = tools

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the model's turn, as it was recorded if it was made before."""

        self._tools[:] = model_request_parameters.function_tools

        async def turn() -> Json:
            response = await self._stream(messages, model_settings, model_request_parameters)
            used, provider = response.usage, response.provider_name or self.system
            said_turn(self._ctx, response.model_name, used.input_tokens, used.output_tokens, provider)
            self._ctx.transcript(transcript([*messages, response], self._tools, self._masking))
            return as_json([response])[0]

        (response,) = ModelMessagesTypeAdapter.validate_python([await self._ctx.call(turn, name="model")])
        assert isinstance(response, ModelResponse)  # noqa: S101
        return response

    async def _stream(
        self, messages: list[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> ModelResponse:
        if not _can_stream(self.wrapped):
            return await self.wrapped.request(messages, settings, parameters)
        async with self.wrapped.request_stream(messages, settings, parameters) as stream:
            async for event in stream:
                if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                    self._ctx.stream(event.part.content)
                elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                    self._ctx.stream(event.delta.content_delta)
            return stream.get()


def _can_stream(model: Model) -> bool:
    """Say whether a model can stream, as far as its class tells: a scripted one may not."""
    while isinstance(model, WrapperModel):
        model = model.wrapped
    if isinstance(model, FunctionModel):
        return model.stream_function is not None
    return type(model).request_stream is not Model.request_stream


async def _outcome(call: Awaitable[Any]) -> Json:
    """Return what a tool returned or asked for as JSON."""
    try:
        value = await call
    except ModelRetry as error:
        return {"retry": error.message}
    except ToolFailed as error:
        return {"failed": error.message}
    except ValidationError as error:  # Could not be raised again: the library tells the model as well.
        return {"retry": str(error)}
    except ApprovalRequired as error:
        return {"deferred": "approval", "metadata": to_jsonable_python(error.metadata)}
    except CallDeferred as error:
        return {"deferred": "call", "metadata": to_jsonable_python(error.metadata)}
    if isinstance(value, ToolReturn):
        return {"parts": TOOL_RETURN.dump_python(value, mode="json")}
    return {"value": to_jsonable_python(value)}


def _returned(found: Any) -> Any:
    if not isinstance(found, dict) or found.keys() not in OUTCOMES:
        return found
    if "retry" in found:
        raise ModelRetry(found["retry"])
    if "failed" in found:
        raise ToolFailed(found["failed"])
    if "deferred" in found:
        kind = ApprovalRequired if found["deferred"] == "approval" else CallDeferred
        raise kind(metadata=found["metadata"])
    return TOOL_RETURN.validate_python(found["parts"]) if "parts" in found else found["value"]


def _noted(note: str | None, result: Any) -> Any:
    """Return a result with a sentence before it: in its text, or beside its value."""
    if note is None:
        return result
    if isinstance(result, ToolReturn):
        return replace(result, return_value=_noted(note, result.return_value))
    return f"{note}\n\n{result}" if isinstance(result, str) else {"note": note, "result": result}


def _wanted(
    part: ToolCallPart, tools: Mapping[str, ToolDefinition], outside: bool, metadata: Mapping[str, Any] | None
) -> Wanted:
    known = tools.get(part.tool_name)
    return Wanted(
        call=part.tool_call_id,
        tool=part.tool_name,
        arguments=part.args_as_dict(),
        parameters=None if known is None else known.parameters_json_schema,
        description=(known.description or "") if known is not None else "",
        metadata=to_jsonable_python(metadata) if metadata else None,
        allow=("respond",) if outside else ALL,
    )


def _verdict(decision: ToolDecision) -> ToolApproved | ToolDenied:
    """Return what is done with a call. One that a person answered is 'called', and gives that answer."""
    if decision.action == "edit":
        return ToolApproved(override_args=decision.arguments)
    if decision.action in ("approve", "respond"):
        return ToolApproved()
    return ToolDenied(message=decision.feedback or DENIED)


def transcript(
    messages: Sequence[ModelMessage], tools: Iterable[ToolDefinition], masking: Masking
) -> tuple[Message, ...]:
    """Return who said what, with the secrets of these tools hidden. Instructions are said once, and where they change.

    Only what is recorded has a time: a prompt is made again, at another time, whenever its step runs again.
    """
    said: list[Message] = []
    instructions = ""
    for message in messages:
        if isinstance(message, ModelResponse):
            said.append(_response_message(message))
            continue
        if message.instructions and message.instructions != instructions:
            instructions = message.instructions
            said.append(Message(role="system", text=instructions))
        said.extend(one for part in message.parts if (one := _part_message(part)) is not None)
    return masking.masked(said, frozenset[str]().union(*(secret_names(tool.parameters_json_schema) for tool in tools)))


def _response_message(message: ModelResponse) -> Message:
    calls = (part for part in message.parts if isinstance(part, ToolCallPart))
    return Message(
        role="assistant",
        text="\n\n".join(part.content for part in message.parts if isinstance(part, TextPart) and part.content),
        calls=tuple(
            ToolUse(id=part.tool_call_id, name=part.tool_name, arguments=to_jsonable_python(part.args))
            for part in calls
        ),
        model=message.model_name or "",
        input_tokens=message.usage.input_tokens or None,
        output_tokens=message.usage.output_tokens or None,
        at=message.timestamp,
    )


def _part_message(part: Any) -> Message | None:
    """Return what a part of a request says; None for a part that is none of a conversation."""
    if isinstance(part, SystemPromptPart):
        return Message(role="system", text=part.content)
    if isinstance(part, UserPromptPart):
        return Message(role="user", text=_prompt(part.content))
    if isinstance(part, ToolReturnPart):
        failed = part.outcome != "success"
        text = part.model_response_str()
        return Message(role="tool", name=part.tool_name, call=part.tool_call_id, text=text, failed=failed)
    if isinstance(part, RetryPromptPart) and part.tool_name:
        text = part.model_response()
        return Message(role="tool", name=part.tool_name, call=part.tool_call_id, text=text, failed=True)
    return Message(role="user", text=part.model_response()) if isinstance(part, RetryPromptPart) else None


def _prompt(content: Any) -> str:
    """Return a prompt as text: an image or a file in it is named by its type."""
    if isinstance(content, str):
        return content
    return "\n\n".join(one if isinstance(one, str) else f"[{type(one).__name__}]" for one in content)
