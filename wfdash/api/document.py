"""The OpenAPI document: what the framework derives from the code, completed. Pure.

Added are what holds for whole kinds of operations: the problems that each may answer with, the header against doing a
command twice, how programs sign in, and an example of each body and answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wfdash.api.examples import answer_example, body_example
from wfdash.errors import KINDS, REFUSALS, ProblemKind
from wfdash.records.problems import MEDIA_TYPE, Problem

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
STREAMED = frozenset({"export_audit"})
"""GETs whose answer has no ETag, because it is never whole in memory."""
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
JSON = "application/json"
DOCUMENTS: dict[str, Any] = {"$ref": "#/components/schemas/Problem"}
Document = dict[str, Any]


def completed(document: Document) -> Document:
    """Return the document with what the framework does not know."""
    components = document["components"]
    schemes = components.get("securitySchemes", {})
    schemas = {**components["schemas"], **_problem_schemas()}
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
    if one["operationId"] in MATCHING:
        found["parameters"] = [*one["parameters"], {**MATCH, "required": one["operationId"] in EDITED}]
    if method == "get" and one["operationId"] not in STREAMED:
        found["parameters"] = [*one["parameters"], NONE_MATCH]
        found["responses"]["304"] = SAME
    if method == "post" and one["operationId"] not in PURE:
        found["parameters"] = [*one["parameters"], KEY]
    if "requestBody" in one:
        found["requestBody"] = _with_example(one["requestBody"], schemas)
    return found


def summary_of(name: str) -> str:
    """Return an operation's id as words."""
    return name.replace("_", " ").capitalize()


def _with_example(body: Document, schemas: Document) -> Document:
    content = body["content"][JSON]
    example = body_example(content["schema"], schemas)
    return {**body, "content": {JSON: {**content, "example": example}}}


def _success(answer: Document, schemas: Document) -> Document:
    """Return a response that is no problem, with an example of its JSON."""
    contents = answer.get("content", {})
    if JSON not in contents:
        return answer
    given = contents[JSON]
    return {**answer, "content": {**contents, JSON: {**given, "example": answer_example(given["schema"], schemas)}}}


def _problem_schemas() -> Document:
    found = Problem.model_json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
    return {**found.pop("$defs", {}), "Problem": found}


def _problem_response(status: int) -> Document:
    kinds = [one for one in all_kinds() if one.status == status]
    shown = {one.code: {"value": _example(one)} for one in kinds}
    return {
        "description": WORDS[status],
        "content": {MEDIA_TYPE: {"schema": DOCUMENTS, **({"examples": shown} if shown else {})}},
    }


def _example(kind: ProblemKind) -> Document:
    detail = kind.words or kind.title
    errors = [{"loc": ["amount"], "msg": "This field is required"}] if kind.status == 422 else []
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
