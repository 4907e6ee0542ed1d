"""Reads runs for a test, as the database has them."""

from __future__ import annotations

from typing import Any

from django.db.models.functions import Now

from checkpoints.database.runs import info_of, read_row
from checkpoints.ids import RequestKey, RunId
from checkpoints.models import OPEN, Checkpoint, Claim, HumanRequest, Run
from checkpoints.models import Event as EventRow
from checkpoints.records import ErrorInfo, Event, Phase, status_of
from wfdash.access.voters import votes_of
from wfdash.testing.records import BenchRequest, BenchRun


def all_runs() -> list[str]:
    """Return the ids of all runs, the oldest first."""
    return list(Run.objects.order_by("created", "id").values_list("id", flat=True))


def refresh(run: BenchRun) -> None:
    """Read everything of a run again."""
    row = Run.objects.get(pk=run.id)
    claims = Claim.objects.filter(run=row)
    live = claims.filter(expires__gt=Now()).exists()
    run.workflow, run.title, run.wakes = row.workflow, row.own_title or row.title, row.wake_at
    run.status = status_of(Phase(row.phase), claimed=claims.exists(), claim_live=live, acted_by=row.acted_by)
    run.output, run.error = row.output, ErrorInfo.model_validate(row.error) if row.error else None
    run.events = tuple(_event(event) for event in EventRow.objects.filter(run=row).order_by("seq"))
    kept = list(Checkpoint.objects.filter(run=row).order_by("n"))
    run.checkpoints = tuple(info_of(one) for one in kept)
    run.state = read_row(kept[-1]).body["state"] if kept else {}
    pending = HumanRequest.objects.filter(OPEN, run=row).order_by("created", "id")
    run.requests = tuple(_request(one) for one in pending)


def _event(row: EventRow) -> Event:
    return Event(run=RunId(row.run_id), seq=row.seq, kind=row.kind, step=row.step, data=row.data, at=row.at)


def _request(row: HumanRequest) -> BenchRequest:
    kept: dict[str, Any] = {name: getattr(row, name) for name in ("id", "step", "kind", "card", "answer_schema", "due")}
    kept |= {"key": RequestKey(row.key), "by": tuple(row.by), "not_by": tuple(row.not_by)}
    votes = {vote.acting_for or _name(vote.by): vote.verdict for vote in votes_of(row)}
    return BenchRequest(run=row.run_id, votes=votes, **kept)


def _name(user: Any) -> str:
    return str(user.get_username()) if user else ""
