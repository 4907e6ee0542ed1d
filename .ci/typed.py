"""A program that uses the library, as type checkers see it. ``make check`` runs mypy over it and never runs it.

Each planted mistake is followed by the code of the error that mypy must find: an ignore that nothing needs is an error,
too. ``assert_type`` says what is inferred.
"""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

from pydantic import BaseModel

from checkpoints import CheckpointConfig, CheckpointManager, FileStorage
from wfdash.client import ask
from wfdash.contract import Outcome
from wfdash.workflow import Approval, Choice, Context, Decision, Question, Workflow


class Claim(BaseModel):
    """What runs take."""

    amount: float


class State(BaseModel):
    """What steps share."""

    checked: int = 0


claims: Workflow[Claim, State] = Workflow("claims", state=State)


@claims.step(start=True)
async def review(claim: Claim, ctx: Context[State]) -> float:
    """Ask in every way."""
    decision = await ctx.ask(Approval(subject="Pay?", proposal=claim, edit=Claim))
    assert_type(decision, Decision[Claim])
    assert_type(decision.value.amount, float)
    plain = await ctx.ask(Approval(subject="Pay?"))
    plain.aproved()  # type: ignore[attr-defined]
    assert_type(await ctx.ask(Question(subject="Why?")), str)
    assert_type(await ctx.ask("Why?"), str)
    assert_type(await ctx.ask("How many?", int), int)
    assert_type(await ctx.ask(Choice(subject="Which?", options=["a", "b"])), str)
    assert_type(await ctx.ask(Choice(subject="Which?", options=["a", "b"], multiple=True)), list[str])
    assert_type(await ask(Approval(subject="Pay?", edit=Claim)), Decision[Claim])
    assert_type(ctx.state.checked, int)
    ctx.state.cheked()  # type: ignore[attr-defined]
    return decision.value.amount


async def run() -> None:
    """Run in every way, and wrongly in nine."""
    storage = FileStorage(Path("runs"))
    assert_type(await claims.run(Claim(amount=80), storage=storage), Outcome)
    await claims.run("not a claim", storage=storage)  # type: ignore[arg-type]
    await claims.run(Claim(amount=80), storage=FileStorage)  # type: ignore[arg-type]
    await claims.run(Claim(amount=80), storage="runs.sqlite3")  # type: ignore[arg-type]
    await claims.run(Claim(amount=80), storge=storage)  # type: ignore[call-arg]
    await claims.run(answers=["approve"], storage=storage)  # type: ignore[arg-type]
    await storage.get_latest("a run")  # type: ignore[arg-type]
    CheckpointManager("runs")  # type: ignore[arg-type]
    CheckpointConfig(kep=3)  # type: ignore[call-arg]
    CheckpointConfig(when="every")  # type: ignore[arg-type]
    await claims.bind(storage).start("not a claim")  # type: ignore[arg-type]


def run_without_a_loop() -> None:
    """Run from a script."""
    assert_type(claims.run_sync(Claim(amount=80)), Outcome)
    claims.run_sync("not a claim")  # type: ignore[arg-type]
