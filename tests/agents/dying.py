"""A process whose children run the support agent and kill themselves (SIGKILL) at a point; says what came of each.

``python -m tests.agents.dying FOLDER POINT...``: in a turn of the model; before a tool has done anything; after it has,
unrecorded.

The libraries are imported once, before the children are forked: that is most of what a process costs. Prints one line
of JSON for each point: what was done in all its processes, and how the run ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checkpoints.file import FileStorage
from checkpoints.ids import RunId
from wfdash.contract import Finished, Waiting
from wfdash.examples import support_shop
from wfdash.examples.support_agent import support_agent
from wfdash.workflow import Workflow

TICKET = {"customer": "Mara", "message": "Order 1042 arrived broken."}
RUN = RunId("agent")
APPROVE = {"action": "approve"}
HAPPENED = {"action": "happened", "result": {"order": 1042, "amount": 89.9, "reason": "broken"}}


class Life:
    """What a run's processes do: a file that all of them write to, and where they die."""

    def __init__(self, folder: Path, *points: str) -> None:
        self.log, self.result, self.points = folder / "log", folder / "result", points
        self.storage, self.killed = folder / "runs.sqlite3", 0

    def did(self, what: str) -> None:
        """Note what was done; the first process to come to a point ends here."""
        before = self.lines()
        with self.log.open("a") as file:
            file.write(f"{what}\n")
        if what in self.points and what not in before:
            os.kill(os.getpid(), signal.SIGKILL)

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def support_agent(self) -> Workflow:
        """Return the workflow; its agent's model and tools say what they do."""
        said, life = support_shop._next, self

        def next_(messages: list[Any]) -> Any:
            turns = sum(part.part_kind == "tool-return" for message in messages for part in message.parts)
            life.did(f"model {turns + 1}")
            return said(messages)

        class Shop(support_shop.Shop):
            def look_up(self, order: int) -> dict[str, Any]:
                life.did("look_up begins")
                return super().look_up(order)

            def refund(self, order: int, amount: float, reason: str) -> dict[str, Any]:
                life.did("refund begins")
                paid = super().refund(order, amount, reason)
                life.did("refund done")
                return paid

        support_shop._next, support_shop.Shop = next_, Shop  # type: ignore[misc]
        return support_agent

    def call(self, make: Callable[[], Workflow], *message: Any, answer: Any = None) -> dict[str, Any]:
        """Start or continue the run, once more after each death; return what it waits for, or its output."""
        self.result.unlink(missing_ok=True)
        if in_child(lambda: asyncio.run(self._call(make(), *message, answer=answer))):
            self.killed += 1
            return self.call(make)  # As the next process does: with nothing but the run's id.
        found: dict[str, Any] = json.loads(self.result.read_text())
        return found

    async def _call(self, wf: Workflow, *message: Any, answer: Any = None) -> None:
        async with FileStorage(self.storage) as storage:
            answers = None
            if answer is not None:
                head = await storage.get_latest(RUN)
                assert head is not None
                answers = {head.requests[0].key: answer}
            outcome: Any = await wf.run(*message, answers=answers, storage=storage, run_id=RUN)
        asked = [one.card["subject"] for one in outcome.requests] if isinstance(outcome, Waiting) else []
        output = outcome.output if isinstance(outcome, Finished) else None if asked else str(outcome)
        self.result.write_text(json.dumps({"asked": asked, "output": output}))


def in_child(work: Callable[[], Any]) -> bool:
    """Do something in a process of its own; return whether it was killed."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def story(folder: Path, point: str) -> dict[str, Any]:
    """Run the agent to its end over a death at this point."""
    life, questions = Life(folder, point), []
    found = life.call(life.support_agent, TICKET)
    while found["asked"]:
        questions += found["asked"]
        unknown = found["asked"][0].startswith("Did 'refund' succeed")
        done = "refund done" in life.lines()
        again = {"action": "again"}
        found = life.call(life.support_agent, answer=(HAPPENED if done else again) if unknown else APPROVE)
    return {"point": point, "killed": life.killed, "did": life.lines(), "asked": questions, "output": found["output"]}


if __name__ == "__main__":
    warnings.simplefilter("error")
    import pydantic_ai.models.function  # noqa: F401, before anything is forked

    for point in sys.argv[2:]:
        place = Path(sys.argv[1]) / point.replace(" ", "-")
        place.mkdir()
        print(json.dumps(story(place, point)), flush=True)
