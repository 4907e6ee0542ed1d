"""Tools of the OpenAI Agents SDK as recorded calls: every kind that runs in this process; unknown kinds are refused."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any

from agents import (
    ApplyPatchTool,
    AsyncComputer,
    CodeInterpreterTool,
    ComputerProvider,
    ComputerTool,
    CustomTool,
    FileSearchTool,
    FunctionTool,
    HostedMCPTool,
    ImageGenerationTool,
    LocalShellTool,
    ShellTool,
    ToolSearchTool,
    WebSearchTool,
)
from agents.editor import ApplyPatchOperation
from agents.items import ToolApprovalItem
from agents.tool import (
    ProgrammaticToolCallingTool,
    ShellActionRequest,
    ShellCommandOutput,
    ShellResult,
    invoke_function_tool,
    resolve_computer,
)
from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from checkpoints.records import Json, frozen
from wfdash.agents.run import DENIED, AgentCall, call_tool
from wfdash.questions.tools import ToolDecision
from wfdash.values.schemas.secrets import secret_names
from wfdash.workflow.errors import InvalidCall, WorkflowError
from wfdash.workflow.runtime.invoke import invoke

HOSTED = (
    CodeInterpreterTool,
    FileSearchTool,
    HostedMCPTool,
    ImageGenerationTool,
    ProgrammaticToolCallingTool,
    ToolSearchTool,
    WebSearchTool,
)
"""Tools that the provider runs: their calls are part of the model's turn."""
CONTENT = ("text", "image", "file")
"""Types of the parts that a result is made of, where it is no text."""
SHELL: TypeAdapter[ShellActionRequest] = TypeAdapter(ShellActionRequest)
SHELL_RESULT: TypeAdapter[ShellResult | str] = TypeAdapter(ShellResult | str)
LONG_TEXT: Json = {"type": "string", "format": "textarea"}
PATCH: dict[str, Any] = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
        "path": {"type": "string"},
        "diff": LONG_TEXT,
        "move_to": {"type": "string"},
    },
    "required": ["type", "path"],
}
CUSTOM: dict[str, Any] = {"type": "object", "properties": {"input": LONG_TEXT}, "required": ["input"]}

Use = Callable[[], Coroutine[Any, Any, Json]]


class FailedTool(Exception):
    """What a tool raised when it was called first. The SDK tells the model."""


@dataclass
class RecordedTools:
    """The tools of one run of an agent, and what people decided about their calls."""

    call: AgentCall
    edited: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Call -> the arguments that people put in place of the model's."""
    patches: dict[str, list[Patch]] = field(default_factory=dict)
    """Operation of a patch as JSON -> what people put in its place: an editor does not know the call."""
    secrets: set[str] = field(default_factory=set)
    """Names of the fields that any of the tools calls secret."""
    others: set[str] = field(default_factory=set)
    """Names of the tools that are no functions."""
    known: dict[int, Any] = field(default_factory=dict)
    broken: Exception | None = None
    """Why the run cannot continue, where the SDK would tell the model instead."""

    def tool(self, tool: Any) -> Any:
        """Return a tool whose calls are recorded, or one that the provider runs. ``InvalidCall`` for other kinds."""
        wrap = next((wrap for kind, wrap in WRAPPERS.items() if isinstance(tool, kind)), None)
        if wrap is not None:
            if not isinstance(tool, FunctionTool):
                self.others.add(tool.name)
            tool = wrap(self, tool)
        elif not isinstance(tool, HOSTED):
            raise InvalidCall(
                f"run_agent: the tool {_name_of(tool)!r} is a {type(tool).__name__}, whose calls cannot be recorded."
                " Make it a function_tool"
            )
        self.known[id(tool)] = tool
        return tool

    def check(self, tools: list[Any]) -> None:
        """Raise ``InvalidCall`` if a tool that is offered to a model is not recorded, wherever it comes from."""
        for tool in tools:
            # The SDK gives a model copies of tools that need a computer.
            recorded = id(tool) in self.known or isinstance(getattr(tool, "computer", None), RecordedComputer)
            if not recorded and not isinstance(tool, HOSTED):
                raise InvalidCall(
                    f"run_agent: the tool {_name_of(tool)!r} came while the agent ran, so its calls are not recorded:"
                    " give the agent all its tools before, and use is_enabled for what depends on the context"
                )

    async def record(
        self,
        name: str,
        arguments: Mapping[str, Any],
        use: Use,
        parameters: Mapping[str, Any] | None = None,
        call: str | None = "",
    ) -> Any:
        """Return what a tool returned when it was called first. ``call``: as ``call_tool`` takes it."""
        once = name in self.call.once
        try:
            return await call_tool(self.call.ctx, name, arguments, use, once=once, parameters=parameters, call=call)
        except WorkflowError as error:
            self.broken = self.broken or error
            raise

    async def attempt(self, name: str, arguments: Mapping[str, Any], use: Use, call: str = "") -> Any:
        """Do the same for a tool whose errors the SDK tells the model: they are results, and not raised again."""

        async def attempted() -> Json:
            try:
                return {"value": await use()}
            except Exception as error:
                return {"failed": str(error) or type(error).__name__}

        found = await self.record(name, arguments, attempted, call=call)
        if not isinstance(found, dict) or found.keys() not in ({"failed"}, {"value"}):
            return found  # A person said what it returned.
        if "failed" in found:
            raise FailedTool(found["failed"])
        return found["value"]

    # -- kinds of tools

    def function(self, tool: FunctionTool) -> FunctionTool:
        """Record a function, or a tool of an MCP server. Its time limit is a part of the call."""
        wrapped, schema, decided = copy.copy(tool), tool.params_json_schema, self.call.approvals
        self.secrets |= secret_names(schema)

        async def recorded(context: Any, arguments: str) -> Any:
            call = context.tool_call_id
            if call in decided.responses:
                return decided.responses.pop(call)
            given = json.dumps(self.edited.pop(call)) if call in self.edited else arguments

            async def use() -> Json:
                return to_jsonable_python(
                    await invoke_function_tool(function_tool=tool, context=context, arguments=given)
                )

            if tool.name in self.call.replayed:
                return noted(decided.note(call), await use())
            return noted(decided.note(call), await self.record(tool.name, read_arguments(given), use, schema, call))

        wrapped.on_invoke_tool, wrapped.timeout_seconds = recorded, None
        return wrapped

    def custom(self, tool: CustomTool) -> CustomTool:
        """Record a tool that takes a text."""
        decided = self.call.approvals

        async def recorded(context: Any, text: str) -> Any:
            call = context.tool_call_id
            if call in decided.responses:
                return decided.responses.pop(call)
            given = self.edited.pop(call)["input"] if call in self.edited else text

            async def use() -> Json:
                return str(await invoke(tool.on_invoke_tool, (context, given), {}))

            return noted(decided.note(call), await self.attempt(tool.name, {"input": given}, use, call))

        return replace(tool, on_invoke_tool=recorded)

    def shell(self, tool: ShellTool) -> ShellTool:
        """Record a shell; one in the provider's container is left to it."""
        executor, decided = tool.executor, self.call.approvals
        if executor is None:
            return tool

        async def recorded(request: Any) -> ShellResult | str:
            call = request.data.call_id
            if call in decided.responses:
                return decided.responses.pop(call)
            if call in self.edited:
                action = SHELL.validate_python(self.edited.pop(call))
                request = replace(request, data=replace(request.data, action=action))

            async def use() -> Json:
                found = await invoke(executor, (request,), {})
                kept = found if isinstance(found, ShellResult) else str(found)
                return SHELL_RESULT.dump_python(kept, mode="json")

            arguments = {name: value for name, value in vars(request.data.action).items() if value is not None}
            result = SHELL_RESULT.validate_python(await self.attempt(tool.name, arguments, use, call))
            note = decided.note(call)
            if isinstance(result, str):
                return str(noted(note, result))
            said = [ShellCommandOutput(stdout=note)] if note is not None else []
            return replace(result, output=[*said, *result.output])

        return replace(tool, executor=recorded)

    def local_shell(self, tool: LocalShellTool) -> LocalShellTool:
        """Record the older shell, whose calls need no approval."""
        executor = tool.executor

        async def recorded(request: Any) -> Any:
            async def use() -> Json:
                return to_jsonable_python(await invoke(executor, (request,), {}))

            asked = to_jsonable_python(request.data.action, exclude_none=True)
            # Variables of the environment may be secrets.
            return await self.record(tool.name, {"command": asked["command"]}, use)

        return replace(tool, executor=recorded)

    def patch(self, tool: ApplyPatchTool) -> ApplyPatchTool:
        """Record each operation of a patch."""
        return replace(tool, editor=RecordedEditor(self, tool))

    def computer(self, tool: ComputerTool[Any]) -> ComputerTool[Any]:
        """Record each action on a computer. The computer itself is made again whenever the step runs again."""

        async def create(*, run_context: Any) -> Any:
            return RecordedComputer(self, tool.name, await resolve_computer(tool=tool, run_context=run_context))

        provider: Any = ComputerProvider(create=create)
        return replace(tool, computer=provider)

    # -- what people decide

    def proposed(self, raw: Any, tool: Any) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Return the arguments of a call and their schema, None where people can only approve or reject."""
        if isinstance(tool, CustomTool):
            return {"input": part_of(raw, "input")}, CUSTOM
        if isinstance(tool, ShellTool):
            action = to_jsonable_python(part_of(raw, "action"), exclude_none=True)
            names = SHELL.json_schema()["properties"]
            return {name: value for name, value in action.items() if name in names}, SHELL.json_schema()
        if isinstance(tool, ApplyPatchTool):
            operations = _operations(raw)
            if len(operations) == 1:
                return operations[0], PATCH
            many = {"type": "array", "items": PATCH, "minItems": len(operations), "maxItems": len(operations)}
            fields = {"operations": many}
            return {"operations": operations}, {"type": "object", "properties": fields, "required": ["operations"]}
        arguments = read_arguments(part_of(raw, "arguments") or "{}")
        return arguments, tool.params_json_schema if isinstance(tool, FunctionTool) else None

    def decide(self, state: Any, item: ToolApprovalItem, tool: Any, call: str, decision: ToolDecision) -> None:
        """Say in the state what people decided. A call that they answered is 'approved', and gives that answer."""
        if decision.action == "reject":
            state.reject(item, rejection_message=decision.feedback or DENIED)
            return
        if isinstance(tool, ApplyPatchTool):
            self._decide_patch(_operations(item.raw_item), call, decision)
        elif decision.action == "edit":
            self.edited[call] = decision.arguments
        state.approve(item)

    def _decide_patch(self, operations: list[dict[str, Any]], call: str, decision: ToolDecision) -> None:
        approvals = self.call.approvals
        if decision.action == "approve":
            return
        if decision.action == "respond":
            response = approvals.responses.pop(call)
            given = [Patch(response=response), *(Patch(response="") for _ in operations[1:])]
        else:
            edited = decision.arguments.get("operations", [decision.arguments])
            given = [Patch(arguments=one) for one in edited]
            given[0] = replace(given[0], note=approvals.note(call))
        for operation, patch in zip(operations, given, strict=True):
            self.patches.setdefault(_key(operation), []).append(patch)


WRAPPERS: Mapping[type, Callable[[RecordedTools, Any], Any]] = {
    FunctionTool: RecordedTools.function,
    CustomTool: RecordedTools.custom,
    ShellTool: RecordedTools.shell,
    LocalShellTool: RecordedTools.local_shell,
    ApplyPatchTool: RecordedTools.patch,
    ComputerTool: RecordedTools.computer,
}


@frozen
class Patch:
    """What people put in the place of an operation of a patch: another operation, or a response."""

    arguments: dict[str, Any] = field(default_factory=dict)
    response: str | None = None
    note: str | None = None


class RecordedEditor:
    """An editor whose operations are recorded calls."""

    def __init__(self, tools: RecordedTools, tool: ApplyPatchTool) -> None:
        self._tools, self._tool = tools, tool

    async def update_file(self, operation: ApplyPatchOperation) -> Any:
        """Do an operation of any type: people may have changed the type."""
        proposed = _operation(operation)
        patch = next(iter(self._tools.patches.get(_key(proposed), ())), None)
        if patch is not None:
            self._tools.patches[_key(proposed)].pop(0)
            if patch.response is not None:
                return patch.response
            changes: dict[str, Any] = {name: patch.arguments.get(name) for name in PATCH["properties"]}
            operation = replace(operation, **changes)

        async def use() -> Json:
            return to_jsonable_python(await invoke(getattr(self._tool.editor, operation.type), (operation,), {}))

        result = await self._tools.attempt(self._tool.name, _operation(operation), use)
        if patch is None or patch.note is None:
            return result
        if not isinstance(result, dict):
            return noted(patch.note, result or "")
        return {**result, "output": noted(patch.note, result.get("output") or "")}

    create_file = delete_file = update_file


class RecordedComputer:
    """A computer whose actions are recorded calls."""

    def __init__(self, tools: RecordedTools, name: str, computer: Any) -> None:
        self._tools, self._name, self._computer = tools, name, computer

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._computer, name)
        if not inspect.ismethod(method):
            return method

        @wraps(method)  # The SDK passes what the signature takes.
        async def recorded(*args: Any, **kwargs: Any) -> Any:
            async def use() -> Json:
                return to_jsonable_python(await invoke(method, args, kwargs))

            given = inspect.signature(method).bind(*args, **kwargs).arguments
            return await self._tools.record(self._name, {"action": name, **to_jsonable_python(given)}, use)

        return recorded


AsyncComputer.register(RecordedComputer)


def noted(note: str | None, result: Any) -> Any:
    """Return a result with a sentence before it, in the form that the SDK gives to a model."""
    if note is None:
        return result
    parts = result if isinstance(result, list) else [result]
    if parts and all(isinstance(part, dict) and part.get("type") in CONTENT for part in parts):
        return [{"type": "text", "text": note}, *parts]
    return f"{note}\n\n{result}"


def read_arguments(arguments: str) -> dict[str, Any]:
    """Return arguments as the model wrote them; as they are where that is no JSON object."""
    try:
        found = json.loads(arguments or "{}")
    except ValueError:
        return {"arguments": arguments}
    return found if isinstance(found, dict) else {"arguments": found}


def part_of(raw: Any, name: str) -> Any:
    """Return a field of an item, which is an object or a mapping."""
    return raw.get(name) if isinstance(raw, Mapping) else getattr(raw, name, None)


def _operations(raw: Any) -> list[dict[str, Any]]:
    return [_operation(one) for one in part_of(raw, "operations") or [part_of(raw, "operation")]]


def _operation(operation: Any) -> dict[str, Any]:
    """Return an operation of a patch as the SDK gives it to an editor: to delete a file needs no difference."""
    named = {name: part_of(operation, name) for name in PATCH["properties"]}
    deletes = named["type"] == "delete_file"
    return {name: value for name, value in named.items() if value is not None and not (deletes and name == "diff")}


def _key(operation: dict[str, Any]) -> str:
    return json.dumps(operation, sort_keys=True)


def _name_of(tool: Any) -> str:
    return str(getattr(tool, "name", type(tool).__name__))
