"""Named people and rows for tests of the doors.

Ana reviews and is in finance, Ben reviews, Vera views, Otto operates, Adam is admin, Sam has no rights at all.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group, User

from checkpoints import ids, records
from checkpoints.database.high_water_mark import HighWaterMark
from checkpoints.models import Answer, Checkpoint, Chunk, Effect, Event, Grant, HumanRequest, Reply, Run
from checkpoints.sql.writes import encoded_content
from wfdash.access.viewer import Viewer, viewer_for
from wfdash.actions.statistics import count_events

ROLES = {"ana": "reviewer", "ben": "reviewer", "vera": "viewer", "otto": "operator", "adam": "admin", "sam": ""}
GROUPS = {"ana": "finance"}
THEN = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
WORKFLOW = "expense_batch"

DECISION: dict[str, Any] = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": ["approve", "reject"]},
        "reason": {"title": "Reason", "anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
    },
    "required": ["action"],
    "additionalProperties": False,
    "allOf": [
        {
            "if": {"properties": {"action": {"const": "reject"}}, "required": ["action"]},
            "then": {"properties": {"reason": {"type": "string", "minLength": 1}}, "required": ["reason"]},
        }
    ],
}
ACTIONS: list[dict[str, Any]] = [
    {"name": "approve", "label": "Approve", "style": "primary", "fields": [], "required": []},
    {"name": "reject", "label": "Reject", "style": "danger", "fields": ["reason"], "required": ["reason"]},
]


def kinds(run: Run) -> list[str]:
    """Return the kinds of a run's events, in order."""
    return list(Event.objects.filter(run=run).order_by("seq").values_list("kind", flat=True))


def make_people() -> dict[str, User]:
    """Make everyone, once."""
    people = {user.username: user for user in User.objects.filter(username__in=ROLES)}
    missing = [name for name in ROLES if name not in people]
    return people | _made(missing) if missing else people


def _made(names: list[str]) -> dict[str, User]:
    # In bulk, as no signal tells of it: the audit of a test begins with what the test does.
    new = [User(username=name, password=make_password(f"{name}-password")) for name in names]
    made = {user.username: user for user in User.objects.bulk_create(new)}
    Grant.objects.bulk_create([Grant(user=made[name], role=ROLES[name], workflow="*") for name in names if ROLES[name]])
    grouped = [name for name in names if name in GROUPS]
    groups = Group.objects.bulk_create([Group(name=GROUPS[name]) for name in grouped])
    member = User.groups.through
    member.objects.bulk_create(
        [member(user=made[name], group=group) for name, group in zip(grouped, groups, strict=True)]
    )
    return made


def viewer(name: str) -> Viewer:
    """Return a person's rights as they are stored now."""
    return viewer_for(User.objects.get(username=name))


def row_of(run: str) -> dict[str, Any]:
    """Return a run's columns as they read, encrypted or not."""
    found = Run.objects.get(pk=run)
    return {field.attname: getattr(found, field.attname) for field in Run._meta.concrete_fields}


def make_run(**facts: Any) -> Run:
    run_id = str(facts.pop("id", ids.new_run_id()))
    given = {"workflow": WORKFLOW, "version": "v1", "title": "Expenses", "phase": "waiting", "input": {"claims": "x"}}
    times = {"created": THEN, "updated": THEN}
    return Run.objects.create(**{"id": run_id, "family": run_id, **given, **times, **facts})


def ask(run: Run, subject: str = "Pay 900?", **facts: Any) -> HumanRequest:
    """Open a request that wants a decision."""
    given: dict[str, Any] = {
        "key": f"review:{HumanRequest.objects.count()}",
        "workflow": run.workflow,
        "step": "review",
        "kind": "approval",
        "card": {"subject": subject, "risk": "high", "actions": ACTIONS},
        "answer_schema": DECISION,
        "created": THEN + timedelta(minutes=HumanRequest.objects.count()),
    }
    return HumanRequest.objects.create(**{"id": ids.new_request_id(), "run": run, **given, **facts})


def answered(request: HumanRequest, by: User, verdict: str = "approve") -> Answer:
    """Store an answer as if it had been given."""
    at = THEN + timedelta(hours=1)
    HumanRequest.objects.filter(pk=request.pk).update(answered=at)
    reply = {"via": "page", "verdict": verdict, "stands": "approved", "value": {"action": verdict}, "at": at}
    Reply.objects.create(id=ids.new_request_id(), request=request, by=by, **reply)
    return Answer.objects.create(request=request, by=by, verdict=verdict, value={"action": verdict}, at=at)


def happen(run: Run, *kinds: tuple[str, str | None, dict[str, Any]]) -> int:
    """Append events and return the run's seq."""
    for kind, step, data in kinds:
        run.seq += 1
        at = THEN + timedelta(seconds=run.seq)
        Event.objects.create(run=run, seq=run.seq, kind=kind, step=step, data=data, at=at)
    Run.objects.filter(pk=run.pk).update(seq=run.seq)
    return run.seq


def count_all_events(using: str = "default") -> int:
    """Count events until none is left, and return how many ids that were.

    One turn counts the ids up to a limit, and ids go on where the tests before left off: one turn may see no event.
    """
    high_water_mark, counted = HighWaterMark(using), 0
    while done := count_events(high_water_mark, using=using):
        counted += done
    return counted


def step(name: str, *states: str, activation: str | None = None, **data: Any) -> list[tuple[str, str, dict[str, Any]]]:
    """Return events of one activation: ``step("pay", "started", "finished")``."""
    facts = {"activation": activation or f"{name}:1", **data}
    return [(f"step.{state}", name, facts) for state in states]


def save(run: Run, parent: Checkpoint | None = None, body: dict[str, Any] | None = None, **facts: Any) -> Checkpoint:
    """Save a checkpoint after the events so far, through the storage's own encoding."""
    run.n += 1
    record = records.Checkpoint(
        id=ids.new_checkpoint_id(),
        run=ids.RunId(run.pk),
        workflow=ids.WorkflowId(run.workflow),
        n=run.n,
        parent=ids.CheckpointId(parent.pk) if parent else None,
        version=run.version,
        created=THEN + timedelta(seconds=run.seq),
        seq=run.seq,
        body=body or {"state": {"n": run.n}, "position": {}},
        **facts,
    )
    Run.objects.filter(pk=run.pk).update(n=run.n)
    encoded = encoded_content(record, None, frozen=False)
    for digest, data in encoded.chunks.items():
        Chunk.objects.get_or_create(family=run.family, hash=digest, defaults={"data": data})
    plain = record.model_dump(exclude={"body", "requests", "run", "clean", "size", "reason", "waiting"})
    plain["waiting"] = len(record.requests)
    return Checkpoint.objects.create(**plain, run=run, reason=record.reason.value, size=encoded.size, body=encoded.root)


def did(run: Run, name: str, n: int, state: str = "done") -> Effect:
    """Record a call made at checkpoint ``n``."""
    return Effect.objects.create(run=run, key=f"{name}:{n}", step="pay", name=name, state=state, n=n, at=THEN)
