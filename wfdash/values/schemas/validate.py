"""Checks a value against a JSON Schema and returns messages by field. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic import ValidationError as SchemaValidationError
from typing_extensions import TypeAliasType, TypedDict

from checkpoints.content.canonical_json import dumps, loads
from checkpoints.limits import is_holdable, oversize
from wfdash.values.schemas import formats, work
from wfdash.values.schemas.formats import make_checker
from wfdash.values.schemas.work import TooMuchWork, bounded_work, counting, is_known, names_parts, spend

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

# What JSON Schema 2020-12 says of a schema itself. Pure.

_Kind = Literal["array", "boolean", "integer", "null", "number", "object", "string"]
_Kinds = _Kind | Annotated[list[_Kind], Field(min_length=1)]
_Count = Annotated[float, Field(ge=0, multiple_of=1)]
_Step = Annotated[float, Field(gt=0)]
_Schema = TypeAliasType("_Schema", "bool | _Node")
_Schemas = TypeAliasType("_Schemas", Annotated[list["_Schema"], Field(min_length=1)])
_ByName = TypeAliasType("_ByName", "dict[str, _Schema]")
_make: Any = TypedDict
_Node: Any = _make(
    "_Node",
    {
        **dict.fromkeys(("$id", "$schema", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor", "$comment"), str),
        **dict.fromkeys(("title", "description", "format", "pattern", "contentEncoding", "contentMediaType"), str),
        **dict.fromkeys(("deprecated", "readOnly", "writeOnly", "uniqueItems"), bool),
        **dict.fromkeys(("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"), float),
        **dict.fromkeys(("maxLength", "minLength", "maxItems", "minItems"), _Count),
        **dict.fromkeys(("maxContains", "minContains", "maxProperties", "minProperties"), _Count),
        **dict.fromkeys(("items", "contains", "additionalProperties", "propertyNames", "contentSchema"), _Schema),
        **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties", "not", "if", "then", "else"), _Schema),
        **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), _Schemas),
        **dict.fromkeys(("$defs", "definitions", "properties", "patternProperties", "dependentSchemas"), _ByName),
        **dict.fromkeys(("enum", "examples"), list[Any]),
        "type": _Kinds,
        "multipleOf": _Step,
        "required": list[str],
        "dependentRequired": dict[str, list[str]],
        "dependencies": dict[str, "_Schema | list[str]"],
    },
    total=False,
)
_Node.__pydantic_config__ = ConfigDict(extra="allow", strict=True)
_ADAPTER: TypeAdapter[Any] = TypeAdapter(_Node)


def flaw_of(schema: Mapping[str, Any]) -> str:
    """Return what makes a value no JSON Schema, with its place; empty if it is one."""
    try:
        _ADAPTER.validate_python(schema)
    except SchemaValidationError as error:
        worst = max(error.errors(include_url=False), key=lambda one: len(one["loc"]))
        place = [str(part) for part in worst["loc"] if part not in ("bool", "_Node") and "[" not in str(part)]
        return f"{'.'.join(place) or 'the schema'}: {worst['msg']}"
    return ""


MAX_PROBLEMS = 100
MOST_FOUND = 1_000
"""Problems after which the check ends: there are more than can be shown."""
SHARED = frozenset({"reason"})
"""Fields that may come with any action: they say why, and do not change what is done."""

MAX_KEPT = 32_000
"""Bytes of a schema whose validator is kept for the next check."""


@cache
def _counting_drafts() -> Any:
    from jsonschema import Draft4Validator, Draft6Validator, Draft7Validator, Draft201909Validator, Draft202012Validator

    return {
        draft: counting(draft, formats.CHECKS | work.CHECKS)
        for draft in (Draft4Validator, Draft6Validator, Draft7Validator, Draft201909Validator, Draft202012Validator)
    }


MOST_ACTIONS = 6
"""Actions named in an error at most."""


def problems_of(schema: Mapping[str, Any], value: Any, *, root: Mapping[str, Any] | None = None) -> list[Problem]:
    """Return what is wrong, at most one hundred problems, in the order of the fields; empty when the value is valid.

    ``root``: the document that the schema is a part of, where its ``$ref`` point into. No value matches an invalid
    schema, which is reported as a problem, too.
    """
    flaws = flaws_of(value)
    if flaws:
        return flaws
    try:
        # A list first: evaluating a broken schema may fail half-way.
        with bounded_work():
            whole = schema if root is None else root
            try:
                text = dumps(whole)
            except ValueError:  # No JSON: whether that is a flaw is for the validator to say.
                text = b""
            spend(len(text) // 1000)
            made = _kept(text) if 0 < len(text) <= MAX_KEPT else _made(dict(whole))
            found = list(
                islice(_problems(made if root is None else made.evolve(schema=dict(schema)), value), MOST_FOUND)
            )
    except TooMuchWork as error:
        return [{"loc": [], "msg": str(error)}]
    except Exception as error:  # A schema is untrusted input: whatever it breaks, the schema is wrong.
        words = str(error).strip().splitlines() or [type(error).__name__]
        return [{"loc": [], "msg": f"The schema of this value is invalid: {words[0][:200]}"}]
    unique = {(tuple(map(str, problem["loc"])), problem["msg"]): problem for problem in found}
    return sorted(unique.values(), key=lambda problem: [str(part) for part in problem["loc"]])[:MAX_PROBLEMS]


def _problems(validator: Any, value: Any) -> Iterator[Problem]:
    for error in validator.iter_errors(value):
        for problem in explain(error):
            spend(1 + len(problem["msg"]) // 200)
            yield problem


def answer_problems(card: Mapping[str, Any], schema: Mapping[str, Any], value: Any) -> list[Problem]:
    """Return what is wrong with an answer to a card: by its schema, then fields of an action that was not chosen.

    The card is checked too, for schemas from before they had that rule themselves, and those of other engines.
    """
    found = problems_of(schema, value)
    listed = card.get("actions")
    names = [str(one.get("name")) for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    if not found or not names or isinstance(value, Mapping):
        return found or list(_stray_fields(card, value))
    others = f", or another action: {', '.join(names[1:MOST_ACTIONS])}" if names[1:] else ""
    return [{**one, "msg": f'{one["msg"]}: give {{"action": "{names[0]}"}}{others}'} for one in found]


def _stray_fields(card: Mapping[str, Any], value: Any) -> Iterator[Problem]:
    listed = card.get("actions")
    actions = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    if not isinstance(value, Mapping) or value.get("action") not in {one.get("name") for one in actions}:
        return
    owners: dict[str, list[str]] = {}
    for one in actions:
        for field in one.get("fields") or ():
            owners.setdefault(str(field), []).append(str(one.get("name")))
    for name, owned in owners.items():
        if name not in SHARED and value.get(name) is not None and value["action"] not in owned:
            yield {"loc": [name], "msg": misplaced(owned)}


@lru_cache(128)
def _kept(text: bytes) -> Any:
    """Return the validator of a schema given as JSON; making one takes longer than most checks."""
    return _made(loads(text))


def _made(whole: dict[str, Any]) -> Any:
    from jsonschema.validators import Draft202012Validator, validator_for
    from referencing.jsonschema import EMPTY_REGISTRY, specification_with

    drafts = _counting_drafts()
    draft = drafts.get(validator_for(whole, default=Draft202012Validator), drafts[Draft202012Validator])
    work.refuse_mixture(whole)
    # An own registry, because the default one fetches the target of a ``$ref`` from the network.
    registry = EMPTY_REGISTRY
    if names_parts(whole):  # Known from the start: else the whole schema is searched for each reference by name.
        resource = specification_with(draft.META_SCHEMA["$schema"]).create_resource(whole)
        registry = registry.with_resource(resource.id() or "", resource).crawl()
    return draft(whole, format_checker=make_checker(), registry=registry)


def flaws_of(value: Any) -> list[Problem]:
    """Return what no schema allows: more than ``MAX_DEPTH`` levels or ``MOST_NODES`` values, and values that cannot
    be stored everywhere.
    """
    if words := oversize(value):
        return [{"loc": [], "msg": words}]
    return [] if _is_sound(value) else list(islice(_odd_parts(value, []), MOST_FOUND))


def _is_sound(value: Any) -> bool:
    """Return whether there is no odd part, without looking for the place of each."""
    stack: list[Iterable[Any]] = [[value]]
    while stack:
        for item in stack.pop():
            kind = type(item)
            if kind is dict:
                if not all(map(is_holdable, item)):
                    return False
                stack.append(item.values())
            elif kind is list:
                stack.append(item)
            elif not (is_holdable(item) if kind is str else kind is not float or math.isfinite(item)):
                return False
    return True


def _odd_parts(value: Any, loc: list[Any]) -> Iterator[Problem]:
    """Yield where text contains NUL or a lone surrogate, and where a number is no JSON number."""
    if isinstance(value, str):
        if not is_holdable(value):
            yield {"loc": loc, "msg": "Contains characters that cannot be stored"}
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield {"loc": loc, "msg": "This number is too large, or not a number at all"}
    elif isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(key, str) and not is_holdable(key):
                yield {"loc": loc, "msg": "Contains characters that cannot be stored"}
            else:
                yield from _odd_parts(item, [*loc, key])


# The errors of ``jsonschema`` as messages that name the field and the remedy. Pure.

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
    real = [
        errors
        for errors in branches.values()
        if not all(error.validator == "type" and error.validator_value == "null" for error in errors)
    ] or list(branches.values())
    nearest = max(real, key=_nearness)
    if len(real) > 1 and all(inner.validator == "type" and not inner.relative_path for inner in nearest):
        wrong = [error for errors in real for error in errors if error.validator == "type"]
        names = [_type_name(error.validator_value) for error in wrong]
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


def _type_name(kind: Any) -> str:
    kinds = kind if isinstance(kind, list) else [kind]
    return " or ".join(_TYPES.get(str(name), str(name)) for name in kinds)


def _message_of(error: ValidationError) -> str:
    if error.validator in formats.CHECKS:
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


def _number_of(noun: str, bound: str, verb: str) -> Callable[[Any, ValidationError], str]:
    def write(size: Any, error: ValidationError) -> str:
        given: Any = error.instance
        return f"Must have at {bound} {size} {noun}{'' if size == 1 else 's'}: {verb} {abs(size - len(given))}"

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
    "minItems": _number_of("item", "least", "add"),
    "maxItems": _number_of("item", "most", "remove"),
    "minProperties": _number_of("field", "least", "add"),
    "maxProperties": _number_of("field", "most", "remove"),
    "uniqueItems": lambda _, error: "Must not contain duplicates",
    "pattern": _pattern,
    "format": lambda name, _: f"Must be {formats.words_of(str(name))}",
    "contains": lambda _, error: "Must contain at least one matching item",
    "not": lambda _, error: "This value is not allowed",
    "oneOf": lambda _, error: "Matches several alternatives: remove fields of the others",
    "unevaluatedProperties": lambda _, error: "Unknown fields",
    "unevaluatedItems": lambda _, error: "Too many items: remove the last ones",
}
