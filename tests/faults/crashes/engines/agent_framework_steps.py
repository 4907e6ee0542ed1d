"""The four steps as a workflow of Agent Framework, whose decorators read annotations."""

# ruff: noqa: I002
from agent_framework import Executor, WorkflowBuilder, WorkflowContext, executor, handler, response_handler

from tests.faults.crashes.engines import steps


@executor(id="first")
async def first(folder: str, ctx: WorkflowContext[str]) -> None:
    steps.write_line(folder, "first")
    await ctx.send_message(folder)


class Ask(Executor):
    """Asks whether to go ahead."""

    @handler
    async def ask(self, folder: str, ctx: WorkflowContext) -> None:
        await ctx.request_info({"question": "Go ahead?", "folder": folder}, bool)

    @response_handler
    async def answered(self, asked: dict, answer: bool, ctx: WorkflowContext[str]) -> None:
        await ctx.send_message(asked["folder"])


@executor(id="work")
async def work(folder: str, ctx: WorkflowContext[str]) -> None:
    await steps.work(folder)
    await ctx.send_message(folder)


@executor(id="last")
async def last(folder: str, ctx: WorkflowContext[None, str]) -> None:
    steps.write_line(folder, "last")
    await ctx.yield_output(folder)


ask = Ask(id="ask")
agent_framework_steps = (
    WorkflowBuilder(start_executor=first, name="agent_framework_steps")
    .add_edge(first, ask)
    .add_edge(ask, work)
    .add_edge(work, last)
    .build()
)
