"""Checks a value against a JSON Schema and says what is wrong in words, field by field. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from referencing.exceptions import Unresolvable
from referencing.jsonschema import EMPTY_REGISTRY

Problem = dict[str, Any]
"""``{"loc": [keys and indexes], "msg": "words"}``."""

MAX_DEPTH = 32
MAX_PROBLEMS = 100
ODD_TEXT = re.compile("[\x00\ud800-\udfff]")


def problems_of(schema: Mapping[str, Any], value: Any) -> list[Problem]:
    """Return what does not fit, at most one hundred, in the order of the fields; empty when the value is valid."""
    flaws = flaws_of(value)
    if flaws:
        return flaws
    # An own registry, because the default one fetches what a ``$ref`` names from the network.
    checker = Draft202012Validator.FORMAT_CHECKER
    validator = Draft202012Validator(dict(schema), format_checker=checker, registry=EMPTY_REGISTRY)
    try:
        found = [problem for error in validator.iter_errors(value) for problem in _explain(error)]
    except (Unresolvable, re.error, RecursionError) as error:
        return [{"loc": [], "msg": f"The schema of this value is broken, nothing can fit it: {error}"}]
    return sorted(found, key=lambda problem: [str(part) for part in problem["loc"]])[:MAX_PROBLEMS]


def flaws_of(value: Any) -> list[Problem]:
    """Return what no schema allows: more than ``MAX_DEPTH`` levels, and text that cannot be stored everywhere."""
    if depth_of(value) > MAX_DEPTH:
        return [{"loc": [], "msg": f"Must not be nested deeper than {MAX_DEPTH} levels"}]
    return [{"loc": loc, "msg": "Contains characters that cannot be stored"} for loc in _odd_texts(value, [])]


def _odd_texts(value: Any, loc: list[Any]) -> Iterator[list[Any]]:
    """Yield where text holds NUL, or half a character (a lone surrogate)."""
    if isinstance(value, str):
        if ODD_TEXT.search(value):
            yield loc
    elif isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(key, str) and ODD_TEXT.search(key):
                yield loc
            else:
                yield from _odd_texts(item, [*loc, key])


def depth_of(value: Any) -> int:
    """Return how deep lists and objects are nested (a scalar is 0), without recursion."""
    deepest, stack = 0, [(value, 0)]
    while stack:
        current, depth = stack.pop()
        deepest = max(deepest, depth)
        if depth <= MAX_DEPTH:
            children = current.values() if isinstance(current, dict) else current if isinstance(current, list) else ()
            stack.extend((child, depth + 1) for child in children)
    return deepest


def _explain(error: ValidationError) -> Iterator[Problem]:
    path = list(error.absolute_path)
    expected: Any = error.validator_value
    given: Any = error.instance
    if error.validator == "required":
        missing = [name for name in expected if name not in given]
        yield from ({"loc": [*path, name], "msg": "This field is required"} for name in missing)
    elif error.validator in {"anyOf", "oneOf"} and error.context:
        yield from _explain_branch(error)
    elif error.validator == "additionalProperties":
        schema: Any = error.schema
        extra = [name for name in given if name not in schema.get("properties", {})]
        yield from ({"loc": [*path, name], "msg": "There is no such field"} for name in extra)
    else:
        yield {"loc": path, "msg": _words(error)}


def _explain_branch(error: ValidationError) -> Iterator[Problem]:
    """Report the branch that came nearest: the one whose errors lie deepest, never ``null`` if there is another."""
    branches: dict[Any, list[ValidationError]] = {}
    for inner in error.context:
        branches.setdefault(inner.schema_path[0], []).append(inner)
    real = [errors for errors in branches.values() if not _only_null(errors)] or list(branches.values())
    nearest = max(real, key=lambda errors: min(len(inner.absolute_path) for inner in errors))
    if len(real) > 1 and all(inner.validator == "type" and inner.parent is error for inner in nearest):
        names = [kind for errors in real for kind in _type_names(errors)]
        yield {"loc": list(error.absolute_path), "msg": f"Must be {' or '.join(dict.fromkeys(names)) or 'valid'}"}
        return
    for inner in nearest:
        yield from _explain(inner)


def _only_null(errors: list[ValidationError]) -> bool:
    return all(error.validator == "type" and error.validator_value == "null" for error in errors)


def _type_names(errors: list[ValidationError]) -> list[str]:
    return [_type_name(error.validator_value) for error in errors if error.validator == "type"]


_TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "yes or no",
    "array": "a list",
    "object": "a group of fields",
    "null": "empty",
}


def _type_name(kind: Any) -> str:
    kinds = kind if isinstance(kind, list) else [kind]
    return " or ".join(_TYPES.get(name, str(name)) for name in kinds)


_WORDS: dict[str, Callable[[Any], str]] = {
    "type": lambda kind: f"Must be {_type_name(kind)}",
    "enum": lambda values: f"Must be one of: {', '.join(str(value) for value in values)}",
    "const": lambda value: f"Must be {value}",
    "minimum": lambda bound: f"Must be {bound} or more",
    "maximum": lambda bound: f"Must be {bound} or less",
    "exclusiveMinimum": lambda bound: f"Must be more than {bound}",
    "exclusiveMaximum": lambda bound: f"Must be less than {bound}",
    "multipleOf": lambda step: f"Must be a multiple of {step}",
    "minLength": lambda size: "Must not be empty" if size == 1 else f"Must have at least {size} characters",
    "maxLength": lambda size: f"Must have at most {size} characters",
    "minItems": lambda size: f"Must have at least {size} item{'' if size == 1 else 's'}",
    "maxItems": lambda size: f"Must have at most {size} item{'' if size == 1 else 's'}",
    "uniqueItems": lambda _: "Must not contain the same item twice",
    "pattern": lambda pattern: f"Must match the pattern {pattern}",
    "format": lambda name: f"Must be a valid {str(name).replace('-', ' ')}",
}


def _words(error: ValidationError) -> str:
    explain = _WORDS.get(str(error.validator))
    return explain(error.validator_value) if explain else f"Does not fit ({error.validator})"
