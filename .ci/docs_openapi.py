"""The HTTP API as Markdown, from the OpenAPI document that the server makes."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

VERBS = ("get", "post", "put", "patch", "delete")


@lru_cache(maxsize=1)
def document() -> dict[str, Any]:
    """Return the OpenAPI document; the settings it needs get a data directory of their own."""
    with tempfile.TemporaryDirectory() as data:
        os.environ.update(WFDASH_DATA=data, DJANGO_SETTINGS_MODULE="wfdash.settings")
        import django

        django.setup()
        from wfdash.urls import api

        found: dict[str, Any] = api.get_openapi_schema(path_prefix="/api/v1/")
        return found


def operations() -> str:
    """Return every operation, by its tag or first word of its path."""
    lines: list[str] = []
    current = ""
    for path, verb, operation in sorted(_operations(), key=lambda one: (_group(one[0], one[2]), one[0], one[1])):
        group = _group(path, operation)
        if group != current:
            lines += ["", f"## {group.capitalize()}", ""]
            current = group
        lines += _drawn(path, verb, operation)
    return "\n".join(lines)


def _operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document()["paths"].items():
        yield from ((path, verb, item[verb]) for verb in VERBS if verb in item)


def _group(path: str, operation: Mapping[str, Any]) -> str:
    tags = operation.get("tags") or [path.removeprefix("/api/v1/").split("/")[0]]
    return str(tags[0])


def _drawn(path: str, verb: str, operation: Mapping[str, Any]) -> list[str]:
    text = operation.get("description") or operation.get("summary", "")
    lines = [f"### `{verb.upper()} {path}`", "", re.sub(r"\n(?!\n)", " ", text).strip(), ""]
    fields = [
        (one["name"], one["in"], one.get("required", False), one["schema"]) for one in operation.get("parameters", [])
    ]
    fields += [(name, "body", needed, schema) for name, needed, schema in _body(operation)]
    if fields:
        lines += ["| field | in | type |", "|---|---|---|"]
        lines += [
            f"| `{name}`{'' if needed else ' (optional)'} | {where} | {_type(schema)} |"
            for name, where, needed, schema in fields
        ]
        lines.append("")
    statuses = ", ".join(f"`{status}`" for status in sorted(operation.get("responses", {}), key=str))
    return [*lines, f"Answers with {statuses}.", ""] if statuses else lines


def _body(operation: Mapping[str, Any]) -> Iterator[tuple[str, bool, Mapping[str, Any]]]:
    for content in operation.get("requestBody", {}).get("content", {}).values():
        schema = _resolved(content.get("schema", {}))
        needed = schema.get("required", [])
        yield from ((name, name in needed, one) for name, one in schema.get("properties", {}).items())


def _resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    name = schema["$ref"].rpartition("/")[2]
    found: Mapping[str, Any] = document()["components"]["schemas"][name]
    return found


def _type(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(one) for one in schema["anyOf"]))
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("format") or schema.get("type") or "any JSON")
