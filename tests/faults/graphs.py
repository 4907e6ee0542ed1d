"""The mixed graphs of the fault suite, and what each run of them must come to.

Every step writes a line into the ledger when it begins, every call one when it happens: the ledger is the outside
world, a file that is only ever appended to and that no kill can take back.
"""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel

from tests.faults.ledger import read_facts, write_line
from tests.workflow.world import flow
from wfdash.workflow import Approval, Context, Policy, Question, Retry, Workflow, all_of, each, gather

PAUSE = 0.02
"""Seconds a step takes: long enough to be hit."""
NAP = 2.0
"""Seconds that ``nap`` sleeps: it is parked in the meantime."""


class Job(BaseModel):
    number: int
    ledger: str


class Item(BaseModel):
    job: Job
    value: int


class Even(BaseModel):
    job: Job


class Odd(BaseModel):
    job: Job


async def begin(job: Job, ctx: Context) -> None:
    """Say that this activation begins, then take a while. The key's last part is the place in the journal."""
    write_line(job.ledger, kind="begin", key=ctx.effect_key.rpartition(":")[0], step=ctx.step)
    await asyncio.sleep(PAUSE)


async def charge(job: Job, key: str) -> str:
    """An effect that must happen once: the line is the effect."""
    await asyncio.sleep(PAUSE / 2)
    write_line(job.ledger, kind="once", key=key, step="")
    await asyncio.sleep(PAUSE / 2)
    return f"receipt {job.number}"


def look_up(job: Job, key: str) -> int:
    """A call that may happen again as long as its result is not recorded; runs in a thread."""
    write_line(job.ledger, kind="call", key=key, step="")
    return job.number * 10


async def chain_one(job: Job, ctx: Context) -> Job:
    await begin(job, ctx)
    ctx.state["sum"] = job.number
    return job


async def chain_two(job: Job, ctx: Context) -> Job:
    await begin(job, ctx)
    ctx.state["sum"] = ctx.state["sum"] + 1
    ctx.progress(0.5, "half way")
    return job


async def chain_three(job: Job, ctx: Context) -> int:
    await begin(job, ctx)
    return int(ctx.state["sum"]) + await ctx.call(look_up, job, ctx.effect_key)


chain = flow(chain_one, chain_two, chain_three, name="chain")


branch = Workflow("branch")


@branch.step(start=True)
async def branch_sort(job: Job, ctx: Context) -> Even | Odd:
    await begin(job, ctx)
    return Odd(job=job) if job.number % 2 else Even(job=job)


@branch.step(after=branch_sort)
async def branch_even(even: Even, ctx: Context) -> str:
    await begin(even.job, ctx)
    return f"even {even.job.number}"


@branch.step(after=branch_sort)
async def branch_odd(odd: Odd, ctx: Context) -> str:
    await begin(odd.job, ctx)
    return f"odd {odd.job.number}"


fan = Workflow("fan")


@fan.step(start=True)
async def fan_out(job: Job, ctx: Context) -> list[Item]:
    await begin(job, ctx)
    return [Item(job=job, value=value) for value in range(3)]


@fan.step(after=each(fan_out))
async def fan_check(item: Item, ctx: Context) -> int:
    """Each item asks a person and pays once; all are open side by side."""
    await begin(item.job, ctx)
    decision = await ctx.ask(Approval(subject=f"Item {item.value} of {item.job.number}?"))
    await ctx.call(charge, item.job, ctx.effect_key, once=True)
    return item.value if decision.approved else 0


@fan.step(after=gather(fan_check))
async def fan_in(values: list[int], ctx: Context) -> int:
    return sum(values)


loop = Workflow("loop")


@loop.step(start=True, after="loop_again")
async def loop_turn(job: Job, ctx: Context) -> Job:
    await begin(job, ctx)
    ctx.state["turns"] = ctx.state.get("turns", 0) + 1
    return job


@loop.step(after=loop_turn)
async def loop_again(job: Job, ctx: Context) -> Job | int:
    await begin(job, ctx)
    return job if ctx.state["turns"] < 3 else int(ctx.state["turns"])


pay = Workflow("pay")


@pay.step(start=True)
async def pay_ask(job: Job, ctx: Context) -> Job | str:
    await begin(job, ctx)
    decision = await ctx.ask(Approval(subject=f"Pay {job.number}?", proposal={"amount": job.number}))
    return job if decision.approved else "refused"


@pay.step(after=pay_ask)
async def pay_charge(job: Job, ctx: Context) -> str:
    await begin(job, ctx)
    first = await ctx.call(charge, job, ctx.effect_key, once=True)
    second = await ctx.call(charge, job, ctx.effect_key, once=True)
    return f"{first}, {second}"


@pay.step(after=[pay_ask, pay_charge])
async def pay_report(text: str, ctx: Context) -> str:
    return text


async def inner_ask(job: Job, ctx: Context) -> Item:
    await begin(job, ctx)
    return Item(job=job, value=await ctx.ask(Question(subject=f"A number for {job.number}?"), int))


async def inner_double(item: Item, ctx: Context) -> int:
    await begin(item.job, ctx)
    return item.value * 2


inner = flow(inner_ask, inner_double, name="inner")


nested = Workflow("nested")


@nested.step(start=True)
async def nested_begin(job: Job, ctx: Context) -> Job:
    await begin(job, ctx)
    return job


@nested.step(after=nested_begin)
async def nested_beside(job: Job, ctx: Context) -> int:
    await begin(job, ctx)
    await ctx.sleep(0.1)
    return await ctx.call(look_up, job, ctx.effect_key)


nested_inner = nested.sub("inner", inner, after=nested_begin)


@nested.step(after=all_of(nested_inner, nested_beside))
async def nested_end(parts: list[int], ctx: Context) -> int:
    return sum(parts)


march = Workflow("march")


@march.step(start=True, after="march_on")
async def march_on(job: Job, ctx: Context) -> Job | int:
    """Take ``number`` steps, one commit each."""
    await begin(job, ctx)
    ctx.state["steps"] = ctx.state.get("steps", 0) + 1
    return job if ctx.state["steps"] < job.number else job.number


async def nap_sleep(job: Job, ctx: Context) -> Job:
    await begin(job, ctx)
    await ctx.sleep(NAP)
    return job


async def nap_wake(job: Job, ctx: Context) -> int:
    await begin(job, ctx)
    return job.number


nap = flow(nap_sleep, nap_wake, name="nap")


async def heavy_load(job: Job, ctx: Context) -> Job:
    await begin(job, ctx)
    ctx.state["load"] = {f"key {place}": "x" * 500 + str(place) for place in range(40)}
    return job


async def heavy_ask(job: Job, ctx: Context) -> int:
    await begin(job, ctx)
    await ctx.ask(Approval(subject=f"Carry {job.number}?"))
    return len(ctx.state["load"])


heavy = flow(heavy_load, heavy_ask, name="heavy")


flaky = Workflow("flaky")


@flaky.step(start=True, retry=Retry(attempts=50, delay=0.05))
async def flaky_try(job: Job, ctx: Context) -> Job:
    """Fail twice, then pay once."""
    await begin(job, ctx)
    tries = f"{job.ledger}.{ctx.effect_key.partition(':')[0]}"
    write_line(tries, step=ctx.step)
    if len(read_facts(tries)) < 3:
        raise ConnectionError("not yet")
    await ctx.call(charge, job, ctx.effect_key, once=True)
    return job


@flaky.step(after=flaky_try)
async def flaky_end(job: Job, ctx: Context) -> int:
    await begin(job, ctx)
    return job.number


async def letter_receive(job: Job, ctx: Context) -> int:
    """Wait for a signal."""
    return await ctx.receive("letter", int)


letter = flow(letter_receive, name="letter")


async def late_ask(job: Job, ctx: Context) -> str:
    """Ask what no one answers in time."""
    await begin(job, ctx)
    decision = await ctx.ask(Approval(subject=f"Late {job.number}?"), policy=Policy(due="1s", on_timeout="reject"))
    return decision.action


late = flow(late_ask, name="late")


async def rival_ask(job: Job, ctx: Context) -> str:
    """Ask several people who is first, and write down what was heard."""
    await begin(job, ctx)
    first = await ctx.ask(Question(subject=f"Who is first for {job.number}?"), str)
    write_line(job.ledger, kind="heard", key=ctx.effect_key, step=first)
    return "heard"


rival = flow(rival_ask, name="rival")


NAMES = ("chain", "branch", "fan", "loop", "pay", "nested")
MIXED = (*NAMES, "flaky", "letter", "late", "rival", "nap")


def right_answer(kind: str, subject: str, number: int) -> Any:
    """Return what people answer: known beforehand, so that the end is known, too."""
    if kind == "question":
        return number + 7
    refused = number % 5 == 0 and subject.startswith("Pay")
    return {"action": "reject" if refused else "approve"}


def right_output(workflow: str, number: int) -> Any:
    """Return what the run must come to."""
    receipt = f"receipt {number}"
    return {
        "chain": number + 1 + number * 10,
        "branch": f"{'odd' if number % 2 else 'even'} {number}",
        "fan": 3,
        "loop": 3,
        "pay": "refused" if number % 5 == 0 else f"{receipt}, {receipt}",
        "march": number,
        "nap": number,
        "heavy": 40,
        "flaky": number,
        "letter": number + 3,
        "late": "reject",
        "rival": "heard",
        "nested": (number + 7) * 2 + number * 10,
    }[workflow]


def right_effects(workflow: str, number: int) -> int:
    """Return how many ``once`` effects the run must have had."""
    return {"fan": 3, "flaky": 1, "pay": 0 if number % 5 == 0 else 2}.get(workflow, 0)


async def post_receive(job: Job, ctx: Context) -> list[int]:
    """Receive as many letters as the job's number says."""
    return [await ctx.receive("letter", int) for _ in range(job.number)]


post = flow(post_receive, name="post")
