"""Tools of the OpenAI Agents SDK that run in our process: each call happens once, whatever is approved later."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest

pytest.importorskip("agents")

from agents import (
    Agent,
    AgentHooks,
    ApplyPatchTool,
    AsyncComputer,
    ComputerProvider,
    ComputerTool,
    CustomTool,
    LocalShellTool,
    ModelRetrySettings,
    ModelSettings,
    RunContextWrapper,
    ShellTool,
    SQLiteSession,
    WebSearchTool,
    function_tool,
    handoff,
)
from agents.mcp import MCPServerStdio
from agents.tool import ShellCommandOutput, ShellResult
from openai.types.responses import (
    ResponseApplyPatchToolCall,
    ResponseComputerToolCall,
    ResponseCustomToolCall,
    ResponseFunctionShellToolCall,
)
from openai.types.responses.response_output_item import LocalShellCall
from pydantic import Field

from checkpoints.memory import MemoryStorage
from tests.agents.serving import APPROVE, serving
from tests.agents.test_openai_agents import SAID, Script, say, use
from wfdash.agents import run_agent
from wfdash.contract import Failed, Finished, Waiting
from wfdash.engines.native import NativeEngine
from wfdash.values.schemas.secrets import HIDDEN
from wfdash.workflow import Context, Workflow

MCP = {"command": sys.executable, "args": ["-m", "tests.agents.mcp_shop"], "cwd": str(Path(__file__).parents[2])}


class Ledger(list[Any]):
    """What was really done, in the order in which it was."""


@function_tool(needs_approval=True)
def confirm(n: int) -> str:
    """Only asks."""
    return f"confirmed {n}"


CONFIRM = [[use("confirm", f"c{n}", n=n)] for n in (1, 2)]


async def drive(wf: Workflow, *answers: Any, storage: MemoryStorage | None = None) -> tuple[list[str], Any]:
    """Run and answer one question after the other; return what was asked, and the last outcome."""
    storage, asked = storage or MemoryStorage(), list[str]()
    outcome: Any = await wf.run("Go", storage=storage, run_id="r")
    for answer in answers:
        assert isinstance(outcome, Waiting), outcome
        asked.append(outcome.requests[0].card["subject"])
        outcome = await wf.run(answers={outcome.requests[0].key: answer}, storage=storage, run_id="r")
    return asked, outcome


def outputs(script: Script) -> list[Any]:
    return [item.get("output") for item in script.seen[-1] if str(item.get("type")).endswith("_output")]


def shell(call: str, *commands: str) -> Any:
    return ResponseFunctionShellToolCall.model_validate(
        {"type": "shell_call", "id": call, "call_id": call, "status": "completed", "action": {"commands": commands}}
    )


def patch(call: str, kind: str, path: str, diff: str = "") -> Any:
    operation = {"type": kind, "path": path, **({"diff": diff} if diff else {})}
    return ResponseApplyPatchToolCall.model_validate(
        {"type": "apply_patch_call", "id": call, "call_id": call, "status": "completed", "operation": operation}
    )


def custom(call: str, text: str) -> Any:
    return ResponseCustomToolCall(type="custom_tool_call", id=call, call_id=call, name="query", input=text)


def local_shell(call: str, *command: str) -> Any:
    action = {"type": "exec", "command": command, "env": {}}
    return LocalShellCall.model_validate(
        {"type": "local_shell_call", "id": call, "call_id": call, "status": "completed", "action": action}
    )


def computer(call: str, **action: Any) -> Any:
    return ResponseComputerToolCall.model_validate(
        {
            "type": "computer_call",
            "id": call,
            "call_id": call,
            "status": "completed",
            "pending_safety_checks": [],
            "actions": [action],
        }
    )


def run_shell(ledger: Ledger, **options: Any) -> ShellTool:
    def execute(request: Any) -> ShellResult:
        ledger.append(("shell", *request.data.action.commands))
        return ShellResult(output=[ShellCommandOutput(stdout=" ".join(request.data.action.commands))])

    return ShellTool(executor=execute, **options)


class Editor:
    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def create_file(self, operation: Any) -> str:
        self.ledger.append(("create", operation.path, operation.diff))
        return "created"

    async def update_file(self, operation: Any) -> str:
        self.ledger.append(("update", operation.path))
        raise OSError("the disk is full")

    def delete_file(self, operation: Any) -> None:
        self.ledger.append(("delete", operation.path))


class Screen(AsyncComputer):
    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    async def screenshot(self) -> str:
        self.ledger.append("screenshot")
        return "cG5n"

    async def click(self, x: int, y: int, button: str, *, keys: list[str] | None = None) -> None:
        self.ledger.append(("click", x, y, button, keys))

    async def type(self, text: str) -> None:
        self.ledger.append(("type", text))

    double_click = scroll = wait = move = keypress = drag = click


def query(ledger: Ledger, **options: Any) -> CustomTool:
    async def run(context: Any, text: str) -> str:
        ledger.append(("query", text))
        return f"rows of {text}"

    return CustomTool(name="query", description="Ask the database.", on_invoke_tool=run, **options)


def local(ledger: Ledger) -> LocalShellTool:
    def execute(request: Any) -> str:
        ledger.append(("local", *request.data.action.command))
        return "ok"

    return LocalShellTool(executor=execute)


async def test_no_kind_of_tool_is_called_again_when_other_calls_are_approved():
    ledger = Ledger()

    def create(*, run_context: Any) -> Screen:
        return Screen(ledger)

    first = [
        [shell("s", "ls")],
        [patch("p", "delete_file", "a.txt")],
        [patch("q", "update_file", "b.txt", "+x")],
        [custom("q1", "select 1")],
        [local_shell("l", "pwd")],
        [computer("k", type="click", x=1, y=2, button="left", keys=["CTRL"])],
    ]
    tools = [
        run_shell(ledger),
        ApplyPatchTool(editor=Editor(ledger)),
        query(ledger),
        local(ledger),
        ComputerTool(computer=ComputerProvider(create=create)),
        WebSearchTool(),
        confirm,
    ]
    script = Script(*first, *CONFIRM, SAID)
    asked, done = await drive(serving(Agent(name="all", model=script, tools=tools)), APPROVE, APPROVE)
    assert isinstance(done, Finished), done
    assert asked == ["n 1 · confirm", "n 2 · confirm"]
    assert ledger == [
        ("shell", "ls"),
        ("delete", "a.txt"),
        ("update", "b.txt"),
        ("query", "select 1"),
        ("local", "pwd"),
        ("click", 1, 2, "left", ["CTRL"]),
        "screenshot",
    ]
    assert script.asked == len(first) + 3
    said = str(outputs(script))
    assert "the disk is full" in said
    assert "rows of select 1" in said


@pytest.mark.parametrize(
    ("call", "subject", "edit", "done"),
    [
        (shell("s", "rm a"), "shell: rm a", {"commands": ["rm b"]}, ("shell", "rm b")),
        (
            patch("s", "create_file", "a", "+x"),
            "create_file, a, +x · apply_patch",
            {"type": "delete_file", "path": "b"},
            ("delete", "b"),
        ),
        (custom("s", "drop a"), "drop a · query", {"input": "drop b"}, ("query", "drop b")),
    ],
)
async def test_people_edit_answer_and_reject_calls_of_every_kind(call: Any, subject: str, edit: Any, done: Any):
    for answer, ledgered, told in [
        (APPROVE, None, ""),
        ({"action": "edit", "arguments": edit}, [done], "A person changed this call before it was made"),
        ({"action": "respond", "response": "Done by hand"}, [], "Done by hand"),
        ({"action": "reject", "feedback": "Not this"}, [], "Not this"),
    ]:
        ledger, script = Ledger(), Script([call], *CONFIRM, SAID)
        tools = [
            run_shell(ledger, needs_approval=True),
            ApplyPatchTool(editor=Editor(ledger), needs_approval=True),
            query(ledger, needs_approval=True),
            confirm,
        ]
        asked, outcome = await drive(serving(Agent(name="all", model=script, tools=tools)), answer, APPROVE, APPROVE)
        assert isinstance(outcome, Finished), outcome
        assert asked[0] == subject
        assert len(ledger) == 1 if ledgered is None else list(ledger) == ledgered
        assert told in str(outputs(script)[0])


async def test_a_shell_call_that_must_not_be_made_twice_is_on_record_before_it_is_made():
    ledger, storage = Ledger(), MemoryStorage()
    script = Script([shell("s", "pay")], *CONFIRM, SAID)
    wf = serving(Agent(name="all", model=script, tools=[run_shell(ledger), confirm]), once=["shell"])
    await drive(wf, storage=storage)
    kept = [await storage.load("r", one) for one in await storage.list_checkpoint_ids("r")]
    intents = [entry for one in kept for live in one.body["position"]["live"].values() for entry in live["journal"]]
    assert {"commands": ["pay"]} in [entry["args"] for entry in intents if "args" in entry]


async def test_tools_of_an_mcp_server_are_called_once_with_what_people_said(tmp_path: Path):
    file = tmp_path / "ledger"
    deletes = [[use("delete_file", f"d{n}", name=f"f{n}", pin="4711")] for n in range(3)]
    script = Script([use("list_files", "l")], *deletes, SAID)
    policy = {"always": {"tool_names": ["delete_file"]}}
    options: Any = {"require_approval": policy, "client_session_timeout_seconds": 60}
    params: Any = {**MCP, "args": [*MCP["args"], str(file)]}
    async with MCPServerStdio(params=params, **options) as server:
        listed: list[str] = []
        list_tools = server.list_tools

        async def counted(*args: Any) -> Any:
            listed.append("list")
            return await list_tools(*args)

        server.list_tools = counted  # type: ignore[method-assign]
        agent = Agent(name="files", model=script, mcp_servers=[server])
        front = Agent(name="front", model=Script([use("transfer_to_files", "t")]), handoffs=[handoff(agent)])
        wf, storage = serving(front, once=["delete_file"]), MemoryStorage()
        edit = {"action": "edit", "arguments": {"name": "f9", "pin": "4711"}}
        asked, done = await drive(wf, APPROVE, edit, APPROVE, storage=storage)
    assert isinstance(done, Finished), done
    assert asked == ["f0 · delete_file", "f1 · delete_file", "f2 · delete_file"]
    assert file.read_text().split("\n") == ["server", "list", "delete f0", "delete f9", "delete f2", ""]
    assert listed == ["list"], "the list of tools is recorded"
    assert '"name": "f9", "pin": "•••"' in str(outputs(script))
    kept = [await storage.load("r", one) for one in await storage.list_checkpoint_ids("r")]
    journals = [live["journal"] for one in kept for live in one.body["position"]["live"].values()]
    intents = [entry["args"] for journal in journals for entry in journal if "args" in entry]
    assert {"name_": "f9", "pin": "•••"} in intents
    assert "4711" not in str(intents)


def pay(ledger: Ledger) -> Any:
    @function_tool(needs_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        ledger.append(("pay", amount))
        return f"paid {amount}"

    return pay


@pytest.mark.parametrize("configured", [False, True])
async def test_approvals_inside_of_an_agent_that_is_a_tool_are_asked_and_their_calls_made_once(configured: bool):
    ledger = Ledger()
    pays = [[use("pay", f"p{n}", amount=n)] for n in (1, 2)]
    inner = Script([shell("s", "ls")], *pays, [say("paid both")])
    clerk = Agent(name="clerk", model=inner, tools=[pay(ledger), run_shell(ledger)], instructions="You pay.")
    config = {"run_config": {"tracing_disabled": True}} if configured else {}
    outer = Script([use("clerk", "g", input="Pay what is due")], *CONFIRM, SAID)
    tools = [clerk.as_tool("clerk", "Pays", **config), confirm]  # type: ignore[arg-type]
    wf = serving(Agent(name="boss", model=outer, tools=tools))
    _, waiting = await drive(wf)
    (request,) = waiting.requests
    (piece,) = request.card["evidence"]
    assert [message["role"] for message in piece["value"]] == ["system", "user", "assistant", "tool", "assistant"]
    assert "Pay what is due" in str(piece), "what led to the call is the conversation of the agent that made it"
    ledger.clear()
    inner.asked = outer.asked = 0
    asked, done = await drive(wf, APPROVE, {"action": "edit", "arguments": {"amount": 7}}, APPROVE, APPROVE)
    assert isinstance(done, Finished), done
    assert asked == ["amount 1 · pay", "amount 2 · pay", "n 1 · confirm", "n 2 · confirm"]
    assert ledger == [("shell", "ls"), ("pay", 1), ("pay", 7)]
    assert (inner.asked, outer.asked) == (4, 4)
    assert outputs(outer) == ["paid both", "confirmed 1", "confirmed 2"]


async def test_parallel_calls_of_one_agent_that_is_a_tool_are_kept_apart():
    ledger = Ledger()

    class Clerk(Script):
        """Pays the amount that it is told."""

        async def get_response(self, system_instructions: Any, input: Any, *args: Any, **options: Any) -> Any:  # noqa: A002
            amount = int(input if isinstance(input, str) else input[0]["content"])
            self.turns = [[use("pay", f"p{amount}", amount=amount)], [say(f"paid {amount}")]]
            self.asked = 0 if isinstance(input, str) or len(input) == 1 else 1
            return await super().get_response(system_instructions, input, *args, **options)

    clerk = Agent(name="clerk", model=Clerk(), tools=[pay(ledger)])
    outer = Script([use("clerk", f"g{n}", input=str(n)) for n in (1, 2)], SAID)
    wf, storage = serving(Agent(name="boss", model=outer, tools=[clerk.as_tool("clerk", "Pays")])), MemoryStorage()
    waiting = await wf.run("Go", storage=storage, run_id="r")
    assert isinstance(waiting, Waiting), waiting
    first, second = sorted(waiting.requests, key=lambda request: str(request.card["subject"]))
    one = await wf.run(answers={second.key: APPROVE}, storage=storage, run_id="r")
    assert isinstance(one, Waiting), one
    done = await wf.run(answers={first.key: {"action": "reject", "feedback": "No"}}, storage=storage, run_id="r")
    assert isinstance(done, Finished), done
    assert ledger == [("pay", 2)]
    assert outputs(outer) == ["paid 1", "paid 2"]


async def test_a_tool_that_ran_out_of_time_is_not_called_again():
    ledger = Ledger()

    @function_tool(timeout=0.05)
    async def slow() -> str:
        ledger.append("slow")
        await asyncio.Event().wait()
        return "never"

    script = Script([use("slow", "s")], *CONFIRM, SAID)
    _, done = await drive(serving(Agent(name="all", model=script, tools=[slow, confirm])), APPROVE, APPROVE)
    assert isinstance(done, Finished), done
    assert ledger == ["slow"]
    assert "timed out" in outputs(script)[0]


async def test_secrets_of_an_agent_that_handed_over_stay_hidden_and_results_are_read_as_values():
    @function_tool
    def login(pin: Annotated[str, Field(json_schema_extra={"writeOnly": True})]) -> dict[str, str]:
        return {"type": "text", "text": "welcome"}

    script = Script([use("login", "a", pin="hunter22")], [use("transfer_to_desk", "t")], *CONFIRM, SAID)
    desk = Agent(name="desk", model=script, tools=[confirm])
    front = Agent(name="front", model=script, tools=[login], handoffs=[desk])
    _, waiting = await drive(serving(front))
    shown = NativeEngine().show(waiting.checkpoint).transcript
    assert "hunter22" not in str(shown) + str(waiting.requests[0].card)
    assert [call.arguments for message in shown for call in message.calls] == [{"pin": HIDDEN}, {}, {"n": 1}]
    assert next(message.text for message in shown if message.role == "tool") == "welcome"


async def test_the_conversation_of_a_run_that_waits_has_the_results_of_the_tools_beside():
    ledger = Ledger()
    script = Script([shell("s", "ls"), *CONFIRM[0]], SAID)
    _, waiting = await drive(serving(Agent(name="all", model=script, tools=[run_shell(ledger), confirm])))
    shown = NativeEngine().show(waiting.checkpoint).transcript
    assert [message.call for message in shown if message.role == "tool"] == ["s"]


async def test_a_turn_that_the_sdk_repeats_is_not_made_again():
    class Flaky(Script):
        failed = 0

        async def get_response(self, *args: Any, **options: Any) -> Any:
            if self.asked == 1 and not self.failed:
                self.failed += 1
                raise OSError(7, "connection reset", object())
            return await super().get_response(*args, **options)

    script = Flaky(*CONFIRM, SAID)
    retry = ModelRetrySettings(max_retries=2, backoff={"initial_delay": 0.001}, policy=lambda _: True)
    agent = Agent(name="all", model=script, tools=[confirm], model_settings=ModelSettings(retry=retry))
    asked, done = await drive(serving(agent), APPROVE, APPROVE)
    assert isinstance(done, Finished), done
    assert (script.asked, script.failed, asked) == (3, 1, ["n 1 · confirm", "n 2 · confirm"])


class Unknown:
    name = "mystery"


class Making(Agent[Any]):
    async def get_all_tools(self, run_context: Any) -> Any:
        return []


def refused(kind: str) -> tuple[Any, dict[str, Any]]:
    """Return an agent that cannot be recorded, and options of ``run_agent``."""
    inner = Agent(name="inner", model=Script(SAID))
    tools = {
        "unknown": [Unknown()],
        "nested unknown": [Agent(name="nested", tools=[Unknown()]).as_tool("nested", "")],  # type: ignore[list-item]
        "session": [inner.as_tool("inner", "", session=SQLiteSession("x"))],
        "on_stream": [inner.as_tool("inner", "", on_stream=print)],
        "once": [inner.as_tool("inner", "")],
    }
    agent: Any = Making(name="making", model=Script(SAID)) if kind == "making" else Agent(name="a", model=Script(SAID))
    agent.tools = tools.get(kind, [])
    if kind == "handoff":
        agent.handoffs = [handoff(Agent(name="far", tools=[Unknown()]))]  # type: ignore[list-item]
    return agent, {"once": ["inner"]} if kind == "once" else {}


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("unknown", "the tool 'mystery' is a Unknown, whose calls cannot be recorded"),
        ("nested unknown", "the tool 'mystery' is a Unknown, whose calls cannot be recorded"),
        ("handoff", "the tool 'mystery' is a Unknown, whose calls cannot be recorded"),
        ("making", "the agent 'making' is a Making, which makes tools while it runs"),
        ("session", "as_tool(session=...) of 'inner' is not supported"),
        ("on_stream", "as_tool(on_stream=...) of 'inner' is not supported"),
        ("once", "once= names the agent 'inner': name the tools that it calls"),
    ],
)
async def test_what_cannot_be_recorded_is_refused_before_the_agent_runs(kind: str, said: str):
    agent, options = refused(kind)
    _, failed = await drive(serving(agent, **options))
    assert isinstance(failed, Failed), failed
    assert said in failed.error.message
    assert failed.error.type == "InvalidCall"
    assert agent.model.asked == 0


async def test_a_tool_that_comes_while_the_agent_runs_is_refused_before_the_model_hears_of_it():
    class Late(AgentHooks[Any]):
        async def on_start(self, context: Any, agent: Any) -> None:
            agent.tools = [run_shell(Ledger())]

    script = Script(SAID)
    _, failed = await drive(serving(Agent(name="a", model=script, hooks=Late())))
    assert isinstance(failed, Failed), failed
    assert "the tool 'shell' came while the agent ran" in failed.error.message
    assert script.asked == 0


async def test_the_model_is_not_told_of_changes_where_that_is_switched_off():
    script = Script(*CONFIRM, SAID)
    wf = serving(Agent(name="a", model=script, tools=[confirm]), tell_changes=False)
    _, done = await drive(wf, {"action": "edit", "arguments": {"n": 5}}, APPROVE)
    assert isinstance(done, Finished), done
    assert outputs(script) == ["confirmed 5", "confirmed 2"]


async def test_a_tool_that_runs_an_agent_which_asks_is_refused_in_words_or_replayed_as_a_step():
    for replayed, ended in [([], Failed), (["delegate"], Finished)]:
        ledger = Ledger()
        clerk = Agent(name="clerk", model=Script([use("pay", "p", amount=3)], [say("paid")]), tools=[pay(ledger)])

        @function_tool
        async def delegate(context: RunContextWrapper[Context]) -> str:
            return str((await run_agent(context.context, clerk, "Pay it")).output)  # noqa: B023

        outer = Script([use("delegate", "d")], SAID)
        boss, wf = Agent(name="boss", model=outer, tools=[delegate]), Workflow("delegating")

        @wf.step(start=True, people=True)
        async def answer(question: str, ctx: Context) -> Any:
            return (await run_agent(ctx, boss, question, context=ctx, replayed=replayed)).output  # noqa: B023

        _, outcome = await drive(wf, *([APPROVE] if replayed else []))
        assert isinstance(outcome, ended), outcome
        assert ledger == ([("pay", 3)] if replayed else [])
        if isinstance(outcome, Failed):
            assert outcome.error.type == "InvalidCall"
            assert "run_agent(..., replayed=['delegate'])" in outcome.error.message


async def test_a_run_that_was_recorded_without_such_tools_is_refused_before_one_is_called_again():
    ledger, storage = Ledger(), MemoryStorage()
    script = Script(*CONFIRM, SAID)
    await drive(serving(Agent(name="a", model=script, tools=[confirm])), storage=storage)
    (request,) = (await storage.get_latest("r")).requests  # type: ignore[union-attr]
    since = serving(Agent(name="a", model=script, tools=[confirm, run_shell(ledger)]))
    failed = await since.run(answers={request.key: APPROVE}, storage=storage, run_id="r")
    assert isinstance(failed, Failed), failed
    assert failed.error.type == "ReplayMismatch"
    assert "the code now does call 'list_tools'" in failed.error.message
    assert (ledger, script.asked) == ([], 1)
