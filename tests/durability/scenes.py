"""Run as a process: the acts whose syncs are counted, one after the other, each marked in the log."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django


@contextlib.contextmanager
def act(log: Path, name: str) -> Iterator[None]:
    """Mark an act: it ends when the one who asked for it has been told."""
    with log.open("a") as file:
        file.write(f"> {name}\n")
    yield
    with log.open("a") as file:
        file.write("<\n")


async def drive(log: Path, storage: Any, run: Any) -> None:
    """Take a run from its start to its first question, and make the call that may happen only once."""
    from checkpoints.events import EventKind
    from checkpoints.records import Commit, Effect
    from tests.conformance.worlds import asking, checkpoint, started

    await storage.commit(started(run))
    with act(log, "claim"):
        claim = await storage.claim(run, worker="w", ttl=60)
    with act(log, "step"):
        await storage.commit(
            Commit(run=run, checkpoint=checkpoint(run), events=(EventKind.CUSTOM.draft(),)), claim=claim
        )
    once = Effect(key="pay", step="pay", name="pay", once=True, state="intended")
    with act(log, "once"):
        await storage.commit(Commit(run=run, effects=(once,)), claim=claim)
    with act(log, "park"):
        await storage.commit(asking(run, "k", n=2), claim=claim)


async def finish(log: Path, storage: Any, run: Any) -> None:
    from checkpoints.records import Commit, Standing
    from tests.conformance.worlds import checkpoint

    claim = await storage.claim(run, worker="w", ttl=60)
    with act(log, "second step"):
        await storage.commit(Commit(run=run, checkpoint=checkpoint(run, 3)), claim=claim)
    with act(log, "end"):
        end = Commit(run=run, checkpoint=checkpoint(run, 4), closed=("k",), standing=Standing(phase="completed"))
        await storage.commit(end, claim=claim)


def answer(log: Path, run: str) -> None:
    from django.contrib.auth.models import User

    from checkpoints.models import HumanRequest
    from wfdash.access.viewer import viewer_for
    from wfdash.actions.requests.answer import answer_request

    viewer = viewer_for(User.objects.create_superuser("rosa"))
    request = HumanRequest.objects.get(run_id=run)
    with act(log, "answer"):
        answer_request(viewer, request.id, {"action": "approve"})


def main_of_file(log: Path, path: str) -> None:
    """Play everything in a file, where there are no people: the answer is the application's own."""
    from checkpoints.file import FileStorage
    from checkpoints.ids import RequestKey, new_run_id

    async def play() -> None:
        run = new_run_id()
        async with FileStorage(path, durability=os.environ["SCENE_DURABILITY"]) as storage:
            await drive(log, storage, run)
            with act(log, "answer"):
                await storage.answer(run, RequestKey("k"), 1)
            await finish(log, storage, run)

    asyncio.run(play())


def main(log: Path) -> None:
    django.setup()
    if "SCENE_FILE" in os.environ:
        main_of_file(log, os.environ["SCENE_FILE"])
        return
    from django.core.management import call_command

    from checkpoints.database.storage import DatabaseStorage
    from checkpoints.ids import new_run_id

    call_command("migrate", verbosity=0)
    run, storage = new_run_id(), DatabaseStorage()

    async def first() -> None:
        await drive(log, storage, run)
        await storage.aclose()

    async def second() -> None:
        await finish(log, storage, run)
        await storage.aclose()

    asyncio.run(first())
    answer(log, run)
    asyncio.run(second())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
