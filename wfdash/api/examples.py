"""Examples in the OpenAPI document: bodies as one would send them, and whole answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checkpoints.events import EventKind
from wfdash.schemas.sample import sample

Schema = Mapping[str, Any]
BODIES: Mapping[str, Any] = {
    "StartRun": {"workflow": "expense_claim", "message": {"amount": "120.50"}, "key": "claim-4711"},
    "GiveAnswer": {"value": {"action": "approve"}},
    "WriteComment": {"text": "Which cost centre is this?", "kind": "ask"},
    "Assign": {"to": "ana"},
    "SetDeadline": {"due": "2030-12-24T12:00:00Z"},
    "SendFollowUp": {"message": "And the other order?"},
    "SendSignal": {"name": "shipped", "value": {"parcel": "P-17"}},
    "BulkOrder": {"verb": "retry", "q": "status:failed", "all": True, "dry_run": True},
    "CreateSchedule": {"workflow": "expense_claim", "name": "Nightly", "cron": "0 3 * * *", "zone": "Europe/Berlin"},
    "ChangeSchedule": {"name": "Nightly", "cron": "0 4 * * *", "zone": "Europe/Berlin"},
    "SetAbsence": {"delegate": "ben", "since": "2030-12-20T00:00:00Z", "until": "2030-12-31T00:00:00Z"},
    "SaveView": {"name": "Urgent", "query": "q=due:<4h", "page": "inbox"},
    "ChangeView": {"name": "Urgent", "query": "q=due:<2h"},
    "GrantRole": {"role": "reviewer", "workflow": "expense_claim", "group": "finance"},
    "MakeGroup": {"name": "finance", "members": ["ana", "ben"]},
    "RenameGroup": {"name": "accounting"},
    "SetLabel": {"label": "before the fix"},
    "SetTags": {"add": ["urgent"]},
}
"""Bodies by the name of their schema; of others the required fields are shown."""
RUN, REQUEST = "0199d0aa-6f3e-7c21-9d1b-2f0e4c5a7b11", "0199d0aa-70b2-7a90-8e4f-5b6c7d8e9f00"
CHECKPOINT, HASH = "0199d0aa-7155-7b3c-a1d2-c3b4a5968778", "9f86d081884c7d659a2feaa0c55ad015"
TEXTS: Mapping[str, str] = {
    "run": RUN,
    "origin_run": RUN,
    "follows": RUN,
    "thread": RUN,
    "last_run": RUN,
    "request": REQUEST,
    "checkpoint": CHECKPOINT,
    "parent": CHECKPOINT,
    "origin_checkpoint": CHECKPOINT,
    "hash": HASH,
    "prev": HASH,
    "seen": HASH,
    "mark": HASH,
    "version": HASH,
    "old": HASH,
    "new": HASH,
    "workflow": "expense_claim",
    "workflow_title": "Expense claim",
    "title": "Expense claim of ana",
    "run_title": "Expense claim of ana",
    "step": "review",
    "activation": "review",
    "repeats": "pay",
    "engine": "native",
    "by": "ana",
    "actor": "ana",
    "assignee": "ana",
    "owner": "ana",
    "user": "ana",
    "delegate": "ben",
    "created_by": "ana",
    "requester": "ana",
    "answered_by": "ana",
    "acts_for": "ben",
    "not_by": "requester",
    "groups": "finance",
    "members": "ana",
    "people": "ana",
    "may": "ana",
    "mentions": "ben",
    "kind": "approval",
    "subject": "Pay 120.50?",
    "verdict": "approve",
    "outcome": "approved",
    "key": "review:1",
    "status": "waiting",
    "state": "open",
    "reason": "step",
    "does": "waits",
    "role": "reviewer",
    "right": "answer",
    "verbs": "answer",
    "tags": "urgent",
    "name": "expense_claim",
    "cron": "0 3 * * *",
    "zone": "Europe/Berlin",
    "waiting_for": "Pay 120.50?",
    "source": "review",
    "target": "pay",
    "message": "Timed out",
    "next": "",
    "signature": "",
    "problem": "",
    "flaw": "",
    "refusal": "",
    "note": "",
    "acting_for": "",
    "failure": "",
    "altered": "",
    "signal": "",
    "unanswerable": "",
    "stuck": "",
    "closed_as": "",
    "became": "",
    "stands": "",
}
"""Field -> an example of its text, or of each text of its list. An empty one is what it mostly is."""
OWN: Mapping[tuple[str, str], Any] = {
    **{(record, "name"): "ana" for record in ("Me", "PersonSummary", "AccessRecord", "PersonPresent")},
    **{(record, "name"): "finance" for record in ("GroupRecord", "GroupDetail")},
    **{(record, "name"): "Nightly" for record in ("ScheduleSummary", "ScheduleDetail", "LateScheduleRecord")},
    **{(record, "name"): "shipped" for record in ("AwaitedSignal", "KeptSignal", "SentSignal")},
    **{(record, "name"): "charge" for record in ("CallRecord", "CallInProgress")},
    **{(record, "id"): REQUEST for record in ("RequestDetail", "RequestSummary", "WaitingFor", "PastRequestRecord")},
    **{(record, "id"): CHECKPOINT for record in ("CheckpointRecord", "CheckpointSummary", "CheckpointDetail")},
    ("StepRecord", "name"): "review",
    ("RoleRecord", "name"): "reviewer",
    ("WorkerRecord", "name"): "host-1",
    ("SavedViewRecord", "name"): "Urgent",
    ("EventRecord", "kind"): EventKind.STEP_FINISHED.value,
    ("ReplayRecord", "status"): EventKind.RUN_STARTED.value,
}
"""Record and field -> an example, where the field's name alone does not say it."""
OBJECTS: Mapping[str, Any] = {
    "card": {"subject": "Pay 120.50?"},
    "before": None,
    "after": None,
    "examples": {"amount": "120.50"},
    "value": {"action": "approve"},
    "answer_schema": {"type": "object"},
    "input_schema": {"type": "object"},
    "output_schema": {"type": "object"},
    "state_schema": {"type": "object"},
    "takes": {"type": "object"},
    "input": {"amount": "120.50"},
    "message": {"amount": "120.50"},
    "progress": {"fraction": 0.5, "text": "packing"},
    "state": {"paid": False},
    "inputs": {"3": {"amount": "120.50"}},
    "arguments": {"order": 1042},
    "patch": {"op": "replace", "path": "/paid", "value": True},
    "shown_patch": {"op": "replace", "path": "/state/paid", "value": True},
}
"""Field -> an example of what may be any JSON, any object, or true."""
MOSTLY_NULL = frozenset(
    {"finished", "until", "settles", "label", "error", "origin_run", "origin_checkpoint", "reached"}
)
KEYS: Mapping[str, str] = {
    "states": "waiting",
    "steps": "review",
    "flow": "started",
    "courses": "run",
    "counts": "approved",
    "asked": "finance",
    "tabs": "mine",
    "board": "review",
    "shown": HASH,
    "fields": "action",
    "rights": "answer",
}
"""Field -> an example of a key."""
DEEPEST = 8


def body_example(schema: Schema, schemas: Schema) -> Any:
    """Return a body that fits a schema which refers to these."""
    options = schema.get("anyOf") or [schema]
    first = next((one for one in options if one.get("type") != "null"), schema)
    name = first.get("$ref", "").rpartition("/")[2]
    known = schemas.get(name, first)
    return BODIES[name] if name in BODIES else sample({**known, "components": {"schemas": schemas}})


def answer_example(schema: Schema, schemas: Schema) -> Any:
    """Return a whole answer that fits a schema which refers to these: every field, one item in each list."""
    return _answer(schema, schemas, "", "", DEEPEST)


def _answer(schema: Schema, schemas: Schema, field: str, record: str, levels: int) -> Any:
    options = schema.get("anyOf", [schema])
    if len(options) > 1 and (field in MOSTLY_NULL or not levels):
        return None
    node = next(one for one in options if one.get("type") != "null")
    if name := node.get("$ref", "").rpartition("/")[2]:
        return _answer(schemas[name], schemas, field, name, levels - 1)
    if "properties" in node:
        return {name: _answer(one, schemas, name, record, levels) for name, one in node["properties"].items()}
    if node.get("type") == "array":
        item = _answer(node["items"], schemas, field, record, levels)
        return [] if item == "" else [item]
    if isinstance(inner := node.get("additionalProperties"), Mapping):
        return {KEYS.get(field, "key"): _answer(inner, schemas, field, record, levels)}
    return _scalar(node, field, record)


def _scalar(node: Schema, field: str, record: str) -> Any:
    """Return an example of what has no parts that its schema names."""
    kind = node.get("type")
    if (record, field) in OWN:
        return OWN[record, field]
    if "enum" in node or "const" in node:
        return node.get("const") or node["enum"][0]
    if kind == "string":
        text = RUN if field == "id" else TEXTS.get(field, "")
        return "2030-05-04T09:30:00Z" if node.get("format") == "date-time" else text
    if kind in {"integer", "number"}:
        return 1
    return bool(OBJECTS.get(field)) if kind == "boolean" else OBJECTS.get(field, {} if kind == "object" else None)
