"""Drives runs in this process, one call at a time: no worker, no waiting."""

from __future__ import annotations

import asyncio
from typing import Any

from checkpoints.claims import ClaimRenewer, boottime
from checkpoints.database.storage import DatabaseStorage
from checkpoints.ids import RunId
from checkpoints.models import Claim, HumanRequest, Run
from checkpoints.records import Commit
from tests.workflow.world import PowerCut
from wfdash.engines.catalog import Catalog, Entry
from wfdash.engines.native import NativeEngine
from wfdash.worker.drive import ClaimedRecorder, advance
from wfdash.workflow import Workflow

ENGINE = NativeEngine()


class CutRecorder(ClaimedRecorder):
    """Dies instead of making its next commit but ``left``."""

    left: int | None = None

    async def commit(self, commit: Commit) -> None:
        if self.left is not None:
            if self.left == 0:
                raise PowerCut
            self.left -= 1
        await super().commit(commit)


def put(catalog: Catalog, workflow: Workflow) -> None:
    """Make the catalogue hold this workflow and nothing else."""
    catalog.entries.clear()
    catalog.entries[workflow.name] = Entry(
        name=workflow.name, definition=workflow, engine=ENGINE, description=ENGINE.describe(workflow), source="test"
    )


def drive(run: Run | str, *, commits: int | None = None) -> str:
    """Drive a run until it parks or ends, or dies after so many commits; returns its phase."""
    run_id = run if isinstance(run, str) else run.pk
    try:
        asyncio.run(_drive(RunId(run_id), commits))
    except PowerCut:
        Claim.objects.filter(run=run_id).delete()
    return Run.objects.values_list("phase", flat=True).get(pk=run_id)


async def _drive(run: RunId, commits: int | None) -> None:
    storage = DatabaseStorage()
    renewer = ClaimRenewer(storage, ttl=30)
    try:
        since = boottime()
        claim = await storage.claim(run, worker="test", ttl=30)
        if claim is None:
            return
        facts = await storage.read_run(run)
        recorder = CutRecorder(storage, claim, facts.workflow, clock=storage.now)
        recorder.left = commits
        await advance(storage, recorder, facts, renewer, since)
    finally:
        renewer.close()
        await storage.aclose()


def pending(run: Run | str) -> dict[str, HumanRequest]:
    """Return the run's open requests by key."""
    run_id = run if isinstance(run, str) else run.pk
    rows: Any = HumanRequest.objects.filter(run_id=run_id, closed__isnull=True, answered__isnull=True)
    return {row.key: row for row in rows.order_by("created", "id")}
