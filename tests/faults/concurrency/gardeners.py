"""Plays in which one process prunes a family of runs while others commit to it and fork it."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import time
from collections.abc import Callable
from typing import Any

KEPT = 2
SECONDS = 60.0


def prune_beside(steps: int, seed: int) -> dict[str, Any]:
    """Let two commit, two fork (library and desk), one prune, each a process; returns what was seen and was wrong."""
    from django.db import connections

    from checkpoints.ids import new_run_id
    from tests.faults.plays import admin

    admin()
    run = str(new_run_id())
    asyncio.run(_commit(run, 6, seed))
    connections.close_all()
    fork = multiprocessing.get_context("fork")
    over, told = fork.Event(), fork.SimpleQueue()
    workers = [fork.Process(target=_commit_on, args=(run, steps, seed))]
    workers += [fork.Process(target=act, args=(run, steps // 3, seed)) for act in (_fork_on, _fork_at_desk)]
    gardener = fork.Process(target=_prune_until, args=(run, over, told))
    for process in (*workers, gardener):
        process.start()
    for process in workers:
        process.join(SECONDS)
    over.set()
    pruned = told.get()
    gardener.join(SECONDS)
    wrong = [f"a process ended with {process.exitcode}" for process in (*workers, gardener) if process.exitcode]
    return asyncio.run(_judged(run, wrong, pruned))


def state_of(n: int, line: str) -> dict[str, Any]:
    """Return a state of 40 KB of which a little changes per step, and comes back later: chunks die and live again."""
    load = {f"key {place}": f"{place} {line[:4]} " + str(n % 4 if place % 7 == 0 else 0) * 1500 for place in range(25)}
    return {"n": n, "line": line, "load": load}


async def _commit(run: str, steps: int, seed: int) -> None:
    """Save so many steps after the run's latest one."""
    from checkpoints.database.storage import DatabaseStorage
    from checkpoints.ids import RunId, new_checkpoint_id
    from checkpoints.recorder import utc_now

    storage, dice = DatabaseStorage(), random.Random(f"{seed} {run}")
    for _ in range(steps):
        latest = await storage.get_latest(RunId(run))
        n, line = (latest.n + 1, latest.body["state"]["line"]) if latest else (1, run[-8:])
        named = {"id": new_checkpoint_id(), "run": run, "workflow": "chain", "version": "v"}
        body = {"state": state_of(n, line), "position": {}}
        await storage.save(
            _checkpoint(**named, n=n, parent=latest.id if latest else None, created=utc_now(), body=body)
        )
        await asyncio.sleep(dice.uniform(0, 0.004))
    await storage.aclose()


def _checkpoint(**facts: Any) -> Any:
    from checkpoints.records import Checkpoint

    return Checkpoint(**facts)


def _commit_on(run: str, steps: int, seed: int) -> None:
    asyncio.run(_commit(run, steps, seed))


def _fork_on(run: str, forks: int, seed: int) -> None:
    """Fork checkpoints that may just be going, and commit to the forks."""
    asyncio.run(_fork(run, forks, seed))


async def _fork(run: str, forks: int, seed: int) -> None:
    from checkpoints.database.storage import DatabaseStorage
    from checkpoints.errors import NotFound
    from checkpoints.ids import RunId, new_run_id

    storage, dice, done = DatabaseStorage(), random.Random(seed), 0
    while done < forks:
        chosen = dice.choice(list(await storage.list_checkpoint_ids(RunId(run))))
        new = new_run_id()
        try:
            await storage.fork(RunId(run), chosen, new)
        except NotFound:
            continue
        done += 1
        await _commit(new, dice.randrange(4), seed)
    await storage.aclose()


def _fork_at_desk(run: str, forks: int, seed: int) -> None:
    from checkpoints.models import Checkpoint
    from tests.faults.plays import admin
    from wfdash.actions.checkpoints import fork_run
    from wfdash.domain.errors import NotFound

    viewer, dice, done = admin(), random.Random(seed + 1), 0
    while done < forks:
        chosen = dice.choice(list(Checkpoint.objects.filter(run=run).values_list("pk", flat=True)))
        try:
            fork_run(viewer, run, chosen)
        except NotFound:
            continue
        done += 1
        time.sleep(dice.uniform(0, 0.01))


def _prune_until(run: str, over: Any, told: Any) -> None:
    told.put(asyncio.run(_prune(run, over.is_set)))


async def _prune(run: str, is_over: Callable[[], bool]) -> int:
    """Keep only the newest of every run of the family, again and again; returns how many went."""
    from checkpoints.config import CheckpointConfig
    from checkpoints.database.storage import DatabaseStorage
    from checkpoints.manager import CheckpointManager

    storage, removed = DatabaseStorage(), 0
    manager = CheckpointManager(storage, CheckpointConfig(keep=KEPT, keep_origins=False))
    while not is_over():
        for each in await asyncio.to_thread(_family, run):
            removed += await manager.prune(each)
    await storage.aclose()
    return removed


def _family(run: str) -> list[Any]:
    from django.db import connection

    from checkpoints.models import Run

    try:
        return list(Run.objects.filter(family=run).values_list("pk", flat=True))
    finally:
        connection.close()


async def _judged(run: str, wrong: list[str], pruned: int) -> dict[str, Any]:
    """Read everything that is left, before and after a last pruning."""
    from checkpoints.config import CheckpointConfig
    from checkpoints.database.storage import DatabaseStorage
    from checkpoints.manager import CheckpointManager

    storage = DatabaseStorage()
    manager = CheckpointManager(storage, CheckpointConfig(keep=KEPT, keep_origins=False))
    family = await asyncio.to_thread(_family, run)
    seen = {"runs": len(family), "checkpoints": 0, "pruned": pruned}
    for each in family:
        seen["pruned"] += await manager.prune(each)
        ids = await storage.list_checkpoint_ids(each)
        seen["checkpoints"] += len(ids)
        for id_ in ids:
            wrong += await _problems(storage, each, id_)
        latest = await storage.get_latest(each)
        if latest is None or latest.n != (await storage.read_run(each)).n:
            wrong.append(f"{each} lost its head")
    await storage.aclose()
    return {"seen": seen, "wrong": wrong}


async def _problems(storage: Any, run: Any, id_: Any) -> list[str]:
    try:
        state = (await storage.load(run, id_)).body["state"]
    except Exception as error:
        return [f"{run} {id_}: {type(error).__name__} {error}"]
    return [] if state == state_of(state["n"], state["line"]) else [f"{run} {id_}: another state"]
