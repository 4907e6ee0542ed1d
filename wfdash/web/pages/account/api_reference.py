"""The reference of the HTTP API: drawn from its OpenAPI document, with nothing from elsewhere."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from checkpoints.records import Pairs, frozen
from wfdash.domain.errors import ProblemKind
from wfdash.notifications.rendering import render
from wfdash.web.pages.site.decorators import get_page

Document = Mapping[str, Any]
LONGEST_CHOICE = 120


class Marked(NamedTuple):
    """A piece of a text, and whether it is code."""

    text: str
    code: bool


def marked(text: str) -> tuple[Marked, ...]:
    """Return the pieces of a text in which backticks enclose code."""
    pieces = " ".join(text.replace("``", "`").split()).split("`")
    return tuple(Marked(piece, n % 2 == 1) for n, piece in enumerate(pieces) if piece)


@frozen
class ReferenceField:
    """A parameter or a field of a body or an answer."""

    name: str
    kind: str
    words: tuple[Marked, ...]
    required: bool = False


@frozen
class OperationView:
    """An operation as the page shows it. ``answer``: what it answers with where all is well; ``problems``: else."""

    id: str
    method: str
    path: str
    title: str
    words: tuple[Marked, ...]
    parameters: tuple[ReferenceField, ...]
    body: tuple[ReferenceField, ...]
    status: str
    answer: tuple[ReferenceField, ...]
    problems: Pairs
    curl: str


@frozen
class ReferenceGroup:
    """The operations about one noun."""

    name: str
    words: str
    operations: tuple[OperationView, ...]


@get_page
def reference(
    request: HttpRequest, document: Callable[[], Document], kinds: Callable[[], list[ProblemKind]]
) -> HttpResponse:
    """Show every operation of the API: what it takes and answers, and a command to copy; and every kind of error."""
    origin = request.build_absolute_uri("/").rstrip("/")
    found = document()
    context = {
        "groups": list(groups_of(found, origin)),
        "kinds": kinds(),
        "document": reverse("wfdash:api:openapi-json"),
        "count": sum(len(methods) for methods in found["paths"].values()),
    }
    return render(request, "api/reference.html", context)


def groups_of(document: Document, origin: str) -> Iterator[ReferenceGroup]:
    """Yield the operations by noun, in the order of the document's tags."""
    for tag in document["tags"]:
        mine = tuple(
            _operation(document, origin, path, method, one)
            for path, methods in sorted(document["paths"].items())
            for method, one in methods.items()
            if tag["name"] in one.get("tags", [])
        )
        if mine:
            yield ReferenceGroup(name=tag["name"], words=tag["description"], operations=mine)


def _operation(document: Document, origin: str, path: str, method: str, one: Document) -> OperationView:
    content = one.get("requestBody", {}).get("content", {}).get("application/json", {})
    status, answer = _success(one)
    responses = document["components"]["responses"]
    problems = tuple(
        (status, responses[found["$ref"].rpartition("/")[2]]["description"])
        for status, found in one["responses"].items()
        if "$ref" in found
    )
    example = content.get("example") if content else None
    lines = [f"curl --fail-with-body {shlex.quote(origin + path)}", '-H "Authorization: Bearer $WFDASH_TOKEN"']
    if method not in {"get", "post"}:
        lines.append(f"-X {method.upper()}")
    if example is not None:
        body = json.dumps(example, ensure_ascii=False)
        lines += ['-H "Content-Type: application/json"', f"-d {shlex.quote(body)}"]
    elif method == "post":
        lines.append("-X POST")
    return OperationView(
        id=one["operationId"],
        method=method,
        path=path,
        title=one["summary"],
        words=marked(one["description"]),
        parameters=tuple(_parameter(found, document) for found in one["parameters"]),
        body=tuple(_fields(content.get("schema", {}), document)),
        status=status,
        answer=tuple(_fields(answer, document)),
        problems=problems,
        curl=" \\\n  ".join(lines),
    )


def _success(one: Document) -> tuple[str, Document]:
    status, found = next((status, found) for status, found in one["responses"].items() if "$ref" not in found)
    contents: list[Document] = list(found.get("content", {}).values())
    return status, contents[0].get("schema", {}) if contents else {}


def _parameter(found: Document, document: Document) -> ReferenceField:
    schema, words = found["schema"], found.get("description") or found["schema"].get("description", "")
    where = {"path": "in the path", "header": "header"}.get(found["in"], "")
    kind = ", ".join(part for part in (kind_of(schema, document), where, _bounds(schema)) if part)
    return ReferenceField(name=found["name"], kind=kind, words=marked(words), required=found["required"])


def _bounds(schema: Document) -> str:
    if "minimum" in schema and "maximum" in schema:
        return f"{schema['minimum']} to {schema['maximum']}"
    return ""


def _fields(schema: Document, document: Document) -> Iterator[ReferenceField]:
    known = _resolved(schema, document)
    for name, found in known.get("properties", {}).items():
        words = found.get("description", "")
        required = name in known.get("required", ())
        yield ReferenceField(name=name, kind=kind_of(found, document), words=marked(words), required=required)


def _resolved(schema: Document, document: Document) -> Document:
    options = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    schema = options[0] if options else schema
    name = schema.get("$ref", "").rpartition("/")[2]
    found: Document = document["components"]["schemas"].get(name, schema)
    return found


def kind_of(schema: Document, document: Document) -> str:
    """Return what a schema takes, in a few words."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(kind_of(one, document) for one in schema["anyOf"]))
    if "enum" in schema:
        return " | ".join(str(one) or "empty" for one in schema["enum"])[:LONGEST_CHOICE]
    if "const" in schema:
        return str(schema["const"])
    if schema.get("type") == "array":
        return f"list of {kind_of(schema.get('items', {}), document)}"
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    names = {"string": "text", "boolean": "true or false", "integer": "whole number", "date-time": "time"}
    kind = str(schema.get("format") or schema.get("type") or "any JSON")
    return names.get(kind, kind)
