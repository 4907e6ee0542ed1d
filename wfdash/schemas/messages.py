"""The errors of ``jsonschema`` as messages that name the field and the remedy. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jsonschema.exceptions import ValidationError

from wfdash.schemas import formats, media
from wfdash.schemas.regex import is_known

Problem = dict[str, Any]
"""``{"loc": [keys and indexes], "msg": "words"}``."""

MOST_OPTIONS = 12
ONLY_WITH = "x-only-with"
"""Annotation of a rule that keeps a field empty: the name of the action that the field belongs to."""
_TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "yes or no",
    "array": "a list",
    "object": "a group of fields",
    "null": "empty",
}


def explain(error: ValidationError) -> Iterator[Problem]:
    """Yield the problems of an error, each at the field that has to be changed."""
    path = list(error.absolute_path)
    if "propertyNames" in error.absolute_schema_path:
        message = _message_of(error)
        yield {"loc": path, "msg": f"The name {error.instance!r}: {message[:1].lower()}{message[1:]}"}
    elif error.validator in _SEVERAL:
        yield from _SEVERAL[error.validator](error, path)
    elif error.validator in {"anyOf", "oneOf"} and error.context:
        yield from _explain_branch(error)
    else:
        yield {"loc": path, "msg": _message_of(error)}


def _missing(error: ValidationError, path: list[Any]) -> Iterator[Problem]:
    needed: Any = error.validator_value
    given: Any = error.instance
    yield from ({"loc": [*path, name], "msg": "This field is required"} for name in needed if name not in given)


def _depends(error: ValidationError, path: list[Any]) -> Iterator[Problem]:
    rules: Any = error.validator_value
    given: Any = error.instance
    for name, needed in rules.items():
        for missing in needed if name in given and isinstance(needed, list) else ():
            if missing not in given:
                yield {"loc": [*path, missing], "msg": f"Required with {name}"}


def _surplus(error: ValidationError, path: list[Any]) -> Iterator[Problem]:
    schema: Any = error.schema
    given: Any = error.instance
    if not isinstance(given, Mapping):
        yield {"loc": path, "msg": "Too many items: remove the last ones"}
        return
    for name in given:
        if not is_known(schema, name):
            yield {"loc": [*path, name], "msg": "Unknown field"}


_SEVERAL: dict[Any, Callable[[ValidationError, list[Any]], Iterator[Problem]]] = {
    "required": _missing,
    "dependentRequired": _depends,
    "additionalProperties": _surplus,
}


def _explain_branch(error: ValidationError) -> Iterator[Problem]:
    """Yield the problems of the closest branch, never ``null`` if there is another."""
    branches: dict[Any, list[ValidationError]] = {}
    for inner in error.context:
        branches.setdefault(inner.schema_path[0], []).append(inner)
    real = [errors for errors in branches.values() if not _only_null(errors)] or list(branches.values())
    nearest = max(real, key=_nearness)
    if len(real) > 1 and all(inner.validator == "type" and not inner.relative_path for inner in nearest):
        names = [kind for errors in real for kind in _type_names(errors)]
        yield {"loc": list(error.absolute_path), "msg": f"Must be {' or '.join(dict.fromkeys(names)) or 'valid'}"}
        return
    for inner in nearest:
        yield from explain(inner)


def _nearness(errors: list[ValidationError]) -> tuple[int, bool, bool, int]:
    """Return the rank of a branch: the deeper its errors the closer; a branch with another tag does not match at
    all, and one of the value's own type comes before others.
    """
    tagged = any(inner.validator in {"const", "enum"} and len(inner.relative_path) == 1 for inner in errors)
    typed = not any(inner.validator == "type" and not inner.relative_path for inner in errors)
    return min(len(inner.absolute_path) for inner in errors), not tagged, typed, -len(errors)


def _only_null(errors: list[ValidationError]) -> bool:
    return all(error.validator == "type" and error.validator_value == "null" for error in errors)


def _type_names(errors: list[ValidationError]) -> list[str]:
    return [_type_name(error.validator_value) for error in errors if error.validator == "type"]


def _type_name(kind: Any) -> str:
    kinds = kind if isinstance(kind, list) else [kind]
    return " or ".join(_TYPES.get(str(name), str(name)) for name in kinds)


def _message_of(error: ValidationError) -> str:
    if error.validator in media.CHECKS:
        return error.message
    if error.schema is False:
        return "Must be empty"
    if isinstance(error.schema, Mapping) and ONLY_WITH in error.schema:
        return misplaced([str(error.schema[ONLY_WITH])])
    write = _WORDS.get(str(error.validator))
    return write(error.validator_value, error) if write else f"Invalid ({error.validator})"


def misplaced(actions: list[str]) -> str:
    """Return the message about a field that belongs to other actions than the chosen one."""
    return f"Belongs to the action {' or '.join(actions)}: remove it or choose that action"


def display(value: Any) -> str:
    """Return a value as a person reads it: numbers with separators, None as "empty"."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:,}"
    if value is None or isinstance(value, bool):
        return {None: "empty", True: "yes", False: "no"}[value]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _options(values: Any, _: ValidationError) -> str:
    shown = ", ".join(display(value) for value in values[:MOST_OPTIONS])
    return f"Must be one of: {shown}{' …' if len(values) > MOST_OPTIONS else ''}"


def _pattern(pattern: Any, error: ValidationError) -> str:
    schema: Any = error.schema
    examples = schema.get("examples") if isinstance(schema, Mapping) else None
    such = f", such as {examples[0]}" if isinstance(examples, list) and examples else ""
    return f"Must match the pattern {pattern}{such}"


def _shortest(size: Any, error: ValidationError) -> str:
    have = len(str(error.instance))
    return "Must not be empty" if size == 1 else f"Must have at least {size:,} characters: add {size - have:,}"


def _longest(size: Any, error: ValidationError) -> str:
    return f"Must have at most {size:,} characters: leave out {len(str(error.instance)) - size:,}"


def _fewest(noun: str) -> Callable[[Any, ValidationError], str]:
    def write(size: Any, error: ValidationError) -> str:
        given: Any = error.instance
        return f"Must have at least {size} {noun}{'' if size == 1 else 's'}: add {size - len(given)}"

    return write


def _most(noun: str) -> Callable[[Any, ValidationError], str]:
    def write(size: Any, error: ValidationError) -> str:
        given: Any = error.instance
        return f"Must have at most {size} {noun}{'' if size == 1 else 's'}: remove {len(given) - size}"

    return write


_WORDS: dict[str, Callable[[Any, ValidationError], str]] = {
    "type": lambda kind, _: f"Must be {_type_name(kind)}",
    "enum": _options,
    "const": lambda value, _: f"Must be {display(value)}",
    "minimum": lambda bound, _: f"Must be {display(bound)} or more",
    "maximum": lambda bound, _: f"Must be {display(bound)} or less",
    "exclusiveMinimum": lambda bound, _: f"Must be more than {display(bound)}",
    "exclusiveMaximum": lambda bound, _: f"Must be less than {display(bound)}",
    "multipleOf": lambda step, _: f"Must be a multiple of {display(step)}",
    "minLength": _shortest,
    "maxLength": _longest,
    "minItems": _fewest("item"),
    "maxItems": _most("item"),
    "minProperties": _fewest("field"),
    "maxProperties": _most("field"),
    "uniqueItems": lambda _, error: "Must not contain duplicates",
    "pattern": _pattern,
    "format": lambda name, _: f"Must be {formats.words_of(str(name))}",
    "contains": lambda _, error: "Must contain at least one matching item",
    "not": lambda _, error: "This value is not allowed",
    "oneOf": lambda _, error: "Matches several alternatives: remove fields of the others",
    "unevaluatedProperties": lambda _, error: "Unknown fields",
    "unevaluatedItems": lambda _, error: "Too many items: remove the last ones",
}
