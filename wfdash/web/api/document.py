"""The OpenAPI document: what the framework derives from the code, completed; and the messages that it has no place for.

Added are what holds for whole kinds of operations: the problems that each may answer with, the header against doing a
command twice, how programs sign in, and an example of each body and answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from django.http import HttpRequest, JsonResponse
from ninja import Router
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from checkpoints.events import STORED, EventKind
from wfdash.domain.errors import KINDS, REFUSALS, ProblemKind, wrong
from wfdash.records import messages as sent
from wfdash.records.base import MEDIA_TYPE, Problem
from wfdash.records.runs import EventRecord, WorkflowEvent
from wfdash.values.schemas.secrets import sample
from wfdash.web.live import sockets

DESCRIPTION = (
    "Everything that the dashboard shows or does, for programs. Send `Authorization: Bearer TOKEN`; a signed-in "
    "browser's session works as well, with its CSRF token for everything but GET. Lists answer "
    '`{"items": [...], "next": "cursor"}`: `after` takes the cursor, an empty one is the end.'
)
TAGS = {
    "workflows": "The catalogue: what can be started, and with which input.",
    "runs": "Executions of workflows: start, watch, stop and continue them.",
    "requests": "Questions to people: find, discuss, assign and answer them.",
    "checkpoints": "The past of a run: compare, restore, fork, edit.",
    "schedules": "Runs that start at set times.",
    "audit": "Who did what, by which right, having seen what.",
    "statistics": "Counts, durations, and what needs attention.",
    "people": "Accounts, groups, roles, and who may do what.",
    "account": "What belongs to the caller: rights, notifications, views, absences.",
}
SECURITY = {"BearerToken": "bearer", "SessionAuth": "session"}
KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": 500},
    "description": "The same command with the same key is done once; with another command it is refused (409).",
}
MATCH = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": 500},
    "description": "The ETag that you read, or * for whatever is there. Nothing is done if it has changed since (412).",
}
EDITED = frozenset({"change_schedule", "change_view"})
"""Operations that replace as a whole what someone else may have changed since: they need ``If-Match``."""
MATCHING = EDITED | frozenset(
    {"delete_schedule", "delete_view", "rename_group", "delete_group", "save_draft", "drop_draft"}
)
"""Operations that take ``If-Match``."""
NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": 500},
    "description": "The ETag of the answer that you have: 304 without a body where it is still the same.",
}
STREAMED = frozenset({"export_audit", "export_decisions"})
"""GETs whose answer has no ETag, because it is never whole in memory."""
LISTED = frozenset({"export_decisions"})
"""GETs whose answer has such a document on each line."""
SAME = {"description": "Still what `If-None-Match` names"}
PURE = frozenset({"check_start", "preview"})
"""Operations by POST that change nothing: they take no key."""
ALWAYS = (401, 403, 422, 429, 503)
FOUND = (404, 409)
WITH_BODY = (400, 413)
WORDS: Mapping[int, str] = {
    400: "The body is not JSON",
    401: "No credentials, or bad ones",
    403: "Your role or token does not allow this",
    404: "Not found, or you do not have access",
    409: "Not possible in its present state",
    412: "Changed since it was read",
    413: "The body is too large",
    422: "Invalid values, named one by one",
    428: "If-Match is missing",
    429: "Too often, or too many failed attempts",
    503: "The server or its database is busy or away",
}
JSON, LINES = "application/json", "application/x-ndjson"
DOCUMENTS: dict[str, Any] = {"$ref": "#/components/schemas/Problem"}
Document = dict[str, Any]


def completed(document: Document) -> Document:
    """Return the document with what the framework does not know."""
    components = document["components"]
    schemes = components.get("securitySchemes", {})
    found = Problem.model_json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
    schemas = {**components["schemas"], **found.pop("$defs", {}), "Problem": found}
    paths = {
        path: {method: _operation(path, method, one, schemas) for method, one in methods.items()}
        for path, methods in document["paths"].items()
    }
    return {
        **document,
        "info": {**document["info"], "description": DESCRIPTION},
        "tags": [{"name": name, "description": words} for name, words in TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {f"Problem{status}": _problem_response(status) for status in WORDS},
            "securitySchemes": {SECURITY.get(name, name): one for name, one in schemes.items()},
        },
    }


def operations(document: Document) -> Iterator[tuple[str, str, Document]]:
    """Yield path, method and description of every operation."""
    for path, methods in document["paths"].items():
        for method, one in methods.items():
            yield path, method, one


def _operation(path: str, method: str, one: Document, schemas: Document) -> Document:
    statuses = [*ALWAYS, *(FOUND if "{" in path or method != "get" else ())]
    statuses += WITH_BODY if "requestBody" in one else ()
    statuses += [412] if one["operationId"] in MATCHING else []
    statuses += [428] if one["operationId"] in EDITED else []
    problems = {str(status): {"$ref": f"#/components/responses/Problem{status}"} for status in sorted(set(statuses))}
    given = {str(status): found for status, found in one["responses"].items()}
    said = " ".join(one.get("description", "").replace("``", "`").split())
    found = {**one, "summary": summary_of(one["operationId"]), "description": said}
    found["responses"] = {**{status: _success(one, schemas) for status, one in given.items()}, **problems}
    found["security"] = [{SECURITY.get(name, name): scopes for name, scopes in way.items()} for way in one["security"]]
    if one["operationId"] in LISTED:
        found["responses"]["200"]["content"] = {LINES: found["responses"]["200"]["content"][JSON]}
    if one["operationId"] in MATCHING:
        found["parameters"] = [*one["parameters"], {**MATCH, "required": one["operationId"] in EDITED}]
    if method == "get" and one["operationId"] not in STREAMED:
        found["parameters"] = [*one["parameters"], NONE_MATCH]
        found["responses"]["304"] = SAME
    if method == "post" and one["operationId"] not in PURE:
        found["parameters"] = [*one["parameters"], KEY]
    if "requestBody" in one:
        body = one["requestBody"]
        content = body["content"][JSON]
        example = body_example(content["schema"], schemas)
        found["requestBody"] = {**body, "content": {JSON: {**content, "example": example}}}
    return found


def summary_of(name: str) -> str:
    """Return an operation's id as words."""
    return name.replace("_", " ").capitalize()


def _success(answer: Document, schemas: Document) -> Document:
    """Return a response that is no problem, with an example of its JSON."""
    contents = answer.get("content", {})
    if JSON not in contents:
        return answer
    given = contents[JSON]
    return {**answer, "content": {**contents, JSON: {**given, "example": answer_example(given["schema"], schemas)}}}


def _problem_response(status: int) -> Document:
    kinds = [one for one in all_kinds() if one.status == status]
    shown = {one.code: {"value": _example(one)} for one in kinds}
    return {
        "description": WORDS[status],
        "content": {MEDIA_TYPE: {"schema": DOCUMENTS, **({"examples": shown} if shown else {})}},
    }


def _example(kind: ProblemKind) -> Document:
    detail = kind.words or kind.title
    errors = [wrong("amount", "This field is required")] if kind.status == 422 else []
    return {
        "type": f"/api/v1/docs/#problem-{kind.code}",
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
        "code": kind.code,
        "errors": errors,
    }


def all_kinds() -> list[ProblemKind]:
    """Return every kind of problem once, by status."""
    found = {one.code: one for one in [*REFUSALS.values(), *KINDS.values()]}
    return sorted(found.values(), key=lambda one: (one.status, one.code))


# Examples in the OpenAPI document: bodies as one would send them, and whole answers. Pure.

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
    "follows": RUN,
    "thread": RUN,
    "last_run": RUN,
    "request": REQUEST,
    "checkpoint": CHECKPOINT,
    "parent": CHECKPOINT,
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
    "right": "answer",
    "verbs": "answer",
    "tags": "urgent",
    "name": "expense_claim",
    "cron": "0 3 * * *",
    "zone": "Europe/Berlin",
    "waiting_for": "Pay 120.50?",
    "source": "review",
    "target": "pay",
}
"""Field -> an example of its text, or of each text of its list. Of others it is mostly empty."""
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
MAX_EXAMPLE_DEPTH = 8


def body_example(schema: Schema, schemas: Schema) -> Any:
    """Return a body that fits a schema which refers to these."""
    options = schema.get("anyOf") or [schema]
    first = next((one for one in options if one.get("type") != "null"), schema)
    name = first.get("$ref", "").rpartition("/")[2]
    known = schemas.get(name, first)
    return BODIES[name] if name in BODIES else sample({**known, "components": {"schemas": schemas}})


def answer_example(schema: Schema, schemas: Schema) -> Any:
    """Return a whole answer that fits a schema which refers to these: every field, one item in each list."""
    return _answer(schema, schemas, "", "", MAX_EXAMPLE_DEPTH)


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


router = Router()

EVENT = "*"
"""Every message whose name is an event's kind."""
STREAMS: dict[str, dict[str, type[BaseModel]]] = {
    "/api/v1/runs/{run_id}/events": {
        EVENT: EventRecord,
        "stream": sent.StreamText,
        "snapshot": sent.Snapshot,
        "end": sent.StreamEnd,
        "problem": sent.StreamProblem,
    },
    "/api/v1/workflows/{name}/events": {EVENT: WorkflowEvent, "problem": sent.StreamProblem},
}
"""Address -> name of a message -> its data."""
SOCKETS: dict[str, dict[str, type[BaseModel]]] = {
    "/live/runs/{run_id}/?format=json": {
        "events": sent.SocketEvents,
        "caught_up": sent.SocketCaughtUp,
        "stream": sent.SocketText,
        "snapshot": sent.SocketSnapshot,
        "end": sent.SocketEnd,
    },
    "/live/lists/?format=json": {"changed": sent.SocketChanged},
}
"""Address -> type of a message -> the message."""
CLOSES = {
    sockets.DONE: "The run has ended",
    sockets.BAD_FRAME: "An invalid message or parameter",
    sockets.SIGNED_OUT: "No credentials, or bad, expired or revoked ones",
    sockets.RIGHT_LOST: "No longer allowed",
    sockets.NO_SUCH_RUN: "No such run, or no access",
    sockets.NO_ACK: "Nothing acknowledged for too long",
    sockets.FRAME_TOO_LARGE: "A message that is too large",
    sockets.TOO_MANY: "Too many connections, or messages in a second",
    sockets.BROKEN: "The server failed: connect again",
}
"""Why a socket closes, by its code."""


@router.get("/messages.json", auth=None, include_in_schema=False)
def get_messages(request: HttpRequest) -> JsonResponse:
    """Return the schemas."""
    return JsonResponse(messages_document())


@lru_cache(maxsize=1)
def messages_document() -> dict[str, Any]:
    """Return JSON Schemas of all messages (``$defs``), and which of them an address sends."""
    models = [one for messages in (*STREAMS.values(), *SOCKETS.values()) for one in messages.values()]
    models.append(sent.Acknowledgement)
    _, found = models_json_schema(
        [(one, "validation") for one in dict.fromkeys(models)], ref_template="#/$defs/{model}", title="Messages"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:wfdash:messages:{sent.VERSION}",
        **found,
        "description": "What event streams and sockets send. Later versions may add messages and fields.",
        "version": sent.VERSION,
        "streams": {address: _references(messages) for address, messages in STREAMS.items()},
        "sockets": {address: _references(messages) for address, messages in SOCKETS.items()},
        "takes": _reference(sent.Acknowledgement),
        "closes": {str(code): words for code, words in CLOSES.items()},
        "kinds": {name: sorted(kind.fields) for name, kind in STORED.items()},
    }


def _references(messages: dict[str, type[BaseModel]]) -> dict[str, Any]:
    return {name: _reference(one) for name, one in messages.items()}


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/$defs/{model.__name__}"}
