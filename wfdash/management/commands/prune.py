"""``manage.py prune``: apply the retention policy now, or (``--dry-run``) say what it would remove and why."""

from __future__ import annotations

import asyncio
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from checkpoints.config import PrunePlan
from checkpoints.database.installation_key import refuse_other_keys
from checkpoints.database.storage import DatabaseStorage
from checkpoints.ids import RunId
from checkpoints.manager import CheckpointManager
from checkpoints.models import Run
from checkpoints.records import ENDED


class Command(BaseCommand):
    """Remove checkpoints that the retention policy does not keep."""

    help = "Remove checkpoints that WFDASH_RETENTION does not keep. --dry-run only lists them."

    def add_arguments(self, parser: CommandParser) -> None:
        """Take run ids and ``--dry-run``."""
        parser.add_argument("runs", nargs="*", help="run IDs (default: all runs)")
        parser.add_argument("--dry-run", action="store_true", help="remove nothing")

    def handle(self, *args: Any, runs: list[str], dry_run: bool, **options: Any) -> None:
        """Prune the runs one by one."""
        refuse_other_keys(CommandError)
        known = runs_to_look_at(runs)
        asyncio.run(self._prune(known, dry_run=dry_run, all_reasons=options["verbosity"] > 1))

    async def _prune(self, runs: list[RunId], *, dry_run: bool, all_reasons: bool) -> None:
        storage = DatabaseStorage()
        manager = CheckpointManager(storage, settings.WFDASH_RETENTION)
        total = 0
        try:
            for run in runs:
                plan = await manager.plan(run)
                self._print_plan(run, plan, all_reasons=all_reasons)
                ids = [decision.checkpoint.id for decision in plan.removed]
                total += len(ids) if dry_run or not ids else await manager.prune(run, ids)
        finally:
            await storage.aclose()
        self.stdout.write(f"{total} checkpoints {'would be removed' if dry_run else 'removed'}")

    def _print_plan(self, run: RunId, plan: PrunePlan, *, all_reasons: bool) -> None:
        shown = plan.decisions if all_reasons else plan.removed
        if shown:
            self.stdout.write(f"run {run}: {len(plan.kept)} stay, {len(plan.removed)} go")
        for one in shown:
            verb = "keep" if one.keep else "remove"
            self.stdout.write(
                f"  {verb} {one.checkpoint.n} ({one.checkpoint.step or one.checkpoint.reason}): {one.why}"
            )


def runs_to_look_at(ids: list[str]) -> list[RunId]:
    """Return the runs of these ids, or all that the policy could remove anything of, oldest first."""
    if ids:
        known = set(Run.objects.filter(id__in=ids).values_list("id", flat=True))
        unknown = [id_ for id_ in ids if id_ not in known]
        if unknown:
            raise CommandError(f"no such run: {', '.join(unknown)}")
        return [RunId(id_) for id_ in ids]
    rows = Run.objects.filter(n__gt=1).order_by("created", "id")
    if settings.WFDASH_RETENTION.while_open == "keep":
        rows = rows.filter(phase__in=[phase.value for phase in ENDED])
    return [RunId(id_) for id_ in rows.values_list("id", flat=True)]
