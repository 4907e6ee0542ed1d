"""Agents of Google's ADK: copies whose models and tools are recorded, in a session that a replay makes again."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from importlib import import_module
from itertools import count
from typing import Any, TypeVar
from uuid import uuid4

from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, RunConfig, SequentialAgent
from google.adk.agents._streaming_mode import StreamingMode
from google.adk.agents.invocation_context import LlmCallsLimitExceededError
from google.adk.agents.run_config import ToolThreadPoolConfig
from google.adk.apps import App
from google.adk.code_executors import BuiltInCodeExecutor
from google.adk.events import Event, EventActions
from google.adk.models import BaseLlm
from google.adk.models.google_llm import Gemini
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools._node_tool import NodeTool
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.google_search_agent_tool import GoogleSearchAgentTool
from google.adk.tools.set_model_response_tool import SetModelResponseTool
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.adk.tools.tool_context import ToolContext
from google.adk.tools.transfer_to_agent_tool import TransferToAgentTool
from google.genai import types
from pydantic_core import to_jsonable_python

from checkpoints.records import Json
from wfdash.agents.run import DENIED, AgentCall, AgentReply, Usage, Wanted, call_tool, said_turn
from wfdash.contract import Message, Role, ToolUse
from wfdash.questions.tools import ToolDecision, guessed, parsed
from wfdash.values.schemas.secrets import secret_names
from wfdash.workflow.errors import InvalidCall, WorkflowError
from wfdash.workflow.runtime.step_ops import apart

KINDS = (LlmAgent, SequentialAgent, ParallelAgent, LoopAgent)
"""Classes of agents whose code is known: another one may do what cannot be recorded."""
OWN = (TransferToAgentTool, SetModelResponseTool, GoogleSearchAgentTool)
"""Tools that the ADK adds by itself: they do nothing, or call a model that is recorded."""
CONFIRMATION = "confirmation"
"""The field of a call's form with what the tool wants to know from people."""
T = TypeVar("T")


class AgentFailed(RuntimeError):
    """A model gave an error in place of a turn."""


async def run(call: AgentCall) -> AgentReply[Any]:
    """Run an agent until it has its output; every turn and tool is recorded."""
    recording = Recording(call)
    try:
        return await recording.run()
    except Exception:
        if recording.broken is not None:  # What the ADK made of it tells less.
            raise recording.broken from None
        raise


@dataclass
class Recording:
    """One run of an agent: copies of it and of its sub-agents, models and tools."""

    call: AgentCall
    said: list[Event | str] = field(default_factory=list)
    """The conversation, with instructions where they change."""
    secrets: set[str] = field(default_factory=set)
    """Names of the fields that any of the tools calls secret."""
    copies: dict[tuple[int, bool], BaseAgent] = field(default_factory=dict)
    sets: Iterator[int] = field(default_factory=count)
    """A number for each set of tools."""
    listed: dict[tuple[int, str], Any] = field(default_factory=dict)
    """What MCP servers have said of themselves."""
    used: list[tuple[int, int]] = field(default_factory=list)
    """Tokens of each turn, in and out."""
    instructions: Any = None
    """The instructions of the latest turn."""
    left: int | None = None
    """The turns that are left, where people may allow more."""
    broken: Exception | None = None
    """Why the run cannot continue, where the ADK would tell the model instead."""

    async def run(self) -> AgentReply[Any]:
        """Run the agent in a session of its own, which has the history and is rebuilt by each replay."""
        call, own = self.call, dict(self.call.options)
        app = call.agent if isinstance(call.agent, App) else App(name="agent", root_agent=call.agent)
        config = self._configured(own.pop("run_config", None), app)
        if "session_service" in own:
            raise InvalidCall(
                "run_agent: session_service= is not supported: the session is made again from what is recorded. Give"
                " history=, and what tools find in it as state="
            )
        app = app.model_copy(update={"root_agent": self.agent(app.root_agent), "resumability_config": None})
        sessions, user, id_ = InMemorySessionService(), "user", call.ctx.run_id
        session = await sessions.create_session(
            app_name=app.name, user_id=user, state=own.pop("state", None), session_id=id_
        )
        for one in call.history:
            self.said.append(await sessions.append_event(session, Event.model_validate(one)))
        prompt = call.prompt if isinstance(call.prompt, types.Content) else types.UserContent(call.prompt)
        self.said.append(Event(author="user", content=prompt))
        driver, last = Runner(app=app, session_service=sessions, **own), Event()
        made = driver.run_async(user_id=user, session_id=id_, new_message=prompt, run_config=config)
        async with aclosing(made) as events:
            async for event in events:
                if event.long_running_tool_ids:
                    raise InvalidCall(
                        "run_agent: a tool asks for credentials or for an answer in a way that cannot be recorded:"
                        " give it its credentials before, or ask with request_confirmation()"
                    )
                self.said.append(event)
                call.ctx.transcript(self.transcript(self.said))
                if event.is_final_response() and (event.content or event.error_code or event.output is not None):
                    last = event
        if self.broken is not None:
            raise self.broken
        if last.error_code:
            raise AgentFailed(f"{last.error_code}: {last.error_message}")
        ended: Any = await sessions.get_session(app_name=app.name, user_id=user, session_id=id_)
        history = [_as_json(one) for one in ended.events]
        output = _text(last) if last.output is None else to_jsonable_python(last.output)
        inside, out = (sum(tokens) for tokens in zip(*self.used, (0, 0), strict=True))
        usage = Usage(turns=len(self.used), input_tokens=inside, output_tokens=out)
        return AgentReply(output=output, history=history, usage=usage)

    def _configured(self, given: RunConfig | None, app: App) -> RunConfig:
        """Return the configuration: streaming, tools that are no coroutines in threads. What cannot be is refused."""
        config = given or RunConfig(tool_thread_pool_config=ToolThreadPoolConfig())
        if config.support_cfc or config.streaming_mode is StreamingMode.BIDI:
            raise InvalidCall(
                "run_agent: live sessions cannot be recorded: leave out support_cfc and StreamingMode.BIDI"
            )
        if app.events_compaction_config is not None:
            raise InvalidCall("run_agent: events_compaction_config is not supported: give a shorter history= instead")
        changed: dict[str, Any] = {}
        if "streaming_mode" not in config.model_fields_set:
            changed["streaming_mode"] = StreamingMode.SSE
        if self.call.more_turns is not None:
            self.left, changed["max_llm_calls"] = max(config.max_llm_calls, 0) or None, 0
        return config.model_copy(update=changed)

    async def guarded(self, made: Awaitable[T]) -> T:
        """Return what is awaited. What the ADK must not hand to a model or to a callback ends the run."""
        try:
            return await made
        except WorkflowError as error:
            self.broken = self.broken or error
            raise

    # -- agents and models

    def agent(self, given: Any, shown: bool = True) -> BaseAgent:
        """Return the recorded copy of an agent. ``shown``: its conversation is the one that pages show."""
        if (id(given), shown) in self.copies:
            return self.copies[id(given), shown]
        if type(given) not in KINDS:
            raise InvalidCall(
                f"run_agent: {getattr(given, 'name', given)!r} is a {type(given).__name__}, whose code cannot be"
                f" recorded: {', '.join(kind.__name__ for kind in KINDS)} can. Run the agents in it by a step each"
            )
        update: dict[str, Any] = {"sub_agents": [self.agent(one, shown) for one in given.sub_agents]}
        if isinstance(given, LlmAgent):
            if given.code_executor is not None and not isinstance(given.code_executor, BuiltInCodeExecutor):
                raise InvalidCall(
                    f"run_agent: the code_executor of {given.name!r} cannot be recorded: make it a tool, or use the"
                    " model's own, BuiltInCodeExecutor()"
                )
            update["model"] = self.model(given.canonical_model, shown)
            update["tools"] = [self.tool(one, shown) for one in given.tools]
        return self.copies.setdefault((id(given), shown), given.clone(update))

    def model(self, model: BaseLlm, shown: bool) -> BaseLlm:
        """Return a model whose turns are recorded calls; what it writes is streamed to the run's page."""

        async def generate_content_async(request: LlmRequest, stream: bool = False) -> AsyncIterator[LlmResponse]:
            for one in await self.guarded(self._turn(model, request, stream, shown)):
                yield one

        return _changed(model.model_copy(), generate_content_async=generate_content_async)

    async def _turn(self, model: BaseLlm, request: LlmRequest, stream: bool, shown: bool) -> list[LlmResponse]:
        if self.broken is not None:
            raise self.broken
        for tool in request.tools_dict.values():
            if "run_async" not in vars(tool) and not isinstance(tool, OWN) and not _is_hosted(tool):
                raise InvalidCall(
                    f"run_agent: the tool {tool.name!r} came while the agent ran: its calls are not recorded"
                )
        apart((request.config.labels or {}).get("adk_agent_name", ""))
        await self._allow()
        instructions = request.config.system_instruction
        if shown and instructions and instructions != self.instructions:
            self.instructions = instructions
            self.said.insert(len(self.said) - (not self.used), str(instructions))  # Before the prompt.
        made: Any = await self.call.ctx.call(lambda: self._ask_model(model, request, stream), name="model")
        found = [LlmResponse.model_validate(one) for one in made]
        self.used.append(_tokens(found[-1]))
        return found

    async def _ask_model(self, model: BaseLlm, request: LlmRequest, stream: bool) -> Json:
        """Return a turn as JSON, with ids of its calls: those that the ADK gives are others in each replay."""
        found, last = list[LlmResponse](), LlmResponse(error_code="NO_RESPONSE")
        async with aclosing(model.generate_content_async(request, stream)) as responses:
            async for response in responses:
                if not response.partial:
                    found.append(response)
                elif text := _text(response):
                    self.call.ctx.stream(text)
                last = response
        if last.error_code and not last.content:
            raise AgentFailed(f"{last.error_code}: {last.error_message}")
        for response in found:
            response.model_version = response.model_version or model.model
            for part in _parts(response):
                if part.function_call is not None:
                    part.function_call.id = part.function_call.id or f"adk-{uuid4()}"
        said_turn(
            self.call.ctx, last.model_version, *_tokens(last), "gcp.gen_ai" if isinstance(model, Gemini) else None
        )
        return [_as_json(one) for one in found]

    async def _allow(self) -> None:
        """Count a turn; ask people for more where none is left."""
        if self.left == 0:
            error = LlmCallsLimitExceededError("the agent has made as many turns as max_llm_calls says")
            if not await self.call.continues(error, self.transcript(self.said)):
                self.broken = error
                raise error
            self.left = self.call.more_turns
        if self.left:
            self.left -= 1

    # -- tools

    def tool(self, given: Any, shown: bool) -> Any:
        """Return a tool whose calls are recorded, a set of them, or one that the provider runs."""
        if isinstance(given, BaseToolset):
            return self.toolset(given)
        tool = FunctionTool(given) if callable(given) else given
        if isinstance(tool, NodeTool):
            raise InvalidCall(f"run_agent: the tool {tool.name!r} is a workflow: make it a function or a sub-agent")
        if not isinstance(tool, AgentTool):
            return self.recorded(tool)
        if tool.name in self.call.once:
            raise InvalidCall(f"run_agent: once= names the agent {tool.name!r}: name the tools that it calls")
        # It is no call: its own turns and tools are recorded. That of a sub-agent with a mode is the ADK's own.
        copied = _changed(copy.copy(tool), agent=self.agent(tool.agent, shown and type(tool) is not AgentTool))
        return self._calling(tool, lambda args, context: copied.run_async(args=args, tool_context=context))

    def toolset(self, given: BaseToolset) -> BaseToolset:
        """Return a set of tools that are recorded. What an MCP server says of itself is asked once, and recorded."""
        copied, number = copy.copy(given), next(self.sets)

        async def get_tools_with_prefix(context: Any = None) -> list[BaseTool]:
            try:
                found = await type(given).get_tools_with_prefix(copied, context)
            except Exception as error:  # The ADK would let the agent run without these tools.
                self.broken = self.broken or error
                raise
            return [self.recorded(tool) for tool in found]

        async def execute(ask: Any, problem: str, *args: Any, **options: Any) -> Any:
            async def use() -> Json:
                found = await given._execute_with_session(ask, problem, *args, **options)  # type: ignore[attr-defined]
                return {type(found).__name__: found.model_dump(mode="json", by_alias=True, exclude_none=True)}

            apart(f"{number} {problem}")
            key = number, problem
            if key not in self.listed:
                self.listed[key] = await self.call.ctx.call(use, name="list_tools")
            ((name, found),) = self.listed[key].items()
            return getattr(import_module("mcp.types"), name).model_validate(found)

        if hasattr(given, "_execute_with_session"):  # Of an MCP server: without it the class cannot be imported.
            _changed(copied, _execute_with_session=execute)
        return _changed(copied, get_tools_with_prefix=get_tools_with_prefix)

    def recorded(self, tool: BaseTool) -> BaseTool:
        """Return a tool that asks people by itself, before the ADK would, and whose calls are recorded."""
        if _is_hosted(tool):
            return tool
        declared, schema = tool._get_declaration(), None
        if declared is not None:
            schema = declared.parameters_json_schema
            if schema is None and declared.parameters is not None:
                schema = declared.parameters.json_schema.model_dump(mode="json", by_alias=True, exclude_none=True)
        self.secrets |= secret_names(schema)

        async def check_require_confirmation(*_: Any) -> bool:
            return False

        copied = self._calling(tool, lambda args, context: self._use(tool, schema, args, context))
        return _changed(copied, check_require_confirmation=check_require_confirmation, is_long_running=False)

    def _calling(self, tool: BaseTool, use: Callable[[dict[str, Any], ToolContext], Awaitable[Any]]) -> BaseTool:
        async def run_async(*, args: dict[str, Any], tool_context: ToolContext) -> Any:
            apart(str(tool_context.function_call_id))
            return await self.guarded(use(args, tool_context))

        return _changed(copy.copy(tool), run_async=run_async)

    async def _use(self, tool: BaseTool, schema: Any, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return what the model gets: a result, or people's words in its place."""
        id_, decided, form = str(context.function_call_id), self.call.approvals, schema

        async def decide(shown: dict[str, Any], about: Json, **changes: Any) -> ToolDecision:
            wanted = Wanted(call=id_, tool=tool.name, arguments=shown, parameters=form, metadata=about, **changes)
            return (await decided.ask([wanted], self.transcript(context.session.events)))[id_]

        wants = await tool.check_require_confirmation(arguments, context)
        asked = ToolConfirmation() if wants is True else None
        while True:
            if asked is None:
                result = await self._result(tool, schema, arguments, context)
                asked = context.actions.requested_tool_confirmations.pop(id_, None)
                if asked is None:
                    break
                context.actions.skip_summarization = None  # What it said is for a caller that shows the question.
            shown, payload = dict(arguments), asked.payload
            if payload is not None:
                shown[CONFIRMATION] = to_jsonable_python(payload)
                form = {**(schema or guessed(arguments))}
                wanted = guessed(payload) if isinstance(payload, dict) else {}
                form["properties"] = {**form.get("properties", {}), CONFIRMATION: wanted}
            decision = await decide(shown, asked.hint or None, description=tool.description or "")
            if decision.action == "reject":
                return {"error": decision.feedback or DENIED}
            if decision.action == "respond":
                return decided.responses.pop(id_)
            arguments = dict(decision.arguments)
            payload = arguments.pop(CONFIRMATION, payload)
            context.tool_confirmation = ToolConfirmation(hint=asked.hint, confirmed=True, payload=payload)
            asked = None
        if tool.is_long_running:
            await decide(arguments, to_jsonable_python(result), allow=("respond",))
            context.actions.skip_summarization = None
            return parsed(decided.responses.pop(id_))
        note = decided.note(id_)
        if note is None:
            return result
        return f"{note}\n\n{result}" if isinstance(result, str) else {"note": note, "result": result}

    async def _result(self, tool: BaseTool, schema: Any, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return what a tool returned when it was called first. What it has set in ``actions`` is set again."""
        if tool.name in self.call.replayed:
            return await tool.run_async(args=arguments, tool_context=context)

        async def use() -> Json:
            result = await tool.run_async(args=copy.deepcopy(arguments), tool_context=context)
            actions = context.actions.model_dump(
                mode="json", exclude={"state_delta"}, exclude_defaults=True, exclude_none=True
            )
            kept = {"result": result, "state": context.actions.state_delta}
            return {**to_jsonable_python(kept), "actions": actions}

        once, id_ = tool.name in self.call.once, context.function_call_id
        found = await call_tool(self.call.ctx, tool.name, arguments, use, once=once, parameters=schema, call=id_)
        if not isinstance(found, dict) or "actions" not in found:
            return found  # What people or a test said that it returned.
        context.state.update(found["state"])
        actions = EventActions.model_validate(found["actions"])
        _changed(context.actions, **{name: getattr(actions, name) for name in actions.model_fields_set})
        return found["result"]

    def transcript(self, items: Sequence[Event | str]) -> tuple[Message, ...]:
        """Return who said what, with secrets hidden."""
        said: list[Message] = []
        for item in items:
            said += [Message(role="system", text=item)] if isinstance(item, str) else _messages(item)
        return self.call.masking.masked(said, self.secrets)


def _changed(thing: T, **changes: Any) -> T:
    """Set what an object of the ADK does by itself, whatever its class checks."""
    vars(thing).update(changes)
    return thing


def _is_hosted(tool: BaseTool) -> bool:
    """Say whether the provider runs a tool: its calls are part of the model's turn."""
    return not isinstance(tool, BaseTool) or type(tool).run_async is BaseTool.run_async


def _as_json(response: LlmResponse) -> Json:
    return response.model_dump(mode="json", by_alias=True, exclude_none=True)


def _parts(response: LlmResponse) -> Sequence[types.Part]:
    return (response.content.parts if response.content is not None else None) or ()


def _text(response: LlmResponse) -> str:
    return "".join(part.text for part in _parts(response) if part.text and not part.thought)


def _tokens(response: LlmResponse) -> tuple[int, int]:
    """Return the tokens of a turn, in and out."""
    used = response.usage_metadata
    if used is None:
        return 0, 0
    inside = (used.prompt_token_count or 0) + (used.tool_use_prompt_token_count or 0)
    return inside, (used.candidates_token_count or 0) + (used.thoughts_token_count or 0)


def _messages(event: Event) -> list[Message]:
    """Return what an event says, and the results of tools in it."""
    text, (inside, out) = _text(event), _tokens(event)
    calls = tuple(
        ToolUse(id=one.id or "", name=one.name or "", arguments=to_jsonable_python(one.args))
        for one in event.get_function_calls()
    )
    said = []
    if text or calls:
        model = event.model_version or ""
        role: Role = "user" if event.author == "user" else "assistant"
        said.append(
            Message(
                role=role, text=text, calls=calls, model=model, input_tokens=inside or None, output_tokens=out or None
            )
        )
    for one in event.get_function_responses():
        found = one.response or {}
        value = found["result"] if [*found] == ["result"] else found
        shown = value if isinstance(value, str) else json.dumps(to_jsonable_python(value), ensure_ascii=False)
        said.append(Message(role="tool", name=one.name or "", call=one.id or "", text=shown, failed="error" in found))
    return said
