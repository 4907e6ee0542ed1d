"""A plan of steps that people approve, modify or reject one by one; after a rejection they may abort the rest."""

from typing import Literal

from pydantic import BaseModel

from wfdash.workflow import Approval, Choice, Context, Option, Policy, Workflow


class Task(BaseModel):
    name: str
    command: str
    needs: list[str] = []
    risky: bool = False


class Plan(BaseModel):
    goal: str
    tasks: list[Task]


class Done(BaseModel):
    name: str
    outcome: Literal["done", "rejected", "skipped", "aborted"]
    note: str = ""


class Progress(BaseModel):
    done: list[Done] = []


step_plan = Workflow("step_plan", title="Step plan", run_title="{goal}", state=Progress, policy=Policy(by="operations"))


@step_plan.step(start=True)
async def begin(plan: Plan) -> list[Task]:
    return plan.tasks


@step_plan.step(after=["begin", "carry_out"], when=lambda tasks: bool(tasks))
async def carry_out(tasks: list[Task], ctx: Context) -> list[Task]:
    task, *rest = tasks
    missing = [need for need in task.needs if need not in succeeded(ctx.state.done)]
    if missing:
        result = Done(name=task.name, outcome="skipped", note=f"needs {', '.join(missing)}")
    else:
        result = await decide(task, ctx)
    ctx.state.done = [*ctx.state.done, result]
    if result.outcome == "rejected" and rest and await ctx.ask(what_now(task, rest)) == "abort":
        ctx.state.done = [*ctx.state.done, *(Done(name=one.name, outcome="aborted") for one in rest)]
        return []
    return rest


async def decide(task: Task, ctx: Context) -> Done:
    """Ask about a risky task, then do what was approved."""
    if task.risky:
        card = Approval(
            subject=f"{task.name}: run {task.command!r}?",
            proposal=task,
            edit=Task,
            consequence={"approve": "Run at once", "reject": "Not run; you decide about the rest next"},
            risk="high",
        )
        decision = await ctx.ask(card)
        if not decision.approved:
            return Done(name=task.name, outcome="rejected", note=decision.reason or "")
        task = decision.value
    return Done(name=task.name, outcome="done", note=await ctx.call(execute, task.command, once=True))


def what_now(task: Task, rest: list[Task]) -> Choice:
    names = ", ".join(one.name for one in rest)
    return Choice(
        subject=f"{task.name} was rejected: what about the rest?",
        options=[
            Option(name="continue", label="Continue without it", description=f"Left to do: {names}"),
            Option(name="abort", label="Abort the plan", description="Nothing more is run", style="danger"),
        ],
    )


@step_plan.step(after=["begin", "carry_out"], when=lambda tasks: not tasks)
async def report(tasks: list[Task], ctx: Context) -> list[Done]:
    return list(ctx.state.done)


def succeeded(done: list[Done]) -> set[str]:
    return {one.name for one in done if one.outcome == "done"}


def execute(command: str) -> str:
    """Run the command where it belongs."""
    return f"ran {command}"
