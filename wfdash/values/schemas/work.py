"""The work of checking a value against a JSON Schema: bounded while it is done, and refused where a schema alone
tells that it is too much. Pure.

Three kilobytes of ``allOf`` and ``$ref`` take 2^40 steps. What is counted are steps, not seconds: a busy machine
refuses nothing that an idle one takes.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic_core import SchemaError, SchemaValidator, core_schema

from checkpoints.limits import count_nodes
from checkpoints.records import frozen
from wfdash.values.schemas.formats import ENCODED, flaw

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

# Regular expressions of JSON Schemas, matched in time linear in the text. Pure.

_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(\d*)(,?)(\d*)\}|.", re.DOTALL)
_NOT_AHEAD = re.compile(r"\^\(\?!(?P<no>\^[^()]*\$)\)(?P<yes>[^()]*)", re.DOTALL)


class UnsupportedPattern(ValueError):
    """A pattern that is not valid or cannot be checked in bounded time; the message names it."""


@frozen
class Matcher:
    """The pattern a text must contain, and the one it must not."""

    yes: SchemaValidator
    states: int
    """About how many states it has: at worst the engine is in each of them at each character."""
    no: SchemaValidator | None = None

    def finds(self, text: str) -> bool:
        """Return whether the pattern occurs in a text, as ``re.search`` would."""
        return self.yes.isinstance_python(text) and not (self.no and self.no.isinstance_python(text))


@lru_cache(maxsize=512)
def matcher_of(pattern: str) -> Matcher:
    """Return the matcher of a pattern. ``UnsupportedPattern``."""
    parts = _NOT_AHEAD.fullmatch(pattern)
    try:
        if parts is None:
            return Matcher(yes=_compiled(pattern), states=states_of(pattern))
        return Matcher(yes=_compiled(f"^{parts['yes']}"), no=_compiled(parts["no"]), states=states_of(pattern))
    except SchemaError as error:
        why = str(error).rstrip().rpartition("error: ")[2] or "not a regular expression"
        raise UnsupportedPattern(f"The pattern {pattern!r} cannot be checked: {why[:200]}") from error


def _compiled(pattern: str) -> SchemaValidator:
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True))


def states_of(pattern: str) -> int:
    """Return about how many states a pattern has. ``{n,m}`` repeats what it follows; a class takes up to four bytes."""
    totals, last = [0], 0
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        if text == "(":
            totals.append(0)
        elif text.startswith("{") and text.endswith("}") and len(text) > 1:
            times = max((int(one[:6]) for one in (token[1], token[3]) if one), default=1)
            totals[-1] += last * max(0, times - 1)
            last *= max(1, times)
        else:
            last = (totals.pop() if text == ")" and len(totals) > 1 else 0) + (4 if len(text) > 1 else 1)
            totals[-1] += last
    return sum(totals)


def refuse_unsupported(schema: Any) -> None:
    """Raise ``UnsupportedPattern`` for the first pattern anywhere in a JSON Schema that cannot be checked."""
    for pattern in patterns_of(schema):
        matcher_of(pattern)


def is_known(schema: Mapping[str, Any], name: str) -> bool:
    """Return whether an object's schema names this property, or has a pattern for it."""
    return name in schema.get("properties", {}) or any(
        matcher_of(pattern).finds(name) for pattern in schema.get("patternProperties", {})
    )


def refuse_mixture(schema: Any) -> None:
    """Raise ``UnsupportedPattern`` where ``unevaluatedProperties`` would have ``jsonschema`` search with ``re``."""
    keywords = {key for node in _nodes(schema) for key in ("unevaluatedProperties", "patternProperties") if key in node}
    if len(keywords) > 1:
        raise UnsupportedPattern("unevaluatedProperties cannot be checked beside patternProperties")


def patterns_of(schema: Any) -> Iterator[str]:
    """Yield all patterns of a JSON Schema."""
    for node in _nodes(schema):
        if isinstance(node.get("pattern"), str):
            yield node["pattern"]
        if isinstance(node.get("patternProperties"), Mapping):
            yield from map(str, node["patternProperties"])


def _nodes(schema: Any) -> Iterator[Mapping[str, Any]]:
    stack = [schema]
    while stack:
        current = stack.pop()
        if isinstance(current, Mapping):
            yield current
            stack.extend(current.values())
        elif isinstance(current, list):
            stack.extend(current)


def check_pattern(_validator: Any, pattern: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    """Check ``pattern``: the text must contain it."""
    if isinstance(instance, str) and not matcher_of(pattern).finds(instance):
        yield flaw(f"does not match {pattern!r}")


def check_pattern_properties(validator: Any, patterns: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    """Check ``patternProperties``: the values of the properties whose names match."""
    for pattern, inner in patterns.items() if isinstance(instance, Mapping) else ():
        for name, value in instance.items():
            if matcher_of(pattern).finds(name):
                yield from validator.descend(value, inner, path=name, schema_path=pattern)


def check_additional(validator: Any, inner: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Check ``additionalProperties``: properties neither named nor matched by a pattern."""
    more = [name for name in instance if not is_known(schema, name)] if isinstance(instance, Mapping) else []
    if isinstance(inner, Mapping):
        for name in more:
            yield from validator.descend(instance[name], inner, path=name)
    elif inner is False and more:
        yield flaw(f"additional properties: {', '.join(more)}")


CHECKS = {
    "pattern": check_pattern,
    "patternProperties": check_pattern_properties,
    "additionalProperties": check_additional,
}
"""Replacements for checks of ``jsonschema`` that search with ``re``."""


# The bounds, and what each keyword costs. Pure.

MOST_STEPS = 60_000
"""Steps that a check may take: applying a node of a schema to a part of a value is one, about four microseconds."""
MOST_SCHEMA_NODES = 20_000
"""Values in the JSON Schema of an answer."""
MOST_EXPANSION = 5_000
"""Nodes of a schema that apply to one value, each as often as ``$ref``, ``allOf`` and the like lead to it."""
LONGEST_CHAIN = 64
"""References and alternatives one inside of the other that apply to one value."""
MOST_STATES = 50_000
"""States of all patterns of a schema: see ``regex.states_of``."""

LONGEST_REFERENCE = 1_000
"""Characters of a ``$ref``."""

_QUOTED = re.compile(rb'"(?>[^"\\]+|\\.)*+(?:"|\\?\Z)', re.DOTALL)
"""A text of JSON, also one without an end: each byte is looked at once."""
_IN_PLACE = ("not", "if", "then", "else")
_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE_MAPS = ("dependentSchemas", "dependencies")
_BELOW = (
    *("items", "additionalItems", "unevaluatedItems", "contains"),
    *("additionalProperties", "unevaluatedProperties", "propertyNames"),
)
_BELOW_LISTS = ("prefixItems", "items")
_BELOW_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

_left: ContextVar[list[int] | None] = ContextVar("steps that are left", default=None)


class TooMuchWork(ValueError):
    """A check takes more steps than it may, or a schema would."""


@contextmanager
def bounded_work() -> Iterator[None]:
    """Let all checks in this block take ``MOST_STEPS`` together; a block inside of another has no steps of its own."""
    if _left.get() is not None:
        yield
        return
    token = _left.set([MOST_STEPS])
    try:
        yield
    finally:
        _left.reset(token)


def spend(steps: int) -> None:
    """Count steps. ``TooMuchWork`` once there are more than the block may take."""
    left = _left.get()
    if left is not None:
        left[0] -= steps
        if left[0] < 0:
            raise TooMuchWork("It takes too long to check: make it smaller")


def names_parts(schema: Mapping[str, Any]) -> bool:
    """Return whether a part of a schema has a name, by which ``$ref`` may call it."""
    return any(name for node in _nodes_of(schema) for name in _names_of(node))


def has_more_values(text: bytes, most: int) -> bool:
    """Return whether a JSON text holds more than about so many values, without reading it as JSON."""
    return _marks_in(text) > most and _marks_in(_QUOTED.sub(b"", text)) > most


def _marks_in(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def refuse_heavy(schema: Mapping[str, Any]) -> None:
    """Raise ``TooMuchWork`` for a JSON Schema that is too large, or of which too much applies to a single value.

    A schema may refer to itself through fields and items, as recursive models do.
    """
    if count_nodes(schema, MOST_SCHEMA_NODES) > MOST_SCHEMA_NODES:
        raise TooMuchWork(f"it has more than {MOST_SCHEMA_NODES:,} values")
    if sum(map(states_of, patterns_of(schema))) > MOST_STATES:
        raise TooMuchWork(f"its patterns have more than {MOST_STATES:,} states: repeat less in them")
    _Expansion(schema).measure_all()


class _Expansion:
    """How many nodes of a schema apply to one value, by node: each counted once, however many paths lead there."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._nodes = list(_nodes_of(root))
        self._named = {name: node for node in self._nodes for name in _names_of(node)}
        self._known: dict[int, tuple[int, int]] = {}
        self._open: set[int] = set()

    def measure_all(self) -> None:
        for node in self._nodes:
            self._measure(node)

    def _measure(self, node: Mapping[str, Any]) -> tuple[int, int]:
        """Return how many nodes apply with this one, and how long the longest chain of them is."""
        known = self._known.get(id(node))
        if known is not None:
            return known
        if id(node) in self._open:
            raise TooMuchWork("a part of it applies to the value that it is applied to, without an end")
        if len(self._open) > LONGEST_CHAIN:
            raise TooMuchWork(f"more than {LONGEST_CHAIN} references and alternatives are one inside of the other")
        self._open.add(id(node))
        found = [self._measure(part) for part in self._in_place(node)]
        self._open.discard(id(node))
        size, chain = 1 + sum(one[0] for one in found), 1 + max((one[1] for one in found), default=0)
        if size > MOST_EXPANSION:
            raise TooMuchWork(f"$ref, allOf, anyOf and the like apply more than {MOST_EXPANSION:,} parts to one value")
        if chain > LONGEST_CHAIN:
            raise TooMuchWork(f"more than {LONGEST_CHAIN} references and alternatives are one inside of the other")
        self._known[id(node)] = size, chain
        return size, chain

    def _in_place(self, node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        yield from _parts(node, _IN_PLACE, _IN_PLACE_LISTS, _IN_PLACE_MAPS)
        for reference in _REFERENCES:
            ref = node.get(reference)
            if not isinstance(ref, str):
                continue
            if len(ref) > LONGEST_REFERENCE:
                raise TooMuchWork(f"a reference has more than {LONGEST_REFERENCE:,} characters")
            target = self._named[ref] if ref in self._named else target_of(ref, self._root)
            if isinstance(target, Mapping):
                yield target


def _nodes_of(root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield all nodes of a schema: values of ``enum`` and ``default`` are none."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack += _parts(node, (*_IN_PLACE, *_BELOW), (*_IN_PLACE_LISTS, *_BELOW_LISTS), (*_IN_PLACE_MAPS, *_BELOW_MAPS))


def _parts(
    node: Mapping[str, Any], single: tuple[str, ...], lists: tuple[str, ...], maps: tuple[str, ...]
) -> Iterator[Mapping[str, Any]]:
    found = [node.get(name) for name in single]
    for name in lists:
        inner = node.get(name)
        found += inner if isinstance(inner, list) else ()
    for name in maps:
        inner = node.get(name)
        found += inner.values() if isinstance(inner, Mapping) else ()
    return (part for part in found if isinstance(part, Mapping))


def _names_of(node: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a reference may call a node, besides its place."""
    for key in ("$anchor", "$dynamicAnchor"):
        if isinstance(node.get(key), str):
            yield f"#{node[key]}"
    for key in ("$id", "id"):
        if isinstance(node.get(key), str) and node[key]:
            yield node[key]


def counting(draft: Any, checks: Mapping[str, Any]) -> Any:
    """Return a validator class of ``jsonschema`` with these checks, all of whose work is counted."""
    from jsonschema.validators import extend, validator_for

    known = {**draft.VALIDATORS, "uniqueItems": _check_unique, **checks}
    known |= {name: _counted(known[name], cost) for name, cost in _COSTS.items() if name in known}
    made: Any = extend(draft, known)  # type: ignore[no-untyped-call]
    plain_descend, plain_errors = made.descend, made.iter_errors

    def evolve(self: Any, schema: Any, _resolver: Any = None) -> Any:
        """Return a validator of a part of the schema. One with a ``$schema`` of its own gets the class that counts,
        where ``jsonschema`` takes its own, which searches with ``re``.
        """
        spend(1)
        kind = made
        if schema is False:
            schema = {"not": {}}  # Its error would hold the value's text.
        elif schema is not True and "$schema" in schema:
            kind = _CLASSES.get(validator_for(schema, default=made), made)
        return kind(
            schema,
            format_checker=self.format_checker,
            registry=self._registry,
            _resolver=_resolver or self._resolver,
        )

    def descend(self: Any, instance: Any, schema: Any, *args: Any, **kwargs: Any) -> Iterator[ValidationError]:
        if schema is not False:
            return _charged(plain_descend(self, instance, schema, *args, **kwargs))
        return _charged(iter((_forbidden(instance, *args, **kwargs),)))

    made.evolve, made.descend = evolve, descend
    made.iter_errors = lambda self, instance: _charged(plain_errors(self, instance))
    _CLASSES[draft] = made
    return made


def _forbidden(instance: Any, path: Any = None, schema_path: Any = None, **_: Any) -> ValidationError:
    """Return the error of a schema that is ``False``, without the value's text."""
    path, schema_path = ([] if one is None else [one] for one in (path, schema_path))
    return flaw("Must be empty", validator=None, path=path, instance=instance, schema=False, schema_path=schema_path)


def _charged(errors: Iterator[ValidationError]) -> Iterator[ValidationError]:
    """Count errors as they pass: the text of each holds the value."""
    for error in errors:
        spend(1 + len(error.message) // 500)
        yield error


_CLASSES: dict[Any, Any] = {}
"""Classes of ``jsonschema`` and those that count, which take their place."""


def _counted(check: Any, cost: Callable[[Any, Any, Any], int]) -> Any:
    """Return a check that counts its own loops."""

    def run(validator: Any, wanted: Any, instance: Any, schema: Any) -> Any:
        spend(cost(wanted, instance, schema))
        return check(validator, wanted, instance, schema)

    return run


def _check_unique(validator: Any, wanted: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    """Check ``uniqueItems``, in a time linear in the value."""
    if wanted and isinstance(instance, list):
        spend(count_nodes(instance) // 2)
        if len({_frozen(item) for item in instance}) < len(instance):
            yield flaw("has non-unique elements")


def _frozen(value: Any) -> Any:
    """Return a value that can be hashed and is equal to another one's where JSON Schema calls the two equal."""
    if isinstance(value, dict):
        return "object", frozenset((name, _frozen(part)) for name, part in value.items())
    if isinstance(value, list):
        return "array", tuple(map(_frozen, value))
    return (type(value), value) if isinstance(value, bool) else value


def _length(value: Any) -> int:
    return len(value) if isinstance(value, (dict, list)) else 0


def _text_length(value: Any) -> int:
    return len(value) if isinstance(value, str) else 0


def _matching(patterns: Any, value: Any) -> int:
    """Return the steps of matching the names of an object with all patterns."""
    if not isinstance(value, dict):
        return 0
    states = sum(matcher_of(pattern).states for pattern in patterns) if patterns else 0
    return len(value) * (1 + _length(patterns)) // 8 + (states * sum(map(len, value)) // 1000 if states else 0)


_FORMAT_LENGTHS = {"regex": 1, "json-string": 32, **dict.fromkeys(ENCODED, 1024)}
"""Format -> how many characters are checked in one step, where that is not 64."""
_COSTS: dict[str, Callable[[Any, Any, Any], int]] = {
    "enum": lambda wanted, _value, _schema: count_nodes(wanted) // 16,
    "const": lambda wanted, _value, _schema: count_nodes(wanted) // 8,
    "properties": lambda wanted, _value, _schema: _length(wanted) // 64,
    "required": lambda wanted, _value, _schema: _length(wanted) // 64,
    "dependentRequired": lambda wanted, _value, _schema: count_nodes(wanted) // 32,
    "dependencies": lambda wanted, _value, _schema: count_nodes(wanted) // 32,
    "dependentSchemas": lambda wanted, _value, _schema: _length(wanted) // 32,
    "items": lambda _wanted, value, _schema: _length(value) // 4,
    "additionalItems": lambda _wanted, value, _schema: _length(value) // 4,
    "prefixItems": lambda _wanted, value, _schema: _length(value) // 4,
    "propertyNames": lambda _wanted, value, _schema: _length(value) // 4,
    "patternProperties": lambda wanted, value, _schema: _matching(wanted, value),
    "additionalProperties": lambda _wanted, value, schema: _matching(schema.get("patternProperties"), value),
    "unevaluatedItems": lambda _wanted, value, _schema: _length(value) ** 2 // 512,
    "unevaluatedProperties": lambda _wanted, value, _schema: _length(value) ** 2 // 512,
    "pattern": lambda wanted, value, _schema: matcher_of(wanted).states * _text_length(value) // 1000,
    "anyOf": lambda _wanted, _value, _schema: 1,
    "oneOf": lambda _wanted, _value, _schema: 1,
    "$ref": lambda wanted, _value, _schema: 1 + len(wanted) // 8,
    "format": lambda wanted, value, _schema: _text_length(value) // _FORMAT_LENGTHS.get(wanted, 64),
    "contentMediaType": lambda _wanted, value, _schema: _text_length(value) // 256,
    "contentEncoding": lambda _wanted, value, _schema: _text_length(value) // 1024,
    "x-max-bytes": lambda _wanted, value, _schema: _text_length(value) // 1024,
}
"""Keyword -> the steps of its own loops, by what it wants, the value, and the node it stands in."""


# The nodes of a JSON Schema along a path: what it says of one value of a document. Pure.

Schema = Mapping[str, Any]
SINGLE = ("string", "number", "integer", "boolean")


def is_secret(node: Any) -> bool:
    """Say whether a node of a schema calls its value secret."""
    return isinstance(node, Mapping) and (node.get("writeOnly") is True or node.get("format") == "password")


def is_single(node: Schema) -> bool:
    """Return whether a node's values are single ones, neither objects nor lists."""
    given = node.get("type")
    types = given if isinstance(given, list) else [given]
    return any(kind in types for kind in SINGLE) or "enum" in node or "const" in node


def under(node: Schema, key: str) -> Iterator[Schema]:
    """Yield what a node says of the value under a key."""
    properties = node.get("properties")
    if isinstance(properties, Mapping) and key in properties:
        yield properties[key]
    elif isinstance(node.get("additionalProperties"), Mapping):
        yield node["additionalProperties"]


def items_of(node: Schema) -> Iterator[Schema]:
    """Yield what a node says of the items of a list."""
    for name in ("items", "prefixItems"):
        found = node.get(name)
        yield from found if isinstance(found, list) else [found] if found else []


def resolved(nodes: Iterable[Any], root: Schema) -> list[Schema]:
    """Return these schema nodes with everything they refer to and consist of."""
    waiting, found = deque(nodes), dict[int, Schema]()
    while waiting:
        node = waiting.popleft()
        if not isinstance(node, Mapping) or id(node) in found:
            continue
        found[id(node)] = node
        for name in ("allOf", "anyOf", "oneOf"):
            if isinstance(node.get(name), list):
                waiting.extend(node[name])
        if isinstance(node.get("$ref"), str):
            waiting.append(target_of(node["$ref"], root))
    return list(found.values())


def target_of(ref: str, root: Schema) -> Any:
    """Return the target of a reference by a place within the document, None for any other."""
    if ref not in ("", "#") and not ref.startswith("#/"):
        return None
    node: Any = root
    for part in ref.removeprefix("#").split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list):
            node = node[int(key)] if key.isdecimal() and len(key) < 6 and int(key) < len(node) else None
        else:
            node = node.get(key) if isinstance(node, Mapping) else None
    return node
